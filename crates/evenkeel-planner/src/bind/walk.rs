//! Walks over bound expressions and queries, with the number of queries that were entered.

use std::sync::Arc;

use crate::bound::{
    Expr, ExprKind, Frame, FrameBound, FromNode, Query, RangeEntry, RangeKind, SublinkKind,
};

/// Free stack below which a walk goes on in a new part of it, and the size of that part.
pub(super) const RED_ZONE: usize = 128 * 1024;
pub(super) const STACK_PART: usize = 2 * 1024 * 1024;

macro_rules! children_of {
    ($name:ident, $each:ident, $($mutable:tt)?) => {
        /// Calls `f` for each expression directly below, those of subqueries apart.
        pub(super) fn $name<'e>(
            expr: &'e $($mutable)? Expr,
            f: &mut dyn FnMut(&'e $($mutable)? Expr),
        ) {
            match &$($mutable)? expr.kind {
                ExprKind::Const(_) | ExprKind::Param(_) | ExprKind::Var(_)
                | ExprKind::CaseOperand | ExprKind::DomainValue | ExprKind::SublinkColumn(_)
                | ExprKind::Grouping(_) | ExprKind::Default => {}
                ExprKind::Call(call) | ExprKind::SetCall(call) => call.args.$each().for_each(f),
                ExprKind::Cast { arg, .. } | ExprKind::Relabel(arg) | ExprKind::Not(arg)
                | ExprKind::IsNull { arg, .. } | ExprKind::IsBool { arg, .. }
                | ExprKind::Field { row: arg, .. } => f(arg),
                ExprKind::And(args) | ExprKind::Or(args)
                | ExprKind::Coalesce(args) | ExprKind::Row(args)
                | ExprKind::NamedRow(_, args)
                | ExprKind::Extreme { args, .. }
                | ExprKind::Array { items: args, .. } => args.$each().for_each(f),
                ExprKind::IsDistinct { left, right, .. }
                | ExprKind::NullIf { left, right, .. }
                | ExprKind::AnyAll { left, array: right, .. } => {
                    f(left);
                    f(right);
                }
                ExprKind::Case { operand, branches, otherwise } => {
                    if let Some(operand) = operand {
                        f(operand);
                    }
                    for (condition, value) in branches.$each() {
                        f(condition);
                        f(value);
                    }
                    f(otherwise);
                }
                ExprKind::Subscript { array, indexes } => {
                    f(array);
                    indexes.$each().for_each(f);
                }
                ExprKind::Slice { array, ranges } => {
                    f(array);
                    for (lower, upper) in ranges.$each() {
                        lower.$each().for_each(&mut *f);
                        upper.$each().for_each(&mut *f);
                    }
                }
                ExprKind::AssignPart(part) => part.$each().for_each(f),
                ExprKind::ToDomain(domain) => f(&$($mutable)? domain.arg),
                ExprKind::RowCompare { pairs, .. } => {
                    for (left, right, _, _) in pairs.$each() {
                        f(left);
                        f(right);
                    }
                }
                ExprKind::Sublink(sublink) => match &$($mutable)? sublink.kind {
                    SublinkKind::Any(test) | SublinkKind::All(test) => f(test),
                    SublinkKind::Exists | SublinkKind::Scalar | SublinkKind::Array => {}
                },
                ExprKind::Aggregate(aggregate) => {
                    aggregate.direct.$each().for_each(&mut *f);
                    aggregate.args.$each().for_each(&mut *f);
                    for key in aggregate.order_by.$each() {
                        f(&$($mutable)? key.key);
                    }
                    aggregate.filter.$each().for_each(f);
                }
                ExprKind::Window(window) => {
                    window.args.$each().for_each(&mut *f);
                    window.filter.$each().for_each(f);
                }
            }
        }
    };
}

children_of!(children, iter,);
children_of!(children_mut, iter_mut, mut);

/// Whether a walk enters the node it was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Enter {
    Yes,
    No,
}

/// Walks an expression and the subqueries in it. `visit` gets each node before those below it, with
/// the number of queries between the expression and the node.
pub(super) fn walk(expr: &Expr, level: usize, visit: &mut dyn FnMut(&Expr, usize) -> Enter) {
    stacker::maybe_grow(RED_ZONE, STACK_PART, || {
        if visit(expr, level) == Enter::No {
            return;
        }
        children(expr, &mut |child| walk(child, level, visit));
        if let ExprKind::Sublink(sublink) = &expr.kind {
            walk_query(&sublink.query, level + 1, visit);
        }
    });
}

/// Walks a query's expressions; `level` is that of its own variables.
pub(super) fn walk_query(
    query: &Query,
    level: usize,
    visit: &mut dyn FnMut(&Expr, usize) -> Enter,
) {
    for cte in &query.ctes {
        walk_query(&cte.query, level + 1, visit);
    }
    for entry in &query.range_table {
        match &entry.kind {
            RangeKind::Subquery(inner) => walk_query(inner, level + 1, visit),
            RangeKind::Functions { calls, .. } => {
                for arg in calls.iter().flat_map(|call| &call.args) {
                    walk(arg, level, visit);
                }
            }
            RangeKind::Values(rows) => {
                for value in rows.iter().flatten() {
                    walk(value, level, visit);
                }
            }
            RangeKind::Join { columns } => columns.iter().for_each(|c| walk(c, level, visit)),
            RangeKind::Relation(_)
            | RangeKind::Cte { .. }
            | RangeKind::Excluded(_)
            | RangeKind::Version(_)
            | RangeKind::MergeAction => {}
        }
    }
    for node in &query.from {
        walk_from(node, level, visit);
    }
    let clauses = query.filter.iter().chain(&query.having);
    let clauses = clauses.chain(&query.offset).chain(&query.limit);
    let clauses = clauses.chain(query.targets.iter().map(|target| &target.expr));
    clauses
        .chain(&query.group_by)
        .for_each(|expr| walk(expr, level, visit));
    for window in &query.windows {
        let keys = window.order_by.iter().map(|key| &key.key);
        let bounds = frame_offsets(&window.frame);
        for expr in window.partition_by.iter().chain(keys).chain(bounds) {
            walk(expr, level, visit);
        }
    }
}

