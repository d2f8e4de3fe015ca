//! Row locks and what has become of a row since a snapshot was taken.
//!
//! Changes are marked in the tuple (xmax); locks live in the lock table and are taken and looked
//! at under the page's lock, so neither side can miss the other (HEAP-8).

use super::{Modified, Table};
use crate::error::{EngineError, EngineResult};
use crate::heap::layout::{COMBO_CID, HeapRead, TupleHeader, XMAX_KEYS};
use crate::heap::prune::xmax_hint;
use crate::heap::rows::RowHandle;
use crate::lock::{LockKey, RowLockMode, WaitPolicy};
use crate::mutant::Mutant;
use crate::transaction::{RowVersion, Transaction};
use crate::txn::Snapshot;
use crate::types::{CommandId, Isolation, Tid, Xid, XidStatus};

/// The state of a tuple for a transaction that wants to change or lock it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// Nobody has changed it.
    Free,
    /// This transaction has changed it already.
    SelfModified,
    /// A running transaction is changing it.
    Busy(Xid),
    /// A committed transaction updated it: the next version, and the xmin that must have.
    Updated(Tid, Xid),
    /// A committed transaction deleted it.
    Deleted,
}

/// Where looking for a row's newest version led.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walk {
    /// The row is locked; this version is the one to go on with.
    Locked(Tid),
    /// Others hold conflicting locks on the row, of which this is the newest version.
    Contended(RowVersion),
    /// This version is being changed by a running transaction.
    Busy(RowVersion, Xid),
    /// This transaction has changed the row already.
    SelfModified,
    /// The row was deleted.
    Gone,
}

/// State of a walk: the versions that it has passed.
#[derive(Default)]
struct Passed {
    /// The version to go on with: the first, or the one behind the last change of the key.
    first: Option<Tid>,
    /// The lock of the first version whose change may yet be rolled back.
    root: Option<LockKey>,
}

impl Table {
    /// Judges the tuple at `tid`, which some snapshot of this transaction sees.
    pub(super) fn judge(
        &self,
        txn: &Transaction,
        tid: Tid,
        header: &TupleHeader,
    ) -> EngineResult<Judgement> {
        let xmax = header.xmax;
        if !xmax.is_some() {
            return Ok(Judgement::Free);
        }
        if txn.owns(xmax) {
            return Ok(Judgement::SelfModified);
        }
        Ok(match self.status(xmax, xmax_hint(header))? {
            XidStatus::Aborted => Judgement::Free,
            XidStatus::InProgress if self.has(Mutant::OverwriteRunning) => Judgement::Free,
            XidStatus::InProgress => Judgement::Busy(xmax),
            XidStatus::Committed if header.ctid == tid => Judgement::Deleted,
            XidStatus::Committed => Judgement::Updated(header.ctid, xmax),
        })
    }

    /// The command id to store with a change of the tuple by this transaction, and whether it
    /// is a combo number: needed when the same transaction inserted the tuple.
    pub(super) fn change_cid(
        &self,
        txn: &mut Transaction,
        header: &TupleHeader,
    ) -> EngineResult<(u32, bool)> {
        let command = txn.command();
        if header.frozen() || !txn.owns(header.xmin) {
            return Ok((command.0, false));
        }
        let stored = CommandId(header.cid);
        let inserted = if header.flags & COMBO_CID != 0 {
            txn.resolve_combo(stored)?.0
        } else {
            stored
        };
        Ok((txn.combo(inserted, command).0, true))
    }

    /// The command of this transaction that changed the version at `row`; none if it did not.
    ///
    /// # Errors
    /// `StaleRow`; damage; storage failures.
    pub fn changed_by(
        &self,
        txn: &Transaction,
        row: RowHandle<'_>,
    ) -> EngineResult<Option<CommandId>> {
        let tid = row.place()?;
        let guard = self.heap().read(tid.block)?;
        let found = guard.is_heap().then(|| guard.tuple_at(tid.slot)).flatten();
        let Some((offset, _)) = found else {
            return Ok(None);
        };
        let header = guard.header(offset);
        if !header.xmax.is_some() || !txn.owns(header.xmax) {
            return Ok(None);
        }
        let stored = CommandId(header.cid);
        let is_combo = header.flags & COMBO_CID != 0;
        let changed = match is_combo {
            true => txn.resolve_combo(stored)?.1,
            false => stored,
        };
        Ok(Some(changed))
    }

