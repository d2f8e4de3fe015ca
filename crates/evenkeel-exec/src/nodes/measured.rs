//! An operator's wrapper that measures it for EXPLAIN ANALYZE.

use std::time::{Duration, Instant};

use evenkeel_planner::plan::Node;

use crate::batch::Batch;
use crate::context::{Cx, Operator, Step};
use crate::error::ExecResult;

/// Measures its operator.
pub(crate) struct Measured {
    inner: Box<dyn Operator>,
    /// Whether this run has not been asked for rows.
    fresh: bool,
    /// Whether this run has given a row, or none to its end.
    given: bool,
}

impl Measured {
    pub fn new(inner: Box<dyn Operator>) -> Measured {
        Measured {
            inner,
            fresh: true,
            given: false,
        }
    }

    fn note(&mut self, node: &Node, cx: &Cx, took: Duration, rows: Option<usize>) {
        let Some(measures) = &cx.measures else { return };
        measures.change(node, |measure| {
            measure.total += took;
            if !self.given {
                measure.startup += took;
            }
            measure.rows += rows.unwrap_or(0) as u64;
        });
        self.given |= rows.is_some();
    }
}

impl Operator for Measured {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        if std::mem::take(&mut self.fresh)
            && let Some(measures) = &cx.measures
        {
            measures.change(node, |measure| measure.loops += 1);
        }
        let began = Instant::now();
        let step = self.inner.next(node, cx, want, out);
        let rows = match step {
            Ok(Step::Rows) => Some(out.len()),
            Ok(Step::Done) => Some(0),
            _ => None,
        };
        self.note(node, cx, began.elapsed(), rows);
        step
    }

    fn rescan(&mut self, node: &Node, cx: &Cx) -> ExecResult<()> {
        self.fresh = true;
        self.given = false;
        let began = Instant::now();
        let done = self.inner.rescan(node, cx);
        self.note(node, cx, began.elapsed(), None);
        done
    }

    fn bound(&mut self, node: &Node, rows: usize) {
        self.inner.bound(node, rows);
    }
}
