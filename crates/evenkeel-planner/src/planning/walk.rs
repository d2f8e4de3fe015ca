//! Walks over bound expressions and queries, with the depth of nested queries.

use std::sync::Arc;

use crate::bound::{
    Expr, ExprKind, FrameBound, FromNode, Query, RangeEntry, RangeKind, SortKey, SublinkKind,
};

/// Calls `$f` with each direct part of the node `$kind`, shared or (`iter_mut, mut`) for changing.
macro_rules! each_part {
    ($kind:expr, $f:ident, $iter:ident $(, $mutable:tt)?) => {
        match $kind {
            ExprKind::Const(_)
            | ExprKind::Param(_)
            | ExprKind::Var(_)
            | ExprKind::CaseOperand
            | ExprKind::DomainValue
            | ExprKind::SublinkColumn(_)
            | ExprKind::Grouping(_)
            | ExprKind::Default => {}
            ExprKind::Call(call) | ExprKind::SetCall(call) => call.args.$iter().for_each($f),
            ExprKind::Cast { arg, .. }
            | ExprKind::Relabel(arg)
            | ExprKind::Not(arg)
            | ExprKind::IsNull { arg, .. }
            | ExprKind::IsBool { arg, .. }
            | ExprKind::Field { row: arg, .. } => $f(arg),
            ExprKind::And(items)
            | ExprKind::Or(items)
            | ExprKind::Coalesce(items)
            | ExprKind::Row(items)
            | ExprKind::NamedRow(_, items)
            | ExprKind::Extreme { args: items, .. }
            | ExprKind::Array { items, .. } => items.$iter().for_each($f),
            ExprKind::IsDistinct { left, right, .. } | ExprKind::NullIf { left, right, .. } => {
                $f(left);
                $f(right);
            }
            ExprKind::Case {
                operand,
                branches,
                otherwise,
            } => {
                if let Some(operand) = operand {
                    $f(operand);
                }
                for (condition, value) in branches {
                    $f(condition);
                    $f(value);
                }
                $f(otherwise);
            }
            ExprKind::AnyAll { left, array, .. } => {
                $f(left);
                $f(array);
            }
            ExprKind::Subscript { array, indexes } => {
                $f(array);
                indexes.$iter().for_each($f);
            }
            ExprKind::Slice { array, ranges } => {
                $f(array);
                for (lower, upper) in ranges {
                    lower.$iter().chain(upper).for_each(&mut *$f);
                }
            }
            ExprKind::AssignPart(part) => part.$iter().for_each($f),
            // Its conditions look at their value alone.
            ExprKind::ToDomain(domain) => $f(&$($mutable)? domain.arg),
            ExprKind::RowCompare { pairs, .. } => {
                for (left, right, ..) in pairs {
                    $f(left);
                    $f(right);
                }
            }
            ExprKind::Sublink(sublink) => match &$($mutable)? sublink.kind {
                SublinkKind::Any(test) | SublinkKind::All(test) => $f(test),
                SublinkKind::Exists | SublinkKind::Scalar | SublinkKind::Array => {}
            },
            ExprKind::Aggregate(aggregate) => {
                aggregate.direct.$iter().for_each(&mut *$f);
                aggregate.args.$iter().for_each(&mut *$f);
                for SortKey { key, .. } in &$($mutable)? aggregate.order_by {
                    $f(key);
                }
                aggregate.filter.$iter().for_each($f);
            }
            ExprKind::Window(window) => {
                window.args.$iter().for_each(&mut *$f);
                window.filter.$iter().for_each($f);
            }
        }
    };
}

/// Calls `f` with each direct part of an expression, those of a sublink's own level included; its
/// query is left to the caller.
pub(super) fn parts<'e>(expr: &'e Expr, f: &mut dyn FnMut(&'e Expr)) {
    parts_of(&expr.kind, f);
}

/// The same for a node without its type.
pub(super) fn parts_of<'e>(kind: &'e ExprKind, f: &mut dyn FnMut(&'e Expr)) {
    each_part!(kind, f, iter);
}

/// As [`parts`], for changing them.
pub(super) fn parts_mut(expr: &mut Expr, f: &mut dyn FnMut(&mut Expr)) {
    each_part!(&mut expr.kind, f, iter_mut, mut);
}

/// Changes expressions and entries of the range table, wherever they are in a query.
pub(super) trait Change {
    /// An expression whose parts have been changed, `depth` queries below the one that the walk
    /// began with.
    fn expr(&mut self, expr: &mut Expr, depth: usize);
    /// An entry of a range table.
    fn entry(&mut self, entry: &mut RangeEntry, depth: usize);
    /// A query, before its parts.
    fn query(&mut self, _query: &mut Query) {}
}

/// Walks through an expression with all its subqueries, parts first.
pub(super) fn change_expr(expr: &mut Expr, depth: usize, change: &mut dyn Change) {
    if let ExprKind::Sublink(sublink) = &mut expr.kind {
        change_query(Arc::make_mut(&mut sublink.query), depth + 1, change);
    }
    parts_mut(expr, &mut |part| change_expr(part, depth, change));
    change.expr(expr, depth);
}

