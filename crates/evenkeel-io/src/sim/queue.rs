//! The simulated disk's queue: operations in flight run in any order, chosen by seed.

use super::rng::Rng;
use crate::queue::{IoCompletion, IoOp, IoQueue};

/// Runs operations when it is asked for completions, in random order. So a sync may run before
/// a write that was submitted ahead of it, as on a real disk.
pub(crate) struct SimQueue {
    waiting: Vec<IoOp>,
    depth: usize,
    rng: Rng,
}

impl SimQueue {
    pub(crate) fn new(depth: usize, seed: u64) -> Self {
        Self {
            waiting: Vec::new(),
            depth: depth.max(1),
            rng: Rng::new(seed),
        }
    }

    /// Runs so many operations, or all.
    fn run(&mut self, count: usize, out: &mut Vec<IoCompletion>) {
        for _ in 0..count.min(self.waiting.len()) {
            // Those beyond the depth have not started yet.
            let started = self.waiting.len().min(self.depth);
            out.extend(self.waiting.remove(self.rng.index(started)).run());
        }
    }
}

impl IoQueue for SimQueue {
    fn submit(&mut self, ops: Vec<IoOp>) {
        self.waiting.extend(ops);
    }

    fn poll(&mut self, out: &mut Vec<IoCompletion>) {
        // At least one, so that a caller who only polls gets on.
        let count = 1 + self.rng.index(self.waiting.len().min(self.depth));
        self.run(count, out);
    }

    fn wait(&mut self, min: usize, out: &mut Vec<IoCompletion>) {
        self.run(min, out);
    }

    fn in_flight(&self) -> usize {
        self.waiting.len()
    }
}

impl Drop for SimQueue {
    fn drop(&mut self) {
        self.run(usize::MAX, &mut Vec::new());
    }
}
