//! Locks that must outlast a killed process's rings.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// The lock files that a disk holds locked. Each ring registers them, so that the kernel keeps
/// them open, and locked, until it has ended the ring's operations, whenever the process ends: the
/// descriptors of a killed process are closed before.
#[derive(Default)]
pub(crate) struct HeldLocks {
    version: AtomicU64,
    files: Mutex<Vec<Arc<OwnedFd>>>,
}

impl HeldLocks {
    /// A lock was taken. Operations that are queued from here on find it registered.
    pub(crate) fn add(&self, file: Arc<OwnedFd>) {
        self.files.lock().push(file);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// A lock is about to be given back.
    pub(crate) fn remove(&self, file: &Arc<OwnedFd>) {
        self.files.lock().retain(|held| !Arc::ptr_eq(held, file));
        self.version.fetch_add(1, Ordering::Release);
    }

    /// The lock files, if they are others than at version `seen`, which becomes the present one.
    pub(super) fn changed_since(&self, seen: &mut u64) -> Option<Vec<Arc<OwnedFd>>> {
        let version = self.version.load(Ordering::Acquire);
        if version == *seen {
            return None;
        }
        *seen = version;
        Some(self.files.lock().clone())
    }
}