/// Walks through a query with all its subqueries.
pub(super) fn change_query(query: &mut Query, depth: usize, change: &mut dyn Change) {
    change.query(query);
    for cte in &mut query.ctes {
        change_query(&mut Arc::make_mut(cte).query, depth + 1, change);
    }
    for entry in &mut query.range_table {
        match &mut entry.kind {
            RangeKind::Subquery(query) => change_query(Arc::make_mut(query), depth + 1, change),
            RangeKind::Functions { calls, .. } => {
                let args = calls.iter_mut().flat_map(|call| &mut call.args);
                args.for_each(|arg| change_expr(arg, depth, change));
            }
            RangeKind::Values(rows) => {
                let values = rows.iter_mut().flatten();
                values.for_each(|value| change_expr(value, depth, change));
            }
            RangeKind::Join { columns } => {
                columns
                    .iter_mut()
                    .for_each(|column| change_expr(column, depth, change));
            }
            RangeKind::Relation(_)
            | RangeKind::Cte { .. }
            | RangeKind::Excluded(_)
            | RangeKind::Version(_)
            | RangeKind::MergeAction => {}
        }
        for index in &mut entry.indexes {
            let all = index.expressions.iter_mut().chain(&mut index.predicate);
            all.for_each(|expr| change_expr(expr, depth, change));
        }
        for (_, value) in &mut entry.virtuals {
            change_expr(value, depth, change);
        }
        change.entry(entry, depth);
    }
    for node in &mut query.from {
        change_from(node, depth, change);
    }
    let Query {
        targets,
        filter,
        group_by,
        having,
        windows,
        offset,
        limit,
        ..
    } = query;
    let mut all: Vec<&mut Expr> = targets.iter_mut().map(|target| &mut target.expr).collect();
    all.extend(filter);
    all.extend(group_by);
    all.extend(having);
    all.extend(offset);
    all.extend(limit);
    for window in windows {
        all.extend(&mut window.partition_by);
        all.extend(window.order_by.iter_mut().map(|key| &mut key.key));
        for bound in [&mut window.frame.start, &mut window.frame.end] {
            if let FrameBound::Preceding(value) | FrameBound::Following(value) = bound {
                all.push(value);
            }
        }
    }
    for expr in all {
        change_expr(expr, depth, change);
    }
}

fn change_from(node: &mut FromNode, depth: usize, change: &mut dyn Change) {
    let FromNode::Join(join) = node else { return };
    change_from(&mut join.left, depth, change);
    change_from(&mut join.right, depth, change);
    if let Some(condition) = &mut join.condition {
        change_expr(condition, depth, change);
    }
}

/// Whether `test` holds of an expression or one of its parts; a sublink's query is not entered.
pub(super) fn any(expr: &Expr, test: &mut dyn FnMut(&Expr) -> bool) -> bool {
    if test(expr) {
        return true;
    }
    let mut found = false;
    parts(expr, &mut |part| found = found || any(part, test));
    found
}

/// Calls `f` with an expression and all its parts, those of subqueries included.
pub(super) fn each(expr: &Expr, f: &mut dyn FnMut(&Expr)) {
    f(expr);
    if let ExprKind::Sublink(sublink) = &expr.kind {
        each_of_query(&sublink.query, f);
    }
    parts(expr, &mut |part| each(part, f));
}

/// Calls `f` with every expression of a query and of its subqueries.
pub(super) fn each_of_query(query: &Query, f: &mut dyn FnMut(&Expr)) {
    for cte in &query.ctes {
        each_of_query(&cte.query, f);
    }
    for entry in &query.range_table {
        match &entry.kind {
            RangeKind::Subquery(query) => each_of_query(query, f),
            RangeKind::Functions { calls, .. } => {
                let args = calls.iter().flat_map(|call| &call.args);
                args.for_each(|arg| each(arg, f));
            }
            RangeKind::Values(rows) => rows.iter().flatten().for_each(|value| each(value, f)),
            RangeKind::Join { columns } => columns.iter().for_each(|column| each(column, f)),
            RangeKind::Relation(_)
            | RangeKind::Cte { .. }
            | RangeKind::Excluded(_)
            | RangeKind::Version(_)
            | RangeKind::MergeAction => {}
        }
    }
    query.from.iter().for_each(|node| each_of_from(node, f));
    let targets = query.targets.iter().map(|target| &target.expr);
    let others = [&query.filter, &query.having, &query.offset, &query.limit];
    let others = others.into_iter().flatten();
    targets
        .chain(others)
        .chain(&query.group_by)
        .for_each(|expr| each(expr, f));
    for window in &query.windows {
        let order = window.order_by.iter().map(|key| &key.key);
        let all = window.partition_by.iter().chain(order);
        all.for_each(|expr| each(expr, f));
        for bound in [&window.frame.start, &window.frame.end] {
            if let FrameBound::Preceding(value) | FrameBound::Following(value) = bound {
                each(value, f);
            }
        }
    }
}

fn each_of_from(node: &FromNode, f: &mut dyn FnMut(&Expr)) {
    let FromNode::Join(join) = node else { return };
    each_of_from(&join.left, f);
    each_of_from(&join.right, f);
    join.condition
        .iter()
        .for_each(|condition| each(condition, f));
}
