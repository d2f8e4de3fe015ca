//! Memory for the changes of pages: chains of blocks, one for each page, so that redo of a page
//! reads from one end to the other and not all over the log.

use crate::ids::{Lsn, PageId};
use crate::record::{PartFlags, PartView, u16_at, u32_at, u64_at};

/// One part of a record: where the record starts, in units of [`ALIGN`] bytes from the list's base,
/// above where the part starts in it.
///
/// [`ALIGN`]: crate::record::ALIGN
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Entry(pub(super) u64);

/// One part of a page, as a chain has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item<'a> {
    /// Where the log has it.
    pub(super) entry: Entry,
    /// `None`: there was no room for it, and it is to be read from the log.
    pub(super) part: Option<PartView<'a>>,
}

/// Bytes of a block, a few cache lines.
const BLOCK: usize = 256;
/// Bytes of items in a block.
const ROOM: usize = BLOCK - 8;
/// Bytes of an item before those of its part: entry, length, operation, flags, `prev_lsn`.
const HEAD: usize = 21;
/// Bytes of an item whose part is in the log only: entry, length.
const PLACE: usize = 10;
/// Instead of the number of a part's bytes: the part lies by itself, and its number follows.
const ELSEWHERE: u16 = u16::MAX;
/// Instead of it: the part is in the log only.
const IN_LOG: u16 = u16::MAX - 1;
/// No block.
const NONE: u32 = u32::MAX;
/// Blocks of a slab, as a power of two: a slab is never moved.
const SLAB_BITS: u32 = 13;

/// Items, one behind the other.
struct Block {
    next: u32,
    /// Bytes of items, once another block follows.
    used: u16,
    items: [u8; ROOM],
}

const _: () = assert!(size_of::<Block>() == BLOCK);

/// The parts of one page, oldest first. The fields that change with every part are here, and not
/// in a block: to add one costs a miss of the caches less.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    head: u32,
    tail: u32,
    /// Bytes of items in the last block, and where the last one starts.
    used: u16,
    last: u16,
    /// Some of them lie by themselves.
    has_large: bool,
}

impl Chain {
    pub(super) const EMPTY: Chain = Chain {
        head: NONE,
        tail: NONE,
        used: 0,
        last: 0,
        has_large: false,
    };
}

/// The blocks of all chains.
pub(super) struct Parts {
    slabs: Vec<Vec<Block>>,
    /// First of the blocks that can be used again.
    free: u32,
    /// Data of parts that is longer than a block, and numbers that can be used again.
    large: Vec<Box<[u8]>>,
    free_large: Vec<u32>,
    /// Bytes in use.
    bytes: usize,
}

impl Parts {
    pub(super) fn new() -> Parts {
        Parts {
            slabs: Vec::new(),
            free: NONE,
            large: Vec::new(),
            free_large: Vec::new(),
            bytes: 0,
        }
    }

    /// Bytes of memory in use.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a part to the end of a chain.
    #[inline]
    pub(super) fn push(&mut self, chain: &mut Chain, entry: Entry, part: Option<&PartView<'_>>) {
        let Some(part) = part else {
            let at = self.make_room(chain, PLACE);
            let item = &mut self.block_mut(chain.tail).items[at..at + PLACE];
            item[..8].copy_from_slice(&entry.0.to_le_bytes());
            item[8..].copy_from_slice(&IN_LOG.to_le_bytes());
            return;
        };
        if HEAD + part.data.len() <= ROOM {
            // Shorter than a block.
            self.put(chain, (entry, part.data.len() as u16), part, part.data);
        } else {
            let number = self.keep_large(part.data);
            chain.has_large = true;
            self.put(chain, (entry, ELSEWHERE), part, &number.to_le_bytes());
        }
    }

    #[inline]
    fn put(
        &mut self,
        chain: &mut Chain,
        (entry, len): (Entry, u16),
        part: &PartView<'_>,
        bytes: &[u8],
    ) {
        let at = self.make_room(chain, HEAD + bytes.len());
        let block = self.block_mut(chain.tail);
        let item = &mut block.items[at..at + HEAD + bytes.len()];
        item[..8].copy_from_slice(&entry.0.to_le_bytes());
        item[8..10].copy_from_slice(&len.to_le_bytes());
        item[10..12].copy_from_slice(&part.op.to_le_bytes());
        item[12] = part.flags.0;
        item[13..HEAD].copy_from_slice(&part.prev_lsn.0.to_le_bytes());
        item[HEAD..].copy_from_slice(bytes);
    }

    /// Room for an item in the chain's last block, or in a new one; where it starts.
    #[inline]
    fn make_room(&mut self, chain: &mut Chain, len: usize) -> usize {
        if chain.tail == NONE || usize::from(chain.used) + len > ROOM {
            self.add_block(chain);
        }
        chain.last = chain.used;
        // Within ROOM.
        chain.used += len as u16;
        usize::from(chain.last)
    }

