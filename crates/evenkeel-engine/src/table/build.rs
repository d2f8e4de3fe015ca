//! Filling a new index from the heap.

use std::sync::Arc;

use evenkeel_storage::BlockNumber;
use evenkeel_storage::buffer::ReadGuard;

use super::pass::Pass;
use super::{Built, IndexDef, KeyKind, Table};
use crate::btree::TreeBuilder;
use crate::error::{EngineError, EngineResult};
use crate::heap::layout::{HEAP_ONLY, HeapRead, LpState, TupleHeader};
use crate::heap::prune::{xmax_hint, xmin_hint};
use crate::heap::read::{Entry, chain};
use crate::heap::rows::RowBatch;
use crate::sort::KeySorter;
use crate::transaction::Transaction;
use crate::txn::Horizon;
use crate::txn::XidAtHorizon;
use crate::types::Tid;

/// How full the leaves of a new index are, in percent.
const FILLFACTOR: u8 = 90;
/// Blocks between two looks at whether the statement is cancelled.
const CANCEL_EVERY: u32 = 32;
/// The same for entries of the tree that is filled.
const CANCEL_EVERY_ENTRIES: u32 = 1 << 12;

/// Tag of an entry whose key may not occur twice: a live row, no NULL.
const DISTINCT: u8 = 1;

/// The state of an index build.
struct Build<'a> {
    index: &'a IndexDef,
    horizon: Horizon,
    sorter: KeySorter,
    /// The versions of a page's chains, oldest first, each with its chain's root and its standing;
    /// their rows. Keys are computed once the page is unlocked (TAB-17).
    versions: Vec<(u16, Standing)>,
    rows: RowBatch,
    /// [`Built::broken_chains`]
    broken_chains: bool,
}

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

impl Build<'_> {
    /// Adds the entries of the versions that were collected from a page.
    fn enter(&mut self, txn: &Transaction, block: BlockNumber) -> EngineResult<()> {
        let (mut key, mut newest) = (Vec::new(), Vec::new());
        let mut before: Option<(u16, KeyKind)> = None;
        for (at, (slot, standing)) in self.versions.iter().enumerate() {
            // An expression of one row may take as long as many pages without any.
            txn.check_cancel()?;
            key.clear();
            let kind = self.index.key.key(self.rows.row(at), &mut key)?;
            let older = before.filter(|(root, _)| root == slot);
            self.broken_chains |= older.is_some_and(|(_, older)| older != kind || key != newest);
            std::mem::swap(&mut key, &mut newest);
            before = Some((*slot, kind));
            let last = self
                .versions
                .get(at + 1)
                .is_none_or(|(next, _)| next != slot);
            if last && kind != KeyKind::Absent {
                let live = *standing == Standing::Live && kind == KeyKind::Unique;
                let tag = if live { DISTINCT } else { 0 };
                let added = self.sorter.add(&newest, Tid::new(block, *slot), tag);
                added.map_err(|error| error.of_index(&self.index.name))?;
            }
        }
        Ok(())
    }
}

