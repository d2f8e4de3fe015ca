//! Setting savepoints and subtransactions, releasing them, rolling back to them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Transaction;
use super::levels::{Level, Marks, Subtransaction};
use crate::error::{EngineError, EngineResult};
use crate::ticket::WakeList;

/// Ids of rolled back subtransactions that are kept for the transaction's end; more get a record of
/// their own.
const ABORTED_AT_ONCE: usize = 1024;

/// The treatment of the locks of a level that is rolled back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Locks {
    Release,
    Keep,
}

impl Transaction {
    fn push_level(&mut self, name: Option<String>) -> u64 {
        let id = self.next_level;
        self.next_level += 1;
        let hooks = self.hooks.get_mut();
        let marks = Marks {
            subs: self.shared.own().sub_count(),
            locks: self.shared.locks().mark(),
            files: self.files.len(),
            drops: self.drops.len(),
            invalidations: self.invalidations.len(),
            on_commit: hooks.on_commit.len(),
            on_abort: hooks.on_abort.len(),
        };
        self.levels.push(Level {
            id,
            name,
            xid: None,
            marks,
        });
        id
    }

    /// Begins an internal subtransaction.
    pub fn begin_sub(&mut self) -> Subtransaction {
        Subtransaction(self.push_level(None))
    }

    /// Ends a subtransaction, and those begun inside it: their changes are the level's below.
    #[expect(clippy::needless_pass_by_value, reason = "ending it uses it up")]
    pub fn commit_sub(&mut self, sub: Subtransaction) {
        if let Some(at) = self.levels.iter().position(|level| level.id == sub.0) {
            self.levels.truncate(at);
            self.counts.merged(at);
        }
    }

    /// Rolls a subtransaction back, and those begun inside it.
    #[expect(clippy::needless_pass_by_value, reason = "ending it uses it up")]
    pub fn abort_sub(&mut self, sub: Subtransaction) {
        if let Some(at) = self.levels.iter().position(|level| level.id == sub.0) {
            self.abort_levels(at, Locks::Release);
        }
    }

    /// As [`Transaction::abort_sub`], but its locks become the level's below: for who does the
    /// same work again, and would have to wait for them anew.
    #[expect(clippy::needless_pass_by_value, reason = "ending it uses it up")]
    pub fn abort_sub_keeping_locks(&mut self, sub: Subtransaction) {
        if let Some(at) = self.levels.iter().position(|level| level.id == sub.0) {
            self.abort_levels(at, Locks::Keep);
        }
    }

    /// Sets a savepoint. One of the same name is hidden until this one is released.
    pub fn savepoint(&mut self, name: &str) {
        self.push_level(Some(name.to_owned()));
    }

    fn find_savepoint(&self, name: &str) -> EngineResult<usize> {
        let named = |level: &Level| level.name.as_deref() == Some(name);
        let unknown = || EngineError::NoSuchSavepoint {
            name: name.to_owned(),
        };
        self.levels.iter().rposition(named).ok_or_else(unknown)
    }

    /// Rolls back to a savepoint, which stays.
    pub fn rollback_to(&mut self, name: &str) -> EngineResult<()> {
        let at = self.find_savepoint(name)?;
        self.abort_levels(at, Locks::Release);
        self.push_level(Some(name.to_owned()));
        Ok(())
    }

    /// Forgets a savepoint and those set after it; their changes stay.
    pub fn release(&mut self, name: &str) -> EngineResult<()> {
        let at = self.find_savepoint(name)?;
        self.levels.truncate(at);
        self.counts.merged(at);
        Ok(())
    }

    /// How many savepoints and subtransactions are open.
    pub fn depth(&self) -> usize {
        self.levels.len()
    }

    fn abort_levels(&mut self, at: usize, locks: Locks) {
        let marks = self.levels[at].marks;
        self.levels.truncate(at);
        self.counts.rolled_back(at);
        self.doubts.clear();
        let system = Arc::clone(self.db.system());
        let core = &system.core;
        let aborted = self.shared.own().cut_subs(marks.subs);
        aborted.iter().for_each(|xid| core.window.abort(*xid));
        let hooks = self.hooks.get_mut();
        hooks.on_commit.truncate(marks.on_commit);
        hooks
            .on_abort
            .drain(marks.on_abort..)
            .for_each(|hook| hook());
        self.drops.truncate(marks.drops);
        self.invalidations.truncate(marks.invalidations);
        self.dead_files.extend(self.files.drain(marks.files..));
        let mut wakes = WakeList::default();
        aborted
            .iter()
            .for_each(|xid| core.locks.end_xid(*xid, &mut wakes));
        if locks == Locks::Release {
            core.locks
                .release_to(self.shared.locks(), marks.locks, &mut wakes);
        }
        wakes.wake();
        self.aborted.extend(aborted);
        if self.aborted.len() >= ABORTED_AT_ONCE {
            self.log_aborted_subs();
        }
        // Changes made from here on are told from those rolled back.
        if self.command_used.load(Ordering::Relaxed) {
            // At the last command id there is nothing to go on to; the next statement says so.
            let _ = self.next_command();
        }
    }
}
