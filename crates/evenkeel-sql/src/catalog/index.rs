//! CREATE INDEX, and indexes whose columns change.

use std::sync::Arc;

use evenkeel_engine::{TableLockMode, Transaction};
use evenkeel_planner::bind;
use evenkeel_planner::catalog::TypesOnly;
use evenkeel_planner::relation::SystemColumn;
use evenkeel_types::TypeContext;

use super::index_expr::{IndexExpr, key_type, read_expr, row_of, type_among};
use super::names::free_name;
use super::parts::TableParts;
use super::{
    Catalog, ColumnInfo, ConstraintKind, DdlLog, IndexInfo, Oid, OperatorClass, TableInfo,
};
use crate::error::{SqlError, SqlResult, SqlState, planner_error};
use crate::key::{INDEX_SESSION, KeyColumn};
use crate::types::Datum;

/// Most columns of an index (PostgreSQL's limit).
const MAX_INDEX_COLUMNS: usize = 32;

/// A column of CREATE INDEX.
#[derive(Debug, Clone)]
pub struct NewIndexColumn {
    /// The table's column, or an expression.
    pub key: NewIndexKey,
    /// DESC
    pub descending: bool,
    /// NULLS FIRST (`None`: as PostgreSQL chooses).
    pub nulls_first: Option<bool>,
    /// The operator class, if one is named.
    pub class: Option<String>,
}

/// Where the values of an index's column come from.
#[derive(Debug, Clone)]
pub enum NewIndexKey {
    /// A column of this name.
    Column(String),
    /// An expression.
    Expression(IndexExpr),
}

/// CREATE INDEX.
#[derive(Debug, Clone)]
pub struct NewIndex {
    /// Name, if it was given one.
    pub name: Option<String>,
    /// Columns.
    pub columns: Vec<NewIndexColumn>,
    /// Names of the columns of INCLUDE.
    pub included: Vec<String>,
    /// UNIQUE
    pub unique: bool,
    /// NULLS NOT DISTINCT
    pub nulls_not_distinct: bool,
    /// IF NOT EXISTS
    pub if_not_exists: bool,
    /// WHERE
    pub predicate: Option<IndexExpr>,
}

impl NewIndex {
    /// The same index on a table of these columns, which have the names that its expressions say.
    ///
    /// # Errors
    /// The binder's, of an expression that is not understood.
    pub fn over(&self, columns: &[ColumnInfo]) -> SqlResult<NewIndex> {
        let mut new = self.clone();
        for column in &mut new.columns {
            if let NewIndexKey::Expression(expression) = &mut column.key {
                let name = Arc::clone(&expression.name);
                let read = read_expr(&expression.text, columns, false)?;
                *expression = IndexExpr { name, ..read };
            }
        }
        if let Some(predicate) = &mut new.predicate {
            *predicate = read_expr(&predicate.text, columns, true)?;
        }
        Ok(new)
    }
}

/// An index to be added to a table that is locked, with all names resolved.
pub(super) struct IndexPlan {
    pub name: String,
    pub columns: Vec<KeyColumn>,
    pub classes: Vec<Option<&'static OperatorClass>>,
    pub expressions: Vec<IndexExpr>,
    pub predicate: Option<IndexExpr>,
    /// Positions of the columns of INCLUDE.
    pub included: Vec<usize>,
    pub unique: bool,
    pub deferrable: bool,
    pub deferred: bool,
    pub nulls_not_distinct: bool,
    pub constraint: Option<ConstraintKind>,
}

/// 42703 for a key.
fn no_key_column(name: &str) -> SqlError {
    if SystemColumn::named(name).is_some() {
        return SqlError::unsupported("index creation on system columns");
    }
    SqlError::new(
        SqlState::UNDEFINED_COLUMN,
        format!("column \"{name}\" named in key does not exist"),
    )
}

impl TableParts {
    /// Reads the expressions of the indexes over the columns as they are now, and answers which
    /// indexes have another text: a name in it has changed since the columns were `before`.
    pub(super) fn renew_expressions(&mut self, before: &[ColumnInfo]) -> SqlResult<Vec<usize>> {
        let mut changed = Vec::new();
        for at in 0..self.indexes.len() {
            let index = &self.indexes[at];
            if index.expressions.is_empty() && index.predicate.is_none() {
                continue;
            }
            let mut renewed = IndexInfo::clone(index);
            let mut other = false;
            let parts = renewed.expressions.iter_mut().map(|part| (part, false));
            for (part, predicate) in parts.chain(renewed.predicate.iter_mut().map(|p| (p, true))) {
                let text = self.renamed(&part.text, predicate, before)?;
                other |= *text != *part.text;
                *part = read_expr(&text, &self.columns, predicate)?;
            }
            for expression in &renewed.expressions {
                key_type(expression.ty)?;
            }
            let mut types = renewed.expressions.iter().map(|expression| expression.ty);
            let of_expressions = renewed.columns.iter_mut();
            for column in of_expressions.filter(|column| column.column.is_none()) {
                column.ty = types.next().unwrap_or(column.ty);
            }
            self.indexes[at] = Arc::new(renewed);
            if other {
                changed.push(at);
            }
        }
        Ok(changed)
    }

