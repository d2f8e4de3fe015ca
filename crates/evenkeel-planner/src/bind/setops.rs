//! UNION, INTERSECT, EXCEPT: the columns' common types, and arms coerced to them.

use std::sync::Arc;

use evenkeel_expr::proc::CastContext;
use evenkeel_types::{SqlState, SqlType};

use super::query::Unknowns;
use super::scope::{EntryInfo, NsColumn, NsItem, Scope};
use super::sort::check_groupable;
use super::targets::shown;
use super::walk::{deepen_entry, deepen_query};
use super::{Binder, coerce, common_type, place};
use crate::ast::{self, Pos, QueryBody, SetOp};
use crate::bound::{
    Distinct, Expr, ExprKind, FromNode, Query, RangeEntry, RangeKind, SetNode, Target, Var,
};
use crate::error::{PlanError, PlanResult};

/// A tree of set operations over entries of its own.
pub(super) struct Arms {
    node: SetNode,
    entries: Vec<RangeEntry>,
    /// Expressions that stand for its columns in errors and in the choice of types.
    columns: Vec<Expr>,
    names: Vec<Arc<str>>,
}

impl Arms {
    /// Expressions that stand for the columns.
    pub(super) fn columns(&self) -> &[Expr] {
        &self.columns
    }

    /// The columns' names.
    pub(super) fn names(&self) -> &[Arc<str>] {
        &self.names
    }
}

fn op_name(op: SetOp) -> &'static str {
    match op {
        SetOp::Union => "UNION",
        SetOp::Intersect => "INTERSECT",
        SetOp::Except => "EXCEPT",
    }
}

fn shift(node: &mut SetNode, by: usize) {
    match node {
        SetNode::Leaf(rel) => *rel += by,
        SetNode::Op { left, right, .. } => {
            shift(left, by);
            shift(right, by);
        }
    }
}

fn variable(rel: usize, column: usize, ty: SqlType, at: Pos) -> Expr {
    let var = Var {
        depth: 0,
        rel,
        column,
    };
    Expr {
        kind: ExprKind::Var(var),
        ty,
        at,
    }
}

fn shown_targets(query: &Query) -> impl Iterator<Item = &Target> {
    query.targets.iter().filter(|target| !target.junk)
}

/// An entry for a subquery.
fn subquery_entry(alias: &str, query: Query) -> RangeEntry {
    RangeEntry {
        alias: alias.into(),
        columns: shown_targets(&query).map(|t| Arc::clone(&t.name)).collect(),
        types: shown_targets(&query).map(|t| t.expr.ty).collect(),
        kind: RangeKind::Subquery(Arc::new(query)),
        lateral: false,
        indexes: Vec::new(),
        virtuals: Vec::new(),
    }
}

/// Whether the arm is an operation without clauses of its own.
fn is_inner(query: &ast::Query) -> bool {
    matches!(query.body, QueryBody::SetOp { .. })
        && query.with.is_none()
        && query.order_by.is_empty()
        && query.limit.is_none()
        && query.offset.is_none()
        && query.locking.is_empty()
}

