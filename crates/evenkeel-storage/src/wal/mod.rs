//! The write-ahead log. See README.md for the rules.

mod backpressure;
pub mod dump;
mod flusher;
pub mod image;
mod latency;
pub mod reader;
pub mod record;
mod ring;
mod segments;
pub(crate) mod usage;
mod writer;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_io::Disk;
use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;

use crate::config::{StorageConfig, TornPageProtection};
use crate::error::{StorageError, StorageResult};
use crate::ids::{Lsn, PageId};
use crate::mutant::Mutant;
use crate::page::{LSN_OFFSET, PageBytes};
use crate::poison::Poison;
use crate::store::{CommitNote, StorageClient};
pub use crate::wal::backpressure::Backpressure;
use crate::wal::backpressure::Wait;
use crate::wal::flusher::Flusher;
pub use crate::wal::latency::FlushLatency;
use crate::wal::record::{ALIGN, PartFlags, RecordBuilder, RecordKind, aligned, completion_mark};
use crate::wal::ring::{Reservation, Ring};
pub use crate::wal::segments::SegmentLayout;
use crate::wal::segments::{SegmentOptions, Segments};
pub use crate::wal::usage::LogUsage;
use crate::wal::writer::LogWriter;
use crate::writeout::LogFlush;

/// Log written without anyone asking once this much has piled up.
const PILE: u64 = 1 << 20;

/// Where and as what the log goes on.
pub(crate) struct LogStart {
    /// The log is proven durable up to here; what follows up to `end` is written again.
    pub proven: Lsn,
    /// End of the valid log.
    pub end: Lsn,
    /// Incarnation of the records before `end`, whose salt the announcement gets; `None` when
    /// there is nothing before `end` to go on from.
    pub previous: Option<u64>,
    /// Incarnation of the records to come.
    pub incarnation: u64,
    /// The redo point from which on the log has an image of every page it changes;
    /// [`Lsn::ZERO`] when the last cycle had none.
    pub images_from: Lsn,
}

/// The redo point that was announced last, and its cycle's number, modulo 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cycle {
    /// A page whose LSN is not beyond this has no image in the log since; [`Lsn::ZERO`] in a
    /// cycle without images.
    pub redo: Lsn,
    number: u8,
}

