//! The visibility map: two bits for each heap block, in a fork of the heap's file.
//!
//! Entry points: [`VisibilityMap::bits`], [`VisibilityMap::pin`], [`redo::apply`]. Bits are set
//! by vacuum in the record that sets the heap page's own all-visible bit, and cleared as a part
//! of the heap record that ends the visibility, so that map and page always agree after redo.

pub mod redo;

use std::ops::Range;
use std::sync::Arc;

use evenkeel_storage::buffer::{ForkHandle, Pin};
use evenkeel_storage::page::{PAGE_HEADER_SIZE, PAGE_SIZE, PageRead};
use evenkeel_storage::{BlockNumber, FileId, Fork, Store};

use crate::error::EngineResult;
use crate::types::Tid;

/// The page header's `kind` of a map page.
pub const VM_PAGE_KIND: u16 = 0x0201;
/// Every tuple of the block is visible to every snapshot.
pub const ALL_VISIBLE: u8 = 1;
/// No tuple of the block depends on any transaction's status.
pub const ALL_FROZEN: u8 = 2;

const MAP_START: usize = PAGE_HEADER_SIZE;
/// Heap blocks that one map page covers.
pub const BLOCKS_PER_PAGE: u32 = ((PAGE_SIZE - MAP_START) * 4) as u32;

/// The map of one heap.
#[derive(Clone)]
pub struct VisibilityMap {
    fork: Arc<ForkHandle>,
}

/// The map page and the position within it of a heap block's bits.
pub fn position(block: BlockNumber) -> (BlockNumber, u32) {
    (
        BlockNumber(block.0 / BLOCKS_PER_PAGE),
        block.0 % BLOCKS_PER_PAGE,
    )
}

impl VisibilityMap {
    /// Opens the map of `heap`.
    pub fn open(store: &Store, heap: FileId) -> EngineResult<Self> {
        Ok(VisibilityMap {
            fork: store.pool().fork(heap, Fork::Vm)?,
        })
    }

    /// Pins the map page of heap block `block`, extending the map when it does not reach there.
    pub fn pin(&self, block: BlockNumber) -> EngineResult<Pin<'_>> {
        let (page, _) = position(block);
        while self.fork.len() <= page.0 {
            self.fork.extend(page.0 + 1 - self.fork.len())?;
        }
        Ok(self.fork.pin(page)?)
    }

    /// The bits of a heap block.
    pub fn bits(&self, block: BlockNumber) -> EngineResult<u8> {
        let (page, index) = position(block);
        if page.0 >= self.fork.len() {
            return Ok(0);
        }
        let pin = self.fork.pin(page)?;
        let guard = pin.read();
        Ok(read_bits(&guard, index))
    }

    /// The bits of some blocks, one byte each, in place of what `out` had.
    pub fn bits_of(&self, blocks: Range<u32>, out: &mut Vec<u8>) -> EngineResult<()> {
        out.clear();
        let mut at = blocks.start;
        while at < blocks.end {
            let (page, index) = position(BlockNumber(at));
            let count = (BLOCKS_PER_PAGE - index).min(blocks.end - at);
            if page.0 < self.fork.len() {
                let guard = self.fork.read(page)?;
                out.extend((index..index + count).map(|index| read_bits(&guard, index)));
            } else {
                out.resize(out.len() + count as usize, 0);
            }
            at += count;
        }
        Ok(())
    }

    /// Whether the blocks of some rows, each of which has its place in `out` then, are all-visible.
    pub fn visible_of(&self, tids: &[Tid], out: &mut Vec<bool>) -> EngineResult<()> {
        out.clear();
        let pages = self.fork.len();
        let mut at = 0;
        while let Some(tid) = tids.get(at) {
            let (page, _) = position(tid.block);
            let same = tids[at..].iter();
            let same = same.take_while(|tid| position(tid.block).0 == page).count();
            if page.0 < pages {
                let guard = self.fork.read(page)?;
                out.extend(tids[at..at + same].iter().map(|tid| {
                    let (_, index) = position(tid.block);
                    read_bits(&guard, index) & ALL_VISIBLE != 0
                }));
            } else {
                out.resize(out.len() + same, false);
            }
            at += same;
        }
        Ok(())
    }

    /// How many of the first `blocks` blocks are all-visible, and how many all-frozen.
    pub fn count(&self, blocks: u32) -> EngineResult<(u32, u32)> {
        let (mut visible, mut frozen) = (0, 0);
        let pages = blocks.div_ceil(BLOCKS_PER_PAGE).min(self.fork.len());
        for page in 0..pages {
            let covered = (blocks - page * BLOCKS_PER_PAGE).min(BLOCKS_PER_PAGE);
            let guard = self.fork.read(BlockNumber(page))?;
            for index in 0..covered {
                let bits = read_bits(&guard, index);
                visible += u32::from(bits & ALL_VISIBLE != 0);
                frozen += u32::from(bits & ALL_FROZEN != 0);
            }
        }
        Ok((visible, frozen))
    }

    /// Length of the map in pages.
    pub fn pages(&self) -> u32 {
        self.fork.len()
    }
}

/// The bits at `index` of a map page.
pub fn read_bits(page: &impl PageRead, index: u32) -> u8 {
    if page.kind() != VM_PAGE_KIND {
        return 0;
    }
    page.u8_at(MAP_START + index as usize / 4) >> (index % 4 * 2) & 3
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_storage::page::PageBuf;
    use evenkeel_storage::{ApplyContext, Lsn, PageId};

    fn cx() -> ApplyContext {
        let page_id = PageId {
            file: FileId(1),
            fork: Fork::Vm,
            block: BlockNumber(0),
        };
        ApplyContext {
            lsn: Lsn(8),
            page_id,
        }
    }

    #[test]
    fn bits_of_a_block_do_not_touch_its_neighbours() {
        let mut page = PageBuf::zeroed();
        for index in [0, 5, BLOCKS_PER_PAGE - 1] {
            let data = redo::encode(index, ALL_VISIBLE | ALL_FROZEN, 0);
            redo::apply(redo::OP_CHANGE, &mut page.page_mut(), &data, &cx()).unwrap();
        }
        let data = redo::encode(5, 0, ALL_FROZEN);
        redo::apply(redo::OP_CHANGE, &mut page.page_mut(), &data, &cx()).unwrap();
        assert_eq!(read_bits(&page, 0), 3);
        assert_eq!(read_bits(&page, 4), 0);
        assert_eq!(read_bits(&page, 5), ALL_VISIBLE);
        assert_eq!(read_bits(&page, 6), 0);
        assert_eq!(read_bits(&page, BLOCKS_PER_PAGE - 1), 3);
    }

    #[test]
    fn bad_parts_are_refused() {
        let mut page = PageBuf::zeroed();
        for data in [
            &b""[..],
            &redo::encode(BLOCKS_PER_PAGE, 1, 0),
            &redo::encode(0, 8, 0),
        ] {
            let before = *page.bytes();
            assert!(redo::apply(redo::OP_CHANGE, &mut page.page_mut(), data, &cx()).is_err());
            assert_eq!(before, *page.bytes());
        }
    }
}
