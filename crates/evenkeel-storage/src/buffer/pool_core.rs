//! State shared by forks, guards and the writer: frames, their memory, and the free reserve.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::arena::Arena;
use super::clean_queue::{CleanQueue, Stopwatch};
use super::damaged::DamagedPages;
use super::entry::MAX_FRAMES;
use super::frame::{Frame, Owner};
use super::frame_state::{Flag, FrameState};
use super::owed::OwedPages;
use super::stats::Counters;
use super::waiters::WaitTable;
use crate::error::{StorageError, StorageResult};
use crate::gaps::Gap;
use crate::ids::{FrameId, Lsn, PageId};
use crate::poison::Poison;
use crate::stats::{IoContext, IoObject, IoStats};
use crate::wal::LogFlush;

/// A foreground thread that gets no frame for so long finds everything pinned for good.
const FRAME_PATIENCE: Duration = Duration::from_secs(30);
/// Frames a foreground thread looks at before it waits for the writer.
const CLOCK_STEPS: usize = 256;

pub(crate) struct PoolCore {
    frames: Box<[Frame]>,
    arena: Arena,
    pub(crate) waiters: WaitTable,
    pub(crate) damaged: DamagedPages,
    pub(crate) owed: OwedPages,
    pub(crate) counters: Counters,
    pub(crate) poison: Arc<Poison>,
    hand: AtomicUsize,
    reserve: Reserve,
    offers: CleanQueue,
    /// The log that pages wait for, once there is one.
    log: OnceLock<Arc<dyn LogFlush>>,
    permits: Permits,
    /// Threads that may be waiting for write-outs to end.
    awaiting: AtomicUsize,
    pub(crate) io: Arc<IoStats>,
    /// Held by a writer while it begins or ends write-outs of frames, and by who reads the
    /// first-dirtied LSNs of all frames: a scan sees each frame before or after, not between.
    pub(crate) transitions: Mutex<()>,
}

/// Somebody waits for write-outs to end as long as this lives.
pub(crate) struct AwaitingWriteOuts<'a>(&'a AtomicUsize);

impl Drop for AwaitingWriteOuts<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The free frames, and who waits for them or fills them up.
struct Reserve {
    free: Mutex<Vec<FrameId>>,
    freed: Condvar,
    /// Threads in `freed`.
    hungry: AtomicUsize,
    /// Below this many free frames the cleaner is called.
    low: AtomicUsize,
    /// The cleaner's alarm.
    wanted: Mutex<bool>,
    alarm: Condvar,
    called: AtomicBool,
}

/// Frames promised to operations under way, in pools small enough for them to run out.
struct Permits {
    left: Mutex<usize>,
    returned: Condvar,
    counted: bool,
    total: usize,
}

/// Pools of at least this many frames do not count reservations: all threads together cannot
/// pin that many.
const UNCOUNTED_FRAMES: usize = 4096;

impl PoolCore {
    pub(crate) fn new(
        frames: usize,
        poison: Arc<Poison>,
        io: Arc<IoStats>,
    ) -> StorageResult<Arc<PoolCore>> {
        if !(1..=MAX_FRAMES).contains(&frames) {
            return Err(StorageError::Config(format!(
                "shared_buffers: {frames} frames"
            )));
        }
        // In the order of their numbers from the end of the list on.
        let free = (0..frames)
            .rev()
            .map(|frame| FrameId(frame as u32))
            .collect();
        Ok(Arc::new(PoolCore {
            frames: (0..frames).map(|_| Frame::new()).collect(),
            arena: Arena::new(frames)?,
            waiters: WaitTable::new(256),
            damaged: DamagedPages::default(),
            owed: OwedPages::default(),
            counters: Counters::default(),
            poison,
            hand: AtomicUsize::new(0),
            reserve: Reserve {
                free: Mutex::new(free),
                freed: Condvar::new(),
                hungry: AtomicUsize::new(0),
                low: AtomicUsize::new(1),
                wanted: Mutex::new(false),
                alarm: Condvar::new(),
                called: AtomicBool::new(false),
            },
            offers: CleanQueue::default(),
            log: OnceLock::new(),
            awaiting: AtomicUsize::new(0),
            io,
            permits: Permits {
                left: Mutex::new(frames),
                returned: Condvar::new(),
                counted: frames < UNCOUNTED_FRAMES,
                total: frames,
            },
            transitions: Mutex::new(()),
        }))
    }

