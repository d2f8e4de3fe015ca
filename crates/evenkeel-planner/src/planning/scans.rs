//! Paths of one relation: in the order of the heap, by an index, by its query.

use std::rc::Rc;

use evenkeel_types::SqlType;
use evenkeel_types::key::is_readable;

use crate::ast::Pos;
use crate::bound::{Expr, ExprKind, IndexExprs};
use crate::error::PlanResult;
use crate::plan::Estimate;
use crate::relation::{Index, Relation, RelationKind};

use super::cost::{disabled, filter_cost, pages_fetched, path, rows};
use super::joins::UsefulOrders;
use super::number::numbered;
use super::ops::{self, Comparison};
use super::path::{IndexMatch, OrderKey, PathKind, PathRef};
use super::predicate;
use super::problem::Clause;
use super::rels::Rels;
use super::statement::{Paths, Source, Statement, rels_of};
use super::volatility;

/// Rows that a function is expected to give.
const FUNCTION_ROWS: f64 = 100.0;
/// Rows of a working table, as a multiple of those of the first term.
const WORKING_FACTOR: f64 = 10.0;
/// `DEFAULT_RECURSIVE` rows where nothing is known.
const UNKNOWN_ROWS: f64 = 1000.0;

impl Statement<'_> {
    /// The paths of one relation under these conditions. `loops` is how often it is run for one
    /// row of what is outside.
    pub(super) fn leaf_paths(
        &mut self,
        rel: usize,
        clauses: &[&Clause],
        wish: &UsefulOrders,
        loops: f64,
    ) -> PlanResult<Paths> {
        match self.rels[rel].source.clone() {
            Source::Relation(relation) => {
                Ok(self.relation_paths(rel, &relation, clauses, wish, loops))
            }
            Source::Query(query) => self.subquery_paths(rel, &query, clauses),
            source => {
                let rows_all = self.rows_of_source(&source)?;
                Ok(vec![self.whole_scan(rel, clauses, rows_all)])
            }
        }
    }

    fn rows_of_source(&mut self, source: &Source) -> PlanResult<f64> {
        Ok(match source {
            Source::Functions { calls, .. } => {
                let rows = calls.iter().map(|call| self.function_rows(call));
                rows.fold(1.0, f64::max)
            }
            Source::Values(rows) => rows.len() as f64,
            Source::Cte(cte) => self.plan_cte(*cte)?.estimate.rows,
            Source::Working(cte) => {
                let working = self.ctes[*cte].working;
                working.map_or(UNKNOWN_ROWS, |(_, rows)| rows * WORKING_FACTOR)
            }
            Source::Relation(_) | Source::Query(_) | Source::Nothing => UNKNOWN_ROWS,
        })
    }

    fn function_rows(&self, call: &crate::bound::CallExpr) -> f64 {
        let number = |at: usize| match self.known_value(call.args.get(at)?)? {
            evenkeel_types::Datum::Int4(v) => Some(f64::from(*v)),
            evenkeel_types::Datum::Int8(v) => Some(*v as f64),
            _ => None,
        };
        if call.proc.name == "generate_series"
            && let (Some(first), Some(last)) = (number(0), number(1))
        {
            let step = number(2).unwrap_or(1.0);
            if step != 0.0 {
                return ((last - first) / step + 1.0).max(0.0);
            }
        }
        if call.proc.name == "unnest"
            && let Some(array) = call.args.first()
        {
            return self.elements(array);
        }
        FUNCTION_ROWS
    }

    fn whole_scan(&self, rel: usize, clauses: &[&Clause], rows_all: f64) -> PathRef {
        let inside = Rels::one(rel);
        let settings = self.settings;
        let each = settings.cpu_tuple_cost + filter_cost(settings, clauses.len());
        let estimate = Estimate {
            startup: 0.0,
            total: rows_all * each,
            rows: rows(rows_all * self.selectivity(clauses, &inside)),
            bytes: self.row_bytes(rel),
        };
        let filter = clauses
            .iter()
            .map(|clause| Rc::clone(&clause.expr))
            .collect();
        path(PathKind::Scan { rel, filter }, estimate, Vec::new(), inside)
    }

    fn subquery_paths(
        &mut self,
        rel: usize,
        query: &std::sync::Arc<crate::bound::Query>,
        clauses: &[&Clause],
    ) -> PlanResult<Paths> {
        let mut query = crate::bound::Query::clone(query);
        self.substitute_in(&mut query);
        let (pushed, kept): (Vec<&Clause>, Vec<&Clause>) = clauses
            .iter()
            .partition(|clause| super::push::may_push(&query, rel, clause));
        super::push::push(&mut query, rel, &pushed);
        let children = self.query_paths(query)?;
        let inside = Rels::one(rel);
        let share = self.selectivity(&kept, &inside);
        let types = self.rels[rel].types.clone();
        Ok(children
            .into_iter()
            .map(|planned| {
                let child = planned.path;
                let each = filter_cost(self.settings, kept.len());
                let estimate = Estimate {
                    total: child.estimate.total + child.estimate.rows * each,
                    rows: rows(child.estimate.rows * share),
                    ..child.estimate
                };
                // The order by columns of the result is known from outside too.
                let keys = planned.order.iter().map_while(|key| {
                    let (column, desc, nulls_first) = *key;
                    let ty = *types.get(column)?;
                    Some(OrderKey {
                        expr: Rc::new(column_of(rel, column, ty)),
                        desc,
                        nulls_first,
                    })
                });
                let order = keys.collect();
                let filter = kept.iter().map(|clause| Rc::clone(&clause.expr)).collect();
                let kind = PathKind::Subquery { rel, child, filter };
                path(kind, estimate, order, inside.clone())
            })
            .collect())
    }

    fn relation_paths(
        &self,
        rel: usize,
        relation: &Relation,
        clauses: &[&Clause],
        wish: &UsefulOrders,
        loops: f64,
    ) -> Paths {
        let inside = Rels::one(rel);
        let settings = self.settings;
        let size = relation.size;
        let share = self.selectivity(clauses, &inside);
        let bytes = self.row_bytes(rel);
        let out_rows = rows(size.rows * share);
        let each = settings.cpu_tuple_cost + filter_cost(settings, clauses.len());
        let filter: Vec<_> = clauses
            .iter()
            .map(|clause| Rc::clone(&clause.expr))
            .collect();
        let estimate = Estimate {
            startup: disabled(settings.seqscan || relation.kind != RelationKind::Table),
            total: disabled(settings.seqscan || relation.kind != RelationKind::Table)
                + size.pages * settings.seq_page_cost
                + size.rows * each,
            rows: out_rows,
            bytes,
        };
        let scan = PathKind::Scan {
            rel,
            filter: filter.clone(),
        };
        let mut paths = vec![path(scan, estimate, Vec::new(), inside)];
        for (number, index) in relation.indexes.iter().enumerate() {
            let bound = self.rels[rel].indexes.iter();
            let bound = bound.into_iter().find(|bound| bound.index == number);
            let Some(mut keyed) = Keyed::new((rel, relation), index, bound, clauses) else {
                continue;
            };
            keyed.only = self.may_read_alone(rel, relation, number);
            for (keys, backward) in index_ways(&keyed, clauses, wish) {
                let given = keys.clone();
                let estimate = self.index_cost(&keyed, &given, clauses, (out_rows, loops));
                let order = index_order(&keyed, &keys, backward);
                let kind = PathKind::Index {
                    rel,
                    index: number,
                    keys,
                    filter: not_answered(&keyed, &given, clauses),
                    backward,
                };
                paths.push(path(kind, estimate, order, Rels::one(rel)));
            }
        }
        paths.extend(self.bitmap_paths((rel, relation), clauses, (out_rows, loops)));
        paths
    }

    /// The cost of finding the places of rows by an index, and the share of all rows that they are
    /// of.
    pub(super) fn entries_cost(
        &self,
        keyed: &Keyed<'_>,
        keys: &IndexMatch,
        clauses: &[&Clause],
    ) -> (f64, f64) {
        let entries = self.entries(keyed, keys, clauses);
        let (descent, reading) = self.reading_cost(keyed, &entries, 1.0);
        (descent + reading, entries.share * entries.held)
    }

    /// The entries of an index that a search finds.
    fn entries(&self, keyed: &Keyed<'_>, keys: &IndexMatch, clauses: &[&Clause]) -> Entries {
        let inside = Rels::one(keyed.rel);
        let size = keyed.relation.size;
        let full_key = keyed.index.unique && keys.equal.len() == keyed.index.columns.len();
        // The rows that a partial index has are those that its predicate selects.
        let held = self.share_of(keyed.predicate, &inside);
        let by_key = clauses.iter().copied();
        let by_key: Vec<&Clause> = by_key
            .filter(|clause| answered_by_key(keyed, keys, clause))
            .collect();
        let (share, tuples) = if full_key {
            (1.0 / (size.rows * held).max(1.0), rows(1.0))
        } else {
            let share = self.selectivity(&by_key, &inside);
            (share, rows(size.rows * held * share))
        };
        let array = keys.any.as_ref();
        Entries {
            full_key,
            held,
            share,
            tuples,
            searches: array.map_or(1.0, |array| self.elements(array).max(1.0)),
            compared: by_key.len(),
        }
    }

    /// The costs of finding the first of some entries and of reading all, for one of the scan's
    /// loops.
    fn reading_cost(&self, keyed: &Keyed<'_>, entries: &Entries, loops: f64) -> (f64, f64) {
        let settings = self.settings;
        let (index, size) = (keyed.index, keyed.relation.size);
        let leaf_pages = (index.pages * entries.share).ceil().max(1.0);
        let pages = match loops <= 1.0 {
            true => leaf_pages + entries.searches - 1.0,
            false => {
                let all = leaf_pages * loops * entries.searches;
                pages_fetched(all, index.pages, settings.effective_cache_pages) / loops
            }
        };
        // Levels above the leaves.
        let height = index.pages.max(1.0).log(ENTRIES_OF_NODE).ceil();
        let descent = (size.rows.max(2.0).log2().ceil() + (height + 1.0) * 50.0)
            * settings.cpu_operator_cost
            * entries.searches;
        let compared = entries.compared as f64 * settings.cpu_operator_cost;
        let reading = pages * settings.random_page_cost
            + entries.tuples * (settings.cpu_index_tuple_cost + compared);
        (descent, reading)
    }

    /// Whether an index has all columns of a relation that the statement mentions.
    fn may_read_alone(&self, rel: usize, relation: &Relation, index: usize) -> bool {
        let mentioned = self.mentioned.get(&rel).into_iter().flatten().copied();
        self.settings.indexonlyscan
            && relation.kind == RelationKind::Table
            && covers(relation, index, mentioned)
    }

    fn index_cost(
        &self,
        keyed: &Keyed<'_>,
        keys: &IndexMatch,
        clauses: &[&Clause],
        (out_rows, loops): (f64, f64),
    ) -> Estimate {
        let settings = self.settings;
        let Keyed { rel, relation, .. } = *keyed;
        let size = relation.size;
        let answered = clauses.iter();
        let answered = answered.filter(|clause| is_answered(keyed, keys, clause));
        let left = clauses.len() - answered.count();
        let entries = self.entries(keyed, keys, clauses);
        let tuples = entries.tuples;
        if relation.kind != RelationKind::Table {
            return self.lookup_cost(rel, entries.searches, (tuples, left), out_rows);
        }
        let (descent, reading) = self.reading_cost(keyed, &entries, loops);
        let cache = settings.effective_cache_pages;
        let heap_pages = match loops <= 1.0 {
            true => pages_fetched(tuples, size.pages, cache),
            false => pages_fetched(tuples * loops, size.pages, cache) / loops,
        };
        let visited = match keyed.only {
            true => 1.0 - size.all_visible,
            false => 1.0,
        };
        let share = entries.share * entries.held;
        let heap = self.heap_cost(keyed, share, (heap_pages, visited), loops);
        let startup = descent + disabled(settings.indexscan);
        let each = settings.cpu_tuple_cost + filter_cost(settings, left);
        Estimate {
            startup,
            total: startup + reading + heap + tuples * each,
            rows: if entries.full_key {
                out_rows.min(1.0)
            } else {
                out_rows
            },
            bytes: self.row_bytes(rel),
        }
    }

    /// The cost of finding rows of a relation in memory by their keys.
    fn lookup_cost(
        &self,
        rel: usize,
        searches: f64,
        (tuples, conditions): (f64, usize),
        rows: f64,
    ) -> Estimate {
        let settings = self.settings;
        let total = disabled(settings.indexscan)
            + searches * HASH_LOOKUP * settings.cpu_operator_cost
            + tuples * (settings.cpu_tuple_cost + filter_cost(settings, conditions));
        Estimate {
            startup: disabled(settings.indexscan),
            total,
            rows,
            bytes: self.row_bytes(rel),
        }
    }

    /// Cost of reading the heap rows that an index finds: interpolated between a heap in the
    /// index's order and one in random order. `visited` is the share of the pages that are read.
    fn heap_cost(
        &self,
        keyed: &Keyed<'_>,
        share: f64,
        (heap_pages, visited): (f64, f64),
        loops: f64,
    ) -> f64 {
        let settings = self.settings;
        let size = keyed.relation.size;
        let near = ((size.pages * share).ceil() * visited).ceil();
        let heap_pages = (heap_pages * visited).ceil();
        if heap_pages == 0.0 {
            return 0.0;
        }
        let worst = heap_pages * settings.random_page_cost;
        let least = if loops > 1.0 {
            let cache = settings.effective_cache_pages;
            pages_fetched(near * loops, size.pages, cache) / loops * settings.random_page_cost
        } else {
            settings.random_page_cost + (near - 1.0).max(0.0) * settings.seq_page_cost
        };
        worst + correlation(keyed) * (least.min(worst) - worst)
    }

    /// The share of rows for which a predicate holds.
    fn share_of(&self, predicate: Option<&Expr>, inside: &Rels) -> f64 {
        let Some(predicate) = predicate else {
            return 1.0;
        };
        let clause = Clause::new(predicate.clone());
        self.selectivity(&[&clause], inside)
    }
}

