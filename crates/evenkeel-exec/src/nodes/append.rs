//! The rows of all children, one child after the other.

use evenkeel_planner::plan::{Node, NodeKind};

use crate::batch::Batch;
use crate::context::{Child, Cx, Operator, Step};
use crate::error::ExecResult;

pub(crate) struct Append {
    children: Vec<Child>,
    at: usize,
}

impl Append {
    pub fn new(children: Vec<Child>) -> Append {
        Append { children, at: 0 }
    }
}

impl Operator for Append {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        kind!(node, Append { children });
        while let (Some(child), Some(node)) =
            (self.children.get_mut(self.at), children.get(self.at))
        {
            match child.next(node, cx, want, out)? {
                Step::Done => self.at += 1,
                step => return Ok(step),
            }
        }
        out.reset(out.width());
        Ok(Step::Done)
    }

    fn rescan(&mut self, node: &Node, cx: &Cx) -> ExecResult<()> {
        kind!(node, Append { children });
        self.at = 0;
        for (child, node) in self.children.iter_mut().zip(children) {
            child.rescan(node, cx)?;
        }
        Ok(())
    }

    fn bound(&mut self, node: &Node, rows: usize) {
        if let NodeKind::Append { children } = &node.kind {
            for (child, node) in self.children.iter_mut().zip(children) {
                child.bound(node, rows);
            }
        }
    }
}