/// What the log says of pages besides their changes.
#[derive(Clone, Copy, Debug)]
struct ImageOptions {
    /// The first change of a page after a redo point carries the page.
    before: bool,
    /// So does the first write of a page that only hints changed.
    hints: bool,
    compress: bool,
    /// A record of the pages that a change left follows each.
    results: bool,
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

/// The log of an open store.
pub struct Log {
    ring: Ring,
    incarnation: u64,
    max_record: usize,
    images: ImageOptions,
    /// The last announced redo point, with the cycle's number in the low bits.
    cycle: AtomicU64,
    pile: u64,
    delay: Duration,
    /// Every record that starts below is durable; always a record boundary.
    durable: AtomicU64,
    /// Somebody wants the log durable up to here.
    requested: AtomicU64,
    segments: Arc<Segments>,
    poison: Arc<Poison>,
    client: OnceLock<Arc<dyn StorageClient>>,
    /// The flusher sleeps, and for how long: see [`Log::sleep_flusher`].
    asleep: AtomicBool,
    quiet: AtomicBool,
    wake_lock: Mutex<bool>,
    wake: Condvar,
    waiters: AtomicUsize,
    durable_lock: Mutex<()>,
    durable_moved: Condvar,
    stopping: AtomicBool,
    /// The flusher has ended: what was written into the ring since will never be durable.
    ended: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
    stats: LogStats,
    latency: FlushLatency,
    backpressure: Backpressure,
}

impl Log {
    /// Goes on writing at `start`: makes what was read but is not proven durable so, announces
    /// the new incarnation, and starts the flusher.
    pub(crate) fn open(
        disk: &Arc<dyn Disk>,
        layout: &SegmentLayout,
        config: &StorageConfig,
        start: &LogStart,
        poison: &Arc<Poison>,
    ) -> StorageResult<Arc<Log>> {
        let options = SegmentOptions {
            fsync: config.fsync,
            direct: config.io_direct_wal,
            ahead: config.wal_segments_ahead,
            unwritten: config.wal_buffers,
        };
        let segments =
            Segments::open(Arc::clone(disk), layout.clone(), options, start.end, poison)?;
        let writer =
            go_on(disk, layout, &segments, start, config.fsync).inspect_err(|_| segments.stop())?;
        let begin = writer.position();
        let before = config.torn_page_protection == TornPageProtection::FullPageWrites;
        let ring_size = usize::try_from(config.wal_buffers).unwrap_or(usize::MAX);
        let log = Arc::new(Log {
            ring: Ring::new(ring_size, begin),
            incarnation: start.incarnation,
            max_record: config.max_record(),
            images: ImageOptions {
                before,
                hints: before && !config.has(Mutant::SkipHintImage),
                compress: config.wal_compression,
                results: config.wal_consistency_checking,
            },
            cycle: AtomicU64::new(start.images_from.0),
            pile: PILE.min(config.wal_buffers / 4),
            delay: config.wal_writer_delay,
            durable: AtomicU64::new(begin.0),
            requested: AtomicU64::new(0),
            segments,
            poison: Arc::clone(poison),
            client: OnceLock::new(),
            asleep: AtomicBool::new(false),
            quiet: AtomicBool::new(false),
            wake_lock: Mutex::new(false),
            wake: Condvar::new(),
            waiters: AtomicUsize::new(0),
            durable_lock: Mutex::new(()),
            durable_moved: Condvar::new(),
            stopping: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            thread: Mutex::new(None),
            stats: LogStats::default(),
            latency: FlushLatency::default(),
            backpressure: Backpressure::default(),
        });
        let weak = Arc::downgrade(&log);
        poison.on_set(move || {
            if let Some(log) = weak.upgrade() {
                log.give_up();
            }
        });
        let flusher = Flusher::new(Arc::clone(&log), writer);
        let thread = std::thread::Builder::new()
            .name("wal-flusher".into())
            .spawn(move || flusher.run())
            .map_err(|error| StorageError::Config(format!("cannot start a thread: {error}")))?;
        *log.thread.lock() = Some(thread);
        Ok(log)
    }

    /// From now on `client` is told of completed and durable records.
    pub(crate) fn set_client(&self, client: Arc<dyn StorageClient>) {
        // A second call would be a second store on one log; the first client stays.
        let _ = self.client.set(client);
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

    /// What delays those who write log.
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
        cycle: Cycle,
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
        // Whoever announces the redo point has its place and is about to say which it is.
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
        // Whoever decides without a reservation marks the page dirty first, then looks at the
        // cycle; the caller looks for dirty pages after this (wal rule 12).
        fence(Ordering::SeqCst);
        self.complete(reservation, &record, crc, |_| {})
    }

