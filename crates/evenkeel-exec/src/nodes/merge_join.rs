//! Both sides are in the order of the keys: inner rows of equal keys are kept as a group, for all
//! outer rows of that key.

use std::cmp::Ordering;

use evenkeel_planner::plan::{JoinType, Node, SortColumn};
use evenkeel_types::Datum;

use crate::batch::{Batch, move_into};
use crate::context::{ALL, Child, Cx, Operator, Step};
use crate::error::{ExecError, ExecResult};
use crate::key::compare_values;
use crate::spill::{Cursor, RowStore};

/// Phase of the join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The next outer row is needed.
    Outer,
    /// The group is compared with the outer row.
    Align,
    /// Pairs of the outer row with the group.
    Pairs,
    /// The group's rows without a partner; then the next group is needed.
    Retire,
    /// The next group is gathered.
    Gather,
    Done,
}

/// Filters and projects itself.
pub(crate) struct MergeJoin {
    outer: Child,
    inner: Child,
    phase: Phase,
    outer_rows: Batch,
    outer_at: usize,
    outer_ended: bool,
    inner_rows: Batch,
    inner_at: usize,
    inner_ended: bool,
    /// The inner rows of one key, and a first one to compare with.
    group: Option<RowStore>,
    first: Vec<Datum>,
    cursor: Cursor,
    number: usize,
    /// Which rows of the group have a partner.
    partners: Vec<bool>,
    row: Batch,
    /// The outer row, then an inner row.
    scratch: Vec<Datum>,
    matched: bool,
}

type Keys = [(SortColumn, usize)];

