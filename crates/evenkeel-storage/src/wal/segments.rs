//! Segment files of the log: names, making them ahead of use, recycling.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_io::{AlignedBuf, Disk, File, IoErrorKind, OpenOptions};
use parking_lot::{Condvar, Mutex};

use crate::error::{StorageError, StorageResult};
use crate::gaps::Gaps;
use crate::ids::Lsn;
use crate::poison::Poison;
use crate::wal::layout::{BLOCK, SegmentLayout};
use crate::wal::unused;

/// Prefix of files that are being made and mean nothing yet.
const TEMPORARY: &str = "new-";
/// Bytes written at once when a segment is made.
const FILL: usize = 1 << 20;
/// A thread that waits for a segment checks the poison so often: nobody may be making any.
const RECHECK: Duration = Duration::from_millis(50);
/// Least that is made of a segment when the disk is full: more than a start and a stop write.
const LEAST_CUT: u64 = 16 << 10;
/// How long to wait before trying again when a segment could not be made.
const RETRY: Duration = Duration::from_millis(500);

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
    /// The first segment that this run writes is not all there, for want of space.
    is_cut: bool,
    /// Segments are made ahead of use, and not only when the flusher waits for one.
    make_ahead: bool,
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
    /// The first segment that this run writes new log to.
    first: u64,
    /// Segment the flusher writes to.
    current: AtomicU64,
    /// Fewer segments than the reserve are ready behind the current one, and none can be made.
    exhausted: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
    poison: Arc<Poison>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Counts of segments added, removed and recycled since the counts were last taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentCounts {
    pub added: u64,
    pub removed: u64,
    pub recycled: u64,
}