/// The entries of an index that a search finds.
struct Entries {
    /// It is for one key of a unique index.
    full_key: bool,
    /// The share of the relation's rows that the index has, and of these the share that is found.
    held: f64,
    share: f64,
    tuples: f64,
    searches: f64,
    /// Conditions that are looked at for each entry.
    compared: usize,
}

/// An index with its key, as the expressions of its relation that a condition may look at.
pub(super) struct Keyed<'a> {
    rel: usize,
    relation: &'a Relation,
    index: &'a Index,
    keys: Vec<Expr>,
    predicate: Option<&'a Expr>,
    /// Whether rows may come from its keys alone.
    only: bool,
}

impl<'a> Keyed<'a> {
    /// None for an index that may lack rows which the conditions select.
    pub(super) fn new(
        (rel, relation): (usize, &'a Relation),
        index: &'a Index,
        bound: Option<&'a IndexExprs>,
        clauses: &[&Clause],
    ) -> Option<Keyed<'a>> {
        let predicate = bound.and_then(|bound| bound.predicate.as_ref());
        if let Some(predicate) = predicate {
            let clauses: Vec<&Expr> = clauses.iter().map(|clause| &*clause.expr).collect();
            if !predicate::implied(&clauses, predicate) {
                return None;
            }
        }
        let mut expressions = bound.iter().flat_map(|bound| &bound.expressions);
        let keys = index.columns.iter().map(|column| match column.column {
            Some(number) => Some(column_of(rel, number, column.ty)),
            None => expressions.next().cloned(),
        });
        Some(Keyed {
            rel,
            relation,
            index,
            keys: keys.collect::<Option<_>>()?,
            predicate,
            only: false,
        })
    }
}

