//! The changes that the log has for each page: for every page the parts of records that change it,
//! in order, with their bytes as long as there is memory for them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use smallvec::SmallVec;

use super::parts::{Chain, Entry, Item, Parts};
use crate::ids::{BlockNumber, FileId, Fork, Lsn, PageId};
use crate::record::{ALIGN, MAX_RECORD, PartView};

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

    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
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
    chain: Chain,
    /// Parts at the chain's beginning that do not matter.
    skip: u32,
    len: u32,
    /// The first change needs nothing of what the page held.
    pub(super) starts_whole: bool,
}

impl PageList {
    fn empty(key: Key) -> PageList {
        PageList {
            key,
            first: Entry::default(),
            chain: Chain::EMPTY,
            skip: 0,
            len: 0,
            starts_whole: false,
        }
    }

    /// How many changes there are.
    pub(super) fn len(&self) -> u32 {
        self.len
    }
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
    numbers: HashMap<(FileId, Fork), u32, BuildHasherDefault<Spread>>,
    /// The fork asked for last: records of one fork follow each other.
    recent: Option<((FileId, Fork), u32)>,
    index: HashMap<Key, u32, BuildHasherDefault<Spread>>,
    pages: Vec<PageList>,
    parts: Parts,
    share: Share,
    /// The shares of the pages that were left out.
    left_out: Vec<Share>,
    /// Keeps what a page was before a change that needs none of it: the log has results to be
    /// compared.
    pub(super) keeps_all: bool,
    budget: usize,
    /// Whether all changes may be left in the log, to be fetched from it one by one.
    may_fetch: bool,
    /// Whether they are.
    fetches: bool,
}

impl PageLists {
    /// Empty lists of records from `base` on, of the pages of `share`. With more than three
    /// quarters of `budget` bytes they leave the bytes of further parts in the log; with more than
    /// all of it they leave all there, if they may, or are of fewer pages.
    pub(super) fn new(base: Lsn, share: Share, budget: usize) -> PageLists {
        PageLists {
            base,
            forks: Vec::new(),
            numbers: HashMap::default(),
            recent: None,
            index: HashMap::default(),
            pages: Vec::new(),
            parts: Parts::new(),
            share,
            left_out: Vec::new(),
            keeps_all: false,
            budget,
            may_fetch: false,
            fetches: false,
        }
    }

