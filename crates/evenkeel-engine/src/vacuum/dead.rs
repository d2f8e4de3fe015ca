//! The dead rows a vacuum has found, compact and ordered.

use std::ops::Range;

use evenkeel_storage::BlockNumber;

use crate::types::Tid;

/// Dead line pointers, by block in the order of the scan.
#[derive(Default)]
pub(super) struct DeadItems {
    /// Block, and where its slots begin in `slots`.
    blocks: Vec<(BlockNumber, u32)>,
    slots: Vec<u16>,
}

impl DeadItems {
    /// Adds the dead slots of a block behind all blocks added before.
    pub fn add(&mut self, block: BlockNumber, slots: &[u16]) {
        debug_assert!(self.blocks.last().is_none_or(|(last, _)| *last < block));
        if !slots.is_empty() {
            self.blocks.push((block, self.slots.len() as u32));
            self.slots.extend_from_slice(slots);
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.blocks.len() * size_of::<(BlockNumber, u32)>() + self.slots.len() * size_of::<u16>()
    }

    fn range(&self, at: usize) -> Range<usize> {
        let end = self
            .blocks
            .get(at + 1)
            .map_or(self.slots.len(), |next| next.1 as usize);
        self.blocks[at].1 as usize..end
    }

    /// Whether `tid` is one of them.
    pub fn contains(&self, tid: Tid) -> bool {
        self.blocks
            .binary_search_by_key(&tid.block, |entry| entry.0)
            .is_ok_and(|at| self.slots[self.range(at)].binary_search(&tid.slot).is_ok())
    }

    /// The blocks with their slots, in order.
    pub fn iter(&self) -> impl Iterator<Item = (BlockNumber, &[u16])> + '_ {
        (0..self.blocks.len()).map(|at| (self.blocks[at].0, &self.slots[self.range(at)]))
    }

    /// Forgets them and keeps the memory.
    pub fn clear(&mut self) {
        self.blocks.clear();
        self.slots.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_added_rows_are_contained() {
        let mut dead = DeadItems::default();
        dead.add(BlockNumber(3), &[1, 5]);
        dead.add(BlockNumber(4), &[]);
        dead.add(BlockNumber(9), &[2]);
        let contained = |block, slot| dead.contains(Tid::new(BlockNumber(block), slot));
        assert!(contained(3, 1) && contained(3, 5) && contained(9, 2));
        assert!(!contained(3, 2) && !contained(4, 1) && !contained(9, 5) && !contained(2, 1));
        assert_eq!(dead.iter().count(), 2);
        assert_eq!(dead.len(), 3);
    }
}
