//! The changes that the log has for each page: for every page the records that change it, in
//! order. Entries are eight bytes, so that many more fit than the log's own bytes would.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::ids::{BlockNumber, FileId, Fork, Lsn, PageId};
use crate::record::{ALIGN, MAX_RECORD};

/// Entries of a chunk, which is then 64 bytes long.
const CHUNK: usize = 7;
/// No chunk.
const NONE: u32 = u32::MAX;

/// One part of a record: where the record starts, in units of [`ALIGN`] bytes from the list's base,
/// above where the part starts in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Entry(u64);

/// Bits of the part's offset.
const OFFSET_BITS: u32 = 20;
/// Bytes of log that lists can be of.
pub(super) const LONGEST: u64 = (ALIGN as u64) << (u64::BITS - OFFSET_BITS);

const _: () = assert!(MAX_RECORD <= 1 << OFFSET_BITS);

impl Entry {
    fn new(base: Lsn, lsn: Lsn, offset: usize) -> Entry {
        // A record is not longer than the offset's bits allow.
        Entry((lsn.distance_from(base) / ALIGN as u64) << OFFSET_BITS | offset as u64)
    }

    /// LSN of the record.
    pub(super) fn lsn(self, base: Lsn) -> Lsn {
        Lsn(base.0 + (self.0 >> OFFSET_BITS) * ALIGN as u64)
    }

    /// Where the part starts in the record.
    pub(super) fn offset(self) -> usize {
        (self.0 & ((1 << OFFSET_BITS) - 1)) as usize
    }
}

/// A fork's number in the lists, above a block's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Key(u64);

impl Key {
    pub(super) fn new(fork: u32, block: BlockNumber) -> Key {
        Key(u64::from(fork) << 32 | u64::from(block.0))
    }

    pub(super) fn fork(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(super) fn block(self) -> BlockNumber {
        BlockNumber((self.0 & 0xFFFF_FFFF) as u32)
    }
}

/// Spreads keys, which are dense numbers, by one multiplication (Fibonacci hashing).
#[derive(Default)]
pub(super) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

fn spread(key: Key) -> u64 {
    let mut hasher = Spread::default();
    hasher.write_u64(key.0);
    hasher.finish()
}

/// The changes of one page.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageList {
    pub(super) key: Key,
    first: Entry,
    head: u32,
    tail: u32,
    len: u32,
    /// The first change needs nothing of what the page held.
    pub(super) starts_whole: bool,
}

impl PageList {
    /// How many changes there are.
    pub(super) fn len(&self) -> u32 {
        self.len
    }
}

#[derive(Clone, Copy, Default)]
struct Chunk {
    entries: [Entry; CHUNK],
    used: u32,
    next: u32,
}

/// Which pages the lists are about: those whose hash has these bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Share {
    mask: u64,
    value: u64,
}

impl Share {
    #[inline]
    fn has(self, key: Key) -> bool {
        // The hash table uses the lowest bits.
        self.mask == 0 || (spread(key) >> 40) & self.mask == self.value
    }

    /// Leaves out half of the pages, and returns the share that has them.
    fn halve(&mut self) -> Share {
        let bit = self.mask + 1;
        self.mask |= bit;
        Share {
            mask: self.mask,
            value: self.value | bit,
        }
    }
}

/// The lists of a share of the pages.
pub(super) struct PageLists {
    base: Lsn,
    forks: Vec<(FileId, Fork)>,
    numbers: HashMap<(FileId, Fork), u32>,
    /// The fork asked for last: records of one fork follow each other.
    recent: Option<((FileId, Fork), u32)>,
    index: HashMap<Key, u32, BuildHasherDefault<Spread>>,
    pages: Vec<PageList>,
    chunks: Vec<Chunk>,
    /// First of the chunks that can be used again.
    free: u32,
    share: Share,
    /// The shares of the pages that were left out.
    left_out: Vec<Share>,
    /// Keeps what a page was before a change that needs none of it: the log has results to be
    /// compared.
    pub(super) keeps_all: bool,
    budget: usize,
}

impl PageLists {
    /// Empty lists of records from `base` on, of the pages of `share`. With more than `budget`
    /// bytes they are of fewer pages.
    pub(super) fn new(base: Lsn, share: Share, budget: usize) -> PageLists {
        PageLists {
            base,
            forks: Vec::new(),
            numbers: HashMap::new(),
            recent: None,
            index: HashMap::default(),
            pages: Vec::new(),
            chunks: Vec::new(),
            free: NONE,
            share,
            left_out: Vec::new(),
            keeps_all: false,
            budget,
        }
    }

    pub(super) fn base(&self) -> Lsn {
        self.base
    }

