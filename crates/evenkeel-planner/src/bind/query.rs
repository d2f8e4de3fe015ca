//! Queries: the clauses of SELECT in the order in which their names are resolved, VALUES.

use std::sync::Arc;

use evenkeel_types::{SqlState, SqlType};

use super::expr::constant;
use super::scope::{Place, Scope};
use super::targets::shown;
use super::{Binder, aggregate_check, common_type, equal, place, walk};
use crate::ast::{self, QueryBody};
use crate::bound::{
    Cte, Expr, ExprKind, FromNode, Query, RangeKind, Sublink, Target, Var, WindowDef,
};
use crate::error::{PlanError, PlanResult};

/// Columns whose type nothing decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unknowns {
    /// Are text.
    Text,
    /// Stay unknown, for an outer set operation or INSERT to decide.
    Keep,
}

impl Binder<'_> {
    /// A query, one level further in than what is being bound.
    pub(super) fn bind_query(
        &mut self,
        query: &ast::Query,
        unknowns: Unknowns,
    ) -> PlanResult<Query> {
        self.bind_query_in(query, unknowns, Scope::default())
    }

    /// As [`Binder::bind_query`], with a scope that says more of the query.
    pub(super) fn bind_query_in(
        &mut self,
        query: &ast::Query,
        unknowns: Unknowns,
        scope: Scope,
    ) -> PlanResult<Query> {
        self.deeper(|binder| {
            binder.scopes.push(scope);
            if let Some(with) = &query.with {
                binder.bind_with(with)?;
            }
            let mut bound = match &query.body {
                QueryBody::Select(select) => binder.bind_select(query, select, unknowns)?,
                QueryBody::Values(rows) => binder.bind_values(query, rows)?,
                QueryBody::SetOp { .. } => binder.bind_set_operation(query, unknowns)?,
            };
            let scope = binder.scopes.pop().unwrap_or_default();
            bound.range_table = scope.range_table;
            bound.ctes = finish_ctes(scope.ctes);
            Ok(bound)
        })
    }

    fn bind_select(
        &mut self,
        query: &ast::Query,
        select: &ast::Select,
        unknowns: Unknowns,
    ) -> PlanResult<Query> {
        if let Some(into) = &select.into {
            let message = "SELECT ... INTO is not allowed here";
            return Err(PlanError::new(SqlState::SYNTAX_ERROR, message).at(into.at()));
        }
        self.scope().windows = select.windows.clone();
        let from = self.bind_from(&select.from)?;
        let mut targets = self.bind_targets(&select.targets, Place::Select)?;
        let filter = select.filter.as_ref();
        let filter = filter
            .map(|filter| self.bind_condition(Place::Where, "WHERE", filter))
            .transpose()?;
        let having = select.having.as_ref();
        let having = having
            .map(|having| self.bind_condition(Place::Having, "HAVING", having))
            .transpose()?;
        let order_by = self.bind_order_by(&query.order_by, &mut targets)?;
        let (group_by, grouping_sets) = self.bind_group_by(select, &mut targets)?;
        let distinct = self.bind_distinct(&select.distinct, &mut targets, &order_by)?;
        let offset = self.bind_limit(query.offset.as_ref(), Place::Offset)?;
        let limit = self.bind_row_count(query)?;
        let windows = self.bind_windows()?;
        if unknowns == Unknowns::Text {
            self.resolve_targets(&mut targets)?;
        }
        let grouped =
            self.scope().has_aggregates || !select.group_by.is_empty() || having.is_some();
        let mut bound = Query {
            from,
            filter,
            targets,
            group_by,
            grouping_sets,
            grouped,
            having,
            windows,
            distinct,
            order_by,
            offset,
            limit,
            with_ties: query.with_ties,
            ..Query::default()
        };
        self.bind_locking(&query.locking, &mut bound)?;
        self.finish_groupings(&mut bound)?;
        if grouped {
            unify_grouped(&mut bound);
            self.check_grouped(&mut bound)?;
        }
        Ok(bound)
    }

    fn check_grouped(&mut self, bound: &mut Query) -> PlanResult<()> {
        if self.scope().recursive_term && self.scope().has_aggregates {
            let found = bound
                .targets
                .iter()
                .find_map(|target| super::walk::find_aggregate(&target.expr));
            let message =
                "aggregate functions are not allowed in a recursive query's recursive term";
            let error = PlanError::new(SqlState::INVALID_RECURSION, message);
            return Err(match found {
                Some(at) => error.at(at),
                None => error,
            });
        }
        bound.range_table = std::mem::take(&mut self.scope().range_table);
        let windows = std::mem::take(&mut bound.windows);
        let checked = aggregate_check::check(bound, &window_exprs(&windows));
        bound.windows = windows;
        self.scope().range_table = std::mem::take(&mut bound.range_table);
        checked
    }

    pub(super) fn resolve_targets(&mut self, targets: &mut [Target]) -> PlanResult<()> {
        for index in 0..targets.len() {
            self.resolve_target(targets, index)?;
        }
        Ok(())
    }

    /// LIMIT or FETCH FIRST.
    pub(super) fn bind_row_count(&mut self, query: &ast::Query) -> PlanResult<Option<Expr>> {
        let limit = self.bind_limit(query.limit.as_ref(), Place::Limit)?;
        let null = |expr: &Expr| matches!(&expr.kind, ExprKind::Const(value) if value.is_null());
        if query.with_ties && limit.as_ref().is_some_and(null) {
            let message = "row count cannot be null in FETCH FIRST ... WITH TIES clause";
            return Err(PlanError::new(
                SqlState::INVALID_ROW_COUNT_IN_LIMIT,
                message,
            ));
        }
        Ok(limit)
    }

    fn bind_values(&mut self, query: &ast::Query, rows: &[Vec<ast::Expr>]) -> PlanResult<Query> {
        self.scope().place = Place::Values;
        let mut bound = Vec::with_capacity(rows.len());
        let mut width = None;
        for row in rows {
            let values = self.bind_list(row)?;
            if *width.get_or_insert(values.len()) != values.len() {
                let message = "VALUES lists must all be the same length";
                let at = values.first().map_or(query.at, place::of);
                return Err(PlanError::new(SqlState::SYNTAX_ERROR, message).at(at));
            }
            bound.push(values);
        }
        let width = width.unwrap_or(0);
        let types = self.unify_columns(&mut bound, width)?;
        let names: Vec<Arc<str>> = (1..=width).map(|n| format!("column{n}").into()).collect();
        let rel = self.add_values(bound, names.clone(), types.clone());
        let mut targets = Vec::with_capacity(width);
        for (column, (name, ty)) in names.into_iter().zip(types).enumerate() {
            let var = Var {
                depth: 0,
                rel,
                column,
            };
            let expr = Expr {
                kind: ExprKind::Var(var),
                ty,
                at: ast::Pos::NONE,
            };
            targets.push(shown(expr, name));
        }
        let order_by = self.bind_order_by(&query.order_by, &mut targets)?;
        let offset = self.bind_limit(query.offset.as_ref(), Place::Offset)?;
        let limit = self.bind_row_count(query)?;
        if let Some(locking) = query.locking.first() {
            let message = format!(
                "{} cannot be applied to VALUES",
                super::locking::clause(locking.strength)
            );
            return Err(PlanError::unsupported(message));
        }
        Ok(Query {
            from: vec![FromNode::Entry(rel)],
            targets,
            order_by,
            offset,
            limit,
            with_ties: query.with_ties,
            ..Query::default()
        })
    }

    /// Makes each column of the rows of one type.
    fn unify_columns(&mut self, rows: &mut [Vec<Expr>], width: usize) -> PlanResult<Vec<SqlType>> {
        let mut types = Vec::with_capacity(width);
        for column in 0..width {
            let refs: Vec<&Expr> = rows.iter().map(|row| &row[column]).collect();
            let common = common_type::select(&refs, "VALUES")?;
            for row in rows.iter_mut() {
                let blank = constant(evenkeel_types::Datum::Null, common, ast::Pos::NONE);
                let value = std::mem::replace(&mut row[column], blank);
                row[column] = self.coerce_to_common(value, common, "VALUES")?;
            }
            let refs: Vec<&Expr> = rows.iter().map(|row| &row[column]).collect();
            types.push(common_type::with_modifier(&refs, common));
        }
        Ok(types)
    }

    fn add_values(
        &mut self,
        rows: Vec<Vec<Expr>>,
        columns: Vec<Arc<str>>,
        types: Vec<SqlType>,
    ) -> usize {
        let entry = crate::bound::RangeEntry {
            alias: "*VALUES*".into(),
            columns,
            types,
            kind: RangeKind::Values(rows),
            lateral: false,
            indexes: Vec::new(),
            virtuals: Vec::new(),
        };
        self.add_visible(entry)
    }
}

