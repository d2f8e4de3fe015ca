//! The log of an open store: inserting records, and waiting for them to be durable.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;

use crate::error::{StorageError, StorageResult};
use crate::gaps::Gaps;
use crate::ids::{Lsn, PageId};
use crate::invariant;
use crate::page::{LSN_OFFSET, PageBytes, PageMut};
use crate::poison::Poison;
use crate::record::{ALIGN, PartFlags, RecordBuilder, RecordKind, aligned, completion_mark, image};
use crate::resource_manager::{InsertedRecord, ResourceManager};
use crate::wal::backpressure::{Backpressure, Wait};
use crate::wal::buffers::{Reservation, WalBuffers};
use crate::wal::latency::FlushLatency;
use crate::wal::log_flush::LogFlush;
use crate::wal::segments::Segments;
use crate::wal::usage;

/// The redo point that was announced last, and its cycle's number, modulo 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RedoEpoch {
    /// A page whose LSN is not beyond this has no image in the log since; [`Lsn::ZERO`] in a
    /// cycle without images.
    pub redo: Lsn,
    number: u8,
}

/// Which page images the log carries besides the changes of pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct ImageOptions {
    /// The first change of a page after a redo point carries the page.
    pub(super) before: bool,
    /// So does the first write of a page that only hints changed.
    pub(super) hints: bool,
    pub(super) compress: bool,
    /// A record of the pages that a change left follows each.
    pub(super) results: bool,
}

/// Counters since the log was opened (`pg_stat_wal`).
#[derive(Debug, Default)]
pub struct LogStats {
    /// Bytes written to segments.
    pub bytes_written: AtomicU64,
    /// Writes, each followed by a sync.
    pub syncs: AtomicU64,
    /// Time spent writing and syncing, in microseconds.
    pub write_micros: AtomicU64,
    /// How often a record had to wait for space in the ring (`wal_buffers_full`).
    pub buffers_full: AtomicU64,
}

/// Whole microseconds; as many as there can be for more.
pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The log of an open store.
pub struct Log {
    pub(super) ring: WalBuffers,
    pub(super) incarnation: u64,
    /// Where there is no log before this run's.
    pub(super) gaps: Gaps,
    pub(super) max_record: usize,
    pub(super) images: ImageOptions,
    /// The last announced redo point, with the cycle's number in the low bits.
    pub(super) cycle: AtomicU64,
    pub(super) pile: u64,
    /// In microseconds.
    pub(super) delay: AtomicU64,
    /// Every record that starts below is durable; always a record boundary.
    pub(super) durable: AtomicU64,
    /// Somebody wants the log durable up to here.
    pub(super) requested: AtomicU64,
    pub(super) segments: Arc<Segments>,
    pub(super) poison: Arc<Poison>,
    pub(super) manager: OnceLock<Arc<dyn ResourceManager>>,
    /// The flusher sleeps, and for how long: see [`Log::sleep_flusher`].
    pub(super) asleep: AtomicBool,
    pub(super) quiet: AtomicBool,
    pub(super) wake_lock: Mutex<bool>,
    pub(super) wake: Condvar,
    pub(super) waiters: AtomicUsize,
    pub(super) durable_lock: Mutex<()>,
    pub(super) durable_moved: Condvar,
    pub(super) stopping: AtomicBool,
    /// The flusher has ended: what was written into the ring since will never be durable.
    pub(super) ended: AtomicBool,
    pub(super) thread: Mutex<Option<JoinHandle<()>>>,
    pub(super) stats: LogStats,
    pub(super) latency: FlushLatency,
    pub(super) backpressure: Backpressure,
}

impl Log {
    /// From now on `manager` is told of completed and durable records.
    pub(crate) fn set_manager(&self, manager: Arc<dyn ResourceManager>) {
        // A second call would be a second store on one log; the first manager stays.
        let _ = self.manager.set(manager);
    }

