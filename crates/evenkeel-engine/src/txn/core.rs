//! The state of all transactions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use evenkeel_io::Disk;
use evenkeel_storage::{
    ApplyError, FileId, InsertedRecord, Lsn, Poison, RedoHold, StorageError, StoreState,
};
use parking_lot::Mutex;

use super::drops::Drops;
use super::publisher::{Published, Publisher};
use super::recent_xids::RecentXids;
use super::recovery::Recovery;
use super::running::Running;
use super::shared::TxnShared;
use super::snapshot_registry::SnapshotRegistry;
use crate::config::Config;
use crate::error::{EngineError, EngineResult};
use crate::lock::LockManager;
use crate::ticket::WakeList;
use crate::types::Xid;

/// Everything about transactions that does not need the store.
pub(crate) struct TxnCore {
    next: AtomicU64,
    pub(crate) window: RecentXids,
    pub(crate) slots: SnapshotRegistry,
    pub(crate) publisher: Publisher,
    pub(crate) locks: LockManager,
    pub(crate) recovery: Mutex<Recovery>,
    pub(crate) commits: AtomicU64,
    pub(crate) rollbacks: AtomicU64,
    pub(crate) drops: Drops,
    /// Tables locked against everybody, by the transactions that have them, as records say.
    exclusive: Mutex<BTreeMap<Xid, BTreeSet<u64>>>,
    /// It is known what recovery found; before, there is no state to be logged.
    started: AtomicBool,
    /// Ids below have no status any more.
    status_oldest: AtomicU64,
    /// The store's, once that is open: no transaction ends before.
    poison: OnceLock<Arc<Poison>>,
}