    /// The shares of the pages that were left out for want of memory. No page is in two of them.
    pub(super) fn take_left_out(&mut self) -> Vec<Share> {
        std::mem::take(&mut self.left_out)
    }

    fn number_of(&mut self, file: FileId, fork: Fork) -> u32 {
        if let Some((known, number)) = self.recent
            && known == (file, fork)
        {
            return number;
        }
        let forks = &mut self.forks;
        let number = *self.numbers.entry((file, fork)).or_insert_with(|| {
            forks.push((file, fork));
            (forks.len() - 1) as u32
        });
        self.recent = Some(((file, fork), number));
        number
    }

    /// Adds the part at `offset` of the record at `lsn`. `whole`: it needs nothing of what the page
    /// held.
    #[inline]
    pub(super) fn add(&mut self, page: PageId, lsn: Lsn, offset: usize, whole: bool) {
        let key = Key::new(self.number_of(page.file, page.fork), page.block);
        if !self.share.has(key) {
            return;
        }
        let entry = Entry::new(self.base, lsn, offset);
        let fresh = self.pages.len() as u32;
        let at = *self.index.entry(key).or_insert(fresh);
        if at == fresh {
            self.pages.push(PageList {
                key,
                first: entry,
                head: NONE,
                tail: NONE,
                len: 1,
                starts_whole: whole,
            });
            self.check_budget(self.pages.len());
        } else if whole && !self.keeps_all {
            self.restart(at, entry);
        } else {
            let before = self.chunks.len();
            self.append(at, entry);
            if self.chunks.len() != before {
                self.check_budget(self.chunks.len());
            }
        }
    }

    /// Makes `entry` the only one.
    fn restart(&mut self, at: u32, entry: Entry) {
        let page = &mut self.pages[at as usize];
        let (head, tail) = (page.head, page.tail);
        *page = PageList {
            key: page.key,
            first: entry,
            head: NONE,
            tail: NONE,
            len: 1,
            starts_whole: true,
        };
        if head != NONE {
            self.chunks[tail as usize].next = self.free;
            self.free = head;
        }
    }

    fn append(&mut self, at: u32, entry: Entry) {
        let tail = self.pages[at as usize].tail;
        let has_room = tail != NONE && (self.chunks[tail as usize].used as usize) < CHUNK;
        let chunk = if has_room { tail } else { self.take_chunk() };
        let page = &mut self.pages[at as usize];
        if !has_room {
            if tail == NONE {
                page.head = chunk;
            } else {
                self.chunks[tail as usize].next = chunk;
            }
            page.tail = chunk;
        }
        let room = &mut self.chunks[chunk as usize];
        room.entries[room.used as usize] = entry;
        room.used += 1;
        page.len += 1;
    }

    fn take_chunk(&mut self) -> u32 {
        let empty = Chunk {
            next: NONE,
            ..Chunk::default()
        };
        if self.free != NONE {
            let chunk = self.free;
            self.free = self.chunks[chunk as usize].next;
            self.chunks[chunk as usize] = empty;
            return chunk;
        }
        self.chunks.push(empty);
        (self.chunks.len() - 1) as u32
    }

    /// Bytes in use.
    fn bytes(&self) -> usize {
        self.pages.len() * (size_of::<PageList>() + 16) + self.chunks.len() * size_of::<Chunk>()
    }

    /// Halves the share of the pages that the lists are about while they need too much memory,
    /// looking at it whenever `count` has grown by so many. The other half is a share of its own:
    /// redo would wait for ever for a page of two shares, which is up to date in the pool when the
    /// second one owes it its changes. Few pages have what they need: reading the log for each of
    /// them would take longer.
    fn check_budget(&mut self, count: usize) {
        const OFTEN: usize = if cfg!(test) { 16 } else { 1024 };
        const FEW: usize = if cfg!(test) { 4 } else { 256 };
        if !count.is_multiple_of(OFTEN) {
            return;
        }
        while self.bytes() > self.budget && self.pages.len() >= FEW && self.share.mask < 0xFFFF {
            self.left_out.push(self.share.halve());
            let share = self.share;
            self.keep_only(|list| share.has(list.key));
        }
    }

    /// Leaves out pages.
    fn keep_only(&mut self, keep: impl Fn(&PageList) -> bool) {
        let pages = std::mem::take(&mut self.pages);
        let chunks = std::mem::take(&mut self.chunks);
        self.free = NONE;
        self.index = HashMap::default();
        for list in pages.iter().filter(|list| keep(list)) {
            let at = self.pages.len() as u32;
            self.index.insert(list.key, at);
            self.pages.push(PageList {
                head: NONE,
                tail: NONE,
                len: 1,
                ..*list
            });
            for entry in Entries::of(list, &chunks).skip(1) {
                self.append(at, entry);
            }
        }
    }

