//! Which files have writes that are not durable yet, and making them so.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use evenkeel_io::{Disk, File, IoError, IoErrorKind, IoResult};
use parking_lot::Mutex;

use super::descriptors::Descriptors;
use super::segment::{OpenSegment, Segment};
use crate::error::{StorageError, StorageResult};
use crate::parallel;
use crate::poison::Poison;

/// Most syncs in flight at once.
const PARALLEL_SYNCS: usize = 8;
/// A sync that takes longer is worth a warning.
const SLOW_SYNC: Duration = Duration::from_secs(5);

/// Upper bounds of the buckets of [`SyncStats::histogram`], in microseconds; the last bucket has
/// none.
pub const SYNC_TIME_BOUNDS: [u64; 9] = [
    100, 1_000, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000, 5_000_000,
];

/// The sync bookkeeping of all data files. There are no requests, so none to queue, merge or
/// overflow: a pass looks at the counters of every open segment.
pub struct SyncTable {
    disk: Arc<dyn Disk>,
    fsync: bool,
    poison: Arc<Poison>,
    /// Every open segment, by address: a file made anew under an old name is another one. A
    /// segment that nobody else has any more stays until it is synced.
    open: Mutex<HashMap<usize, Arc<Segment>>>,
    dirs: Mutex<Dirs>,
    stats: Mutex<SyncStats>,
    descriptors: Descriptors,
}

#[derive(Default)]
struct Dirs {
    /// Directories whose entries changed, and at which of the changes noted so far.
    changed: BTreeMap<PathBuf, u64>,
    /// Changes noted so far.
    changes: u64,
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncStats {
    /// Files synced.
    pub syncs: u64,
    /// Microseconds spent in syncs, summed over files.
    pub sync_micros: u64,
    /// The longest sync of one file, in microseconds.
    pub longest_micros: u64,
    /// Syncs by how long they took; the bounds are [`SYNC_TIME_BOUNDS`].
    pub histogram: [u64; SYNC_TIME_BOUNDS.len() + 1],
    /// Files that have unsynced writes now.
    pub pending: u64,
}

/// Counts and times of one pass over the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncPass {
    /// Files synced.
    pub files: u64,
    /// Time spent in syncs, summed over files.
    pub total: Duration,
    /// The longest sync of one file.
    pub longest: Duration,
}

impl SyncPass {
    fn add(&mut self, other: SyncPass) {
        self.files += other.files;
        self.total += other.total;
        self.longest = self.longest.max(other.longest);
    }

    /// Mean time of a sync.
    #[must_use]
    pub fn average(&self) -> Duration {
        let files = u32::try_from(self.files.max(1)).unwrap_or(u32::MAX);
        self.total / files
    }
}

fn address(segment: &Arc<Segment>) -> usize {
    Arc::as_ptr(segment).addr()
}

impl SyncTable {
    /// An empty table, of at most about `most_open` open files. Without `fsync` nothing is ever
    /// synced.
    #[must_use]
    pub fn new(
        disk: Arc<dyn Disk>,
        fsync: bool,
        poison: &Arc<Poison>,
        most_open: usize,
    ) -> Arc<SyncTable> {
        Arc::new(SyncTable {
            disk,
            fsync,
            poison: Arc::clone(poison),
            open: Mutex::default(),
            dirs: Mutex::default(),
            stats: Mutex::default(),
            descriptors: Descriptors::new(most_open),
        })
    }

