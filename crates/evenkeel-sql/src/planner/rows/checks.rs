//! CHECK constraints: from what was written to what is stored, and their programs.

use std::sync::Arc;

use evenkeel_planner::ast::WrittenExpr;
use evenkeel_planner::bind::{self, BoundCheck, Kept, RowValue};
use evenkeel_planner::parser;
use evenkeel_planner::plan::NodeKind;
use evenkeel_planner::quote::identifier;
use evenkeel_planner::relation::{Column, GeneratedAs, Relation, RelationKind, RelationSize};

use super::names::Names;
use crate::catalog::{Generated, TableInfo, split_domain};
use crate::error::planner_error;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::StatementCx;
use crate::exec::row::{RowRules, RowSession};
use crate::parser::parse::parse;
use crate::types::SqlType;

/// The condition of a CHECK constraint in a command of this text, on a table of these columns.
///
/// # Errors
/// PostgreSQL's of names and types, with positions.
pub fn bind_check(
    text: &str,
    written: &WrittenExpr,
    table: &str,
    columns: &[(&str, SqlType)],
    cx: &Arc<StatementCx>,
) -> SqlResult<BoundCheck> {
    let relation = Arc::new(over_columns(table, columns.iter().copied()));
    let (names, session) = (Names::new(Arc::clone(cx)), RowSession::new(Arc::clone(cx)));
    let bound = bind::bind_check(&written.expr, &relation, &names, &session);
    bound.map_err(|error| planner_error(error, text))
}

/// The relation that a condition over these columns is bound to.
pub(super) fn over_columns<'a>(
    table: &str,
    columns: impl Iterator<Item = (&'a str, SqlType)>,
) -> Relation {
    let columns = columns.map(|(name, ty)| Column {
        name: Arc::from(name),
        ty: ty.storage(),
        domain: split_domain(ty).1,
        not_null: false,
        default: None,
        identity: None,
        generated: None,
        stats: None,
    });
    Relation {
        oid: 0,
        schema: Arc::from(""),
        name: Arc::from(table),
        kind: RelationKind::Table,
        columns: columns.collect(),
        indexes: Vec::new(),
        checks: Vec::new(),
        keys: Vec::new(),
        size: RelationSize::default(),
        past: None,
    }
}

/// The relation that an expression over a table's row is bound to.
pub(super) fn row_of(table: &TableInfo) -> Relation {
    let columns = table.columns.iter();
    over_columns(
        &table.name,
        columns.map(|column| (&*column.name, column.declared())),
    )
}

/// A condition over a table's columns as it is with another name for one of them.
///
/// # Errors
/// XX000 for a condition that is no longer understood.
pub fn renamed(
    text: &str,
    table: &TableInfo,
    at: usize,
    to: &str,
    cx: &Arc<StatementCx>,
) -> SqlResult<BoundCheck> {
    let before = row_of(table);
    let after = over_columns(&table.name, renamed_columns(table, at, to));
    let (names, session) = (Names::new(Arc::clone(cx)), RowSession::new(Arc::clone(cx)));
    let bound = bind::rename_check(text, &Arc::new(before), &after, &names, &session);
    bound.map_err(|error| planner_error(error, text))
}

/// A condition over a table's columns as it reads when one of them has another type.
///
/// # Errors
/// PostgreSQL's of operators and functions that the new type does not have.
pub fn retyped(
    text: &str,
    table: &TableInfo,
    at: usize,
    to: SqlType,
    cx: &Arc<StatementCx>,
) -> SqlResult<BoundCheck> {
    let written = parser::parse_expr(text).map_err(|error| planner_error(error, text))?;
    let columns = table.columns.iter().enumerate();
    let columns = columns.map(|(number, column)| match number == at {
        true => (&*column.name, to),
        false => (&*column.name, column.declared()),
    });
    let relation = Arc::new(over_columns(&table.name, columns));
    let (names, session) = (Names::new(Arc::clone(cx)), RowSession::new(Arc::clone(cx)));
    let bound = bind::bind_check(&written, &relation, &names, &session);
    bound.map_err(|error| planner_error(error, text).without_position())
}