    /// A text over the columns `before` with the names that they have now, if they are as many.
    fn renamed(&self, text: &str, predicate: bool, before: &[ColumnInfo]) -> SqlResult<String> {
        let names = |columns: &[ColumnInfo]| -> Vec<Arc<str>> {
            columns
                .iter()
                .map(|column| Arc::clone(&column.name))
                .collect()
        };
        if before.len() != self.columns.len() || names(before) == names(&self.columns) {
            return Ok(text.to_owned());
        }
        let (old, new) = (Arc::new(row_of(before)), row_of(&self.columns));
        let names = TypesOnly(|_: Option<&str>, name: &str| type_among(before, name));
        let renamed =
            bind::rename_index_expr((text, predicate), &old, &new, &names, &*INDEX_SESSION);
        renamed.map_err(|error| planner_error(error, text))
    }
}

/// The column of an index, in the default order of NULLs unless one was asked for.
pub(super) fn key_column(
    columns: &[ColumnInfo],
    name: &str,
    descending: bool,
    nulls_first: Option<bool>,
) -> SqlResult<KeyColumn> {
    let mut positions = columns.iter();
    let column = positions.position(|column| &*column.name == name);
    let column = column.ok_or_else(|| no_key_column(name))?;
    let ty = columns[column].ty;
    key_type(ty)?;
    Ok(KeyColumn {
        column: Some(column),
        ty,
        descending,
        nulls_first: nulls_first.unwrap_or(descending),
    })
}

/// 54011 for an index of too many columns.
pub(super) fn check_width(columns: usize) -> SqlResult<()> {
    if columns <= MAX_INDEX_COLUMNS {
        return Ok(());
    }
    let message = format!("cannot use more than {MAX_INDEX_COLUMNS} columns in an index");
    Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, message))
}

/// 0A000 if one of the columns at these positions is computed where it is read: its value is not in
/// the row that keys are made of.
pub(super) fn refuse_virtual(
    columns: &[ColumnInfo],
    mut positions: impl Iterator<Item = usize>,
    what: &str,
) -> SqlResult<()> {
    if positions.any(|at| columns.get(at).is_some_and(ColumnInfo::is_virtual)) {
        let message = format!("{what} on virtual generated columns are not supported");
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    Ok(())
}

/// The positions of the columns of INCLUDE, which may have any type.
pub(super) fn included(
    columns: &[ColumnInfo],
    names: &[String],
    missing: &dyn Fn(SqlError, &str) -> SqlError,
) -> SqlResult<Vec<usize>> {
    let position = |name: &String| {
        let mut positions = columns.iter();
        let found = positions.position(|column| *column.name == **name);
        found.ok_or_else(|| missing(no_key_column(name), name))
    };
    names.iter().map(position).collect()
}

/// PostgreSQL's words for a column that CREATE INDEX does not find.
fn no_column(error: SqlError, name: &str) -> SqlError {
    match error.sqlstate {
        SqlState::UNDEFINED_COLUMN => {
            let message = format!("column \"{name}\" does not exist");
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        }
        _ => error,
    }
}

/// The names of an index's columns: one that comes again gets a number.
pub fn numbered_names<'n>(given: impl Iterator<Item = &'n str>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in given {
        let numbered = (1..).map(|number| format!("{name}{number}"));
        let mut tried = std::iter::once(name.to_owned()).chain(numbered);
        names.extend(tried.find(|tried| !names.contains(tried)));
    }
    names
}

/// The parts of the name of an index that was given none.
pub(super) fn join_names(
    columns: &[ColumnInfo],
    (keys, included): (&[KeyColumn], &[usize]),
    expressions: &[IndexExpr],
) -> String {
    let mut expressions = expressions.iter();
    let names = keys.iter().filter_map(|key| match key.column {
        Some(column) => columns.get(column).map(|column| &*column.name),
        None => expressions.next().map(|expression| &*expression.name),
    });
    let others = included.iter().filter_map(|at| columns.get(*at));
    let names = names.chain(others.map(|column| &*column.name));
    numbered_names(names).join("_")
}

impl IndexInfo {
    /// The name, the type and the words of the key's column at this place, from 0.
    pub fn expression_at(&self, at: usize) -> Option<&IndexExpr> {
        let none = |column: &&KeyColumn| column.column.is_none();
        self.columns.get(at).filter(none)?;
        let number = self.columns[..at].iter().filter(none).count();
        self.expressions.get(number)
    }

