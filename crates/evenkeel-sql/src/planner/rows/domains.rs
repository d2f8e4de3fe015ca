//! Domains: the conditions of one, and the programs that ask it.

use std::sync::Arc;

use evenkeel_expr::program::Program;
use evenkeel_planner::ast::WrittenExpr;
use evenkeel_planner::bind::{self, BoundDomainCheck, RowValue, TypeMention};
use evenkeel_planner::parser;
use evenkeel_planner::quote::identifier;

use super::checks::over_columns;
use super::names::Names;
use crate::catalog::TableInfo;
use crate::error::{SqlError, SqlResult, planner_error};
use crate::exec::StatementCx;
use crate::exec::row::RowSession;
use crate::types::SqlType;

/// The condition of a domain over `base` in a command of this text.
///
/// # Errors
/// PostgreSQL's of names and types, with positions.
pub fn bind_check(
    text: &str,
    written: &WrittenExpr,
    (base, schema): (SqlType, &str),
    cx: &Arc<StatementCx>,
) -> SqlResult<BoundDomainCheck> {
    let (names, session) = (Names::new(Arc::clone(cx)), RowSession::new(Arc::clone(cx)));
    let bound = bind::bind_domain_check(&written.expr, base, schema, (&names, &session));
    bound.map_err(|error| planner_error(error, text))
}

/// The places of a domain's text, its default or a condition, that hang on types.
///
/// # Errors
/// Those of an expression that is no longer understood.
pub fn mentions(
    text: &str,
    of: (SqlType, &str),
    default: bool,
    cx: &Arc<StatementCx>,
) -> SqlResult<Vec<TypeMention>> {
    let (names, session) = (Names::new(Arc::clone(cx)), RowSession::new(Arc::clone(cx)));
    let found = bind::domain_mentions(text, of, default, (&names, &session));
    found.map_err(|error| planner_error(error, text))
}

/// The program that gives a column's value of a row, once a domain, or each element of an array
/// one, has allowed it.
///
/// # Errors
/// XX000 for a condition that is no longer understood.
pub fn guard(
    table: &TableInfo,
    at: usize,
    ty: SqlType,
    cx: &Arc<StatementCx>,
) -> SqlResult<Program> {
    let columns = table.columns.iter();
    let columns = columns.map(|column| (&*column.name, column.ty));
    let relation = Arc::new(over_columns(&table.name, columns));
    let missing = || SqlError::internal("a column that is not there has a domain");
    let column = &table.columns.get(at).ok_or_else(missing)?.name;
    let text = identifier(column);
    let written = parser::parse_expr(&text).map_err(|error| planner_error(error, &text))?;
    let (names, session) = (Names::new(Arc::clone(cx)), RowSession::new(Arc::clone(cx)));
    let value = RowValue::Transform {
        column,
        using: false,
    };
    let bound = bind::bind_row_value(&written, ty, value, &relation, (&names, &session));
    let made = bound.and_then(|bound| super::row_programs(&bound.bound, &session, cx));
    let made = made.map_err(|error| planner_error(error, &text))?;
    made.into_iter().next().ok_or_else(missing)
}

/// The programs that ask the domains of some columns whether they allow their values, by position.
///
/// # Errors
/// As [`guard`].
pub fn guards(
    table: &TableInfo,
    columns: &[usize],
    cx: &Arc<StatementCx>,
) -> SqlResult<Vec<(usize, Program)>> {
    let mut guards = Vec::new();
    for at in columns {
        let domain = table.columns.get(*at).and_then(|column| column.domain);
        if let Some(ty) = domain.filter(|ty| ty.domain().is_some_and(|of| of.is_constrained())) {
            guards.push((*at, guard(table, *at, ty, cx)?));
        }
    }
    Ok(guards)
}
