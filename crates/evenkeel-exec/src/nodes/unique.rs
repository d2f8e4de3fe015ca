//! Leaves out rows equal to the one before.

use evenkeel_planner::plan::Node;
use evenkeel_types::Datum;

use crate::batch::Batch;
use crate::context::{Child, Cx, Operator, Step};
use crate::error::{ExecError, ExecResult};
use crate::key::same;

pub(crate) struct Unique {
    child: Child,
    rows: Batch,
    at: usize,
    /// The columns of the row before.
    last: Option<Vec<Datum>>,
}

impl Unique {
    pub fn new(child: Child) -> Unique {
        Unique {
            child,
            rows: Batch::default(),
            at: 0,
            last: None,
        }
    }
}

impl Operator for Unique {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        kind!(node, Unique { child, columns });
        out.reset(child.width);
        let most = cx.most(want);
        if columns.iter().any(|column| *column >= child.width) {
            return Err(ExecError::plan("a column beyond its row"));
        }
        loop {
            while self.at < self.rows.len() && !out.is_full(most) {
                let row = self.rows.row_mut(self.at);
                self.at += 1;
                let mut pairs = columns.iter().zip(self.last.iter().flatten());
                if self.last.is_some() && pairs.all(|(column, last)| same(&row[*column], last)) {
                    continue;
                }
                self.last = Some(columns.iter().map(|column| row[*column].clone()).collect());
                out.push_taken(row);
            }
            if out.is_full(most) || (!out.is_empty() && cx.over(self.rows.len())?) {
                return Ok(Step::Rows);
            }
            if out.is_empty() && cx.over(self.rows.len())? {
                self.at = 0;
                self.rows.reset(0);
                return Ok(Step::Yield);
            }
            self.at = 0;
            let step = self
                .child
                .next(child, cx, Cx::rest(want, out.len()), &mut self.rows)?;
            if step != Step::Rows {
                return Ok(if out.is_empty() { step } else { Step::Rows });
            }
        }
    }

    fn rescan(&mut self, node: &Node, cx: &Cx) -> ExecResult<()> {
        kind!(node, Unique { child });
        self.rows.reset(0);
        self.at = 0;
        self.last = None;
        self.child.rescan(child, cx)
    }
}
