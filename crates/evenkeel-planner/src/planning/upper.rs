//! Everything above the joins of a query: groups, windows, the select list, DISTINCT, ORDER BY and
//! LIMIT.

use std::rc::Rc;

use evenkeel_types::Datum;

use crate::bound::{Distinct, Expr, ExprKind, Query};
use crate::error::PlanResult;
use crate::plan::{AggregateStrategy, Estimate};

use super::cost::{disabled, filter_cost, keys_met, path, rows};
use super::extremes;
use super::joins::{UsefulOrders, add_path};
use super::number::NUMBERED;
use super::ops;
use super::path::{ExprRef, OrderKey, PathKind, PathRef, same};
use super::problem::{Clause, ItemKind, Unit};
use super::rels::Rels;
use super::statement::{Statement, rels_of};
use super::tree::has_set;
use super::walk;

/// A planned query: a path, whose rows are the select list without junk.
pub(super) struct Planned {
    /// The path.
    pub(super) path: PathRef,
    /// The order of its rows: column, descending, NULLs first.
    pub(super) order: Vec<(usize, bool, bool)>,
}

/// Equalities that hold in a query.
struct Known {
    /// Expressions that are equal to a constant.
    constants: Vec<ExprRef>,
    /// Pairs that are equal.
    pairs: Vec<(ExprRef, ExprRef)>,
    /// The query's relations.
    rels: Rels,
}

impl Known {
    fn of(unit: &Unit) -> Known {
        let mut certain = Rels::default();
        for item in &unit.items {
            if matches!(item.kind, ItemKind::Leaf(_)) {
                certain.extend(&item.rels);
            }
        }
        let (mut constants, mut pairs) = (Vec::new(), Vec::new());
        for clause in &unit.clauses {
            let Some((left, right)) = ops::same_type_equality(&clause.expr) else {
                continue;
            };
            let (in_left, in_right) = (rels_of(left), rels_of(right));
            let (left, right) = (Rc::new(left.clone()), Rc::new(right.clone()));
            if !in_right.meets(&unit.rels) {
                constants.push(left);
            } else if !in_left.meets(&unit.rels) {
                constants.push(right);
            } else if in_left.union(&in_right).within(&certain) {
                pairs.push((left, right));
            }
        }
        Known {
            constants,
            pairs,
            rels: unit.rels.clone(),
        }
    }

    fn is_constant(&self, expr: &Expr) -> bool {
        let plain = matches!(expr.kind, ExprKind::Const(_) | ExprKind::Param(_))
            || matches!(expr.kind, ExprKind::Var(var)
                if var.depth == NUMBERED && !self.rels.has(var.rel));
        plain || self.constants.iter().any(|known| same(known, expr))
    }

    fn equal(&self, a: &Expr, b: &Expr) -> bool {
        same(a, b)
            || self.pairs.iter().any(|(left, right)| {
                (same(left, a) && same(right, b)) || (same(left, b) && same(right, a))
            })
    }

    fn met(&self, has: &[OrderKey], wanted: &[OrderKey]) -> usize {
        keys_met(has, wanted, &|expr| self.is_constant(expr), &|a, b| {
            self.equal(a, b)
        })
    }
}

fn ascending(expr: &Expr) -> OrderKey {
    OrderKey {
        expr: Rc::new(expr.clone()),
        desc: false,
        nulls_first: false,
    }
}

