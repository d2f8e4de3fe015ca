//! Filling a new index from the heap.

use evenkeel_storage::BlockNumber;
use evenkeel_storage::buffer::ReadGuard;

use super::passes::Pass;
use super::sort::KeySorter;
use super::{IndexDef, KeyKind, Table};
use crate::btree::TreeBuilder;
use crate::error::{EngineError, EngineResult};
use crate::heap::layout::{HEAP_ONLY, HeapRead, LpState, TupleHeader};
use crate::heap::prune::{Fate, xmax_hint, xmin_hint};
use crate::heap::read::{Entry, chain};
use crate::txn::{Horizon, Transaction};
use crate::types::Tid;

/// How full the leaves of a new index are, in percent.
const FILLFACTOR: u8 = 90;
/// Memory for sorting, in bytes; more entries are sorted on disk.
const SORT_MEMORY: usize = 128 << 20;
/// Blocks between two looks at whether the statement is cancelled.
const CANCEL_EVERY: u32 = 32;

/// Tag of an entry whose key may not occur twice: a live row, no NULL.
const DISTINCT: u8 = 1;

/// A version's part in a new index.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// No snapshot will see it.
    Dead,
    /// Some snapshot may see it, but it is deleted.
    Dying,
    /// It is there.
    Live,
}

impl Table {
    /// Fills the file of `index`, newly created and empty, with a tree of the rows. Answers the
    /// number of its entries.
    ///
    /// The caller holds a table lock that keeps writers out. Versions that only older snapshots
    /// see get entries too, each distinct key of a HOT chain one: whoever follows an entry to a
    /// heap-only version compares the key (heap rule 7), so the index is right for every
    /// snapshot at once.
    ///
    /// # Errors
    /// `UniqueViolation`; `KeyTooLarge`; `Cancelled`; damage; storage failures.
    pub fn build_index(&self, txn: &mut Transaction, index: &IndexDef) -> EngineResult<u64> {
        let xid = txn.xid()?;
        let store = self.db.store();
        let mut sorter = KeySorter::new(store.disk(), store.dir(), SORT_MEMORY);
        let horizon = self.db.horizon();
        let mut pass = Pass::new(self, 0..self.blocks());
        while let Some(block) = pass.next() {
            if block.is_multiple_of(CANCEL_EVERY) {
                txn.check_cancel()?;
            }
            let _frames = self.reserve_for_reading();
            let page = self.heap().read_with(BlockNumber(block), pass.ring())?;
            self.collect(txn, index, &horizon, &page, &mut sorter)?;
        }
        drop(pass);
        let mut builder = TreeBuilder::new(store, xid, index.file, FILLFACTOR)?;
        // Whether the current key has an entry that must be the only one of its kind.
        let mut distinct = false;
        sorter.finish(&mut |key, tid, tag| {
            let repeated = builder.add(key, tid)?;
            let this = tag & DISTINCT != 0;
            if index.unique && repeated && distinct && this {
                return Err(EngineError::UniqueViolation {
                    index: index.name.to_string(),
                });
            }
            distinct = this || (repeated && distinct);
            Ok(())
        })?;
        let (_, entries) = builder.finish()?;
        Ok(entries)
    }

    /// Adds the entries of a page's rows.
    fn collect(
        &self,
        txn: &Transaction,
        index: &IndexDef,
        horizon: &Horizon,
        guard: &ReadGuard<'_>,
        sorter: &mut KeySorter,
    ) -> EngineResult<()> {
        let block = guard.block();
        if !guard.is_heap() {
            return Ok(());
        }
        let mut keys: Vec<(Vec<u8>, u8)> = Vec::new();
        for slot in 1..=guard.slots() {
            let root = match guard.line_pointer(slot).state {
                LpState::Redirect => true,
                LpState::Normal => guard
                    .tuple_at(slot)
                    .is_some_and(|(offset, _)| !guard.header(offset).is(HEAP_ONLY)),
                LpState::Unused | LpState::Dead => false,
            };
            if !root {
                continue;
            }
            keys.clear();
            for link in chain(guard, block, slot, Entry::Index) {
                let standing = self.standing(txn, horizon, &link.header)?;
                let mut key = Vec::new();
                let kind = index.key.key(guard.row(link.offset, link.length), &mut key);
                if standing == Standing::Dead || kind == KeyKind::Absent {
                    continue;
                }
                let live = standing == Standing::Live && kind == KeyKind::Unique;
                let tag = if live { DISTINCT } else { 0 };
                match keys.iter_mut().find(|known| known.0 == key) {
                    Some(known) => known.1 |= tag,
                    None => keys.push((key, tag)),
                }
            }
            for (key, tag) in &keys {
                sorter.add(key, Tid::new(block, slot), *tag)?;
            }
        }
        Ok(())
    }

    fn standing(
        &self,
        txn: &Transaction,
        horizon: &Horizon,
        header: &TupleHeader,
    ) -> EngineResult<Standing> {
        let mut fate = self.fates(horizon);
        if !header.frozen() && fate(header.xmin, xmin_hint(header))? == Fate::Aborted {
            return Ok(Standing::Dead);
        }
        if !header.xmax.is_some() {
            return Ok(Standing::Live);
        }
        Ok(match fate(header.xmax, xmax_hint(header))? {
            Fate::Old => Standing::Dead,
            Fate::Recent => Standing::Dying,
            Fate::Running if txn.owns(header.xmax) => Standing::Dying,
            Fate::Aborted | Fate::Running => Standing::Live,
        })
    }
}
