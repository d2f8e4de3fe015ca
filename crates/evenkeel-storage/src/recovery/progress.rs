//! How far recovery is, for those who look on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::stats::{PrefetchStats, RecoveryStats};

/// Says every few seconds how far redo is.
#[derive(Debug)]
pub(super) struct Report {
    began: Instant,
    last: Mutex<Instant>,
}

impl Report {
    /// How often.
    const INTERVAL: Duration = Duration::from_secs(5);

    pub(super) fn new(began: Instant) -> Report {
        Report {
            began,
            last: Mutex::new(began),
        }
    }

    /// Says it, if it is time.
    pub(super) fn tell(&self, progress: &Progress) {
        let Some(mut last) = self.last.try_lock() else {
            return;
        };
        if last.elapsed() < Self::INTERVAL {
            return;
        }
        *last = Instant::now();
        let (elapsed, progress) = (
            self.began.elapsed(),
            progress.stats(&RecoveryStats::default()),
        );
        let (done, pages) = (progress.pages_done, progress.pages.max(1));
        let left = elapsed.as_secs_f64() * (pages - done.min(pages)) as f64 / done.max(1) as f64;
        tracing::info!(
            "redo in progress, elapsed time: {:.2} s, {done} of {pages} pages done ({:.0}%), {:.0} \
             pages/s, about {left:.0} s left",
            elapsed.as_secs_f64(),
            done as f64 * 100.0 / pages as f64,
            done as f64 / elapsed.as_secs_f64().max(1e-3),
        );
    }
}

/// Counters that redo's threads, and all who load pages, add to.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(super) pages: AtomicU64,
    pub(super) pages_done: AtomicU64,
    pub(super) home: AtomicU64,
    pub(super) applied: AtomicU64,
    pub(super) skipped: AtomicU64,
    pub(super) compared: AtomicU64,
    pub(super) set_aside: AtomicU64,
    pub(super) kept: AtomicU64,
    pub(super) prefetched: AtomicU64,
    pub(super) hits: AtomicU64,
    pub(super) skip_init: AtomicU64,
    pub(super) skip_fpw: AtomicU64,
    pub(super) skip_new: AtomicU64,
    pub(super) skip_rep: AtomicU64,
    began: Option<Instant>,
    /// Microseconds of redo, once it is done.
    took: AtomicU64,
    /// Microseconds of redo before the database was opened.
    before_opening: AtomicU64,
    done: AtomicBool,
}

impl Progress {
    pub(super) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }

    /// Redo begins.
    pub(super) fn new() -> Progress {
        Progress {
            began: Some(Instant::now()),
            ..Progress::default()
        }
    }

    fn elapsed(&self) -> Duration {
        self.began.map(|began| began.elapsed()).unwrap_or_default()
    }

    /// The database is open from here on.
    pub(super) fn opened(&self) {
        let micros = u64::try_from(self.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.before_opening.store(micros, Ordering::Relaxed);
    }

    /// Nothing is owed any more.
    pub(super) fn finish(&self) {
        let micros = u64::try_from(self.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.took.store(micros, Ordering::Relaxed);
        self.done.store(true, Ordering::Release);
    }

    /// Whether nothing is owed any more.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// The counts so far, beside what analysis knew.
    pub(crate) fn stats(&self, analysis: &RecoveryStats) -> RecoveryStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RecoveryStats {
            pages: get(&self.pages),
            pages_done: get(&self.pages_done),
            home: get(&self.home),
            applied: get(&self.applied),
            skipped: get(&self.skipped),
            compared: get(&self.compared),
            set_aside: get(&self.set_aside),
            kept: get(&self.kept),
            redo_time: match self.is_done() {
                true => Duration::from_micros(get(&self.took)),
                false => self.elapsed(),
            },
            is_done: self.is_done(),
            open_time: analysis.scan_time + Duration::from_micros(get(&self.before_opening)),
            prefetch: PrefetchStats {
                prefetch: get(&self.prefetched),
                hit: get(&self.hits),
                skip_init: get(&self.skip_init),
                skip_fpw: get(&self.skip_fpw),
                skip_new: get(&self.skip_new),
                skip_rep: get(&self.skip_rep),
            },
            ..analysis.clone()
        }
    }
}
