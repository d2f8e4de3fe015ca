//! Statements.

use super::{
    Alias, Command, Expr, FromItem, Name, Pos, QualifiedName, Query, SortDirection, Subscript,
    Target, With,
};

/// A statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// `SELECT`, `VALUES`, `TABLE`
    Query(Box<Query>),
    /// `INSERT`
    Insert(Box<Insert>),
    /// `UPDATE`
    Update(Box<Update>),
    /// `DELETE`
    Delete(Box<Delete>),
    /// `MERGE`
    Merge(Box<Merge>),
    /// A command, which has no plan.
    Command(Box<Command>),
}

/// The table that a statement changes.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeTarget {
    /// Its name.
    pub name: QualifiedName,
    /// `ONLY`
    pub only: bool,
    /// `AS alias`
    pub alias: Option<Name>,
}

/// `INSERT`
#[derive(Debug, Clone, PartialEq)]
pub struct Insert {
    /// `WITH`
    pub with: Option<With>,
    /// The table.
    pub target: ChangeTarget,
    /// The columns, if given.
    pub columns: Vec<SetTarget>,
    /// `OVERRIDING SYSTEM VALUE` (true) or `USER VALUE`
    pub overriding: Option<bool>,
    /// The rows; `None` for `DEFAULT VALUES`.
    pub source: Option<Query>,
    /// `ON CONFLICT`
    pub on_conflict: Option<OnConflict>,
    /// `RETURNING`
    pub returning: Option<Returning>,
    /// Where it begins.
    pub at: Pos,
}

/// A column that is given a value, perhaps a part of it.
#[derive(Debug, Clone, PartialEq)]
pub struct SetTarget {
    /// The column.
    pub name: Name,
    /// Subscripts and fields after it.
    pub parts: Vec<SetPart>,
}

/// A part of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum SetPart {
    /// `.field`
    Field(Name),
    /// `[i]`
    Subscript(Subscript),
}

/// `ON CONFLICT`
#[derive(Debug, Clone, PartialEq)]
pub struct OnConflict {
    /// The columns or expressions of the index, if given.
    pub target: Vec<IndexElement>,
    /// Where they begin.
    pub target_at: Pos,
    /// The index's own condition.
    pub target_filter: Option<Expr>,
    /// `ON CONSTRAINT name`
    pub constraint: Option<Name>,
    /// `DO UPDATE`; `None` is `DO NOTHING`.
    pub update: Option<ConflictUpdate>,
    /// Where it begins.
    pub at: Pos,
}

/// A column or expression of an index, as ON CONFLICT names it.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexElement {
    /// The column, or the expression.
    pub value: Expr,
    /// Whether it stands in parentheses, which make an expression of a column's name too.
    pub enclosed: bool,
    /// `COLLATE`
    pub collation: Option<QualifiedName>,
    /// The operator class.
    pub operator_class: Option<QualifiedName>,
    /// Whether the operator class is given options.
    pub class_options: bool,
    /// `ASC`, `DESC`; ON CONFLICT takes neither.
    pub direction: SortDirection,
    /// `NULLS FIRST` (true) or `NULLS LAST`; ON CONFLICT takes neither.
    pub nulls_first: Option<bool>,
}

/// `DO UPDATE SET … WHERE …`
#[derive(Debug, Clone, PartialEq)]
pub struct ConflictUpdate {
    /// The assignments.
    pub set: Vec<Assignment>,
    /// `WHERE`
    pub filter: Option<Expr>,
}

/// An assignment of SET.
#[derive(Debug, Clone, PartialEq)]
pub enum Assignment {
    /// `column = value`
    One(SetTarget, Expr),
    /// `(a, b) = (x, y)`, `(a, b) = (SELECT …)`
    Many(Vec<SetTarget>, Expr),
}

/// `RETURNING [WITH (OLD AS o, NEW AS n)] …`
#[derive(Debug, Clone, PartialEq)]
pub struct Returning {
    /// The name of the old row, if given.
    pub old: Option<Name>,
    /// The name of the new row, if given.
    pub new: Option<Name>,
    /// The list.
    pub targets: Vec<Target>,
}

/// `UPDATE`
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// `WITH`
    pub with: Option<With>,
    /// The table.
    pub target: ChangeTarget,
    /// `SET`
    pub set: Vec<Assignment>,
    /// `FROM`
    pub from: Vec<FromItem>,
    /// `WHERE`
    pub filter: Option<Expr>,
    /// `RETURNING`
    pub returning: Option<Returning>,
    /// Where it begins.
    pub at: Pos,
}

/// `DELETE`
#[derive(Debug, Clone, PartialEq)]
pub struct Delete {
    /// `WITH`
    pub with: Option<With>,
    /// The table.
    pub target: ChangeTarget,
    /// `USING`
    pub using: Vec<FromItem>,
    /// `WHERE`
    pub filter: Option<Expr>,
    /// `RETURNING`
    pub returning: Option<Returning>,
    /// Where it begins.
    pub at: Pos,
}

/// `MERGE`
#[derive(Debug, Clone, PartialEq)]
pub struct Merge {
    /// `WITH`
    pub with: Option<With>,
    /// The table.
    pub target: ChangeTarget,
    /// `USING`
    pub source: FromItem,
    /// `ON`
    pub on: Expr,
    /// The clauses, in order.
    pub clauses: Vec<MergeClause>,
    /// `RETURNING`
    pub returning: Option<Returning>,
    /// Where it begins.
    pub at: Pos,
}

/// `WHEN …`
#[derive(Debug, Clone, PartialEq)]
pub struct MergeClause {
    /// Which rows.
    pub when: MergeWhen,
    /// `AND condition`
    pub condition: Option<Expr>,
    /// The action.
    pub action: MergeAction,
}

/// The rows that a clause of MERGE is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeWhen {
    /// `MATCHED`
    Matched,
    /// `NOT MATCHED [BY TARGET]`
    NotMatchedByTarget,
    /// `NOT MATCHED BY SOURCE`
    NotMatchedBySource,
}

/// The action of a clause of MERGE.
#[derive(Debug, Clone, PartialEq)]
pub enum MergeAction {
    /// `UPDATE SET …`
    Update(Vec<Assignment>),
    /// `DELETE`
    Delete,
    /// `INSERT (…) VALUES (…)`; no values is `DEFAULT VALUES`.
    Insert {
        columns: Vec<SetTarget>,
        overriding: Option<bool>,
        values: Option<Vec<Expr>>,
    },
    /// `DO NOTHING`
    Nothing,
}

/// The alias of a table, where only a name may be given.
impl From<Name> for Alias {
    fn from(name: Name) -> Alias {
        Alias {
            name,
            columns: Vec::new(),
        }
    }
}
