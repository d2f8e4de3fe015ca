//! Whether two bound expressions are the same, wherever they stand.

use std::mem::discriminant;

use super::walk::{self, RED_ZONE, STACK_PART};
use crate::bound::{
    AggregateExpr, CallExpr, Cte, Expr, ExprKind as K, Frame, FrameBound, FromNode, Query,
    RangeEntry, RangeKind as R, SetNode, SortKey, Sublink, SublinkKind, WindowDef,
};

/// Whether the expressions are the same but for their places.
pub(super) fn exprs(a: &Expr, b: &Expr) -> bool {
    stacker::maybe_grow(RED_ZONE, STACK_PART, || {
        if a.ty != b.ty
            || discriminant(&a.kind) != discriminant(&b.kind)
            || !nodes(&a.kind, &b.kind)
        {
            return false;
        }
        children_equal(a, b)
    })
}

/// Whether two nodes of one kind are the same, their children apart.
fn nodes(a: &K, b: &K) -> bool {
    match (a, b) {
        (K::Const(a), K::Const(b)) => a.identical(b),
        (K::Param(a), K::Param(b))
        | (K::SublinkColumn(a), K::SublinkColumn(b))
        | (K::Field { field: a, .. }, K::Field { field: b, .. }) => a == b,
        (K::Var(a), K::Var(b)) => a == b,
        (K::Grouping(a), K::Grouping(b)) => a == b,
        (K::Call(a), K::Call(b)) | (K::SetCall(a), K::SetCall(b)) => {
            a.proc.oid == b.proc.oid && a.variadic_array == b.variadic_array
        }
        (K::Cast { explicit: a, .. }, K::Cast { explicit: b, .. })
        | (K::Extreme { greatest: a, .. }, K::Extreme { greatest: b, .. })
        | (K::Array { nested: a, .. }, K::Array { nested: b, .. }) => a == b,
        (
            K::IsNull {
                negated: n, row: r, ..
            },
            K::IsNull {
                negated: m, row: s, ..
            },
        ) => n == m && r == s,
        (
            K::IsBool {
                value: v,
                negated: n,
                ..
            },
            K::IsBool {
                value: w,
                negated: m,
                ..
            },
        ) => v == w && n == m,
        (
            K::IsDistinct {
                equal: p,
                negated: n,
                ..
            },
            K::IsDistinct {
                equal: q,
                negated: m,
                ..
            },
        ) => p.oid == q.oid && n == m,
        (K::NullIf { equal: p, .. }, K::NullIf { equal: q, .. }) => p.oid == q.oid,
        (K::AnyAll { op: p, all: x, .. }, K::AnyAll { op: q, all: y, .. }) => {
            p.proc.oid == q.proc.oid && x == y
        }
        (K::Case { operand: a, .. }, K::Case { operand: b, .. }) => a.is_some() == b.is_some(),
        (K::Slice { ranges: a, .. }, K::Slice { ranges: b, .. }) => {
            let given = |ranges: &[(Option<Expr>, Option<Expr>)]| -> Vec<(bool, bool)> {
                let ends = ranges.iter();
                ends.map(|(l, u)| (l.is_some(), u.is_some())).collect()
            };
            given(a) == given(b)
        }
        (K::RowCompare { op: p, .. }, K::RowCompare { op: q, .. }) => p == q,
        (K::Sublink(a), K::Sublink(b)) => sublinks(a, b),
        (K::Aggregate(a), K::Aggregate(b)) => aggregates(a, b),
        (K::Window(a), K::Window(b)) => {
            a.proc.oid == b.proc.oid
                && a.window == b.window
                && a.filter.is_some() == b.filter.is_some()
        }
        _ => true,
    }
}

