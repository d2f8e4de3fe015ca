//! How long operations on files took.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_io::OpKind;

use super::object::IoObject;

/// Buckets of a histogram: bucket `n` counts what took less than 2^n microseconds and not less
/// than half of that; the last one everything longer.
pub const LATENCY_BUCKETS: usize = 28;

/// Operations that are timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimedOperation {
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Asking for write-back.
    Writeback,
    /// Allocating space at a file's end.
    Extend,
    /// Syncing a file or a directory.
    Fsync,
}

impl TimedOperation {
    /// All of them, in the order of their numbers.
    pub const ALL: [TimedOperation; 5] = [
        TimedOperation::Read,
        TimedOperation::Write,
        TimedOperation::Writeback,
        TimedOperation::Extend,
        TimedOperation::Fsync,
    ];

    /// A name for views and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TimedOperation::Read => "read",
            TimedOperation::Write => "write",
            TimedOperation::Writeback => "writeback",
            TimedOperation::Extend => "extend",
            TimedOperation::Fsync => "fsync",
        }
    }

    pub(super) fn of(kind: OpKind) -> Option<TimedOperation> {
        Some(match kind {
            OpKind::Read => TimedOperation::Read,
            OpKind::Write => TimedOperation::Write,
            OpKind::StartWriteback => TimedOperation::Writeback,
            OpKind::Allocate => TimedOperation::Extend,
            OpKind::SyncData | OpKind::SyncAll | OpKind::SyncDir => TimedOperation::Fsync,
            _ => return None,
        })
    }
}

/// One histogram, as it is counted.
pub(super) struct Histogram {
    counts: [AtomicU64; LATENCY_BUCKETS],
    nanos: AtomicU64,
    max_nanos: AtomicU64,
}

impl Histogram {
    pub(super) fn new() -> Histogram {
        Histogram {
            counts: [const { AtomicU64::new(0) }; LATENCY_BUCKETS],
            nanos: AtomicU64::new(0),
            max_nanos: AtomicU64::new(0),
        }
    }

    pub(super) fn record(&self, nanos: u64) {
        let micros = nanos / 1000;
        let bucket = (u64::BITS - micros.leading_zeros()) as usize;
        self.counts[bucket.min(LATENCY_BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        if self.max_nanos.load(Ordering::Relaxed) < nanos {
            self.max_nanos.fetch_max(nanos, Ordering::Relaxed);
        }
    }

    pub(super) fn snapshot(&self, object: IoObject, operation: TimedOperation) -> LatencySnapshot {
        LatencySnapshot {
            object,
            operation,
            counts: std::array::from_fn(|n| self.counts[n].load(Ordering::Relaxed)),
            total: Duration::from_nanos(self.nanos.load(Ordering::Relaxed)),
            longest: Duration::from_nanos(self.max_nanos.load(Ordering::Relaxed)),
        }
    }
}

/// How long one kind of operation on one kind of file has taken since the start.
#[derive(Clone, Debug)]
pub struct LatencySnapshot {
    /// The kind of file.
    pub object: IoObject,
    /// The operation.
    pub operation: TimedOperation,
    /// Operations by duration; see [`LATENCY_BUCKETS`].
    pub counts: [u64; LATENCY_BUCKETS],
    /// The sum of the durations.
    pub total: Duration,
    /// The longest one.
    pub longest: Duration,
}

impl LatencySnapshot {
    /// Operations counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// A bound that this part (0 to 1) of the operations did not exceed: twice too large at most.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Duration {
        let wanted = (self.count() as f64 * part.clamp(0.0, 1.0)).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted.max(1) {
                return Duration::from_micros(1 << bucket).min(self.longest);
            }
        }
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_go_into_the_bucket_of_their_magnitude() {
        let histogram = Histogram::new();
        for micros in [0, 1, 3, 100, 100, 1_000_000, u64::MAX / 2000] {
            histogram.record(micros * 1000);
        }
        let seen = histogram.snapshot(IoObject::Wal, TimedOperation::Fsync);
        assert_eq!(seen.count(), 7);
        assert_eq!((seen.counts[0], seen.counts[1], seen.counts[2]), (1, 1, 1));
        assert_eq!((seen.counts[7], seen.counts[20]), (2, 1));
        assert_eq!(seen.counts[LATENCY_BUCKETS - 1], 1);
        assert_eq!(seen.quantile(0.5), Duration::from_micros(128));
        assert_eq!(seen.quantile(1.0), Duration::from_micros(1 << 27));
    }
}
