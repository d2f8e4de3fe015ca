//! How many segment files are open, and which are closed for others.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::segment::Segment;

/// Fewest segment files that are kept open, however low the process's limit is.
const LEAST: usize = 16;

/// The open segment files, in the order of a clock.
pub(super) struct Descriptors {
    limit: usize,
    open: Arc<AtomicUsize>,
    /// Segments that were opened; some have been closed since.
    clock: Mutex<VecDeque<Weak<Segment>>>,
}

impl Descriptors {
    pub(super) fn new(limit: usize) -> Descriptors {
        Descriptors {
            limit: limit.max(LEAST),
            open: Arc::default(),
            clock: Mutex::default(),
        }
    }

    /// Whether one more file may be opened only when another is closed.
    pub(super) fn is_full(&self) -> bool {
        self.open.load(Ordering::Relaxed) >= self.limit
    }

    /// How many to close at once: making room costs a pass, which is shared by so many openings.
    pub(super) fn share(&self) -> usize {
        self.open.load(Ordering::Relaxed) / 8 + 1
    }

    /// A segment was opened.
    pub(super) fn opened(&self, segment: &Arc<Segment>) {
        let mut clock = self.clock.lock();
        clock.push_back(Arc::downgrade(segment));
        // The hand never meets those of dropped files if the limit is not reached.
        if clock.len() > 2 * self.open.load(Ordering::Relaxed) + LEAST {
            clock.retain(|segment| segment.upgrade().is_some_and(|segment| segment.is_open()));
        }
    }

    /// Closes up to `most` files that nobody uses and that need no sync, those first that were not
    /// used lately; answers how many.
    pub(super) fn close_idle(&self, most: usize, careless: bool) -> usize {
        let mut clock = self.clock.lock();
        let mut closed = 0;
        // Twice around: the first time takes from those used lately what says so.
        for _ in 0..2 * clock.len() {
            if closed == most {
                break;
            }
            let Some(place) = clock.pop_front() else {
                break;
            };
            let Some(segment) = place.upgrade().filter(|segment| segment.is_open()) else {
                continue;
            };
            if !segment.take_used() && segment.close_if_idle(careless) {
                closed += 1;
            } else {
                clock.push_back(place);
            }
        }
        closed
    }

    /// Up to `most` open segments that need a sync, those first that were opened first.
    pub(super) fn unsynced(&self, most: usize) -> Vec<Arc<Segment>> {
        let clock = self.clock.lock();
        let segments = clock.iter().filter_map(Weak::upgrade);
        let unsynced = segments.filter(|segment| segment.is_open() && segment.needs_sync());
        unsynced.take(most).collect()
    }

    /// The number of open segments, which they keep themselves.
    pub(super) fn open(&self) -> &Arc<AtomicUsize> {
        &self.open
    }
}