fn frame_offsets(frame: &Frame) -> impl Iterator<Item = &Expr> {
    [&frame.start, &frame.end]
        .into_iter()
        .filter_map(|bound| match bound {
            FrameBound::Preceding(offset) | FrameBound::Following(offset) => Some(&**offset),
            _ => None,
        })
}

fn walk_from(node: &FromNode, level: usize, visit: &mut dyn FnMut(&Expr, usize) -> Enter) {
    stacker::maybe_grow(RED_ZONE, STACK_PART, || {
        if let FromNode::Join(join) = node {
            walk_from(&join.left, level, visit);
            walk_from(&join.right, level, visit);
            if let Some(condition) = &join.condition {
                walk(condition, level, visit);
            }
        }
    });
}

/// Puts a query that stood directly below another one level deeper: what it refers to outside
/// itself is one query further out.
pub(super) fn deepen_query(query: &mut Query, own_levels: usize) {
    for cte in &mut query.ctes {
        deepen_query(&mut Arc::make_mut(cte).query, own_levels + 1);
    }
    for entry in &mut query.range_table {
        deepen_entry(entry, own_levels);
    }
    for node in &mut query.from {
        deepen_from(node, own_levels);
    }
    let targets = query.targets.iter_mut().map(|target| &mut target.expr);
    let clauses = query.filter.iter_mut().chain(&mut query.having);
    let clauses = clauses.chain(&mut query.offset).chain(&mut query.limit);
    for expr in clauses.chain(targets).chain(&mut query.group_by) {
        deepen(expr, own_levels);
    }
    for window in &mut query.windows {
        let keys = window.order_by.iter_mut().map(|key| &mut key.key);
        for expr in window.partition_by.iter_mut().chain(keys) {
            deepen(expr, own_levels);
        }
        for bound in [&mut window.frame.start, &mut window.frame.end] {
            if let FrameBound::Preceding(offset) | FrameBound::Following(offset) = bound {
                deepen(offset, own_levels);
            }
        }
    }
}

/// As [`deepen_query`], for an entry of a range table.
pub(super) fn deepen_entry(entry: &mut RangeEntry, own_levels: usize) {
    match &mut entry.kind {
        RangeKind::Subquery(inner) => deepen_query(Arc::make_mut(inner), own_levels + 1),
        RangeKind::Functions { calls, .. } => {
            for arg in calls.iter_mut().flat_map(|call| &mut call.args) {
                deepen(arg, own_levels);
            }
        }
        RangeKind::Values(rows) => {
            for value in rows.iter_mut().flatten() {
                deepen(value, own_levels);
            }
        }
        RangeKind::Join { columns } => columns.iter_mut().for_each(|c| deepen(c, own_levels)),
        RangeKind::Cte { depth, .. } if *depth >= own_levels => *depth += 1,
        RangeKind::Relation(_)
        | RangeKind::Cte { .. }
        | RangeKind::Version(_)
        | RangeKind::Excluded(_)
        | RangeKind::MergeAction => {}
    }
}

fn deepen_from(node: &mut FromNode, own_levels: usize) {
    stacker::maybe_grow(RED_ZONE, STACK_PART, || {
        if let FromNode::Join(join) = node {
            deepen_from(&mut join.left, own_levels);
            deepen_from(&mut join.right, own_levels);
            if let Some(condition) = &mut join.condition {
                deepen(condition, own_levels);
            }
        }
    });
}

fn deepen(expr: &mut Expr, own_levels: usize) {
    stacker::maybe_grow(RED_ZONE, STACK_PART, || {
        match &mut expr.kind {
            ExprKind::Var(var) if var.depth >= own_levels => var.depth += 1,
            ExprKind::Aggregate(aggregate) if aggregate.depth >= own_levels => aggregate.depth += 1,
            ExprKind::Sublink(sublink) => {
                deepen_query(Arc::make_mut(&mut sublink.query), own_levels + 1);
            }
            _ => {}
        }
        children_mut(expr, &mut |child| deepen(child, own_levels));
    });
}

/// Whether the expression has a variable of its own query.
pub(super) fn has_own_variable(expr: &Expr) -> bool {
    let mut found = false;
    walk(expr, 0, &mut |node, level| {
        if let ExprKind::Var(var) = &node.kind {
            found |= var.depth == level;
        }
        if found { Enter::No } else { Enter::Yes }
    });
    found
}

/// Whether the expression gives a set of rows.
pub(super) fn returns_set(expr: &Expr) -> bool {
    let mut found = false;
    walk(expr, 0, &mut |node, level| {
        found |= level == 0 && matches!(node.kind, ExprKind::SetCall(_));
        if found || level > 0 {
            Enter::No
        } else {
            Enter::Yes
        }
    });
    found
}

/// Where the first aggregate of the expression's own query stands.
pub(super) fn find_aggregate(expr: &Expr) -> Option<crate::ast::Pos> {
    let mut found = None;
    walk(expr, 0, &mut |node, level| {
        if let ExprKind::Aggregate(aggregate) = &node.kind
            && aggregate.depth == level
            && found.is_none()
        {
            found = Some(node.at);
        }
        if found.is_none() {
            Enter::Yes
        } else {
            Enter::No
        }
    });
    found
}