/// Where new log goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    /// On from here.
    At(Lsn),
    /// To a fresh segment beyond the highest that exists, after a log that ended at `end`.
    Fresh {
        end: Lsn,
        /// Nothing before this is needed.
        redo: Lsn,
        gaps: &'a Gaps,
    },
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
    /// Takes stock of the segments, makes the first one for new log if it is missing, and starts
    /// the thread that keeps more ready, once [`Segments::make_ahead`] says so.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        layout: SegmentLayout,
        options: SegmentOptions,
        place: Place<'_>,
        poison: &Arc<Poison>,
    ) -> StorageResult<Arc<Segments>> {
        let current = match place {
            Place::At(lsn) => layout.segment_of(lsn),
            Place::Fresh { end, .. } => {
                let last = layout.list(disk.as_ref())?.last().copied();
                last.unwrap_or_default().max(layout.segment_of(end)) + 1
            }
        };
        // For the log in memory, and one more for log that is admitted and not yet written there.
        let reserve = options.unwritten.div_ceil(layout.size) + 1;
        let mut segments = Segments {
            disk,
            layout,
            fsync: options.fsync,
            direct: options.direct,
            least_ahead: u64::from(options.ahead).max(reserve),
            reserve,
            first: current,
            current: AtomicU64::new(current),
            exhausted: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Condvar::new(),
            poison: Arc::clone(poison),
            thread: Mutex::new(None),
        };
        let stock = match place {
            Place::At(_) => segments.take_stock(current)?,
            Place::Fresh { end, redo, gaps } => segments.begin_fresh(current, end, redo, gaps)?,
        };
        // Admitted records may fill the whole of the first segment.
        segments.exhausted = AtomicBool::new(stock.is_cut);
        *segments.state.lock() = State {
            ahead: segments.least_ahead,
            ..stock
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

    /// Removes what was left half made and says which segments are ready. Those behind a missing
    /// one are removed too: the search for the log's end has been through all of them and found
    /// that they prove nothing (WAL-8).
    fn take_stock(&self, current: u64) -> StorageResult<State> {
        self.remove_unfinished()?;
        let mut stock = State::default();
        stock.failure = if !self.disk.exists(&self.layout.path(current))? {
            self.make_first(current)?
        } else if !self.is_whole(current)? {
            self.complete(current).err()
        } else {
            None
        };
        stock.is_cut = stock.failure.is_some();
        stock.ready = current;
        while self.is_whole(stock.ready + 1)? {
            stock.ready += 1;
        }
        for segment in self.layout.list(self.disk.as_ref())? {
            if segment > stock.ready {
                self.disk.remove(&self.layout.path(segment))?;
            }
        }
        // A rename seen by this process may not have reached the disk.
        self.sync_dir()?;
        Ok(stock)
    }

    /// Makes the first segment behind all others, of one that is not needed if there is any, so
    /// that a full disk has room for it. Without either it is cut: a start has little to write, and
    /// nothing is admitted until the rest can be had (GAP-5).
    fn begin_fresh(&self, current: u64, end: Lsn, redo: Lsn, gaps: &Gaps) -> StorageResult<State> {
        self.remove_unfinished()?;
        let start_of = |segment| self.layout.start_of(segment);
        // The search for the log's end has been through those behind it (WAL-8).
        let is_needed = |segment: u64| {
            let log = gaps.log_between(start_of(segment), start_of(segment + 1).min(end));
            segment >= self.layout.segment_of(redo) && log > 0
        };
        let mut stock = State::default();
        for segment in self.layout.list(self.disk.as_ref())? {
            if is_needed(segment) {
                continue;
            }
            if self.is_whole(segment)? {
                stock.spare.push_back(segment);
            } else {
                self.disk.remove(&self.layout.path(segment))?;
            }
        }
        stock.failure = match stock.spare.pop_back() {
            Some(old) => self.recycle(old, current).map(|()| None)?,
            None => self.make_first(current)?,
        };
        // The log's end is sealed there soon, which must not meet the thread that renames spares.
        stock
            .spare
            .retain(|segment| *segment != self.layout.segment_of(end));
        stock.is_cut = stock.failure.is_some();
        stock.ready = current;
        self.sync_dir()?;
        Ok(stock)
    }

    /// Makes a segment, or its beginning: then says why not more.
    fn make_first(&self, segment: u64) -> StorageResult<Option<StorageError>> {
        match self.make(segment) {
            Err(error @ StorageError::DiskFull(_)) => {
                self.make_cut(segment)?;
                Ok(Some(error))
            }
            other => other.map(|()| None),
        }
    }

    fn remove_unfinished(&self) -> StorageResult<()> {
        for name in self.disk.list(&self.layout.dir)? {
            if name.starts_with(TEMPORARY) {
                self.disk.remove(&self.layout.dir.join(name))?;
            }
        }
        Ok(())
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

    /// Writes a segment of zeros and marks, and gives it its name.
    fn make(&self, segment: u64) -> StorageResult<()> {
        self.make_with(segment, self.layout.size)
    }

    /// Makes as much of the beginning of a segment as there is space for.
    fn make_cut(&self, segment: u64) -> StorageResult<()> {
        let mut len = self.layout.size / 2;
        loop {
            match self.make_with(segment, len) {
                Err(StorageError::DiskFull(_)) if len > LEAST_CUT => len /= 2,
                other => return other,
            }
        }
    }

    /// Makes the first `len` bytes of a segment, and gives it its name.
    fn make_with(&self, segment: u64, len: u64) -> StorageResult<()> {
        let temporary = self.layout.dir.join(format!("{TEMPORARY}{segment:016x}"));
        let result = self.write_unused(&temporary, self.layout.start_of(segment), len);
        if let Err(error) = result {
            // The space counts more than the reason why removing it might fail too.
            let _ = self.disk.remove(&temporary);
            return Err(error);
        }
        self.disk.rename(&temporary, &self.layout.path(segment))?;
        self.sync_dir()
    }

    fn write_unused(&self, path: &Path, start: Lsn, len: u64) -> StorageResult<()> {
        let file = self.disk.open(path, OpenOptions::create().truncate())?;
        file.allocate(0, len)?;
        let mut piece = AlignedBuf::zeroed(FILL.min(len as usize));
        let mut at = 0;
        while at < len {
            if at.is_multiple_of(unused::stripe(self.layout.size)) {
                unused::encode(Lsn(start.0 + at), &mut piece[..BLOCK]);
            } else {
                piece[..BLOCK].fill(0);
            }
            file.write_all_at(&piece, at)?;
            // Not all of it at once: commits use the same device.
            file.await_writeback(at, piece.len() as u64)?;
            at += piece.len() as u64;
        }
        if self.fsync {
            file.sync_all()?;
        }
        Ok(())
    }

    /// Takes the space that a segment lacks. It is not written: the flusher may be writing there.
    fn complete(&self, segment: u64) -> StorageResult<()> {
        let options = OpenOptions::read_write();
        let file = self.disk.open(&self.layout.path(segment), options)?;
        let len = file.len()?;
        file.allocate(len, self.layout.size.saturating_sub(len))?;
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
            if state.is_cut && state.make_ahead {
                let complete = || self.complete(self.first);
                match parking_lot::MutexGuard::unlocked(&mut state, complete) {
                    Ok(()) => {
                        state.is_cut = false;
                        self.succeeded(&mut state);
                    }
                    Err(error) => self.failed(&mut state, error),
                }
                continue;
            }
            // New ones are made only for what is needed soon: a cycle lives on the segments of the
            // one before, and whoever wrote them again each time would double the log's volume.
            let soon = state.ready < current + self.ahead_now(&state);
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

    /// Segments to be made behind the current one, if no old ones can be had.
    fn ahead_now(&self, state: &State) -> u64 {
        match state.make_ahead {
            true => self.least_ahead,
            false => 0,
        }
    }

    /// Whether segments are made ahead of use. While the database starts and stops they are not: on
    /// a full disk they would take the space that is kept for that.
    pub(crate) fn make_ahead(&self, ahead: bool) {
        self.state.lock().make_ahead = ahead;
        self.changed.notify_all();
    }

    /// Work is admitted again only when all of it may fill is there.
    fn succeeded(&self, state: &mut State) {
        let enough = self.current.load(Ordering::Acquire) + self.reserve;
        if state.ready >= enough && !state.is_cut {
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
        if state.is_cut || state.ready < self.current.load(Ordering::Acquire) + self.reserve {
            self.exhausted.store(true, Ordering::Release);
        }
        self.changed.notify_all();
        self.changed.wait_for(state, RETRY);
    }

    /// Marks an old segment as unused and gives it a new name. The rest of what it holds stays:
    /// salted checksums tell (WAL-3).
    fn recycle(&self, old: u64, new: u64) -> StorageResult<()> {
        let path = self.layout.path(old);
        let file = match self.disk.open(&path, OpenOptions::read_write()) {
            Ok(file) => file,
            Err(error) if error.kind() == IoErrorKind::NotFound => return self.make(new),
            Err(error) => return Err(error.into()),
        };
        let (size, start) = (self.layout.size, self.layout.start_of(new));
        let mut block = AlignedBuf::zeroed(BLOCK);
        for at in (0..size).step_by(unused::stripe(size) as usize) {
            unused::encode(Lsn(start.0 + at), &mut block);
            file.write_all_at(&block, at)?;
        }
        if self.fsync {
            // Before the name: a mark that came later could cover log.
            file.sync_data()?;
        }
        self.disk.rename(&path, &self.layout.path(new))?;
        self.sync_dir()
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
        let mut warned = false;
        loop {
            match self.open_segment(segment) {
                // Nothing is lost yet, and what is in memory must get to the disk.
                Err(StorageError::TooManyFiles(error)) => {
                    self.poison.check()?;
                    if !warned {
                        tracing::warn!("{error}; the log waits until a file can be opened");
                        warned = true;
                    }
                    std::thread::sleep(RECHECK);
                }
                other => return other,
            }
        }
    }

    fn open_segment(&self, segment: u64) -> StorageResult<Arc<dyn File>> {
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
        let mut old = Vec::new();
        for segment in self.layout.list(self.disk.as_ref())? {
            if segment >= keep {
                break;
            }
            match self.is_whole(segment)? {
                true => old.push(segment),
                // The log ended there once (GAP-4).
                false => self.remove_old(segment),
            }
        }
        let mut state = self.state.lock();
        let count = old.len();
        state.spare = old.into();
        state.ahead = ahead.max(self.least_ahead);
        self.changed.notify_all();
        Ok(count)
    }

    /// Whether the segment that holds the byte at `lsn` exists.
    pub(super) fn has(&self, lsn: Lsn) -> StorageResult<bool> {
        let path = self.layout.path(self.layout.segment_of(lsn));
        Ok(self.disk.exists(&path)?)
    }

    /// The first segment for new log.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Gives up the space of a segment behind `end`, where the log has ended for good.
    pub(super) fn cut_behind(&self, end: Lsn) -> StorageResult<()> {
        let segment = self.layout.segment_of(end);
        let len = end.distance_from(self.layout.start_of(segment));
        if len == 0 || !self.has(end)? {
            return Ok(());
        }
        let options = OpenOptions::read_write();
        let file = self.disk.open(&self.layout.path(segment), options)?;
        // With the zeros that follow the last record (GAP-3).
        let len = (len + 8).next_multiple_of(BLOCK as u64);
        if len < file.len()? {
            file.set_len(len)?;
        }
        Ok(())
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

    /// Takes the counts since the last call.
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
        let place = Place::At(Lsn(64 << 10));
        let segments = Segments::open(disk, layout(dir), options, place, &poison);
        let segments = segments.expect("opens");
        segments.make_ahead(true);
        segments
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
            "00000001-ffffffffffffffff",
            "00000001-0000ffffffffffff",
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

    /// WAL-14: made or recycled, what lies ahead of the log is marked as unused.
    #[test]
    fn segments_ahead_carry_marks_that_the_log_replaces() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let segments = open(dir.path(), 2);
        let layout = segments.layout().clone();
        let is_marked = |segment: u64| {
            let bytes = std::fs::read(layout.path(segment)).expect("read");
            assert_eq!(bytes.len() as u64, layout.size);
            unused::is_mark(&bytes[..BLOCK], layout.start_of(segment))
        };
        for segment in 1..=6 {
            let file = segments.open_for_writing(segment).expect("opens");
            assert!(is_marked(segment), "made: {segment}");
            file.write_all_at(&[0xA5; BLOCK], 0).expect("write");
            assert!(!is_marked(segment));
        }
        wait_until(|| segments.state.lock().ready == 8);
        segments
            .recycle_below(layout.start_of(6), 9)
            .expect("recycles");
        wait_until(|| segments.state.lock().ready == 13);
        for segment in 7..=13 {
            assert!(is_marked(segment), "recycled: {segment}");
        }
        segments.stop();
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
        let place = Place::At(Lsn(64 << 10));
        let segments = Segments::open(shared, layout, options, place, &Poison::new());
        let segments = segments.expect("opens");
        segments.make_ahead(true);
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

    /// The segment that begins where the log ended is empty, and still to be sealed.
    #[test]
    fn a_segment_that_begins_where_the_log_ended_is_not_renamed_behind_it() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let before = open(dir.path(), 5);
        wait_until(|| before.state.lock().ready == 6);
        before.stop();
        let layout = layout(dir.path());
        let place = Place::Fresh {
            end: layout.start_of(3),
            redo: layout.start_of(2),
            gaps: &Gaps::default(),
        };
        let disk: Arc<dyn Disk> = Arc::new(FileDisk::new(IoMethod::Sync));
        let options = SegmentOptions {
            fsync: false,
            direct: false,
            ahead: 5,
            unwritten: 1,
        };
        let segments = Segments::open(disk, layout, options, place, &Poison::new());
        let segments = segments.expect("opens");
        segments.make_ahead(true);
        wait_until(|| segments.state.lock().ready == 7 + 5);
        assert!(segments.has(segments.layout.start_of(3)).expect("a look"));
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
