//! Entries in memory and their sort, in place: by digits of the bytes that tell them apart, and by
//! comparisons once few are left.

use std::ops::Range;

use crate::error::EngineResult;
use crate::ticket::CancelFlag;
use crate::types::Tid;

/// Entries that are sorted by comparisons, in some milliseconds; also those that are moved between
/// two looks at whether the statement is cancelled.
const PIECE: usize = if cfg!(test) { 48 } else { 1 << 15 };
/// Parts that a sort by one digit makes.
const DIGITS: usize = 256;
/// Keys that are copied at once: a processor fetches them from the arena side by side.
const COPIED_AT_ONCE: usize = 64;

/// One entry; its key is in the arena.
struct Item {
    /// Eight bytes of it as a number, which tell it apart from others of its part.
    head: u64,
    start: u32,
    length: u16,
    tag: u8,
    tid: Tid,
}

/// Bytes of an entry besides its key.
pub(super) const ITEM_BYTES: usize = size_of::<Item>();

/// Entries in memory.
#[derive(Default)]
pub(super) struct InMemory {
    arena: Vec<u8>,
    items: Vec<Item>,
}

/// The meaning of the heads of a part's entries.
#[derive(Clone, Copy)]
enum Head {
    /// The eight bytes of the key from here on. Those before are the same in the whole part.
    Key(usize),
    /// The place: all keys are the same.
    Place,
}

/// Entries that belong between all others and are yet to be sorted among themselves.
struct Part {
    range: Range<usize>,
    head: Head,
}

