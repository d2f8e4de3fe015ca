//! The ways to join two sets of rows: nested loops, with the inner side run for each outer row or
//! kept, and hash joins.

use std::rc::Rc;

use evenkeel_types::SqlState;

use crate::error::{PlanError, PlanResult};
use crate::plan::{AggregateStrategy, Estimate, JoinType};

use super::cost::{PAGE, disabled, filter_cost, path, rows};
use super::hashing;
use super::joins::{Mask, Search, UsefulOrders, add_path, cheapest, join_rows, join_type};
use super::path::{ExprRef, PathKind, PathRef};
use super::problem::{Clause, ItemKind, SpecialKind};
use super::rels::Rels;
use super::statement::{Paths, Statement};
use super::volatility::differs_by_row;

/// Memory of a kept set of rows, and of a kept row, besides the values.
const ENTRY_OVERHEAD: f64 = 64.0;

/// Two sides and what joins them.
struct Pair<'p> {
    outer: &'p PathRef,
    join: JoinType,
    /// Join conditions.
    on: Vec<&'p Clause>,
    /// Conditions on the joined row.
    filter: Vec<&'p Clause>,
    /// The rows of the result.
    rows: f64,
}

fn exprs(clauses: &[&Clause]) -> Vec<ExprRef> {
    let clauses = clauses.iter();
    clauses.map(|clause| Rc::clone(&clause.expr)).collect()
}

