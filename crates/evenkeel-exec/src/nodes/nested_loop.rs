//! For each outer row the inner rows.

use evenkeel_planner::plan::{JoinType, Node};
use evenkeel_types::Datum;

use crate::batch::{Batch, move_into};
use crate::context::{ALL, Child, Cx, Operator, Step};
use crate::error::{ExecError, ExecResult};

/// Where the loop is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The next outer row is needed.
    Outer,
    /// Inner rows of the outer row in the scratch row.
    Inner,
    /// Inner rows that no outer row had as a partner.
    Unmatched,
    Done,
}

/// Filters and projects itself.
pub(crate) struct NestedLoop {
    outer: Child,
    inner: Child,
    phase: Phase,
    outer_rows: Batch,
    outer_at: usize,
    inner_rows: Batch,
    inner_at: usize,
    /// The outer row, then the inner row.
    scratch: Vec<Datum>,
    /// Whether the outer row has a partner.
    matched: bool,
    /// The number of the inner row, in the order of the inner side.
    ordinal: usize,
    /// Which inner rows have a partner, for joins that keep those without.
    partners: Vec<bool>,
}

impl NestedLoop {
    pub fn new(outer: Child, inner: Child) -> NestedLoop {
        NestedLoop {
            outer,
            inner,
            phase: Phase::Outer,
            outer_rows: Batch::default(),
            outer_at: 0,
            inner_rows: Batch::default(),
            inner_at: 0,
            scratch: Vec::new(),
            matched: false,
            ordinal: 0,
            partners: Vec::new(),
        }
    }

    /// Takes the next outer row and begins with its inner rows.
    fn next_outer(&mut self, node: &Node, cx: &Cx, want: usize) -> ExecResult<Step> {
        kind!(
            node,
            NestedLoop {
                outer,
                inner,
                params,
                join
            }
        );
        if self.outer_at >= self.outer_rows.len() {
            self.outer_at = 0;
            // One outer row may be enough for a bounded number of rows.
            let want = if want == ALL { ALL } else { 1 };
            let step = self.outer.next(outer, cx, want, &mut self.outer_rows)?;
            if step != Step::Rows {
                return Ok(step);
            }
        }
        self.scratch.resize(outer.width + inner.width, Datum::Null);
        let row = self.outer_rows.row_mut(self.outer_at);
        self.outer_at += 1;
        move_into(&mut self.scratch[..outer.width], row);
        for (param, slot) in params {
            let value = self.scratch.get(*slot).cloned();
            let value = value.ok_or_else(|| ExecError::plan("a slot beyond its row"))?;
            cx.set_exec(*param, value)?;
        }
        if *join == JoinType::NullAwareAnti {
            return Err(ExecError::plan("a NOT IN join by a nested loop"));
        }
        self.inner.rescan(inner, cx)?;
        self.begin_inner();
        self.phase = Phase::Inner;
        Ok(Step::Rows)
    }

    fn begin_inner(&mut self) {
        self.inner_rows.reset(0);
        self.inner_at = 0;
        self.ordinal = 0;
        self.matched = false;
    }

    /// Goes through the inner rows at hand.
    fn pairs(&mut self, node: &Node, cx: &Cx, most: usize, out: &mut Batch) -> ExecResult<()> {
        kind!(
            node,
            NestedLoop {
                outer,
                condition,
                join
            }
        );
        while self.inner_at < self.inner_rows.len() && !out.is_full(most) {
            let row = self.inner_rows.row_mut(self.inner_at);
            self.inner_at += 1;
            self.ordinal += 1;
            move_into(&mut self.scratch[outer.width..], row);
            if !cx.holds(condition, &self.scratch)? {
                continue;
            }
            self.matched = true;
            match join {
                JoinType::Anti => self.phase = Phase::Outer,
                JoinType::Semi => {
                    self.phase = Phase::Outer;
                    cx.emit(node, &self.scratch[..outer.width], out)?;
                }
                JoinType::Right | JoinType::Full => {
                    self.partner();
                    cx.emit(node, &self.scratch, out)?;
                }
                _ => cx.emit(node, &self.scratch, out)?,
            }
            if self.phase != Phase::Inner {
                return Ok(());
            }
        }
        Ok(())
    }

