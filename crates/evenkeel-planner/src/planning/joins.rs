//! The order of joins, by dynamic programming over sets of items, greedily where there are many.
//!
//! Source: Selinger et al., "Access Path Selection in a Relational Database Management System"
//! (1979), with bushy trees. A set's paths are those that no other beats in cost, start and order.

use std::collections::HashMap;
use std::rc::Rc;

use evenkeel_types::{Datum, SqlState};

use crate::bound::{Expr, ExprKind};
use crate::error::{PlanError, PlanResult};
use crate::plan::{Estimate, JoinType};

use super::cost::{filter_cost, path, rows};
use super::path::{ExprRef, OrderKey, PathKind, PathRef, same};
use super::problem::{Clause, Item, ItemKind, SpecialKind, Unit};
use super::rels::Rels;
use super::statement::{Paths, Statement};
use super::volatility;

/// Sets of items.
pub(super) type Mask = u128;
/// Most items of one join problem.
const ITEMS_MAX: usize = 127;
/// A path must be cheaper by this factor to be another.
const FUZZ: f64 = 1.01;

/// The orders and the haste that the query above wishes for.
#[derive(Debug, Clone, Default)]
pub(super) struct UsefulOrders {
    /// Orders that would save a sort.
    pub(super) orders: Vec<Vec<OrderKey>>,
    /// The first rows may be all that is read.
    pub(super) fast_start: bool,
}

impl UsefulOrders {
    /// Whether an order that begins with this key is of use.
    pub(super) fn wants(&self, key: &OrderKey) -> bool {
        self.orders.iter().flatten().any(|wish| {
            same(&wish.expr, &key.expr)
                && wish.desc == key.desc
                && wish.nulls_first == key.nulls_first
        })
    }
}

/// Adds a path unless another is as good in everything; drops those that it beats.
pub(super) fn add_path(paths: &mut Paths, new: PathRef, fast_start: bool) {
    let beats = |a: &PathRef, b: &PathRef| {
        let orders = b.order.len() <= a.order.len()
            && b.order.iter().zip(&a.order).all(|(b, a)| {
                same(&b.expr, &a.expr) && b.desc == a.desc && b.nulls_first == a.nulls_first
            });
        orders
            && a.estimate.total <= b.estimate.total * FUZZ
            && (!fast_start || a.estimate.startup <= b.estimate.startup * FUZZ)
    };
    if paths.iter().any(|old| beats(old, &new)) {
        return;
    }
    paths.retain(|old| !beats(&new, old));
    paths.push(new);
}

/// The cheapest of some paths.
pub(super) fn cheapest(paths: &[PathRef]) -> Option<&PathRef> {
    paths
        .iter()
        .min_by(|a, b| a.estimate.total.total_cmp(&b.estimate.total))
}

/// One join problem while it is solved.
pub(super) struct Search<'u> {
    pub(super) unit: &'u Unit,
    /// The unit's conditions and those that came from outside.
    pub(super) clauses: Vec<Clause>,
    /// The items that a condition looks at.
    pub(super) clause_masks: Vec<Mask>,
    /// The items that an item needs.
    needs: Vec<Mask>,
    /// Semijoins whose right side may be made distinct and joined like any other.
    pub(super) distinct: Vec<bool>,
    pub(super) wish: &'u UsefulOrders,
    pub(super) best: HashMap<Mask, Paths>,
    /// Paths of the right sides of special joins.
    pub(super) special: HashMap<usize, Paths>,
    /// Paths of an item that are run for each outer row, by the relations outside that they use.
    pub(super) inner: HashMap<(usize, Rels), Paths>,
    loops: f64,
}