/// The order of an outer and an inner row.
fn compare(outer: &[Datum], inner: &[Datum], keys: &Keys) -> Ordering {
    for (key, slot) in keys {
        let (a, b) = (&outer[key.slot], &inner[*slot]);
        let order = compare_values(a, b, key.desc, key.nulls_first);
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

fn same_group(a: &[Datum], b: &[Datum], keys: &Keys) -> bool {
    keys.iter()
        .all(|(_, slot)| compare_values(&a[*slot], &b[*slot], false, false).is_eq())
}

impl MergeJoin {
    pub fn new(outer: Child, inner: Child) -> MergeJoin {
        MergeJoin {
            outer,
            inner,
            phase: Phase::Outer,
            outer_rows: Batch::default(),
            outer_at: 0,
            outer_ended: false,
            inner_rows: Batch::default(),
            inner_at: 0,
            inner_ended: false,
            group: None,
            first: Vec::new(),
            cursor: Cursor::default(),
            number: 0,
            partners: Vec::new(),
            row: Batch::default(),
            scratch: Vec::new(),
            matched: false,
        }
    }

    /// Takes the next outer row. After the last the inner rows that are left are retired, if the
    /// join keeps them.
    fn next_outer(&mut self, node: &Node, cx: &Cx, want: usize) -> ExecResult<Step> {
        kind!(node, MergeJoin { outer, inner, join });
        self.scratch.resize(outer.width + inner.width, Datum::Null);
        if self.outer_at >= self.outer_rows.len() {
            self.outer_at = 0;
            let want = if want == ALL { ALL } else { 1 };
            match self.outer.next(outer, cx, want, &mut self.outer_rows)? {
                Step::Yield => return Ok(Step::Yield),
                Step::Done => {
                    self.outer_ended = true;
                    self.rewind();
                    self.phase = match join {
                        JoinType::Right | JoinType::Full => Phase::Retire,
                        _ => Phase::Done,
                    };
                    return Ok(Step::Rows);
                }
                Step::Rows => {}
            }
        }
        let row = self.outer_rows.row_mut(self.outer_at);
        move_into(&mut self.scratch[..outer.width], row);
        self.outer_at += 1;
        self.matched = false;
        self.phase = Phase::Align;
        Ok(Step::Rows)
    }

    fn rewind(&mut self) {
        self.cursor.rewind();
        self.number = 0;
    }

    /// Decides what the group is to the outer row.
    fn align(&mut self, node: &Node, cx: &Cx, out: &mut Batch) -> ExecResult<()> {
        kind!(node, MergeJoin { outer, keys });
        if self.group.is_none() {
            if self.inner_ended {
                return self.end_row(node, cx, out);
            }
            self.phase = Phase::Gather;
            return Ok(());
        }
        let row = &self.scratch[..outer.width];
        match compare(row, &self.first, keys) {
            Ordering::Less => self.end_row(node, cx, out),
            Ordering::Greater => {
                self.rewind();
                self.phase = Phase::Retire;
                Ok(())
            }
            Ordering::Equal if keys.iter().any(|(key, _)| row[key.slot].is_null()) => {
                self.end_row(node, cx, out)
            }
            Ordering::Equal => {
                self.rewind();
                self.phase = Phase::Pairs;
                Ok(())
            }
        }
    }

    /// Ends an outer row.
    fn end_row(&mut self, node: &Node, cx: &Cx, out: &mut Batch) -> ExecResult<()> {
        kind!(node, MergeJoin { outer, join });
        self.phase = Phase::Outer;
        if self.matched {
            return Ok(());
        }
        match join {
            JoinType::Left | JoinType::Full => {
                self.scratch[outer.width..].fill(Datum::Null);
                cx.emit(node, &self.scratch, out)
            }
            JoinType::Anti => cx.emit(node, &self.scratch[..outer.width], out),
            _ => Ok(()),
        }
    }

    /// The next row of the group into the scratch row; false at the end.
    fn next_of_group(&mut self, width: usize) -> ExecResult<bool> {
        let Some(group) = &self.group else {
            return Ok(false);
        };
        self.row.reset(group.width());
        if !group.read(&mut self.cursor, &mut self.row)? {
            return Ok(false);
        }
        self.number += 1;
        move_into(&mut self.scratch[width..], self.row.row_mut(0));
        Ok(true)
    }

    /// Pairs the outer row with the group.
    fn pairs(&mut self, node: &Node, cx: &Cx, most: usize, out: &mut Batch) -> ExecResult<()> {
        kind!(
            node,
            MergeJoin {
                outer,
                condition,
                join
            }
        );
        while !out.is_full(most) {
            if !self.next_of_group(outer.width)? {
                return self.end_row(node, cx, out);
            }
            if !cx.holds(condition, &self.scratch)? {
                continue;
            }
            self.matched = true;
            match join {
                JoinType::Semi => {
                    self.phase = Phase::Outer;
                    return cx.emit(node, &self.scratch[..outer.width], out);
                }
                JoinType::Anti => {
                    self.phase = Phase::Outer;
                    return Ok(());
                }
                _ => {
                    if let Some(partner) = self.partners.get_mut(self.number - 1) {
                        *partner = true;
                    }
                    cx.emit(node, &self.scratch, out)?;
                }
            }
        }
        Ok(())
    }

    /// Hands over the group's rows without a partner, if the join keeps them.
    fn retire(&mut self, node: &Node, cx: &Cx, most: usize, out: &mut Batch) -> ExecResult<()> {
        kind!(node, MergeJoin { outer, join });
        if matches!(join, JoinType::Right | JoinType::Full) {
            // The outer row stays: the group is behind it.
            let mut row = std::mem::take(&mut self.scratch);
            self.scratch = vec![Datum::Null; row.len()];
            let mut ended = false;
            while !out.is_full(most) {
                if !self.next_of_group(outer.width)? {
                    ended = true;
                    break;
                }
                if self.partners.get(self.number - 1) != Some(&true) {
                    cx.emit(node, &self.scratch, out)?;
                }
            }
            std::mem::swap(&mut self.scratch, &mut row);
            if !ended {
                return Ok(());
            }
        }
        self.group = None;
        self.phase = Phase::Gather;
        Ok(())
    }

    /// Gathers the inner rows of the next key.
    fn gather(&mut self, node: &Node, cx: &Cx) -> ExecResult<Step> {
        kind!(
            node,
            MergeJoin {
                outer,
                inner,
                keys,
                join
            }
        );
        let fits =
            |(key, slot): &(SortColumn, usize)| key.slot < outer.width && *slot < inner.width;
        if !keys.iter().all(fits) || *join == JoinType::NullAwareAnti {
            return Err(ExecError::plan("a merge join that cannot be"));
        }
        loop {
            while self.inner_at < self.inner_rows.len() {
                let row = self.inner_rows.row_mut(self.inner_at);
                let group = match &mut self.group {
                    Some(group) if same_group(&self.first, row, keys) => group,
                    Some(_) => {
                        self.end_group();
                        return Ok(Step::Rows);
                    }
                    none => {
                        self.first = row.to_vec();
                        self.partners.clear();
                        let limit = cx.env.limits.work_mem;
                        let temp = &cx.env.temp;
                        none.insert(RowStore::new(inner.width, cx.reservation(), temp, limit))
                    }
                };
                group.push_taken(row)?;
                if matches!(join, JoinType::Right | JoinType::Full) {
                    self.partners.push(false);
                }
                self.inner_at += 1;
            }
            if !self.inner_ended {
                self.inner_at = 0;
                match self.inner.next(inner, cx, ALL, &mut self.inner_rows)? {
                    Step::Yield => return Ok(Step::Yield),
                    Step::Done => self.inner_ended = true,
                    Step::Rows => {
                        if cx.over(self.inner_rows.len())? {
                            return Ok(Step::Yield);
                        }
                    }
                }
                continue;
            }
            if self.group.is_none() && self.outer_ended {
                self.phase = Phase::Done;
            } else {
                self.end_group();
            }
            return Ok(Step::Rows);
        }
    }

    fn end_group(&mut self) {
        self.rewind();
        self.phase = if self.outer_ended {
            Phase::Retire
        } else {
            Phase::Align
        };
    }
}

impl Operator for MergeJoin {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        out.reset(node.width);
        let most = cx.most(want);
        while !out.is_full(most) {
            let step = match self.phase {
                Phase::Done => {
                    return Ok(if out.is_empty() {
                        Step::Done
                    } else {
                        Step::Rows
                    });
                }
                Phase::Outer => self.next_outer(node, cx, want)?,
                Phase::Gather => self.gather(node, cx)?,
                Phase::Align => {
                    self.align(node, cx, out)?;
                    Step::Rows
                }
                Phase::Pairs => {
                    self.pairs(node, cx, most, out)?;
                    Step::Rows
                }
                Phase::Retire => {
                    self.retire(node, cx, most, out)?;
                    Step::Rows
                }
            };
            if step == Step::Yield || cx.over(1)? {
                return Ok(if out.is_empty() {
                    Step::Yield
                } else {
                    Step::Rows
                });
            }
        }
        Ok(Step::Rows)
    }

    fn rescan(&mut self, node: &Node, cx: &Cx) -> ExecResult<()> {
        kind!(node, MergeJoin { outer, inner });
        self.phase = Phase::Outer;
        self.outer_rows.reset(0);
        self.outer_at = 0;
        self.outer_ended = false;
        self.inner_rows.reset(0);
        self.inner_at = 0;
        self.inner_ended = false;
        self.group = None;
        self.outer.rescan(outer, cx)?;
        self.inner.rescan(inner, cx)
    }
}
