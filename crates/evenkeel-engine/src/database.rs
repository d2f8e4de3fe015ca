//! The database: storage with transactions on it.

use std::any::Any;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use evenkeel_io::Disk;
use evenkeel_storage::buffer::{BufferAccessStrategy, BufferPool};
use evenkeel_storage::{ApplyError, CheckpointMode, FileId, Lsn, RemovalLsn, StorageError, Store};
use parking_lot::Mutex;

use crate::config::Config;
use crate::error::{EngineError, EngineResult};
use crate::lock::{LockInfo, LockKey, WaitInfo};
use crate::rmgr::EngineRmgr;
use crate::sequence::Sequence;
use crate::sort;
use crate::stats::{
    AnalyzeInProgress, AnalyzeTask, Progress, Statistics, TableCounters, TableStatistics,
    VacuumInProgress,
};
use crate::status::{CommitStamps, Stamp, StatusPages};
use crate::txn::core::TxnCore;
use crate::txn::recovery::stamps_of;
use crate::txn::system::TxnSystem;
use crate::txn::{Hint, Horizon, TxnStatistics, XidAtHorizon};
use crate::types::{Xid, XidStatus};

/// An open database. Clones are handles of the same one; it closes when the last is dropped,
/// or, saying whether all went well, with [`Database::close`].
#[derive(Clone)]
pub struct Database(Arc<Inner>);

struct Inner {
    system: Arc<TxnSystem>,
    config: Config,
    open: Mutex<HashMap<u64, Weak<dyn Any + Send + Sync>>>,
    statistics: Statistics,
    /// Those that have been used: what they have given out is known nowhere else. None for one
    /// that was dropped, so that a file that goes is not opened again.
    sequences: Mutex<HashMap<FileId, Option<Arc<Sequence>>>>,
    background: Mutex<Option<JoinHandle<()>>>,
}