/// A subquery that is grouped by is one with those elsewhere that are written alike.
fn unify_grouped(bound: &mut Query) {
    let mut known = Vec::new();
    for expr in &bound.group_by {
        walk::walk(expr, 0, &mut |node, level| {
            if let (ExprKind::Sublink(link), 0) = (&node.kind, level) {
                known.push(Sublink::clone(link));
            }
            match level {
                0 => walk::Enter::Yes,
                _ => walk::Enter::No,
            }
        });
    }
    if known.is_empty() {
        return;
    }
    let targets = bound.targets.iter_mut().map(|target| &mut target.expr);
    for expr in targets.chain(&mut bound.having) {
        equal::unify(expr, &known);
    }
    for window in &mut bound.windows {
        let order = window.order_by.iter_mut().map(|key| &mut key.key);
        for expr in window.partition_by.iter_mut().chain(order) {
            equal::unify(expr, &known);
        }
    }
}

/// Expressions of windows, which the check of grouping looks at.
fn window_exprs(windows: &[WindowDef]) -> Vec<&Expr> {
    let mut exprs = Vec::new();
    for window in windows {
        exprs.extend(&window.partition_by);
        exprs.extend(window.order_by.iter().map(|key| &key.key));
    }
    exprs
}

/// The common table expressions of a query that is bound.
pub(super) fn finish_ctes(slots: Vec<super::scope::CteSlot>) -> Vec<Arc<Cte>> {
    let finished = slots.into_iter().filter_map(|slot| {
        slot.bound.map(|mut cte| {
            cte.references = slot.references;
            Arc::new(cte)
        })
    });
    finished.collect()
}