    fn partner(&mut self) {
        if self.partners.len() < self.ordinal {
            self.partners.resize(self.ordinal, false);
        }
        self.partners[self.ordinal - 1] = true;
    }

    /// The inner rows have ended: an outer row without a partner.
    fn end_inner(&mut self, node: &Node, cx: &Cx, out: &mut Batch) -> ExecResult<()> {
        kind!(node, NestedLoop { outer, join });
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

    /// Inner rows that no outer row had as a partner.
    fn unmatched(&mut self, node: &Node, cx: &Cx, most: usize, out: &mut Batch) -> ExecResult<()> {
        kind!(node, NestedLoop { outer });
        while self.inner_at < self.inner_rows.len() && !out.is_full(most) {
            let row = self.inner_rows.row_mut(self.inner_at);
            self.inner_at += 1;
            self.ordinal += 1;
            if self.partners.get(self.ordinal - 1) != Some(&true) {
                move_into(&mut self.scratch[outer.width..], row);
                cx.emit(node, &self.scratch, out)?;
            }
        }
        Ok(())
    }

    /// The outer rows have ended.
    fn end_outer(&mut self, node: &Node, cx: &Cx) -> ExecResult<()> {
        kind!(node, NestedLoop { outer, inner, join });
        self.phase = Phase::Done;
        if matches!(join, JoinType::Right | JoinType::Full) {
            self.phase = Phase::Unmatched;
            self.scratch.resize(outer.width + inner.width, Datum::Null);
            self.scratch.fill(Datum::Null);
            self.inner.rescan(inner, cx)?;
            self.begin_inner();
        }
        Ok(())
    }

    /// How many inner rows are asked for: one where the first may be enough.
    fn inner_want(node: &Node, want: usize) -> ExecResult<usize> {
        kind!(node, NestedLoop { join });
        let first = matches!(join, JoinType::Semi | JoinType::Anti);
        Ok(if first || want != ALL { 1 } else { ALL })
    }

    fn pull_inner(&mut self, node: &Node, cx: &Cx, want: usize) -> ExecResult<Step> {
        kind!(node, NestedLoop { inner });
        self.inner_at = 0;
        self.inner.next(inner, cx, want, &mut self.inner_rows)
    }
}

impl Operator for NestedLoop {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        out.reset(node.width);
        let most = cx.most(want);
        let inner_want = Self::inner_want(node, want)?;
        loop {
            if out.is_full(most) {
                return Ok(Step::Rows);
            }
            let step = match self.phase {
                Phase::Done => Step::Done,
                Phase::Outer => match self.next_outer(node, cx, want)? {
                    Step::Done => {
                        self.end_outer(node, cx)?;
                        continue;
                    }
                    step => step,
                },
                Phase::Inner if self.inner_at < self.inner_rows.len() => {
                    self.pairs(node, cx, most, out)?;
                    continue;
                }
                Phase::Inner => match self.pull_inner(node, cx, inner_want)? {
                    Step::Done => {
                        self.end_inner(node, cx, out)?;
                        continue;
                    }
                    step => step,
                },
                Phase::Unmatched if self.inner_at < self.inner_rows.len() => {
                    self.unmatched(node, cx, most, out)?;
                    continue;
                }
                Phase::Unmatched => match self.pull_inner(node, cx, inner_want)? {
                    Step::Done => {
                        self.phase = Phase::Done;
                        continue;
                    }
                    step => step,
                },
            };
            if step != Step::Rows {
                return Ok(if out.is_empty() { step } else { Step::Rows });
            }
            if cx.over(self.inner_rows.len() + 1)? {
                return Ok(if out.is_empty() {
                    Step::Yield
                } else {
                    Step::Rows
                });
            }
        }
    }

    fn rescan(&mut self, node: &Node, cx: &Cx) -> ExecResult<()> {
        kind!(node, NestedLoop { outer });
        self.phase = Phase::Outer;
        self.outer_rows.reset(0);
        self.outer_at = 0;
        self.partners.clear();
        self.begin_inner();
        self.outer.rescan(outer, cx)
    }
}
