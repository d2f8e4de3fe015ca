//! The facade of storage: open a database, change pages, manage files, take checkpoints.

mod change;
mod client;
mod core;
mod create;
mod holds;
pub(crate) mod ops;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use evenkeel_io::{Disk, LockGuard};
use parking_lot::Mutex;

use crate::buffer::BufferPool;
use crate::checkpoint::Checkpointer;
pub use crate::checkpoint::{CheckpointMode, CheckpointStats};
use crate::config::StorageConfig;
use crate::control::{Control, ControlFile};
use crate::error::StorageResult;
use crate::ids::Lsn;
use crate::poison::Poison;
use crate::recovery::RecoveryStats;
use crate::stats::{IoStats, Watchdog};
pub use crate::store::change::Change;
pub(crate) use crate::store::change::apply_part;
pub use crate::store::client::{ApplyContext, CommitNote, StorageClient};
pub(crate) use crate::store::holds::Holds;
pub use crate::store::holds::RedoHold;
use crate::wal::Log;
use crate::writeout::Writer;

/// Files below this number are created with numbers of the client's choice.
pub const FIRST_FREE_FILE: u64 = 16_384;
/// Name of the lock file.
pub const LOCK_FILE: &str = "evenkeel.pid";

/// An open database, as storage sees it: pages, their log, and what keeps them safe.
pub struct Store {
    core: Arc<Core>,
    checkpointer: Checkpointer,
    recovery: RecoveryStats,
    /// Held as long as the store lives.
    _lock: Box<dyn LockGuard>,
}

/// What changes, checkpoints and recovery share.
pub(crate) struct Core {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) io: Arc<IoStats>,
    pub(crate) watchdog: Watchdog,
    pub(crate) dir: PathBuf,
    pub(crate) config: StorageConfig,
    pub(crate) client: Arc<dyn StorageClient>,
    pub(crate) poison: Arc<Poison>,
    pub(crate) log: Arc<Log>,
    pub(crate) pool: Arc<BufferPool>,
    pub(crate) writer: Arc<Writer>,
    pub(crate) holds: Arc<Holds>,
    /// Redo points announced since the one in the control file, when only those may be one.
    pub(crate) redo_points: Mutex<Vec<Lsn>>,
    /// Keeps what recovery told of files from being forgotten before the client has acted on it.
    pub(crate) recovery_hold: Mutex<Option<RedoHold>>,
    /// Number of the next file to be created.
    pub(crate) next_file: AtomicU64,
    pub(crate) control: Mutex<ControlFile>,
    /// Speed of redo as measured, in bytes of log per second; 0 when it never was.
    pub(crate) redo_speed: AtomicU64,
    /// How long restoring torn pages took when it was last needed.
    pub(crate) restore_micros: u64,
    /// Position from which each incarnation's records lie, oldest first, from the redo point on.
    pub(crate) incarnations: Mutex<Vec<(Lsn, u64)>>,
}

impl Store {
    /// Opens the database in `dir`, creating it if the directory is empty or missing, and
    /// recovers it if it was not shut down.
    ///
    /// # Errors
    /// Among others [`StorageError::NotADatabase`](crate::StorageError::NotADatabase),
    /// [`WrongVersion`](crate::StorageError::WrongVersion),
    /// [`ControlDamaged`](crate::StorageError::ControlDamaged),
    /// [`Locked`](crate::StorageError::Locked) and
    /// [`LogDamaged`](crate::StorageError::LogDamaged), each before anything is changed.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        config: StorageConfig,
        client: Arc<dyn StorageClient>,
    ) -> StorageResult<Arc<Store>> {
        create::open(disk, dir, config, client)
    }

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
        self.core.control.lock().current().clone()
    }

    /// The client's own part of the control block, as last written.
    #[must_use]
    pub fn control_payload(&self) -> Vec<u8> {
        self.core.control.lock().current().payload.clone()
    }

    /// What was done to files, by who, what and why, and how long it took. For `pg_stat_io` use
    /// [`BufferPool::io_rows`], which has the hits as well.
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

    /// What recovery did when the store was opened.
    #[must_use]
    pub fn recovery_stats(&self) -> &RecoveryStats {
        &self.recovery
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

    /// Begins a change by transaction `xid` (0 for none).
    #[inline]
    pub fn change(&self, xid: u64) -> Change<'_> {
        Change::new(&self.core, xid)
    }
}

#[cfg(test)]
mod tests;