    fn add_block(&mut self, chain: &mut Chain) {
        let block = self.take_block();
        match chain.tail {
            NONE => chain.head = block,
            tail => {
                let used = chain.used;
                let before = self.block_mut(tail);
                (before.next, before.used) = (block, used);
            }
        }
        (chain.tail, chain.used) = (block, 0);
    }

    fn take_block(&mut self) -> u32 {
        self.bytes += BLOCK;
        if self.free != NONE {
            let at = self.free;
            self.free = std::mem::replace(&mut self.block_mut(at).next, NONE);
            return at;
        }
        let is_full = |slab: &Vec<Block>| slab.len() == 1 << SLAB_BITS;
        if self.slabs.last().is_none_or(is_full) {
            self.slabs.push(Vec::with_capacity(1 << SLAB_BITS));
        }
        let number = self.slabs.len() - 1;
        let slab = &mut self.slabs[number];
        slab.push(Block {
            next: NONE,
            used: 0,
            items: [0; ROOM],
        });
        (number << SLAB_BITS | (slab.len() - 1)) as u32
    }

    fn keep_large(&mut self, data: &[u8]) -> u32 {
        self.bytes += data.len();
        let data = Box::from(data);
        if let Some(number) = self.free_large.pop() {
            self.large[number as usize] = data;
            return number;
        }
        self.large.push(data);
        (self.large.len() - 1) as u32
    }

    /// Takes a chain's memory back.
    pub(super) fn free(&mut self, chain: Chain) {
        if chain.has_large {
            let numbers: Vec<u32> = self.raw(chain).filter_map(|raw| raw.elsewhere()).collect();
            for number in numbers {
                let data = std::mem::take(&mut self.large[number as usize]);
                self.bytes -= data.len();
                self.free_large.push(number);
            }
        }
        let mut at = chain.head;
        while at != NONE {
            self.bytes -= BLOCK;
            at = self.block(at).next;
        }
        if chain.head != NONE {
            let free = self.free;
            self.block_mut(chain.tail).next = free;
            self.free = chain.head;
        }
    }

    /// The last part of a chain.
    pub(super) fn last(&self, chain: Chain) -> Option<Entry> {
        if chain.tail == NONE {
            return None;
        }
        let block = self.block(chain.tail);
        Some(Raw::at(block, usize::from(chain.last)).entry)
    }

    /// A byte of the place where the next part of a chain will lie: who is going to add parts to
    /// several chains has their misses of the caches overlap by asking for it first.
    #[inline]
    pub(super) fn touch(&self, chain: Chain) -> u8 {
        match chain.tail {
            NONE => 0,
            tail => self.block(tail).items[usize::from(chain.used).min(ROOM - 1)],
        }
    }

    /// The parts of a chain, which is of this page, oldest first.
    pub(super) fn items(&self, page: PageId, chain: Chain) -> impl Iterator<Item = Item<'_>> {
        self.raw(chain).map(move |raw| {
            let data = match raw.elsewhere() {
                Some(number) => &self.large[number as usize],
                None => raw.bytes,
            };
            let part = PartView {
                page,
                flags: raw.flags,
                op: raw.op,
                prev_lsn: raw.prev_lsn,
                data,
            };
            Item {
                entry: raw.entry,
                part: (raw.len != IN_LOG).then_some(part),
            }
        })
    }

    fn raw(&self, chain: Chain) -> RawItems<'_> {
        RawItems {
            parts: self,
            chain,
            block: (chain.head != NONE).then(|| self.block(chain.head)),
            at: 0,
        }
    }

    fn block(&self, at: u32) -> &Block {
        &self.slabs[(at >> SLAB_BITS) as usize][at as usize & ((1 << SLAB_BITS) - 1)]
    }

    fn block_mut(&mut self, at: u32) -> &mut Block {
        &mut self.slabs[(at >> SLAB_BITS) as usize][at as usize & ((1 << SLAB_BITS) - 1)]
    }
}

/// An item as its block has it.
struct Raw<'a> {
    entry: Entry,
    prev_lsn: Lsn,
    len: u16,
    op: u16,
    flags: PartFlags,
    bytes: &'a [u8],
}

