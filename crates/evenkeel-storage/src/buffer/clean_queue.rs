//! Pages that are handed to the cleaner early: by rings, long before their frames are needed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::ids::{FrameId, PageId};

/// Offers beyond this number are forgotten; a ring offers a page again when it comes round to it.
const MOST: usize = 8192;

/// The pages offered, and who waits for some to be written.
#[derive(Default)]
pub(crate) struct CleanQueue {
    pages: Mutex<Vec<(PageId, FrameId)>>,
    /// Rounds of writing done.
    rounds: Mutex<u64>,
    cleaned: Condvar,
    /// How long the cleaner has waited for the log.
    pub(super) log_waits: Stopwatch,
}

/// Adds up how long one thread has been at something; others may look while it runs.
#[derive(Default)]
pub(crate) struct Stopwatch {
    /// Microseconds, without the present run.
    spent: AtomicU64,
    running: Mutex<Option<Instant>>,
}

impl Stopwatch {
    /// Counts the time that `work` takes.
    pub(crate) fn time<R>(&self, work: impl FnOnce() -> R) -> R {
        let begun = Instant::now();
        *self.running.lock() = Some(begun);
        let result = work();
        let mut running = self.running.lock();
        *running = None;
        let took = begun.elapsed().as_micros() as u64;
        self.spent.fetch_add(took, Ordering::Relaxed);
        result
    }

    /// Microseconds so far.
    pub(super) fn micros(&self) -> u64 {
        let running = self.running.lock();
        let present = running.map_or(0, |begun| begun.elapsed().as_micros() as u64);
        self.spent.load(Ordering::Relaxed) + present
    }
}

impl CleanQueue {
    /// Adds pages; says whether there were any.
    pub(super) fn add(&self, pages: impl Iterator<Item = (PageId, FrameId)>) -> bool {
        let mut pages = pages.peekable();
        if pages.peek().is_none() {
            return false;
        }
        let mut offered = self.pages.lock();
        let room = MOST.saturating_sub(offered.len());
        offered.extend(pages.take(room));
        true
    }

    /// The oldest offers, at most so many.
    pub(super) fn take(&self, most: usize) -> Vec<(PageId, FrameId)> {
        let mut offered = self.pages.lock();
        let count = offered.len().min(most);
        offered.drain(..count).collect()
    }

    pub(super) fn cleaned(&self) {
        *self.rounds.lock() += 1;
        self.cleaned.notify_all();
    }

    pub(super) fn await_cleaning(&self, limit: Duration) {
        let mut rounds = self.rounds.lock();
        let before = *rounds;
        self.cleaned
            .wait_while_for(&mut rounds, |now| *now == before, limit);
    }
}