impl TxnCore {
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: &Path, config: &Config) -> TxnCore {
        TxnCore {
            next: AtomicU64::new(Xid::FIRST.get()),
            window: RecentXids::new(disk, dir, config.xid_window),
            slots: SnapshotRegistry::new(),
            publisher: Publisher::new(),
            locks: LockManager::new(),
            recovery: Mutex::default(),
            commits: AtomicU64::new(0),
            rollbacks: AtomicU64::new(0),
            drops: Drops::default(),
            exclusive: Mutex::default(),
            started: AtomicBool::new(false),
            status_oldest: AtomicU64::new(0),
            poison: OnceLock::new(),
        }
    }

    /// From now on a broken rule poisons the store that `poison` is of.
    pub(crate) fn set_poison(&self, poison: &Arc<Poison>) {
        // A second store would be another database's.
        let _ = self.poison.set(Arc::clone(poison));
    }

    /// The first id whose status is kept.
    pub(crate) fn status_oldest(&self) -> Xid {
        Xid::new(self.status_oldest.load(Ordering::Acquire))
    }

    pub(crate) fn set_status_oldest(&self, oldest: Xid) {
        self.status_oldest.fetch_max(oldest.get(), Ordering::AcqRel);
    }

    /// The id that the next transaction gets.
    pub(crate) fn next_xid(&self) -> Xid {
        Xid::new(self.next.load(Ordering::Acquire))
    }

    /// Gives out an id. The window has room for it before anyone can use it.
    pub(crate) fn assign_xid(&self) -> EngineResult<Xid> {
        let mut next = self.next.load(Ordering::Relaxed);
        loop {
            if next >= Xid::MAX.get() {
                let what = "transaction ids are used up".into();
                return Err(EngineError::LimitExceeded { what });
            }
            self.window.prepare(next)?;
            match self
                .next
                .compare_exchange(next, next + 1, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return Ok(Xid::new(next)),
                Err(current) => next = current,
            }
        }
    }

    /// Starts at `next` after recovery; everything older is decided, by commits up to `settled`.
    pub(crate) fn restart(&self, next: Xid, position: Lsn, settled: Lsn) {
        self.next.store(next.get(), Ordering::Release);
        self.window.restart(next, settled);
        self.publisher.restart(next, position, settled);
        self.started.store(true, Ordering::Release);
    }

    /// Whether it is noted that a transaction has locked a table against everybody.
    pub(crate) fn has_exclusive(&self, txn: &TxnShared, xid: Xid, table: u64) -> bool {
        let noted = |exclusive: &BTreeMap<Xid, BTreeSet<u64>>| {
            let tables = exclusive.get(&xid);
            tables.is_some_and(|tables| tables.contains(&table))
        };
        txn.has_exclusive() && noted(&self.exclusive.lock())
    }

    /// Notes that a transaction has locked a table against everybody. A record that says so
    /// follows.
    pub(crate) fn note_exclusive(&self, txn: &TxnShared, xid: Xid, table: u64) {
        txn.set_has_exclusive();
        let mut exclusive = self.exclusive.lock();
        exclusive.entry(xid).or_default().insert(table);
    }

    /// The tables that a transaction has locked against everybody.
    pub(crate) fn exclusive_of(&self, txn: &TxnShared, xid: Xid) -> Vec<u64> {
        if !txn.has_exclusive() {
            return Vec::new();
        }
        let exclusive = self.exclusive.lock();
        let tables = exclusive.get(&xid).into_iter().flatten();
        tables.copied().collect()
    }

    /// The state of all transactions; none before recovery is finished.
    pub(crate) fn running(&self, state: StoreState) -> Option<Running> {
        if !self.started.load(Ordering::Acquire) {
            return None;
        }
        let view = self.publisher.view();
        // After the floor, which is then not beyond it. The window has room for an id before it
        // is given out, so every one below that is not decided is found in progress.
        let next = self.next_xid();
        let undecided = |from: u64| {
            let xid = self.window.decided_until(Xid::new(from), view.lsn);
            (xid < next).then_some(xid)
        };
        let first = undecided(view.floor.get());
        let open = std::iter::successors(first, |xid| undecided(xid.get() + 1));
        let exclusive = self.exclusive.lock().clone().into_iter();
        let locks = exclusive.flat_map(|(xid, tables)| tables.into_iter().map(move |id| (xid, id)));
        let files = state.files.into_iter();
        Some(Running {
            more: false,
            time_micros: state.time_micros,
            next_file: state.next_file,
            next,
            newest_commit: self.publisher.newest_commit(),
            floor: view.floor,
            oldest_status: self.status_oldest(),
            open: open.collect(),
            locks: locks.collect(),
            files: files.map(|(file, xid)| (file, Xid::new(xid))).collect(),
        })
    }

    /// Ends transactions whose commits were just published, in order: only now do others see
    /// their ids as ended and get their locks (TXN-2).
    fn finish(&self, published: Published) {
        let mut wakes = WakeList::default();
        for (lsn, txn) in published {
            let on_publish = txn.take_on_publish();
            on_publish.hooks.into_iter().for_each(|hook| hook());
            if !on_publish.drops.is_empty() {
                self.drop_later(&on_publish.drops, on_publish.hold, lsn);
            }
            self.end_ids_and_locks(&txn, &mut wakes);
            txn.cell().complete(Ok(()), &mut wakes);
            self.commits.fetch_add(1, Ordering::Relaxed);
        }
        wakes.wake();
    }

    /// Wakes who waits for the transaction's ids and locks. Its status is decided and visible.
    pub(crate) fn end_ids_and_locks(&self, txn: &TxnShared, wakes: &mut WakeList) {
        if txn.has_exclusive()
            && let Some(top) = txn.own().top()
        {
            self.exclusive.lock().remove(&top);
        }
        txn.own().for_each(|xid| self.locks.end_xid(xid, wakes));
        self.locks.release_all(txn.locks(), wakes);
    }

    /// Leaves files to the background thread to drop, which the commit at `removal` has dropped;
    /// zero for those that nobody else has seen.
    pub(crate) fn drop_later(&self, files: &[FileId], hold: Option<RedoHold>, removal: Lsn) {
        self.drops.add(files, hold, removal);
        self.publisher.hurry();
    }

    /// The instance is poisoned: commits under way end with its error, and waiters wake to
    /// find it out.
    pub(crate) fn fail(&self, error: &StorageError) {
        let mut wakes = WakeList::default();
        for txn in self.publisher.fail_pending(error) {
            txn.cell().complete(Err(error.clone().into()), &mut wakes);
            self.end_ids_and_locks(&txn, &mut wakes);
        }
        wakes.wake();
    }

    /// Records that end transactions are complete in memory, in log order. Publishes those that
    /// need not wait for the disk.
    pub(crate) fn completed(&self, notes: &[InsertedRecord]) {
        match self.publisher.completed(notes, &self.window) {
            Ok(published) => self.finish(published),
            Err(disorder) => {
                if let Some(poison) = self.poison.get() {
                    poison.set(disorder.to_string());
                }
            }
        }
    }

    /// Every record that starts below `upto` is durable. Publishes the commits that waited for it.
    pub(crate) fn durable(&self, upto: Lsn) {
        self.finish(self.publisher.durable(upto, &self.window));
    }

    /// Log from here on is still needed: by statuses that are not on their pages yet.
    pub(crate) fn redo_floor(&self) -> Option<Lsn> {
        let recovery = self.recovery.lock().redo_floor();
        [recovery, self.publisher.redo_floor()]
            .into_iter()
            .flatten()
            .min()
    }

    /// No commit behind this position has had its effects removed or frozen by anybody (TXN-12).
    pub(crate) fn removal_bound(&self) -> Lsn {
        self.slots.cached_horizon().lsn.max(self.window.settled())
    }

    /// State for the control block: the next id, the first id whose status is kept, and the newest
    /// commit.
    pub(crate) fn checkpoint_payload(&self) -> Vec<u8> {
        let recovered = self.recovery.lock().next_xid();
        let next = self.next_xid().max(recovered).get().to_le_bytes();
        let oldest = self.status_oldest().get().to_le_bytes();
        let newest = self.publisher.newest_commit().0.to_le_bytes();
        [next, oldest, newest].concat()
    }

    /// Takes over what [`TxnCore::checkpoint_payload`] gave to the control block.
    ///
    /// # Errors
    /// When the payload makes no sense.
    pub(crate) fn restore_payload(&self, payload: &[u8]) -> Result<(), ApplyError> {
        if payload.is_empty() {
            return Ok(());
        }
        let [next, oldest, newest] = payload
            .as_chunks()
            .0
            .try_into()
            .map_err(|_| ApplyError::new("the control block's transaction ids are damaged"))?;
        let mut recovery = self.recovery.lock();
        recovery.seen(Xid::new(u64::from_le_bytes(next).saturating_sub(1)));
        recovery.committed(Lsn(u64::from_le_bytes(newest)));
        self.set_status_oldest(Xid::new(u64::from_le_bytes(oldest)));
        Ok(())
    }
}
