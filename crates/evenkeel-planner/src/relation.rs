//! A relation as the binder and the planner see it, with what statistics say of it.

use std::sync::Arc;

use evenkeel_expr::program::Program;
use evenkeel_types::{Datum, SqlType};

/// PostgreSQL's object id.
pub type Oid = u32;

/// How a relation has its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelationKind {
    /// A table with a heap.
    Table,
    /// Rows made by the server when asked for: catalogs and statistics views.
    Virtual,
    /// A sequence, read as a table of one row.
    Sequence,
    /// A query, which [`crate::catalog::Catalog::view`] gives.
    View,
}

/// A relation.
#[derive(Debug, Clone)]
pub struct Relation {
    /// Oid.
    pub oid: Oid,
    /// Schema.
    pub schema: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Kind.
    pub kind: RelationKind,
    /// Columns, in order.
    pub columns: Vec<Column>,
    /// Indexes that may be used, in the order of the engine's table.
    pub indexes: Vec<Index>,
    /// CHECK constraints, in the order in which they are checked.
    pub checks: Vec<Check>,
    /// The foreign keys that changes of its rows concern, in the order in which they act.
    pub keys: Vec<KeyUse>,
    /// Size.
    pub size: RelationSize,
    /// In the text of a view, the relation as it was when the view was made.
    pub past: Option<Past>,
}

/// A foreign key of a relation, or one that refers to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyUse {
    /// Its oid.
    pub oid: Oid,
    /// Whether it refers to the relation, or else is the relation's own.
    pub referred: bool,
    /// Positions of the relation's columns in it, from 0.
    pub columns: Vec<usize>,
}

/// A relation as it was is shown under the names that its columns had, without those that came
/// later, which are the last ones.
#[derive(Debug, Clone)]
pub struct Past {
    /// How many columns came later.
    pub hidden: usize,
    /// The names that the columns have now, and texts that are kept for the relation know.
    pub names: Vec<Arc<str>>,
}

impl Relation {
    /// The names by which texts that are kept for the relation refer to its columns.
    pub fn kept_names(&self) -> Vec<Arc<str>> {
        match &self.past {
            Some(past) => past.names.clone(),
            None => self.columns.iter().map(|c| Arc::clone(&c.name)).collect(),
        }
    }

    /// Whether a foreign key, of this table or to it, has the column.
    pub fn is_keyed(&self, column: usize) -> bool {
        self.keys.iter().any(|key| key.columns.contains(&column))
    }
}

/// A CHECK constraint.
#[derive(Debug, Clone)]
pub struct Check {
    /// Name.
    pub name: Arc<str>,
    /// Its condition, as SQL text.
    pub text: Arc<str>,
}

/// GENERATED … AS IDENTITY
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// ALWAYS: a statement that gives a value must say so.
    Always,
    /// BY DEFAULT
    ByDefault,
}

/// A column that every table has and that no list of columns shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemColumn {
    /// `ctid`: the place of the row's version.
    Ctid,
    /// `xmin`: the transaction that made it.
    Xmin,
    /// `cmin`: the command that made it.
    Cmin,
    /// `xmax`: the transaction that deleted or replaced it, or tried to.
    Xmax,
    /// `cmax`: the command that did.
    Cmax,
    /// `tableoid`: its table.
    TableOid,
}

impl SystemColumn {
    /// All, in the order of PostgreSQL's numbers (-1 to -6).
    pub const ALL: [SystemColumn; 6] = [
        SystemColumn::Ctid,
        SystemColumn::Xmin,
        SystemColumn::Cmin,
        SystemColumn::Xmax,
        SystemColumn::Cmax,
        SystemColumn::TableOid,
    ];
    /// The first of their numbers, which are those of no column of a table.
    const FIRST: usize = usize::MAX - 16;

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            SystemColumn::Ctid => "ctid",
            SystemColumn::Xmin => "xmin",
            SystemColumn::Cmin => "cmin",
            SystemColumn::Xmax => "xmax",
            SystemColumn::Cmax => "cmax",
            SystemColumn::TableOid => "tableoid",
        }
    }

    /// Its type.
    pub fn ty(self) -> SqlType {
        match self {
            SystemColumn::Ctid => SqlType::Tid,
            SystemColumn::Xmin | SystemColumn::Xmax => SqlType::Xid,
            SystemColumn::Cmin | SystemColumn::Cmax => SqlType::Cid,
            SystemColumn::TableOid => SqlType::Oid,
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<SystemColumn> {
        SystemColumn::ALL.into_iter().find(|of| of.name() == name)
    }

    /// The number that stands for it among the positions of a table's columns.
    pub fn position(self) -> usize {
        SystemColumn::FIRST + self as usize
    }

    /// The one whose number this is.
    pub fn at(position: usize) -> Option<SystemColumn> {
        let place = position.checked_sub(SystemColumn::FIRST)?;
        SystemColumn::ALL.get(place).copied()
    }
}

/// A column.
#[derive(Debug, Clone)]
pub struct Column {
    /// Name.
    pub name: Arc<str>,
    /// The type of its values.
    pub ty: SqlType,
    /// The domain, or the type of arrays of one, that it was declared with.
    pub domain: Option<SqlType>,
    /// NOT NULL.
    pub not_null: bool,
    /// DEFAULT, as SQL text.
    pub default: Option<Arc<str>>,
    /// GENERATED AS IDENTITY, whose default takes the next number.
    pub identity: Option<Identity>,
    /// GENERATED ALWAYS AS (…)
    pub generated: Option<GeneratedAs>,
    /// Statistics from ANALYZE.
    pub stats: Option<Arc<ColumnStatistics>>,
}

/// The value of a generated column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratedAs {
    /// The expression over the other columns, as SQL text.
    pub text: Arc<str>,
    /// VIRTUAL: it is computed where it is read, and NULL is stored.
    pub is_virtual: bool,
}