    /// Whether the snapshot's transaction made the version at `row`.
    ///
    /// # Errors
    /// `StaleRow`; damage; storage failures.
    pub fn is_own(&self, snapshot: &Snapshot, row: RowHandle<'_>) -> EngineResult<bool> {
        let tid = row.place()?;
        let guard = self.heap().read(tid.block)?;
        let found = guard.is_heap().then(|| guard.tuple_at(tid.slot)).flatten();
        Ok(found.is_some_and(|(offset, _)| {
            let header = guard.header(offset);
            !header.frozen() && snapshot.own().contains(header.xmin)
        }))
    }

    /// Locks the row at `tid`, a version that the transaction's snapshot sees. `Done` means that
    /// the row is still that version, or for a key-share lock that it has its key; under READ
    /// COMMITTED a newer version is locked instead and reported as `Changed`. A row that is skipped
    /// is left as it was.
    ///
    /// # Errors
    /// `SerializationFailure` under REPEATABLE READ when the row has changed;
    /// `LockNotAvailable` with [`WaitPolicy::NoWait`]; `Deadlock`, `Cancelled`.
    pub async fn lock_row<'r>(
        &self,
        txn: &mut Transaction,
        row: RowHandle<'r>,
        mode: RowLockMode,
        policy: WaitPolicy,
    ) -> EngineResult<Modified<'r>> {
        let before = txn.locks_mark();
        let outcome = self.lock_walk(txn, row, mode, policy).await;
        match outcome {
            Ok(Modified::Done(_) | Modified::Changed { .. }) => txn.end_turns(before),
            _ => txn.release_locks_to(before),
        }
        outcome
    }

    /// As [`Table::lock_row`]; the caller ends the turns, and gives up what was locked in vain.
    /// After every wait the walk begins again at the version that the snapshot saw: the one that
    /// was waited for may have been rolled back.
    pub(super) async fn lock_walk<'r>(
        &self,
        txn: &mut Transaction,
        row: RowHandle<'r>,
        mode: RowLockMode,
        policy: WaitPolicy,
    ) -> EngineResult<Modified<'r>> {
        let tid = row.place()?;
        loop {
            match self.walk(txn, tid, mode)? {
                Walk::Locked(at) if at == tid => return Ok(Modified::Done(tid)),
                Walk::Locked(newest) => {
                    let newest = row.at(newest);
                    return Ok(Modified::Changed { newest });
                }
                Walk::SelfModified => return Ok(Modified::SelfModified),
                Walk::Gone => {
                    Self::changed(txn, "delete")?;
                    return Ok(Modified::Gone);
                }
                Walk::Contended(at) => {
                    if !txn.lock_row(self.def.heap, at, mode, policy).await? {
                        return Ok(Modified::Skipped);
                    }
                }
                Walk::Busy(at, xid) => {
                    if !self.wait_for_change(txn, at, xid, mode, policy).await? {
                        return Ok(Modified::Skipped);
                    }
                }
            }
        }
    }

    /// Waits until the transaction that is changing a version has ended. The turn is taken first,
    /// so that of many waiters one goes on at a time, in the order they came; who does not wait
    /// takes none. `false` if it is still running and the policy is to skip.
    pub(super) async fn wait_for_change(
        &self,
        txn: &mut Transaction,
        row: RowVersion,
        xid: Xid,
        mode: RowLockMode,
        policy: WaitPolicy,
    ) -> EngineResult<bool> {
        if policy == WaitPolicy::Block {
            txn.take_turn(self.def.heap, row, mode).await?;
        }
        txn.wait_for_xid(xid, policy).await
    }

    /// READ COMMITTED goes on with a row's newest version; a fixed snapshot cannot.
    pub(super) fn changed(txn: &Transaction, what: &'static str) -> EngineResult<()> {
        match txn.isolation() {
            Isolation::ReadCommitted => Ok(()),
            _ => Err(EngineError::SerializationFailure { what }),
        }
    }

    /// Follows a row's versions from `tid` to the newest and locks the row without waiting. Locks
    /// taken on the way are given up if it does not come to the end.
    ///
    /// A key-share lock minds no change of other columns, committed or not: the row's key is the
    /// same in every version. The lock is then put on the first version whose change may be
    /// rolled back, and known by all that follow it.
    pub(super) fn walk(
        &self,
        txn: &mut Transaction,
        tid: Tid,
        mode: RowLockMode,
    ) -> EngineResult<Walk> {
        self.retry(|| {
            let before = txn.locks_mark();
            let walk = self.try_walk(txn, tid, mode);
            if !matches!(walk, Ok(Walk::Locked(_))) {
                txn.release_locks_to(before);
            }
            walk
        })
    }

    fn try_walk(&self, txn: &mut Transaction, tid: Tid, mode: RowLockMode) -> EngineResult<Walk> {
        let (mut at, mut expected) = (tid, None);
        let mut passed = Passed::default();
        'page: loop {
            let _frames = self.reserve_for_reading();
            let guard = self.heap().pin(at.block)?.read();
            loop {
                let found = guard.is_heap().then(|| guard.tuple_at(at.slot)).flatten();
                let header = found.map(|(offset, _)| guard.header(offset));
                let there = header.filter(|h| expected.is_none_or(|xmin| xmin == h.xmin));
                let Some(header) = there else {
                    // The change that was passed has been rolled back, and its version is gone.
                    let locked = passed.root.and(passed.first);
                    return Ok(locked.map_or(Walk::Gone, Walk::Locked));
                };
                let (next, xmax) = match self.pass(txn, (at, &header), mode, &mut passed)? {
                    Ok(next) => next,
                    Err(walk) => return Ok(walk),
                };
                let same_page = next.block == at.block;
                (at, expected) = (next, Some(xmax));
                if !same_page {
                    continue 'page;
                }
            }
        }
    }

    /// Passes a version, to the next and the xmin that must have; or ends the walk there.
    fn pass(
        &self,
        txn: &mut Transaction,
        (at, header): (Tid, &TupleHeader),
        mode: RowLockMode,
        passed: &mut Passed,
    ) -> EngineResult<Result<(Tid, Xid), Walk>> {
        let row = RowVersion {
            tid: at,
            xmin: header.xmin,
        };
        let keeps_key = mode == RowLockMode::KeyShare && header.xmax_mask & XMAX_KEYS == 0;
        let judged = self.judge(txn, at, header)?;
        match judged {
            Judgement::SelfModified => return Ok(Err(Walk::SelfModified)),
            Judgement::Deleted => return Ok(Err(Walk::Gone)),
            Judgement::Updated(next, xmax) => {
                if keeps_key {
                    passed.first.get_or_insert(at);
                } else {
                    Self::changed(txn, "update")?;
                    passed.first = None;
                }
                return Ok(Ok((next, xmax)));
            }
            Judgement::Busy(xid) if !keeps_key => return Ok(Err(Walk::Busy(row, xid))),
            Judgement::Free | Judgement::Busy(_) => {}
        }
        let file = self.def.heap;
        let locked = match passed.root {
            Some(root) => txn.row_follow(file, &root, row, mode),
            None => {
                passed.root = txn.row_try(file, row, mode);
                passed.root.is_some()
            }
        };
        if !locked {
            return Ok(Err(Walk::Contended(row)));
        }
        let first = *passed.first.get_or_insert(at);
        Ok(match judged {
            Judgement::Busy(xid) => Ok((header.ctid, xid)),
            _ => Err(Walk::Locked(first)),
        })
    }
}