impl Search<'_> {
    fn mask_of(unit: &Unit, rels: &Rels) -> Mask {
        let items = unit.items.iter().enumerate();
        items
            .filter(|(_, item)| item.rels.meets(rels))
            .fold(0, |mask, (at, _)| mask | 1 << at)
    }

    /// The conditions that can be asked where `left` and `right` come together, and no earlier.
    pub(super) fn joining(&self, left: Mask, right: Mask) -> Vec<&Clause> {
        let all = left | right;
        let masks = self.clauses.iter().zip(&self.clause_masks);
        masks
            .filter(|(_, mask)| **mask & !all == 0 && **mask & !left != 0 && **mask & !right != 0)
            .map(|(clause, _)| clause)
            .collect()
    }

    /// The conditions on one item alone.
    pub(super) fn restricting(&self, item: usize) -> Vec<&Clause> {
        let masks = self.clauses.iter().zip(&self.clause_masks);
        masks
            .filter(|(_, mask)| **mask == 1 << item)
            .map(|(clause, _)| clause)
            .collect()
    }

    fn connected(&self, left: Mask, right: Mask) -> bool {
        let needs = |from: Mask, of: Mask| {
            (0..self.unit.items.len()).any(|at| of & (1 << at) != 0 && self.needs[at] & from != 0)
        };
        let clauses = self.clause_masks.iter();
        let mut clauses = clauses.filter(|mask| **mask & !(left | right) == 0);
        clauses.any(|mask| mask & left != 0 && mask & right != 0)
            || needs(left, right)
            || needs(right, left)
    }

    /// Whether an item can begin a join.
    fn stands_alone(&self, item: usize) -> bool {
        match self.unit.items[item].kind {
            ItemKind::Leaf(_) | ItemKind::Full { .. } | ItemKind::Part(_) => self.needs[item] == 0,
            ItemKind::Special { .. } => self.distinct[item],
        }
    }
}

