//! Commit and rollback.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use evenkeel_storage::{FileId, Lsn, RedoHold};

use super::{Hooks, Touched, Transaction};
use crate::error::{EngineError, EngineResult};
use crate::ticket::{WaitTicket, WakeList};
use crate::txn::record::{ABORT, COMMIT, Ending, FLAG_SYNC};
use crate::txn::shared::OnPublish;
use crate::types::{Durability, Xid};

/// Those of the files that a record names: recovery does not know the temporary ones.
fn logged(files: impl Iterator<Item = FileId>) -> Vec<FileId> {
    files.filter(|file| !file.is_temporary()).collect()
}

impl Transaction {
    /// Commits. The record is in the log when this returns; the future waits for the commit to
    /// be published, and need not be awaited for it to happen.
    ///
    /// # Errors
    /// Before the record is written: the transaction rolls back. After it: the instance is
    /// poisoned, and whether the commit is durable shows after recovery.
    pub fn commit(
        mut self,
        durability: Durability,
    ) -> impl Future<Output = EngineResult<()>> + Send + use<> {
        let ticket = self.start_commit(durability);
        async move {
            match ticket? {
                Some(ticket) => ticket.await,
                None => Ok(()),
            }
        }
    }

    fn start_commit(&mut self, durability: Durability) -> EngineResult<Option<WaitTicket>> {
        self.drop_snapshot();
        match self.xid_if_any() {
            Some(xid) => self.write_commit(xid, durability).map(Some),
            None => {
                self.end_without_changes();
                Ok(None)
            }
        }
    }

    /// Writes nothing: there is nothing anyone could see or lose.
    fn end_without_changes(&mut self) {
        let core = &self.db.system().core;
        self.ended = true;
        let hooks = self.hooks.get_mut();
        let in_order = hooks.in_order.take().into_iter();
        in_order
            .chain(hooks.on_commit.drain(..))
            .for_each(|hook| hook());
        let mut wakes = WakeList::default();
        core.locks.release_all(self.shared.locks(), &mut wakes);
        wakes.wake();
        core.commits.fetch_add(1, Ordering::Relaxed);
    }

    fn write_commit(&mut self, xid: Xid, durability: Durability) -> EngineResult<WaitTicket> {
        let system = Arc::clone(self.db.system());
        let (core, store) = (&system.core, &system.store);
        store.admit()?;
        let subxids = self.shared.own().subs();
        let dead = self.dead_files.iter().map(|made| made.file);
        let drops: Vec<FileId> = self.drops.iter().copied().chain(dead).collect();
        let durability = match self.touched {
            Touched {
                temporary: true,
                permanent: false,
            } => Durability::Async,
            _ => durability,
        };
        let ending = Ending {
            time_micros: store.disk().now_micros(),
            floor: core.publisher.floor(),
            dropped: logged(drops.iter().copied()),
            subxids,
            aborted: self.aborted_subs(),
            invalidations: self.invalidations(),
            locks: core.exclusive_of(&self.shared, xid),
        };
        let payload = ending.encode(xid);
        if payload.len() + 64 > store.config().max_record() {
            let what = format!("a commit record of {} bytes is too large", payload.len());
            return Err(EngineError::LimitExceeded { what });
        }
        let hold = (!drops.is_empty()).then(|| store.hold_redo_here());
        let Hooks {
            on_commit: hooks,
            in_order,
            ..
        } = std::mem::take(self.hooks.get_mut());
        self.shared.set_on_publish(OnPublish { hooks, drops, hold });
        if let Some(hook) = in_order {
            self.shared.set_in_order(hook);
        }
        self.shared.set_commit_micros(ending.time_micros);
        // From here on the publisher ends the transaction.
        self.ended = true;
        core.publisher.will_end(xid, &self.shared);
        let ticket = WaitTicket::new(Arc::clone(self.shared.cell()));
        // Found now: between reservation and completion nothing is waited for.
        let ids = std::iter::once(xid).chain(ending.subxids.iter().copied());
        let places = core.window.commit_places(&ids);
        for made in self.files.iter().chain(&self.dead_files) {
            made.hold.iter().for_each(RedoHold::settle);
        }
        let mut change = store.change(xid.get());
        change.payload(COMMIT, &payload);
        if durability == Durability::Sync {
            change.flags(FLAG_SYNC);
        }
        change.notify();
        // Before the record is complete: no snapshot can count it yet (TXN-1).
        let lsn = change.commit_with(|lsn| places.store(lsn));
        // The commit is in the log: what was made stays.
        self.files.clear();
        self.dead_files.clear();
        self.counts.ended(true);
        if durability == Durability::Sync {
            store.log().request_flush(lsn);
        }
        if let Err(error) = store.poison().check() {
            core.fail(&error);
        }
        Ok(ticket)
    }