    /// Where the next record will be reserved.
    #[inline]
    #[must_use]
    pub fn insert_lsn(&self) -> Lsn {
        self.ring.inserted()
    }

    /// Every record that starts below this is durable.
    #[inline]
    #[must_use]
    pub fn durable_lsn(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    /// Everything below is complete in memory, as far as somebody looked.
    #[must_use]
    pub fn completed_lsn(&self) -> Lsn {
        self.ring.completed()
    }

    /// Incarnation of the records being written.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Where there is no log.
    #[must_use]
    pub fn gaps(&self) -> &Gaps {
        &self.gaps
    }

    /// Bytes of log from `lsn` to where the next record will be reserved.
    #[must_use]
    pub fn log_since(&self, lsn: Lsn) -> u64 {
        self.gaps.log_between(lsn, self.insert_lsn())
    }

    /// Counters since the log was opened.
    #[must_use]
    pub fn stats(&self) -> &LogStats {
        &self.stats
    }

    /// How long flushes take.
    #[must_use]
    pub fn latency(&self) -> &FlushLatency {
        &self.latency
    }

    /// The throttle on threads that write log.
    #[must_use]
    pub fn backpressure(&self) -> &Backpressure {
        &self.backpressure
    }

    /// Writes a sealed record into the ring. `before_complete` runs between its reservation and
    /// its completion.
    #[inline]
    pub(crate) fn append(
        &self,
        record: &mut RecordBuilder,
        before_complete: impl FnOnce(Lsn),
    ) -> Lsn {
        let crc = record.seal(self.durable_lsn());
        let len = record.len();
        if self.is_too_long(len) {
            return self.insert_lsn();
        }
        let reservation = self.ring.reserve(aligned(len), || self.ring_is_full());
        self.complete(reservation, record, crc, before_complete)
    }

    /// As [`Log::append`], if the record's place is in `cycle`, for which its images were
    /// chosen. Otherwise the place is filled with nothing, and the caller chooses anew.
    pub(crate) fn append_in<F: FnOnce(Lsn)>(
        &self,
        record: &mut RecordBuilder,
        cycle: RedoEpoch,
        before_complete: F,
    ) -> Result<Lsn, F> {
        let crc = record.seal(self.durable_lsn());
        let len = record.len();
        if self.is_too_long(len) {
            return Ok(self.insert_lsn());
        }
        let reservation = self.ring.reserve(aligned(len), || self.ring_is_full());
        let now = reservation.cycle();
        if now == cycle.number {
            return Ok(self.complete(reservation, record, crc, before_complete));
        }
        let mut filler = RecordBuilder::filler(aligned(len));
        let crc = filler.seal(self.durable_lsn());
        self.complete(reservation, &filler, crc, |_| {});
        // The thread that announces the redo point has its place and is about to publish it.
        while self.cycle().number != now && !self.poison.is_set() {
            std::thread::yield_now();
        }
        Err(before_complete)
    }

    /// Writes a record that announces a redo point: it begins a cycle.
    pub(crate) fn append_redo_point(&self) -> Lsn {
        let mut record = RecordBuilder::new(Vec::new(), 0);
        record.payload(RecordKind::REDO_POINT, &[u8::from(self.images.before)]);
        let crc = record.seal(self.durable_lsn());
        let len = aligned(record.len());
        let reservation = self.ring.reserve_redo_point(len, || self.ring_is_full());
        let redo = if self.images.before {
            reservation.lsn().0
        } else {
            0
        };
        let cycle = redo | u64::from(reservation.cycle());
        self.cycle.store(cycle, Ordering::SeqCst);
        // A thread that decides without a reservation marks the page dirty first, then looks at
        // the cycle; the caller looks for dirty pages after this (WAL-12).
        fence(Ordering::SeqCst);
        self.complete(reservation, &record, crc, |_| {})
    }

    /// The present cycle.
    #[inline]
    pub(crate) fn cycle(&self) -> RedoEpoch {
        let cycle = self.cycle.load(Ordering::SeqCst);
        let number = cycle & (ALIGN as u64 - 1);
        RedoEpoch {
            redo: Lsn(cycle - number),
            // Below 8.
            number: number as u8,
        }
    }

    /// Whether the first change of a page after a redo point carries the page.
    #[inline]
    pub(crate) fn has_images(&self) -> bool {
        self.images.before
    }

    /// Whether each change is to be followed by what it made of its pages.
    #[inline]
    pub(crate) fn has_results(&self) -> bool {
        self.images.results
    }

    /// Appends the image of a page to `out`, compressed if so configured, without the hints that
    /// the manager strips.
    pub(crate) fn encode_image(&self, page: &PageBytes, out: &mut Vec<u8>) {
        let mut stripped = *page;
        if let Some(manager) = self.manager.get() {
            manager.strip(&mut PageMut::new(&mut stripped));
        }
        image::encode(&stripped, self.images.compress, out);
    }

    /// Writes a record that makes a page what it is now.
    pub(crate) fn append_image(&self, page: PageId, bytes: &PageBytes) -> Lsn {
        let mut data = Vec::new();
        self.encode_image(bytes, &mut data);
        let mut record = RecordBuilder::new(Vec::new(), 0);
        let flags = PartFlags::INIT | PartFlags::IMAGE;
        record.part(page, flags, 0, lsn_of(bytes), &data);
        self.append(&mut record, |_| {})
    }

    /// Writes a record of what a page is now, for redo to compare.
    pub(crate) fn append_result(&self, page: PageId, bytes: &PageBytes) -> Lsn {
        let mut data = Vec::new();
        self.encode_image(bytes, &mut data);
        let mut record = RecordBuilder::new(Vec::new(), 0);
        record.part(page, PartFlags::COMPARE, 0, lsn_of(bytes), &data);
        record.payload(RecordKind::RESULT, &[]);
        self.append(&mut record, |_| {})
    }

    /// Bytes of the longest record.
    pub(crate) fn max_record(&self) -> usize {
        self.max_record
    }

    fn is_too_long(&self, len: usize) -> bool {
        if len > self.max_record {
            self.poison.set(format!(
                "log record of {len} bytes, at most {}",
                self.max_record
            ));
        }
        len > self.max_record
    }

    #[inline]
    fn complete(
        &self,
        reservation: Reservation<'_>,
        record: &RecordBuilder,
        crc: u32,
        before_complete: impl FnOnce(Lsn),
    ) -> Lsn {
        let len = record.len();
        let lsn = reservation.lsn();
        let unfinished = Unfinished {
            poison: &self.poison,
            lsn,
        };
        before_complete(lsn);
        std::mem::forget(unfinished);
        let mark = completion_mark(lsn, self.incarnation, len as u32, crc);
        debug_assert!(
            record.reads_back(lsn, self.incarnation, mark),
            "the record at {lsn} would not be read back"
        );
        reservation.publish(&record.bytes()[8..], mark);
        let bytes = aligned(len) as u64;
        usage::made_record(bytes);
        self.backpressure.wrote(lsn, bytes);
        if self.asleep.load(Ordering::Relaxed) && self.ring.backlog() >= self.pile {
            self.wake_flusher();
        }
        lsn
    }

    #[cold]
    fn ring_is_full(&self) {
        self.stats.buffers_full.fetch_add(1, Ordering::Relaxed);
        self.wake_flusher();
    }

    /// Finds out how far the log is complete and tells the manager of notified records, each
    /// once, in log order. Returns the position up to which everything is complete.
    pub fn advance_completed(&self) -> Lsn {
        let mut notes: SmallVec<[InsertedRecord; 16]> = SmallVec::new();
        let walked = self.ring.walk(|done| {
            notes.push(InsertedRecord {
                lsn: done.lsn,
                end: done.end,
                xid: done.xid,
                kind: RecordKind(done.kind),
                flags: done.flags,
            });
        });
        if let (false, Some(manager)) = (notes.is_empty(), self.manager.get()) {
            manager.completed(&notes);
        }
        let completed = walked.completed;
        drop(walked);
        if self.quiet.load(Ordering::Relaxed) && !notes.is_empty() {
            self.wake_flusher();
        }
        completed
    }

    /// Waits until the record that starts at `lsn` is durable.
    ///
    /// # Errors
    /// [`StorageError::Poisoned`] when it never will be, or is not known to be.
    pub fn flush(&self, lsn: Lsn) -> StorageResult<()> {
        if self.durable_lsn() > lsn {
            return Ok(());
        }
        self.poison.check()?;
        self.waiters.fetch_add(1, Ordering::SeqCst);
        self.request_flush(lsn);
        let result = evenkeel_io::blocking(|| {
            let mut guard = self.durable_lock.lock();
            loop {
                if self.durable.load(Ordering::SeqCst) > lsn.0 {
                    return Ok(());
                }
                self.poison.check()?;
                let ended = self.ended.load(Ordering::SeqCst);
                let stopping = self.stopping.load(Ordering::SeqCst);
                if ended || (stopping && self.insert_lsn() <= lsn) {
                    return Err(StorageError::ShutDown);
                }
                self.durable_moved.wait(&mut guard);
            }
        });
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        result
    }

    /// Waits until everything reserved so far is durable.
    ///
    /// # Errors
    /// As [`Log::flush`].
    pub fn flush_all(&self) -> StorageResult<()> {
        match self.insert_lsn() {
            end if end <= self.durable_lsn() => self.poison.check(),
            end => self.flush(Lsn(end.0 - 1)),
        }
    }

    /// Asks that the record that starts at `lsn` be made durable, without waiting; the manager
    /// hears of it through [`ResourceManager::durable`].
    #[inline]
    pub fn request_flush(&self, lsn: Lsn) {
        self.requested.fetch_max(lsn.0 + 1, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) {
            self.wake_flusher();
        }
    }

    /// Waits while most of the ring is waiting to be written, while this thread has much
    /// unflushed log of its own, and for what its log costs at present; an error when the
    /// instance is poisoned or the disk has no room for more log.
    #[inline]
    pub(crate) fn admit(&self) -> StorageResult<()> {
        self.poison.check()?;
        self.segments.admit()?;
        let most = self.ring.size() / 4 * 3;
        if self.ring.backlog() > most {
            self.ring.wait_for_backlog(most, || self.ring_is_full());
            self.poison.check()?;
        }
        match self.backpressure.admit() {
            Wait::Nothing => Ok(()),
            Wait::Durable(lsn) => self.flush(lsn),
        }
    }

    pub(super) fn flush_wanted(&self) -> bool {
        // A request may name a position that nothing was reserved at yet.
        let requested = self
            .requested
            .load(Ordering::SeqCst)
            .min(self.ring.inserted().0);
        requested > self.durable.load(Ordering::Relaxed)
    }

    /// How long log that nobody waits for may stay in memory.
    pub(super) fn writer_delay(&self) -> Duration {
        Duration::from_micros(self.delay.load(Ordering::Relaxed))
    }

    pub(crate) fn set_writer_delay(&self, delay: Duration) {
        self.delay.store(micros(delay), Ordering::Relaxed);
    }

    fn wake_flusher(&self) {
        let mut awake = self.wake_lock.lock();
        *awake = true;
        self.wake.notify_one();
    }

    /// Sleeps until woken or for `most`; returns whether it was woken. `quiet`: nothing at all
    /// is in the ring, so a notified record must wake the flusher for its delay to be bounded.
    pub(super) fn sleep_flusher(&self, most: Duration, quiet: bool) -> bool {
        self.quiet.store(quiet, Ordering::SeqCst);
        self.asleep.store(true, Ordering::SeqCst);
        let mut awake = self.wake_lock.lock();
        // A thread that asked before it could see `asleep` did not wake the flusher.
        let called = self.flush_wanted() || self.stopping.load(Ordering::SeqCst);
        let filled = quiet && self.ring.backlog() > 0;
        if !(called || *awake || filled) {
            let _ = self.wake.wait_for(&mut awake, most);
        }
        self.asleep.store(false, Ordering::SeqCst);
        self.quiet.store(false, Ordering::SeqCst);
        std::mem::take(&mut *awake) || called
    }

    /// Acknowledges the log up to `upto`, which is written and synced.
    ///
    /// # Errors
    /// [`StorageError::Internal`], and the instance is poisoned, when not all of it is complete.
    pub(crate) fn advance_durable(&self, upto: Lsn) -> StorageResult<()> {
        if upto <= self.durable_lsn() {
            return Ok(());
        }
        let completed = self.completed_lsn();
        invariant!(
            self.poison,
            upto <= completed,
            "the log would be acknowledged up to {upto}, and is complete up to {completed}"
        );
        self.durable.store(upto.0, Ordering::SeqCst);
        if let Some(manager) = self.manager.get() {
            manager.durable(upto);
        }
        if self.waiters.load(Ordering::SeqCst) > 0 {
            drop(self.durable_lock.lock());
            self.durable_moved.notify_all();
        }
        Ok(())
    }

    /// Lets everybody through who waits for the log.
    pub(super) fn give_up(&self) {
        self.ring.close();
        drop(self.durable_lock.lock());
        self.durable_moved.notify_all();
        self.wake_flusher();
    }

    pub(crate) fn segments(&self) -> &Segments {
        &self.segments
    }

    /// Writes what is there, then stops the threads. Once it has, records that come later, such as
    /// the rollback of a transaction that outlives the database's closing, are lost in silence:
    /// nobody can wait for them, and the next start rolls back all the same.
    pub(crate) fn stop(&self) -> StorageResult<()> {
        if self.ended.load(Ordering::SeqCst) {
            return Ok(());
        }
        let flushed = self.flush_all();
        self.stopping.store(true, Ordering::SeqCst);
        self.wake_flusher();
        if let Some(thread) = self.thread.lock().take() {
            // A panic of the flusher poisons nothing by itself; the flush above failed or not.
            let _ = thread.join();
        }
        self.ended.store(true, Ordering::SeqCst);
        drop(self.durable_lock.lock());
        self.durable_moved.notify_all();
        self.ring.close();
        self.segments.stop();
        flushed
    }
}

impl LogFlush for Log {
    fn flush(&self, lsn: Lsn) -> StorageResult<()> {
        Log::flush(self, lsn)
    }
    fn request_flush(&self) {
        if let Some(last) = self.insert_lsn().0.checked_sub(1) {
            Log::request_flush(self, Lsn(last));
        }
    }
    fn durable_lsn(&self) -> Lsn {
        Log::durable_lsn(self)
    }
    fn insert_lsn(&self) -> Lsn {
        Log::insert_lsn(self)
    }
    fn gaps(&self) -> &Gaps {
        Log::gaps(self)
    }
    fn images_below(&self) -> Option<Lsn> {
        self.images.hints.then(|| self.cycle().redo)
    }
    fn log_image(&self, page: PageId, bytes: &PageBytes) -> Option<Lsn> {
        self.segments.admit().ok()?;
        Some(self.append_image(page, bytes))
    }
    fn latency(&self) -> Option<&FlushLatency> {
        Some(&self.latency)
    }
}

fn lsn_of(bytes: &PageBytes) -> Lsn {
    let mut lsn = [0; 8];
    lsn.copy_from_slice(&bytes[LSN_OFFSET..LSN_OFFSET + 8]);
    Lsn(u64::from_le_bytes(lsn))
}

/// Poisons the instance when a closure panics between reservation and completion: nothing
/// behind the hole can become durable.
struct Unfinished<'a> {
    poison: &'a Poison,
    lsn: Lsn,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.poison
            .set(format!("the record at {} was never completed", self.lsn));
    }
}
