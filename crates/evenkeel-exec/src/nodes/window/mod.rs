//! Functions over windows: the child's rows come in the order of partition and order, a partition
//! at a time is kept, and each of its rows is handed over with the functions' values behind it.

mod call;
mod frame;
mod partition;

use evenkeel_planner::plan::Node;

use self::call::CallState;
use self::frame::Offsets;
use self::partition::{Partition, Place};
use crate::batch::Batch;
use crate::context::{ALL, Child, Cx, Operator, Step};
use crate::error::{ExecError, ExecResult};

pub(crate) struct Window {
    child: Child,
    rows: Batch,
    at: usize,
    ended: bool,
    partition: Option<Partition>,
    /// Whether the partition has all its rows.
    complete: bool,
    /// The row of the partition that is handed over next.
    place: Place,
    offsets: Option<Offsets>,
    calls: Vec<CallState>,
}

impl Window {
    pub fn new(child: Child) -> Window {
        Window {
            child,
            rows: Batch::default(),
            at: 0,
            ended: false,
            partition: None,
            complete: false,
            place: Place::default(),
            offsets: None,
            calls: Vec::new(),
        }
    }

    /// Gathers the rows of a partition; `Done` when there is none.
    fn gather(&mut self, node: &Node, cx: &Cx) -> ExecResult<Step> {
        kind!(
            node,
            Window {
                child,
                partition,
                order,
                functions
            }
        );
        let slots = partition.iter().chain(order.iter().map(|key| &key.slot));
        if slots.into_iter().any(|slot| *slot >= child.width) {
            return Err(ExecError::plan("a column beyond its row"));
        }
        loop {
            while self.at < self.rows.len() {
                let row = self.rows.row_mut(self.at);
                let gathered = match &mut self.partition {
                    Some(gathered) if !gathered.has(row, partition) => {
                        self.complete = true;
                        break;
                    }
                    Some(gathered) => gathered,
                    none => none.insert(Partition::new(child.width, row, cx)),
                };
                gathered.push(row, order)?;
                self.at += 1;
            }
            if !self.complete && !self.ended {
                self.at = 0;
                match self.child.next(child, cx, ALL, &mut self.rows)? {
                    Step::Yield => return Ok(Step::Yield),
                    Step::Done => self.ended = true,
                    Step::Rows => {
                        if cx.over(self.rows.len())? {
                            return Ok(Step::Yield);
                        }
                    }
                }
                continue;
            }
            if self.partition.is_none() {
                return Ok(Step::Done);
            }
            self.complete = true;
            self.place = Place::default();
            let states = functions.iter().map(CallState::new);
            self.calls = states.collect::<ExecResult<_>>()?;
            return Ok(Step::Rows);
        }
    }

    /// Appends the next row of the partition; false at its end.
    fn hand_over(&mut self, node: &Node, cx: &Cx, out: &mut Batch) -> ExecResult<bool> {
        kind!(
            node,
            Window {
                frame,
                functions,
                order
            }
        );
        let Some(partition) = &self.partition else {
            return Ok(false);
        };
        if self.place.row >= partition.len() {
            return Ok(false);
        }
        if self.offsets.is_none() {
            self.offsets = Some(Offsets::new(frame, cx)?);
        }
        let Some(offsets) = &self.offsets else {
            return Ok(false);
        };
        partition.find_group(&mut self.place);
        let ranges = frame::ranges(frame, offsets, order, (partition, &self.place), cx)?;
        partition.copy_row(self.place.row, out)?;
        for (state, function) in self.calls.iter_mut().zip(functions) {
            let value = state.value(function, partition, &self.place, &ranges, cx)?;
            out.push_value(value);
        }
        out.end_row();
        self.place.row += 1;
        Ok(true)
    }
}

impl Operator for Window {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        kind!(node, Window { child, functions });
        out.reset(child.width + functions.len());
        let most = cx.most(want);
        loop {
            if self.complete {
                while !out.is_full(most) && self.hand_over(node, cx, out)? {
                    if cx.over(1)? {
                        return Ok(Step::Rows);
                    }
                }
                if out.is_full(most) {
                    return Ok(Step::Rows);
                }
                self.complete = false;
                self.partition = None;
            }
            match self.gather(node, cx)? {
                Step::Rows => {}
                step => return Ok(if out.is_empty() { step } else { Step::Rows }),
            }
        }
    }

    fn rescan(&mut self, node: &Node, cx: &Cx) -> ExecResult<()> {
        kind!(node, Window { child });
        self.rows.reset(0);
        self.at = 0;
        self.ended = false;
        self.partition = None;
        self.complete = false;
        self.offsets = None;
        self.calls.clear();
        self.child.rescan(child, cx)
    }
}
