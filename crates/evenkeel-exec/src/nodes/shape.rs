//! Filter and projection of a node whose operator makes raw rows, and the operator of a node that
//! is nothing else.

use evenkeel_planner::plan::Node;

use crate::batch::Batch;
use crate::context::{Child, Cx, Operator, Step};
use crate::error::ExecResult;

/// Filters and projects the raw rows of an operator of the same node.
pub(crate) struct Shape {
    raw: Box<dyn Operator>,
    batch: Batch,
    at: usize,
}

impl Shape {
    pub fn new(raw: Box<dyn Operator>) -> Shape {
        Shape {
            raw,
            batch: Batch::default(),
            at: 0,
        }
    }
}

impl Operator for Shape {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        out.reset(node.width);
        let most = cx.most(want);
        loop {
            while self.at < self.batch.len() {
                if out.is_full(most) {
                    return Ok(Step::Rows);
                }
                let at = self.at;
                self.at += 1;
                cx.emit_taken(node, self.batch.row_mut(at), out)?;
            }
            if out.is_full(most) || (!out.is_empty() && cx.over(self.batch.len())?) {
                return Ok(Step::Rows);
            }
            self.at = 0;
            let step = self
                .raw
                .next(node, cx, Cx::rest(want, out.len()), &mut self.batch)?;
            if step != Step::Rows {
                self.batch.reset(0);
                return Ok(if out.is_empty() { step } else { Step::Rows });
            }
            if out.is_empty() && cx.over(self.batch.len())? {
                return Ok(Step::Yield);
            }
        }
    }

    fn rescan(&mut self, node: &Node, cx: &Cx) -> ExecResult<()> {
        self.batch.reset(0);
        self.at = 0;
        self.raw.rescan(node, cx)
    }

    fn bound(&mut self, node: &Node, rows: usize) {
        if node.filter.is_empty() {
            self.raw.bound(node, rows);
        }
    }
}

/// The child's rows.
pub(crate) struct Project {
    child: Child,
}

impl Project {
    pub fn new(child: Child) -> Project {
        Project { child }
    }
}

impl Operator for Project {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        kind!(node, Project { child });
        self.child.next(child, cx, want, out)
    }

    fn rescan(&mut self, node: &Node, cx: &Cx) -> ExecResult<()> {
        kind!(node, Project { child });
        self.child.rescan(child, cx)
    }

    fn bound(&mut self, node: &Node, rows: usize) {
        if let evenkeel_planner::plan::NodeKind::Project { child } = &node.kind {
            self.child.bound(child, rows);
        }
    }
}
