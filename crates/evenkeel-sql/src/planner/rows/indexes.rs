//! Expressions and predicates of CREATE INDEX.

use std::sync::Arc;

use evenkeel_planner::ast::Expr;
use evenkeel_planner::bind::{self, BoundIndexExpr};

use super::mentions;
use super::names::Names;
use super::relations::relation_of;
use crate::catalog::TableInfo;
use crate::error::{SqlError, SqlResult, planner_error};
use crate::exec::StatementCx;
use crate::exec::row::RowSession;
use crate::types::SqlType;

/// An expression of an index on a table, or its predicate, in a command of this text.
///
/// # Errors
/// PostgreSQL's of names and types, with positions; 42P17 for what is not immutable.
pub fn bind(
    text: &str,
    written: &Expr,
    table: &TableInfo,
    predicate: bool,
    cx: &Arc<StatementCx>,
) -> SqlResult<BoundIndexExpr> {
    let relation = Arc::new(relation_of(table, &cx.view));
    let (names, session) = (Names::new(Arc::clone(cx)), RowSession::new(Arc::clone(cx)));
    let bound = match predicate {
        true => bind::bind_index_predicate(written, &relation, &names, &session),
        false => bind::bind_index_expression(written, &relation, &names, &session),
    };
    let bound = bound.map_err(|error| planner_error(error, text))?;
    refuse_other_types(&bound, table, cx)?;
    Ok(bound)
}

/// 0A000 for an expression with a type that was created and that none of its columns has: it is
/// read again over those alone, when the database opens too.
fn refuse_other_types(
    bound: &BoundIndexExpr,
    table: &TableInfo,
    cx: &Arc<StatementCx>,
) -> SqlResult<()> {
    let has = |ty: SqlType| {
        let mut columns = bound.columns.iter().filter_map(|at| table.columns.get(*at));
        columns.any(|column| column.declared().created() == ty.created())
    };
    let mentions = mentions::in_expression(&bound.text, None, table, cx)?;
    match mentions.iter().find(|mention| !has(mention.ty)) {
        Some(mention) => Err(SqlError::unsupported(format!(
            "an index expression with type {}, which no column in it has,",
            mention.ty.name()
        ))),
        None => Ok(()),
    }
}
