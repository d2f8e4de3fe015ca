//! Bitmap scans: the rows that one or several indexes find, read in the order of the heap.

use std::rc::Rc;

use crate::bound::{Expr, ExprKind};
use crate::plan::Estimate;
use crate::relation::{Relation, RelationKind};

use super::cost::{disabled, filter_cost, pages_fetched, path, rows};
use super::path::{Bitmap, BitmapKind, ExprRef, PathKind};
use super::problem::Clause;
use super::rels::Rels;
use super::scans::{Keyed, answered_by_key, is_searched, match_index};
use super::statement::{Paths, Statement};
use super::tree::{ALTERNATIVES_MOST, conjunction, conjuncts_of};

/// Operators that marking a found place is worth, as PostgreSQL has it.
const MARK: f64 = 0.1;
/// The same for a combination of two bitmaps.
const COMBINE: f64 = 100.0;
/// Bitmaps that are tried together.
const TOGETHER: usize = 8;

/// A bitmap.
struct Candidate {
    bitmap: Bitmap,
    /// The conditions that it answers: by position, with whether it does so wholly.
    answers: Vec<(usize, bool)>,
    /// Conditions that hold for the rows that it finds.
    recheck: Vec<ExprRef>,
}

impl Candidate {
    fn answers(&self, clause: usize) -> bool {
        self.answers.iter().any(|(at, _)| *at == clause)
    }
}