    #[inline]
    pub(crate) fn frame(&self, id: FrameId) -> &Frame {
        &self.frames[id.0 as usize]
    }

    pub(crate) fn frame_count(&self) -> usize {
        self.frames.len()
    }

    pub(crate) fn frame_ids(&self) -> impl Iterator<Item = FrameId> + use<> {
        // MAX_FRAMES fits a u32.
        (0..self.frames.len() as u32).map(FrameId)
    }

    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    pub(crate) fn free_count(&self) -> usize {
        self.reserve.free.lock().len()
    }

    /// A free frame, the caller's alone; waits for the writer if need be.
    ///
    /// # Errors
    /// [`StorageError::NoFreeFrame`] when everything stays pinned, or the instance's poison.
    pub(crate) fn take_frame(&self) -> StorageResult<FrameId> {
        Counters::add(&self.counters.allocations, 1);
        if let Some(frame) = self.try_take_frame() {
            return Ok(frame);
        }
        if let Some(frame) = self.evict_by_clock(CLOCK_STEPS) {
            Counters::add(&self.counters.foreground_evictions, 1);
            return Ok(frame);
        }
        Counters::add(&self.counters.foreground_waits, 1);
        evenkeel_io::blocking(|| self.wait_for_frame())
    }

    /// A frame of the reserve, without waiting.
    pub(crate) fn try_take_frame(&self) -> Option<FrameId> {
        let (frame, left) = {
            let mut free = self.reserve.free.lock();
            (free.pop(), free.len())
        };
        if left < self.reserve.low.load(Ordering::Relaxed) {
            self.call_cleaner();
        }
        frame
    }

    fn wait_for_frame(&self) -> StorageResult<FrameId> {
        let deadline = Instant::now() + FRAME_PATIENCE;
        loop {
            self.poison.check()?;
            if let Some(frame) = self.evict_by_clock(self.frames.len().min(16 * CLOCK_STEPS)) {
                return Ok(frame);
            }
            let mut free = self.reserve.free.lock();
            self.reserve.hungry.fetch_add(1, Ordering::SeqCst);
            self.call_cleaner();
            if free.is_empty() {
                // Short, since an unpin by another thread makes no announcement.
                self.reserve
                    .freed
                    .wait_for(&mut free, Duration::from_millis(2));
            }
            self.reserve.hungry.fetch_sub(1, Ordering::SeqCst);
            if let Some(frame) = free.pop() {
                return Ok(frame);
            }
            drop(free);
            if Instant::now() > deadline {
                return Err(StorageError::NoFreeFrame);
            }
        }
    }

    /// Gives back frames without a page.
    pub(crate) fn put_frames(&self, frames: &[FrameId]) {
        debug_assert!(
            frames
                .iter()
                .all(|id| self.frame(*id).latch.load() == FrameState::FREE),
            "a frame with a page given back as free"
        );
        self.reserve.free.lock().extend_from_slice(frames);
        if self.reserve.hungry.load(Ordering::SeqCst) != 0 {
            self.reserve.freed.notify_all();
        }
    }

    /// Threads waiting for a frame now.
    pub(crate) fn hungry(&self) -> usize {
        self.reserve.hungry.load(Ordering::SeqCst)
    }

