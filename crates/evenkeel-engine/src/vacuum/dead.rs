//! The dead rows a vacuum has found, compact, ordered, and quick to say no.

use std::ops::Range;

use evenkeel_storage::BlockNumber;

use crate::types::Tid;

/// Blocks of one word of the block map.
const GROUP: u32 = u64::BITS;

/// Which blocks of a group have dead rows, and how many blocks before the group have.
#[derive(Clone, Copy, Default)]
struct Group {
    present: u64,
    before: u32,
}

/// Dead line pointers, by block in the order of the scan.
///
/// Most of what an index asks about is alive: one look at the block's bit answers that.
#[derive(Default)]
pub(super) struct DeadItems {
    groups: Vec<Group>,
    /// Block, and where its slots begin in `slots`.
    blocks: Vec<(BlockNumber, u32)>,
    slots: Vec<u16>,
}

impl DeadItems {
    /// Adds the dead slots of a block behind all blocks added before.
    pub fn add(&mut self, block: BlockNumber, slots: &[u16]) {
        debug_assert!(self.blocks.last().is_none_or(|(last, _)| *last < block));
        if slots.is_empty() {
            return;
        }
        let group = (block.0 / GROUP) as usize;
        if self.groups.len() <= group {
            let before = self.blocks.len() as u32;
            let empty = Group { present: 0, before };
            self.groups.resize(group + 1, empty);
        }
        self.groups[group].present |= 1 << (block.0 % GROUP);
        self.blocks.push((block, self.slots.len() as u32));
        self.slots.extend_from_slice(slots);
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
        self.groups.len() * size_of::<Group>()
            + self.blocks.len() * size_of::<(BlockNumber, u32)>()
            + self.slots.len() * size_of::<u16>()
    }

    fn range(&self, at: usize) -> Range<usize> {
        let end = self
            .blocks
            .get(at + 1)
            .map_or(self.slots.len(), |next| next.1 as usize);
        self.blocks[at].1 as usize..end
    }

    /// Whether `tid` is one of them.
    #[inline]
    pub fn contains(&self, tid: Tid) -> bool {
        let Some(group) = self.groups.get((tid.block.0 / GROUP) as usize) else {
            return false;
        };
        let bit = 1_u64 << (tid.block.0 % GROUP);
        if group.present & bit == 0 {
            return false;
        }
        let at = group.before + (group.present & (bit - 1)).count_ones();
        self.slots[self.range(at as usize)]
            .binary_search(&tid.slot)
            .is_ok()
    }

    /// The blocks with their slots, in order.
    pub fn iter(&self) -> impl Iterator<Item = (BlockNumber, &[u16])> + '_ {
        (0..self.blocks.len()).map(|at| (self.blocks[at].0, &self.slots[self.range(at)]))
    }

    /// Forgets them and keeps the memory.
    pub fn clear(&mut self) {
        self.groups.clear();
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
        let added: [(u32, &[u16]); 6] = [
            (3, &[1, 5]),
            (4, &[]),
            (9, &[2]),
            (63, &[7]),
            (64, &[1, 2, 3]),
            (700, &[9]),
        ];
        for (block, slots) in added {
            dead.add(BlockNumber(block), slots);
        }
        for block in 0..800 {
            let slots = added.iter().find(|entry| entry.0 == block);
            for slot in 1..12 {
                let wanted = slots.is_some_and(|entry| entry.1.contains(&slot));
                let tid = Tid::new(BlockNumber(block), slot);
                assert_eq!(dead.contains(tid), wanted, "{tid}");
            }
        }
        assert_eq!(dead.iter().count(), 5);
        assert_eq!(dead.len(), 8);
        dead.clear();
        assert!(dead.is_empty() && !dead.contains(Tid::new(BlockNumber(3), 1)));
    }
}