/// The square of the correlation between an index's order and the heap's.
fn correlation(keyed: &Keyed<'_>) -> f64 {
    let first = keyed.index.columns.first().and_then(|first| first.column);
    let stats = first.and_then(|first| keyed.relation.columns[first].stats.as_ref());
    let correlation = stats.map_or(0.0, |stats| stats.correlation);
    let shared = if keyed.index.columns.len() > 1 {
        0.75
    } else {
        1.0
    };
    (correlation * shared).powi(2)
}

fn not_answered(keyed: &Keyed<'_>, keys: &IndexMatch, clauses: &[&Clause]) -> Vec<Rc<Expr>> {
    let left = clauses
        .iter()
        .filter(|clause| !is_answered(keyed, keys, clause));
    left.map(|clause| Rc::clone(&clause.expr)).collect()
}

/// Whether the keys of an index give the values of these columns of its table: they are read from
/// the front.
pub(super) fn covers(
    relation: &Relation,
    index: usize,
    columns: impl Iterator<Item = usize>,
) -> bool {
    let index = relation.indexes.get(index);
    let keys = index.map_or(&[][..], |index| &index.columns);
    let mut places = columns.map(|column| keys.iter().position(|key| key.column == Some(column)));
    let read = places.try_fold(0, |read, place| Some(read.max(place? + 1)));
    read.is_some_and(|read| keys[..read].iter().all(|key| is_readable(key.ty)))
}

