//! Row locks: of each row in its newest version, of which the row is made again if it changed.

use std::sync::Arc;

use evenkeel_engine::table::Table;
use evenkeel_engine::{EngineError, RowLockMode, WaitPolicy};
use evenkeel_planner::ast::{LockStrength, LockWait};
use evenkeel_planner::plan::{HeldRow, Node, RowMark};
use evenkeel_planner::relation::Relation;
use evenkeel_types::SqlState;

use crate::batch::Batch;
use crate::context::{Child, Cx, Operator, Step};
use crate::error::{ExecError, ExecResult};
use crate::recheck::Newest;
use crate::rows::tid_of;
use crate::writer::{Write, Written};

/// State of a row while it is locked.
enum Locked {
    /// All its locks are there.
    All,
    /// It is left out.
    Out,
    /// A lock is waited for.
    Waits,
}

pub(crate) struct LockRows {
    child: Child,
    rows: Batch,
    at: usize,
    /// How many of the row's locks are done with.
    mark: usize,
    waiting: bool,
    newest: Vec<Newest>,
}

fn mode_of(strength: LockStrength) -> RowLockMode {
    match strength {
        LockStrength::KeyShare => RowLockMode::KeyShare,
        LockStrength::Share => RowLockMode::Share,
        LockStrength::NoKeyUpdate => RowLockMode::NoKeyUpdate,
        LockStrength::Update => RowLockMode::Update,
    }
}

fn policy_of(wait: LockWait) -> WaitPolicy {
    match wait {
        LockWait::Block => WaitPolicy::Block,
        LockWait::Skip => WaitPolicy::SkipLocked,
        LockWait::Error => WaitPolicy::NoWait,
    }
}

/// The error of a lock, in PostgreSQL's words.
fn described(error: ExecError, relation: &Relation) -> ExecError {
    match error {
        ExecError::Engine(EngineError::LockNotAvailable { .. }) => {
            let name = &relation.name;
            let message = format!("could not obtain lock on row in relation \"{name}\"");
            ExecError::new(SqlState::LOCK_NOT_AVAILABLE, message)
        }
        // PostgreSQL does not tell a deletion from an update here.
        ExecError::Engine(EngineError::SerializationFailure { .. }) => {
            EngineError::SerializationFailure { what: "update" }.into()
        }
        other => other,
    }
}

impl LockRows {
    pub fn new(child: Child) -> LockRows {
        LockRows {
            child,
            rows: Batch::default(),
            at: 0,
            mark: 0,
            waiting: false,
            newest: Vec::new(),
        }
    }

    fn lock_one(
        &mut self,
        mark: &RowMark,
        (held, table, relation): (&HeldRow, &Arc<Table>, &Relation),
        cx: &Cx,
    ) -> ExecResult<Locked> {
        let written = if self.waiting {
            cx.resume_write()
        } else {
            let id = self.rows.row(self.at).get(held.id);
            let id = id.ok_or_else(|| ExecError::plan("a slot beyond its row"))?;
            if id.is_null() {
                return Ok(Locked::All);
            }
            let write = Write::Lock {
                at: tid_of(id)?,
                mode: mode_of(mark.strength),
                policy: policy_of(mark.wait),
            };
            cx.write(table, write)
        };
        let written = written.map_err(|error| described(error, relation))?;
        self.waiting = written.is_none();
        Ok(match written {
            None => Locked::Waits,
            Some(Written::Done(_)) => Locked::All,
            Some(Written::Changed(at)) => {
                self.newest.push((mark.held, at));
                Locked::All
            }
            // PostgreSQL leaves out what this transaction has changed since, too.
            Some(
                Written::SelfModified { .. }
                | Written::Gone
                | Written::Skipped
                | Written::Conflict { .. },
            ) => Locked::Out,
        })
    }

    /// Locks the row at hand.
    fn lock(&mut self, marks: &[RowMark], held: &[HeldRow], cx: &Cx) -> ExecResult<Locked> {
        while let Some(mark) = marks.get(self.mark) {
            let of = held.get(mark.held);
            let of = of.and_then(|held| Some((held, held.relation.as_ref()?)));
            let (held, relation) = of.ok_or_else(|| ExecError::plan("a lock of no table"))?;
            let (table, _) = cx.env.relations.table(relation)?;
            match self.lock_one(mark, (held, &table, relation), cx)? {
                Locked::All => self.mark += 1,
                other => return Ok(other),
            }
        }
        Ok(Locked::All)
    }

    /// Locks the rows at hand and hands them over; false when a lock is waited for.
    fn lock_all(&mut self, node: &Node, cx: &Cx, most: usize, out: &mut Batch) -> ExecResult<bool> {
        kind!(node, LockRows { child, marks, held });
        while self.at < self.rows.len() && !out.is_full(most) {
            match self.lock(marks, held, cx)? {
                Locked::Waits => return Ok(false),
                Locked::Out => {}
                Locked::All if self.newest.is_empty() => {
                    out.push_taken(self.rows.row_mut(self.at));
                }
                Locked::All => {
                    let row = self.rows.row(self.at);
                    if let Some(row) = cx.recheck(child, held, row, &self.newest)? {
                        out.push_row(&row);
                    }
                }
            }
            self.at += 1;
            self.mark = 0;
            self.newest.clear();
        }
        Ok(true)
    }
}

impl Operator for LockRows {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        kind!(node, LockRows { child });
        out.reset(child.width);
        let most = cx.most(want);
        loop {
            let all = self.lock_all(node, cx, most, out)?;
            if out.is_full(most) || (!all && !out.is_empty()) {
                return Ok(Step::Rows);
            }
            if !all {
                return Ok(Step::Yield);
            }
            if cx.over(self.rows.len())? {
                self.rows.reset(0);
                self.at = 0;
                return Ok(if out.is_empty() {
                    Step::Yield
                } else {
                    Step::Rows
                });
            }
            self.at = 0;
            let want = Cx::rest(want, out.len());
            let step = self.child.next(child, cx, want, &mut self.rows)?;
            if step != Step::Rows {
                return Ok(if out.is_empty() { step } else { Step::Rows });
            }
        }
    }

    fn rescan(&mut self, node: &Node, cx: &Cx) -> ExecResult<()> {
        kind!(node, LockRows { child });
        self.rows.reset(0);
        self.at = 0;
        self.mark = 0;
        self.newest.clear();
        self.child.rescan(child, cx)
    }
}
