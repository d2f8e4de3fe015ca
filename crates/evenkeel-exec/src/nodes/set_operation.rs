//! `INTERSECT` and `EXCEPT`: how often each row is there on both sides, counted by hashing; rows
//! that memory has no room for go to files by their hash, which are counted one after the other.

use evenkeel_engine::memory::Reservation;
use evenkeel_planner::plan::Node;
use evenkeel_types::Datum;

use crate::batch::{Batch, row_bytes, take};
use crate::context::{ALL, Child, Cx, Operator, Step};
use crate::error::ExecResult;
use crate::hash_index::HashIndex;
use crate::key::{HashSeed, same_keys};
use crate::partitions::{MOST_LEVELS, partition_of, partitions};
use crate::spill::{Cursor, RowStore};

/// Phase of the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Left,
    Right,
    HandOver,
    Done,
}

/// Both sides' rows of one partition, and how often they have been divided.
struct Pair {
    left: RowStore,
    right: RowStore,
    level: u32,
}

pub(crate) struct SetOperation {
    left: Child,
    right: Child,
    phase: Phase,
    /// The files that rows are read from; none for the children.
    source: Option<(Box<Pair>, Cursor, Cursor)>,
    rows: Batch,
    seed: HashSeed,
    index: HashIndex,
    keys: Vec<Datum>,
    /// How often each row is there, left and right.
    counts: Vec<(u64, u64)>,
    reservation: Option<Reservation>,
    left_files: Vec<RowStore>,
    right_files: Vec<RowStore>,
    waiting: Vec<Pair>,
    at: usize,
}

impl SetOperation {
    pub fn new(left: Child, right: Child) -> SetOperation {
        SetOperation {
            left,
            right,
            phase: Phase::Left,
            source: None,
            rows: Batch::default(),
            seed: HashSeed::new(),
            index: HashIndex::default(),
            keys: Vec::new(),
            counts: Vec::new(),
            reservation: None,
            left_files: Vec::new(),
            right_files: Vec::new(),
            waiting: Vec::new(),
            at: 0,
        }
    }

    /// The next rows of the side that is read.
    fn pull(&mut self, node: &Node, cx: &Cx) -> ExecResult<Step> {
        kind!(node, SetOperation { left, right });
        let is_left = self.phase == Phase::Left;
        let Some((pair, left_at, right_at)) = &mut self.source else {
            return if is_left {
                self.left.next(left, cx, ALL, &mut self.rows)
            } else {
                self.right.next(right, cx, ALL, &mut self.rows)
            };
        };
        let (rows, cursor) = if is_left {
            (&pair.left, left_at)
        } else {
            (&pair.right, right_at)
        };
        self.rows.reset(rows.width());
        while self.rows.len() < cx.env.limits.batch && rows.read(cursor, &mut self.rows)? {}
        Ok(if self.rows.is_empty() {
            Step::Done
        } else {
            Step::Rows
        })
    }

    /// Counts the rows at hand.
    fn count(&mut self, cx: &Cx) -> ExecResult<()> {
        let level = self.source.as_ref().map_or(0, |(pair, ..)| pair.level);
        for at in 0..self.rows.len() {
            let row = self.rows.row_mut(at);
            let hash = self.seed.hash(&*row);
            let (keys, width) = (&self.keys, row.len());
            let found = self.index.find(hash, |at| {
                same_keys(&keys[at * width..(at + 1) * width], row)
            });
            match (self.phase, found) {
                (Phase::Left, Some(found)) => self.counts[found].0 += 1,
                (Phase::Left, None) => self.add(at, hash, level, cx)?,
                (_, Some(found)) => self.counts[found].1 += 1,
                (_, None) if self.left_files.is_empty() => {}
                (_, None) => self.right_files[partition_of(hash, level)].push(row)?,
            }
        }
        Ok(())
    }