fn sublinks(a: &Sublink, b: &Sublink) -> bool {
    let kind = |link: &Sublink| match link.kind {
        SublinkKind::Exists => 0,
        SublinkKind::Scalar => 1,
        SublinkKind::Array => 2,
        SublinkKind::Any(_) => 3,
        SublinkKind::All(_) => 4,
    };
    kind(a) == kind(b) && (a.id == b.id || queries(&a.query, &b.query))
}

fn aggregates(a: &AggregateExpr, b: &AggregateExpr) -> bool {
    let mut keys = a.order_by.iter().zip(&b.order_by);
    a.proc.oid == b.proc.oid
        && a.distinct == b.distinct
        && a.depth == b.depth
        && a.direct.len() == b.direct.len()
        && a.order_by.len() == b.order_by.len()
        && keys.all(|(a, b)| a.desc == b.desc && a.nulls_first == b.nulls_first)
        && a.filter.is_some() == b.filter.is_some()
}

fn children_equal(a: &Expr, b: &Expr) -> bool {
    let mut left = Vec::new();
    walk::children(a, &mut |child| left.push(child));
    let mut right = Vec::new();
    walk::children(b, &mut |child| right.push(child));
    left.len() == right.len() && left.into_iter().zip(right).all(|(a, b)| exprs(a, b))
}

fn all<T>(a: &[T], b: &[T], same: impl Fn(&T, &T) -> bool) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}

fn both<T>(a: Option<&T>, b: Option<&T>, same: impl Fn(&T, &T) -> bool) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => same(a, b),
        (a, b) => a.is_none() && b.is_none(),
    }
}

fn keys<K>(a: &[SortKey<K>], b: &[SortKey<K>], same: impl Fn(&K, &K) -> bool) -> bool {
    all(a, b, |a, b| {
        a.desc == b.desc && a.nulls_first == b.nulls_first && same(&a.key, &b.key)
    })
}

/// Whether two queries are the same but for their places.
fn queries(a: &Query, b: &Query) -> bool {
    stacker::maybe_grow(RED_ZONE, STACK_PART, || {
        let options = [(&a.filter, &b.filter), (&a.having, &b.having)];
        let limits = [(&a.offset, &b.offset), (&a.limit, &b.limit)];
        let mut options = options.into_iter().chain(limits);
        all(&a.range_table, &b.range_table, entries)
            && all(&a.ctes, &b.ctes, |a, b| ctes(a, b))
            && all(&a.from, &b.from, nodes_of_from)
            && options.all(|(a, b)| both(a.as_ref(), b.as_ref(), exprs))
            && all(&a.targets, &b.targets, |a, b| {
                a.junk == b.junk && exprs(&a.expr, &b.expr)
            })
            && all(&a.group_by, &b.group_by, exprs)
            && (a.grouped, &a.grouping_sets) == (b.grouped, &b.grouping_sets)
            && all(&a.windows, &b.windows, windows)
            && (&a.distinct, a.with_ties) == (&b.distinct, b.with_ties)
            && keys(&a.order_by, &b.order_by, |a, b| a == b)
            && all(&a.row_marks, &b.row_marks, |a, b| {
                (a.rel, a.strength, a.wait) == (b.rel, b.strength, b.wait)
            })
            && both(a.set_operation.as_ref(), b.set_operation.as_ref(), sets)
    })
}

fn ctes(a: &Cte, b: &Cte) -> bool {
    // A change is made once for each that is written.
    a.change.is_none()
        && b.change.is_none()
        && (&a.name, a.materialized, a.recursive) == (&b.name, b.materialized, b.recursive)
        && (&a.columns, &a.types) == (&b.columns, &b.types)
        && queries(&a.query, &b.query)
}

fn calls(a: &CallExpr, b: &CallExpr) -> bool {
    (a.proc.oid, a.variadic_array) == (b.proc.oid, b.variadic_array) && all(&a.args, &b.args, exprs)
}