/// The eight bytes of a key from `at` on as a number that orders like them, a shorter key padded
/// with zeros: unequal numbers order as the keys do, equal ones tell nothing.
pub(super) fn head_of(key: &[u8], at: usize) -> u64 {
    let rest = key.get(at..).unwrap_or_default();
    if let Some(bytes) = rest.first_chunk::<8>() {
        return u64::from_be_bytes(*bytes);
    }
    let mut bytes = [0; 8];
    bytes[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(bytes)
}

impl InMemory {
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Makes room for so many entries more, with keys of so many bytes altogether: memory that is
    /// not used costs nothing but addresses, and where those lack, room is made when it is needed.
    pub fn expect(&mut self, entries: usize, bytes: usize) {
        if self.items.try_reserve_exact(entries).is_ok() {
            let _ = self.arena.try_reserve_exact(bytes);
        }
    }

    /// Adds an entry. The arena holds less than 4 GiB.
    pub fn push(&mut self, key: &[u8], length: u16, tid: Tid, tag: u8) {
        let start = self.arena.len() as u32;
        self.arena.extend_from_slice(key);
        self.items.push(Item {
            head: 0,
            start,
            length,
            tag,
            tid,
        });
    }

    /// The entry at a place of the order, once it is sorted.
    pub fn entry(&self, at: usize) -> (&[u8], Tid, u8) {
        let item = &self.items[at];
        (self.key(item), item.tid, item.tag)
    }

    /// Hands all entries over in the order that they have.
    pub fn each(
        &self,
        cancel: &CancelFlag,
        each: &mut dyn FnMut(&[u8], Tid, u8) -> EngineResult<()>,
    ) -> EngineResult<()> {
        let (mut keys, mut ends) = (Vec::new(), Vec::new());
        for items in self.items.chunks(COPIED_AT_ONCE) {
            cancel.check()?;
            keys.clear();
            ends.clear();
            for item in items {
                keys.extend_from_slice(self.key(item));
                ends.push(keys.len());
            }
            let mut start = 0;
            for (item, end) in items.iter().zip(&ends) {
                each(&keys[start..*end], item.tid, item.tag)?;
                start = *end;
            }
        }
        Ok(())
    }

    /// Sorts the entries by key, then by place.
    pub fn sort(&mut self, cancel: &CancelFlag) -> EngineResult<()> {
        let head = Head::Key(self.shared(cancel)?);
        let mut parts = Vec::new();
        self.begin(0..self.items.len(), head, cancel, &mut parts)?;
        while let Some(part) = parts.pop() {
            cancel.check()?;
            if part.range.len() <= PIECE {
                self.sort_few(part.range);
                continue;
            }
            let heads = self.items[part.range.clone()].iter().map(|item| item.head);
            let (least, most) = heads.fold((u64::MAX, 0), |(least, most), head| {
                (least.min(head), most.max(head))
            });
            if least < most {
                self.divide(&part, (least, most), cancel, &mut parts)?;
            } else {
                self.deepen(part, cancel, &mut parts)?;
            }
        }
        Ok(())
    }

    fn key(&self, item: &Item) -> &[u8] {
        let start = item.start as usize;
        &self.arena[start..start + usize::from(item.length)]
    }

    /// How many first bytes all keys share.
    fn shared(&self, cancel: &CancelFlag) -> EngineResult<usize> {
        let Some(first) = self.items.first() else {
            return Ok(0);
        };
        let mut shared = self.key(first);
        for items in self.items.chunks(PIECE) {
            cancel.check()?;
            for item in items {
                let same = shared.iter().zip(self.key(item));
                let same = same.take_while(|(a, b)| a == b).count();
                shared = &shared[..same];
            }
        }
        Ok(shared.len())
    }

    /// Adds a part, whose entries get their heads.
    fn begin(
        &mut self,
        range: Range<usize>,
        head: Head,
        cancel: &CancelFlag,
        parts: &mut Vec<Part>,
    ) -> EngineResult<()> {
        let arena = &self.arena;
        for items in self.items[range.clone()].chunks_mut(PIECE) {
            cancel.check()?;
            for item in items {
                item.head = match head {
                    Head::Key(at) => {
                        let start = item.start as usize;
                        head_of(&arena[start..start + usize::from(item.length)], at)
                    }
                    Head::Place => u64::from(item.tid.block.0) << 16 | u64::from(item.tid.slot),
                };
            }
        }
        parts.push(Part { range, head });
        Ok(())
    }

    fn sort_few(&mut self, range: Range<usize>) {
        let mut items = std::mem::take(&mut self.items);
        items[range].sort_unstable_by(|a, b| {
            let by_key = || self.key(a).cmp(self.key(b)).then(a.tid.cmp(&b.tid));
            a.head.cmp(&b.head).then_with(by_key)
        });
        self.items = items;
    }

    /// Divides a part by the first digit in which its heads differ (an American flag sort).
    fn divide(
        &mut self,
        part: &Part,
        (least, most): (u64, u64),
        cancel: &CancelFlag,
        parts: &mut Vec<Part>,
    ) -> EngineResult<()> {
        let bits = u64::BITS - (most - least).leading_zeros();
        let shift = bits.saturating_sub(DIGITS.ilog2());
        let digit = |item: &Item| ((item.head - least) >> shift) as usize;
        let items = &mut self.items[part.range.clone()];
        let mut ends = [0; DIGITS];
        for item in &*items {
            ends[digit(item)] += 1;
        }
        let mut end = 0;
        let mut next = [0; DIGITS];
        for (next, count) in next.iter_mut().zip(&mut ends) {
            *next = end;
            end += *count;
            *count = end;
        }
        let mut moved = 0;
        for current in 0..DIGITS {
            while next[current] < ends[current] {
                let at = next[current];
                let wanted = digit(&items[at]);
                items.swap(at, next[wanted]);
                next[wanted] += 1;
                moved += 1;
                if moved % PIECE == 0 {
                    cancel.check()?;
                }
            }
        }
        let mut start = part.range.start;
        for end in ends {
            let range = start..part.range.start + end;
            start = range.end;
            if range.len() > 1 {
                let head = part.head;
                parts.push(Part { range, head });
            }
        }
        Ok(())
    }

    /// Goes on with a part whose heads are all the same: by the bytes behind them.
    fn deepen(
        &mut self,
        part: Part,
        cancel: &CancelFlag,
        parts: &mut Vec<Part>,
    ) -> EngineResult<()> {
        let Head::Key(at) = part.head else {
            // The very same entries.
            return Ok(());
        };
        let lengths = self.items[part.range.clone()]
            .iter()
            .map(|item| usize::from(item.length));
        let (shortest, longest) = lengths.fold((usize::MAX, 0), |(shortest, longest), length| {
            (shortest.min(length), longest.max(length))
        });
        if longest > at + size_of::<u64>() {
            self.begin(part.range, Head::Key(at + size_of::<u64>()), cancel, parts)
        } else if shortest == longest {
            self.begin(part.range, Head::Place, cancel, parts)
        } else {
            // Keys that begin with one another, but for zeros.
            self.sort_few(part.range);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_storage::BlockNumber;
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    /// Keys of one kind, of which many are equal, share bytes, or begin with one another.
    fn random_key(rng: &mut StdRng, kind: u32) -> Vec<u8> {
        let length = match kind {
            0 => 5,
            1 => 9,
            2 => rng.random_range(0..24),
            _ => 40,
        };
        let few: u8 = if rng.random_bool(0.5) { 2 } else { u8::MAX };
        let byte = |at: usize| match kind {
            1 if at < 6 => 128,
            3 if at < 30 => 7,
            2 => *[0u8, 0, 1, 255].get(at % 4).unwrap_or(&0),
            _ => 0,
        };
        (0..length)
            .map(|at| match byte(at) {
                0 => rng.random_range(0..=few),
                byte => byte,
            })
            .collect()
    }

    #[test]
    fn entries_are_sorted_by_key_then_by_place() {
        for seed in 0..400 {
            let mut rng = StdRng::seed_from_u64(seed);
            let kind = rng.random_range(0..4);
            let mut memory = InMemory::default();
            let mut expected = Vec::new();
            for at in 0..rng.random_range(0..2_000u32) {
                let key = random_key(&mut rng, kind);
                let block = rng.random_range(0..=at % 50);
                let tid = Tid::new(BlockNumber(block), rng.random_range(1..3));
                // The same for the same entry, which has no order then.
                let tag = (block as u8).wrapping_add(key.len() as u8);
                memory.push(&key, key.len() as u16, tid, tag);
                expected.push((key, tid, tag));
            }
            memory.sort(&CancelFlag::new()).unwrap();
            let mut found = Vec::new();
            let each = &mut |key: &[u8], tid, tag| {
                found.push((key.to_vec(), tid, tag));
                Ok(())
            };
            memory.each(&CancelFlag::new(), each).unwrap();
            expected.sort();
            assert_eq!(found, expected, "seed {seed}");
        }
    }
}
