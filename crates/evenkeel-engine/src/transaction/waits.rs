//! Locks that a transaction takes, and its waits for other transactions.

use std::sync::{Arc, Weak};
use std::time::Duration;

use evenkeel_storage::FileId;

use super::{Transaction, top_of};
use crate::database::Database;
use crate::error::EngineResult;
use crate::lock::{
    LockKey, LockMark, Mode, RowLockMode, RowObject, TableLockMode, WaitOptions, WaitPolicy,
};
use crate::memory::SessionMemory;
use crate::temp::WorkLimits;
use crate::ticket::{CancelFlag, WakeList};
use crate::txn::record::{LOCKS, encode_locks};
use crate::txn::shared::TxnShared;
use crate::types::{Tid, Xid};

/// A version of a row: its place, and the transaction that made it. No other version ever has both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowVersion {
    /// Its place.
    pub tid: Tid,
    /// The inserter.
    pub xmin: Xid,
}

impl RowVersion {
    fn lock(self, file: FileId) -> LockKey {
        LockKey::Row(file, self.tid, self.xmin)
    }
}

/// Acts for a transaction where that itself is not at hand. Of its waits, as of the transaction's
/// own, the search for deadlocks knows, and its limits of time and its cancel flag end them.
#[derive(Clone)]
pub struct Waiter {
    db: Database,
    shared: Weak<TxnShared>,
    cancel: CancelFlag,
    lock_timeout: Option<Duration>,
    deadlock_timeout: Duration,
}

impl Waiter {
    /// The transaction's id, which it gets if it has none; none if it has ended.
    ///
    /// # Errors
    /// If ids are used up, or the window's spill file cannot grow.
    pub fn own_xid(&self) -> EngineResult<Option<Xid>> {
        let shared = self.shared.upgrade();
        shared.map(|shared| top_of(&self.db, &shared)).transpose()
    }

    /// The transaction's id, if it has one.
    pub fn own_xid_if_any(&self) -> Option<Xid> {
        self.shared.upgrade()?.own().top()
    }

    /// As [`Transaction::wait_for_xid`]. A transaction that has ended waits for nobody.
    ///
    /// # Errors
    /// 40P01, 55P03, 57014, or that the instance is poisoned.
    pub async fn wait_for_xid(&self, xid: Xid) -> EngineResult<()> {
        let Some(shared) = self.shared.upgrade() else {
            return Ok(());
        };
        let options = WaitOptions {
            cancel: &self.cancel,
            timeout: self.lock_timeout,
            deadlock_timeout: self.deadlock_timeout,
        };
        let (system, policy) = (self.db.system(), WaitPolicy::Block);
        let locks = &system.core.locks;
        locks
            .wait_for_xid(shared.locks(), xid, policy, options)
            .await?;
        Ok(system.store.poison().check()?)
    }
}

impl Transaction {
    /// Waits on behalf of this transaction, by its limits as they are now.
    pub fn waiter(&self) -> Waiter {
        Waiter {
            db: self.db.clone(),
            shared: Arc::downgrade(&self.shared),
            cancel: self.cancel.clone(),
            lock_timeout: self.lock_timeout,
            deadlock_timeout: self.deadlock_timeout,
        }
    }

    /// Lets other threads cancel what this transaction does.
    pub fn cancel_flag(&self) -> &CancelFlag {
        &self.cancel
    }

    /// Uses the session's flag from now on.
    pub fn set_cancel_flag(&mut self, cancel: CancelFlag) {
        self.cancel = cancel;
    }

    /// Charges the transaction's locks to a session's memory from now on.
    pub fn set_memory(&mut self, memory: &Arc<SessionMemory>) {
        self.shared.locks().charge_to(memory);
    }

    /// Bounds the sorts of the transaction's commands from now on.
    pub fn set_work_limits(&mut self, work: WorkLimits) {
        self.work = work;
    }

    /// The bounds of sorts.
    pub(crate) fn work_limits(&self) -> &WorkLimits {
        &self.work
    }

    /// Fails with 57014 if the transaction was cancelled.
    pub fn check_cancel(&self) -> EngineResult<()> {
        self.cancel.check()
    }

    /// How long a lock wait may last; `None` waits for ever.
    pub fn set_lock_timeout(&mut self, timeout: Option<Duration>) {
        self.lock_timeout = timeout;
    }

    /// How long a wait lasts before the search for deadlocks looks at it.
    pub fn set_deadlock_timeout(&mut self, timeout: Duration) {
        self.deadlock_timeout = timeout;
    }