/// How an index may serve: by the conditions that it answers, in an order that is wished, by having
/// no more rows than those that are wanted, or all columns.
fn index_ways(
    keyed: &Keyed<'_>,
    clauses: &[&Clause],
    wish: &UsefulOrders,
) -> Vec<(IndexMatch, bool)> {
    let keys = match_index(keyed, clauses);
    if keyed.relation.kind != RelationKind::Table {
        // Rows that the server makes are in no order: a value finds those that have it.
        let found = !keys.equal.is_empty() || keys.any.is_some();
        return found.then_some((keys, false)).into_iter().collect();
    }
    let empty = !is_searched(&keys) && keyed.predicate.is_none();
    let mut ways = Vec::new();
    let ordered = |backward| {
        let order = index_order(keyed, &keys, backward);
        order.first().is_some_and(|first| wish.wants(first))
    };
    let backward = ordered(true);
    if !empty || keyed.only || ordered(false) {
        ways.push((keys.clone(), false));
    }
    if backward {
        ways.push((keys, true));
    }
    ways
}

/// Whether a search is for less than the whole index.
pub(super) fn is_searched(keys: &IndexMatch) -> bool {
    !keys.equal.is_empty()
        || keys.any.is_some()
        || keys.low.is_some()
        || keys.high.is_some()
        || keys.is_null
}

