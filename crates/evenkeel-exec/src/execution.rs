//! A plan that runs.

use std::cell::RefCell;
use std::sync::Arc;

use evenkeel_planner::plan::{Node, NodeKind, Plan, SubplanUse};
use evenkeel_types::Datum;

use crate::batch::Batch;
use crate::build::{build, build_recheck};
use crate::context::{ALL, Child, Cx, Environment, Kept, Step as Inner, SubplanState};
use crate::error::ExecResult;
use crate::measure::{Measure, Measures};
use crate::writer::Writer;

/// Result of asking for rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// The batch has rows.
    Batch,
    /// There are no more rows.
    Done,
    /// No rows yet.
    Wait(Wait),
}

/// Why there are no rows yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// It has worked for some milliseconds: the thread's other work comes first.
    Yield,
    /// Another transaction has a row that is to be changed or locked. It is of no use to go on
    /// before [`Writer::wait`] has ended.
    Row,
}

/// A plan that runs. It owns all that it needs, and goes on wherever it is asked to.
pub struct Execution {
    cx: Cx,
    root: Child,
    begun: bool,
    /// Whether the statement's own rows have ended.
    ended: bool,
    /// How many of the subplans are done with, of those that change rows.
    ran: usize,
    done: bool,
}

impl Execution {
    /// Begins to run a plan with the statement's parameters; nothing is read yet.
    ///
    /// # Errors
    /// XX000 for a plan that is not as a planner makes it.
    pub fn start(plan: Arc<Plan>, params: Vec<Datum>, env: Environment) -> ExecResult<Execution> {
        Execution::made(plan, params, env, false)
    }

    /// As [`Execution::start`]; what its operators do is measured.
    ///
    /// # Errors
    /// As [`Execution::start`].
    pub fn start_measured(
        plan: Arc<Plan>,
        params: Vec<Datum>,
        env: Environment,
    ) -> ExecResult<Execution> {
        Execution::made(plan, params, env, true)
    }

    /// Measurements of a plan node, if the execution takes them.
    pub fn measure(&self, node: &Node) -> Option<Measure> {
        Some(self.cx.measures.as_ref()?.of(node))
    }

    fn made(
        plan: Arc<Plan>,
        params: Vec<Datum>,
        env: Environment,
        measured: bool,
    ) -> ExecResult<Execution> {
        let root = build(&plan.root, measured)?;
        let mut states = Vec::with_capacity(plan.subplans.len());
        let mut sources = Vec::new();
        for (number, subplan) in plan.subplans.iter().enumerate() {
            states.push(RefCell::new(SubplanState {
                root: Some(build(&subplan.root, measured)?),
                kept: Kept::default(),
                stamp: 0,
            }));
            if let SubplanUse::Once { param, .. } = &subplan.kind {
                sources.push((*param, number));
            }
        }
        let mut cx = Cx::new(plan, params, env, states, &sources, build_recheck)?;
        cx.measures = measured.then(Measures::default);
        Ok(Execution {
            cx,
            root,
            begun: false,
            ended: false,
            ran: 0,
            done: false,
        })
    }

    /// The transaction in which it changes and locks rows.
    #[must_use]
    pub fn writing(mut self, writer: Arc<dyn Writer>) -> Execution {
        self.cx.writer = Some(writer);
        self
    }

    /// The rows that the statement has inserted, updated or deleted.
    pub fn changed(&self) -> u64 {
        self.cx.changed()
    }

    /// Replaces the rows of `out` by the next ones. A statement that changes rows is asked until
    /// its end.
    ///
    /// # Errors
    /// Those of the statement; it does not go on then.
    pub fn next(&mut self, out: &mut Batch) -> ExecResult<Step> {
        self.next_rows(ALL, out)
    }

    /// As [`Execution::next`], at most `want` rows: nothing is evaluated for further ones.
    ///
    /// # Errors
    /// As [`Execution::next`].
    pub fn next_rows(&mut self, want: usize, out: &mut Batch) -> ExecResult<Step> {
        self.cx.begin_slice();
        self.cx.env.cancel.check()?;
        let plan = &self.cx.plan;
        if self.done {
            out.reset(plan.root.width);
            return Ok(Step::Done);
        }
        if !self.begun {
            self.begun = true;
            self.root.rescan(&plan.root, &self.cx)?;
        }
        let mut step = Inner::Done;
        if !self.ended {
            step = self.root.next(&plan.root, &self.cx, want.max(1), out)?;
            self.ended = step == Inner::Done;
        }
        if self.ended {
            step = self.run_changes(out)?;
        }
        self.done = step == Inner::Done;
        Ok(match step {
            Inner::Rows => Step::Batch,
            Inner::Done => Step::Done,
            Inner::Yield if self.cx.waits() => Step::Wait(Wait::Row),
            Inner::Yield => Step::Wait(Wait::Yield),
        })
    }

    /// Runs the changes of WITH to their ends, whatever was read of them.
    fn run_changes(&mut self, out: &mut Batch) -> ExecResult<Inner> {
        let plan = &self.cx.plan;
        while let Some(subplan) = plan.subplans.get(self.ran) {
            if matches!(subplan.root.kind, NodeKind::ModifyTable { .. }) {
                let step = self.cx.run_on(self.ran)?;
                if step != Inner::Done {
                    out.reset(plan.root.width);
                    return Ok(step);
                }
            }
            self.ran += 1;
        }
        out.reset(plan.root.width);
        Ok(Inner::Done)
    }
}