impl Column {
    /// Whether its value is computed where it is read.
    #[must_use]
    pub fn is_virtual(&self) -> bool {
        self.generated.as_ref().is_some_and(|of| of.is_virtual)
    }

    /// The type that it was declared with.
    #[must_use]
    pub fn declared(&self) -> SqlType {
        self.domain.unwrap_or(self.ty)
    }
}

/// A B-tree.
#[derive(Debug, Clone)]
pub struct Index {
    /// Oid.
    pub oid: Oid,
    /// Name.
    pub name: Arc<str>,
    /// Its number in the engine's table.
    pub position: usize,
    /// Columns in key order.
    pub columns: Vec<IndexColumn>,
    /// The expressions of those columns that are none of the table's, in order.
    pub expressions: Vec<IndexExpression>,
    /// The condition of the rows that it has, as SQL text.
    pub predicate: Option<Arc<str>>,
    /// The columns of the table that its expressions and its predicate look at.
    pub mentions: Vec<usize>,
    /// Whether no two rows may have the same key (NULLs apart, unless `nulls_not_distinct`).
    pub unique: bool,
    /// Whether two rows may have the same key until the statement or the transaction ends.
    pub deferrable: bool,
    /// NULLS NOT DISTINCT.
    pub nulls_not_distinct: bool,
    /// Whether it is the primary key's.
    pub primary: bool,
    /// Whether it enforces a constraint of its name.
    pub constraint: bool,
    /// Pages of the tree.
    pub pages: f64,
}

impl Index {
    /// Whether no statement sees two rows with the same key.
    #[must_use]
    pub fn is_proof(&self) -> bool {
        self.unique && !self.deferrable
    }

    /// Whether it has all rows, by columns of the table alone.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.expressions.is_empty() && self.predicate.is_none()
    }

    /// The columns of the relation that its keys are made of, by its predicate too.
    pub fn looks_at(&self) -> impl Iterator<Item = usize> {
        let columns = self.columns.iter().filter_map(|column| column.column);
        columns.chain(self.mentions.iter().copied())
    }

    /// The number in [`Index::expressions`] of the key's column at this place, if it is one.
    #[must_use]
    pub fn expression_at(&self, at: usize) -> Option<usize> {
        let none = |column: &&IndexColumn| column.column.is_none();
        let is_expression = self.columns.get(at).is_some_and(|column| none(&column));
        is_expression.then(|| self.columns[..at].iter().filter(none).count())
    }
}

/// An expression of an index.
#[derive(Debug, Clone)]
pub struct IndexExpression {
    /// The expression, as SQL text with every cast.
    pub text: Arc<str>,
    /// The same as an index's definition shows it.
    pub shown: Arc<str>,
    /// Its program over a row of the table.
    pub program: Arc<Program>,
}

/// A column of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexColumn {
    /// Position of the column in the relation, from 0; none for an expression.
    pub column: Option<usize>,
    /// Its type.
    pub ty: SqlType,
    /// Descending.
    pub desc: bool,
    /// NULLs before all values.
    pub nulls_first: bool,
}

impl Relation {
    /// Its schema and its name.
    pub fn names(&self) -> (&str, &str) {
        (&self.schema, &self.name)
    }
}

/// How large a relation is.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RelationSize {
    /// Pages of the heap now.
    pub pages: f64,
    /// Rows, scaled to the pages there are now.
    pub rows: f64,
    /// Share of pages that are all-visible.
    pub all_visible: f64,
}

/// `pg_statistic` of one column.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ColumnStatistics {
    /// `stanullfrac`
    pub null_fraction: f64,
    /// `stawidth`: average bytes.
    pub width: f64,
    /// `stadistinct`: a count, or when negative minus the share of rows that are distinct; 0 if
    /// it is not known.
    pub distinct: f64,
    /// Most common values with their share of all rows.
    pub most_common: Vec<(Datum, f64)>,
    /// Bounds of a histogram of the others, equally populated.
    pub histogram: Vec<Datum>,
    /// Between the order of values and of rows, -1 to 1.
    pub correlation: f64,
}
