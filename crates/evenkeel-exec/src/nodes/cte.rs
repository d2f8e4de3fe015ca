//! The rows of a common table expression, and those of a recursive union's last step.

use evenkeel_planner::plan::Node;

use crate::batch::Batch;
use crate::context::{Cx, Operator, Step};
use crate::error::{ExecError, ExecResult};
use crate::spill::Cursor;

/// A reader of a common table expression: each has its own place, the rows are shared.
#[derive(Default)]
pub(crate) struct CteScan {
    cursor: Cursor,
}

impl Operator for CteScan {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        kind!(node, CteScan { subplan });
        cx.read_kept(*subplan, &mut self.cursor, want, out)
    }

    fn rescan(&mut self, _node: &Node, _cx: &Cx) -> ExecResult<()> {
        self.cursor.rewind();
        Ok(())
    }
}

/// A reader of a working table.
#[derive(Default)]
pub(crate) struct WorkingScan {
    cursor: Cursor,
}

impl Operator for WorkingScan {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        kind!(node, WorkingScan { union_id });
        let rows = cx.working(*union_id);
        let rows = rows.ok_or_else(|| ExecError::plan("a working table of no union"))?;
        out.reset(rows.width());
        while !out.is_full(cx.most(want)) && rows.read(&mut self.cursor, out)? {}
        Ok(if out.is_empty() {
            Step::Done
        } else {
            Step::Rows
        })
    }

    fn rescan(&mut self, _node: &Node, _cx: &Cx) -> ExecResult<()> {
        self.cursor.rewind();
        Ok(())
    }
}