    /// The objects whose definitions it changes, each once.
    fn invalidations(&self) -> Vec<u64> {
        let objects: BTreeSet<u64> = self.invalidations.iter().copied().collect();
        objects.into_iter().collect()
    }

    /// The ids of subtransactions that were rolled back and that no record names yet.
    fn aborted_subs(&self) -> Vec<Xid> {
        let mut aborted = self.aborted.clone();
        aborted.sort_unstable();
        aborted
    }

    /// Logs that the subtransactions rolled back so far have aborted, in a transaction that goes
    /// on. After a crash a subtransaction without any record counts as aborted all the same.
    pub(super) fn log_aborted_subs(&mut self) {
        let aborted = self.aborted_subs();
        self.aborted.clear();
        let system = self.db.system();
        let (Some((first, others)), Ok(())) = (aborted.split_first(), system.store.admit()) else {
            return;
        };
        let ending = Ending {
            time_micros: system.store.disk().now_micros(),
            floor: system.core.publisher.floor(),
            subxids: others.to_vec(),
            ..Ending::default()
        };
        let mut change = system.store.change(first.get());
        change.payload(ABORT, &ending.encode(*first));
        change.commit();
    }

    /// Rolls back.
    pub fn rollback(mut self) {
        self.abort();
    }

    /// Rolls everything back; the session's hands hold nothing afterwards.
    pub(super) fn abort(&mut self) {
        self.ended = true;
        self.drop_snapshot();
        self.counts.ended(false);
        let system = Arc::clone(self.db.system());
        let core = &system.core;
        if let Some(xid) = self.xid_if_any() {
            self.shared.own().for_each(|xid| core.window.abort(xid));
            core.publisher.advance_floor(&core.window);
            self.log_abort(xid);
        }
        self.hooks
            .get_mut()
            .on_abort
            .drain(..)
            .for_each(|hook| hook());
        let mut wakes = WakeList::default();
        core.end_ids_and_locks(&self.shared, &mut wakes);
        wakes.wake();
        for made in self.files.drain(..).chain(self.dead_files.drain(..)) {
            core.drop_later(&[made.file], made.hold, Lsn::ZERO);
        }
        core.rollbacks.fetch_add(1, Ordering::Relaxed);
    }

    /// Tells standbys and the status pages. Nobody waits for it: what no record decides is
    /// aborted after a crash.
    fn log_abort(&self, xid: Xid) {
        let system = self.db.system();
        let store = &system.store;
        if store.admit().is_err() {
            return;
        }
        let ending = Ending {
            time_micros: store.disk().now_micros(),
            dropped: logged(self.files.iter().map(|made| made.file)),
            floor: system.core.publisher.floor(),
            subxids: self.shared.own().subs(),
            aborted: self.aborted_subs(),
            invalidations: Vec::new(),
            locks: system.core.exclusive_of(&self.shared, xid),
        };
        let mut payload = ending.encode(xid);
        if payload.len() + 64 > store.config().max_record() {
            payload = Ending {
                time_micros: ending.time_micros,
                floor: ending.floor,
                ..Ending::default()
            }
            .encode(xid);
        }
        system.core.publisher.will_end(xid, &self.shared);
        let mut change = store.change(xid.get());
        change.payload(ABORT, &payload).notify();
        change.commit();
    }
}