impl Database {
    /// Opens the database in `dir`, creating it if the directory is empty or missing, and
    /// recovering it if it was not closed.
    ///
    /// # Errors
    /// Storage's, see [`Store::open`].
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, config: Config) -> EngineResult<Database> {
        let core = Arc::new(TxnCore::new(Arc::clone(&disk), dir, &config));
        let no_thread = |error: std::io::Error| StorageError::Internal(error.to_string().into());
        core.locks.start().map_err(no_thread)?;
        let client = Arc::new(EngineRmgr::new(Arc::clone(&core)));
        let store = Store::open(disk, dir, config.storage.clone(), client)?;
        sort::remove_leftovers(store.disk().as_ref(), dir)?;
        let failing = Arc::downgrade(&core);
        core.set_poison(store.poison());
        let poison = Arc::downgrade(store.poison());
        store.poison().on_set(move || {
            if let (Some(core), Some(poison)) = (failing.upgrade(), poison.upgrade()) {
                core.fail(&poison.error());
            }
        });
        let system = Arc::new(finish_recovery(core, store, &config)?);
        let runner = Arc::clone(&system);
        let thread = std::thread::Builder::new()
            .name("txn status".into())
            .spawn(move || runner.run())
            .map_err(no_thread)?;
        Ok(Database(Arc::new(Inner {
            system,
            config,
            open: Mutex::default(),
            statistics: Statistics::default(),
            sequences: Mutex::default(),
            background: Mutex::new(Some(thread)),
        })))
    }

    pub(crate) fn system(&self) -> &Arc<TxnSystem> {
        &self.0.system
    }

    /// The store below.
    pub fn store(&self) -> &Arc<Store> {
        &self.0.system.store
    }

    /// The buffer pool.
    pub fn pool(&self) -> &Arc<BufferPool> {
        self.0.system.store.pool()
    }

    /// The ring for a vacuum or analyze that may use `limit` bytes of the pool; 0: all of it; none:
    /// `vacuum_buffer_usage_limit`.
    pub(crate) fn vacuum_ring(&self, limit: Option<u64>) -> Option<Arc<BufferAccessStrategy>> {
        let limit = limit.unwrap_or(self.config().storage.vacuum_buffer_usage_limit);
        BufferAccessStrategy::vacuum(self.pool(), limit)
    }

    /// The settings it was opened with.
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// The status of a transaction, as of now.
    ///
    /// # Errors
    /// If its status page cannot be read.
    pub fn xid_status(&self, xid: Xid) -> EngineResult<XidStatus> {
        self.0.system.status(xid)
    }

    /// The id the next transaction will get.
    pub fn next_xid(&self) -> Xid {
        self.0.system.core.next_xid()
    }

    /// The horizon that decides which tuples are dead to every snapshot, found by looking at all
    /// snapshots.
    pub fn horizon(&self) -> Horizon {
        self.0.system.horizon()
    }

    /// A recent horizon: as safe, not quite as far, and cheap.
    pub fn recent_horizon(&self) -> Horizon {
        self.0.system.recent_horizon()
    }

    /// The verdict of `horizon` on an id, and the hint that may be set if the tuple has none.
    ///
    /// # Errors
    /// If its status page cannot be read.
    pub fn removal(
        &self,
        horizon: &Horizon,
        xid: Xid,
        hint: Hint,
    ) -> EngineResult<(XidAtHorizon, Option<Hint>)> {
        self.0.system.removal(horizon, xid, hint)
    }

    /// [`Database::removal`] for who has locked a page: it reads none.
    ///
    /// # Errors
    /// `StatusNotInMemory`.
    pub(crate) fn removal_in_memory(
        &self,
        horizon: &Horizon,
        xid: Xid,
        hint: Hint,
    ) -> EngineResult<XidAtHorizon> {
        self.0.system.removal_in_memory(horizon, xid, hint)
    }

    /// Forgets the status of ids below `limit`: every tuple of theirs in every table has been
    /// frozen or removed. Whole files go; the rest follows with a later limit.
    ///
    /// # Errors
    /// If a file cannot be dropped.
    pub fn truncate_status(&self, limit: Xid) -> EngineResult<()> {
        self.0.system.truncate_status(limit)
    }

    /// The first id whose status is kept: every tuple of older ones is frozen or gone.
    pub fn oldest_status(&self) -> Xid {
        self.0.system.status.oldest()
    }

    /// Goes on with ids from `next` on, as a database would that has given out those below: for
    /// tests of what many transactions lead to. No transaction may be open.
    ///
    /// # Errors
    /// If what has committed cannot be written.
    pub fn skip_ids(&self, next: Xid) -> EngineResult<()> {
        let system = &self.0.system;
        system.store.log().flush_all()?;
        while system.core.publisher.backlog() > 0 {
            system.core.publisher.hurry();
            std::thread::yield_now();
            system.store.poison().check()?;
        }
        let next = next.max(self.next_xid());
        let publisher = &system.core.publisher;
        let (published, newest) = (publisher.published(), publisher.newest_commit());
        system.core.restart(next, published, newest);
        Ok(())
    }

    /// When a transaction committed, in microseconds since the Unix epoch. None: it has not, or
    /// that is no longer known. Waits a moment if it has just committed.
    ///
    /// # Errors
    /// `Unsupported` without `track_commit_timestamp`; failures of the disk.
    pub fn commit_timestamp(&self, xid: Xid) -> EngineResult<Option<u64>> {
        self.0.system.commit_timestamp(xid)
    }

    /// The object cached under `id`, opened by `open` if nobody has it. Two callers at once may
    /// both open it; both get the same one.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn cached<T: Send + Sync + 'static>(
        &self,
        id: u64,
        open: impl FnOnce() -> EngineResult<Arc<T>>,
    ) -> EngineResult<Arc<T>> {
        let find = |cache: &HashMap<u64, Weak<dyn Any + Send + Sync>>| {
            cache.get(&id).and_then(Weak::upgrade)?.downcast::<T>().ok()
        };
        if let Some(found) = find(&self.0.open.lock()) {
            return Ok(found);
        }
        // Without the mutex: `open` may look for what it is built on here.
        let opened = open()?;
        let mut cache = self.0.open.lock();
        if let Some(found) = find(&cache) {
            return Ok(found);
        }
        let erased: Arc<dyn Any + Send + Sync> = opened.clone();
        cache.retain(|_, open| open.strong_count() > 0);
        cache.insert(id, Arc::downgrade(&erased));
        Ok(opened)
    }

    /// Forgets what is cached under `id`, as when its definition changes.
    pub fn forget(&self, id: u64) {
        self.0.open.lock().remove(&id);
    }

    /// The sequence in a file; none if it was dropped, or is a temporary one of an earlier process.
    ///
    /// # Errors
    /// If its page cannot be read or makes no sense.
    pub fn sequence(&self, file: FileId) -> EngineResult<Option<Arc<Sequence>>> {
        let mut sequences = self.0.sequences.lock();
        if let Some(sequence) = sequences.get(&file) {
            return Ok(sequence.clone());
        }
        if file.is_temporary() {
            return Ok(None);
        }
        // Under the mutex: two that count for themselves would give out one number twice.
        let sequence = Arc::new(Sequence::open(Arc::clone(self.store()), file)?);
        sequences.insert(file, Some(Arc::clone(&sequence)));
        Ok(Some(sequence))
    }

    pub(crate) fn add_sequence(&self, file: FileId, sequence: Sequence) {
        let mut sequences = self.0.sequences.lock();
        sequences.insert(file, Some(Arc::new(sequence)));
    }

    /// Lets go of a sequence whose file is dropped.
    pub(crate) fn forget_sequence(&self, file: FileId) {
        let mut sequences = self.0.sequences.lock();
        match file.is_temporary() {
            true => sequences.remove(&file),
            false => sequences.insert(file, None),
        };
    }

    /// Writes where the sequences stand. One that cannot be written skips some numbers.
    fn settle_sequences(&self) {
        for sequence in self.0.sequences.lock().values().flatten() {
            if let Err(error) = sequence.settle() {
                tracing::warn!("{sequence:?} skips the numbers it has in reserve: {error}");
            }
        }
    }

    /// The counters of the table with this id (`TableDef::id`).
    pub fn table_counters(&self, table: u64) -> Arc<TableCounters> {
        self.0.statistics.table(table)
    }

    /// Counters of the table with this id; zeroes for one nobody has used.
    pub fn table_statistics(&self, table: u64) -> TableStatistics {
        let known = self.0.statistics.known(table);
        known.map_or_else(TableStatistics::default, |counters| counters.get())
    }

    /// Forgets the counters of a table that was dropped.
    pub fn forget_table_statistics(&self, table: u64) {
        self.0.statistics.forget(table);
    }

    /// The vacuums that are running.
    pub fn vacuums_in_progress(&self) -> Vec<VacuumInProgress> {
        self.0.statistics.progress.vacuums()
    }

    /// The analyzes that are running.
    pub fn analyzes_in_progress(&self) -> Vec<AnalyzeInProgress> {
        self.0.statistics.progress.analyzes()
    }

    /// Begins an analyze of a table, for who looks at the progress.
    pub fn begin_analyze(&self, table: u64, pid: i32) -> AnalyzeTask {
        AnalyzeTask::new(self.progress(), table, pid)
    }

    pub(crate) fn progress(&self) -> &Arc<Progress> {
        &self.0.statistics.progress
    }

    /// Locks held and waited for.
    pub fn locks(&self) -> Vec<LockInfo> {
        self.0.system.core.locks.list()
    }

    /// Whether somebody waits for a lock of the table with this id.
    pub fn table_waited_for(&self, table: u64) -> bool {
        let locks = &self.0.system.core.locks;
        let waits = |info: &LockInfo| !info.granted && info.key == LockKey::Table(table);
        locks.waits() > 0 && locks.list().iter().any(waits)
    }

    /// Whether forgetting the statuses of ids below `limit` would free a file.
    pub fn status_reclaimable(&self, limit: Xid) -> bool {
        self.0.system.status.reclaimable(limit)
    }

    /// Transactions that wait for a lock or another transaction.
    pub fn waits(&self) -> Vec<WaitInfo> {
        self.0.system.core.locks.waiting()
    }

    /// Counts since it was opened.
    pub fn txn_statistics(&self) -> TxnStatistics {
        let core = &self.0.system.core;
        TxnStatistics {
            commits: core.commits.load(Ordering::Relaxed),
            rollbacks: core.rollbacks.load(Ordering::Relaxed),
            deadlocks: core.locks.deadlocks(),
            spilled_chunks: core.window.spilled_chunks(),
            waiting: core.locks.waits(),
            status_backlog: core.publisher.backlog(),
        }
    }

    /// Takes a checkpoint as fast as the disk can, and waits for it.
    ///
    /// # Errors
    /// If something could not be written or synced.
    pub fn checkpoint(&self) -> EngineResult<()> {
        Ok(self.0.system.store.checkpoint(CheckpointMode::Fast)?)
    }

    /// Closes the database: what is committed is applied, written and synced, so that the next
    /// start needs no recovery. Transactions still open are rolled back by the next start.
    ///
    /// # Errors
    /// If something could not be written: the next start recovers.
    pub fn close(&self) -> EngineResult<()> {
        self.0.stop_background();
        let system = &self.0.system;
        system.store.prepare_shutdown();
        self.settle_sequences();
        system.store.log().flush_all()?;
        system.work()?;
        system.store.shutdown()?;
        Ok(())
    }
}

