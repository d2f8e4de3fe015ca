//! Passes over whole heaps: where a large one begins, what it takes of the pool, reading ahead.

use std::ops::Range;
use std::sync::Arc;

use evenkeel_storage::buffer::{BufferAccessStrategy, ReadAhead};

use super::Table;
use super::space::Space;

/// A heap larger than this part of the pool is read through a ring.
const LARGE: u32 = 4;
/// Blocks between two announcements of a pass's position.
const STEP: u32 = 16;

/// A pass under way over some blocks of a heap, each visited once.
pub struct Pass {
    space: Arc<Space>,
    blocks: Range<u32>,
    next: u32,
    left: u32,
    ahead: ReadAhead,
    ring: Option<Arc<BufferAccessStrategy>>,
    /// Takes part in synchronising.
    synchronised: bool,
}

impl Pass {
    /// A pass over `blocks`. If it `joins` others, one over a whole large heap begins where another
    /// one is, goes on to the end and then from the start: the system reads each block once for
    /// both.
    pub(super) fn new(table: &Table, blocks: Range<u32>, joins: bool) -> Pass {
        let pool = table.store().pool();
        let large = u64::from(table.blocks()) > pool.frames() / u64::from(LARGE);
        let ring = large.then(|| BufferAccessStrategy::bulk_read(pool));
        let whole = blocks == (0..table.blocks());
        let synchronised = large && whole && joins;
        let space = Arc::clone(&table.space);
        let mut next = blocks.start;
        if synchronised
            && let Some(at) = space.passes().join()
            && blocks.contains(&at)
        {
            next = at;
        }
        Pass {
            space,
            left: blocks.end.saturating_sub(blocks.start),
            next,
            ahead: ReadAhead::new(blocks.end, ring.clone()),
            blocks,
            ring,
            synchronised,
        }
    }

    /// The strategy to visit its blocks with.
    pub(super) fn ring(&self) -> Option<&Arc<BufferAccessStrategy>> {
        self.ring.as_ref()
    }

    /// The next block, asked for ahead of use.
    pub(super) fn next(&mut self) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        if self.next == self.blocks.end {
            self.next = self.blocks.start;
            // Read ahead only to the place where the pass began: blocks behind it have been read.
            let end = self.next.saturating_add(self.left).saturating_add(1);
            self.ahead = ReadAhead::new(end, self.ring.clone());
        }
        let block = self.next;
        self.next += 1;
        if self.synchronised && block.is_multiple_of(STEP) {
            self.space.passes().announce(block);
        }
        self.ahead.at(self.space.fork(), block);
        Some(block)
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if self.synchronised {
            self.space.passes().leave();
        }
    }
}