impl Binder<'_> {
    pub(super) fn bind_set_operation(
        &mut self,
        query: &ast::Query,
        unknowns: Unknowns,
    ) -> PlanResult<Query> {
        if let Some(locking) = query.locking.first() {
            let message = format!(
                "{} is not allowed with UNION/INTERSECT/EXCEPT",
                super::locking::clause(locking.strength)
            );
            return Err(PlanError::unsupported(message));
        }
        let arms = self.bind_body(&query.body)?;
        self.finish_set(query, arms, unknowns)
    }

    /// The query over the arms, with the clauses after them.
    pub(super) fn finish_set(
        &mut self,
        query: &ast::Query,
        mut arms: Arms,
        unknowns: Unknowns,
    ) -> PlanResult<Query> {
        let first = first_leaf(&arms.node);
        let mut targets = Vec::with_capacity(arms.columns.len());
        let mut columns = Vec::with_capacity(arms.columns.len());
        for (column, (expr, name)) in arms.columns.iter().zip(&arms.names).enumerate() {
            let var = variable(first, column, expr.ty, place::of(expr));
            targets.push(shown(var, Arc::clone(name)));
            columns.push(NsColumn {
                name: Arc::clone(name),
                rel: first,
                column,
                ty: expr.ty,
                hidden: false,
            });
        }
        for (number, entry) in arms.entries.iter_mut().enumerate() {
            entry.alias = format!("*SELECT* {}", number + 1).into();
        }
        let scope = self.scope();
        scope.info = arms.entries.iter().map(|_| no_info()).collect();
        scope.range_table = arms.entries;
        scope.namespace = vec![NsItem {
            rel: first,
            name: "*SELECT*".into(),
            columns,
            table_visible: false,
            columns_visible: true,
            lateral_only: false,
            lateral_ok: true,
            relation: None,
            scalar_function: false,
        }];
        let width = targets.len();
        let order_by = self.bind_order_by(&query.order_by, &mut targets)?;
        if let Some(extra) = targets.get(width) {
            let message = "invalid UNION/INTERSECT/EXCEPT ORDER BY clause";
            let error = PlanError::unsupported(message)
                .detail("Only result column names can be used, not expressions or functions.")
                .hint(
                    "Add the expression/function to every SELECT, or move the UNION into a FROM \
                     clause.",
                );
            return Err(error.at(place::of(&extra.expr)));
        }
        self.scope().namespace.clear();
        let offset = self.bind_limit(query.offset.as_ref(), super::scope::Place::Offset)?;
        let limit = self.bind_row_count(query)?;
        if unknowns == Unknowns::Text {
            self.resolve_targets(&mut targets)?;
        }
        Ok(Query {
            targets,
            order_by,
            offset,
            limit,
            with_ties: query.with_ties,
            set_operation: Some(arms.node),
            ..Query::default()
        })
    }

    fn bind_body(&mut self, body: &QueryBody) -> PlanResult<Arms> {
        self.deeper(|binder| {
            let QueryBody::SetOp {
                op,
                all,
                left,
                right,
            } = body
            else {
                return Err(PlanError::new(SqlState::INTERNAL_ERROR, "no set operation"));
            };
            let left = binder.bind_arm(left, None)?;
            let right = binder.bind_arm(right, None)?;
            binder.combine(*op, *all, left, right)
        })
    }

    /// One side of an operation.
    pub(super) fn bind_arm(&mut self, arm: &ast::Query, scope: Option<Scope>) -> PlanResult<Arms> {
        if is_inner(arm) && scope.is_none() {
            return self.bind_body(&arm.body);
        }
        let bound = self.bind_query_in(arm, Unknowns::Keep, scope.unwrap_or_default())?;
        let columns = shown_targets(&bound)
            .map(|target| target.expr.clone())
            .collect();
        let names = shown_targets(&bound).map(|t| Arc::clone(&t.name)).collect();
        Ok(Arms {
            node: SetNode::Leaf(0),
            entries: vec![subquery_entry("*SELECT*", bound)],
            columns,
            names,
        })
    }

    /// Two sides under one operation.
    pub(super) fn combine(
        &mut self,
        op: SetOp,
        all: bool,
        left: Arms,
        right: Arms,
    ) -> PlanResult<Arms> {
        let construct = op_name(op);
        if left.columns.len() != right.columns.len() {
            let message = format!("each {construct} query must have the same number of columns");
            let at = right.columns.first().map_or(Pos::NONE, place::of);
            return Err(PlanError::new(SqlState::SYNTAX_ERROR, message).at(at));
        }
        let mut types = Vec::with_capacity(left.columns.len());
        let mut columns = Vec::with_capacity(left.columns.len());
        for (l, r) in left.columns.iter().zip(&right.columns) {
            let common = common_type::select(&[l, r], construct)?;
            let coerced_left = self.check_column(l, common, construct)?;
            let coerced_right = self.check_column(r, common, construct)?;
            let ty = common_type::with_modifier(&[&coerced_left, &coerced_right], common);
            let column = Expr {
                kind: ExprKind::CaseOperand,
                ty,
                at: place::of(if l.ty == SqlType::Unknown { r } else { l }),
            };
            if !all {
                check_groupable(&column)?;
            }
            types.push(ty);
            columns.push(column);
        }
        let left = self.arms_as(left, &types)?;
        let mut right = self.arms_as(right, &types)?;
        shift(&mut right.node, left.entries.len());
        let mut entries = left.entries;
        entries.append(&mut right.entries);
        Ok(Arms {
            node: SetNode::Op {
                op,
                all,
                left: Box::new(left.node),
                right: Box::new(right.node),
                types,
            },
            entries,
            columns,
            names: left.names,
        })
    }

    fn check_column(&mut self, column: &Expr, ty: SqlType, construct: &str) -> PlanResult<Expr> {
        self.coerce_to_common(column.clone(), ty, construct)
    }

    /// The arms with their columns coerced to `types`.
    pub(super) fn arms_as(&mut self, mut arms: Arms, types: &[SqlType]) -> PlanResult<Arms> {
        let same = arms
            .columns
            .iter()
            .zip(types)
            .all(|(column, ty)| column.ty == *ty);
        if same {
            return Ok(arms);
        }
        if let SetNode::Op { .. } = arms.node {
            arms = wrap(arms);
        }
        let Some(entry) = arms.entries.first_mut() else {
            return Ok(arms);
        };
        let RangeKind::Subquery(query) = &mut entry.kind else {
            return Ok(arms);
        };
        let literals = shown_targets(query)
            .zip(types)
            .all(|(target, ty)| target.expr.ty == *ty || is_open(&target.expr));
        if !literals && !takes_coercions(query) {
            let inner = std::mem::take(Arc::make_mut(query));
            *query = Arc::new(wrap_query(inner));
        }
        let query = Arc::make_mut(query);
        let mut columns = Vec::with_capacity(types.len());
        for (target, ty) in query.targets.iter_mut().filter(|t| !t.junk).zip(types) {
            let blank = variable(0, 0, *ty, Pos::NONE);
            let expr = std::mem::replace(&mut target.expr, blank);
            let context = CastContext::Implicit;
            let expr = self.coerce(expr, *ty, context, Pos::NONE)?;
            target.expr = coerce::apply_modifier(expr, *ty, context, Pos::NONE);
            columns.push(target.expr.clone());
        }
        entry.types = types.to_vec();
        arms.columns = columns;
        Ok(arms)
    }
}