    /// Tells who spaces write-outs that somebody waits for their end, until the answer is
    /// dropped.
    pub(crate) fn await_write_outs(&self) -> AwaitingWriteOuts<'_> {
        self.awaiting.fetch_add(1, Ordering::SeqCst);
        AwaitingWriteOuts(&self.awaiting)
    }

    /// Whether somebody waits for a frame, or for write-outs to end.
    pub(crate) fn is_awaiting_writes(&self) -> bool {
        self.hungry() > 0 || self.awaiting.load(Ordering::SeqCst) > 0
    }

    /// Sets the number of free frames below which the cleaner is called.
    pub(crate) fn set_low_watermark(&self, low: usize) {
        self.reserve.low.store(low, Ordering::Relaxed);
    }

    /// Wakes the cleaner.
    pub(crate) fn call_cleaner(&self) {
        if !self.reserve.called.swap(true, Ordering::SeqCst) {
            *self.reserve.wanted.lock() = true;
            self.reserve.alarm.notify_one();
        }
    }

    /// The cleaner's sleep: until called, or for at most `limit`. Says whether it was called.
    pub(crate) fn await_call(&self, limit: Duration) -> bool {
        let mut wanted = self.reserve.wanted.lock();
        if !*wanted {
            self.reserve.alarm.wait_for(&mut wanted, limit);
        }
        let called = std::mem::take(&mut *wanted);
        self.reserve.called.store(false, Ordering::SeqCst);
        called
    }

    /// The next frame under the clock's hand.
    pub(crate) fn tick(&self) -> FrameId {
        let at = self.hand.fetch_add(1, Ordering::Relaxed) % self.frames.len();
        FrameId(at as u32)
    }

    /// Moves the clock until a clean victim is found, and evicts it.
    fn evict_by_clock(&self, steps: usize) -> Option<FrameId> {
        (0..steps).find_map(|_| {
            let id = self.tick();
            match self.inspect(id) {
                Candidate::Clean if self.evict(id) => Some(id),
                _ => None,
            }
        })
    }

    /// The clock's look at one frame: cools a warm one, names a cold one.
    pub(crate) fn inspect(&self, id: FrameId) -> Candidate {
        let latch = &self.frame(id).latch;
        let word = latch.load();
        if !word.has(Flag::VALID) || word.pins() != 0 {
            return Candidate::Busy;
        }
        if word.usage() > 0 {
            let _ = latch.try_update(|word| {
                if word.pins() == 0 {
                    word.cooled()
                } else {
                    None
                }
            });
            return Candidate::Warm;
        }
        if word.has(Flag::WRITING) {
            return Candidate::Busy;
        }
        if word.has(Flag::UNCLEAN) {
            Candidate::Dirty
        } else {
            Candidate::Clean
        }
    }

    /// Evicts a clean page nobody has pinned; afterwards the frame is the caller's.
    pub(crate) fn evict(&self, id: FrameId) -> bool {
        let cold = |word: FrameState| {
            if word.usage() == 0 {
                word.evicted()
            } else {
                None
            }
        };
        if self.frame(id).latch.try_update(cold).is_none() {
            return false;
        }
        self.empty(id);
        Counters::add(&self.counters.evictions, 1);
        let context = IoContext::current();
        self.io.counts(IoObject::Relation, context).evicted(1);
        true
    }

    /// Takes the page out of a frame that a ring put it into, for the ring to use again.
    pub(crate) fn reuse(&self, page: PageId, id: FrameId, context: IoContext) -> Reuse {
        let frame = self.frame(id);
        let word = frame.latch.load();
        if !word.has(Flag::VALID) || word.usage() != 0 {
            return Reuse::Left;
        }
        if word.pins() != 0 {
            return Reuse::Pinned;
        }
        if word.has(Flag::UNWRITTEN) {
            return Reuse::Unwritten;
        }
        if frame.latch.update(FrameState::pinned_quietly).is_err() {
            return Reuse::Left;
        }
        // SAFETY: pinned.
        let same = unsafe { frame.owner() }.is_some_and(|owner| owner.page_id() == page);
        if same && frame.latch.try_update(FrameState::reused).is_some() {
            self.empty(id);
            Counters::add(&self.counters.reuses, 1);
            self.io.counts(IoObject::Relation, context).reused(1);
            return Reuse::Emptied;
        }
        frame.latch.unpin();
        if same { Reuse::Pinned } else { Reuse::Left }
    }

    /// Hands pages that are probably dirty to the cleaner, to be written before their frames are
    /// needed. With `flush_log`, the log that they need is flushed while the cleaner is still at
    /// the pages before; what only hints changed needs none.
    pub(crate) fn offer(&self, pages: &[(PageId, FrameId)], flush_log: bool) {
        let dirty = |(_, id): &&(PageId, FrameId)| {
            let word = self.frame(*id).latch.load();
            word.has(Flag::UNCLEAN) && !word.has(Flag::WRITING)
        };
        if self.offers.add(pages.iter().filter(dirty).copied()) {
            if flush_log && let Some(log) = self.log.get() {
                log.request_flush();
            }
            self.call_cleaner();
        }
    }

    /// Takes pages offered to the cleaner since its last call: the oldest, at most `most`.
    pub(crate) fn take_offers(&self, most: usize) -> Vec<(PageId, FrameId)> {
        self.offers.take(most)
    }

    /// Tells who waits for it that pages have been written.
    pub(crate) fn cleaned(&self) {
        self.offers.cleaned();
    }

    /// Names the log that the pool's pages wait for.
    pub(crate) fn set_log(&self, log: Arc<dyn LogFlush>) {
        // A pool has one log for as long as it lives.
        let _ = self.log.set(log);
    }

    /// Why a page with this LSN proves that log was lost; none for a pool without a log. No page
    /// goes home before its log is durable.
    pub(super) fn lost_log(&self, lsn: Lsn) -> Option<String> {
        let log = self.log.get().filter(|_| !lsn.is_zero())?;
        let end = log.durable_lsn();
        if lsn >= end {
            return Some(format!(
                "its LSN is {lsn}, and the log ends at {end}: log has been lost"
            ));
        }
        let gap = log.gaps().at(lsn)?;
        Some(gap.lost(lsn))
    }

    /// The gap of the log that a page's LSN lies in.
    pub(crate) fn gap_at(&self, lsn: Lsn) -> Option<Gap> {
        self.log.get()?.gaps().at(lsn)
    }

    /// How long the cleaner has waited for the log.
    pub(crate) fn log_waits(&self) -> &Stopwatch {
        &self.offers.log_waits
    }

    /// Waits for the cleaner to have written something, for at most `limit`.
    pub(crate) fn await_cleaning(&self, limit: Duration) {
        Counters::add(&self.counters.ring_waits, 1);
        let (begun, log_waits) = (Instant::now(), self.log_waits().micros());
        self.call_cleaner();
        evenkeel_io::blocking(|| self.offers.await_cleaning(limit));
        let micros = begun.elapsed().as_micros() as u64;
        Counters::add(&self.counters.ring_wait_micros, micros);
        let by_log = self.log_waits().micros().saturating_sub(log_waits);
        Counters::add(&self.counters.ring_wait_log_micros, by_log.min(micros));
    }

    /// Takes the page out of a frame that may be dirty but is not being written. The caller has
    /// pinned it; if nobody else has, the frame is the caller's afterwards, and the pin is gone.
    pub(crate) fn discard(&self, id: FrameId) -> bool {
        if self
            .frame(id)
            .latch
            .try_update(FrameState::discarded)
            .is_none()
        {
            return false;
        }
        self.empty(id);
        true
    }

    /// Clears the array entry of a frame just evicted: before the frame is used again.
    fn empty(&self, id: FrameId) {
        // SAFETY: the caller has won the frame's eviction and is its one owner.
        let owner = unsafe { self.frame(id).replace_owner(None) };
        debug_assert!(owner.is_some(), "frame {} evicted without a page", id.0);
        if let Some(Owner { fork, block }) = owner {
            fork.clear_entry(block);
        }
    }

    /// Promises `frames` frames; waits, holding nothing, until operations under way leave room.
    #[inline]
    pub(crate) fn reserve(self: &Arc<Self>, frames: usize) -> FrameReservation {
        if !self.permits.counted {
            return FrameReservation {
                core: None,
                frames: 0,
            };
        }
        self.reserve_counted(frames)
    }

    #[cold]
    fn reserve_counted(self: &Arc<Self>, frames: usize) -> FrameReservation {
        let frames = frames.min(self.permits.total);
        let mut left = self.permits.left.lock();
        if *left < frames {
            Counters::add(&self.counters.foreground_waits, 1);
            evenkeel_io::blocking(|| {
                while *left < frames {
                    self.permits.returned.wait(&mut left);
                }
            });
        }
        *left -= frames;
        drop(left);
        FrameReservation {
            core: Some(Arc::clone(self)),
            frames,
        }
    }
}

/// Result of an attempt to replace a page of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reuse {
    /// The frame is the ring's, without a page.
    Emptied,
    /// Others have used it, or it has been evicted: the frame is the ring's no more.
    Left,
    /// In use at this moment.
    Pinned,
    /// To be written before it can be replaced, or being written.
    Unwritten,
}

/// The state of a frame, as the clock sweep found it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Candidate {
    /// Free, pinned or being written.
    Busy,
    /// In use lately; cooled by one step.
    Warm,
    /// Cold, to be written before it can be evicted.
    Dirty,
    /// Cold and clean.
    Clean,
}

/// A promise that so many frames can be pinned at once without waiting for another operation
/// that itself waits. Costs nothing in a pool of ordinary size.
#[must_use = "the promise ends when this is dropped"]
pub struct FrameReservation {
    core: Option<Arc<PoolCore>>,
    frames: usize,
}

impl Drop for FrameReservation {
    fn drop(&mut self) {
        if let Some(core) = &self.core {
            let mut left = core.permits.left.lock();
            *left += self.frames;
            debug_assert!(
                *left <= core.permits.total,
                "more frames promised back than there are"
            );
            drop(left);
            core.permits.returned.notify_all();
        }
    }
}
