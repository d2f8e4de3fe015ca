//! The cleaner: keeps a reserve of free frames, so that nobody who needs one waits or writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::batch::{BatchWriter, Shared};
use crate::buffer::{Candidate, PoolCore};
use crate::error::{StorageError, StorageResult};
use crate::ids::{FrameId, PageId};
use crate::stats::BackendType;

/// How far ahead of demand the reserve is kept, in seconds of the present demand.
const AHEAD: f64 = 0.05;
/// Longest sleep while frames are taken; demand is looked at anew after it.
const IDLE: Duration = Duration::from_millis(500);
/// Sleep when nobody takes frames: who does calls.
const QUIET: Duration = Duration::from_secs(60);
/// Batches of offered pages that are written before the reserve is looked at again.
const OFFERED_BATCHES: usize = 4;
/// Sleep when everything was pinned or hot although somebody waits.
const BUSY: Duration = Duration::from_millis(1);

/// The cleaner's thread.
pub(super) struct Cleaner {
    shared: Arc<Shared>,
    control: Arc<Control>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Control {
    stop: AtomicBool,
    pages: AtomicU64,
    freed: AtomicU64,
}

impl Cleaner {
    pub(super) fn start(
        shared: Arc<Shared>,
        batch: usize,
        flush_after: u64,
    ) -> StorageResult<Cleaner> {
        let control = Arc::new(Control::default());
        let mut worker = Worker {
            lane: BatchWriter::new(&shared, batch, flush_after, true),
            demand: Demand::new(shared.pool.core()),
            shared: Arc::clone(&shared),
            control: Arc::clone(&control),
        };
        let thread = Builder::new()
            .name("evenkeel-cleaner".into())
            .spawn(move || worker.run())
            .map_err(|error| StorageError::Internal(format!("no cleaner: {error}").into()))?;
        Ok(Cleaner {
            shared,
            control,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Ends the thread after the batch it is at.
    pub(super) fn stop(&self) {
        self.control.stop.store(true, Ordering::SeqCst);
        let Some(thread) = self.thread.lock().take() else {
            return;
        };
        self.shared.pool.core().call_cleaner();
        // A panic there has poisoned the instance.
        let _ = thread.join();
    }

    /// Pages written and frames freed.
    pub(super) fn counts(&self) -> (u64, u64) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (load(&self.control.pages), load(&self.control.freed))
    }
}

struct Worker {
    shared: Arc<Shared>,
    control: Arc<Control>,
    lane: BatchWriter,
    demand: Demand,
}

impl Worker {
    fn run(&mut self) {
        let _who = BackendType::BackgroundWriter.enter();
        let _guard = self.shared.pool.core().poison.guard("evenkeel-cleaner");
        let mut sleep = IDLE;
        loop {
            self.shared.pool.core().await_call(sleep);
            if self.control.stop.load(Ordering::SeqCst) || self.shared.pool.poison().is_set() {
                return;
            }
            sleep = match self.refill() {
                Ok(true) if self.demand.is_quiet() => QUIET,
                Ok(true) => IDLE,
                Ok(false) => BUSY,
                // The instance is poisoned and says so itself.
                Err(_) => return,
            };
        }
    }

    /// Fills the reserve up to the high watermark. Says whether there was enough to take.
    fn refill(&mut self) -> StorageResult<bool> {
        let core = Arc::clone(self.shared.pool.core());
        let mut fruitless = 0;
        while !self.control.stop.load(Ordering::SeqCst) {
            // In turn: offers that keep coming must not hold up who waits for a frame.
            let cleaned = self.clean_offered(&core)?;
            self.demand.observe(&core);
            if core.free_count() >= self.demand.high {
                if cleaned {
                    continue;
                }
                break;
            }
            let freed = self.sweep(&core)?;
            self.control
                .freed
                .fetch_add(freed as u64, Ordering::Relaxed);
            fruitless = if freed == 0 { fruitless + 1 } else { 0 };
            // So many sweeps make the hottest frame cold, if it is not used meanwhile.
            if fruitless > crate::buffer::MAX_USAGE {
                return Ok(core.hungry() == 0);
            }
        }
        self.lane.settle(&self.shared)?;
        Ok(true)
    }

    /// Writes some of what rings have handed over, as it came: a batch has one flush of the log.
    /// Says whether there was anything.
    fn clean_offered(&mut self, core: &PoolCore) -> StorageResult<bool> {
        let mut offered = core.take_offers(OFFERED_BATCHES * self.lane.capacity());
        if offered.is_empty() {
            return Ok(false);
        }
        offered.sort_unstable();
        offered.dedup();
        let mut rest = &offered[..];
        while !rest.is_empty() && !self.control.stop.load(Ordering::SeqCst) {
            let (looked_at, written) = self.lane.write(&self.shared, rest, false)?;
            rest = &rest[looked_at..];
            self.control
                .pages
                .fetch_add(written as u64, Ordering::Relaxed);
            core.cleaned();
        }
        Ok(true)
    }

    /// Moves the clock until enough victims are found or it is round, evicts the clean ones and
    /// writes the dirty ones first.
    fn sweep(&mut self, core: &PoolCore) -> StorageResult<usize> {
        let want = self.demand.high.saturating_sub(core.free_count());
        let mut free = Vec::new();
        let mut dirty: Vec<(PageId, FrameId)> = Vec::new();
        for _ in 0..core.frame_count() {
            if free.len() + dirty.len() >= want || dirty.len() >= self.lane.capacity() {
                break;
            }
            let id = core.tick();
            match core.inspect(id) {
                Candidate::Clean if core.evict(id) => free.push(id),
                Candidate::Dirty => {
                    dirty.extend(self.shared.pool.identity(id).map(|page| (page, id)));
                }
                _ => {}
            }
        }
        core.put_frames(&free);
        let mut freed = free.len();
        if dirty.is_empty() {
            return Ok(freed);
        }
        dirty.sort_unstable();
        let (_, written) = self.lane.write(&self.shared, &dirty, false)?;
        self.control
            .pages
            .fetch_add(written as u64, Ordering::Relaxed);
        if written > 0 {
            free.clear();
            free.extend(self.lane.written().filter(|id| core.evict(*id)));
            core.put_frames(&free);
            freed += free.len();
        }
        Ok(freed)
    }
}

/// Tunes the watermarks from the rate at which frames are taken: quick to rise, slow to fall.
struct Demand {
    low_floor: usize,
    cap: usize,
    high: usize,
    rate: f64,
    seen: u64,
    at: Instant,
}

impl Demand {
    fn new(core: &PoolCore) -> Demand {
        let frames = core.frame_count();
        let cap = (frames / 8).max(1);
        let low_floor = (frames / 256).clamp(1, 256).min(cap);
        let mut demand = Demand {
            low_floor,
            cap,
            high: cap,
            rate: 0.0,
            seen: 0,
            at: Instant::now(),
        };
        demand.set(core);
        demand
    }

    fn observe(&mut self, core: &PoolCore) {
        let elapsed = self.at.elapsed().as_secs_f64();
        // Too short a time says nothing.
        if elapsed < 0.005 {
            return;
        }
        let taken = core.counters.allocations.load(Ordering::Relaxed);
        let rate = taken.wrapping_sub(self.seen) as f64 / elapsed;
        self.rate = if rate > self.rate {
            rate
        } else {
            self.rate + (rate - self.rate) / 16.0
        };
        self.seen = taken;
        self.at = Instant::now();
        self.set(core);
    }

    /// Whether hardly a frame is taken any more.
    fn is_quiet(&self) -> bool {
        self.rate < 1.0
    }

    fn set(&mut self, core: &PoolCore) {
        // Finite and not negative; the cast saturates.
        let ahead = (self.rate * AHEAD) as usize;
        self.high = (2 * ahead).clamp(2 * self.low_floor, self.cap.max(2 * self.low_floor));
        core.set_low_watermark((self.high / 2).max(self.low_floor));
    }
}
