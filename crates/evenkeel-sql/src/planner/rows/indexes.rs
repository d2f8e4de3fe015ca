//! Expressions and predicates of CREATE INDEX.

use std::sync::Arc;

use evenkeel_planner::ast::Expr;
use evenkeel_planner::bind::{self, BoundIndexExpr};

use super::names::Names;
use super::relations::relation_of;
use crate::catalog::TableInfo;
use crate::error::{SqlResult, planner_error};
use crate::exec::StatementCx;
use crate::exec::row::RowSession;

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
    bound.map_err(|error| planner_error(error, text))
}
