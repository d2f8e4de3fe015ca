//! Segment files of the log: names, making them ahead of use, recycling.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_io::{AlignedBuf, Disk, File, IoErrorKind, OpenOptions};
use parking_lot::{Condvar, Mutex};

use crate::error::{StorageError, StorageResult};
use crate::ids::Lsn;
use crate::poison::Poison;

/// Prefix of files that are being made and mean nothing yet.
const TEMPORARY: &str = "new-";
/// Bytes written at once when a segment is made.
const FILL: usize = 1 << 20;
/// Who waits for a segment looks at the poison so often: nobody may be making any.
const RECHECK: Duration = Duration::from_millis(50);
/// How long to wait before trying again when a segment could not be made.
const RETRY: Duration = Duration::from_millis(500);

/// Which segment holds which bytes, and what the file is called.
#[derive(Clone, Debug)]
pub struct SegmentLayout {
    /// The `wal` directory.
    pub dir: PathBuf,
    /// Bytes in a segment; a power of two.
    pub size: u64,
    /// Timeline that the names carry.
    pub timeline: u32,
}

impl SegmentLayout {
    /// Number of the segment that holds the byte at `lsn`.
    #[must_use]
    pub fn segment_of(&self, lsn: Lsn) -> u64 {
        lsn.0 / self.size
    }

    /// First byte of a segment.
    #[must_use]
    pub fn start_of(&self, segment: u64) -> Lsn {
        Lsn(segment.saturating_mul(self.size))
    }

    /// Path of a segment's file.
    #[must_use]
    pub fn path(&self, segment: u64) -> PathBuf {
        self.dir
            .join(format!("{:08x}-{segment:016x}", self.timeline))
    }

    /// Number of the segment that a file of this timeline is; `None` for any other file.
    #[must_use]
    pub fn parse_name(&self, name: &str) -> Option<u64> {
        let (timeline, segment) = name.split_once('-')?;
        if timeline.len() != 8 || segment.len() != 16 {
            return None;
        }
        let same = u32::from_str_radix(timeline, 16).ok()? == self.timeline;
        same.then(|| u64::from_str_radix(segment, 16).ok())
            .flatten()
    }

    /// Numbers of all segments in the directory, ascending.
    ///
    /// # Errors
    /// When the directory cannot be listed.
    pub fn list(&self, disk: &dyn Disk) -> StorageResult<Vec<u64>> {
        let names = disk.list(&self.dir)?;
        let mut segments: Vec<u64> = names
            .iter()
            .filter_map(|name| self.parse_name(name))
            .collect();
        segments.sort_unstable();
        Ok(segments)
    }
}

#[derive(Default)]
struct State {
    /// Every segment from the current one up to this one exists, written.
    ready: u64,
    /// Old segments that may become new ones.
    spare: VecDeque<u64>,
    /// How many segments ahead of the current one old ones are kept for.
    ahead: u64,
    failure: Option<StorageError>,
    counts: SegmentCounts,
    stop: bool,
}

/// Makes segments ahead of the flusher and recycles those that the redo point has passed.
pub(crate) struct Segments {
    disk: Arc<dyn Disk>,
    layout: SegmentLayout,
    fsync: bool,
    direct: bool,
    least_ahead: u64,
    /// Segments that admitted work may still fill, behind the current one.
    reserve: u64,
    /// Segment the flusher writes to.
    current: AtomicU64,
    /// Fewer segments than the reserve are ready behind the current one, and none can be made.
    exhausted: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
    poison: Arc<Poison>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What was done with segments since somebody last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentCounts {
    pub added: u64,
    pub removed: u64,
    pub recycled: u64,
}

/// How the flusher's files are opened and synced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentOptions {
    pub fsync: bool,
    pub direct: bool,
    pub ahead: u32,
    /// Log that may be in memory when work is refused, in bytes.
    pub unwritten: u64,
}