impl<'a> Raw<'a> {
    #[inline]
    fn at(block: &'a Block, at: usize) -> Raw<'a> {
        let item = &block.items[at..];
        let (entry, len) = (Entry(u64_at(item, 0)), u16_at(item, 8));
        if len == IN_LOG {
            return Raw {
                entry,
                len,
                prev_lsn: Lsn::ZERO,
                op: 0,
                flags: PartFlags::NONE,
                bytes: &[],
            };
        }
        let (head, rest) = item.split_at(HEAD);
        let stored = match len {
            ELSEWHERE => size_of::<u32>(),
            len => usize::from(len),
        };
        Raw {
            entry,
            len,
            prev_lsn: Lsn(u64_at(head, 13)),
            op: u16_at(head, 10),
            flags: PartFlags(head[12]),
            bytes: &rest[..stored],
        }
    }

    /// Bytes that it takes in its block.
    #[inline]
    fn stored(&self) -> usize {
        match self.len {
            IN_LOG => PLACE,
            _ => HEAD + self.bytes.len(),
        }
    }

    /// The number of data that lies by itself.
    fn elsewhere(&self) -> Option<u32> {
        (self.len == ELSEWHERE).then(|| u32_at(self.bytes, 0))
    }
}

struct RawItems<'a> {
    parts: &'a Parts,
    chain: Chain,
    block: Option<&'a Block>,
    at: usize,
}

impl<'a> Iterator for RawItems<'a> {
    type Item = Raw<'a>;

    #[inline]
    fn next(&mut self) -> Option<Raw<'a>> {
        let block = self.block?;
        let next =
            (block.next != NONE && !self.is_last(block)).then(|| self.parts.block(block.next));
        if self.at == 0
            && let Some(next) = next
        {
            // On its way into the caches while this one's items are used.
            std::hint::black_box(next.items[0]);
        }
        let raw = Raw::at(block, self.at);
        self.at += raw.stored();
        let used = if next.is_some() {
            block.used
        } else {
            self.chain.used
        };
        if self.at == usize::from(used) {
            self.at = 0;
            self.block = next;
        }
        Some(raw)
    }
}

impl RawItems<'_> {
    fn is_last(&self, block: &Block) -> bool {
        std::ptr::eq(block, self.parts.block(self.chain.tail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{BlockNumber, FileId, Fork};

    fn part(n: u64) -> Vec<u8> {
        let len = match n % 7 {
            0 => 0,
            1 => ROOM - HEAD,
            2 => ROOM - HEAD + 1,
            3 => 8000,
            other => 20 * other as usize,
        };
        vec![n as u8; len]
    }

    fn view<'a>(n: u64, data: &'a [u8]) -> PartView<'a> {
        PartView {
            page: page(),
            flags: PartFlags(n as u8 % 16),
            op: n as u16,
            prev_lsn: Lsn(n * 3),
            data,
        }
    }

    fn page() -> PageId {
        PageId {
            file: FileId(7),
            fork: Fork::Main,
            block: BlockNumber(3),
        }
    }

    fn check(parts: &Parts, chain: Chain, numbers: impl Iterator<Item = u64>) {
        let numbers: Vec<u64> = numbers.collect();
        let found: Vec<_> = parts.items(page(), chain).collect();
        assert_eq!(found.len(), numbers.len());
        for (item, n) in found.iter().zip(&numbers) {
            assert_eq!(item.entry, Entry(*n));
            let data = part(*n);
            let expected = (n % 5 != 0).then(|| view(*n, &data));
            assert_eq!(format!("{:?}", item.part), format!("{expected:?}"));
        }
        assert_eq!(parts.last(chain), numbers.last().map(|n| Entry(*n)));
    }

    #[test]
    fn each_chain_has_its_parts_and_memory_is_used_again() {
        let mut parts = Parts::new();
        let mut chains = [Chain::EMPTY; 3];
        let fill = |parts: &mut Parts, chains: &mut [Chain; 3]| {
            for n in 0..3000 {
                let data = part(n);
                let part = (n % 5 != 0).then(|| view(n, &data));
                parts.push(&mut chains[(n % 3) as usize], Entry(n), part.as_ref());
            }
        };
        fill(&mut parts, &mut chains);
        for (at, chain) in chains.iter().enumerate() {
            check(&parts, *chain, (0..3000).filter(|n| n % 3 == at as u64));
        }
        let full = parts.bytes();
        parts.free(chains[1]);
        chains[1] = Chain::EMPTY;
        check(&parts, chains[1], 0..0);
        check(&parts, chains[2], (0..3000).filter(|n| n % 3 == 2));
        for chain in std::mem::replace(&mut chains, [Chain::EMPTY; 3]) {
            parts.free(chain);
        }
        assert_eq!(parts.bytes(), 0);
        let (blocks, large) = (
            parts.slabs.iter().map(Vec::len).sum::<usize>(),
            parts.large.len(),
        );
        fill(&mut parts, &mut chains);
        assert_eq!(parts.bytes(), full);
        assert_eq!(parts.slabs.iter().map(Vec::len).sum::<usize>(), blocks);
        assert_eq!(parts.large.len(), large);
    }
}