    /// The present cycle.
    #[inline]
    pub(crate) fn cycle(&self) -> Cycle {
        let cycle = self.cycle.load(Ordering::SeqCst);
        let number = cycle & (ALIGN as u64 - 1);
        Cycle {
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

    /// Appends the image of a page to `out`, compressed if so configured.
    pub(crate) fn encode_image(&self, page: &PageBytes, out: &mut Vec<u8>) {
        image::encode(page, self.images.compress, out);
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

    /// Finds out how far the log is complete and tells the client of notified records, each
    /// once, in log order. Returns the position up to which everything is complete.
    pub fn advance_completed(&self) -> Lsn {
        let mut notes: SmallVec<[CommitNote; 16]> = SmallVec::new();
        let walked = self.ring.walk(|done| {
            notes.push(CommitNote {
                lsn: done.lsn,
                end: done.end,
                xid: done.xid,
                kind: RecordKind(done.kind),
                flags: done.flags,
            });
        });
        if let (false, Some(client)) = (notes.is_empty(), self.client.get()) {
            client.completed(&notes);
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

    /// Asks that the record that starts at `lsn` be made durable, without waiting; the client
    /// hears of it through [`StorageClient::durable`].
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

    fn flush_wanted(&self) -> bool {
        // A request may name a position that nothing was reserved at yet.
        let requested = self
            .requested
            .load(Ordering::SeqCst)
            .min(self.ring.inserted().0);
        requested > self.durable.load(Ordering::Relaxed)
    }

    fn wake_flusher(&self) {
        let mut awake = self.wake_lock.lock();
        *awake = true;
        self.wake.notify_one();
    }

    /// Sleeps until woken or for `most`; returns whether it was woken. `quiet`: nothing at all
    /// is in the ring, so a notified record must wake the flusher for its delay to be bounded.
    fn sleep_flusher(&self, most: Duration, quiet: bool) -> bool {
        self.quiet.store(quiet, Ordering::SeqCst);
        self.asleep.store(true, Ordering::SeqCst);
        let mut awake = self.wake_lock.lock();
        // Whoever asked before `asleep` was seen did not wake us.
        let called = self.flush_wanted() || self.stopping.load(Ordering::SeqCst);
        let filled = quiet && self.ring.backlog() > 0;
        if !(called || *awake || filled) {
            let _ = self.wake.wait_for(&mut awake, most);
        }
        self.asleep.store(false, Ordering::SeqCst);
        self.quiet.store(false, Ordering::SeqCst);
        std::mem::take(&mut *awake) || called
    }

    fn advance_durable(&self, upto: Lsn) {
        if upto <= self.durable_lsn() {
            return;
        }
        self.durable.store(upto.0, Ordering::SeqCst);
        if let Some(client) = self.client.get() {
            client.durable(upto);
        }
        if self.waiters.load(Ordering::SeqCst) > 0 {
            drop(self.durable_lock.lock());
            self.durable_moved.notify_all();
        }
    }

    /// Lets everybody through who waits for the log.
    fn give_up(&self) {
        self.ring.close();
        drop(self.durable_lock.lock());
        self.durable_moved.notify_all();
        self.wake_flusher();
    }

    pub(crate) fn segments(&self) -> &Segments {
        &self.segments
    }

    /// Writes what is there, then stops the threads. Idempotent.
    pub(crate) fn stop(&self) -> StorageResult<()> {
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

/// A writer behind everything that is in the log, the new incarnation announced.
fn go_on(
    disk: &Arc<dyn Disk>,
    layout: &SegmentLayout,
    segments: &Arc<Segments>,
    start: &LogStart,
    fsync: bool,
) -> StorageResult<LogWriter> {
    let proven = start.proven.min(start.end);
    let mut writer = LogWriter::new(Arc::clone(segments), proven, fsync)?;
    rewrite_tail(disk, layout, &mut writer, start.end)?;
    if let Some(previous) = start.previous {
        announce(&mut writer, previous, start.incarnation)?;
    }
    Ok(writer)
}

/// Writes the log from the writer's position to `end` once more. It was read through the page
/// cache, which may remember what a failed sync did not write (D8).
fn rewrite_tail(
    disk: &Arc<dyn Disk>,
    layout: &SegmentLayout,
    writer: &mut LogWriter,
    end: Lsn,
) -> StorageResult<()> {
    while writer.position() < end {
        let at = writer.position();
        let len = end.distance_from(at).min(writer.room() as u64) as usize;
        reader::read_raw(disk.as_ref(), layout, at, writer.stage(len))?;
        writer.write_out()?;
    }
    Ok(())
}

/// Writes the record behind which the new incarnation's records follow.
fn announce(writer: &mut LogWriter, previous: u64, incarnation: u64) -> StorageResult<()> {
    let lsn = writer.position();
    let mut record = RecordBuilder::new(Vec::new(), 0);
    record.payload(RecordKind::INCARNATION, &incarnation.to_le_bytes());
    let crc = record.seal(lsn);
    let len = record.len();
    let mut bytes = record.into_buffer();
    let mark = completion_mark(lsn, previous, len as u32, crc);
    bytes[..8].copy_from_slice(&mark.to_le_bytes());
    bytes.resize(aligned(len), 0);
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let (now, later) = rest.split_at(rest.len().min(writer.room()));
        writer.stage(now.len()).copy_from_slice(now);
        writer.write_out()?;
        rest = later;
    }
    Ok(())
}