impl Segments {
    /// Takes stock of the segments from the one at `start` on, makes that one if it is missing,
    /// and starts the thread that keeps more ready.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        layout: SegmentLayout,
        options: SegmentOptions,
        start: Lsn,
        poison: &Arc<Poison>,
    ) -> StorageResult<Arc<Segments>> {
        let current = layout.segment_of(start);
        // What is in memory, and one more for what is admitted and not yet written there.
        let reserve = options.unwritten.div_ceil(layout.size) + 1;
        let segments = Segments {
            disk,
            layout,
            fsync: options.fsync,
            direct: options.direct,
            least_ahead: u64::from(options.ahead).max(reserve),
            reserve,
            current: AtomicU64::new(current),
            exhausted: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Condvar::new(),
            poison: Arc::clone(poison),
            thread: Mutex::new(None),
        };
        let ready = segments.take_stock(current)?;
        *segments.state.lock() = State {
            ready,
            ahead: segments.least_ahead,
            ..State::default()
        };
        let segments = Arc::new(segments);
        let worker = Arc::clone(&segments);
        let thread = std::thread::Builder::new()
            .name("wal-segments".into())
            .spawn(move || worker.run())
            .map_err(|error| StorageError::Config(format!("cannot start a thread: {error}")))?;
        *segments.thread.lock() = Some(thread);
        Ok(segments)
    }

    /// Removes what was left half made and returns the last segment of those that are ready.
    fn take_stock(&self, current: u64) -> StorageResult<u64> {
        for name in self.disk.list(&self.layout.dir)? {
            if name.starts_with(TEMPORARY) {
                self.disk.remove(&self.layout.dir.join(name))?;
            }
        }
        if !self.disk.exists(&self.layout.path(current))? {
            self.make(current)?;
        }
        let mut ready = current;
        while self.is_whole(ready + 1)? {
            ready += 1;
        }
        for segment in self.layout.list(self.disk.as_ref())? {
            if segment > ready {
                self.disk.remove(&self.layout.path(segment))?;
            }
        }
        // A rename seen by this process may not have reached the disk.
        self.sync_dir()?;
        Ok(ready)
    }

    fn is_whole(&self, segment: u64) -> StorageResult<bool> {
        let path = self.layout.path(segment);
        if !self.disk.exists(&path)? {
            return Ok(false);
        }
        let len = self.disk.open(&path, OpenOptions::read_only())?.len()?;
        Ok(len == self.layout.size)
    }

    fn sync_dir(&self) -> StorageResult<()> {
        if self.fsync {
            self.disk.sync_dir(&self.layout.dir)?;
        }
        Ok(())
    }

    /// Writes a segment full of zeros and gives it its name.
    fn make(&self, segment: u64) -> StorageResult<()> {
        let temporary = self.layout.dir.join(format!("{TEMPORARY}{segment:016x}"));
        let result = self.write_zeros(&temporary);
        if let Err(error) = result {
            // The space counts more than the reason why removing it might fail too.
            let _ = self.disk.remove(&temporary);
            return Err(error);
        }
        self.disk.rename(&temporary, &self.layout.path(segment))?;
        self.sync_dir()
    }

    fn write_zeros(&self, path: &Path) -> StorageResult<()> {
        let file = self.disk.open(path, OpenOptions::create().truncate())?;
        let size = self.layout.size;
        file.allocate(0, size)?;
        let zeros = AlignedBuf::zeroed(FILL.min(size as usize));
        let mut at = 0;
        while at < size {
            file.write_all_at(&zeros, at)?;
            // Not all of it at once: commits use the same device.
            file.await_writeback(at, zeros.len() as u64)?;
            at += zeros.len() as u64;
        }
        if self.fsync {
            file.sync_all()?;
        }
        Ok(())
    }

    fn run(&self) {
        let _who = crate::stats::BackendType::WalWriter.enter();
        let _guard = self.poison.guard("wal-segments");
        let mut state = self.state.lock();
        while !state.stop {
            let current = self.current.load(Ordering::Acquire);
            // New ones are made only for what is needed soon: a cycle lives on the segments of the
            // one before, and whoever wrote them again each time would double the log's volume.
            let soon = state.ready < current + self.least_ahead;
            if !soon && (state.spare.is_empty() || state.ready >= current + state.ahead) {
                if let Some(old) = state.spare.pop_front() {
                    // Look again afterwards: the lock is given up meanwhile.
                    parking_lot::MutexGuard::unlocked(&mut state, || self.remove_old(old));
                    state.counts.removed += 1;
                } else {
                    self.changed.wait(&mut state);
                }
                continue;
            }
            let next = state.ready + 1;
            let spare = state.spare.pop_front();
            let made = parking_lot::MutexGuard::unlocked(&mut state, || match spare {
                Some(old) => self.recycle(old, next),
                None => self.make(next),
            });
            match made {
                Ok(()) => {
                    state.ready = next;
                    match spare {
                        Some(_) => state.counts.recycled += 1,
                        None => state.counts.added += 1,
                    }
                    self.succeeded(&mut state);
                }
                Err(error) => self.failed(&mut state, error),
            }
        }
    }

    /// Work is admitted again only when all of it may fill is there.
    fn succeeded(&self, state: &mut State) {
        if state.ready >= self.current.load(Ordering::Acquire) + self.reserve {
            if state.failure.take().is_some() {
                tracing::info!("log segments can be made again");
            }
            self.exhausted.store(false, Ordering::Release);
        }
        self.changed.notify_all();
    }

    fn failed(&self, state: &mut parking_lot::MutexGuard<'_, State>, error: StorageError) {
        if state.failure.is_none() {
            tracing::warn!("could not make a log segment ahead of use: {error}");
        }
        state.failure = Some(error);
        if state.ready < self.current.load(Ordering::Acquire) + self.reserve {
            self.exhausted.store(true, Ordering::Release);
        }
        self.changed.notify_all();
        self.changed.wait_for(state, RETRY);
    }

    /// Gives an old segment a new name. What it holds stays: salted checksums tell (wal rule 3).
    fn recycle(&self, old: u64, new: u64) -> StorageResult<()> {
        match self
            .disk
            .rename(&self.layout.path(old), &self.layout.path(new))
        {
            Ok(()) => self.sync_dir(),
            Err(error) if error.kind() == IoErrorKind::NotFound => self.make(new),
            Err(error) => Err(error.into()),
        }
    }

    fn remove_old(&self, old: u64) {
        if let Err(error) = self.disk.remove(&self.layout.path(old)) {
            tracing::warn!("could not remove an old log segment: {error}");
        }
    }

    /// Whether the disk has no room for another segment and work is refused.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.exhausted.load(Ordering::Acquire)
    }

    /// An error while the disk has no room for another segment: work must not begin then.
    #[inline]
    pub(crate) fn admit(&self) -> StorageResult<()> {
        if self.exhausted.load(Ordering::Acquire) {
            self.exhausted_error()
        } else {
            Ok(())
        }
    }

    #[cold]
    fn exhausted_error(&self) -> StorageResult<()> {
        self.state.lock().failure.clone().map_or(Ok(()), Err)
    }

    /// Opens a segment for the flusher, waiting until it is ready.
    pub(crate) fn open_for_writing(&self, segment: u64) -> StorageResult<Arc<dyn File>> {
        self.current.fetch_max(segment, Ordering::AcqRel);
        let mut state = self.state.lock();
        let mut failures = 0;
        self.changed.notify_all();
        while state.ready < segment {
            if state.stop {
                return Err(StorageError::ShutDown);
            }
            self.poison.check()?;
            if self.changed.wait_for(&mut state, RECHECK).timed_out() {
                continue;
            }
            if let (Some(error), true) = (&state.failure, state.ready < segment) {
                failures += 1;
                if failures > 1 {
                    return Err(error.clone());
                }
            }
        }
        drop(state);
        let options = OpenOptions::read_write();
        let path = self.layout.path(segment);
        match self.disk.open(&path, options.direct(self.direct)) {
            Err(error) if self.direct && error.kind() == IoErrorKind::Unsupported => {
                Ok(self.disk.open(&path, options)?)
            }
            opened => Ok(opened?),
        }
    }

    /// Offers every segment below `keep` for recycling: as many of them as `ahead` segments behind
    /// the current one need, the others are removed.
    pub(crate) fn recycle_below(&self, keep: Lsn, ahead: u64) -> StorageResult<usize> {
        let keep = self.layout.segment_of(keep);
        let old: Vec<u64> = self
            .layout
            .list(self.disk.as_ref())?
            .into_iter()
            .filter(|&segment| segment < keep)
            .collect();
        let mut state = self.state.lock();
        let count = old.len();
        state.spare = old.into();
        state.ahead = ahead.max(self.least_ahead);
        self.changed.notify_all();
        Ok(count)
    }

    /// Bytes from `lsn`, in the current segment, to the end of the last segment that is ready.
    pub(crate) fn ready_from(&self, lsn: Lsn) -> u64 {
        let end = self.layout.start_of(self.state.lock().ready + 1);
        end.0.saturating_sub(lsn.0)
    }

    /// Segments that are ready behind the current one in any case.
    pub(crate) fn least_ahead(&self) -> u64 {
        self.least_ahead
    }

    /// What was done since the last call.
    pub(crate) fn take_counts(&self) -> SegmentCounts {
        std::mem::take(&mut self.state.lock().counts)
    }

    pub(crate) fn layout(&self) -> &SegmentLayout {
        &self.layout
    }

    /// Stops the thread.
    pub(crate) fn stop(&self) {
        self.state.lock().stop = true;
        self.changed.notify_all();
        if let Some(thread) = self.thread.lock().take() {
            // A panic there has already been reported; nothing depends on it any more.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_io::{FileDisk, IoMethod};

    fn layout(dir: &Path) -> SegmentLayout {
        SegmentLayout {
            dir: dir.to_owned(),
            size: 64 << 10,
            timeline: 1,
        }
    }

    fn open(dir: &Path, ahead: u32) -> Arc<Segments> {
        let disk: Arc<dyn Disk> = Arc::new(FileDisk::new(IoMethod::Sync));
        let options = SegmentOptions {
            fsync: false,
            direct: false,
            ahead,
            unwritten: 1,
        };
        let poison = Poison::new();
        Segments::open(disk, layout(dir), options, Lsn(64 << 10), &poison).expect("opens")
    }

    fn wait_until(what: impl Fn() -> bool) {
        let start = std::time::Instant::now();
        while !what() {
            assert!(start.elapsed() < Duration::from_secs(60), "waited too long");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn names_say_timeline_and_position() {
        let layout = layout(Path::new("wal"));
        let name = "00000001-000000000000002a";
        assert_eq!(layout.path(42), Path::new("wal").join(name));
        assert_eq!(layout.parse_name(name), Some(42));
        for other in [
            "00000002-000000000000002a",
            "new-000000000000002a",
            "2a",
            "a-b",
            "",
        ] {
            assert_eq!(layout.parse_name(other), None, "{other}");
        }
    }

    #[test]
    fn segments_are_made_ahead_and_old_ones_recycled() {
        let dir = tempfile::tempdir().expect("temporary directory");
        std::fs::write(dir.path().join("new-0000000000000009"), b"half").expect("write");
        let segments = open(dir.path(), 2);
        let list = || segments.layout.list(segments.disk.as_ref()).expect("list");
        wait_until(|| list() == [1, 2, 3]);
        let file = segments.open_for_writing(3).expect("opens");
        assert_eq!(file.len().expect("length"), 64 << 10);
        wait_until(|| list() == [1, 2, 3, 4, 5]);
        segments
            .recycle_below(segments.layout.start_of(3), 3)
            .expect("recycles");
        wait_until(|| list() == [3, 4, 5, 6]);
        segments.stop();
        assert_eq!(std::fs::read_dir(dir.path()).expect("list").count(), 4);
    }

    #[test]
    fn work_is_admitted_again_when_all_that_it_may_fill_is_there() {
        let disk = evenkeel_io::SimDisk::new(1);
        disk.create_dir_all(Path::new("/wal")).expect("directory");
        let full = |nth| {
            use evenkeel_io::{Fault, FaultKind, OpKind};
            Fault::nth(nth, FaultKind::Enospc)
                .on(OpKind::Allocate)
                .sticky()
        };
        let options = SegmentOptions {
            fsync: true,
            direct: false,
            ahead: 2,
            unwritten: 1,
        };
        // The current one can be made, and no other.
        disk.inject(full(2));
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let layout = layout(Path::new("/wal"));
        let segments = Segments::open(shared, layout, options, Lsn(64 << 10), &Poison::new());
        let segments = segments.expect("opens");
        wait_until(|| segments.is_exhausted());
        disk.clear_faults();
        disk.inject(full(2));
        wait_until(|| segments.state.lock().ready == 2);
        std::thread::sleep(Duration::from_millis(20));
        assert!(segments.admit().is_err(), "one of two is there");
        disk.clear_faults();
        wait_until(|| segments.admit().is_ok());
        assert!(segments.state.lock().ready >= 3);
        segments.stop();
    }

    #[test]
    fn a_cycle_lives_on_the_segments_of_the_one_before() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let segments = open(dir.path(), 2);
        let mut current = 1;
        for cycle in 0..5 {
            for _ in 0..6 {
                current += 1;
                segments.open_for_writing(current).expect("opens");
            }
            wait_until(|| segments.state.lock().ready >= current + 2);
            let spared = segments
                .recycle_below(segments.layout.start_of(current), 9)
                .expect("recycles");
            assert!(spared >= 6, "cycle {cycle}: {spared}");
            wait_until(|| segments.state.lock().spare.is_empty());
            let counts = segments.take_counts();
            if cycle > 0 {
                assert_eq!(counts.added, 0, "cycle {cycle}: {counts:?}");
            }
        }
        segments.stop();
    }
}