/// The programs of a table's generated columns and CHECK constraints: those of an INSERT.
///
/// # Errors
/// XX000 for an expression that is no longer understood.
pub fn programs(table: &TableInfo, cx: &Arc<StatementCx>) -> SqlResult<RowRules> {
    let generated = table
        .columns
        .iter()
        .any(|column| column.generated.is_some());
    if table.checks.is_empty() && !generated {
        return Ok(RowRules::default());
    }
    let name = format!("{}.{}", identifier(&table.schema), identifier(&table.name));
    let text = format!("INSERT INTO {name} DEFAULT VALUES");
    let broken = || SqlError::internal("a table without a plan of its constraints");
    let statement = parse(&text)?.ok_or_else(broken)?;
    let query = super::plan(&text, &statement, cx, &[], false, false)?;
    let plan = Arc::try_unwrap(query.plan).map_err(|_| broken())?;
    match plan.take_root().kind {
        NodeKind::ModifyTable {
            generated, checks, ..
        } => Ok(RowRules { generated, checks }),
        _ => Err(broken()),
    }
}

/// The expression of a generated column, in a command of this text, on a table of these columns,
/// each with whether it is generated.
///
/// # Errors
/// PostgreSQL's of names and types, with positions.
pub fn generated(
    text: &str,
    (written, kept): (&WrittenExpr, Kept),
    table: &str,
    (columns, at): (&[(&str, SqlType, bool)], usize),
    cx: &Arc<StatementCx>,
) -> SqlResult<Generated> {
    let row = columns.iter().map(|(name, ty, _)| (*name, *ty));
    let mut relation = over_columns(table, row);
    for (column, (.., generated)) in relation.columns.iter_mut().zip(columns) {
        column.generated = generated.then(|| GeneratedAs {
            text: Arc::from(""),
            is_virtual: false,
        });
    }
    let missing = || SqlError::internal("a generated column is not there");
    let (name, ty, _) = columns.get(at).ok_or_else(missing)?;
    let (names, session) = (Names::new(Arc::clone(cx)), RowSession::new(Arc::clone(cx)));
    if kept == Kept::Virtual {
        refuse_created(name, *ty)?;
    }
    let (value, relation) = (RowValue::Generated(name, kept), Arc::new(relation));
    let bound = bind::bind_row_value(&written.expr, *ty, value, &relation, (&names, &session));
    let bound = bound.map_err(|error| planner_error(error, text))?;
    Ok(Generated {
        text: bound.text.into(),
        pretty: bound.pretty.into(),
        columns: bound.columns,
        is_virtual: kept == Kept::Virtual,
    })
}

/// 0A000 for a type that a column which is not stored cannot have.
fn refuse_created(name: &str, ty: SqlType) -> SqlResult<()> {
    let refused = |what: &str| {
        let message = format!("virtual generated column \"{name}\" cannot have a {what} type");
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
    };
    if let (_, Some(_)) = split_domain(ty) {
        return refused("domain");
    }
    let element = ty.element().unwrap_or(ty);
    if element.created().is_none() {
        return Ok(());
    }
    refused("user-defined").map_err(|error| {
        error.detail(
            "Virtual generated columns that make use of user-defined types are not yet supported.",
        )
    })
}

/// An expression of a generated column as it is with another name for one of the columns: its
/// text, and the same with the parentheses that are needed.
///
/// # Errors
/// XX000 for an expression that is no longer understood.
pub fn renamed_generated(
    text: &str,
    table: &TableInfo,
    (at, to): (usize, &str),
    cx: &Arc<StatementCx>,
) -> SqlResult<(String, String)> {
    let written = parser::parse_expr(text).map_err(|error| planner_error(error, text))?;
    let before = row_of(table);
    let after = over_columns(&table.name, renamed_columns(table, at, to));
    let (names, session) = (Names::new(Arc::clone(cx)), RowSession::new(Arc::clone(cx)));
    let of = (&Arc::new(before), &after);
    let renamed = bind::rename_generated(&written, of, &names, &session);
    renamed.map_err(|error| planner_error(error, text))
}

fn renamed_columns<'a>(
    table: &'a TableInfo,
    at: usize,
    to: &'a str,
) -> impl Iterator<Item = (&'a str, SqlType)> {
    let columns = table.columns.iter().enumerate();
    columns.map(move |(number, column)| match number == at {
        true => (to, column.declared()),
        false => (&*column.name, column.declared()),
    })
}
