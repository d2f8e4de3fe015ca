//! Which files have writes that are not durable yet, and making them so.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use evenkeel_io::{Disk, IoError};
use parking_lot::Mutex;

use super::segment::Segment;
use crate::error::StorageResult;
use crate::poison::Poison;

/// Most syncs in flight at once.
const PARALLEL_SYNCS: usize = 8;

/// The sync bookkeeping of all data files. There is no request queue to overflow: a file is in
/// the table from its first unsynced write until a sync has caught up with its last one.
pub struct SyncTable {
    disk: Arc<dyn Disk>,
    fsync: bool,
    poison: Arc<Poison>,
    pending: Mutex<Pending>,
    syncs: AtomicU64,
    sync_micros: AtomicU64,
}

#[derive(Default)]
struct Pending {
    /// By address: a file made anew under an old name is another segment.
    segments: HashMap<usize, Arc<Segment>>,
    /// Directories whose entries changed, and at which of the changes noted so far.
    dirs: BTreeMap<PathBuf, u64>,
    /// Changes of directories noted so far.
    dir_changes: u64,
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncStats {
    /// Files synced.
    pub syncs: u64,
    /// Microseconds spent in syncs, summed over files.
    pub sync_micros: u64,
    /// Files that have unsynced writes now.
    pub pending: u64,
}

fn address(segment: &Arc<Segment>) -> usize {
    Arc::as_ptr(segment).addr()
}

impl SyncTable {
    /// An empty table. Without `fsync` nothing is ever synced.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, fsync: bool, poison: Arc<Poison>) -> Arc<SyncTable> {
        Arc::new(SyncTable {
            disk,
            fsync,
            poison,
            pending: Mutex::default(),
            syncs: AtomicU64::new(0),
            sync_micros: AtomicU64::new(0),
        })
    }

    /// Whether syncs are done at all.
    #[must_use]
    pub fn fsync(&self) -> bool {
        self.fsync
    }

    /// An error if the instance is poisoned.
    pub(crate) fn check(&self) -> StorageResult<()> {
        self.poison.check()
    }

    /// Counts a completed write of `segment` and puts it into the table. Answers the write's
    /// number, for [`Segment::is_synced`].
    pub(crate) fn note_write(&self, segment: &Arc<Segment>) -> u64 {
        let mut pending = self.pending.lock();
        let write = segment.count_write();
        pending
            .segments
            .entry(address(segment))
            .or_insert_with(|| Arc::clone(segment));
        write
    }

    /// Notes that entries of `dir` were made or removed.
    pub(crate) fn note_dir(&self, dir: &Path) {
        let mut pending = self.pending.lock();
        pending.dir_changes += 1;
        let change = pending.dir_changes;
        pending.dirs.insert(dir.to_path_buf(), change);
    }

    /// Forgets a file that is being unlinked.
    pub(crate) fn forget(&self, segment: &Arc<Segment>) {
        segment.mark_dropped();
        self.pending.lock().segments.remove(&address(segment));
    }

    /// Makes durable every write and directory change noted before the call, several files at
    /// once.
    ///
    /// # Errors
    /// A failed sync poisons the instance; the error names the file.
    pub fn sync_all(&self) -> StorageResult<()> {
        self.poison.check()?;
        let (segments, dirs) = {
            let pending = self.pending.lock();
            let segments: Vec<_> = pending.segments.values().map(Arc::clone).collect();
            let dirs: Vec<PathBuf> = pending.dirs.keys().cloned().collect();
            (segments, dirs)
        };
        self.sync_segments(&segments)?;
        for dir in &dirs {
            self.sync_dir(dir)?;
        }
        Ok(())
    }

    /// Syncs one directory and takes it off the list.
    ///
    /// # Errors
    /// As [`SyncTable::sync_all`].
    pub(crate) fn sync_dir(&self, dir: &Path) -> StorageResult<()> {
        let change = self.pending.lock().dirs.get(dir).copied();
        if self.fsync
            && let Err(error) = self.disk.sync_dir(dir)
        {
            return Err(self.fail(error));
        }
        // Only now, as for files: who looks for what is to be synced meanwhile must find it. A
        // change during the sync keeps it.
        let mut pending = self.pending.lock();
        if pending.dirs.get(dir).copied() == change {
            pending.dirs.remove(dir);
        }
        Ok(())
    }

    /// Makes every write of these files that was noted before the call durable.
    ///
    /// # Errors
    /// As [`SyncTable::sync_all`].
    pub(crate) fn sync_segments(&self, segments: &[Arc<Segment>]) -> StorageResult<()> {
        let result = match segments {
            [] => Ok(()),
            [one] => self.sync_one(one),
            many => self.sync_in_parallel(many),
        };
        result.map_err(|error| self.fail(error))?;
        let mut pending = self.pending.lock();
        for segment in segments {
            if !segment.needs_sync() {
                pending.segments.remove(&address(segment));
            }
        }
        Ok(())
    }

    fn sync_in_parallel(&self, segments: &[Arc<Segment>]) -> Result<(), IoError> {
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(segment) = segments.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.sync_one(segment)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let helpers: Vec<_> = (1..segments.len().min(PARALLEL_SYNCS))
                .filter_map(|_| {
                    std::thread::Builder::new()
                        .name("evenkeel-sync".into())
                        .spawn_scoped(scope, work)
                        .ok()
                })
                .collect();
            let mut result = work();
            for helper in helpers {
                match helper.join() {
                    Ok(theirs) => result = result.and(theirs),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            result
        })
    }

    fn sync_one(&self, segment: &Segment) -> Result<(), IoError> {
        let start = Instant::now();
        if segment.sync(self.fsync)? {
            self.syncs.fetch_add(1, Ordering::Relaxed);
            let micros = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.sync_micros.fetch_add(micros, Ordering::Relaxed);
        }
        Ok(())
    }

    fn fail(&self, error: IoError) -> crate::error::StorageError {
        self.poison.set(error.to_string());
        error.into()
    }

    /// Counters since the start.
    #[must_use]
    pub fn stats(&self) -> SyncStats {
        SyncStats {
            syncs: self.syncs.load(Ordering::Relaxed),
            sync_micros: self.sync_micros.load(Ordering::Relaxed),
            pending: self.pending.lock().segments.len() as u64,
        }
    }
}
