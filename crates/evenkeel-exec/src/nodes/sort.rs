//! The child's rows in order.

use std::sync::Arc;

use evenkeel_planner::plan::{Node, SortColumn};
use evenkeel_types::Datum;

use crate::batch::Batch;
use crate::context::{ALL, Child, Cx, Operator, Step};
use crate::error::{ExecError, ExecResult};
use crate::key::compare_rows;
use crate::sorter::Sorter;

pub(crate) struct Sort {
    child: Child,
    keys: Option<Arc<[SortColumn]>>,
    sorter: Option<Sorter>,
    /// Whether rows are read from the sorter.
    reading: bool,
    rows: Batch,
    at: usize,
    /// The first row of the rows that are sorted together, of a child that is ordered by some of
    /// the columns.
    group: Option<Vec<Datum>>,
    ended: bool,
    bound: Option<usize>,
}

impl Sort {
    pub fn new(child: Child) -> Sort {
        Sort {
            child,
            keys: None,
            sorter: None,
            reading: false,
            rows: Batch::default(),
            at: 0,
            group: None,
            ended: false,
            bound: None,
        }
    }

    /// Puts the rows at hand into the sorter: `Rows` at the end of a group, `Done` when it needs
    /// more rows.
    fn put(&mut self, keys: &[SortColumn], presorted: usize, cx: &Cx) -> ExecResult<Step> {
        let Some(sorter) = &mut self.sorter else {
            return Ok(Step::Done);
        };
        while self.at < self.rows.len() {
            if !sorter.settle(cx)? {
                return Ok(Step::Yield);
            }
            let row = self.rows.row_mut(self.at);
            if presorted > 0 {
                match &self.group {
                    None => self.group = Some(row.to_vec()),
                    Some(first) if compare_rows(first, row, &keys[..presorted]).is_ne() => {
                        return Ok(Step::Rows);
                    }
                    Some(_) => {}
                }
            }
            sorter.push(row)?;
            self.at += 1;
        }
        Ok(Step::Done)
    }

    /// Sorts until rows can be read, or until it gives way.
    fn fill(&mut self, node: &Node, cx: &Cx) -> ExecResult<Step> {
        kind!(
            node,
            Sort {
                child,
                keys,
                presorted
            }
        );
        let presorted = (*presorted).min(keys.len());
        if keys.iter().any(|key| key.slot >= child.width) {
            return Err(ExecError::plan("a column beyond its row"));
        }
        let shared = self.keys.get_or_insert_with(|| keys.as_slice().into());
        if self.sorter.is_none() {
            let sorter = Sorter::new(child.width, Arc::clone(shared), cx);
            self.sorter = Some(sorter.bounded(self.bound));
        }
        loop {
            let put = self.put(keys, presorted, cx)?;
            if put == Step::Yield {
                return Ok(Step::Yield);
            }
            if put == Step::Done && !self.ended {
                self.at = 0;
                match self.child.next(child, cx, ALL, &mut self.rows)? {
                    Step::Yield => return Ok(Step::Yield),
                    Step::Done => self.ended = true,
                    Step::Rows => {
                        if cx.over(self.rows.len())? {
                            return Ok(Step::Yield);
                        }
                    }
                }
                continue;
            }
            if let Some(sorter) = &mut self.sorter
                && !sorter.finish(cx)?
            {
                return Ok(Step::Yield);
            }
            self.group = None;
            self.reading = true;
            return Ok(Step::Rows);
        }
    }
}

impl Operator for Sort {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        kind!(node, Sort { child });
        out.reset(child.width);
        let most = cx.most(want);
        loop {
            if !self.reading {
                if self.ended && self.at >= self.rows.len() && self.sorter.is_none() {
                    return Ok(Step::Done);
                }
                if self.fill(node, cx)? == Step::Yield {
                    return Ok(Step::Yield);
                }
            }
            if let Some(sorter) = &mut self.sorter {
                while !out.is_full(most) && sorter.next(out)? {}
            }
            if !out.is_empty() {
                cx.over(out.len())?;
                return Ok(Step::Rows);
            }
            self.sorter = None;
            self.reading = false;
        }
    }

    fn rescan(&mut self, node: &Node, cx: &Cx) -> ExecResult<()> {
        kind!(node, Sort { child });
        self.sorter = None;
        self.reading = false;
        self.rows.reset(0);
        self.at = 0;
        self.group = None;
        self.ended = false;
        self.bound = None;
        self.child.rescan(child, cx)
    }

    fn bound(&mut self, _node: &Node, rows: usize) {
        self.bound = Some(rows);
    }
}
