//! `WITH RECURSIVE`: the first term's rows, then those that each step adds, until one adds none.

use std::sync::Arc;

use evenkeel_engine::memory::Reservation;
use evenkeel_planner::plan::Node;
use evenkeel_types::Datum;

use crate::batch::{Batch, row_bytes};
use crate::context::{Child, Cx, Operator, Step};
use crate::error::ExecResult;
use crate::hash_index::HashIndex;
use crate::key::{HashSeed, same_keys};
use crate::spill::RowStore;

pub(crate) struct RecursiveUnion {
    first: Child,
    step: Child,
    /// Whether the first term has ended.
    stepping: bool,
    done: bool,
    rows: Batch,
    at: usize,
    /// The rows that the next step works on.
    added: Option<RowStore>,
    /// All rows so far, for a union that leaves out equal ones.
    seed: HashSeed,
    index: HashIndex,
    seen: Vec<Datum>,
    reservation: Option<Reservation>,
}

impl RecursiveUnion {
    pub fn new(first: Child, step: Child) -> RecursiveUnion {
        RecursiveUnion {
            first,
            step,
            stepping: false,
            done: false,
            rows: Batch::default(),
            at: 0,
            added: None,
            seed: HashSeed::new(),
            index: HashIndex::default(),
            seen: Vec::new(),
            reservation: None,
        }
    }

    /// Whether a row is the first of its kind.
    fn is_new(&mut self, at: usize, cx: &Cx) -> ExecResult<bool> {
        let row = self.rows.row(at);
        let hash = self.seed.hash(row);
        let (seen, width) = (&self.seen, row.len());
        let found = self.index.find(hash, |at| {
            same_keys(&seen[at * width..(at + 1) * width], row)
        });
        if found.is_some() {
            return Ok(false);
        }
        let reservation = self.reservation.get_or_insert_with(|| cx.reservation());
        reservation.grow(row_bytes(row) + HashIndex::ROW_BYTES)?;
        self.index.insert(hash);
        self.seen.extend_from_slice(row);
        Ok(true)
    }

    /// Hands over the rows at hand, and keeps them for the next step.
    fn hand_over(&mut self, node: &Node, cx: &Cx, out: &mut Batch) -> ExecResult<()> {
        kind!(node, RecursiveUnion { all });
        while self.at < self.rows.len() {
            let at = self.at;
            self.at += 1;
            if !all && !self.is_new(at, cx)? {
                continue;
            }
            let row = self.rows.row_mut(at);
            let width = row.len();
            let added = self.added.get_or_insert_with(|| new_store(width, cx));
            added.push(row)?;
            out.push_taken(row);
        }
        Ok(())
    }

    /// Begins the next step; false when the last one has added nothing.
    fn next_step(&mut self, node: &Node, cx: &Cx) -> ExecResult<bool> {
        kind!(node, RecursiveUnion { union_id, step });
        self.stepping = true;
        let Some(added) = self.added.take() else {
            return Ok(false);
        };
        cx.set_working(*union_id, Arc::new(added));
        self.step.rescan(step, cx)?;
        Ok(true)
    }
}

fn new_store(width: usize, cx: &Cx) -> RowStore {
    let limit = cx.env.limits.work_mem;
    RowStore::new(width, cx.reservation(), &cx.env.temp, limit)
}

impl Operator for RecursiveUnion {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        kind!(node, RecursiveUnion { first, step });
        out.reset(first.width);
        while !self.done {
            self.at = 0;
            let pulled = if self.stepping {
                self.step.next(step, cx, want, &mut self.rows)?
            } else {
                self.first.next(first, cx, want, &mut self.rows)?
            };
            match pulled {
                Step::Yield => return Ok(Step::Yield),
                Step::Done => self.done = !self.next_step(node, cx)?,
                Step::Rows => {
                    self.hand_over(node, cx, out)?;
                    let over = cx.over(self.rows.len())?;
                    if !out.is_empty() {
                        return Ok(Step::Rows);
                    }
                    if over {
                        return Ok(Step::Yield);
                    }
                }
            }
        }
        Ok(Step::Done)
    }

    fn rescan(&mut self, node: &Node, cx: &Cx) -> ExecResult<()> {
        kind!(node, RecursiveUnion { first });
        self.stepping = false;
        self.done = false;
        self.rows.reset(0);
        self.added = None;
        self.index.clear();
        self.seen = Vec::new();
        self.reservation = None;
        self.first.rescan(first, cx)
    }
}
