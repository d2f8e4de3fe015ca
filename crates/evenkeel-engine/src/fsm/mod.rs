//! The free-space map: one byte for each heap block, in a fork of the heap's file.
//!
//! Entry points: [`FreeSpaceMap::claim`], [`FreeSpaceMap::record`]. The map is advice: it is not
//! logged, may say too much or too little after a crash, and whoever uses an answer looks at the
//! page. Free space is counted in steps of 32 bytes. A page of the map has the greatest value of
//! each group of entries at its start, and the greatest of each page is kept in memory, so a
//! search reads one map page.

use std::ops::Range;
use std::sync::Arc;

use evenkeel_storage::buffer::ForkHandle;
use evenkeel_storage::page::{PAGE_HEADER_SIZE, PAGE_SIZE, PageMut, PageRead};
use evenkeel_storage::{BlockNumber, FileId, Fork, Store};
use parking_lot::Mutex;

use crate::error::EngineResult;

const FSM_PAGE_KIND: u16 = 0x0202;
const STEP: usize = 32;
const GROUP: usize = 128;
const GROUPS: usize = 64;
const ENTRIES_START: usize = PAGE_HEADER_SIZE + GROUPS;
/// Heap blocks that one map page covers.
const ENTRIES: usize = PAGE_SIZE - ENTRIES_START;
/// "Not known": search the page.
const UNKNOWN: u8 = u8::MAX;

const _: () = assert!(ENTRIES <= GROUP * GROUPS && ENTRIES > GROUP * (GROUPS - 1));

/// The map of one heap.
pub struct FreeSpaceMap {
    fork: Arc<ForkHandle>,
    /// By map page: nothing on it is greater than this.
    most: Mutex<Vec<u8>>,
}

/// The entry that stands for `free` bytes: it promises no more than there are.
fn category(free: usize) -> u8 {
    (free / STEP).min(usize::from(UNKNOWN) - 1) as u8
}

/// The least entry that promises `need` bytes.
fn category_for(need: usize) -> u8 {
    need.div_ceil(STEP).min(usize::from(UNKNOWN) - 1) as u8
}

fn entry_offset(index: usize) -> usize {
    ENTRIES_START + index
}

impl FreeSpaceMap {
    /// Opens the map of `heap`.
    pub fn open(store: &Store, heap: FileId) -> EngineResult<Self> {
        let fork = store.pool().fork(heap, Fork::Fsm)?;
        let most = Mutex::new(vec![UNKNOWN; fork.len() as usize]);
        Ok(FreeSpaceMap { fork, most })
    }

    /// A block below `blocks` with at least `need` free bytes, taken out of the map: its new
    /// owner records what is left when it goes on to another.
    pub fn claim(&self, need: usize, blocks: u32) -> EngineResult<Option<BlockNumber>> {
        let wanted = category_for(need);
        loop {
            let found = self.most.lock().iter().position(|&most| most >= wanted);
            let Some(page) = found else {
                return Ok(None);
            };
            if let Some(block) = self.claim_in(page, wanted, blocks)? {
                return Ok(Some(block));
            }
        }
    }

    fn claim_in(&self, page: usize, wanted: u8, blocks: u32) -> EngineResult<Option<BlockNumber>> {
        let pin = self.fork.pin(BlockNumber(page as u32))?;
        let mut guard = pin.write();
        let mut map = guard.unlogged();
        if map.kind() != FSM_PAGE_KIND {
            self.most.lock()[page] = 0;
            return Ok(None);
        }
        let first = page * ENTRIES;
        let limit = (blocks as usize).saturating_sub(first).min(ENTRIES);
        let found = find(&map, wanted, limit);
        if let Some(index) = found {
            put(&mut map, index, 0);
        }
        // The value in memory is lowered only to what the page says, under the page's lock, so
        // it is never below an entry.
        let left = page_most(&map);
        self.most.lock()[page] = if found.is_some() {
            left
        } else {
            left.min(wanted - 1)
        };
        Ok(found.map(|index| BlockNumber((first + index) as u32)))
    }

    /// Notes that `block` has `free` bytes.
    pub fn record(&self, block: BlockNumber, free: usize) -> EngineResult<()> {
        self.record_range(block.0..block.0 + 1, free)
    }

