//! Conditions on the result of a subquery that may be asked within it.

use crate::bound::{Distinct, Expr, ExprKind, Query};

use super::number::NUMBERED;
use super::problem::Clause;
use super::tree::has_set;
use super::volatility::is_volatile;
use super::walk;

/// Whether a condition on a subquery's rows leaves the same rows when it is asked within it: not
/// past a limit, a window, a set operation or DISTINCT ON, nor past a grouping of other columns.
pub(super) fn may_push(query: &Query, rel: usize, clause: &Clause) -> bool {
    if query.limit.is_some()
        || query.offset.is_some()
        || query.set_operation.is_some()
        || matches!(query.distinct, Distinct::On(_))
        || !query.grouping_sets.is_empty()
        || !clause.rels.has(rel)
        || is_volatile(&clause.expr)
        || walk::any(&clause.expr, &mut |part| {
            matches!(part.kind, ExprKind::Sublink(_))
        })
    {
        return false;
    }
    let mut fits = true;
    walk::each(&clause.expr, &mut |part| {
        if let ExprKind::Var(var) = part.kind
            && var.depth == NUMBERED
            && var.rel == rel
        {
            let target = &query.targets[var.column].expr;
            let windowed = query.windows.is_empty() || is_partition(query, target);
            let grouped = !query.grouped
                || query
                    .group_by
                    .iter()
                    .any(|group| super::path::same(group, target));
            fits &= windowed && grouped && !is_volatile(target) && !has_set(target);
            fits &= !walk::any(target, &mut |part| {
                matches!(part.kind, ExprKind::Sublink(_) | ExprKind::Aggregate(_))
            });
        }
    });
    // A column of an outer query is numbered already; only those of the subquery are put in.
    fits
}

fn is_partition(query: &Query, target: &Expr) -> bool {
    query.windows.iter().all(|window| {
        let mut columns = window.partition_by.iter();
        columns.any(|column| super::path::same(column, target))
    })
}

/// Adds conditions on a subquery's result to its WHERE.
pub(super) fn push(query: &mut Query, rel: usize, clauses: &[&Clause]) {
    for clause in clauses {
        let mut expr = Expr::clone(&clause.expr);
        put_in(&mut expr, rel, query);
        let all = match query.filter.take() {
            None => vec![expr],
            Some(Expr {
                kind: ExprKind::And(mut items),
                ..
            }) => {
                items.push(expr);
                items
            }
            Some(filter) => vec![filter, expr],
        };
        query.filter = Some(Expr {
            at: all[0].at,
            kind: ExprKind::And(all),
            ty: evenkeel_types::SqlType::Bool,
        });
    }
}

fn put_in(expr: &mut Expr, rel: usize, query: &Query) {
    if let ExprKind::Var(var) = expr.kind
        && var.depth == NUMBERED
        && var.rel == rel
    {
        *expr = query.targets[var.column].expr.clone();
        return;
    }
    walk::parts_mut(expr, &mut |part| put_in(part, rel, query));
}
