//! The rows of functions side by side.

use evenkeel_engine::memory::Reservation;
use evenkeel_planner::plan::Node;
use evenkeel_types::Datum;

use crate::batch::Batch;
use crate::context::{Cx, Operator, Step};
use crate::error::ExecResult;
use crate::eval::SetRows;

#[derive(Default)]
pub(crate) struct FunctionScan {
    calls: Option<Vec<SetRows>>,
    reservation: Option<Reservation>,
    row: Vec<Datum>,
    count: i64,
}

impl FunctionScan {
    /// Appends the next row; false when all functions have ended.
    fn next_row(&mut self, node: &Node, cx: &Cx, out: &mut Batch) -> ExecResult<bool> {
        kind!(node, FunctionScan { calls, ordinality });
        let mut any = false;
        let mut values = Vec::new();
        for (rows, call) in self.calls.iter_mut().flatten().zip(calls) {
            let width = call.columns.len();
            if rows.next(cx, width, &mut self.row)? {
                any = true;
                values.append(&mut self.row);
            } else {
                *rows = SetRows::None;
                values.resize(values.len() + width, Datum::Null);
            }
        }
        if !any {
            return Ok(false);
        }
        self.count += 1;
        if *ordinality {
            values.push(Datum::Int8(self.count));
        }
        out.push_taken(&mut values);
        Ok(true)
    }
}

impl Operator for FunctionScan {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        kind!(node, FunctionScan { calls, ordinality });
        let width: usize = calls.iter().map(|call| call.columns.len()).sum();
        out.reset(width + usize::from(*ordinality));
        if self.calls.is_none() {
            let begun = calls.iter().map(|call| cx.call_set(call, &[]));
            self.calls = Some(begun.collect::<ExecResult<_>>()?);
        }
        let most = cx.most(want);
        while !out.is_full(most) && self.next_row(node, cx, out)? {}
        let bytes = self.calls.iter().flatten().map(SetRows::bytes).sum();
        let reservation = self.reservation.get_or_insert_with(|| cx.reservation());
        reservation.resize(bytes)?;
        cx.over(out.len())?;
        Ok(if out.is_empty() {
            Step::Done
        } else {
            Step::Rows
        })
    }

    fn rescan(&mut self, _node: &Node, _cx: &Cx) -> ExecResult<()> {
        self.calls = None;
        self.count = 0;
        Ok(())
    }
}
