//! Volatility: which expressions must be computed as often as they are written.

use evenkeel_expr::proc::Volatility;

use crate::bound::{Expr, ExprKind, Query, SublinkKind};

use super::number::NUMBERED;
use super::walk;

/// Whether an expression must be computed once for each row it is written for.
pub(super) fn is_volatile(expr: &Expr) -> bool {
    let mut volatile = false;
    walk::each(expr, &mut |part| {
        volatile |= match &part.kind {
            ExprKind::Call(call) | ExprKind::SetCall(call) => {
                call.proc.volatility == Volatility::Volatile
            }
            ExprKind::AnyAll { op, .. } => op.proc.volatility == Volatility::Volatile,
            _ => false,
        };
    });
    volatile
}

/// The same where subqueries that look at no row of the statement have become parameters: they are
/// computed once, whatever is in them.
pub(super) fn differs_by_row(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Sublink(link) => {
            let tested = matches!(link.kind, SublinkKind::Any(_) | SublinkKind::All(_));
            (tested || is_correlated(&link.query)) && is_volatile(expr)
        }
        ExprKind::Call(call) | ExprKind::SetCall(call)
            if call.proc.volatility == Volatility::Volatile =>
        {
            true
        }
        ExprKind::AnyAll { op, .. } if op.proc.volatility == Volatility::Volatile => true,
        _ => {
            let mut differs = false;
            walk::parts(expr, &mut |part| differs |= differs_by_row(part));
            differs
        }
    }
}

/// The same of a query with all its subqueries.
pub(super) fn query_is_volatile(query: &Query) -> bool {
    let mut volatile = false;
    walk::each_of_query(query, &mut |part| {
        volatile |= match &part.kind {
            ExprKind::Call(call) | ExprKind::SetCall(call) => {
                call.proc.volatility == Volatility::Volatile
            }
            _ => false,
        };
    });
    volatile
}

/// Whether a query that is not numbered itself looks at relations that are.
pub(super) fn is_correlated(query: &Query) -> bool {
    let mut found = false;
    walk::each_of_query(query, &mut |part| {
        found |= match &part.kind {
            ExprKind::Var(var) => var.depth == NUMBERED,
            ExprKind::Aggregate(aggregate) => aggregate.depth == NUMBERED,
            _ => false,
        };
    });
    found
}
