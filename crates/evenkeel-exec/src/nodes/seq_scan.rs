//! The rows of a table, in the order of its heap.

use evenkeel_engine::heap::rows::RowBatch;
use evenkeel_engine::table::Scan;
use evenkeel_planner::plan::Node;

use crate::batch::Batch;
use crate::context::{Cx, Operator, Step};
use crate::error::ExecResult;
use crate::rows::ScannedTable;

/// Filters and projects itself.
#[derive(Default)]
pub(crate) struct SeqScan {
    table: Option<ScannedTable>,
    scan: Option<Scan>,
    page: RowBatch,
    at: usize,
    done: bool,
}

impl Operator for SeqScan {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        kind!(node, SeqScan { relation, columns });
        out.reset(node.width);
        let table = match &mut self.table {
            Some(table) => table,
            none => none.insert(ScannedTable::open(relation, columns, node, cx)?),
        };
        let most = cx.most(want);
        loop {
            self.at = table.emit(&self.page, self.at, (node, cx), most, out)?;
            if out.is_full(most) {
                return Ok(Step::Rows);
            }
            if cx.over(self.page.len() + 1)? {
                self.page.clear();
                self.at = 0;
                return Ok(if out.is_empty() {
                    Step::Yield
                } else {
                    Step::Rows
                });
            }
            self.at = 0;
            self.page.clear();
            if !self.done {
                let scan = self.scan.get_or_insert_with(|| {
                    let scan = match cx.env.limits.synchronize_seqscans {
                        true => table.table.scan(&cx.env.snapshot),
                        false => table.table.scan_in_order(&cx.env.snapshot),
                    };
                    scan.cancelled_by(&cx.env.cancel)
                });
                self.done = !table.next_page(scan, &mut self.page, (node, cx))?;
            }
            if self.done {
                self.scan = None;
                return Ok(if out.is_empty() {
                    Step::Done
                } else {
                    Step::Rows
                });
            }
        }
    }

    fn rescan(&mut self, _node: &Node, _cx: &Cx) -> ExecResult<()> {
        self.scan = None;
        self.page.clear();
        self.at = 0;
        self.done = false;
        Ok(())
    }
}