    /// The columns and the values of a row's key, as DETAIL has them; none of a key that equals no
    /// other.
    pub fn described(
        &self,
        columns: &[ColumnInfo],
        row: &[u8],
        types: &TypeContext,
    ) -> SqlResult<Option<String>> {
        let Some(values) = self.key.values(row)? else {
            return Ok(None);
        };
        let names = self.columns.iter().enumerate().map(|(at, column)| {
            let name = column.column.and_then(|column| columns.get(column));
            let expression = || self.expression_at(at).map(|e| e.among_columns(false));
            let name = name.map(|column| column.name.to_string());
            name.or_else(expression).unwrap_or_default()
        });
        let names: Vec<String> = names.collect();
        let shown = self
            .columns
            .iter()
            .zip(&values)
            .map(|(column, value)| match value {
                Datum::Null => "null".to_owned(),
                value => value.to_text(column.ty, types),
            });
        let shown: Vec<String> = shown.collect();
        let (names, shown) = (names.join(", "), shown.join(", "));
        Ok(Some(format!("Key ({names})=({shown})")))
    }

    /// The error of an index that cannot be built because of a row.
    pub(super) fn duplicated(
        &self,
        parts: &TableParts,
        row: &[u8],
        error: SqlError,
    ) -> SqlResult<SqlError> {
        let error = match self.described(&parts.columns, row, &TypeContext::default())? {
            Some(key) => error.detail(format!("{key} is duplicated.")),
            None => error,
        };
        Ok(error
            .table(&*parts.schema, &*parts.name)
            .constraint(&*self.name))
    }
}

/// The key of a new index, with its names resolved.
struct NewKeys {
    columns: Vec<KeyColumn>,
    classes: Vec<Option<&'static OperatorClass>>,
    expressions: Vec<IndexExpr>,
}

fn new_keys(new: &NewIndex, table: &[ColumnInfo]) -> SqlResult<NewKeys> {
    let mut keys = NewKeys {
        columns: Vec::with_capacity(new.columns.len()),
        classes: Vec::with_capacity(new.columns.len()),
        expressions: Vec::new(),
    };
    for column in &new.columns {
        let descending = column.descending;
        let key = match &column.key {
            NewIndexKey::Column(name) => {
                let key = key_column(table, name, descending, column.nulls_first);
                key.map_err(|error| no_column(error, name))?
            }
            NewIndexKey::Expression(expression) => {
                key_type(expression.ty)?;
                keys.expressions.push(expression.clone());
                KeyColumn {
                    column: None,
                    ty: expression.ty,
                    descending,
                    nulls_first: column.nulls_first.unwrap_or(descending),
                }
            }
        };
        let class = column.class.as_deref();
        let class = class.map(|name| OperatorClass::named(name, key.ty));
        keys.classes.push(class.transpose()?.flatten());
        keys.columns.push(key);
    }
    Ok(keys)
}

impl Catalog {
    /// Creates an index and fills it. `None` if the name is taken and IF NOT EXISTS was said.
    ///
    /// # Errors
    /// 42P07, 42703, 23505 when the rows have duplicates, and the engine's.
    pub async fn create_index(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        table: Oid,
        new: &NewIndex,
    ) -> SqlResult<Option<Arc<TableInfo>>> {
        // Conflicts with itself, so that two at once do not lose each other's index.
        let table = self
            .lock_table(txn, ddl, table, TableLockMode::ShareRowExclusive)
            .await?;
        let mut parts = TableParts::of(&table);
        check_width(new.columns.len() + new.included.len())?;
        let keys = new_keys(new, &parts.columns)?;
        let included = included(&parts.columns, &new.included, &no_column)?;
        let named = keys.columns.iter().filter_map(|column| column.column);
        let computed = keys.expressions.iter().chain(&new.predicate);
        let computed = computed.flat_map(|part| part.columns.iter().copied());
        let all = named.chain(included.iter().copied()).chain(computed);
        refuse_virtual(&parts.columns, all, "indexes")?;
        let NewKeys {
            columns,
            classes,
            expressions,
        } = keys;
        let words = join_names(&parts.columns, (&columns, &included), &expressions);
        let name = match &new.name {
            Some(name) => name.clone(),
            None => {
                let state = self.view(ddl);
                free_name(&state, parts.schema_oid, &[], &parts.name, &words, "idx")
            }
        };
        if !self
            .claim_name(txn, ddl, parts.schema_oid, &name, new.if_not_exists)
            .await?
        {
            return Ok(None);
        }
        let plan = IndexPlan {
            name,
            columns,
            classes,
            expressions,
            predicate: new.predicate.clone(),
            included,
            unique: new.unique,
            deferrable: false,
            deferred: false,
            nulls_not_distinct: new.nulls_not_distinct,
            constraint: None,
        };
        self.add_index(txn, &mut parts, plan).await?;
        self.finish(txn, ddl, parts).map(Some)
    }
}