impl Statement<'_> {
    /// Adds the inner joins of two sets; `item` if the right one is a single item.
    pub(super) fn inner_join(
        &mut self,
        search: &mut Search<'_>,
        left: Mask,
        right: Mask,
        item: Option<usize>,
    ) -> PlanResult<()> {
        let on: Vec<Clause> = search.joining(left, right).into_iter().cloned().collect();
        let on: Vec<&Clause> = on.iter().collect();
        let outers = search.best[&left].clone();
        let inners = search.best.get(&right).cloned().unwrap_or_default();
        let runs = match item {
            Some(item) => self.runs_of(search, item, &on, &outers)?,
            None => Vec::new(),
        };
        let Some(first) = outers.first() else {
            return Ok(());
        };
        let rows = match (inners.first(), runs.first()) {
            (Some(inner), _) => {
                let inside = first.rels.union(&inner.rels);
                let share = self.selectivity(&on, &inside);
                let (outer, inner) = (first.estimate.rows, inner.estimate.rows);
                join_rows(JoinType::Inner, outer, inner, share, 1.0)
            }
            (None, Some(run)) => rows(first.estimate.rows * run.estimate.rows),
            (None, None) => return Ok(()),
        };
        let mut found = Vec::new();
        for outer in &outers {
            let pair = Pair {
                outer,
                join: JoinType::Inner,
                on: on.clone(),
                filter: Vec::new(),
                rows,
            };
            self.joins_of(&pair, &inners, &runs, &mut found);
        }
        keep(search, left | right, found);
        Ok(())
    }

    /// Adds the joins of a set with the right side of a special join.
    pub(super) fn special_join(
        &mut self,
        search: &mut Search<'_>,
        left: Mask,
        number: usize,
    ) -> PlanResult<()> {
        let unit = search.unit;
        let ItemKind::Special {
            kind,
            unit: right,
            on,
        } = &unit.items[number].kind
        else {
            return Ok(());
        };
        let join = join_type(*kind);
        let alone = right.outside().is_empty();
        if alone && !search.special.contains_key(&number) {
            let paths = self.unit_paths(right, &[], &UsefulOrders::default(), 1.0)?;
            search.special.insert(number, paths);
        }
        let inners = search.special.get(&number).cloned().unwrap_or_default();
        let joining = search.joining(left, 1 << number);
        let alone_on = search.restricting(number);
        // The conditions of the join itself are among those of all joins if its right side may be
        // made distinct; they are asked once.
        let is_own = |clause: &Clause| on.iter().any(|own| Rc::ptr_eq(&own.expr, &clause.expr));
        let filter: Vec<Clause> = match kind {
            SpecialKind::Left => joining.into_iter().chain(alone_on).cloned().collect(),
            _ => {
                let others = joining.into_iter().filter(|clause| !is_own(clause));
                others.cloned().collect()
            }
        };
        let filter: Vec<&Clause> = filter.iter().collect();
        let on: Vec<&Clause> = on.iter().collect();
        let outers = search.best[&left].clone();
        let runs = self.runs_of(search, number, &on, &outers)?;
        let Some(first) = outers.first() else {
            return Ok(());
        };
        let inside = first.rels.union(&right.rels);
        let inner_rows = match (inners.first(), runs.first()) {
            (Some(inner), _) => inner.estimate.rows,
            (None, Some(run)) => run.estimate.rows,
            (None, None) => return Ok(()),
        };
        let share = match alone {
            true => self.selectivity(&on, &inside),
            false => 1.0,
        };
        let matching = self.match_share(&on, &right.rels, inner_rows);
        let joined = join_rows(join, first.estimate.rows, inner_rows, share, matching);
        let rows = rows(joined * self.selectivity(&filter, &inside));
        let mut found = Vec::new();
        for outer in &outers {
            let pair = Pair {
                outer,
                join,
                on: on.clone(),
                filter: filter.clone(),
                rows,
            };
            self.joins_of(&pair, &inners, &runs, &mut found);
        }
        keep(search, left | 1 << number, found);
        Ok(())
    }

    /// The share of outer rows that have a partner: by the distinct values of both sides.
    fn match_share(&self, on: &[&Clause], inner: &Rels, inner_rows: f64) -> f64 {
        let mut share: f64 = 1.0;
        let mut equalities = 0;
        for clause in on {
            let Some((outer, inner)) = hashing::hash_key(&clause.expr, inner) else {
                share *= 0.5;
                continue;
            };
            equalities += 1;
            let of_outer = self.distinct(outer, f64::MAX.sqrt());
            let of_inner = self.distinct(inner, inner_rows);
            share = share.min((of_inner / of_outer.max(1.0)).min(1.0));
        }
        if equalities == 0 && on.is_empty() {
            return 0.5;
        }
        share.clamp(0.0001, 1.0)
    }

    /// Paths of an item that are run for each outer row, with the conditions of the join among
    /// their own.
    fn runs_of(
        &mut self,
        search: &mut Search<'_>,
        number: usize,
        on: &[&Clause],
        outers: &Paths,
    ) -> PlanResult<Paths> {
        let Some(outer) = cheapest(outers) else {
            return Ok(Vec::new());
        };
        if !self.settings.nestloop && search.unit.items[number].needs.is_empty() {
            return Ok(Vec::new());
        }
        let item = &search.unit.items[number];
        let mut outside = Rels::default();
        for clause in on {
            let rels = clause.rels.iter().filter(|rel| !item.rels.has(*rel));
            rels.for_each(|rel| outside.insert(rel));
        }
        outside.extend(&item.needs);
        let key = (number, outside);
        if let Some(known) = search.inner.get(&key) {
            return Ok(known.clone());
        }
        let loops = outer.estimate.rows;
        let none = UsefulOrders::default();
        let found = match &search.unit.items[number].kind {
            ItemKind::Leaf(rel) => {
                let mut clauses = search.restricting(number);
                clauses.extend(on);
                let clauses: Vec<Clause> = clauses.into_iter().cloned().collect();
                let clauses: Vec<&Clause> = clauses.iter().collect();
                self.leaf_paths(*rel, &clauses, &none, loops)?
            }
            ItemKind::Special { unit, .. } => {
                let pushed: Vec<Clause> = on.iter().copied().cloned().collect();
                let unit: &super::problem::Unit = unit;
                self.unit_paths(unit, &pushed, &none, loops)?
            }
            ItemKind::Full { .. } | ItemKind::Part(_) => Vec::new(),
        };
        let best: Paths = cheapest(&found).cloned().into_iter().collect();
        search.inner.insert(key, best.clone());
        Ok(best)
    }

    fn joins_of(&self, pair: &Pair<'_>, inners: &Paths, runs: &Paths, found: &mut Paths) {
        if let Some(run) = runs.first() {
            found.push(self.nested_loop(pair, run, true));
            if let Some(kept) = self.memoized(pair, run) {
                found.push(self.nested_loop(pair, &kept, true));
            }
        }
        let Some(inner) = cheapest(inners) else {
            return;
        };
        found.push(self.nested_loop(pair, inner, false));
        if self.settings.material && inner.estimate.rows > 0.0 {
            found.push(self.nested_loop(pair, &self.materialize(inner), false));
        }
        if let Some(hash) = self.hash_join(pair, inner) {
            found.push(hash);
        }
    }

    /// The inner side of a loop whose rows are kept by the outer values that they depend on, where
    /// these repeat.
    fn memoized(&self, pair: &Pair<'_>, run: &PathRef) -> Option<PathRef> {
        let calls = pair.outer.estimate.rows;
        let mut values = 1.0;
        for clause in &pair.on {
            let (outer, _) = hashing::hash_key(&clause.expr, &run.rels)?;
            values *= self.distinct(outer, calls);
        }
        let steady = !pair.on.is_empty() && !pair.on.iter().any(|on| differs_by_row(&on.expr));
        if !self.settings.memoize || !steady || values * 2.0 > calls {
            return None;
        }
        let bytes = run.estimate.rows * (run.estimate.bytes + ENTRY_OVERHEAD) + ENTRY_OVERHEAD;
        let kept = (self.settings.work_mem / bytes).min(values);
        let hits = (1.0 - values / calls).max(0.0) * kept / values;
        let look_up = self.settings.cpu_operator_cost * 4.0;
        let estimate = Estimate {
            startup: run.estimate.startup * (1.0 - hits) + look_up,
            total: run.estimate.total * (1.0 - hits) + look_up,
            ..run.estimate
        };
        let kind = PathKind::Memoize {
            child: Rc::clone(run),
        };
        Some(path(kind, estimate, Vec::new(), run.rels.clone()))
    }

    /// A nested loop. Where the inner side is run with the outer row's values, the conditions of
    /// the join are its own already.
    fn nested_loop(&self, pair: &Pair<'_>, inner: &PathRef, run: bool) -> PathRef {
        let settings = self.settings;
        let outer = pair.outer;
        let outer_rows = outer.estimate.rows;
        let on: &[&Clause] = if run { &[] } else { &pair.on };
        let again = self.rescan(inner);
        // The first partner ends the search of a semijoin; it is about half way.
        let stops = matches!(pair.join, JoinType::Semi | JoinType::Anti);
        let looked_at = if stops { 0.6 } else { 1.0 };
        let pairs = outer_rows * inner.estimate.rows * looked_at;
        let total = outer.estimate.total
            + inner.estimate.total
            + (outer_rows - 1.0).max(0.0) * again * looked_at
            + pairs * (settings.cpu_tuple_cost + filter_cost(settings, on.len()))
            + pair.rows * filter_cost(settings, pair.filter.len())
            + disabled(settings.nestloop || run);
        let keeps_inner = !matches!(pair.join, JoinType::Semi | JoinType::Anti);
        let estimate = Estimate {
            startup: outer.estimate.startup + inner.estimate.startup,
            total,
            rows: pair.rows,
            bytes: outer.estimate.bytes
                + if keeps_inner {
                    inner.estimate.bytes
                } else {
                    0.0
                },
        };
        let kind = PathKind::NestedLoop {
            outer: Rc::clone(outer),
            inner: Rc::clone(inner),
            join: pair.join,
            condition: exprs(on),
            filter: exprs(&pair.filter),
        };
        let rels = match keeps_inner {
            true => outer.rels.union(&inner.rels),
            false => outer.rels.clone(),
        };
        path(kind, estimate, outer.order.clone(), rels)
    }

    fn hash_join(&self, pair: &Pair<'_>, inner: &PathRef) -> Option<PathRef> {
        let settings = self.settings;
        let outer = pair.outer;
        let mut keys = Vec::new();
        let mut condition = Vec::new();
        for clause in &pair.on {
            match hashing::key_between(&clause.expr, &outer.rels, &inner.rels) {
                Some(key) => keys.push(key),
                None => condition.push(*clause),
            }
        }
        if keys.is_empty() {
            return None;
        }
        let (outer_rows, inner_rows) = (outer.estimate.rows, inner.estimate.rows);
        let each = settings.cpu_operator_cost * keys.len() as f64;
        let distinct = keys
            .iter()
            .map(|(_, key)| self.distinct(key, inner_rows))
            .fold(1.0, f64::max);
        let bucket = (inner_rows / distinct).max(1.0);
        let startup = outer.estimate.startup
            + inner.estimate.total
            + (each + settings.cpu_tuple_cost) * inner_rows
            + disabled(settings.hashjoin);
        let bytes = inner_rows * (inner.estimate.bytes + 48.0);
        let spilled = if bytes > settings.work_mem * 2.0 {
            let outer_bytes = outer_rows * (outer.estimate.bytes + 24.0);
            2.0 * settings.seq_page_cost * ((bytes + outer_bytes) / PAGE).ceil()
        } else {
            0.0
        };
        let total = startup
            + (outer.estimate.total - outer.estimate.startup)
            + each * outer_rows
            + 0.5 * each * outer_rows * bucket
            + pair.rows
                * (settings.cpu_tuple_cost
                    + filter_cost(settings, condition.len() + pair.filter.len()))
            + spilled;
        let keeps_inner = !matches!(pair.join, JoinType::Semi | JoinType::Anti);
        let estimate = Estimate {
            startup,
            total,
            rows: pair.rows,
            bytes: outer.estimate.bytes
                + if keeps_inner {
                    inner.estimate.bytes
                } else {
                    0.0
                },
        };
        let kind = PathKind::Hash {
            outer: Rc::clone(outer),
            inner: Rc::clone(inner),
            join: pair.join,
            keys,
            condition: exprs(&condition),
            filter: exprs(&pair.filter),
        };
        let rels = match keeps_inner {
            true => outer.rels.union(&inner.rels),
            false => outer.rels.clone(),
        };
        Some(path(kind, estimate, Vec::new(), rels))
    }

    /// A full join, which needs an equality between its sides.
    pub(super) fn full_join(
        &self,
        left: &Paths,
        right: &Paths,
        on: &[Clause],
        filter: &[Clause],
    ) -> PlanResult<PathRef> {
        let missing = || PlanError::new(SqlState::INTERNAL_ERROR, "a side of a join has no path");
        let outer = cheapest(left).ok_or_else(missing)?;
        let inner = cheapest(right).ok_or_else(missing)?;
        let on: Vec<&Clause> = on.iter().collect();
        let inside = outer.rels.union(&inner.rels);
        let share = self.selectivity(&on, &inside);
        let (outer_rows, inner_rows) = (outer.estimate.rows, inner.estimate.rows);
        let pair = Pair {
            outer,
            join: JoinType::Full,
            on,
            filter: filter.iter().collect(),
            rows: join_rows(JoinType::Full, outer_rows, inner_rows, share, 1.0),
        };
        if let Some(hash) = self.hash_join(&pair, inner) {
            return Ok(hash);
        }
        let constant = pair.on.iter().all(|clause| clause.rels.is_empty());
        if constant {
            return Ok(self.nested_loop(&pair, inner, false));
        }
        Err(PlanError::unsupported(
            "FULL JOIN is only supported with merge-joinable or hash-joinable join conditions",
        ))
    }

    /// The right side of a semijoin, each combination of its keys once.
    pub(super) fn distinct_right(
        &self,
        right: &Paths,
        on: &[Clause],
        inner: &Rels,
    ) -> PlanResult<PathRef> {
        let child = cheapest(right)
            .ok_or_else(|| PlanError::new(SqlState::INTERNAL_ERROR, "a subquery has no path"))?;
        let mut group: Vec<ExprRef> = Vec::new();
        for clause in on {
            if let Some((_, key)) = hashing::hash_key(&clause.expr, inner)
                && !group.iter().any(|known| super::path::same(known, key))
            {
                group.push(Rc::new(key.clone()));
            }
        }
        Ok(self.distinct_path(child, group))
    }

    /// The distinct values of some expressions of a path.
    pub(super) fn distinct_path(&self, child: &PathRef, group: Vec<ExprRef>) -> PathRef {
        let settings = self.settings;
        let input = child.estimate.rows;
        let distinct: f64 = group.iter().map(|key| self.distinct(key, input)).product();
        let each = settings.cpu_operator_cost * group.len() as f64;
        let total = child.estimate.total + input * each + settings.cpu_tuple_cost * distinct;
        let estimate = Estimate {
            startup: child.estimate.total + input * each,
            total,
            rows: rows(distinct.min(input)),
            bytes: child.estimate.bytes,
        };
        let kind = PathKind::Aggregate {
            child: Rc::clone(child),
            strategy: AggregateStrategy::Hashed,
            group,
            sets: Vec::new(),
            aggregates: Vec::new(),
        };
        path(kind, estimate, Vec::new(), child.rels.clone())
    }
}

fn keep(search: &mut Search<'_>, set: Mask, found: Paths) {
    let fast_start = search.wish.fast_start;
    let paths = search.best.entry(set).or_default();
    for one in found {
        add_path(paths, one, fast_start);
    }
}
