//! The time that a flush of the log takes, and how much of that is due to pages being written
//! beside it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Weight of a new flush in a mean: one in this many.
const WEIGHT: u64 = 16;

/// Means of the time that a flush of the log takes, in microseconds, with and without page
/// writes on the device at the time.
#[derive(Debug, Default)]
pub struct FlushLatency {
    /// Page writes begun and ended so far; they differ while some are on the device.
    begun: AtomicU64,
    ended: AtomicU64,
    quiet: AtomicU64,
    busy: AtomicU64,
    /// Flushes that met page writes.
    met: AtomicU64,
}

/// State of the device when a flush began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    begun: u64,
    idle: bool,
}

impl FlushLatency {
    /// Page writes are being handed to the device.
    pub(crate) fn pages_begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// The device has taken them.
    pub(crate) fn pages_end(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn begin(&self) -> Mark {
        let ended = self.ended.load(Ordering::Relaxed);
        let begun = self.begun.load(Ordering::Relaxed);
        Mark {
            begun,
            idle: begun == ended,
        }
    }

    /// Notes a flush. Called by the one thread that flushes.
    pub(crate) fn note(&self, mark: Mark, took: Duration) {
        let alone = mark.idle && self.begun.load(Ordering::Relaxed) == mark.begun;
        let mean = if alone { &self.quiet } else { &self.busy };
        // In units of 1/WEIGHT microseconds, so that rounding does not hold a mean up.
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX / WEIGHT);
        let old = mean.load(Ordering::Relaxed);
        let new = match old {
            0 => micros.saturating_mul(WEIGHT),
            old => (old - old / WEIGHT).saturating_add(micros),
        };
        mean.store(new.max(1), Ordering::Relaxed);
        if !alone {
            self.met.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Mean time of a flush with no page writes beside it; zero when none was seen.
    #[must_use]
    pub fn quiet(&self) -> Duration {
        Duration::from_micros(self.quiet.load(Ordering::Relaxed) / WEIGHT)
    }

    /// The same for flushes that met page writes.
    #[must_use]
    pub fn busy(&self) -> Duration {
        Duration::from_micros(self.busy.load(Ordering::Relaxed) / WEIGHT)
    }

    /// Flushes so far that met page writes.
    #[must_use]
    pub fn met(&self) -> u64 {
        self.met.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_that_meet_page_writes_are_told_from_others() {
        let latency = FlushLatency::default();
        let millis = Duration::from_millis;
        for _ in 0..100 {
            latency.note(latency.begin(), millis(2));
        }
        assert_eq!((latency.quiet(), latency.busy()), (millis(2), millis(0)));
        latency.pages_begin();
        for _ in 0..100 {
            latency.note(latency.begin(), millis(20));
        }
        latency.pages_end();
        // Pages that came and went during the flush were met as well.
        let mark = latency.begin();
        latency.pages_begin();
        latency.pages_end();
        latency.note(mark, millis(20));
        assert_eq!(latency.met(), 101);
        latency.note(latency.begin(), millis(2));
        assert_eq!((latency.quiet(), latency.busy()), (millis(2), millis(20)));
    }
}