    /// Leaves out the changes that no longer matter: `from` answers the LSN from which on a page's
    /// do, `None` when none does. Returns how many were left out.
    pub(super) fn settle(&mut self, from: impl Fn(PageId) -> Option<Lsn>) -> u64 {
        let (mut removed, base) = (0, self.base);
        let pages = std::mem::take(&mut self.pages);
        let chunks = std::mem::take(&mut self.chunks);
        self.free = NONE;
        self.index = HashMap::default();
        for list in &pages {
            let page = self.page_id(list.key);
            let from = from(page);
            let left = Entries::of(list, &chunks).filter(|entry| match from {
                Some(from) => entry.lsn(base) >= from,
                None => false,
            });
            let mut at = None;
            let mut kept = 0;
            for entry in left {
                kept += 1;
                match at {
                    Some(at) => self.append(at, entry),
                    None => {
                        let fresh = self.pages.len() as u32;
                        self.index.insert(list.key, fresh);
                        self.pages.push(PageList {
                            first: entry,
                            head: NONE,
                            tail: NONE,
                            len: 1,
                            starts_whole: list.starts_whole && entry == list.first,
                            ..*list
                        });
                        at = Some(fresh);
                    }
                }
            }
            removed += u64::from(list.len) - kept;
        }
        removed
    }

    /// The page of a key.
    pub(super) fn page_id(&self, key: Key) -> PageId {
        let (file, fork) = self.forks[key.fork() as usize];
        PageId {
            file,
            fork,
            block: key.block(),
        }
    }

    /// The number of a page's list.
    pub(super) fn find(&self, page: PageId) -> Option<usize> {
        let fork = *self.numbers.get(&(page.file, page.fork))?;
        let at = *self.index.get(&Key::new(fork, page.block))?;
        Some(at as usize)
    }

    /// The numbers of a file's forks in the lists, if it has any.
    pub(super) fn forks_of(&self, file: FileId) -> impl Iterator<Item = (u32, Fork)> + '_ {
        Fork::ALL.into_iter().filter_map(move |fork| {
            let number = self.numbers.get(&(file, fork))?;
            Some((*number, fork))
        })
    }

    /// The numbers of all lists, in the order of their keys.
    pub(super) fn in_order(&self) -> Box<[u32]> {
        let mut order: Box<[u32]> = (0..self.pages.len() as u32).collect();
        order.sort_unstable_by_key(|at| self.pages[*at as usize].key);
        order
    }

    /// Every list, by number.
    pub(super) fn lists(&self) -> &[PageList] {
        &self.pages
    }

    /// The forks, by number.
    pub(super) fn forks(&self) -> &[(FileId, Fork)] {
        &self.forks
    }

    /// LSN of a list's first record.
    pub(super) fn first(&self, list: &PageList) -> Lsn {
        list.first.lsn(self.base)
    }

    /// The entries of a list, in order.
    pub(super) fn entries<'a>(&'a self, list: &'a PageList) -> impl Iterator<Item = Entry> + 'a {
        Entries::of(list, &self.chunks)
    }
}

struct Entries<'a> {
    first: Option<Entry>,
    chunks: &'a [Chunk],
    chunk: u32,
    at: u32,
}