impl Statement<'_> {
    /// The paths of a join problem under conditions from outside too, which is run `loops` times.
    pub(super) fn unit_paths(
        &mut self,
        unit: &Unit,
        pushed: &[Clause],
        wish: &UsefulOrders,
        loops: f64,
    ) -> PlanResult<Paths> {
        self.check_cancel()?;
        let parts = (unit.items.len() > ITEMS_MAX).then(|| unit.clone().in_parts());
        let unit = parts.as_ref().unwrap_or(unit);
        let count = unit.items.len();
        if count > ITEMS_MAX {
            return Err(PlanError::new(
                SqlState::STATEMENT_TOO_COMPLEX,
                format!("a query may not join more than {ITEMS_MAX} relations"),
            ));
        }
        let mut search = self.search(unit, pushed, wish, loops);
        if count == 0 {
            return Ok(vec![self.no_relation(&search.clauses)]);
        }
        for item in 0..count {
            if search.stands_alone(item) {
                let paths = self.item_paths(&mut search, item)?;
                search.best.insert(1 << item, paths);
            }
        }
        let all: Mask = (1 << count) - 1;
        if count > 1 {
            if count <= self.settings.exhaustive_joins {
                self.join_all(&mut search, all, false)?;
                if !search.best.contains_key(&all) {
                    self.join_all(&mut search, all, true)?;
                }
            } else {
                self.join_greedily(&mut search, all)?;
            }
        }
        let paths = search.best.remove(&all).filter(|paths| !paths.is_empty());
        let paths = paths.ok_or_else(|| {
            PlanError::new(
                SqlState::INTERNAL_ERROR,
                "found no order for the query's joins",
            )
        })?;
        let masks = search.clauses.iter().zip(&search.clause_masks);
        let constant = masks.filter(|(_, mask)| **mask == 0);
        let constant: Vec<_> = constant
            .map(|(clause, _)| Rc::clone(&clause.expr))
            .collect();
        if constant.is_empty() {
            return Ok(paths);
        }
        if constant.iter().any(|expr| is_never_true(expr)) {
            let rels = paths
                .iter()
                .fold(Rels::default(), |all, one| all.union(&one.rels));
            let none = Estimate::default();
            return Ok(vec![path(PathKind::Nothing, none, Vec::new(), rels)]);
        }
        let paths = paths.iter();
        Ok(paths
            .map(|one| self.filtered(one, constant.clone(), 1.0))
            .collect())
    }

    /// A path of whose rows conditions leave this share.
    pub(super) fn filtered(&self, child: &PathRef, filter: Vec<ExprRef>, share: f64) -> PathRef {
        let each = filter_cost(self.settings, filter.len());
        let estimate = Estimate {
            total: child.estimate.total + child.estimate.rows * each,
            rows: rows(child.estimate.rows * share),
            ..child.estimate
        };
        let kind = PathKind::Filter {
            child: Rc::clone(child),
            filter,
        };
        path(kind, estimate, child.order.clone(), child.rels.clone())
    }

    fn search<'u>(
        &self,
        unit: &'u Unit,
        pushed: &[Clause],
        wish: &'u UsefulOrders,
        loops: f64,
    ) -> Search<'u> {
        let mut clauses = unit.clauses.clone();
        clauses.extend(pushed.iter().cloned());
        let distinct: Vec<bool> = unit.items.iter().map(can_be_distinct).collect();
        // The conditions of a semijoin whose right side may be made distinct are conditions like
        // all others then; its own join uses them as well.
        for (item, distinct) in unit.items.iter().zip(&distinct) {
            if let ItemKind::Special { on, .. } = &item.kind
                && *distinct
            {
                clauses.extend(on.iter().cloned());
            }
        }
        let masks = clauses.iter();
        let clause_masks = masks
            .map(|clause| Search::mask_of(unit, &clause.rels))
            .collect();
        let needs = unit.items.iter();
        let needs = needs
            .map(|item| Search::mask_of(unit, &item.needs))
            .collect();
        Search {
            unit,
            clauses,
            clause_masks,
            needs,
            distinct,
            wish,
            best: HashMap::new(),
            special: HashMap::new(),
            inner: HashMap::new(),
            loops,
        }
    }

    /// One row, or none where a condition is not true.
    fn no_relation(&self, clauses: &[Clause]) -> PathRef {
        let settings = self.settings;
        let estimate = Estimate {
            startup: 0.0,
            total: settings.cpu_tuple_cost + settings.cpu_operator_cost * clauses.len() as f64,
            rows: 1.0,
            bytes: 0.0,
        };
        let conditions = clauses
            .iter()
            .map(|clause| Rc::clone(&clause.expr))
            .collect();
        path(
            PathKind::Result { conditions },
            estimate,
            Vec::new(),
            Rels::default(),
        )
    }

    fn item_paths(&mut self, search: &mut Search<'_>, number: usize) -> PlanResult<Paths> {
        let item = &search.unit.items[number];
        let restricting = search.restricting(number);
        let found = match &item.kind {
            ItemKind::Leaf(rel) => {
                self.leaf_paths(*rel, &restricting, search.wish, search.loops)?
            }
            ItemKind::Full { left, right, on } => {
                let none = UsefulOrders::default();
                let left = self.unit_paths(left, &[], &none, search.loops)?;
                let right = self.unit_paths(right, &[], &none, search.loops)?;
                let filter: Vec<Clause> = restricting.into_iter().cloned().collect();
                vec![self.full_join(&left, &right, on, &filter)?]
            }
            ItemKind::Part(unit) => {
                let filter: Vec<Clause> = restricting.into_iter().cloned().collect();
                self.unit_paths(unit, &filter, search.wish, search.loops)?
            }
            ItemKind::Special { unit, on, .. } => {
                let filter: Vec<Clause> = restricting.into_iter().cloned().collect();
                let right =
                    self.unit_paths(unit, &filter, &UsefulOrders::default(), search.loops)?;
                vec![self.distinct_right(&right, on, &unit.rels)?]
            }
        };
        let mut paths = Vec::new();
        for one in found {
            add_path(&mut paths, useful(one, search.wish), search.wish.fast_start);
        }
        Ok(paths)
    }

    fn join_all(&mut self, search: &mut Search<'_>, all: Mask, any: bool) -> PlanResult<()> {
        let count = all.count_ones();
        for size in 2..=count {
            let mut set: Mask = (1 << size) - 1;
            while set <= all {
                self.join_set(search, set, any)?;
                // The next larger number with as many bits (Gosper).
                let low = set & set.wrapping_neg();
                let ripple = set + low;
                set = ripple | (((set ^ ripple) >> 2) / low);
            }
        }
        Ok(())
    }

    /// All ways to make a set from two.
    fn join_set(&mut self, search: &mut Search<'_>, set: Mask, any: bool) -> PlanResult<()> {
        self.check_cancel()?;
        let mut left = (set - 1) & set;
        while left != 0 {
            self.join_pair(search, left, set & !left, any)?;
            left = (left - 1) & set;
        }
        Ok(())
    }

    fn join_pair(
        &mut self,
        search: &mut Search<'_>,
        left: Mask,
        right: Mask,
        any: bool,
    ) -> PlanResult<()> {
        if !search.best.contains_key(&left) || !(any || search.connected(left, right)) {
            return Ok(());
        }
        self.check_cancel()?;
        let single = right
            .is_power_of_two()
            .then(|| right.trailing_zeros() as usize);
        if let Some(item) = single {
            let needs = search.needs[item];
            if let ItemKind::Special { .. } = search.unit.items[item].kind {
                if needs & !left == 0 {
                    self.special_join(search, left, item)?;
                }
            } else if needs != 0 {
                if needs & !left == 0 {
                    self.inner_join(search, left, right, Some(item))?;
                }
                return Ok(());
            }
        }
        if search.best.contains_key(&right) {
            // A subquery's rows that are found anew for each outer row would not be distinct.
            let special =
                |item: &usize| matches!(search.unit.items[*item].kind, ItemKind::Special { .. });
            let single = single.filter(|item| !special(item));
            self.inner_join(search, left, right, single)?;
        }
        Ok(())
    }

    /// Joins, step by step, the pair that gives the fewest rows at the least cost.
    fn join_greedily(&mut self, search: &mut Search<'_>, all: Mask) -> PlanResult<()> {
        let count = all.count_ones() as usize;
        let mut parts: Vec<Mask> = (0..count)
            .map(|item| 1 << item)
            .filter(|mask| search.best.contains_key(mask))
            .collect();
        let mut waiting: Vec<Mask> = (0..count)
            .map(|item| 1 << item)
            .filter(|mask| !search.best.contains_key(mask))
            .collect();
        while parts.len() + waiting.len() > 1 {
            let mut chosen: Option<(f64, Mask, Mask)> = None;
            for any in [false, true] {
                for left in parts.clone() {
                    self.check_cancel()?;
                    for right in parts.iter().chain(&waiting).copied().collect::<Vec<_>>() {
                        if left == right {
                            continue;
                        }
                        let set = left | right;
                        self.join_pair(search, left, right, any)?;
                        let Some(best) = search.best.get(&set).and_then(|p| cheapest(p)) else {
                            continue;
                        };
                        let score = best.estimate.total + best.estimate.rows;
                        if chosen.is_none_or(|(least, ..)| score < least) {
                            chosen = Some((score, left, right));
                        }
                    }
                }
                if chosen.is_some() {
                    break;
                }
            }
            let Some((_, left, right)) = chosen else {
                return Ok(());
            };
            parts.retain(|part| *part != left && *part != right);
            waiting.retain(|part| *part != right);
            parts.push(left | right);
        }
        Ok(())
    }
}