impl Statement<'_> {
    /// The ways to run a query that no other beats; not empty.
    pub(super) fn query_paths(&mut self, mut query: Query) -> PlanResult<Vec<Planned>> {
        self.check_cancel()?;
        extremes::rewrite(&mut query);
        let first = self.enter(&mut query)?;
        if query.set_operation.is_some() {
            return self.set_paths(&mut query, first);
        }
        let tree = self.tree(&mut query, first)?;
        let unit = self.unit(tree);
        let mut marks = std::mem::take(&mut query.row_marks);
        self.number_marks(&mut marks, first);
        query.row_marks = self.own_marks(marks, &unit)?;
        let held = match query.row_marks.is_empty() {
            true => Vec::new(),
            false => self.hold_rows(&mut query, &unit),
        };
        let finished = self.finished(&query, &unit, &held)?;
        Ok(self.planned(&query, finished))
    }

    /// The ways to get the whole select list of a numbered query, junk included.
    pub(super) fn finished(
        &mut self,
        query: &Query,
        unit: &Unit,
        held: &[usize],
    ) -> PlanResult<Vec<PathRef>> {
        let known = Known::of(unit);
        let wish = self.wish(query);
        let candidates = self.unit_paths(unit, &[], &wish, 1.0)?;
        let mut finished = Vec::new();
        for candidate in &candidates {
            let one = self.finish(query, candidate, &known, held)?;
            add_path(&mut finished, one, wish.fast_start);
        }
        Ok(finished)
    }

    /// Takes the junk out of finished paths.
    pub(super) fn planned(&self, query: &Query, finished: Vec<PathRef>) -> Vec<Planned> {
        let kept: Vec<&Expr> = query
            .targets
            .iter()
            .filter(|target| !target.junk)
            .map(|target| &target.expr)
            .collect();
        let planned = finished.into_iter().map(|one| {
            let place = |key: &OrderKey| {
                let column = kept.iter().position(|expr| same(expr, &key.expr))?;
                Some((column, key.desc, key.nulls_first))
            };
            let order = one.order.iter().map_while(place).collect();
            let path = match kept.len() == query.targets.len() {
                true => one,
                false => self.project(
                    &one,
                    kept.iter().map(|expr| Rc::new(Expr::clone(expr))).collect(),
                ),
            };
            Planned { path, order }
        });
        planned.collect()
    }

    fn wish(&self, query: &Query) -> UsefulOrders {
        let mut orders = Vec::new();
        if query.grouped {
            if query.grouping_sets.is_empty() {
                orders.push(query.group_by.iter().map(ascending).collect());
            }
        } else {
            for window in &query.windows {
                let order = window.order_by.iter().map(OrderKey::from);
                orders.push(
                    window
                        .partition_by
                        .iter()
                        .map(ascending)
                        .chain(order)
                        .collect(),
                );
            }
            if let Distinct::Rows = query.distinct {
                let kept = query.targets.iter().filter(|target| !target.junk);
                orders.push(kept.map(|target| ascending(&target.expr)).collect());
            }
        }
        let order: Vec<OrderKey> = self.order_of(query);
        if !order.is_empty() {
            orders.push(order);
        }
        UsefulOrders {
            orders,
            fast_start: query.limit.is_some() && !query.grouped,
        }
    }

    pub(super) fn order_of(&self, query: &Query) -> Vec<OrderKey> {
        let keys = query.order_by.iter().map(|key| OrderKey {
            expr: Rc::new(query.targets[key.key].expr.clone()),
            desc: key.desc,
            nulls_first: key.nulls_first,
        });
        keys.collect()
    }

    fn finish(
        &self,
        query: &Query,
        joined: &PathRef,
        known: &Known,
        held: &[usize],
    ) -> PlanResult<PathRef> {
        let mut path = Rc::clone(joined);
        if query.grouped {
            path = self.sets_computed(&path, query.group_by.iter());
            path = self.grouped(query, &path, known);
            if let Some(having) = &query.having {
                let mut conditions = Vec::new();
                super::tree::conjuncts(having.clone(), &mut conditions);
                let clauses: Vec<Clause> = conditions.into_iter().map(Clause::new).collect();
                let share = 0.5_f64.powi(i32::try_from(clauses.len()).unwrap_or(4));
                let filter = clauses
                    .iter()
                    .map(|clause| Rc::clone(&clause.expr))
                    .collect();
                path = self.filtered(&path, filter, share);
            }
        }
        let windows = query.windows.iter();
        let keys = windows.flat_map(|window| {
            let order = window.order_by.iter().map(|key| &key.key);
            window.partition_by.iter().chain(order)
        });
        path = self.sets_computed(&path, keys);
        path = self.windowed(query, &path, known);
        let rows = shared_rows(query);
        if !rows.is_empty() {
            path = self.project_set(&path, rows, true);
        }
        self.listed(query, &path, known, held)
    }

    /// The rows with those set-returning functions that what groups or orders them calls.
    fn sets_computed<'e>(&self, child: &PathRef, exprs: impl Iterator<Item = &'e Expr>) -> PathRef {
        let exprs = exprs.filter(|expr| has_set(expr));
        let exprs: Vec<ExprRef> = exprs.map(|expr| Rc::new(expr.clone())).collect();
        match exprs.is_empty() {
            true => Rc::clone(child),
            false => self.project_set(child, exprs, true),
        }
    }

    /// The select list of a set operation, and what comes after it.
    pub(super) fn listed_set(&self, query: &Query, set: &PathRef) -> PlanResult<PathRef> {
        let known = Known {
            constants: Vec::new(),
            pairs: Vec::new(),
            rels: set.rels.clone(),
        };
        self.listed(query, set, &known, &[])
    }

    /// The select list and what comes after it.
    fn listed(
        &self,
        query: &Query,
        child: &PathRef,
        known: &Known,
        held: &[usize],
    ) -> PlanResult<PathRef> {
        let exprs: Vec<ExprRef> = query
            .targets
            .iter()
            .map(|target| Rc::new(target.expr.clone()))
            .collect();
        let mut path = match exprs.iter().any(|expr| has_set(expr)) {
            true => self.project_set(child, exprs, false),
            false => self.project(child, exprs),
        };
        let wanted = self.order_of(query);
        let limit = self.limit_rows(query);
        path = self.distinct_rows(query, &path, &wanted, known);
        let met = known.met(&path.order, &wanted);
        if met < wanted.len() {
            // A lock may leave rows out, so any number may be needed.
            let bound = limit.filter(|_| !query.with_ties && query.row_marks.is_empty());
            path = self.sort(&path, wanted.clone(), 0, bound);
        }
        if !query.row_marks.is_empty() {
            path = self.locked_rows(query, &path, held);
        }
        if query.limit.is_some() || query.offset.is_some() {
            path = self.limited(query, &path, limit, wanted);
        }
        Ok(path)
    }

    /// Locks rows. A row that has changed comes again where it was, so the order is no longer
    /// certain, as in PostgreSQL.
    fn locked_rows(&self, query: &Query, child: &PathRef, held: &[usize]) -> PathRef {
        let estimate = Estimate {
            total: child.estimate.total + child.estimate.rows * self.settings.cpu_tuple_cost,
            ..child.estimate
        };
        let kind = PathKind::LockRows {
            child: Rc::clone(child),
            marks: query.row_marks.clone(),
            held: held.to_vec(),
        };
        path(kind, estimate, Vec::new(), child.rels.clone())
    }

    fn distinct_rows(
        &self,
        query: &Query,
        child: &PathRef,
        wanted: &[OrderKey],
        known: &Known,
    ) -> PathRef {
        let of = |columns: &mut dyn Iterator<Item = usize>| -> Vec<ExprRef> {
            let exprs = columns.map(|column| Rc::new(query.targets[column].expr.clone()));
            exprs.collect()
        };
        match &query.distinct {
            Distinct::All => Rc::clone(child),
            Distinct::Rows => {
                let kept = query.targets.iter().enumerate();
                let mut kept = kept.filter(|(_, target)| !target.junk).map(|(at, _)| at);
                let group = of(&mut kept);
                let keys: Vec<OrderKey> = group.iter().map(|expr| ascending(expr)).collect();
                if known.met(&child.order, &keys) == keys.len() {
                    return self.unique(child, group);
                }
                self.distinct_path(child, group)
            }
            // The rows come in the order of the keys, which ORDER BY begins with.
            Distinct::On(columns) => {
                let on = of(&mut columns.iter().copied());
                let mut keys = wanted.to_vec();
                for expr in &on {
                    if !keys.iter().any(|key| same(&key.expr, expr)) {
                        keys.push(ascending(expr));
                    }
                }
                let ordered = match known.met(&child.order, &keys) == keys.len() {
                    true => Rc::clone(child),
                    false => self.sort(child, keys, 0, None),
                };
                self.unique(&ordered, on)
            }
        }
    }

    fn unique(&self, child: &PathRef, exprs: Vec<ExprRef>) -> PathRef {
        let input = child.estimate.rows;
        let distinct: f64 = exprs
            .iter()
            .map(|expr| self.distinct(expr, input))
            .product();
        let estimate = Estimate {
            total: child.estimate.total
                + input * self.settings.cpu_operator_cost * exprs.len() as f64,
            rows: rows(distinct.min(input)),
            ..child.estimate
        };
        let kind = PathKind::Unique {
            child: Rc::clone(child),
            exprs,
        };
        path(kind, estimate, child.order.clone(), child.rels.clone())
    }

    /// The rows that a limit leaves to be read, where it is known.
    pub(super) fn limit_rows(&self, query: &Query) -> Option<f64> {
        let number = |expr: &Expr| match self.known_value(expr)? {
            Datum::Int8(value) => Some((*value).max(0) as f64),
            Datum::Int4(value) => Some(f64::from((*value).max(0))),
            _ => None,
        };
        let limit = query.limit.as_ref()?;
        // A tenth is PostgreSQL's guess where it is not known; few rows are the usual case.
        let count = number(limit).unwrap_or(10.0);
        let offset = query
            .offset
            .as_ref()
            .map_or(0.0, |offset| number(offset).unwrap_or(0.0));
        Some(count + offset)
    }

    pub(super) fn limited(
        &self,
        query: &Query,
        child: &PathRef,
        limit: Option<f64>,
        wanted: Vec<OrderKey>,
    ) -> PathRef {
        let input = child.estimate.rows.max(1.0);
        let read = limit.map_or(input, |limit| limit.clamp(1.0, input));
        let share = read / input;
        let estimate = Estimate {
            total: child.estimate.startup + (child.estimate.total - child.estimate.startup) * share,
            rows: read,
            ..child.estimate
        };
        let kind = PathKind::Limit {
            child: Rc::clone(child),
            offset: query.offset.clone().map(Rc::new),
            count: query.limit.clone().map(Rc::new),
            ties: query.with_ties.then_some(wanted),
        };
        path(kind, estimate, child.order.clone(), child.rels.clone())
    }

    pub(super) fn project(&self, child: &PathRef, exprs: Vec<ExprRef>) -> PathRef {
        let each = filter_cost(self.settings, exprs.iter().filter(|e| !is_plain(e)).count());
        let estimate = Estimate {
            total: child.estimate.total + child.estimate.rows * each,
            ..child.estimate
        };
        let kind = PathKind::Project {
            child: Rc::clone(child),
            exprs,
        };
        path(kind, estimate, child.order.clone(), child.rels.clone())
    }

    fn project_set(&self, child: &PathRef, exprs: Vec<ExprRef>, keep: bool) -> PathRef {
        let estimate = Estimate {
            total: child.estimate.total * 2.0,
            rows: child.estimate.rows * 10.0,
            ..child.estimate
        };
        let kind = PathKind::ProjectSet {
            child: Rc::clone(child),
            exprs,
            keep,
        };
        path(kind, estimate, Vec::new(), child.rels.clone())
    }

    fn grouped(&self, query: &Query, child: &PathRef, known: &Known) -> PathRef {
        let mut group: Vec<ExprRef> = Vec::new();
        let mut places = Vec::with_capacity(query.group_by.len());
        for expr in &query.group_by {
            places.push(group.len());
            group.push(Rc::new(expr.clone()));
        }
        let mut aggregates: Vec<ExprRef> = Vec::new();
        let targets = query.targets.iter().map(|target| &target.expr);
        let windows = query.windows.iter();
        let windows = windows.flat_map(|window| {
            let order = window.order_by.iter().map(|key| &key.key);
            window.partition_by.iter().chain(order)
        });
        let all = targets.chain(&query.having).chain(windows);
        for expr in all {
            self.collect(expr, &mut group, &mut aggregates, query, &known.rels);
        }
        let input = child.estimate.rows;
        let keys: Vec<OrderKey> = group.iter().map(|expr| ascending(expr)).collect();
        let in_order = query.grouping_sets.is_empty()
            && !group.is_empty()
            && known.met(&child.order, &keys) == keys.len();
        let plain = group.is_empty() && query.grouping_sets.is_empty();
        let strategy = match (plain, in_order) {
            (true, _) => AggregateStrategy::Plain,
            (_, true) => AggregateStrategy::Sorted,
            _ => AggregateStrategy::Hashed,
        };
        let groups: f64 = group
            .iter()
            .map(|expr| self.distinct(expr, input))
            .product();
        let groups = if plain { 1.0 } else { rows(groups.min(input)) };
        let sets = query.grouping_sets.len().max(1) as f64;
        let each = self.settings.cpu_operator_cost * (group.len() + aggregates.len()) as f64;
        let total = child.estimate.total
            + input * each * sets
            + groups * self.settings.cpu_tuple_cost
            + disabled(self.settings.hashagg || strategy != AggregateStrategy::Hashed);
        let estimate = Estimate {
            startup: match strategy {
                AggregateStrategy::Sorted => child.estimate.startup,
                _ => total,
            },
            total,
            rows: groups * sets,
            bytes: (group.len() + aggregates.len()) as f64 * 16.0,
        };
        let order = match strategy {
            AggregateStrategy::Sorted => child.order.clone(),
            _ => Vec::new(),
        };
        let sets = query.grouping_sets.iter();
        let sets = sets.map(|set| set.iter().map(|at| places[*at]).collect());
        let kind = PathKind::Aggregate {
            child: Rc::clone(child),
            strategy,
            group,
            sets: sets.collect(),
            aggregates,
        };
        path(kind, estimate, order, child.rels.clone())
    }

    /// Finds the aggregates of an expression, and the columns that depend on the grouped ones.
    fn collect(
        &self,
        expr: &Expr,
        group: &mut Vec<ExprRef>,
        aggregates: &mut Vec<ExprRef>,
        query: &Query,
        rels: &Rels,
    ) {
        if group.iter().any(|known| same(known, expr)) {
            return;
        }
        match &expr.kind {
            ExprKind::Aggregate(_) => add(aggregates, expr),
            ExprKind::Var(var) if var.depth == NUMBERED && rels.has(var.rel) => {
                // Without grouping sets the binder lets only those through that the key decides.
                if query.grouping_sets.is_empty() {
                    add(group, expr);
                }
            }
            ExprKind::Sublink(sublink) => {
                let mut inside = Vec::new();
                walk::each_of_query(&sublink.query, &mut |part| match &part.kind {
                    ExprKind::Aggregate(aggregate) if aggregate.depth == NUMBERED => {
                        inside.push(part.clone());
                    }
                    ExprKind::Var(var) if var.depth == NUMBERED && rels.has(var.rel) => {
                        inside.push(part.clone());
                    }
                    _ => {}
                });
                // Columns within an aggregate of this query are its arguments.
                let within: Vec<Expr> = inside.clone();
                let argument = |var: &Expr| {
                    within.iter().any(|outer| {
                        matches!(outer.kind, ExprKind::Aggregate(_))
                            && walk::any(outer, &mut |part| same(part, var))
                    })
                };
                for part in &inside {
                    match &part.kind {
                        ExprKind::Aggregate(_) if rels_of(part).meets(rels) => {
                            add(aggregates, part);
                        }
                        ExprKind::Var(_) if !argument(part) => {
                            self.collect(part, group, aggregates, query, rels);
                        }
                        _ => {}
                    }
                }
                walk::parts(expr, &mut |part| {
                    self.collect(part, group, aggregates, query, rels);
                });
            }
            _ => walk::parts(expr, &mut |part| {
                self.collect(part, group, aggregates, query, rels);
            }),
        }
    }

    fn windowed(&self, query: &Query, joined: &PathRef, known: &Known) -> PathRef {
        let mut path_now = Rc::clone(joined);
        for (number, window) in query.windows.iter().enumerate() {
            let mut functions = Vec::new();
            for target in &query.targets {
                collect_window(&target.expr, number, &mut functions);
            }
            if functions.is_empty() {
                continue;
            }
            let partition: Vec<ExprRef> = window
                .partition_by
                .iter()
                .map(|expr| Rc::new(expr.clone()))
                .collect();
            let order: Vec<OrderKey> = window.order_by.iter().map(OrderKey::from).collect();
            let mut keys: Vec<OrderKey> = partition.iter().map(|expr| ascending(expr)).collect();
            keys.extend(order.iter().cloned());
            if known.met(&path_now.order, &keys) < keys.len() {
                path_now = self.sort(&path_now, keys, 0, None);
            }
            let child = &path_now;
            let each = self.settings.cpu_operator_cost * functions.len() as f64;
            let estimate = Estimate {
                total: child.estimate.total
                    + child.estimate.rows * (each + self.settings.cpu_tuple_cost),
                bytes: child.estimate.bytes + 8.0 * functions.len() as f64,
                ..child.estimate
            };
            let kind = PathKind::Window {
                child: Rc::clone(child),
                partition,
                order,
                frame: Rc::new(window.frame.clone()),
                functions,
            };
            path_now = path(kind, estimate, child.order.clone(), child.rels.clone());
        }
        path_now
    }
}

