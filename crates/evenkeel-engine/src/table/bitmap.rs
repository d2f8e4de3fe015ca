//! Rows by the places that indexes have found: gathered from any number of them, and then read in
//! the order of the heap, each page once.

use std::ops::Range;
use std::sync::Arc;

use evenkeel_storage::BlockNumber;

use super::{Direction, IndexScan, KeyRange, Table};
use crate::error::EngineResult;
use crate::heap::read::whole;
use crate::heap::rows::RowBatch;
use crate::memory::{Reservation, SessionMemory};
use crate::ticket::CancelFlag;
use crate::txn::Snapshot;
use crate::types::Tid;

/// The most pages that are asked for ahead of use.
const AHEAD: usize = 32;
/// They take this part of the pool at most.
const PART: u64 = 16;
/// Bytes of a place.
const PLACE: usize = size_of::<u64>();

/// Places of row versions, and pages of which all rows are meant. Those of one page come to be the
/// whole page when there are too many places: its rows are then to be asked for what they were
/// looked up by.
#[derive(Debug)]
pub struct TidBitmap {
    /// Block and slot; slot 0 is the whole page. Ascending, each once, up to `settled`.
    places: Vec<u64>,
    settled: usize,
    /// Places that are kept one by one.
    most: usize,
    memory: Reservation,
}

fn place(block: u32, slot: u16) -> u64 {
    u64::from(block) << 16 | u64::from(slot)
}

fn block_of(place: u64) -> u32 {
    (place >> 16) as u32
}

fn is_whole(place: u64) -> bool {
    place & 0xffff == 0
}

impl TidBitmap {
    /// No place; it takes `bytes` of the session's memory before it comes to whole pages.
    pub fn new(memory: &Arc<SessionMemory>, bytes: usize) -> TidBitmap {
        TidBitmap {
            places: Vec::new(),
            settled: 0,
            most: (bytes / PLACE).max(1),
            memory: Reservation::new(memory),
        }
    }

    /// Adds places that an index has given.
    ///
    /// # Errors
    /// 53200.
    pub fn add(&mut self, tids: &[Tid]) -> EngineResult<()> {
        let places = tids.iter().map(|tid| place(tid.block.0, tid.slot));
        self.extend(places)
    }

    /// Adds all pages up to before `blocks`.
    fn add_all(&mut self, blocks: u32) -> EngineResult<()> {
        self.extend((0..blocks).map(|block| place(block, 0)))
    }

    fn extend(&mut self, places: impl ExactSizeIterator<Item = u64>) -> EngineResult<()> {
        let wanted = self.places.len() + places.len();
        if wanted > self.places.capacity() {
            let room = wanted.max(self.places.capacity() * 2);
            self.memory.resize(room * PLACE)?;
            self.places.reserve_exact(room - self.places.len());
        }
        self.places.extend(places);
        // As many again as are in order: each is sorted a few times at most.
        if self.places.len() > self.most && self.places.len() >= 2 * self.settled {
            self.settle();
        }
        Ok(())
    }

    /// Puts the places in order; the pages are whole if there are too many.
    fn settle(&mut self) {
        self.places.sort_unstable();
        self.places.dedup();
        if self.places.len() > self.most {
            self.places
                .iter_mut()
                .for_each(|at| *at = place(block_of(*at), 0));
            self.places.dedup();
        }
        // A whole page comes before its rows, which it has.
        let mut whole = None;
        self.places.retain(|at| {
            if is_whole(*at) {
                whole = Some(block_of(*at));
                return true;
            }
            whole != Some(block_of(*at))
        });
        self.settled = self.places.len();
    }