fn is_never_true(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::Const(Datum::Bool(false) | Datum::Null))
}

/// A path without the part of its order that nobody wishes for.
fn useful(one: PathRef, wish: &UsefulOrders) -> PathRef {
    if one.order.is_empty() || one.order.iter().any(|key| wish.wants(key)) {
        return one;
    }
    match Rc::try_unwrap(one) {
        Ok(mut one) => {
            one.order.clear();
            Rc::new(one)
        }
        Err(shared) => shared,
    }
}

/// Whether a semijoin's right side, made distinct, can be joined like any other: it needs nothing
/// from outside, and only equalities join it.
fn can_be_distinct(item: &Item) -> bool {
    let ItemKind::Special {
        kind: SpecialKind::Semi,
        unit,
        on,
    } = &item.kind
    else {
        return false;
    };
    !on.is_empty()
        && unit.outside().is_empty()
        && on.iter().all(|clause| {
            super::hashing::hash_key(&clause.expr, &unit.rels).is_some()
                && !volatility::differs_by_row(&clause.expr)
        })
}

/// How a join of this kind is called where its outer side is the left one.
pub(super) fn join_type(kind: SpecialKind) -> JoinType {
    match kind {
        SpecialKind::Left => JoinType::Left,
        SpecialKind::Semi => JoinType::Semi,
        SpecialKind::Anti => JoinType::Anti,
    }
}

/// The rows of a join.
pub(super) fn join_rows(
    join: JoinType,
    outer: f64,
    inner: f64,
    share: f64,
    match_share: f64,
) -> f64 {
    let pairs = outer * inner * share;
    rows(match join {
        JoinType::Inner => pairs,
        JoinType::Left => pairs.max(outer),
        JoinType::Right => pairs.max(inner),
        JoinType::Full => pairs.max(outer).max(inner),
        JoinType::Semi => outer * match_share,
        JoinType::Anti | JoinType::NullAwareAnti => outer * (1.0 - match_share),
    })
}