fn no_info() -> EntryInfo {
    EntryInfo {
        aliased: false,
        relation: None,
        cte: None,
        join: false,
    }
}

fn first_leaf(node: &SetNode) -> usize {
    match node {
        SetNode::Leaf(rel) => *rel,
        SetNode::Op { left, .. } => first_leaf(left),
    }
}

/// A literal or parameter whose type is not decided.
fn is_open(expr: &Expr) -> bool {
    expr.ty == SqlType::Unknown && matches!(expr.kind, ExprKind::Const(_) | ExprKind::Param(_))
}

/// Whether casts of its columns do not change which rows a query has, or their order.
fn takes_coercions(query: &Query) -> bool {
    query.distinct == Distinct::All
        && query.order_by.is_empty()
        && query.set_operation.is_none()
        && query.group_by.is_empty()
}

/// A query that shows the columns of another, which is then one level deeper.
fn wrap_query(mut inner: Query) -> Query {
    deepen_query(&mut inner, 1);
    let columns: Vec<(Arc<str>, SqlType)> = shown_targets(&inner)
        .map(|target| (Arc::clone(&target.name), target.expr.ty))
        .collect();
    let targets = columns.into_iter().enumerate();
    let targets =
        targets.map(|(column, (name, ty))| shown(variable(0, column, ty, Pos::NONE), name));
    Query {
        targets: targets.collect(),
        range_table: vec![subquery_entry("*SELECT*", inner)],
        from: vec![FromNode::Entry(0)],
        ..Query::default()
    }
}

/// An operation as one leaf: a query over it.
fn wrap(mut arms: Arms) -> Arms {
    let first = first_leaf(&arms.node);
    let targets = arms.columns.iter().zip(&arms.names).enumerate();
    let targets = targets.map(|(column, (expr, name))| {
        shown(
            variable(first, column, expr.ty, Pos::NONE),
            Arc::clone(name),
        )
    });
    let targets = targets.collect();
    // The leaves stood directly below the query around the operation.
    for entry in &mut arms.entries {
        deepen_entry(entry, 0);
    }
    let inner = Query {
        targets,
        range_table: arms.entries,
        set_operation: Some(arms.node),
        ..Query::default()
    };
    Arms {
        columns: arms.columns,
        names: arms.names,
        node: SetNode::Leaf(0),
        entries: vec![subquery_entry("*SELECT*", wrap_query(inner))],
    }
}
