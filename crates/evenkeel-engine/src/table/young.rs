//! Reading in the order of an index that is younger than the snapshot, and that leaves out row
//! versions which the snapshot sees: by the heap (TAB-9).

use std::ops::Bound;

use evenkeel_storage::BlockNumber;

use super::pass::Pass;
use super::{Direction, KeyKind, Table};
use crate::error::EngineResult;
use crate::heap::read::whole;
use crate::heap::rows::RowBatch;
use crate::sort::KeySorter;
use crate::temp::WorkLimits;
use crate::ticket::CancelFlag;
use crate::txn::{Hint, Snapshot};
use crate::types::Tid;

/// Memory for sorting, in bytes; more keys are sorted on disk.
const SORT_MEMORY: usize = 16 << 20;
/// Rows that one call gives out, about those of an index page.
const PAGE: usize = 256;

/// An end of a key range.
pub(super) type KeyBound = Bound<Vec<u8>>;

/// Rows of a key range in key order, without the index: their places are sorted first.
pub(super) struct HeapOrder {
    index: usize,
    range: (KeyBound, KeyBound),
    direction: Direction,
    sorted: Option<std::vec::IntoIter<Tid>>,
}

impl HeapOrder {
    pub(super) fn new(
        index: usize,
        range: (KeyBound, KeyBound),
        direction: Direction,
    ) -> HeapOrder {
        HeapOrder {
            index,
            range,
            direction,
            sorted: None,
        }
    }

    /// Appends the next rows to `batch`; false at the end.
    pub(super) fn next_page(
        &mut self,
        table: &Table,
        snapshot: &Snapshot,
        cancel: Option<&CancelFlag>,
        batch: &mut RowBatch,
    ) -> EngineResult<bool> {
        let sorted = match &mut self.sorted {
            Some(sorted) => sorted,
            None => {
                let mut tids = table.sorted_by_key(snapshot, self.index, &self.range, cancel)?;
                if self.direction == Direction::Backward {
                    tids.reverse();
                }
                self.sorted.insert(tids.into_iter())
            }
        };
        let before = batch.len();
        for tid in sorted.take(PAGE) {
            table.fetch_into(snapshot, tid, batch)?;
        }
        Ok(batch.len() > before)
    }
}

impl Table {
    /// Whether index `index`, which exists, has an entry for every row version that `snapshot`
    /// may see. Asked when a statement runs, not when it is planned: plans are kept.
    pub(super) fn can_read_by(&self, snapshot: &Snapshot, index: usize) -> EngineResult<bool> {
        match self.def.indexes[index].usable_after {
            // Below the floor it has committed, or nobody would know of the index.
            Some(xid) if xid >= snapshot.floor() => {
                Ok(snapshot.visibility(xid, Hint::None)?.visible)
            }
            _ => Ok(true),
        }
    }

    /// The places of the visible rows with keys in a range, in the order of an index.
    fn sorted_by_key(
        &self,
        snapshot: &Snapshot,
        index: usize,
        (lower, upper): &(KeyBound, KeyBound),
        cancel: Option<&CancelFlag>,
    ) -> EngineResult<Vec<Tid>> {
        let extractor = &self.def.indexes[index].key;
        let store = self.db.store();
        let never = CancelFlag::new();
        let limits = WorkLimits::unlimited(SORT_MEMORY);
        let mut sorter = KeySorter::new(store, limits, cancel.unwrap_or(&never));
        let mut pass = Pass::new(self, 0..self.blocks(), true);
        let (mut page, mut key) = (RowBatch::new(), Vec::new());
        while let Some(block) = pass.next() {
            if let Some(flag) = cancel {
                flag.check()?;
            }
            page.clear();
            let at = (BlockNumber(block), pass.ring());
            self.read_block(snapshot, at, &mut whole, &mut page)?;
            for (tid, row) in page.iter() {
                key.clear();
                let kind = extractor.key(row, &mut key)?;
                let above = match lower {
                    Bound::Unbounded => true,
                    Bound::Included(low) => key >= *low,
                    Bound::Excluded(low) => key > *low,
                };
                let below = match upper {
                    Bound::Unbounded => true,
                    Bound::Included(high) => key <= *high,
                    Bound::Excluded(high) => key < *high,
                };
                if kind != KeyKind::Absent && above && below {
                    sorter.add(&key, tid, 0)?;
                }
            }
        }
        let mut tids = Vec::new();
        sorter.finish(&mut |_, tid, _| {
            tids.push(tid);
            Ok(())
        })?;
        Ok(tids)
    }

    /// As [`Table::index_lookup`], without the index.
    pub(super) fn lookup_in_heap(
        &self,
        snapshot: &Snapshot,
        index: usize,
        key: &[u8],
        out: &mut RowBatch,
    ) -> EngineResult<()> {
        let mut after = Vec::new();
        let upper = match crate::btree::prefix_successor(key, &mut after) {
            true => Bound::Excluded(after),
            false => Bound::Unbounded,
        };
        let range = (Bound::Included(key.to_vec()), upper);
        for tid in self.sorted_by_key(snapshot, index, &range, None)? {
            self.fetch_into(snapshot, tid, out)?;
        }
        Ok(())
    }
}
