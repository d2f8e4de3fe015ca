//! Groups of rows that are ordered by the grouped columns, or one group of all rows.

use evenkeel_engine::memory::Reservation;
use evenkeel_planner::plan::{AggregateStrategy, Node};
use evenkeel_types::Datum;

use super::group::{Group, grouped, push_group};
use crate::batch::Batch;
use crate::context::{ALL, Child, Cx, Operator, Step};
use crate::error::ExecResult;
use crate::key::same;

pub(crate) struct Ordered {
    child: Child,
    /// The grouped columns of the group at hand, and its states.
    current: Option<(Vec<Datum>, Group)>,
    /// Whether the group at hand is complete.
    complete: bool,
    rows: Batch,
    at: usize,
    args: Vec<Datum>,
    /// For the states, once they are large.
    reservation: Option<Reservation>,
    ended: bool,
}

/// Bytes of states that are not charged.
const SMALL: usize = 64 << 10;

impl Ordered {
    pub fn new(child: Child) -> Ordered {
        Ordered {
            child,
            current: None,
            complete: false,
            rows: Batch::default(),
            at: 0,
            args: Vec::new(),
            reservation: None,
            ended: false,
        }
    }

    /// Charges the states of the group at hand. It is done once for a batch of rows, of which large
    /// values are few (RUN-17).
    fn charge(&mut self, cx: &Cx) -> ExecResult<()> {
        let bytes = self.current.as_ref().map_or(0, |(_, group)| group.bytes());
        if bytes > SMALL {
            let reservation = self.reservation.get_or_insert_with(|| cx.reservation());
            reservation.resize(bytes)?;
        }
        Ok(())
    }

    /// Takes in the rows at hand, up to the end of the group.
    fn take_in(&mut self, node: &Node, cx: &Cx) -> ExecResult<()> {
        kind!(node, Aggregate { group, aggregates });
        while self.at < self.rows.len() {
            let row = self.rows.row(self.at);
            let current = match &mut self.current {
                Some((values, _))
                    if !values
                        .iter()
                        .zip(group)
                        .all(|(value, slot)| same(value, &row[*slot])) =>
                {
                    self.complete = true;
                    return Ok(());
                }
                Some((_, current)) => current,
                none => {
                    let values = grouped(row, group)?;
                    &mut none.insert((values, Group::new(aggregates, cx)?)).1
                }
            };
            if group.is_empty() {
                let rows = (&self.rows, self.at);
                current.add_all(aggregates, rows, &mut self.args, cx)?;
                self.at = self.rows.len();
                break;
            }
            current.add(aggregates, row, &mut self.args, cx)?;
            self.at += 1;
        }
        self.charge(cx)
    }
}

impl Operator for Ordered {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        kind!(
            node,
            Aggregate {
                child,
                group,
                aggregates,
                strategy,
            }
        );
        out.reset(group.len() + aggregates.len());
        let most = cx.most(want);
        loop {
            if self.complete || self.ended {
                if let Some((values, current)) = &mut self.current
                    && !current.settle(aggregates, values, cx)?
                {
                    return Ok(if out.is_empty() {
                        Step::Yield
                    } else {
                        Step::Rows
                    });
                }
                self.complete = false;
                if let Some((mut values, current)) = self.current.take() {
                    push_group(&mut values, current, None, cx, out)?;
                    self.reservation = None;
                }
                if out.is_full(most) {
                    return Ok(Step::Rows);
                }
            }
            self.take_in(node, cx)?;
            if self.complete {
                continue;
            }
            if self.ended {
                if self.current.is_some() {
                    continue;
                }
                return Ok(if out.is_empty() {
                    Step::Done
                } else {
                    Step::Rows
                });
            }
            self.at = 0;
            match self.child.next(child, cx, ALL, &mut self.rows)? {
                Step::Rows if !cx.over(self.rows.len())? => {}
                Step::Rows | Step::Yield => {
                    return Ok(if out.is_empty() {
                        Step::Yield
                    } else {
                        Step::Rows
                    });
                }
                Step::Done => {
                    self.ended = true;
                    if *strategy == AggregateStrategy::Plain && self.current.is_none() {
                        self.current = Some((Vec::new(), Group::new(aggregates, cx)?));
                    }
                }
            }
        }
    }

    fn rescan(&mut self, node: &Node, cx: &Cx) -> ExecResult<()> {
        kind!(node, Aggregate { child });
        self.current = None;
        self.reservation = None;
        self.complete = false;
        self.rows.reset(0);
        self.at = 0;
        self.ended = false;
        self.child.rescan(child, cx)
    }
}