impl<'a> Entries<'a> {
    fn of(list: &PageList, chunks: &'a [Chunk]) -> Entries<'a> {
        Entries {
            first: Some(list.first),
            chunks,
            chunk: list.head,
            at: 0,
        }
    }
}

impl Iterator for Entries<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        if self.chunk == NONE {
            return None;
        }
        let chunk = &self.chunks[self.chunk as usize];
        let entry = chunk.entries[self.at as usize];
        self.at += 1;
        if self.at == chunk.used {
            (self.chunk, self.at) = (chunk.next, 0);
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(block: u32) -> PageId {
        PageId {
            file: FileId(7),
            fork: Fork::Main,
            block: BlockNumber(block),
        }
    }

    fn lsns(lists: &PageLists, block: u32) -> Vec<u64> {
        let Some(at) = lists.find(page(block)) else {
            return Vec::new();
        };
        let list = &lists.lists()[at];
        let lsns: Vec<u64> = lists
            .entries(list)
            .map(|entry| entry.lsn(lists.base()).0)
            .collect();
        assert_eq!(lsns.len(), list.len() as usize);
        assert_eq!(lsns.first(), Some(&lists.first(list).0));
        lsns
    }

    fn lists() -> PageLists {
        PageLists::new(Lsn(1 << 20), Share::default(), usize::MAX)
    }

    const BASE: u64 = 1 << 20;

    #[test]
    fn a_page_has_its_changes_in_order() {
        let mut lists = lists();
        for n in 0..1000 {
            lists.add(
                page((n % 3) as u32),
                Lsn(BASE + 8 * n),
                (n % 5) as usize,
                false,
            );
        }
        for block in 0..3 {
            let expected: Vec<u64> = (0..1000)
                .filter(|n| n % 3 == block)
                .map(|n| BASE + 8 * n)
                .collect();
            assert_eq!(lsns(&lists, block as u32), expected);
        }
        assert!(lists.find(page(3)).is_none());
    }

    #[test]
    fn a_change_that_needs_nothing_of_the_page_begins_its_list_anew() {
        let mut lists = lists();
        for n in 0..50 {
            lists.add(page(1), Lsn(BASE + 8 * n), 0, n == 30);
            lists.add(page(2), Lsn(BASE + 8 * n), 0, false);
        }
        assert_eq!(
            lsns(&lists, 1),
            (30..50).map(|n| BASE + 8 * n).collect::<Vec<_>>()
        );
        assert_eq!(lsns(&lists, 2).len(), 50);
        let at = lists.find(page(1)).expect("there");
        assert!(lists.lists()[at].starts_whole);
        let chunks = lists.chunks.len();
        lists.add(page(1), Lsn(BASE + 400), 0, true);
        for n in 51..60 {
            lists.add(page(2), Lsn(BASE + 8 * n), 0, false);
        }
        assert_eq!(lists.chunks.len(), chunks, "chunks are used again");
        lists.keeps_all = true;
        lists.add(page(1), Lsn(BASE + 480), 0, true);
        assert_eq!(lsns(&lists, 1), [BASE + 400, BASE + 480]);
    }

    #[test]
    fn every_page_is_in_exactly_one_share() {
        let budget = 64 << 10;
        let mut share = Share::default();
        let mut seen = vec![0; 10_000];
        let (mut rounds, mut left) = (0, Vec::new());
        loop {
            // Some are halved further, though the first one was small enough.
            let budget = budget / if rounds == 1 { 3 } else { 1 };
            let mut lists = PageLists::new(Lsn(BASE), share, budget);
            for n in 0..20_000 {
                lists.add(page(n % 10_000), Lsn(BASE + u64::from(n) * 8), 0, false);
            }
            for (block, seen) in seen.iter_mut().enumerate() {
                *seen += lsns(&lists, block as u32).len();
            }
            rounds += 1;
            left.extend(lists.take_left_out());
            let Some(next) = left.pop() else {
                break;
            };
            share = next;
        }
        assert!(rounds > 4, "{rounds}");
        assert!(seen.iter().all(|seen| *seen == 2));
    }

    #[test]
    fn few_pages_with_many_changes_are_bounded_too() {
        let budget = 8 << 10;
        let mut share = Share::default();
        let (mut seen, mut left) = ([0; 64], Vec::new());
        loop {
            let mut lists = PageLists::new(Lsn(BASE), share, budget);
            for n in 0..64_000 {
                lists.add(page(n % 64), Lsn(BASE + u64::from(n) * 8), 0, false);
                let few = lists.lists().len() <= 4;
                assert!(
                    few || lists.bytes() <= budget + 16 * 64,
                    "{}",
                    lists.bytes()
                );
            }
            for (block, seen) in seen.iter_mut().enumerate() {
                *seen += lsns(&lists, block as u32).len();
            }
            left.extend(lists.take_left_out());
            let Some(next) = left.pop() else {
                break;
            };
            share = next;
        }
        assert!(seen.iter().all(|seen| *seen == 1000), "{seen:?}");
    }

    #[test]
    fn what_is_cut_off_or_dropped_is_left_out() {
        let mut lists = lists();
        for n in 0..100 {
            lists.add(page((n % 4) as u32), Lsn(BASE + 8 * n), 0, n < 4);
        }
        let removed = lists.settle(|page| match page.block.0 {
            0 => Some(Lsn::ZERO),
            1 => Some(Lsn(BASE + 8 * 50)),
            _ => None,
        });
        assert_eq!(lsns(&lists, 0).len(), 25);
        assert_eq!(
            lsns(&lists, 1),
            (50..100)
                .filter(|n| n % 4 == 1)
                .map(|n| BASE + 8 * n)
                .collect::<Vec<_>>()
        );
        assert!(lists.find(page(2)).is_none());
        assert_eq!(removed, 25 + 25 + 13);
        let starts_whole =
            |block| lists.lists()[lists.find(page(block)).expect("there")].starts_whole;
        assert!(starts_whole(0) && !starts_whole(1));
    }
}