    /// Lets the lists leave all changes in the log before they are of fewer pages. Where it stays
    /// in the page cache, fetching them costs less than reading it several times, and the database
    /// opens after the first time.
    pub(super) fn may_fetch(mut self, may: bool) -> PageLists {
        self.may_fetch = may;
        self
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

    /// Adds a part of the record at `lsn`, which starts at `offset` in it.
    pub(super) fn add(&mut self, (lsn, offset): (Lsn, usize), part: &PartView<'_>) {
        let Some(at) = self.place_of(part.page) else {
            return;
        };
        self.append(at, (lsn, offset), part);
        self.check_budget();
    }

    /// Adds several parts, as [`PageLists::add`] does one.
    pub(super) fn add_all<'p>(&mut self, parts: impl Iterator<Item = (Lsn, usize, PartView<'p>)>) {
        const TOGETHER: usize = 16;
        let mut parts = parts.peekable();
        while parts.peek().is_some() {
            let together = parts.by_ref().take(TOGETHER);
            let places: SmallVec<[_; TOGETHER]> = together
                .filter_map(|part| Some((self.place_of(part.2.page)?, part)))
                .collect();
            let mut touched = 0;
            for (at, _) in &places {
                touched ^= self.parts.touch(self.pages[*at as usize].chain);
            }
            std::hint::black_box(touched);
            for (at, (lsn, offset, part)) in &places {
                self.append(*at, (*lsn, *offset), part);
            }
            // Not before: it moves pages to other places.
            self.check_budget();
        }
    }

    /// The number of a page's list, an empty one if there was none; `None` if the lists are not
    /// about the page.
    #[inline]
    fn place_of(&mut self, page: PageId) -> Option<u32> {
        let key = Key::new(self.number_of(page.file, page.fork), page.block);
        if !self.share.has(key) {
            return None;
        }
        let fresh = self.pages.len() as u32;
        let at = *self.index.entry(key).or_insert(fresh);
        if at == fresh {
            self.pages.push(PageList::empty(key));
        }
        Some(at)
    }

    #[inline]
    fn append(&mut self, at: u32, (lsn, offset): (Lsn, usize), part: &PartView<'_>) {
        let whole = part.flags.is_whole();
        if whole && !self.keeps_all {
            let list = &mut self.pages[at as usize];
            let chain = std::mem::replace(list, PageList::empty(list.key)).chain;
            self.parts.free(chain);
        }
        let is_kept = !self.fetches && self.bytes() + part.data.len() <= self.budget / 4 * 3;
        let entry = Entry::new(self.base, lsn, offset);
        self.push(at, entry, whole, is_kept.then_some(part));
    }

    #[inline]
    fn push(&mut self, at: u32, entry: Entry, whole: bool, part: Option<&PartView<'_>>) {
        let list = &mut self.pages[at as usize];
        if list.len == 0 {
            (list.first, list.starts_whole) = (entry, whole);
        }
        list.len += 1;
        self.parts.push(&mut list.chain, entry, part);
    }

    /// Bytes in use.
    fn bytes(&self) -> usize {
        self.pages.len() * (size_of::<PageList>() + 16) + self.parts.bytes()
    }

    /// Halves the share of the pages that the lists are about while they need too much memory.
    /// The other half is a share of its own: redo would wait for ever for a page of two shares,
    /// which is up to date in the pool when the second one owes it its changes. Few pages have
    /// all that they need: reading the log for each of them would take longer.
    fn check_budget(&mut self) {
        const FEW: usize = if cfg!(test) { 4 } else { 256 };
        if self.bytes() > self.budget && self.may_fetch && !self.fetches {
            self.leave_in_log();
        }
        while self.bytes() > self.budget && self.pages.len() >= FEW && self.share.mask < 0xFFFF {
            self.left_out.push(self.share.halve());
            let share = self.share;
            self.remove_where(|_, list| !share.has(list.key));
        }
    }

    /// Gives up the bytes of all changes: the log has them.
    fn leave_in_log(&mut self) {
        self.fetches = true;
        let mut entries = Vec::new();
        for at in 0..self.pages.len() {
            let list = self.pages[at];
            entries.clear();
            entries.extend(self.items(&list).map(|item| item.entry));
            self.parts.free(list.chain);
            let mut chain = Chain::EMPTY;
            for entry in &entries {
                self.parts.push(&mut chain, *entry, None);
            }
            let list = &mut self.pages[at];
            (list.chain, list.skip) = (chain, 0);
        }
    }

    /// Removes pages; returns how many.
    fn remove_where(&mut self, is_out: impl Fn(&PageLists, &PageList) -> bool) -> u64 {
        let before = self.pages.len();
        let mut at = 0;
        while at < self.pages.len() {
            let list = self.pages[at];
            if !is_out(self, &list) {
                at += 1;
                continue;
            }
            self.index.remove(&list.key);
            self.parts.free(list.chain);
            self.pages.swap_remove(at);
            if let Some(moved) = self.pages.get(at) {
                self.index.insert(moved.key, at as u32);
            }
        }
        (before - self.pages.len()) as u64
    }

    /// Leaves out the changes that no longer matter: `from` answers the LSN from which on a page's
    /// do, `None` when none does. Returns how many were left out.
    pub(super) fn settle(&mut self, from: impl Fn(PageId) -> Option<Lsn>) -> u64 {
        let mut removed = 0;
        for at in 0..self.pages.len() {
            let list = self.pages[at];
            let from = from(self.page_id(list.key));
            let matters = |entry: Entry| from.is_some_and(|from| entry.lsn(self.base) >= from);
            if matters(list.first) {
                continue;
            }
            let gone = self.items(&list).take_while(|item| !matters(item.entry));
            let gone = gone.count() as u32;
            let first = self.items(&list).nth(gone as usize).map(|item| item.entry);
            removed += u64::from(gone);
            self.pages[at] = PageList {
                first: first.unwrap_or(list.first),
                skip: list.skip + gone,
                len: list.len - gone,
                // Where the rest begins is not known to be whole.
                starts_whole: false,
                ..list
            };
        }
        self.remove_where(|_, list| list.len == 0);
        removed
    }

    /// Leaves out the pages that are home with all their changes: `written` answers the LSN with
    /// which a page is durable. Returns how many there were.
    pub(super) fn leave_out_home(&mut self, written: impl Fn(PageId) -> Lsn) -> u64 {
        self.remove_where(|lists, list| lists.last(list) <= written(lists.page_id(list.key)))
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

    /// LSN of a list's last record.
    fn last(&self, list: &PageList) -> Lsn {
        let last = self.parts.last(list.chain).unwrap_or(list.first);
        last.lsn(self.base)
    }

    /// The changes of a list, in order.
    pub(super) fn items(&self, list: &PageList) -> impl Iterator<Item = Item<'_>> {
        let items = self.parts.items(self.page_id(list.key), list.chain);
        items.skip(list.skip as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::PartFlags;

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
            .items(list)
            .map(|item| item.entry.lsn(lists.base()).0)
            .collect();
        assert_eq!(lsns.len(), list.len() as usize);
        assert_eq!(lsns.first(), Some(&lists.first(list).0));
        lsns
    }

    fn add(lists: &mut PageLists, page: PageId, at: (Lsn, usize), whole: bool) {
        let flags = match whole {
            true => PartFlags::INIT,
            false => PartFlags::NONE,
        };
        lists.add(
            at,
            &PartView {
                page,
                flags,
                op: 0,
                prev_lsn: Lsn::ZERO,
                data: &[7; 12],
            },
        );
    }

    fn lists() -> PageLists {
        PageLists::new(Lsn(1 << 20), Share::default(), usize::MAX)
    }

    const BASE: u64 = 1 << 20;

    #[test]
    fn a_page_has_its_changes_in_order() {
        let mut lists = lists();
        for n in 0..1000 {
            add(
                &mut lists,
                page((n % 3) as u32),
                (Lsn(BASE + 8 * n), (n % 5) as usize),
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
            add(&mut lists, page(1), (Lsn(BASE + 8 * n), 0), n == 30);
            add(&mut lists, page(2), (Lsn(BASE + 8 * n), 0), false);
        }
        assert_eq!(
            lsns(&lists, 1),
            (30..50).map(|n| BASE + 8 * n).collect::<Vec<_>>()
        );
        assert_eq!(lsns(&lists, 2).len(), 50);
        let at = lists.find(page(1)).expect("there");
        assert!(lists.lists()[at].starts_whole);
        let bytes = lists.bytes();
        add(&mut lists, page(1), (Lsn(BASE + 400), 0), true);
        for n in 51..60 {
            add(&mut lists, page(2), (Lsn(BASE + 8 * n), 0), false);
        }
        assert!(lists.bytes() < bytes, "{} of {bytes}", lists.bytes());
        lists.keeps_all = true;
        add(&mut lists, page(1), (Lsn(BASE + 480), 0), true);
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
                add(
                    &mut lists,
                    page(n % 10_000),
                    (Lsn(BASE + u64::from(n) * 8), 0),
                    false,
                );
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
    fn changes_are_left_in_the_log_before_pages_are() {
        let budget = 256 << 10;
        let mut lists = PageLists::new(Lsn(BASE), Share::default(), budget).may_fetch(true);
        let mut count = 0;
        let mut fill = |lists: &mut PageLists, changes: u64| {
            for n in count..count + changes {
                let at = (Lsn(BASE + 8 * n), (n % 9) as usize);
                add(lists, page((n % 300) as u32), at, n % 1000 == 5);
            }
            count += changes;
        };
        let kept = |lists: &PageLists| {
            let items = lists.lists().iter().flat_map(|list| lists.items(list));
            items.filter(|item| item.part.is_some()).count()
        };
        fill(&mut lists, 3_000);
        assert_eq!(
            kept(&lists),
            lists
                .lists()
                .iter()
                .map(|l| l.len() as usize)
                .sum::<usize>()
        );
        // More than fits with its bytes, and not more than fits as places.
        fill(&mut lists, 12_000);
        assert_eq!(kept(&lists), 0);
        assert!(lists.bytes() <= budget && lists.take_left_out().is_empty());
        for block in [0, 7, 299] {
            let mut expected: Vec<u64> = (0..15_000).filter(|n| n % 300 == block).collect();
            let whole = expected.iter().rposition(|n| n % 1000 == 5);
            expected.drain(..whole.unwrap_or(0));
            let expected: Vec<u64> = expected.into_iter().map(|n| BASE + 8 * n).collect();
            assert_eq!(lsns(&lists, block as u32), expected, "{block}");
        }
        fill(&mut lists, 100_000);
        assert!(lists.bytes() <= budget && !lists.take_left_out().is_empty());
    }

    #[test]
    fn few_pages_with_many_changes_are_bounded_too() {
        let budget = 8 << 10;
        let mut share = Share::default();
        let (mut seen, mut left) = ([0; 64], Vec::new());
        loop {
            let mut lists = PageLists::new(Lsn(BASE), share, budget);
            for n in 0..64_000 {
                add(
                    &mut lists,
                    page(n % 64),
                    (Lsn(BASE + u64::from(n) * 8), 0),
                    false,
                );
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
    fn pages_that_are_home_with_their_last_change_are_left_out() {
        let mut lists = lists();
        for n in 0..300 {
            add(
                &mut lists,
                page((n % 10) as u32),
                (Lsn(BASE + 8 * n), 0),
                false,
            );
        }
        add(&mut lists, page(10), (Lsn(BASE + 8 * 300), 0), false);
        let bytes = lists.bytes();
        // Each page's last change, that before it, and none.
        let out = lists.leave_out_home(|page| match page.block.0 {
            block @ (0..3 | 9) => Lsn(BASE + 8 * (290 + u64::from(block))),
            block @ 3..6 => Lsn(BASE + 8 * (290 + u64::from(block)) - 1),
            10 => Lsn::MAX,
            _ => Lsn::ZERO,
        });
        assert_eq!(out, 5);
        for block in 0..11 {
            let left = if (3..9).contains(&block) { 30 } else { 0 };
            assert_eq!(lsns(&lists, block).len(), left, "{block}");
        }
        for n in 0..100 {
            add(&mut lists, page(20), (Lsn(BASE + 8 * (400 + n)), 0), false);
        }
        assert!(lists.bytes() < bytes, "{} of {bytes}", lists.bytes());
    }

    #[test]
    fn what_is_cut_off_or_dropped_is_left_out() {
        let mut lists = lists();
        for n in 0..100 {
            add(
                &mut lists,
                page((n % 4) as u32),
                (Lsn(BASE + 8 * n), 0),
                n < 4,
            );
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