/// A column of a numbered relation.
pub(super) fn column_of(rel: usize, column: usize, ty: SqlType) -> Expr {
    Expr {
        kind: ExprKind::Var(numbered(rel, column)),
        ty,
        at: Pos::NONE,
    }
}

/// Operators that a look-up in a hash table is worth, about.
const HASH_LOOKUP: f64 = 10.0;

/// Entries of a page above the leaves, about.
const ENTRIES_OF_NODE: f64 = 200.0;

fn index_order(keyed: &Keyed<'_>, keys: &IndexMatch, backward: bool) -> Vec<OrderKey> {
    let constant = keys.equal.len() + usize::from(keys.is_null);
    let columns = keyed.index.columns.iter().zip(&keyed.keys).skip(constant);
    let keys = columns.map(|(column, key)| OrderKey {
        expr: Rc::new(key.clone()),
        desc: column.desc != backward,
        nulls_first: column.nulls_first != backward,
    });
    keys.collect()
}

/// A condition on an index's column, with the value that it is compared with.
struct Found<'e> {
    op: FoundOp,
    value: Option<&'e Expr>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FoundOp {
    Compare(Comparison),
    Any,
    IsNull,
}

/// Whether an expression is a part of an index's key, under any name of its type.
fn is_key(expr: &Expr, key: &Expr) -> bool {
    let (expr, key) = (ops::stripped(expr), ops::stripped(key));
    match (&expr.kind, &key.kind) {
        (ExprKind::Var(a), ExprKind::Var(b)) => a == b,
        _ => super::path::same(expr, key),
    }
}

/// A condition that an index with this part of its key can evaluate.
fn on_key<'e>(expr: &'e Expr, rel: usize, key: &Expr) -> Option<Found<'e>> {
    let ty = key.ty;
    let steady = |value: &Expr| !rels_of(value).has(rel) && !volatility::differs_by_row(value);
    match &expr.kind {
        ExprKind::IsNull {
            arg,
            negated: false,
            row: false,
        } if is_key(arg, key) => Some(Found {
            op: FoundOp::IsNull,
            value: None,
        }),
        ExprKind::AnyAll {
            left,
            array,
            all: false,
            op,
        } if is_key(left, key) && steady(array) => {
            let operator = evenkeel_expr::operator_by_oid(op.oid)?;
            let element = match ops::stripped(array).ty {
                SqlType::Array(element, _) => *element,
                _ => return None,
            };
            (operator.name == "=" && key_type_fits(element, ty)).then_some(Found {
                op: FoundOp::Any,
                value: Some(array),
            })
        }
        ExprKind::Call(_) => {
            let compared = ops::comparison(expr)?;
            let (op, value, compared_as, other) = if is_key(compared.left, key) {
                let types = (compared.left_type, compared.right_type);
                (compared.op, compared.right, types.0, types.1)
            } else if is_key(compared.right, key) {
                let types = (compared.right_type, compared.left_type);
                (compared.op.commuted(), compared.left, types.0, types.1)
            } else {
                return None;
            };
            let fits = key_type_fits(compared_as, ty) && key_type_fits(other, ty);
            (fits && steady(value)).then_some(Found {
                op: FoundOp::Compare(op),
                value: Some(value),
            })
        }
        _ => None,
    }
}