    /// The places that are in both. Of a page that is whole in one, all rows are meant: nothing
    /// tells which of them the other has looked up.
    #[must_use]
    pub fn and(mut self, mut other: TidBitmap) -> TidBitmap {
        self.settle();
        other.settle();
        let mut others = other.places.chunk_by(|a, b| block_of(*a) == block_of(*b));
        let mut page = others.next();
        let mut both = Vec::new();
        for own in self.places.chunk_by(|a, b| block_of(*a) == block_of(*b)) {
            let block = block_of(own[0]);
            while page.is_some_and(|page| block_of(page[0]) < block) {
                page = others.next();
            }
            let Some(page) = page.filter(|page| block_of(page[0]) == block) else {
                continue;
            };
            if is_whole(own[0]) || is_whole(page[0]) {
                both.push(place(block, 0));
            } else {
                let same = own.iter().filter(|at| page.binary_search(at).is_ok());
                both.extend(same);
            }
        }
        self.places = both;
        self.settled = self.places.len();
        self
    }

    /// The places that are in one of them.
    ///
    /// # Errors
    /// 53200.
    pub fn or(mut self, other: TidBitmap) -> EngineResult<TidBitmap> {
        self.extend(other.places.into_iter())?;
        Ok(self)
    }
}

/// Fills a bitmap from a range of an index, a leaf at a time.
pub struct TidSearch {
    scan: IndexScan,
    cancel: CancelFlag,
}

impl TidSearch {
    /// Adds the places of the next leaf; how many there were, none at the end.
    ///
    /// # Errors
    /// `Cancelled`; 53200; damage; storage failures.
    pub fn step(&mut self, bitmap: &mut TidBitmap) -> EngineResult<usize> {
        self.cancel.check()?;
        if let Some(tids) = self.scan.next_tids()? {
            bitmap.add(tids)?;
            return Ok(tids.len());
        }
        // The index lacks versions that the snapshot sees.
        bitmap.add_all(self.scan.blocks())?;
        Ok(0)
    }
}

/// Reads the rows of a bitmap, a page at a time, in the order of the heap.
pub struct BitmapScan {
    table: Arc<Table>,
    snapshot: Snapshot,
    places: Vec<u64>,
    next: usize,
    /// The places up to here were asked for.
    asked: usize,
    cancel: CancelFlag,
    _memory: Reservation,
}

impl BitmapScan {
    /// Replaces `batch` by the visible rows of the next page that has any. The answer says whether
    /// they are all rows of the page, so that each is to be asked again; none at the end.
    ///
    /// # Errors
    /// `Cancelled`; damage; storage failures.
    pub fn next_page(&mut self, batch: &mut RowBatch) -> EngineResult<Option<bool>> {
        batch.clear();
        while let Some(first) = self.places.get(self.next).copied() {
            self.cancel.check()?;
            self.ask_ahead();
            let block = block_of(first);
            let page = self.places[self.next..].iter();
            let count = page.take_while(|at| block_of(**at) == block).count();
            let places = &self.places[self.next..self.next + count];
            self.next += count;
            let whole_page = is_whole(first);
            if whole_page {
                let at = (BlockNumber(block), None);
                let _ = self
                    .table
                    .read_block(&self.snapshot, at, &mut whole, batch)?;
            } else {
                let tids = places.iter();
                let tids = tids.map(|at| Tid::new(BlockNumber(block), *at as u16));
                let tids: Vec<Tid> = tids.collect();
                let _ = self.table.visit_tids(&self.snapshot, &tids, batch)?;
                batch.read_under(0, &self.snapshot);
            }
            if !batch.is_empty() {
                let rows = batch.len() as u64;
                self.table.counters().index_read(0, rows);
                return Ok(Some(whole_page));
            }
        }
        Ok(None)
    }

    /// Asks for pages that come soon.
    fn ask_ahead(&mut self) {
        let part = self.table.store().pool().frames() / PART;
        let most = AHEAD.min(usize::try_from(part).unwrap_or(AHEAD));
        if self.asked > self.next + most / 2 {
            return;
        }
        let from = self.asked.max(self.next);
        let end = (self.next + most).min(self.places.len());
        let Some(places) = self.places.get(from..end) else {
            return;
        };
        let fork = self.table.space.fork();
        let adjacent = |a: &u64, b: &u64| block_of(*b) - block_of(*a) <= 1;
        for run in places.chunk_by(adjacent) {
            let blocks: Range<u32> = block_of(run[0])..block_of(run[run.len() - 1]) + 1;
            fork.prefetch(blocks);
        }
        self.asked = end;
    }
}

