//! `min` and `max` of a column with an index: the first row in its order.

use std::sync::Arc;

use evenkeel_types::{Datum, SqlType};

use crate::ast::Pos;
use crate::bound::{
    AggregateExpr, Expr, ExprKind, FromNode, Query, RangeKind, SortKey, Sublink, SublinkId,
    SublinkKind, Target,
};
use crate::relation::{Relation, RelationKind};

use super::walk::{self, Change};

/// Rewrites `SELECT max(a) FROM t WHERE …` to `SELECT (SELECT a FROM t WHERE … AND a IS NOT NULL
/// ORDER BY a DESC LIMIT 1)`, where an index could give that order; which way to go is then decided
/// by cost. The query is not numbered yet.
pub(super) fn rewrite(query: &mut Query) {
    let Some(relation) = lone_table(query) else {
        return;
    };
    let mut all = true;
    let mut found = 0;
    for target in &query.targets {
        check(&target.expr, &relation, &mut all, &mut found);
    }
    if !all || found == 0 {
        return;
    }
    let inner = Query {
        targets: Vec::new(),
        grouped: false,
        ..query.clone()
    };
    for target in &mut query.targets {
        walk::change_expr(&mut target.expr, 0, &mut ToFirst { inner: &inner });
    }
    query.from.clear();
    query.filter = None;
    query.grouped = false;
}

fn lone_table(query: &Query) -> Option<Arc<Relation>> {
    let plain = query.grouped
        && query.group_by.is_empty()
        && query.grouping_sets.is_empty()
        && query.having.is_none()
        && query.windows.is_empty()
        && query.set_operation.is_none()
        && query.ctes.is_empty()
        && query.order_by.is_empty()
        && query.limit.is_none()
        && query.offset.is_none();
    let [FromNode::Entry(entry)] = query.from.as_slice() else {
        return None;
    };
    match &query.range_table[*entry].kind {
        RangeKind::Relation(relation) if plain && relation.kind == RelationKind::Table => {
            Some(Arc::clone(relation))
        }
        _ => None,
    }
}

/// Whether all aggregates of an expression are such extremes, and nothing else looks at the table.
fn check(expr: &Expr, relation: &Relation, all: &mut bool, found: &mut usize) {
    match &expr.kind {
        ExprKind::Aggregate(aggregate) => {
            *all &= extreme(aggregate, relation).is_some();
            *found += 1;
        }
        ExprKind::Var(_) | ExprKind::Sublink(_) | ExprKind::SetCall(_) => *all = false,
        _ => walk::parts(expr, &mut |part| check(part, relation, all, found)),
    }
}

fn extreme(aggregate: &AggregateExpr, relation: &Relation) -> Option<bool> {
    let desc = match aggregate.proc.name {
        "max" => true,
        "min" => false,
        _ => return None,
    };
    let [argument] = aggregate.args.as_slice() else {
        return None;
    };
    let ExprKind::Var(var) = super::ops::stripped(argument).kind else {
        return None;
    };
    let plain = aggregate.depth == 0
        && !aggregate.distinct
        && aggregate.filter.is_none()
        && aggregate.order_by.is_empty()
        && var.depth == 0;
    let mut indexes = relation.indexes.iter();
    let indexed = indexes.any(|index| {
        let mut columns = index.columns.iter();
        index.is_plain() && columns.any(|column| column.column == Some(var.column))
    });
    (plain && indexed).then_some(desc)
}

/// Whether a column of a query's tables is NOT NULL.
fn never_null(query: &Query, column: &Expr) -> bool {
    let ExprKind::Var(var) = super::ops::stripped(column).kind else {
        return false;
    };
    let entry = query.range_table.get(var.rel);
    match entry.map(|entry| &entry.kind) {
        Some(RangeKind::Relation(relation)) => {
            let column = relation.columns.get(var.column);
            column.is_some_and(|column| column.not_null)
        }
        _ => false,
    }
}

struct ToFirst<'q> {
    inner: &'q Query,
}

impl Change for ToFirst<'_> {
    fn expr(&mut self, expr: &mut Expr, depth: usize) {
        let ExprKind::Aggregate(aggregate) = &expr.kind else {
            return;
        };
        if depth > 0 {
            return;
        }
        let desc = aggregate.proc.name == "max";
        let column = aggregate.args[0].clone();
        let mut query = self.inner.clone();
        let present = Expr {
            kind: ExprKind::IsNull {
                arg: Box::new(column.clone()),
                negated: true,
                row: false,
            },
            ty: SqlType::Bool,
            at: Pos::NONE,
        };
        let filter = query.filter.take();
        query.filter = match filter {
            filter if never_null(&query, &column) => filter,
            None => Some(present),
            Some(filter) => Some(Expr {
                kind: ExprKind::And(vec![filter, present]),
                ty: SqlType::Bool,
                at: Pos::NONE,
            }),
        };
        query.targets = vec![Target {
            name: Arc::from(aggregate.proc.name),
            expr: column,
            junk: false,
        }];
        query.order_by = vec![SortKey {
            key: 0,
            desc,
            nulls_first: desc,
        }];
        query.limit = Some(Expr {
            kind: ExprKind::Const(Datum::Int8(1)),
            ty: SqlType::Int8,
            at: Pos::NONE,
        });
        expr.kind = ExprKind::Sublink(Box::new(Sublink {
            id: SublinkId::fresh(),
            kind: SublinkKind::Scalar,
            query: Arc::new(query),
        }));
    }

    fn entry(&mut self, _entry: &mut crate::bound::RangeEntry, _depth: usize) {}
}