/// Subqueries of which several items of the select list are columns: the sources of
/// `SET (a, b) = (SELECT …)`, which run once for a row.
fn shared_rows(query: &Query) -> Vec<ExprRef> {
    let mut seen: Vec<&Expr> = Vec::new();
    let mut shared = Vec::new();
    for target in &query.targets {
        let Some(row) = row_of_field(&target.expr) else {
            continue;
        };
        match seen.iter().any(|known| same(known, row)) {
            true => add(&mut shared, row),
            false => seen.push(row),
        }
    }
    shared
}

/// The subquery whose column an item is, casts apart.
pub(super) fn row_of_field(expr: &Expr) -> Option<&Expr> {
    match &expr.kind {
        ExprKind::Cast { arg, .. } | ExprKind::Relabel(arg) => row_of_field(arg),
        ExprKind::Field { row, .. } if matches!(row.kind, ExprKind::Sublink(_)) => Some(row),
        _ => None,
    }
}

fn collect_window(expr: &Expr, number: usize, functions: &mut Vec<ExprRef>) {
    if let ExprKind::Window(window) = &expr.kind {
        if window.window == number {
            add(functions, expr);
        }
        return;
    }
    walk::parts(expr, &mut |part| collect_window(part, number, functions));
}

fn add(exprs: &mut Vec<ExprRef>, expr: &Expr) {
    if !exprs.iter().any(|known| same(known, expr)) {
        exprs.push(Rc::new(expr.clone()));
    }
}

fn is_plain(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::Var(_) | ExprKind::Const(_))
}