/// Whether values of a type order as a column's do: the same type under any name, or integers.
fn key_type_fits(value: SqlType, column: SqlType) -> bool {
    let integer = |ty: SqlType| matches!(ty, SqlType::Int2 | SqlType::Int4 | SqlType::Int8);
    let text = |ty: SqlType| matches!(ty, SqlType::Text | SqlType::Varchar(_));
    value.oid() == column.oid()
        || (integer(value) && integer(column))
        || (text(value) && (text(column) || column == SqlType::Name))
        || (value.is_oid() && column.is_oid())
}

pub(super) fn match_index(keyed: &Keyed<'_>, clauses: &[&Clause]) -> IndexMatch {
    let mut keys = IndexMatch::default();
    for key in &keyed.keys {
        let mut found: Vec<Found<'_>> = clauses
            .iter()
            .filter_map(|clause| on_key(&clause.expr, keyed.rel, key))
            .collect();
        let position = |op: FoundOp| found.iter().position(|found| found.op == op);
        let value = |found: &Found<'_>| Rc::new(found.value.cloned().unwrap_or_else(null));
        if let Some(at) = position(FoundOp::Compare(Comparison::Equal)) {
            keys.equal.push(value(&found.swap_remove(at)));
            continue;
        }
        if position(FoundOp::IsNull).is_some() {
            keys.is_null = true;
            break;
        }
        if let Some(at) = position(FoundOp::Any) {
            keys.any = Some(value(&found[at]));
            break;
        }
        for found in &found {
            match found.op {
                FoundOp::Compare(Comparison::Greater) if keys.low.is_none() => {
                    keys.low = Some((value(found), false));
                }
                FoundOp::Compare(Comparison::GreaterEqual) if keys.low.is_none() => {
                    keys.low = Some((value(found), true));
                }
                FoundOp::Compare(Comparison::Less) if keys.high.is_none() => {
                    keys.high = Some((value(found), false));
                }
                FoundOp::Compare(Comparison::LessEqual) if keys.high.is_none() => {
                    keys.high = Some((value(found), true));
                }
                _ => {}
            }
        }
        break;
    }
    keys
}

fn null() -> Expr {
    Expr {
        kind: ExprKind::Const(evenkeel_types::Datum::Null),
        ty: SqlType::Unknown,
        at: Pos::NONE,
    }
}

/// Whether the index answers a condition wholly, so that no row need be asked again: by its keys,
/// or because it has no other rows.
fn is_answered(keyed: &Keyed<'_>, keys: &IndexMatch, clause: &Clause) -> bool {
    let of_all = |predicate: &Expr| predicate::implied(&[predicate], &clause.expr);
    answered_by_key(keyed, keys, clause) || keyed.predicate.is_some_and(of_all)
}

pub(super) fn answered_by_key(keyed: &Keyed<'_>, keys: &IndexMatch, clause: &Clause) -> bool {
    let same =
        |value: Option<&Expr>, key: &Expr| value.is_some_and(|value| super::path::same(value, key));
    for (at, key) in keyed.keys.iter().enumerate() {
        let Some(found) = on_key(&clause.expr, keyed.rel, key) else {
            continue;
        };
        if let Some(key) = keys.equal.get(at) {
            return found.op == FoundOp::Compare(Comparison::Equal) && same(found.value, key);
        }
        if at != keys.equal.len() {
            return false;
        }
        let ends = |end: &Option<(Rc<Expr>, bool)>, inclusive: bool| {
            end.as_ref()
                .is_some_and(|(key, of_key)| *of_key == inclusive && same(found.value, key))
        };
        return match found.op {
            FoundOp::IsNull => keys.is_null,
            FoundOp::Any => keys.any.as_ref().is_some_and(|key| same(found.value, key)),
            FoundOp::Compare(Comparison::Greater) => ends(&keys.low, false),
            FoundOp::Compare(Comparison::GreaterEqual) => ends(&keys.low, true),
            FoundOp::Compare(Comparison::Less) => ends(&keys.high, false),
            FoundOp::Compare(Comparison::LessEqual) => ends(&keys.high, true),
            FoundOp::Compare(Comparison::Equal) => false,
        };
    }
    false
}