    fn wait_options(&self) -> WaitOptions<'_> {
        WaitOptions {
            cancel: &self.cancel,
            timeout: self.lock_timeout,
            deadlock_timeout: self.deadlock_timeout,
        }
    }

    /// The wait for a lock, by the transaction's limits of time.
    fn acquire(
        &self,
        key: LockKey,
        mode: Mode,
        policy: WaitPolicy,
    ) -> impl Future<Output = EngineResult<bool>> {
        let locks = &self.system().core.locks;
        locks.acquire(self.shared.locks(), key, mode, policy, self.wait_options())
    }

    /// Takes a lock, held to the end of the transaction or its subtransaction. Answers `false`
    /// if it is not free and the policy is to skip.
    ///
    /// # Errors
    /// 40P01, 55P03, 57014, or that the instance is poisoned.
    pub async fn lock_table(
        &self,
        table: u64,
        mode: TableLockMode,
        policy: WaitPolicy,
    ) -> EngineResult<bool> {
        let key = LockKey::Table(table);
        let is_held = self.acquire(key, mode.into(), policy).await?;
        if is_held && mode == TableLockMode::AccessExclusive {
            self.log_exclusive(table)?;
        }
        Ok(is_held)
    }

    /// Logs that the table is locked against everybody, before any record that needs it: on a
    /// standby its readers are in the way of those.
    fn log_exclusive(&self, table: u64) -> EngineResult<()> {
        let xid = self.assign_top()?;
        let (core, store) = (&self.system().core, &self.system().store);
        if core.has_exclusive(&self.shared, xid, table) {
            return Ok(());
        }
        store.admit()?;
        core.note_exclusive(&self.shared, xid, table);
        let mut change = store.change(xid.get());
        change.payload(LOCKS, &encode_locks(&[table]));
        change.commit();
        Ok(())
    }

    /// Takes the lock of a row, of which this is a version; see [`Transaction::lock_table`]. No
    /// page may be locked.
    pub async fn lock_row(
        &self,
        file: FileId,
        row: RowVersion,
        mode: RowLockMode,
        policy: WaitPolicy,
    ) -> EngineResult<bool> {
        self.acquire(row.lock(file), mode.into(), policy).await
    }

    /// Takes the turn among those who wait for a version that is being changed. It is given up by
    /// [`Transaction::end_turns`].
    pub(crate) async fn take_turn(
        &self,
        file: FileId,
        row: RowVersion,
        mode: RowLockMode,
    ) -> EngineResult<()> {
        let key = LockKey::Turn(file, row.tid, row.xmin);
        self.acquire(key, mode.into(), WaitPolicy::Block).await?;
        Ok(())
    }

    /// Takes an advisory lock; see [`Transaction::lock_table`].
    pub async fn lock_advisory(
        &self,
        key: u64,
        mode: TableLockMode,
        policy: WaitPolicy,
    ) -> EngineResult<bool> {
        self.acquire(LockKey::Advisory(0, key, false), mode.into(), policy)
            .await
    }

    /// Takes the row lock if it is free; never waits, so the row's page may be locked. The key that
    /// the lock has.
    pub(crate) fn row_try(
        &self,
        file: FileId,
        row: RowVersion,
        mode: RowLockMode,
    ) -> Option<LockKey> {
        let locks = &self.system().core.locks;
        locks.try_acquire(self.shared.locks(), row.lock(file), mode.into())
    }

    /// Takes the row lock for a newer version of a row that this transaction has locked under
    /// `root`, if it is free.
    pub(crate) fn row_follow(
        &self,
        file: FileId,
        root: &LockKey,
        row: RowVersion,
        mode: RowLockMode,
    ) -> bool {
        let locks = &self.system().core.locks;
        locks.add_alias(root, row.lock(file), None) || self.row_try(file, row, mode).is_some()
    }

    /// Whether another transaction's lock on the row conflicts with `mode`. One load when nobody
    /// has locked rows. To be asked under the page's exclusive lock, before the row is deleted.
    pub fn row_conflict(&self, file: FileId, row: RowVersion, mode: RowLockMode) -> bool {
        let locks = &self.system().core.locks;
        locks.conflicts(self.shared.locks(), &row.lock(file), mode.into())
    }

    /// As [`Transaction::row_conflict`], before the row is updated: this transaction joins those
    /// who have locked it.
    pub(crate) fn row_join(
        &self,
        file: FileId,
        row: RowVersion,
        mode: RowLockMode,
    ) -> EngineResult<RowObject> {
        let locks = &self.system().core.locks;
        locks.join(self.shared.locks(), &row.lock(file), mode.into())
    }

    /// The row that this transaction has joined under `root` has a new version in the place of
    /// `old`. To be called before the pages of both are unlocked.
    pub(crate) fn row_moved(&self, file: FileId, root: &LockKey, old: RowVersion, new: RowVersion) {
        // Versions before one that is committed are of no use to anybody.
        let only = (!self.owns(old.xmin)).then(|| old.lock(file));
        let locks = &self.system().core.locks;
        locks.add_alias(root, new.lock(file), only);
    }

    /// A position in the order in which this transaction takes locks.
    pub(crate) fn locks_mark(&self) -> LockMark {
        self.shared.locks().mark()
    }

    /// Gives up the locks taken since `mark`.
    pub(crate) fn release_locks_to(&self, mark: LockMark) {
        let locks = &self.system().core.locks;
        let mut wakes = WakeList::default();
        locks.release_to(self.shared.locks(), mark, &mut wakes);
        wakes.wake();
    }

    /// Gives up the turns taken since `mark`: the row is had, or not wanted.
    pub(crate) fn end_turns(&self, mark: LockMark) {
        let is_turn = |key: &LockKey| matches!(key, LockKey::Turn(..));
        let mut wakes = WakeList::default();
        let (locks, owner) = (&self.system().core.locks, self.shared.locks());
        locks.release_some(owner, mark, is_turn, &mut wakes);
        wakes.wake();
    }

    /// Waits until `xid` is committed or aborted, visibly. `false` if it is still running and
    /// the policy is to skip.
    ///
    /// # Errors
    /// 40P01, 55P03, 57014, or that the instance is poisoned.
    pub async fn wait_for_xid(&self, xid: Xid, policy: WaitPolicy) -> EngineResult<bool> {
        let system = self.system();
        let owner = self.shared.locks();
        let options = self.wait_options();
        let ended = system
            .core
            .locks
            .wait_for_xid(owner, xid, policy, options)
            .await?;
        // In a poisoned instance ids end without being decided.
        system.store.poison().check()?;
        Ok(ended)
    }
}
