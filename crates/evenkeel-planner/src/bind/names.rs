//! The fields of rows that come from further inside: columns of subqueries that are rows.

use std::sync::Arc;

use evenkeel_types::{SqlState, SqlType};

use super::scope::Scope;
use super::tables;
use crate::PlanError;
use crate::ast::Pos;
use crate::bound::{Expr, ExprKind, Query, RangeKind, WHOLE_ROW};

type Fields = Vec<(Arc<str>, SqlType)>;

/// The fields of a column of an entry of the range table of `scopes[scope]`.
pub(super) fn fields_of_column(
    scopes: &[Scope],
    scope: usize,
    rel: usize,
    column: usize,
) -> Option<Fields> {
    let entry = scopes.get(scope)?.range_table.get(rel)?;
    match &entry.kind {
        RangeKind::Subquery(query) => {
            let target = query.targets.iter().filter(|t| !t.junk).nth(column)?;
            fields_within(&target.expr, query)
        }
        RangeKind::Cte { depth, cte, .. } => {
            let owner = scopes.get(scope.checked_sub(*depth)?)?;
            let query = &owner.ctes.get(*cte)?.bound.as_ref()?.query;
            let target = query.targets.iter().filter(|t| !t.junk).nth(column)?;
            fields_within(&target.expr, query)
        }
        RangeKind::Values(rows) => fields_of_target(rows.first()?.get(column)?),
        RangeKind::Join { columns } => match &columns.get(column)?.kind {
            ExprKind::Var(var) if var.depth == 0 => {
                fields_of_column(scopes, scope, var.rel, var.column)
            }
            _ => None,
        },
        _ => None,
    }
}

fn fields_within(expr: &Expr, query: &Query) -> Option<Fields> {
    match &expr.kind {
        ExprKind::Var(var) if var.depth == 0 => {
            let entry = query.range_table.get(var.rel)?;
            if var.column == WHOLE_ROW {
                let names = entry.columns.iter().cloned();
                return Some(names.zip(entry.types.iter().copied()).collect());
            }
            match &entry.kind {
                RangeKind::Subquery(inner) => {
                    let mut shown = inner.targets.iter().filter(|t| !t.junk);
                    fields_within(&shown.nth(var.column)?.expr, inner)
                }
                _ => None,
            }
        }
        _ => fields_of_target(expr),
    }
}

/// The fields of an expression that shows them without its query.
pub(super) fn fields_of_target(expr: &Expr) -> Option<Fields> {
    match &expr.kind {
        ExprKind::Row(fields) => {
            let named = fields.iter().enumerate();
            Some(
                named
                    .map(|(i, field)| (format!("f{}", i + 1).into(), field.ty))
                    .collect(),
            )
        }
        ExprKind::Call(call) | ExprKind::SetCall(call) => {
            let columns = tables::row_columns(call.proc);
            (!columns.is_empty()).then(|| {
                let named = columns.iter();
                named.map(|(name, ty)| ((*name).into(), *ty)).collect()
            })
        }
        _ => None,
    }
}

/// 3F000
pub(super) fn no_schema(schema: &str, at: Pos) -> PlanError {
    let message = format!("schema \"{schema}\" does not exist");
    PlanError::new(SqlState::INVALID_SCHEMA_NAME, message).at(at)
}