impl Table {
    /// Fills the file of `index`, newly created and empty, with a tree of the rows.
    ///
    /// The caller holds a table lock that keeps writers out. A row version that only older
    /// snapshots see has an entry too, but a HOT chain has one, under the key of its newest
    /// version. When a snapshot may see a version of the chain with another key, the answer says
    /// so, and the caller sets [`IndexDef::usable_after`] (TAB-9).
    ///
    /// # Errors
    /// `DuplicateRows`; `Key`; `KeyTooLarge`; `Cancelled`; damage; storage failures.
    pub fn build_index(&self, txn: &mut Transaction, index: &IndexDef) -> EngineResult<Built> {
        let xid = txn.xid()?;
        let store = self.db.store();
        let mut build = Build {
            index,
            horizon: self.db.horizon(),
            sorter: KeySorter::new(store, txn.work_limits().clone(), txn.cancel_flag()),
            versions: Vec::new(),
            rows: RowBatch::new(),
            broken_chains: false,
        };
        let mut pass = Pass::new(self, 0..self.blocks(), true);
        let mut sized = false;
        while let Some(block) = pass.next() {
            if block.is_multiple_of(CANCEL_EVERY) {
                txn.check_cancel()?;
            }
            {
                let _frames = self.reserve_for_reading();
                let page = self.heap().read_with(BlockNumber(block), pass.ring())?;
                self.collect(txn, &mut build, &page)?;
            }
            build.enter(txn, BlockNumber(block))?;
            if !sized && !build.versions.is_empty() {
                sized = true;
                let left = (self.blocks() as usize).saturating_mul(build.versions.len());
                build.sorter.expect(left);
            }
        }
        drop(pass);
        let mut builder = TreeBuilder::new(store, xid, index.file, FILLFACTOR)?;
        // Whether the current key has an entry that must be the only one of its kind.
        let mut distinct = false;
        let mut moved = 0u32;
        let Build {
            sorter,
            horizon,
            broken_chains,
            ..
        } = build;
        sorter.finish(&mut |key, tid, tag| {
            moved = moved.wrapping_add(1);
            if moved.is_multiple_of(CANCEL_EVERY_ENTRIES) {
                txn.check_cancel()?;
            }
            let added = builder.add(key, tid);
            let repeated = added.map_err(|error| error.of_index(&index.name))?;
            let this = tag & DISTINCT != 0;
            if index.unique && repeated && distinct && this {
                return Err(self.duplicate(txn, &horizon, (index, tid)));
            }
            distinct = this || (repeated && distinct);
            Ok(())
        })?;
        let (_, entries) = builder.finish()?;
        Ok(Built {
            entries,
            broken_chains,
        })
    }

    /// The error of a key that two rows have, one of them in the chain at `tid`.
    fn duplicate(
        &self,
        txn: &Transaction,
        horizon: &Horizon,
        (index, tid): (&IndexDef, Tid),
    ) -> EngineError {
        let newest = || {
            let _frames = self.reserve_for_reading();
            let page = self.heap().read(tid.block)?;
            let mut row: Arc<[u8]> = Arc::default();
            for link in chain(&page, tid.block, tid.slot, Entry::Index) {
                if self.standing(txn, horizon, &link.header)? != Standing::Dead {
                    row = page.row(link.offset, link.length).into();
                }
            }
            Ok(row)
        };
        match newest() {
            Ok(row) => EngineError::DuplicateRows {
                index: index.name.to_string(),
                row,
            },
            Err(error) => error,
        }
    }

    /// Copies the versions of a page's rows.
    fn collect(
        &self,
        txn: &Transaction,
        build: &mut Build<'_>,
        guard: &ReadGuard<'_>,
    ) -> EngineResult<()> {
        let block = guard.block();
        build.versions.clear();
        build.rows.clear();
        if !guard.is_heap() {
            return Ok(());
        }
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
            for link in chain(guard, block, slot, Entry::Index) {
                let standing = self.standing(txn, &build.horizon, &link.header)?;
                if standing != Standing::Dead {
                    let row = guard.row(link.offset, link.length);
                    build.versions.push((slot, standing));
                    build.rows.push(Tid::new(block, slot), row);
                }
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
        if !header.frozen() && fate(header.xmin, xmin_hint(header))? == XidAtHorizon::Aborted {
            return Ok(Standing::Dead);
        }
        if !header.xmax.is_some() {
            return Ok(Standing::Live);
        }
        Ok(match fate(header.xmax, xmax_hint(header))? {
            XidAtHorizon::CommittedForAll => Standing::Dead,
            XidAtHorizon::CommittedLately => Standing::Dying,
            XidAtHorizon::InProgress if txn.owns(header.xmax) => Standing::Dying,
            XidAtHorizon::Aborted | XidAtHorizon::InProgress => Standing::Live,
        })
    }
}