    /// The disk that the files are on.
    pub(super) fn disk(&self) -> &dyn Disk {
        &*self.disk
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

    /// Opens a segment with `open` and takes it into the table, so that a completed write of it has
    /// only to be counted. It stays open while something written to it is not synced.
    ///
    /// # Errors
    /// Those of `open`, and of the syncs that closing others may need.
    pub(crate) fn register(
        &self,
        path: &Path,
        temporary: bool,
        open: impl Fn() -> IoResult<Arc<dyn File>>,
    ) -> StorageResult<OpenSegment> {
        let segment = Segment::new(path, temporary, self.descriptors.open());
        let opened = self.open_segment(&segment, open)?;
        self.open.lock().insert(address(&segment), segment);
        Ok(opened)
    }

    /// A segment for use, opened with `open` if it was closed. Others are closed for it if too many
    /// are open, by this count or by the system's.
    ///
    /// # Errors
    /// As [`SyncTable::register`].
    pub(crate) fn open_segment(
        &self,
        segment: &Arc<Segment>,
        open: impl Fn() -> IoResult<Arc<dyn File>>,
    ) -> StorageResult<OpenSegment> {
        if let Some(open) = segment.if_open() {
            return Ok(open);
        }
        if self.descriptors.is_full() {
            self.close_others()?;
        }
        let (open, opened) = self.with_descriptor(|| segment.open_with(&open))?;
        if opened {
            self.descriptors.opened(segment);
        }
        Ok(open)
    }

    /// Does what needs a file descriptor. If the process has none left, segment files that nobody
    /// uses are closed for it.
    ///
    /// # Errors
    /// Those of `act`, and of the syncs that closing others may need.
    pub(crate) fn with_descriptor<T>(&self, act: impl Fn() -> IoResult<T>) -> StorageResult<T> {
        match act() {
            Err(error) if error.kind() == IoErrorKind::TooManyFiles => {
                self.close_others()?;
                Ok(act()?)
            }
            other => Ok(other?),
        }
    }

    /// As [`Disk::sync_dir`], if syncs are done at all. A failed sync poisons the instance; one
    /// that found no descriptor has not begun, and leaves everything to the next.
    pub(super) fn sync_entries(&self, dir: &Path) -> StorageResult<()> {
        if !self.fsync {
            return Ok(());
        }
        let synced = self.with_descriptor(|| self.disk.sync_dir(dir));
        synced.inspect_err(|error| {
            if !matches!(error, StorageError::TooManyFiles(_)) {
                self.poison.set(error.to_string());
            }
        })
    }

    /// Closes some of the files that nobody uses. Those that need a sync get it first, if there are
    /// no others.
    fn close_others(&self) -> StorageResult<()> {
        #[cfg(test)]
        let careless = self.poison.has(crate::mutant::Mutant::ClosedUnsynced);
        #[cfg(not(test))]
        let careless = false;
        let share = self.descriptors.share();
        if self.descriptors.close_idle(share, careless) == 0 {
            let unsynced = self.descriptors.unsynced(share);
            self.sync_segments(&unsynced)?;
            self.descriptors.close_idle(share, careless);
        }
        Ok(())
    }

    /// Notes that entries of `dir` were made or removed.
    pub(crate) fn note_dir(&self, dir: &Path) {
        let mut dirs = self.dirs.lock();
        dirs.changes += 1;
        let change = dirs.changes;
        dirs.changed.insert(dir.to_path_buf(), change);
    }

    /// Forgets a file that is being unlinked.
    pub(crate) fn forget(&self, segment: &Arc<Segment>) {
        segment.drop_file();
        self.open.lock().remove(&address(segment));
    }

    /// Makes durable every write and directory change noted before the call, several files at
    /// once. Writes and changes noted while it runs are left to the next pass, so that it ends.
    ///
    /// # Errors
    /// A failed sync poisons the instance; the error names the file. Nothing counts as synced
    /// then that was not.
    pub fn sync_all(&self) -> StorageResult<SyncPass> {
        self.poison.check()?;
        let segments: Vec<_> = {
            let open = self.open.lock();
            let unsynced = open.values().filter(|segment| segment.needs_sync());
            unsynced.map(Arc::clone).collect()
        };
        let dirs: Vec<PathBuf> = self.dirs.lock().changed.keys().cloned().collect();
        let pass = self.sync_segments(&segments)?;
        for dir in &dirs {
            self.sync_dir(dir)?;
        }
        drop(segments);
        let mut open = self.open.lock();
        open.retain(|_, segment| Arc::strong_count(segment) > 1 || segment.needs_sync());
        Ok(pass)
    }

    /// Syncs one directory and takes it off the list.
    ///
    /// # Errors
    /// As [`SyncTable::sync_all`].
    pub(crate) fn sync_dir(&self, dir: &Path) -> StorageResult<()> {
        let change = self.dirs.lock().changed.get(dir).copied();
        self.sync_entries(dir)?;
        // Only now, as for files: who looks for what is to be synced meanwhile must find it. A
        // change during the sync keeps it.
        let mut dirs = self.dirs.lock();
        if dirs.changed.get(dir).copied() == change {
            dirs.changed.remove(dir);
        }
        Ok(())
    }

    /// Makes every write of these files that was counted before the call durable.
    ///
    /// # Errors
    /// As [`SyncTable::sync_all`].
    pub(crate) fn sync_segments(&self, segments: &[Arc<Segment>]) -> StorageResult<SyncPass> {
        let result = match segments {
            [] => Ok(SyncPass::default()),
            [one] => self.sync_one(one),
            many => self.sync_in_parallel(many),
        };
        result.map_err(|error| self.fail(error))
    }

    fn sync_in_parallel(&self, segments: &[Arc<Segment>]) -> Result<SyncPass, IoError> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut pass = SyncPass::default();
            while let Some(segment) = segments.get(next.fetch_add(1, Ordering::Relaxed)) {
                pass.add(self.sync_one(segment)?);
            }
            Ok(pass)
        };
        let helpers = segments.len().min(PARALLEL_SYNCS).saturating_sub(1);
        parallel::share("evenkeel-sync", helpers, work, |mut ours, theirs| {
            ours.add(theirs);
            ours
        })
    }

    fn sync_one(&self, segment: &Arc<Segment>) -> Result<SyncPass, IoError> {
        let start = Instant::now();
        #[cfg(test)]
        if self.poison.has(crate::mutant::Mutant::ClosedUnsynced) {
            let opts = evenkeel_io::OpenOptions::read_write();
            segment.open_with(|| self.disk.open(segment.path(), opts))?;
        }
        if !segment.sync(self.fsync)? {
            return Ok(SyncPass::default());
        }
        let took = start.elapsed();
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if took > SLOW_SYNC {
            let path = segment.path().display();
            tracing::warn!("syncing {path} took {:.1} s", took.as_secs_f64());
        }
        let mut stats = self.stats.lock();
        stats.syncs += 1;
        stats.sync_micros = stats.sync_micros.saturating_add(micros);
        stats.longest_micros = stats.longest_micros.max(micros);
        stats.histogram[SYNC_TIME_BOUNDS.partition_point(|bound| *bound < micros)] += 1;
        Ok(SyncPass {
            files: 1,
            total: took,
            longest: took,
        })
    }

    /// A sync failed: nothing that it was to make durable can be trusted.
    pub(super) fn fail(&self, error: IoError) -> StorageError {
        self.poison.set(error.to_string());
        error.into()
    }

    /// Counters since the start, or since [`SyncTable::reset_stats`].
    #[must_use]
    pub fn stats(&self) -> SyncStats {
        let open = self.open.lock();
        let pending = open.values().filter(|segment| segment.needs_sync()).count();
        SyncStats {
            pending: pending as u64,
            ..*self.stats.lock()
        }
    }

    /// Data files that are open.
    #[must_use]
    pub fn open_files(&self) -> usize {
        self.descriptors.open().load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(super) fn while_locked<T>(&self, act: impl FnOnce() -> T) -> T {
        let _open = self.open.lock();
        let _dirs = self.dirs.lock();
        let _stats = self.stats.lock();
        act()
    }

    /// Begins counting anew.
    pub fn reset_stats(&self) {
        *self.stats.lock() = SyncStats::default();
    }
}