impl Table {
    /// Begins to look up the places of rows whose keys are in a range.
    ///
    /// # Errors
    /// As [`Table::index_scan`].
    pub fn tid_search(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        index: usize,
        range: &KeyRange,
        cancel: &CancelFlag,
    ) -> EngineResult<TidSearch> {
        Ok(TidSearch {
            scan: self.index_scan(snapshot, index, range, Direction::Forward)?,
            cancel: cancel.clone(),
        })
    }

    /// Reads the rows of a bitmap that was filled under `snapshot`.
    pub fn bitmap_scan(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        mut bitmap: TidBitmap,
        cancel: &CancelFlag,
    ) -> BitmapScan {
        bitmap.settle();
        BitmapScan {
            table: Arc::clone(self),
            snapshot: snapshot.clone(),
            places: bitmap.places,
            next: 0,
            asked: 0,
            cancel: cancel.clone(),
            _memory: bitmap.memory,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;
    use crate::memory::ServerMemory;

    fn random(rng: &mut StdRng, bytes: usize) -> (TidBitmap, BTreeSet<(u32, u16)>) {
        let memory = ServerMemory::unlimited().session(1 << 20);
        let mut bitmap = TidBitmap::new(&memory, bytes);
        let mut model = BTreeSet::new();
        for _ in 0..rng.random_range(0..6) {
            let mut tids = Vec::new();
            for _ in 0..rng.random_range(0..40) {
                let (block, slot) = (rng.random_range(0..12), rng.random_range(1..9));
                let _ = model.insert((block, slot));
                tids.push(Tid::new(BlockNumber(block), slot));
            }
            bitmap.add(&tids).unwrap();
        }
        (bitmap, model)
    }

    /// The places of a bitmap, and whether it has others too.
    fn places(mut bitmap: TidBitmap) -> (BTreeSet<(u32, u16)>, bool) {
        bitmap.settle();
        assert!(bitmap.places.is_sorted_by(|a, b| a < b));
        let mut whole = false;
        let mut all = BTreeSet::new();
        for at in bitmap.places {
            whole |= is_whole(at);
            let slots = if is_whole(at) {
                1..9
            } else {
                at as u16..at as u16 + 1
            };
            all.extend(slots.map(|slot| (block_of(at), slot)));
        }
        (all, whole)
    }

    #[test]
    fn bitmaps_have_the_places_of_sets_or_pages_that_have_them() {
        for seed in 0..2_000 {
            let mut rng = StdRng::seed_from_u64(seed);
            let bytes = *[1 << 20, 200].get(rng.random_range(0..2)).unwrap();
            let ((a, in_a), (b, in_b)) = (random(&mut rng, bytes), random(&mut rng, bytes));
            let (made, expected): (_, BTreeSet<_>) = match rng.random_bool(0.5) {
                true => (a.and(b), in_a.intersection(&in_b).copied().collect()),
                false => (a.or(b).unwrap(), in_a.union(&in_b).copied().collect()),
            };
            let (found, whole) = places(made);
            match whole {
                true => assert!(found.is_superset(&expected), "seed {seed}"),
                false => assert_eq!(found, expected, "seed {seed}"),
            }
        }
    }

    #[test]
    fn a_bitmap_of_many_places_comes_to_pages_and_stays_within_its_memory() {
        let memory = ServerMemory::unlimited().session(1 << 20);
        let mut bitmap = TidBitmap::new(&memory, 8 << 10);
        for block in 0..5_000u32 {
            let tids: Vec<Tid> = (1..9)
                .map(|slot| Tid::new(BlockNumber(block), slot))
                .collect();
            bitmap.add(&tids).unwrap();
        }
        let (all, whole) = places(bitmap);
        assert!(whole);
        assert_eq!(all.len(), 5_000 * 8);
        assert!(memory.used() <= 1 << 20);
    }
}
