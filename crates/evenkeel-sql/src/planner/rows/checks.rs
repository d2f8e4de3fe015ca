//! CHECK constraints: from what was written to what is stored, and their programs.

use std::sync::Arc;

use evenkeel_planner::ast::WrittenExpr;
use evenkeel_planner::bind::{self, BoundCheck};
use evenkeel_planner::plan::{Check, NodeKind};
use evenkeel_planner::quote::identifier;
use evenkeel_planner::relation::{Column, Relation, RelationKind, RelationSize};

use super::names::Names;
use crate::catalog::TableInfo;
use crate::error::planner_error;
use crate::error::{SqlError, SqlResult};
use crate::exec::StatementCx;
use crate::exec::row::RowSession;
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
    let columns = columns.iter().map(|(name, ty)| Column {
        name: Arc::from(*name),
        ty: *ty,
        not_null: false,
        default: None,
        identity: None,
        stats: None,
    });
    let relation = Arc::new(Relation {
        oid: 0,
        schema: Arc::from(""),
        name: Arc::from(table),
        kind: RelationKind::Table,
        columns: columns.collect(),
        indexes: Vec::new(),
        checks: Vec::new(),
        size: RelationSize::default(),
    });
    let (names, session) = (Names::new(Arc::clone(cx)), RowSession::new(Arc::clone(cx)));
    let bound = bind::bind_check(&written.expr, &relation, &names, &session);
    bound.map_err(|error| planner_error(error, text))
}

/// The programs of a table's CHECK constraints, over its columns: those of an INSERT.
///
/// # Errors
/// XX000 for a constraint that is no longer understood.
pub fn programs(table: &TableInfo, cx: &Arc<StatementCx>) -> SqlResult<Vec<Check>> {
    if table.checks.is_empty() {
        return Ok(Vec::new());
    }
    let name = format!("{}.{}", identifier(&table.schema), identifier(&table.name));
    let text = format!("INSERT INTO {name} DEFAULT VALUES");
    let broken = || SqlError::internal("a table without a plan of its constraints");
    let statement = parse(&text)?.ok_or_else(broken)?;
    let query = super::plan(&text, &statement, cx, &[], false)?;
    let plan = Arc::try_unwrap(query.plan).map_err(|_| broken())?;
    match plan.root.kind {
        NodeKind::ModifyTable { checks, .. } => Ok(checks),
        _ => Err(broken()),
    }
}