impl Inner {
    fn stop_background(&self) {
        if let Some(thread) = self.background.lock().take() {
            self.system.core.publisher.stop();
            // A panic there has been reported by the panic hook; storage recovers on restart.
            let _ = thread.join();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop_background();
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database")
            .field("dir", &self.store().dir())
            .finish_non_exhaustive()
    }
}

/// Commit times that are written at once when they are recovered.
const STAMPS_AT_ONCE: usize = if cfg!(test) { 16 } else { 1 << 16 };

/// Writes the times of the commits that recovery replayed. They are read from the log once more:
/// the statuses of that many transactions take two bits each in memory, their times would take a
/// hundred times as much.
fn recover_stamps(store: &Store, stamps: &CommitStamps) -> EngineResult<()> {
    let mut batch: Vec<Stamp> = Vec::new();
    store.replay_again(|record| -> EngineResult<()> {
        let lsn = record.lsn();
        let damaged = |error: ApplyError| StorageError::Redo {
            lsn,
            page: None,
            reason: error.to_string(),
        };
        batch.extend(stamps_of(record).map_err(damaged)?);
        if batch.len() >= STAMPS_AT_ONCE {
            stamps.set(batch.drain(..))?;
        }
        Ok(())
    })?;
    stamps.set(batch.into_iter())
}

/// Puts into effect what recovery learnt: statuses, and the fate of files.
fn finish_recovery(
    core: Arc<TxnCore>,
    store: Arc<Store>,
    config: &Config,
) -> Result<TxnSystem, EngineError> {
    let recovered = core.recovery.lock().take();
    // New records start at the insert position; snapshots must not count them yet.
    let position = Lsn(store.log().insert_lsn().0 - 1);
    let settled = recovered.newest_commit;
    core.restart(recovered.next, position, settled);
    core.set_status_oldest(recovered.oldest_status);
    let oldest = core.status_oldest();
    let status = StatusPages::new(Arc::clone(&store), oldest);
    for (page, image) in &recovered.pages {
        status.merge(*page, image)?;
    }
    status.truncate(oldest, settled)?;
    let stamps = CommitStamps::new(Arc::clone(&store), oldest);
    stamps.truncate(oldest, settled)?;
    if config.track_commit_timestamp {
        recover_stamps(&store, &stamps)?;
    }
    core.recovery.lock().applied();
    for (file, removal) in recovered.to_drop {
        tracing::info!(%file, "removing a file that no committed transaction has");
        store.drop_file(file, RemovalLsn::Commit(removal))?;
    }
    store.recovery_finished()?;
    // Before any transaction: who reads the log from an older redo point on learns that those that
    // ran at its end have aborted.
    store.log_first_state();
    let stamps = config.track_commit_timestamp.then_some(stamps);
    Ok(TxnSystem::new(core, store, status, stamps, config))
}
