//! Reading ahead for one sequential pass over a fork.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::fork::ForkHandle;
use super::strategy::BufferAccessStrategy;

/// Blocks that a pass asks for at first; a pass that goes on asks for more and more.
const FIRST_WINDOW: u32 = 4;
/// The most blocks that a pass asks for at once as long as the page cache has them. One whose reads
/// wait for the device asks for more, until as many are under way as the depth allows.
const LAST_WINDOW: u32 = 128;

/// Reading ahead for one sequential pass over a fork, in windows: the next one is asked for when
/// half of the last is still to be used, so that the pass finds its pages there.
#[derive(Debug)]
pub struct ReadAhead {
    end: u32,
    asked: u32,
    window: u32,
    /// The most blocks that it asks for at once.
    most: u32,
    /// Reads of the fork that had waited for the device when it last asked.
    device_reads: Option<u64>,
    position: Arc<AtomicU32>,
    ring: Option<Arc<BufferAccessStrategy>>,
}

impl ReadAhead {
    /// For a pass that goes up to before block `end`.
    #[must_use]
    pub fn new(end: u32, ring: Option<Arc<BufferAccessStrategy>>) -> ReadAhead {
        ReadAhead {
            end,
            asked: 0,
            window: FIRST_WINDOW,
            most: LAST_WINDOW,
            device_reads: None,
            position: Arc::default(),
            ring,
        }
    }

    /// To be called before each block of the pass, in order; blocks may be left out.
    #[inline]
    pub fn at(&mut self, fork: &ForkHandle, block: u32) {
        self.position.store(block, Ordering::Relaxed);
        if block.saturating_add(self.window / 2) >= self.asked {
            self.ask(fork, block);
        }
    }

    #[cold]
    fn ask(&mut self, fork: &ForkHandle, block: u32) {
        let ring = self.ring.as_ref();
        let device_reads = fork.device_reads();
        let before = self.device_reads.replace(device_reads);
        if before.is_some_and(|before| before != device_reads) {
            let deep = fork.deep_window(ring);
            self.most = self.most.saturating_mul(2).min(deep.max(LAST_WINDOW));
        }
        let most = fork.window(ring).min(self.most);
        let first = self.asked.max(block);
        let end = first.saturating_add(self.window.min(most)).min(self.end);
        self.window = (self.window * 2).min(most);
        if most > 1 && first < end {
            self.asked = end;
            fork.ask_ahead(first..end, ring, Some(&self.position));
        } else {
            // Nothing to ask for, now and later.
            self.asked = u32::MAX;
        }
    }
}
