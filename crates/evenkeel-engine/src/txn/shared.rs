//! The part of a transaction that outlives its session's hands: whoever publishes its commit
//! finishes it, so a commit that nobody awaits any more still gives up its locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use evenkeel_storage::{FileId, RedoHold};
use parking_lot::Mutex;

use super::own_xids::OwnXids;
use crate::lock::HeldLocks;
use crate::ticket::TicketCell;

/// Something to be done at a transaction's end. It must not block or call into the engine.
pub type EndHook = Box<dyn FnOnce() + Send>;

pub(crate) struct TxnShared {
    locks: HeldLocks,
    own: Arc<OwnXids>,
    cell: Arc<TicketCell>,
    on_publish: Mutex<OnPublish>,
    /// Runs while the commit is published.
    in_order: Mutex<Option<EndHook>>,
    has_in_order: AtomicBool,
    /// The time in its commit record.
    commit_micros: AtomicU64,
    /// A record says that it has locked tables against everybody.
    has_exclusive: AtomicBool,
}

/// Actions that follow the publication of a commit.
#[derive(Default)]
pub(crate) struct OnPublish {
    pub(crate) hooks: Vec<EndHook>,
    /// Files to drop, and the hold that keeps the commit record until they are.
    pub(crate) drops: Vec<FileId>,
    pub(crate) hold: Option<RedoHold>,
}

impl TxnShared {
    pub(crate) fn new(locks: HeldLocks) -> TxnShared {
        TxnShared {
            locks,
            own: Arc::default(),
            cell: TicketCell::new(),
            on_publish: Mutex::default(),
            in_order: Mutex::default(),
            has_in_order: AtomicBool::new(false),
            commit_micros: AtomicU64::new(0),
            has_exclusive: AtomicBool::new(false),
        }
    }

    pub(crate) fn locks(&self) -> &HeldLocks {
        &self.locks
    }

    pub(crate) fn own(&self) -> &Arc<OwnXids> {
        &self.own
    }

    /// Completed when the transaction's commit is published.
    pub(crate) fn cell(&self) -> &Arc<TicketCell> {
        &self.cell
    }

    pub(crate) fn commit_micros(&self) -> u64 {
        self.commit_micros.load(Ordering::Relaxed)
    }

    /// Before the publisher can know of the commit.
    pub(crate) fn set_commit_micros(&self, micros: u64) {
        self.commit_micros.store(micros, Ordering::Relaxed);
    }

    /// Whether a record says that it has locked tables against everybody.
    pub(crate) fn has_exclusive(&self) -> bool {
        self.has_exclusive.load(Ordering::Acquire)
    }

    pub(crate) fn set_has_exclusive(&self) {
        self.has_exclusive.store(true, Ordering::Release);
    }

    pub(crate) fn set_on_publish(&self, on_publish: OnPublish) {
        *self.on_publish.lock() = on_publish;
    }

    /// Before the publisher can know of the commit.
    pub(crate) fn set_in_order(&self, hook: EndHook) {
        *self.in_order.lock() = Some(hook);
        self.has_in_order.store(true, Ordering::Release);
    }

    /// The hook that runs while the commit is published. A flag keeps commits without one, which
    /// are nearly all, from taking a lock.
    pub(crate) fn take_in_order(&self) -> Option<EndHook> {
        match self.has_in_order.load(Ordering::Acquire) {
            true => self.in_order.lock().take(),
            false => None,
        }
    }

    pub(crate) fn take_on_publish(&self) -> OnPublish {
        std::mem::take(&mut *self.on_publish.lock())
    }
}
