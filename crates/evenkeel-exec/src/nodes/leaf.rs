//! Rows without a table: a single one, and those of expressions.

use evenkeel_planner::plan::{Node, NodeKind};

use crate::batch::Batch;
use crate::context::{Cx, Operator, Step};
use crate::error::{ExecError, ExecResult};

/// One row without columns, if its conditions hold.
#[derive(Default)]
pub(crate) struct Single {
    done: bool,
}

impl Operator for Single {
    fn next(&mut self, node: &Node, cx: &Cx, _want: usize, out: &mut Batch) -> ExecResult<Step> {
        kind!(node, Result { conditions });
        out.reset(0);
        if std::mem::replace(&mut self.done, true) || !cx.holds(conditions, &[])? {
            return Ok(Step::Done);
        }
        out.end_row();
        Ok(Step::Rows)
    }

    fn rescan(&mut self, _node: &Node, _cx: &Cx) -> ExecResult<()> {
        self.done = false;
        Ok(())
    }
}

/// Rows of expressions.
#[derive(Default)]
pub(crate) struct Values {
    next: usize,
}

impl Operator for Values {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        let NodeKind::Values(rows) = &node.kind else {
            return Err(ExecError::plan("a node of another kind"));
        };
        out.reset(rows.first().map_or(0, Vec::len));
        while !out.is_full(cx.most(want))
            && let Some(row) = rows.get(self.next)
        {
            self.next += 1;
            cx.project(row, &[], out)?;
        }
        Ok(if out.is_empty() {
            Step::Done
        } else {
            Step::Rows
        })
    }

    fn rescan(&mut self, _node: &Node, _cx: &Cx) -> ExecResult<()> {
        self.next = 0;
        Ok(())
    }
}
