//! The state of all transactions, and storage's view of the engine.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_io::Disk;
use evenkeel_storage::{
    ApplyContext, ApplyError, CommitNote, FileId, Lsn, RecordView, RedoHold, StorageClient,
    StorageError, page::PageMut,
};
use parking_lot::Mutex;

use super::publisher::{Published, Publisher};
use super::recovery::Recovery;
use super::shared::TxnShared;
use super::slots::Slots;
use super::window::Window;
use crate::config::Config;
use crate::error::{EngineError, EngineResult};
use crate::lock::LockManager;
use crate::redo;
use crate::ticket::WakeList;
use crate::types::Xid;

/// Everything about transactions that does not need the store. It is the store's client.
pub(crate) struct TxnCore {
    next: AtomicU64,
    pub(crate) window: Window,
    pub(crate) slots: Slots,
    pub(crate) publisher: Publisher,
    pub(crate) locks: LockManager,
    pub(crate) recovery: Mutex<Recovery>,
    pub(crate) commits: AtomicU64,
    pub(crate) rollbacks: AtomicU64,
    drops: Mutex<Vec<PendingDrop>>,
    /// Ids below have no status any more.
    status_oldest: AtomicU64,
}

/// A file that nobody can see any more, and what keeps the log that says so.
pub(crate) struct PendingDrop {
    pub(crate) file: FileId,
    pub(crate) _hold: Option<Arc<RedoHold>>,
}

impl TxnCore {
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: &Path, config: &Config) -> TxnCore {
        TxnCore {
            next: AtomicU64::new(Xid::FIRST.get()),
            window: Window::new(disk, dir, config.xid_window),
            slots: Slots::new(),
            publisher: Publisher::new(),
            locks: LockManager::new(),
            recovery: Mutex::new(Recovery::new(config.track_commit_timestamp)),
            commits: AtomicU64::new(0),
            rollbacks: AtomicU64::new(0),
            drops: Mutex::default(),
            status_oldest: AtomicU64::new(0),
        }
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

    /// Starts at `next` after recovery; everything older is decided.
    pub(crate) fn restart(&self, next: Xid, position: Lsn) {
        self.next.store(next.get(), Ordering::Release);
        self.window.restart(next);
        self.publisher.restart(next, position);
    }

    /// Ends transactions whose commits were just published, in order: only now do others see
    /// their ids as ended and get their locks (txn rule 2).
    fn finish(&self, published: Published) {
        let mut wakes = WakeList::default();
        for (_, txn) in published {
            let on_publish = txn.take_on_publish();
            on_publish.hooks.into_iter().for_each(|hook| hook());
            if !on_publish.drops.is_empty() {
                self.drop_later(&on_publish.drops, on_publish.hold);
            }
            self.end_ids_and_locks(&txn, &mut wakes);
            txn.cell().complete(Ok(()), &mut wakes);
            self.commits.fetch_add(1, Ordering::Relaxed);
        }
        wakes.wake();
    }

    /// Wakes who waits for the transaction's ids and locks. Its status is decided and visible.
    pub(crate) fn end_ids_and_locks(&self, txn: &TxnShared, wakes: &mut WakeList) {
        txn.own().for_each(|xid| self.locks.end_xid(xid, wakes));
        self.locks.release_all(txn.locks(), wakes);
    }

    /// Leaves files to the background thread to drop.
    pub(crate) fn drop_later(&self, files: &[FileId], hold: Option<RedoHold>) {
        let hold = hold.map(Arc::new);
        let drops = files.iter().map(|file| PendingDrop {
            file: *file,
            _hold: hold.clone(),
        });
        self.drops.lock().extend(drops);
        self.publisher.hurry();
    }

    pub(crate) fn take_drops(&self) -> Vec<PendingDrop> {
        std::mem::take(&mut *self.drops.lock())
    }

    /// Files that could not be dropped wait for the next round of the background thread.
    pub(crate) fn put_drops_back(&self, drops: Vec<PendingDrop>) {
        self.drops.lock().extend(drops);
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
}

impl StorageClient for TxnCore {
    fn apply(
        &self,
        op: u16,
        page: &mut PageMut<'_>,
        data: &[u8],
        cx: &ApplyContext,
    ) -> Result<(), ApplyError> {
        redo::apply(op, page, data, cx)
    }

    fn mask(&self, page: &mut PageMut<'_>) {
        redo::mask(page);
    }

    fn completed(&self, notes: &[CommitNote]) {
        self.finish(self.publisher.completed(notes, &self.window));
    }

    fn durable(&self, upto: Lsn) {
        self.finish(self.publisher.durable(upto, &self.window));
    }

    fn replayed(&self, record: &RecordView<'_>) -> Result<(), ApplyError> {
        self.recovery.lock().replayed(record)
    }

    fn file_created(&self, file: FileId, xid: u64) {
        self.recovery.lock().file_created(file, Xid::new(xid));
    }

    fn file_dropped(&self, file: FileId) {
        self.recovery.lock().file_dropped(file);
    }

    fn redo_floor(&self) -> Option<Lsn> {
        let recovery = self.recovery.lock().redo_floor();
        [recovery, self.publisher.redo_floor()]
            .into_iter()
            .flatten()
            .min()
    }

    fn raise_redo_floor(&self) {
        self.publisher.hurry();
    }

    fn checkpoint_payload(&self) -> Vec<u8> {
        let recovered = self.recovery.lock().next_xid();
        let next = self.next_xid().max(recovered).get().to_le_bytes();
        let oldest = self.status_oldest().get().to_le_bytes();
        [next, oldest].concat()
    }

    fn restore_payload(&self, payload: &[u8]) -> Result<(), ApplyError> {
        if payload.is_empty() {
            return Ok(());
        }
        let [next, oldest] = payload
            .as_chunks()
            .0
            .try_into()
            .map_err(|_| ApplyError::new("the control block's transaction ids are damaged"))?;
        self.recovery
            .lock()
            .seen(Xid::new(u64::from_le_bytes(next).saturating_sub(1)));
        self.set_status_oldest(Xid::new(u64::from_le_bytes(oldest)));
        Ok(())
    }
}
