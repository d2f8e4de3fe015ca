//! Counters of the pool.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::stats::{BackendType, SLOTS, backend_of_slot, slot};

/// A counter that many threads increment: each mostly has a cache line of its own.
pub(crate) struct Hits([Slot; SLOTS]);

#[repr(align(64))]
struct Slot(AtomicU64);

impl Hits {
    pub(crate) fn new() -> Self {
        Hits([const { Slot(AtomicU64::new(0)) }; SLOTS])
    }

    #[inline]
    pub(crate) fn increment(&self) {
        let counter = &self.0[slot()].0;
        // Not a read-modify-write: two threads on one slot may lose a count, which a hit
        // counter can bear and the hit path notices.
        counter.store(
            counter.load(Ordering::Relaxed).wrapping_add(1),
            Ordering::Relaxed,
        );
    }

    /// By all backends.
    pub(crate) fn sum(&self) -> u64 {
        self.by_backend().iter().sum()
    }

    /// By each kind of backend, in the order of [`BackendType::ALL`].
    pub(crate) fn by_backend(&self) -> [u64; BackendType::COUNT] {
        let mut sums = [0; BackendType::COUNT];
        for (slot, counter) in self.0.iter().enumerate() {
            sums[backend_of_slot(slot) as usize] += counter.0.load(Ordering::Relaxed);
        }
        sums
    }
}

/// The pool's counters as they are incremented.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) reads: AtomicU64,
    pub(crate) prefetched: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) evictions: AtomicU64,
    pub(crate) reuses: AtomicU64,
    pub(crate) extends: AtomicU64,
    pub(crate) allocations: AtomicU64,
    pub(crate) foreground_waits: AtomicU64,
    pub(crate) foreground_evictions: AtomicU64,
    pub(crate) ring_waits: AtomicU64,
    pub(crate) ring_wait_micros: AtomicU64,
    pub(crate) ring_wait_log_micros: AtomicU64,
    pub(crate) zeroed_advice: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }
}

/// The pool's counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Pages found in the pool (approximate under many threads).
    pub hits: u64,
    /// Pages read because they were not in the pool.
    pub reads: u64,
    /// Pages read ahead of use.
    pub prefetched: u64,
    /// Pages written home.
    pub writes: u64,
    /// Pages evicted to make room.
    pub evictions: u64,
    /// Pages replaced by the next page of their ring.
    pub reuses: u64,
    /// Blocks by which forks were extended.
    pub extends: u64,
    /// Frames taken for a page from outside a ring (`buffers_alloc`).
    pub allocations: u64,
    /// Times a foreground thread had to wait for a free frame.
    pub foreground_waits: u64,
    /// Frames that foreground threads evicted themselves, the reserve being empty.
    pub foreground_evictions: u64,
    /// Times a bulk operation had to wait for the cleaner to write pages of its ring.
    pub ring_waits: u64,
    /// How long they waited in all.
    pub ring_wait_time: Duration,
    /// How much of that time the cleaner in turn waited for the log.
    pub ring_wait_log_time: Duration,
    /// Damaged pages of free-space maps that were replaced by zeroes.
    pub zeroed_advice: u64,
    /// Frames in the pool.
    pub frames: u64,
    /// Frames in the free reserve now.
    pub free: u64,
    /// Frames with changes not yet copied for writing, now; only filled by
    /// [`BufferPool::census`](super::BufferPool::census).
    pub dirty: u64,
}

/// The counters of one fork since it was opened, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForkStats {
    /// Found in the pool (approximate under many threads).
    pub hits: u64,
    /// Read, on a miss or ahead of use.
    pub reads: u64,
}
