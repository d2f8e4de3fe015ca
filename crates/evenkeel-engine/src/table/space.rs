//! Where inserts go: a few target blocks, then the free-space map, then new blocks.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use evenkeel_storage::buffer::ForkHandle;
use evenkeel_storage::{BlockNumber, FileId, Fork, Store};
use parking_lot::Mutex;

use super::sync_scan::PassPosition;
use crate::error::{EngineError, EngineResult};
use crate::fsm::FreeSpaceMap;
use crate::heap::layout::{LINE_POINTER_SIZE, PAGE_CAPACITY, tuple_space};

/// Blocks that are being filled at the same time: enough that the inserts of as many threads
/// do not meet on a page.
const TARGETS: usize = 8;
const NONE: u32 = u32::MAX;
/// The most blocks by which a heap grows at once.
const GROWTH_MAX: u32 = 64;
/// How often the map's advice may be wrong before new blocks are made instead.
const MISSES_MAX: u32 = 16;

/// The space of one heap; all tables opened on the heap share it.
pub struct Space {
    fork: Arc<ForkHandle>,
    fsm: FreeSpaceMap,
    targets: [AtomicU32; TARGETS],
    tried_last: AtomicBool,
    growing: Mutex<()>,
    passes: PassPosition,
}

/// So many damaged pages are avoided by one search.
const DAMAGED_MAX: u32 = 2 * MISSES_MAX;

/// More than this is not asked of the map, which counts in steps: an empty page has it.
const NEED_MAX: usize = PAGE_CAPACITY - PAGE_CAPACITY / 64;

/// A search for room; ends by itself after a bounded number of misses.
pub struct Search {
    need: usize,
    misses: u32,
    damaged: u32,
}

impl Search {
    /// Whether the search is to go on elsewhere after a page could not be had: it is that page,
    /// or its map's, that is damaged.
    pub fn may_avoid(&mut self, error: &EngineError) -> bool {
        self.damaged += 1;
        error.damaged_page().is_some() && self.damaged <= DAMAGED_MAX
    }
}

thread_local! {
    static TARGET: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The calling thread's choice among the targets.
fn my_target() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    TARGET.with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed) % TARGETS);
        }
        mine.get()
    })
}

impl Space {
    /// The space of `heap`.
    pub fn open(store: &Store, heap: FileId) -> EngineResult<Space> {
        Ok(Space {
            fork: store.pool().fork(heap, Fork::Main)?,
            fsm: FreeSpaceMap::open(store, heap)?,
            targets: std::array::from_fn(|_| AtomicU32::new(NONE)),
            tried_last: AtomicBool::new(false),
            growing: Mutex::new(()),
            passes: PassPosition::default(),
        })
    }

    /// The heap's main fork.
    pub fn fork(&self) -> &Arc<ForkHandle> {
        &self.fork
    }

    /// Where sequential passes are.
    pub(super) fn passes(&self) -> &PassPosition {
        &self.passes
    }

    /// The free-space map.
    pub fn fsm(&self) -> &FreeSpaceMap {
        &self.fsm
    }

    /// Begins a search for a page with `need` free bytes.
    pub fn search(&self, need: usize) -> Search {
        Search {
            need: need.min(NEED_MAX),
            misses: 0,
            damaged: 0,
        }
    }

    /// Begins a search for room for a row of `row_len` bytes.
    pub fn search_for(&self, row_len: usize) -> Search {
        self.search(tuple_space(row_len) + LINE_POINTER_SIZE)
    }

    /// A block for a row that has no room on its own page, nor on the one that was `tried`: the
    /// pages come with their free bytes.
    pub fn elsewhere(
        &self,
        search: &mut Search,
        own: (BlockNumber, usize),
        tried: Option<(BlockNumber, usize)>,
    ) -> EngineResult<BlockNumber> {
        let mut block = match tried {
            Some((block, free)) => self.pass_on(search, block, free)?,
            None => self.target(search)?,
        };
        while block == own.0 {
            block = self.pass_on(search, own.0, own.1)?;
        }
        Ok(block)
    }

    /// The block the calling thread fills, or another one to begin with.
    pub fn target(&self, search: &mut Search) -> EngineResult<BlockNumber> {
        match self.targets[my_target()].load(Ordering::Relaxed) {
            block if block < self.fork.len() => Ok(BlockNumber(block)),
            _ => self.next(search),
        }
    }

    /// Another block for the calling thread, after `left` turned out to have `free` bytes only.
    pub fn pass_on(
        &self,
        search: &mut Search,
        left: BlockNumber,
        free: usize,
    ) -> EngineResult<BlockNumber> {
        search.misses += 1;
        self.fsm.record(left, free)?;
        self.next(search)
    }

    fn next(&self, search: &mut Search) -> EngineResult<BlockNumber> {
        let block = match self.known(search)? {
            Some(block) => block,
            None => self.grow(search)?,
        };
        self.targets[my_target()].store(block.0, Ordering::Relaxed);
        Ok(block)
    }

    fn known(&self, search: &Search) -> EngineResult<Option<BlockNumber>> {
        if search.misses > MISSES_MAX {
            return Ok(None);
        }
        let found = self.fsm.claim(search.need, self.fork.len())?;
        if found.is_some() || self.tried_last.swap(true, Ordering::Relaxed) {
            return Ok(found);
        }
        // The map may have been lost with its news of the last page.
        Ok(self.fork.len().checked_sub(1).map(BlockNumber))
    }

    /// Extends the heap. A caller that had to wait for another's extension looks at the blocks of
    /// that extension first.
    fn grow(&self, search: &Search) -> EngineResult<BlockNumber> {
        let guard = match self.growing.try_lock() {
            Some(guard) => guard,
            None => {
                let guard = self.growing.lock();
                if let Some(block) = self.known(search)? {
                    return Ok(block);
                }
                guard
            }
        };
        let first = self.extend((self.fork.len() / 8).clamp(1, GROWTH_MAX))?;
        drop(guard);
        Ok(first)
    }

    /// A block that was never used, for the caller alone.
    pub fn new_block(&self) -> EngineResult<BlockNumber> {
        Ok(self.fork.extend(1)?)
    }

    /// Extends the heap by `blocks`; the first is the caller's, the others go into the map.
    fn extend(&self, blocks: u32) -> EngineResult<BlockNumber> {
        let first = self.fork.extend(blocks)?;
        if blocks > 1 {
            self.fsm
                .record_range(first.0 + 1..first.0 + blocks, PAGE_CAPACITY)?;
        }
        Ok(first)
    }

    /// Forgets targets at or beyond `blocks`, which were cut off.
    pub fn truncated(&self, blocks: u32) {
        for target in &self.targets {
            let _ = target.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |block| {
                (block >= blocks).then_some(NONE)
            });
        }
    }
}
