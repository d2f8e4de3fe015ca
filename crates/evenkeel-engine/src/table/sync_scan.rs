//! Synchronised passes: where those over a heap are, so that one that begins can share what another
//! has just read.

use std::sync::atomic::{AtomicU32, Ordering};

/// The position of the passes over a heap that take part.
#[derive(Default)]
pub struct PassPosition {
    under_way: AtomicU32,
    at: AtomicU32,
}

impl PassPosition {
    /// A pass begins to take part. Returns the block of the others, if there are any.
    pub fn join(&self) -> Option<u32> {
        let others = self.under_way.fetch_add(1, Ordering::AcqRel) > 0;
        others.then(|| self.at.load(Ordering::Acquire))
    }

    /// A pass is at `block`.
    pub fn announce(&self, block: u32) {
        self.at.store(block, Ordering::Release);
    }

    /// A pass has ended.
    pub fn leave(&self) {
        self.under_way.fetch_sub(1, Ordering::AcqRel);
    }
}
