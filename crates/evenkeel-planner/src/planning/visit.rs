//! The expressions and children of a path.

use std::rc::Rc;

use crate::bound::{Expr, FrameBound};

use super::path::{Change, IndexMatch, Path, PathKind, PathRef};

/// The relation whose own definition has expressions that are not in the path.
pub(super) fn rel(path: &Path) -> Option<usize> {
    match &path.kind {
        PathKind::Scan { rel, .. } => Some(*rel),
        _ => None,
    }
}

/// Calls `f` with the children of a path.
pub(super) fn children(path: &Path, f: &mut dyn FnMut(&PathRef)) {
    match &path.kind {
        PathKind::Nothing
        | PathKind::Result { .. }
        | PathKind::Scan { .. }
        | PathKind::Index { .. }
        | PathKind::Bitmap { .. } => {}
        PathKind::Subquery { child, .. }
        | PathKind::Materialize { child }
        | PathKind::Memoize { child }
        | PathKind::Sort { child, .. }
        | PathKind::Project { child, .. }
        | PathKind::ProjectSet { child, .. }
        | PathKind::Filter { child, .. }
        | PathKind::Aggregate { child, .. }
        | PathKind::Window { child, .. }
        | PathKind::Unique { child, .. }
        | PathKind::LockRows { child, .. }
        | PathKind::Modify { child, .. }
        | PathKind::Limit { child, .. } => f(child),
        PathKind::NestedLoop { outer, inner, .. } | PathKind::Hash { outer, inner, .. } => {
            f(outer);
            f(inner);
        }
        PathKind::Append { children, .. } => children.iter().for_each(f),
        PathKind::SetOperation { left, right, .. } => {
            f(left);
            f(right);
        }
        PathKind::RecursiveUnion { first, step, .. } => {
            f(first);
            f(step);
        }
    }
}

/// Calls `f` with the path's own expressions.
pub(super) fn exprs(path: &Path, f: &mut dyn FnMut(&Expr)) {
    match &path.kind {
        PathKind::Result { conditions: all }
        | PathKind::Scan { filter: all, .. }
        | PathKind::Subquery { filter: all, .. }
        | PathKind::Project { exprs: all, .. }
        | PathKind::ProjectSet { exprs: all, .. }
        | PathKind::Filter { filter: all, .. }
        | PathKind::Unique { exprs: all, .. } => all.iter().for_each(|expr| f(expr)),
        PathKind::Index { keys, filter, .. } => {
            index_exprs(keys, f);
            filter.iter().for_each(|expr| f(expr));
        }
        PathKind::Bitmap {
            bitmap,
            recheck,
            filter,
            ..
        } => {
            bitmap.each_search(&mut |keys| index_exprs(keys, f));
            recheck.iter().chain(filter).for_each(|expr| f(expr));
        }
        PathKind::NestedLoop {
            condition, filter, ..
        } => condition.iter().chain(filter).for_each(|expr| f(expr)),
        PathKind::Hash {
            keys,
            condition,
            filter,
            ..
        } => {
            let keys = keys.iter().flat_map(|(outer, inner)| [outer, inner]);
            keys.chain(condition).chain(filter).for_each(|expr| f(expr));
        }
        PathKind::Sort { keys, .. } => keys.iter().for_each(|key| f(&key.expr)),
        PathKind::Aggregate {
            group, aggregates, ..
        } => group.iter().chain(aggregates).for_each(|expr| f(expr)),
        PathKind::Window {
            partition,
            order,
            frame,
            functions,
            ..
        } => {
            partition.iter().chain(functions).for_each(|expr| f(expr));
            order.iter().for_each(|key| f(&key.expr));
            bound_exprs([&frame.start, &frame.end], f);
        }
        PathKind::Limit {
            offset,
            count,
            ties,
            ..
        } => {
            offset.iter().chain(count).for_each(|expr| f(expr));
            ties.iter().flatten().for_each(|key| f(&key.expr));
        }
        PathKind::Modify { change, .. } => change_exprs(change, f),
        PathKind::Nothing
        | PathKind::Materialize { .. }
        | PathKind::Memoize { .. }
        | PathKind::LockRows { .. }
        | PathKind::Append { .. }
        | PathKind::SetOperation { .. }
        | PathKind::RecursiveUnion { .. } => {}
    }
}

fn bound_exprs(bounds: [&FrameBound; 2], f: &mut dyn FnMut(&Expr)) {
    for bound in bounds {
        if let FrameBound::Preceding(value) | FrameBound::Following(value) = bound {
            f(value);
        }
    }
}

fn change_exprs(change: &Change, f: &mut dyn FnMut(&Expr)) {
    let update = change.conflict.iter().filter_map(|c| c.update.as_ref());
    let update = update.flat_map(|update| update.values.iter().chain(&update.filter));
    let clauses = change.merge.iter().flat_map(|merge| &merge.clauses);
    let clauses = clauses.flat_map(|clause| clause.condition.iter().chain(&clause.values));
    let all = change.returning.iter().chain(update).chain(clauses);
    all.for_each(|expr| f(expr));
}

fn index_exprs(keys: &IndexMatch, f: &mut dyn FnMut(&Expr)) {
    let ends = keys.low.iter().chain(&keys.high).map(|(expr, _)| expr);
    let all = keys.equal.iter().chain(&keys.any).chain(ends);
    all.for_each(|expr| f(Rc::as_ref(expr)));
}