impl Statement<'_> {
    /// The paths of a table's rows by bitmaps: each by itself, and the best that go together.
    pub(super) fn bitmap_paths(
        &self,
        (rel, relation): (usize, &Relation),
        clauses: &[&Clause],
        (out_rows, loops): (f64, f64),
    ) -> Paths {
        if relation.kind != RelationKind::Table {
            return Vec::new();
        }
        let mut found = self.index_bitmaps((rel, relation), clauses);
        for (at, clause) in clauses.iter().enumerate() {
            found.extend(self.bitmap_of_any((rel, relation), (at, &clause.expr), clauses));
        }
        found.sort_by(|a, b| a.bitmap.cost.total_cmp(&b.bitmap.cost));
        let scan = |candidate: &Candidate| {
            self.bitmap_path((rel, relation), candidate, clauses, (out_rows, loops))
        };
        let mut paths: Paths = found.iter().map(scan).collect();
        if let Some(together) = self.together((rel, relation), found, clauses, loops) {
            paths.push(scan(&together));
        }
        paths
    }

    /// The bitmaps of single indexes.
    fn index_bitmaps(
        &self,
        (rel, relation): (usize, &Relation),
        clauses: &[&Clause],
    ) -> Vec<Candidate> {
        let mut found = Vec::new();
        for index in 0..relation.indexes.len() {
            let Some(keyed) = self.keyed((rel, relation), index, clauses) else {
                continue;
            };
            let keys = match_index(&keyed, clauses);
            if !is_searched(&keys) {
                continue;
            }
            let answered = clauses.iter().enumerate();
            let answered = answered.filter(|(_, clause)| answered_by_key(&keyed, &keys, clause));
            let answered: Vec<_> = answered.collect();
            let (cost, share) = self.entries_cost(&keyed, &keys, clauses);
            let kind = BitmapKind::Index { index, keys };
            let recheck = answered.iter().map(|(_, clause)| Rc::clone(&clause.expr));
            found.push(Candidate {
                bitmap: Bitmap { kind, cost, share },
                recheck: recheck.collect(),
                answers: answered.into_iter().map(|(at, _)| (at, true)).collect(),
            });
        }
        found
    }

    /// The bitmap of rows for which any of the conditions of an OR holds, each by the cheapest
    /// index for it.
    fn bitmap_of_any(
        &self,
        (rel, relation): (usize, &Relation),
        (at, or): (usize, &Expr),
        clauses: &[&Clause],
    ) -> Option<Candidate> {
        let ExprKind::Or(arms) = &or.kind else {
            return None;
        };
        if arms.len() > ALTERNATIVES_MOST {
            return None;
        }
        let (mut parts, mut whole) = (Vec::with_capacity(arms.len()), true);
        let mut known = Vec::with_capacity(arms.len());
        for arm in arms {
            let own: Vec<Clause> = conjuncts_of(arm).iter().cloned().map(Clause::new).collect();
            // An index of fewer rows may serve by what is said of all.
            let all: Vec<&Clause> = own.iter().chain(clauses.iter().copied()).collect();
            let own: Vec<&Clause> = own.iter().collect();
            let usable = |index: &usize| self.keyed((rel, relation), *index, &all).is_some();
            let candidates = self.index_bitmaps((rel, relation), &own).into_iter();
            let best = candidates
                .filter(|candidate| match &candidate.bitmap.kind {
                    BitmapKind::Index { index, .. } => usable(index),
                    _ => false,
                })
                .min_by(|a, b| a.bitmap.cost.total_cmp(&b.bitmap.cost))?;
            whole &= best.answers.len() == own.len();
            let of_arm = best.recheck.iter().map(|expr| Expr::clone(expr));
            known.push(conjunction(or, of_arm.collect()));
            parts.push(best.bitmap);
        }
        let settings = self.settings;
        let each = COMBINE * settings.cpu_operator_cost;
        let costs = parts.iter().map(|part| part.cost);
        let cost = costs.sum::<f64>() + each * (parts.len() - 1) as f64;
        let share = parts.iter().map(|part| part.share).sum::<f64>().min(1.0);
        let kind = BitmapKind::Or(parts);
        let recheck = Expr {
            kind: ExprKind::Or(known),
            ty: or.ty,
            at: or.at,
        };
        Some(Candidate {
            bitmap: Bitmap { kind, cost, share },
            answers: vec![(at, whole)],
            recheck: vec![Rc::new(recheck)],
        })
    }

    /// The bitmaps that leave the cheapest scan together, added one by one as PostgreSQL's
    /// `choose_bitmap_and` does; none if one is best by itself.
    fn together(
        &self,
        (rel, relation): (usize, &Relation),
        found: Vec<Candidate>,
        clauses: &[&Clause],
        loops: f64,
    ) -> Option<Candidate> {
        let cost = |candidate: &Candidate| {
            let path = self.bitmap_path((rel, relation), candidate, clauses, (1.0, loops));
            path.estimate.total
        };
        let mut found: Vec<(f64, Candidate)> =
            found.into_iter().map(|one| (cost(&one), one)).collect();
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut found = found.into_iter().take(TOGETHER);
        let (mut best, first) = found.next()?;
        let mut chosen = vec![first];
        for (_, other) in found {
            let known = |(at, _): &(usize, bool)| chosen.iter().any(|one| one.answers(*at));
            if other.answers.iter().any(known) {
                continue;
            }
            let mut with: Vec<&Candidate> = chosen.iter().collect();
            with.push(&other);
            let total = cost(&self.all_of(&with));
            if total < best {
                best = total;
                chosen.push(other);
            }
        }
        let chosen: Vec<&Candidate> = chosen.iter().collect();
        (chosen.len() > 1).then(|| self.all_of(&chosen))
    }

    fn all_of(&self, candidates: &[&Candidate]) -> Candidate {
        let parts = candidates.iter().map(|candidate| candidate.bitmap.clone());
        let parts: Vec<Bitmap> = parts.collect();
        let each = COMBINE * self.settings.cpu_operator_cost;
        let cost = parts.iter().map(|part| part.cost).sum::<f64>();
        Candidate {
            bitmap: Bitmap {
                cost: cost + each * (parts.len() - 1) as f64,
                share: parts.iter().map(|part| part.share).product(),
                kind: BitmapKind::And(parts),
            },
            recheck: candidates
                .iter()
                .flat_map(|candidate| candidate.recheck.iter().cloned())
                .collect(),
            answers: candidates
                .iter()
                .flat_map(|candidate| candidate.answers.iter().copied())
                .collect(),
        }
    }

    /// The cost of a scan, by the formulas of PostgreSQL's `cost_bitmap_heap_scan`.
    fn bitmap_path(
        &self,
        (rel, relation): (usize, &Relation),
        candidate: &Candidate,
        clauses: &[&Clause],
        (out_rows, loops): (f64, f64),
    ) -> super::path::PathRef {
        let settings = self.settings;
        let size = relation.size;
        let Candidate {
            bitmap,
            answers,
            recheck,
        } = candidate;
        let tuples = rows(size.rows * bitmap.share);
        let all = size.pages.max(1.0);
        let pages = if loops > 1.0 {
            pages_fetched(tuples * loops, all, settings.effective_cache_pages) / loops
        } else {
            (2.0 * all * tuples) / (2.0 * all + tuples)
        };
        let pages = pages.min(all).ceil();
        let (random, seq) = (settings.random_page_cost, settings.seq_page_cost);
        let page = match pages >= 2.0 {
            true => random - (random - seq) * (pages / all).sqrt(),
            false => random,
        };
        let each = settings.cpu_tuple_cost + filter_cost(settings, clauses.len());
        let startup = bitmap.cost
            + MARK * settings.cpu_operator_cost * tuples
            + disabled(settings.bitmapscan);
        let estimate = Estimate {
            startup,
            total: startup + pages * page + tuples * each,
            rows: out_rows,
            bytes: self.row_bytes(rel),
        };
        let left = clauses.iter().enumerate();
        let left = left.filter(|(at, _)| !answers.contains(&(*at, true)));
        let kind = PathKind::Bitmap {
            rel,
            bitmap: bitmap.clone(),
            recheck: recheck.clone(),
            filter: left.map(|(_, clause)| Rc::clone(&clause.expr)).collect(),
        };
        path(kind, estimate, Vec::new(), Rels::one(rel))
    }

    fn keyed<'a>(
        &'a self,
        (rel, relation): (usize, &'a Relation),
        index: usize,
        clauses: &[&Clause],
    ) -> Option<Keyed<'a>> {
        let mut bound = self.rels[rel].indexes.iter();
        let bound = bound.find(|bound| bound.index == index);
        Keyed::new(
            (rel, relation),
            relation.indexes.get(index)?,
            bound,
            clauses,
        )
    }
}
