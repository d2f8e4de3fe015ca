//! Row locks and what has become of a row since a snapshot was taken.
//!
//! Changes are marked in the tuple (xmax); locks live in the lock table and are taken and looked
//! at under the page's lock, so neither side can miss the other (HEAP-8).

use smallvec::SmallVec;

use super::{Modified, Table};
use crate::error::{EngineError, EngineResult};
use crate::heap::layout::{COMBO_CID, HeapRead, TupleHeader, XMAX_KEYS};
use crate::heap::prune::xmax_hint;
use crate::heap::rows::RowHandle;
use crate::lock::{RowLockMode, WaitPolicy};
use crate::mutant::Mutant;
use crate::transaction::Transaction;
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
    /// This version is the newest and is now locked.
    Locked(Tid),
    /// This version is the newest and others hold conflicting locks on it.
    Contended(Tid),
    /// This version is being changed by a running transaction.
    Busy(Tid, Xid),
    /// This transaction has changed the row already.
    SelfModified,
    /// The row was deleted.
    Gone,
}

/// Versions found changed by committed transactions.
pub(super) type Superseded = SmallVec<[Tid; 4]>;

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

    /// Locks the row at `tid`, a version that the transaction's snapshot sees. `Done` means
    /// that this very version is locked and is the newest; under READ COMMITTED a newer version
    /// is locked instead and reported as `Changed`. A row that is skipped is left as it was.
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
        let mut superseded = Superseded::new();
        let outcome = self
            .lock_walk(txn, row, (mode, policy), &mut superseded)
            .await;
        match outcome {
            // Key-share locks of the versions on the way are among them.
            Ok(Modified::Skipped) => txn.release_locks_to(before),
            _ => txn.release_superseded(before, self.def.heap, &superseded),
        }
        outcome
    }

    async fn lock_walk<'r>(
        &self,
        txn: &mut Transaction,
        row: RowHandle<'r>,
        (mode, policy): (RowLockMode, WaitPolicy),
        superseded: &mut Superseded,
    ) -> EngineResult<Modified<'r>> {
        let tid = row.place()?;
        let mut walk = self.walk(txn, tid, None, mode, superseded)?;
        loop {
            let at = match walk {
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
                    at
                }
                Walk::Busy(at, xid) => {
                    if !self.wait_for_change(txn, at, xid, mode, policy).await? {
                        return Ok(Modified::Skipped);
                    }
                    at
                }
            };
            walk = self.walk(txn, at, None, mode, superseded)?;
        }
    }

    /// Waits until the transaction that is changing a tuple has ended. The row lock is taken
    /// first, so that of many waiters one goes on at a time, in the order they came; who does not
    /// wait takes none. `false` if it is still running and the policy is to skip.
    pub(super) async fn wait_for_change(
        &self,
        txn: &mut Transaction,
        tid: Tid,
        xid: Xid,
        mode: RowLockMode,
        policy: WaitPolicy,
    ) -> EngineResult<bool> {
        if policy == WaitPolicy::Block {
            txn.lock_row(self.def.heap, tid, mode, policy).await?;
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

    /// Follows a row's versions from `tid` to the newest and locks that one without waiting.
    /// With `expected`, `tid` counts only if that transaction inserted it.
    ///
    /// A key-share lock does not mind a change of other columns in progress: it locks the
    /// version it came to and every version after it, as the row's key is theirs too.
    ///
    /// Versions that a committed transaction has changed are added to `superseded`: nobody needs
    /// a lock on them any more. A fixed snapshot cannot go on from one, so it does not wait for
    /// those behind it.
    pub(super) fn walk(
        &self,
        txn: &mut Transaction,
        tid: Tid,
        expected: Option<Xid>,
        mode: RowLockMode,
        superseded: &mut Superseded,
    ) -> EngineResult<Walk> {
        self.retry(|| self.try_walk(txn, tid, expected, mode, superseded))
    }

    fn try_walk(
        &self,
        txn: &mut Transaction,
        tid: Tid,
        expected: Option<Xid>,
        mode: RowLockMode,
        superseded: &mut Superseded,
    ) -> EngineResult<Walk> {
        let (mut at, mut expected) = (tid, expected);
        let mut shared: Option<Tid> = None;
        'page: loop {
            let _frames = self.reserve_for_reading();
            let guard = self.heap().pin(at.block)?.read();
            loop {
                let found = guard.is_heap().then(|| guard.tuple_at(at.slot)).flatten();
                let Some((offset, _)) = found else {
                    return Ok(shared.map_or(Walk::Gone, Walk::Locked));
                };
                let header = guard.header(offset);
                if expected.is_some_and(|xmin| xmin != header.xmin) {
                    return Ok(shared.map_or(Walk::Gone, Walk::Locked));
                }
                let (next, xmax) = match self.judge(txn, at, &header)? {
                    Judgement::Free => {
                        return Ok(if txn.row_try(self.def.heap, at, mode) {
                            Walk::Locked(shared.unwrap_or(at))
                        } else {
                            Walk::Contended(at)
                        });
                    }
                    Judgement::SelfModified => return Ok(Walk::SelfModified),
                    Judgement::Deleted => {
                        superseded.push(at);
                        return Ok(Walk::Gone);
                    }
                    Judgement::Updated(next, xmax) => {
                        Self::changed(txn, "update")?;
                        superseded.push(at);
                        (next, xmax)
                    }
                    Judgement::Busy(xid) => {
                        let keys = header.xmax_mask & XMAX_KEYS != 0;
                        if mode != RowLockMode::KeyShare || keys {
                            return Ok(Walk::Busy(at, xid));
                        }
                        if !txn.row_try(self.def.heap, at, mode) {
                            return Ok(Walk::Contended(at));
                        }
                        shared.get_or_insert(at);
                        (header.ctid, xid)
                    }
                };
                let same_page = next.block == at.block;
                (at, expected) = (next, Some(xmax));
                if !same_page {
                    continue 'page;
                }
            }
        }
    }
}
