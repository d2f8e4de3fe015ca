//! Counters of the pool.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const STRIPES: usize = 32;

/// A counter that many threads increment: each mostly has a cache line of its own.
pub(crate) struct Striped([Stripe; STRIPES]);

#[repr(align(128))]
struct Stripe(AtomicU64);

thread_local! {
    static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
}

#[cold]
fn assign_stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let stripe = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES;
    STRIPE.set(stripe);
    stripe
}

impl Striped {
    pub(crate) fn new() -> Self {
        Striped([const { Stripe(AtomicU64::new(0)) }; STRIPES])
    }

    #[inline]
    pub(crate) fn increment(&self) {
        let mut stripe = STRIPE.get();
        if stripe == usize::MAX {
            stripe = assign_stripe();
        }
        // Not a read-modify-write: two threads on one stripe may lose a count, which a hit
        // counter can bear and the hit path notices.
        let counter = &self.0[stripe].0;
        counter.store(
            counter.load(Ordering::Relaxed).wrapping_add(1),
            Ordering::Relaxed,
        );
    }

    pub(crate) fn sum(&self) -> u64 {
        self.0.iter().fold(0, |sum, stripe| {
            sum.wrapping_add(stripe.0.load(Ordering::Relaxed))
        })
    }
}

/// The pool's counters as they are incremented.
pub(crate) struct Counters {
    pub(crate) hits: Striped,
    pub(crate) reads: AtomicU64,
    pub(crate) prefetched: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) evictions: AtomicU64,
    pub(crate) extends: AtomicU64,
    pub(crate) allocations: AtomicU64,
    pub(crate) foreground_waits: AtomicU64,
    pub(crate) foreground_evictions: AtomicU64,
    pub(crate) zeroed_advice: AtomicU64,
}

impl Counters {
    pub(crate) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Counters {
            hits: Striped::new(),
            reads: zero(),
            prefetched: zero(),
            writes: zero(),
            evictions: zero(),
            extends: zero(),
            allocations: zero(),
            foreground_waits: zero(),
            foreground_evictions: zero(),
            zeroed_advice: zero(),
        }
    }

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
    /// Blocks by which forks were extended.
    pub extends: u64,
    /// Frames taken for a page.
    pub allocations: u64,
    /// Times a foreground thread had to wait for a free frame.
    pub foreground_waits: u64,
    /// Frames that foreground threads evicted themselves, the reserve being empty.
    pub foreground_evictions: u64,
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
