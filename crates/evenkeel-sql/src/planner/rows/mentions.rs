//! The places of kept texts that hang on types that were created.

use std::sync::Arc;

use evenkeel_planner::bind::{self, TypeMention};

use super::checks::row_of;
use super::names::Names;
use crate::catalog::{TableInfo, ViewInfo};
use crate::deep::on_deep_stack;
use crate::error::{SqlResult, planner_error};
use crate::exec::StatementCx;
use crate::exec::row::RowSession;
use crate::types::SqlType;

/// Those of an expression over a table's columns; one that `gives` a column its value is read as
/// that column's type.
///
/// # Errors
/// Those of an expression that is no longer understood.
pub fn in_expression(
    text: &str,
    gives: Option<SqlType>,
    table: &TableInfo,
    cx: &Arc<StatementCx>,
) -> SqlResult<Vec<TypeMention>> {
    on_deep_stack(|| {
        let (names, session) = (Names::new(Arc::clone(cx)), RowSession::new(Arc::clone(cx)));
        let relation = Arc::new(row_of(table));
        let found = bind::type_mentions(text, gives, &relation, (&names, &session));
        found.map_err(|error| planner_error(error, text))
    })
}

/// Those of a view's query.
///
/// # Errors
/// Those of a view that cannot be read.
pub fn in_view(view: &ViewInfo, cx: &Arc<StatementCx>) -> SqlResult<Vec<TypeMention>> {
    on_deep_stack(|| {
        let found = Names::new(Arc::clone(cx)).mentions_in(view);
        found.map_err(|error| planner_error(error, &view.text))
    })
}
