//! OFFSET, LIMIT and FETCH FIRST … WITH TIES.

use evenkeel_expr::program::Program;
use evenkeel_planner::plan::Node;
use evenkeel_types::{Datum, SqlState};

use crate::batch::Batch;
use crate::context::{ALL, Child, Cx, Operator, Step};
use crate::error::{ExecError, ExecResult};
use crate::key::compare_rows;

pub(crate) struct Limit {
    child: Child,
    /// Rows to pass over, and rows to hand over behind them; none before they are computed.
    counts: Option<(u64, Option<u64>)>,
    rows: Batch,
    at: usize,
    /// The last row handed over, with which others may tie.
    last: Vec<Datum>,
    done: bool,
}

impl Limit {
    pub fn new(child: Child) -> Limit {
        Limit {
            child,
            counts: None,
            rows: Batch::default(),
            at: 0,
            last: Vec::new(),
            done: false,
        }
    }

    /// Computes the counts, and tells the child of them.
    fn begin(&mut self, node: &Node, cx: &Cx) -> ExecResult<(u64, Option<u64>)> {
        kind!(
            node,
            Limit {
                child,
                offset,
                count,
                ties
            }
        );
        if let Some(counts) = self.counts {
            return Ok(counts);
        }
        let skip = count_of(offset.as_ref(), cx, true)?.unwrap_or(0);
        let left = count_of(count.as_ref(), cx, false)?;
        self.counts = Some((skip, left));
        if let (Some(left), None) = (left, ties) {
            let all = usize::try_from(skip.saturating_add(left));
            self.child.bound(child, all.unwrap_or(usize::MAX));
        }
        Ok((skip, left))
    }

    /// Hands over the rows at hand; true when that was all.
    fn hand_over(&mut self, node: &Node, most: usize, out: &mut Batch) -> ExecResult<bool> {
        kind!(node, Limit { ties });
        let Some((skip, left)) = &mut self.counts else {
            return Ok(true);
        };
        while self.at < self.rows.len() && !out.is_full(most) {
            let row = self.rows.row_mut(self.at);
            if *skip > 0 {
                *skip -= 1;
            } else if *left == Some(0) {
                let tie = ties
                    .as_ref()
                    .is_some_and(|keys| compare_rows(row, &self.last, keys).is_eq());
                if !tie {
                    return Ok(true);
                }
                out.push_taken(row);
            } else {
                if let Some(left) = left {
                    *left -= 1;
                    if *left == 0 && ties.is_some() {
                        self.last = row.to_vec();
                    }
                }
                out.push_taken(row);
            }
            self.at += 1;
        }
        Ok(false)
    }
}

/// A count of rows; `None` for NULL, which is no limit.
fn count_of(program: Option<&Program>, cx: &Cx, offset: bool) -> ExecResult<Option<u64>> {
    let Some(program) = program else {
        return Ok(None);
    };
    let number = match cx.eval(program, &[])? {
        Datum::Null => return Ok(None),
        Datum::Int2(n) => i64::from(n),
        Datum::Int4(n) => i64::from(n),
        Datum::Int8(n) => n,
        _ => return Err(ExecError::plan("a LIMIT that is not an integer")),
    };
    let (state, what) = if offset {
        (SqlState::INVALID_ROW_COUNT_IN_OFFSET, "OFFSET")
    } else {
        (SqlState::INVALID_ROW_COUNT_IN_LIMIT, "LIMIT")
    };
    match u64::try_from(number) {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(ExecError::new(
            state,
            format!("{what} must not be negative"),
        )),
    }
}

impl Operator for Limit {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        kind!(node, Limit { child, ties });
        out.reset(child.width);
        if self.begin(node, cx)?.1 == Some(0) && self.last.is_empty() {
            self.done = true;
        }
        let most = cx.most(want);
        while !self.done {
            self.done = self.hand_over(node, most, out)?;
            if self.done || out.is_full(most) {
                break;
            }
            let (skip, left) = self.begin(node, cx)?;
            if skip == 0 && left == Some(0) && ties.is_none() {
                self.done = true;
                break;
            }
            // No row of the child is evaluated that is not needed; of those that may tie one
            // after the other.
            let ending = left == Some(0) && ties.is_some();
            let all = Cx::rest(want, out.len()) as u64;
            let wanted = if ending {
                1
            } else {
                left.unwrap_or(all).min(all)
            };
            let wanted = usize::try_from(wanted.saturating_add(skip)).unwrap_or(ALL);
            self.at = 0;
            let step = self.child.next(child, cx, wanted, &mut self.rows)?;
            if step != Step::Rows {
                self.done = step == Step::Done;
                if step == Step::Yield && out.is_empty() {
                    return Ok(Step::Yield);
                }
                break;
            }
            if cx.over(self.rows.len())? && out.is_empty() && self.at >= self.rows.len() {
                return Ok(Step::Yield);
            }
        }
        Ok(if out.is_empty() {
            Step::Done
        } else {
            Step::Rows
        })
    }

    fn rescan(&mut self, node: &Node, cx: &Cx) -> ExecResult<()> {
        kind!(node, Limit { child });
        self.counts = None;
        self.rows.reset(0);
        self.at = 0;
        self.last.clear();
        self.done = false;
        self.child.rescan(child, cx)
    }
}