    /// Adds a row that is not there yet, in memory or to a file. One is in memory in any case.
    fn add(&mut self, at: usize, hash: u64, level: u32, cx: &Cx) -> ExecResult<()> {
        let row = self.rows.row_mut(at);
        let reservation = self.reservation.get_or_insert_with(|| cx.reservation());
        let full = !self.left_files.is_empty() || reservation.bytes() >= cx.env.limits.work_mem;
        if full && !self.counts.is_empty() && level < MOST_LEVELS {
            if self.left_files.is_empty() {
                self.left_files = partitions(row.len(), cx)?;
                self.right_files = partitions(row.len(), cx)?;
            }
            return self.left_files[partition_of(hash, level)].push(row);
        }
        reservation.grow(row_bytes(row) + HashIndex::ROW_BYTES + size_of::<(u64, u64)>())?;
        self.index.insert(hash);
        self.keys.extend(row.iter_mut().map(take));
        self.counts.push((1, 0));
        Ok(())
    }

    /// Hands over the rows that are left, each as often as it is due.
    fn hand_over(&mut self, node: &Node, most: usize, out: &mut Batch) -> ExecResult<()> {
        kind!(node, SetOperation { left, except, all });
        let width = left.width;
        while self.at < self.counts.len() && !out.is_full(most) {
            let (on_left, on_right) = self.counts[self.at];
            let due = match (except, all) {
                (true, true) => on_left.saturating_sub(on_right),
                (true, false) => u64::from(on_right == 0),
                (false, true) => on_left.min(on_right),
                (false, false) => u64::from(on_right > 0),
            };
            let row = &mut self.keys[self.at * width..(self.at + 1) * width];
            if due > 1 {
                // A repeated row counts down on both sides.
                self.counts[self.at] = (on_left - 1, on_right - u64::from(!except));
                out.push_row(row);
                continue;
            }
            self.at += 1;
            if due == 1 {
                out.push_taken(row);
            }
        }
        Ok(())
    }

    /// Goes on with the next pair of files; false when there is none.
    fn next_pair(&mut self) -> bool {
        let level = self.source.take().map_or(0, |(pair, ..)| pair.level) + 1;
        let left = std::mem::take(&mut self.left_files).into_iter();
        let right = std::mem::take(&mut self.right_files);
        let pairs = left.zip(right).filter(|(left, _)| !left.is_empty());
        self.waiting
            .extend(pairs.map(|(left, right)| Pair { left, right, level }));
        self.forget();
        let Some(pair) = self.waiting.pop() else {
            return false;
        };
        self.source = Some((Box::new(pair), Cursor::default(), Cursor::default()));
        true
    }

    fn forget(&mut self) {
        self.index.clear();
        self.keys = Vec::new();
        self.counts = Vec::new();
        self.reservation = None;
        self.at = 0;
    }
}

impl Operator for SetOperation {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        kind!(node, SetOperation { left });
        out.reset(left.width);
        let most = cx.most(want);
        loop {
            match self.phase {
                Phase::Done => return Ok(Step::Done),
                Phase::HandOver => {
                    self.hand_over(node, most, out)?;
                    cx.over(out.len())?;
                    if !out.is_empty() {
                        return Ok(Step::Rows);
                    }
                    self.phase = if self.next_pair() {
                        Phase::Left
                    } else {
                        Phase::Done
                    };
                }
                Phase::Left | Phase::Right => match self.pull(node, cx)? {
                    Step::Yield => return Ok(Step::Yield),
                    Step::Done if self.phase == Phase::Left => self.phase = Phase::Right,
                    Step::Done => self.phase = Phase::HandOver,
                    Step::Rows => {
                        self.count(cx)?;
                        if cx.over(self.rows.len())? {
                            return Ok(Step::Yield);
                        }
                    }
                },
            }
        }
    }

    fn rescan(&mut self, node: &Node, cx: &Cx) -> ExecResult<()> {
        kind!(node, SetOperation { left, right });
        self.forget();
        self.phase = Phase::Left;
        self.source = None;
        self.left_files.clear();
        self.right_files.clear();
        self.waiting.clear();
        self.left.rescan(left, cx)?;
        self.right.rescan(right, cx)
    }
}
