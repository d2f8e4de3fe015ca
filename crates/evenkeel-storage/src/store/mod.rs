//! The facade of storage: open a database, change pages, manage files, take checkpoints.

mod create;
mod damaged;
mod mini_transaction;
mod ops;
mod rebuild;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use evenkeel_io::{Disk, File, LockGuard, OpenOptions};
use parking_lot::Mutex;

use crate::buffer::BufferPool;
use crate::checkpoint::Checkpointer;
pub use crate::checkpoint::{CheckpointMode, CheckpointStats};
use crate::config::StorageConfig;
use crate::control::Control;
use crate::core::Core;
pub use crate::core::RedoHold;
use crate::error::StorageResult;
use crate::ids::Lsn;
use crate::poison::Poison;
use crate::recovery::{Recovery, RecoveryStats};
pub use crate::resource_manager::{ApplyContext, InsertedRecord, ResourceManager, StoreState};
use crate::stats::IoStats;
pub use crate::store::mini_transaction::MiniTransaction;
use crate::wal::Log;
use crate::writeout::Writer;

/// Files below this number are created with numbers of the manager's choice.
pub const FIRST_FREE_FILE: u64 = 16_384;
/// Name of the lock file.
pub const LOCK_FILE: &str = "evenkeel.pid";

/// An open database, as storage sees it: pages, their log, and what keeps them safe.
pub struct Store {
    core: Arc<Core>,
    checkpointer: Checkpointer,
    recovery: Recovery,
    /// Keeps what recovery told of files from being forgotten before the manager has acted on it.
    recovery_hold: Mutex<Option<RedoHold>>,
    /// The log has a gap where its damage was given up, and the redo point is before it.
    is_gap_ahead: AtomicBool,
    /// Held as long as the store lives.
    _lock: Box<dyn LockGuard>,
}

impl Store {
    /// The buffer pool.
    #[inline]
    #[must_use]
    pub fn pool(&self) -> &Arc<BufferPool> {
        &self.core.pool
    }

    /// The log.
    #[inline]
    #[must_use]
    pub fn log(&self) -> &Arc<Log> {
        &self.core.log
    }

    /// The settings it was opened with (`wal_segment_size` is the database's own).
    #[must_use]
    pub fn config(&self) -> &StorageConfig {
        &self.core.config
    }

    /// Whether the device writes pages atomically, so that `torn_page_protection` is not used.
    #[must_use]
    pub fn writes_pages_atomically(&self) -> bool {
        self.core.pool.files().is_atomic()
    }

    /// The disk it lives on.
    #[must_use]
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.core.disk
    }

    /// Opens a temporary file; relation files that nobody uses are closed for it if the process has
    /// no descriptor left.
    ///
    /// # Errors
    /// [`TooManyFiles`](crate::StorageError::TooManyFiles) if that does not help; those of the
    /// disk.
    pub fn open_temporary(
        &self,
        path: &Path,
        options: OpenOptions,
    ) -> StorageResult<Arc<dyn File>> {
        let files = self.core.pool.files().sync_table();
        files.with_descriptor(|| self.core.disk.open(path, options))
    }

    /// The data directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.core.dir
    }

    /// Whether the instance has failed, and why.
    #[must_use]
    pub fn poison(&self) -> &Arc<Poison> {
        &self.core.poison
    }

    /// The control block as last written.
    #[must_use]
    pub fn control(&self) -> Control {
        self.core.control.current()
    }

    /// Whether the page cache held nothing of the database when it was opened; see
    /// [`ControlFile::page_cache_held_nothing`][method].
    ///
    /// [method]: crate::control::ControlFile::page_cache_held_nothing
    #[must_use]
    pub fn page_cache_held_nothing(&self) -> bool {
        self.core.control.page_cache_held_nothing()
    }

    /// The manager's own part of the control block, as last written.
    #[must_use]
    pub fn control_payload(&self) -> Vec<u8> {
        self.core.control.current().payload
    }

    /// Counts and times of operations on files, by backend type, object and context. For
    /// `pg_stat_io` use [`BufferPool::io_rows`], which has the hits as well.
    #[must_use]
    pub fn io_stats(&self) -> &Arc<IoStats> {
        &self.core.io
    }

    /// The writer of pages: its counters, and what it restored at the start.
    #[must_use]
    pub fn writer(&self) -> &Arc<Writer> {
        &self.core.writer
    }

    /// Counters of checkpoints since the store was opened, or since they were reset.
    #[must_use]
    pub fn checkpoint_stats(&self) -> CheckpointStats {
        self.checkpointer.stats(&self.core)
    }

    /// Has the counters of checkpoints and syncs begin anew.
    pub fn reset_checkpoint_stats(&self) {
        self.checkpointer.reset_stats(&self.core);
    }

    /// Statistics of the recovery that the opening began, so far.
    #[must_use]
    pub fn recovery_stats(&self) -> RecoveryStats {
        self.recovery.stats()
    }

    /// Waits until no page is owed anything by the log, or redo has failed.
    pub fn wait_for_redo(&self) {
        self.recovery.wait();
    }

    /// To be called before page locks are taken for a change: waits while the log's ring is
    /// nearly full.
    ///
    /// # Errors
    /// When the instance is poisoned, or the disk has no room for more log (then the statement
    /// fails and the instance goes on; changes already admitted still have their space).
    #[inline]
    pub fn admit(&self) -> StorageResult<()> {
        self.core.log.admit()
    }

    /// The manager's [`ResourceManager::removal_bound`].
    #[must_use]
    pub fn removal_bound(&self) -> Lsn {
        self.core.manager.removal_bound()
    }

    /// Begins a change by transaction `xid` (0 for none).
    #[inline]
    pub fn change(&self, xid: u64) -> MiniTransaction<'_> {
        MiniTransaction::new(&self.core, xid)
    }
}

#[cfg(test)]
mod tests;
