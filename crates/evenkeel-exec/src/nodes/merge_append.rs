//! Children that are each in order, merged.

use evenkeel_planner::plan::{Node, NodeKind, SortColumn};

use crate::batch::Batch;
use crate::context::{ALL, Child, Cx, Operator, Step};
use crate::error::{ExecError, ExecResult};
use crate::key::compare_rows;

/// A child with the rows that have been read from it.
struct Input {
    child: Child,
    rows: Batch,
    at: usize,
    ended: bool,
}

pub(crate) struct MergeAppend {
    inputs: Vec<Input>,
}

impl MergeAppend {
    pub fn new(children: Vec<Child>) -> MergeAppend {
        let input = |child| Input {
            child,
            rows: Batch::default(),
            at: 0,
            ended: false,
        };
        MergeAppend {
            inputs: children.into_iter().map(input).collect(),
        }
    }

    /// Makes sure of a row of each child that has one.
    fn fill(&mut self, children: &[Node], cx: &Cx, want: usize) -> ExecResult<Step> {
        let want = if want == ALL { ALL } else { 1 };
        for (input, node) in self.inputs.iter_mut().zip(children) {
            if input.at < input.rows.len() || input.ended {
                continue;
            }
            input.at = 0;
            match input.child.next(node, cx, want, &mut input.rows)? {
                Step::Yield => return Ok(Step::Yield),
                Step::Done => input.ended = true,
                Step::Rows => {}
            }
        }
        Ok(Step::Rows)
    }

    /// The child whose row comes first; none when all have ended.
    fn least(&self, keys: &[SortColumn]) -> Option<usize> {
        let with_rows = self.inputs.iter().enumerate();
        let with_rows = with_rows.filter(|(_, input)| input.at < input.rows.len());
        let order = |a: &Input, b: &Input| compare_rows(a.rows.row(a.at), b.rows.row(b.at), keys);
        with_rows
            .min_by(|(_, a), (_, b)| order(a, b))
            .map(|(number, _)| number)
    }
}

impl Operator for MergeAppend {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        kind!(node, MergeAppend { children, keys });
        let width = children.first().map_or(0, |child| child.width);
        if keys.iter().any(|key| key.slot >= width) {
            return Err(ExecError::plan("a column beyond its row"));
        }
        out.reset(width);
        while !out.is_full(cx.most(want)) {
            if self.fill(children, cx, want)? == Step::Yield {
                return Ok(if out.is_empty() {
                    Step::Yield
                } else {
                    Step::Rows
                });
            }
            let Some(least) = self.least(keys) else {
                break;
            };
            let input = &mut self.inputs[least];
            out.push_taken(input.rows.row_mut(input.at));
            input.at += 1;
        }
        cx.over(out.len())?;
        Ok(if out.is_empty() {
            Step::Done
        } else {
            Step::Rows
        })
    }

    fn rescan(&mut self, node: &Node, cx: &Cx) -> ExecResult<()> {
        kind!(node, MergeAppend { children });
        for (input, node) in self.inputs.iter_mut().zip(children) {
            input.rows.reset(0);
            input.at = 0;
            input.ended = false;
            input.child.rescan(node, cx)?;
        }
        Ok(())
    }

    fn bound(&mut self, node: &Node, rows: usize) {
        if let NodeKind::MergeAppend { children, .. } = &node.kind {
            for (input, node) in self.inputs.iter_mut().zip(children) {
                input.child.bound(node, rows);
            }
        }
    }
}