fn entries(a: &RangeEntry, b: &RangeEntry) -> bool {
    let kinds = match (&a.kind, &b.kind) {
        (R::Relation(a), R::Relation(b))
        | (R::Excluded(a), R::Excluded(b))
        | (R::Version(a), R::Version(b)) => a.oid == b.oid,
        (R::Subquery(a), R::Subquery(b)) => queries(a, b),
        (
            R::Functions {
                calls: a,
                widths: v,
                ordinality: o,
            },
            R::Functions {
                calls: b,
                widths: w,
                ordinality: p,
            },
        ) => v == w && o == p && all(a, b, calls),
        (R::Values(a), R::Values(b)) => all(a, b, |a, b| all(a, b, exprs)),
        (
            R::Cte {
                depth: d,
                cte: a,
                working: v,
            },
            R::Cte {
                depth: e,
                cte: b,
                working: w,
            },
        ) => (d, a, v) == (e, b, w),
        (R::Join { columns: a }, R::Join { columns: b }) => all(a, b, exprs),
        (R::MergeAction, R::MergeAction) => true,
        _ => false,
    };
    kinds
        && (&a.alias, &a.columns) == (&b.alias, &b.columns)
        && (&a.types, a.lateral) == (&b.types, b.lateral)
}

fn nodes_of_from(a: &FromNode, b: &FromNode) -> bool {
    stacker::maybe_grow(RED_ZONE, STACK_PART, || match (a, b) {
        (FromNode::Entry(a), FromNode::Entry(b)) => a == b,
        (FromNode::Join(a), FromNode::Join(b)) => {
            (a.kind, a.entry) == (b.kind, b.entry)
                && nodes_of_from(&a.left, &b.left)
                && nodes_of_from(&a.right, &b.right)
                && both(a.condition.as_ref(), b.condition.as_ref(), exprs)
        }
        _ => false,
    })
}

fn windows(a: &WindowDef, b: &WindowDef) -> bool {
    all(&a.partition_by, &b.partition_by, exprs)
        && keys(&a.order_by, &b.order_by, exprs)
        && frames(&a.frame, &b.frame)
}

fn frames(a: &Frame, b: &Frame) -> bool {
    let bounds = |a: &FrameBound, b: &FrameBound| match (a, b) {
        (FrameBound::Preceding(a), FrameBound::Preceding(b))
        | (FrameBound::Following(a), FrameBound::Following(b)) => exprs(a, b),
        (a, b) => discriminant(a) == discriminant(b),
    };
    (a.unit, a.exclude) == (b.unit, b.exclude)
        && bounds(&a.start, &b.start)
        && bounds(&a.end, &b.end)
}

fn sets(a: &SetNode, b: &SetNode) -> bool {
    stacker::maybe_grow(RED_ZONE, STACK_PART, || match (a, b) {
        (SetNode::Leaf(a), SetNode::Leaf(b)) => a == b,
        (
            SetNode::Op {
                op: o,
                all: x,
                left: l,
                right: r,
                types: t,
            },
            SetNode::Op {
                op: p,
                all: y,
                left: m,
                right: s,
                types: u,
            },
        ) => (o, x, t) == (p, y, u) && sets(l, m) && sets(r, s),
        _ => false,
    })
}

/// Makes the subqueries of an expression that are the same as one of `known` that one.
pub(super) fn unify(expr: &mut Expr, known: &[Sublink]) {
    stacker::maybe_grow(RED_ZONE, STACK_PART, || {
        if let K::Sublink(link) = &mut expr.kind
            && let Some(same) = known.iter().find(|other| {
                sublinks(other, link)
                    && test_of(other)
                        .zip(test_of(link))
                        .is_none_or(|(a, b)| exprs(a, b))
            })
        {
            **link = same.clone();
            return;
        }
        walk::children_mut(expr, &mut |child| unify(child, known));
    });
}

fn test_of(link: &Sublink) -> Option<&Expr> {
    match &link.kind {
        SublinkKind::Any(test) | SublinkKind::All(test) => Some(test),
        _ => None,
    }
}