    /// Notes that each of `blocks` has `free` bytes.
    pub fn record_range(&self, blocks: Range<u32>, free: usize) -> EngineResult<()> {
        debug_assert!(free <= PAGE_SIZE, "{free} free bytes of a page");
        let value = category(free);
        debug_assert!(
            usize::from(value) * STEP <= free,
            "the map promises more than {free} bytes"
        );
        let mut next = blocks.start as usize;
        while next < blocks.end as usize {
            let page = next / ENTRIES;
            let end = (blocks.end as usize).min((page + 1) * ENTRIES);
            self.reach(page)?;
            let pin = self.fork.pin(BlockNumber(page as u32))?;
            let mut guard = pin.write();
            let mut map = guard.unlogged();
            if map.kind() != FSM_PAGE_KIND {
                map.init(FSM_PAGE_KIND, 0);
            }
            for block in next..end {
                put(&mut map, block % ENTRIES, value);
            }
            let mut most = self.most.lock();
            most[page] = most[page].max(value);
            next = end;
        }
        Ok(())
    }

    /// Extends the map to have page `page`.
    fn reach(&self, page: usize) -> EngineResult<()> {
        while self.fork.len() as usize <= page {
            self.fork
                .extend((page + 1 - self.fork.len() as usize) as u32)?;
        }
        let mut most = self.most.lock();
        if most.len() <= page {
            most.resize(page + 1, UNKNOWN);
        }
        Ok(())
    }
}

/// The first entry below `limit` of at least `wanted`.
fn find(map: &PageMut<'_>, wanted: u8, limit: usize) -> Option<usize> {
    let groups = map.slice(PAGE_HEADER_SIZE..ENTRIES_START);
    for (group, _) in groups
        .iter()
        .enumerate()
        .filter(|&(_, &most)| most >= wanted)
    {
        let range = group * GROUP..((group + 1) * GROUP).min(limit);
        let hit = range
            .clone()
            .find(|&index| map.u8_at(entry_offset(index)) >= wanted);
        if hit.is_some() {
            return hit;
        }
    }
    None
}

/// Sets an entry and the greatest value of its group.
fn put(map: &mut PageMut<'_>, index: usize, value: u8) {
    let old = map.u8_at(entry_offset(index));
    map.put_u8(entry_offset(index), value);
    let group = index / GROUP;
    let most = map.u8_at(PAGE_HEADER_SIZE + group);
    let new = if value >= most {
        value
    } else if old < most {
        return;
    } else {
        let range = group * GROUP..((group + 1) * GROUP).min(ENTRIES);
        let entries = map.slice(entry_offset(range.start)..entry_offset(range.end));
        entries.iter().copied().max().unwrap_or(0)
    };
    map.put_u8(PAGE_HEADER_SIZE + group, new);
}

fn page_most(map: &PageMut<'_>) -> u8 {
    map.slice(PAGE_HEADER_SIZE..ENTRIES_START)
        .iter()
        .copied()
        .max()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_storage::page::PageBuf;

    #[test]
    fn group_maxima_are_exact_after_any_change() {
        let mut page = PageBuf::zeroed();
        let mut map = page.page_mut();
        map.init(FSM_PAGE_KIND, 0);
        let mut seed = 7u64;
        for _ in 0..5000 {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            put(
                &mut map,
                (seed >> 33) as usize % ENTRIES,
                (seed >> 20) as u8 % 255,
            );
        }
        for group in 0..GROUPS {
            let range = group * GROUP..((group + 1) * GROUP).min(ENTRIES);
            let most = range
                .map(|index| map.u8_at(entry_offset(index)))
                .max()
                .unwrap_or(0);
            assert_eq!(map.u8_at(PAGE_HEADER_SIZE + group), most, "group {group}");
        }
    }

    #[test]
    fn an_entry_promises_no_more_than_there_is() {
        for free in 0..=PAGE_SIZE {
            for need in [1, 31, 32, 33, 4000, 8100] {
                if category(free) >= category_for(need) {
                    assert!(free >= need, "{free} for {need}");
                }
            }
        }
    }

    #[test]
    fn find_stays_below_the_limit() {
        let mut page = PageBuf::zeroed();
        let mut map = page.page_mut();
        map.init(FSM_PAGE_KIND, 0);
        put(&mut map, 300, 9);
        assert_eq!(find(&map, 9, 301), Some(300));
        assert_eq!(find(&map, 9, 300), None);
        assert_eq!(find(&map, 10, ENTRIES), None);
    }
}
