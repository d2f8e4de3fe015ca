//! Expressions and predicates of indexes.

use std::sync::Arc;

use evenkeel_planner::bind::{self, BoundIndexExpr};
use evenkeel_planner::catalog::TypesOnly;
use evenkeel_planner::parser;
use evenkeel_planner::relation::{Column, Relation, RelationKind, RelationSize};

use super::ColumnInfo;
use crate::error::{SqlError, SqlResult, SqlState, planner_error};
use crate::key::{ComputedKey, INDEX_SESSION, IndexKey, KeyColumn, is_indexable};
use crate::types::SqlType;

/// An expression or the predicate of an index.
#[derive(Debug, Clone)]
pub struct IndexExpr {
    /// As SQL text with every cast.
    pub text: Arc<str>,
    /// The same with the parentheses that are needed.
    pub pretty: Arc<str>,
    /// Its type.
    pub ty: SqlType,
    /// Whether it is written as a call of a function.
    pub call: bool,
    /// The name of its column of the index.
    pub name: Arc<str>,
    /// The table's columns that it looks at, from 0.
    pub columns: Vec<usize>,
    /// Its program over a row of the table.
    pub program: Arc<evenkeel_expr::program::Program>,
}

impl IndexExpr {
    /// As it stands among the columns of an index: in parentheses, unless it is a call.
    pub fn among_columns(&self, pretty: bool) -> String {
        let text = if pretty { &self.pretty } else { &self.text };
        match self.call {
            true => text.to_string(),
            false => format!("({text})"),
        }
    }
}

impl From<BoundIndexExpr> for IndexExpr {
    fn from(bound: BoundIndexExpr) -> IndexExpr {
        IndexExpr {
            text: bound.text.into(),
            pretty: bound.pretty.into(),
            ty: bound.ty,
            call: bound.call,
            name: bound.name.into(),
            columns: bound.columns,
            program: Arc::new(bound.program),
        }
    }
}

/// The types of a table's columns by name, for expressions that mention their table only.
pub(super) fn type_among(columns: &[ColumnInfo], name: &str) -> Option<SqlType> {
    let named = |ty: &SqlType| ty.created().is_some_and(|of| of.is_called(name));
    let mut types = columns
        .iter()
        .map(|column| column.ty.element().unwrap_or(column.ty));
    types.find(named)
}

/// An expression of an index, or its predicate, from its text.
pub(super) fn read_expr(
    text: &str,
    columns: &[ColumnInfo],
    predicate: bool,
) -> SqlResult<IndexExpr> {
    let relation = Arc::new(row_of(columns));
    let names = TypesOnly(|_: Option<&str>, name: &str| type_among(columns, name));
    let bind = match predicate {
        true => bind::bind_index_predicate,
        false => bind::bind_index_expression,
    };
    let written = parser::parse_expr(text);
    let bound = written.and_then(|written| bind(&written, &relation, &names, &*INDEX_SESSION));
    bound
        .map(IndexExpr::from)
        .map_err(|error| planner_error(error, text))
}

/// A table of these columns, for expressions over its rows.
pub(super) fn row_of(columns: &[ColumnInfo]) -> Relation {
    let columns = columns.iter().map(|column| Column {
        name: Arc::clone(&column.name),
        ty: column.ty,
        domain: column.domain,
        not_null: column.not_null.is_some(),
        default: None,
        identity: None,
        generated: None,
        stats: None,
    });
    Relation {
        oid: 0,
        schema: Arc::from(""),
        name: Arc::from(""),
        kind: RelationKind::Table,
        columns: columns.collect(),
        indexes: Vec::new(),
        keys: Vec::new(),
        checks: Vec::new(),
        size: RelationSize::default(),
        past: None,
    }
}

/// The parts of keys that are computed.
pub(super) fn computed(expressions: &[IndexExpr], predicate: Option<&IndexExpr>) -> ComputedKey {
    let mut mentions: Vec<usize> = Vec::new();
    for part in expressions.iter().chain(predicate) {
        let new = part
            .columns
            .iter()
            .filter(|column| !mentions.contains(column));
        let new: Vec<usize> = new.copied().collect();
        mentions.extend(new);
    }
    ComputedKey {
        expressions: expressions.iter().map(|e| Arc::clone(&e.program)).collect(),
        predicate: predicate.map(|predicate| Arc::clone(&predicate.program)),
        mentions,
    }
}

/// Refuses a type that no key can have.
///
/// # Errors
/// 42704, 0A000
pub(super) fn key_type(ty: SqlType) -> SqlResult<()> {
    if !is_indexable(ty) {
        let message = format!(
            "data type {} has no default operator class for access method \"btree\"",
            ty.base_name()
        );
        let error = SqlError::new(SqlState::UNDEFINED_OBJECT, message);
        let hint = "You must specify an operator class for the index or define a default \
                    operator class for the data type.";
        return Err(error.hint(hint));
    }
    Ok(())
}

/// The keys of an index on a table of this layout.
pub(super) fn index_key(
    layout: &Arc<evenkeel_types::row::RowLayout>,
    columns: &[KeyColumn],
    computed: ComputedKey,
    nulls_not_distinct: bool,
) -> Arc<IndexKey> {
    let key = IndexKey::new(Arc::clone(layout), columns.to_vec()).computed(computed);
    Arc::new(if nulls_not_distinct {
        key.nulls_not_distinct()
    } else {
        key
    })
}
