//! Inserting rows and their index entries.

use evenkeel_storage::buffer::Strategy;
use evenkeel_storage::page::PAGE_SIZE;

use super::pages::Locked;
use super::{Arbiter, Inserted, KeyKind, Table};
use crate::btree::{InsertOutcome, Liveness, UniqueCheck};
use crate::error::{EngineError, EngineResult};
use crate::heap::layout::{HeapRead, LINE_POINTER_SIZE, MAX_ROW, tuple_space};
use crate::heap::ops::{Insert, OP_INSERT};
use crate::heap::prune::{xmax_hint, xmin_hint};
use crate::heap::read::{Entry, Link, chain};
use crate::heap::rows::RowHandle;
use crate::lock::WaitPolicy;
use crate::mutant::Mutant;
use crate::stats::RowChanges;
use crate::transaction::{Doubt, Transaction};
use crate::txn::{Hint, Snapshot};
use crate::types::{Tid, Xid, XidStatus};

/// The outcome of an attempt to insert one index entry.
enum EntryOutcome {
    Done,
    Doubtful,
    Duplicate(Tid),
    Wait(Xid),
}

impl Table {
    /// Inserts a row and its index entries. Waits while a unique key is being inserted or
    /// deleted by another transaction.
    ///
    /// # Errors
    /// `UniqueViolation` when a live row has the same key; `RowTooLarge`; what waiting can
    /// return; storage failures. The caller rolls the statement back.
    pub async fn insert(&self, txn: &mut Transaction, row: &[u8]) -> EngineResult<Tid> {
        let tid = self.put_tuple(txn, row)?;
        self.index_row(txn, row, tid).await?;
        Ok(tid)
    }

    /// Inserts a row unless a live row with the same unique key is there: that one keeps its
    /// place as long as `snapshot` is held.
    ///
    /// # Errors
    /// As [`Table::insert`]; a conflict in an index that `arbiter` leaves out is a
    /// `UniqueViolation`; `DeferrableArbiter`.
    pub async fn insert_or_conflict<'s>(
        &self,
        txn: &mut Transaction,
        snapshot: &'s Snapshot,
        row: &[u8],
        arbiter: Arbiter,
    ) -> EngineResult<Inserted<'s>> {
        let yields = |index| arbiter == Arbiter::Any || arbiter == Arbiter::Index(index);
        let mut key = Vec::new();
        loop {
            // A look first: a conflict that is there costs no tuple.
            for index in (0..self.indexes.len()).filter(|&index| yields(index)) {
                let def = &self.def.indexes[index];
                if def.unique && def.deferrable {
                    let index = def.name.to_string();
                    return Err(EngineError::DeferrableArbiter { index });
                }
                let found = self.find_conflict(txn, snapshot, (index, row), &mut key);
                if let Some(tid) = found.await? {
                    let row = RowHandle::known(snapshot, tid);
                    return Ok(Inserted::Conflict { index, row });
                }
            }
            let doubts = txn.doubts();
            let tid = self.put_tuple(txn, row)?;
            match self.index_until_taken(txn, row, tid, &mut key).await? {
                None => return Ok(Inserted::Done(tid)),
                Some(index) if !yields(index) => return Err(self.violation(index, 0)),
                // Somebody was faster; the look will find the row, unless it goes again.
                Some(_) => {
                    self.take_back(txn, tid)?;
                    txn.forget_doubts(doubts);
                }
            }
        }
    }

    /// Adds the index entries of a row that is in the heap at `tid`.
    pub(super) async fn index_row(
        &self,
        txn: &mut Transaction,
        row: &[u8],
        tid: Tid,
    ) -> EngineResult<()> {
        let rows = std::iter::once((row, tid));
        self.index_rows(txn, rows).await
    }

    /// As [`Table::index_row`], of rows that were inserted together, one after the other.
    pub(super) async fn index_rows<'r>(
        &self,
        txn: &mut Transaction,
        rows: impl Iterator<Item = (&'r [u8], Tid)>,
    ) -> EngineResult<()> {
        let mut key = Vec::new();
        for (at, (row, tid)) in rows.enumerate() {
            if let Some(index) = self.index_until_taken(txn, row, tid, &mut key).await? {
                return Err(self.violation(index, at));
            }
        }
        Ok(())
    }

    /// Adds index entries up to the first index in which a live row has the key, which it names.
    async fn index_until_taken(
        &self,
        txn: &mut Transaction,
        row: &[u8],
        tid: Tid,
        key: &mut Vec<u8>,
    ) -> EngineResult<Option<usize>> {
        for index in 0..self.indexes.len() {
            if self.insert_entry(txn, index, row, tid, key).await? {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    fn violation(&self, index: usize, row: usize) -> EngineError {
        EngineError::UniqueViolation {
            index: self.def.indexes[index].name.to_string(),
            row,
        }
    }

    /// Adds one index entry, unless a live row has the key, as the answer says.
    async fn insert_entry(
        &self,
        txn: &mut Transaction,
        index: usize,
        row: &[u8],
        tid: Tid,
        key: &mut Vec<u8>,
    ) -> EngineResult<bool> {
        key.clear();
        let kind = self.def.indexes[index].key.key(row, key)?;
        if kind == KeyKind::Absent {
            return Ok(false);
        }
        loop {
            match self.try_entry(txn, index, kind, key, tid)? {
                EntryOutcome::Done => return Ok(false),
                EntryOutcome::Doubtful => {
                    txn.note_doubt(Doubt { index, tid });
                    return Ok(false);
                }
                EntryOutcome::Duplicate(_) => return Ok(true),
                EntryOutcome::Wait(xid) => {
                    txn.wait_for_xid(xid, WaitPolicy::Block).await?;
                }
            }
        }
    }

    fn try_entry(
        &self,
        txn: &mut Transaction,
        index: usize,
        kind: KeyKind,
        key: &[u8],
        tid: Tid,
    ) -> EngineResult<EntryOutcome> {
        let xid = txn.xid()?;
        let txn = &*txn;
        let mut resolve = |other: Tid| self.liveness(txn, other);
        let def = &self.def.indexes[index];
        let check = match def.unique && kind == KeyKind::Unique {
            true if def.deferrable => UniqueCheck::Note(&mut resolve),
            true => UniqueCheck::Check(&mut resolve),
            false => UniqueCheck::None,
        };
        let inserted = self.indexes[index].insert(xid, key, tid, check);
        Ok(match inserted.map_err(|error| error.of_index(&def.name))? {
            InsertOutcome::Inserted => EntryOutcome::Done,
            InsertOutcome::Doubtful => EntryOutcome::Doubtful,
            InsertOutcome::Duplicate(other) => EntryOutcome::Duplicate(other),
            InsertOutcome::MustWait(xid) => EntryOutcome::Wait(xid),
        })
    }

    /// A live row whose key in unique index `index` is the one of `row`.
    async fn find_conflict(
        &self,
        txn: &mut Transaction,
        snapshot: &Snapshot,
        (index, row): (usize, &[u8]),
        key: &mut Vec<u8>,
    ) -> EngineResult<Option<Tid>> {
        let def = &self.def.indexes[index];
        key.clear();
        if !def.unique || def.key.key(row, key)? != KeyKind::Unique {
            return Ok(None);
        }
        loop {
            match self.look_for_conflict(txn, snapshot, index, key)? {
                EntryOutcome::Done | EntryOutcome::Doubtful => return Ok(None),
                EntryOutcome::Duplicate(tid) => return Ok(Some(tid)),
                EntryOutcome::Wait(xid) => {
                    txn.wait_for_xid(xid, WaitPolicy::Block).await?;
                }
            }
        }
    }

    fn look_for_conflict(
        &self,
        txn: &Transaction,
        snapshot: &Snapshot,
        index: usize,
        key: &[u8],
    ) -> EngineResult<EntryOutcome> {
        let mut version = None;
        let mut resolve = |tid| {
            let found = self.version_in_the_way(txn, tid)?;
            version = found.map(|(version, _)| version);
            Ok(found.map_or(Liveness::Dead, |(_, liveness)| liveness))
        };
        let conflict =
            self.indexes[index].find_conflict(snapshot.into(), key, None, &mut resolve)?;
        Ok(match (conflict, version) {
            (Some(InsertOutcome::MustWait(xid)), _) => EntryOutcome::Wait(xid),
            (Some(InsertOutcome::Duplicate(_)), Some(version)) => EntryOutcome::Duplicate(version),
            _ => EntryOutcome::Done,
        })
    }

    /// The version of the row at `tid`, where an index entry leads, that is in the way of the
    /// entry's key. Versions that do not share the entry's key are deleted (TAB-9).
    ///
    /// The entry was read a moment ago and nothing is locked, so the slot may have been given to
    /// another row since: the answer counts if the entry is still there (BT-5).
    fn version_in_the_way(
        &self,
        txn: &Transaction,
        tid: Tid,
    ) -> EngineResult<Option<(Tid, Liveness)>> {
        let _frames = self.reserve_for_reading();
        self.retry(|| {
            let guard = self.heap().read(tid.block)?;
            for link in chain(&guard, tid.block, tid.slot, Entry::Index) {
                let state = self.version_liveness(txn, &link)?;
                if state != Liveness::Dead {
                    return Ok(Some((Tid::new(tid.block, link.slot), state)));
                }
                if self.has(Mutant::CheckFirstVersionOnly) {
                    return Ok(None);
                }
            }
            Ok(None)
        })
    }

    pub(super) fn liveness(&self, txn: &Transaction, tid: Tid) -> EngineResult<Liveness> {
        let found = self.version_in_the_way(txn, tid)?;
        Ok(found.map_or(Liveness::Dead, |(_, liveness)| liveness))
    }

    pub(super) fn version_liveness(
        &self,
        txn: &Transaction,
        link: &Link,
    ) -> EngineResult<Liveness> {
        let header = &link.header;
        if !header.frozen() && !txn.owns(header.xmin) {
            match self.status(header.xmin, xmin_hint(header))? {
                XidStatus::Aborted => return Ok(Liveness::Dead),
                XidStatus::InProgress if self.has(Mutant::IgnoreRunningInserter) => {
                    return Ok(Liveness::Dead);
                }
                XidStatus::InProgress => return Ok(Liveness::InProgress(header.xmin)),
                XidStatus::Committed => {}
            }
        }
        if !header.xmax.is_some() {
            return Ok(Liveness::Live);
        }
        if txn.owns(header.xmax) {
            return Ok(Liveness::Dead);
        }
        Ok(match self.status(header.xmax, xmax_hint(header))? {
            XidStatus::Aborted => Liveness::Live,
            XidStatus::InProgress => Liveness::InProgress(header.xmax),
            XidStatus::Committed => Liveness::Dead,
        })
    }

    /// The status of a transaction as of now, from a tuple's hint if it has one. No page is
    /// read for it: `StatusNotInMemory` is answered by [`Table::retry`].
    pub(super) fn status(&self, xid: Xid, hint: Hint) -> EngineResult<XidStatus> {
        Ok(match hint {
            Hint::Aborted => XidStatus::Aborted,
            Hint::Committed => XidStatus::Committed,
            Hint::None => self.db.system().status_in_memory(xid)?,
        })
    }

    /// Refuses a row that no page can hold.
    pub(super) fn check_size(row: &[u8]) -> EngineResult<()> {
        if row.len() > MAX_ROW {
            return Err(EngineError::RowTooLarge {
                size: row.len(),
                max: MAX_ROW,
            });
        }
        Ok(())
    }

    /// Bytes that inserts leave free in a page for later updates.
    pub(super) fn reserve(&self) -> usize {
        PAGE_SIZE * (100 - usize::from(self.def.fillfactor.clamp(10, 100))) / 100
    }

    /// Puts a tuple into the heap.
    fn put_tuple(&self, txn: &mut Transaction, row: &[u8]) -> EngineResult<Tid> {
        Self::check_size(row)?;
        let xid = txn.xid()?;
        let cid = txn.command().0;
        self.store().admit()?;
        let mut page = self.page_with_room(row.len(), None)?;
        let slot = page.heap.next_slot();
        let tid = Tid::new(page.block(), slot);
        let bits = page.bits();
        let data = Insert {
            xmin: xid,
            xmin_mask: 0,
            cid,
            slot,
            bits,
            row,
        }
        .encode();
        let mut change = self.store().change(xid.get());
        page.part(&mut change, OP_INSERT, &data);
        change.commit();
        page.assert_sound();
        drop(page);
        let inserted = 1;
        txn.count(
            self.counted(),
            &RowChanges {
                inserted,
                ..RowChanges::default()
            },
        );
        Ok(tid)
    }

    /// A page with room for a row, locked; it is the calling thread's target from now on.
    pub(super) fn page_with_room(
        &self,
        row_len: usize,
        strategy: Strategy<'_>,
    ) -> EngineResult<Locked<'_>> {
        let reserve = self.reserve();
        let mut search = self
            .space
            .search(tuple_space(row_len) + LINE_POINTER_SIZE + reserve);
        let mut block = self.space.target(&mut search)?;
        loop {
            let mut page = match self.lock_page_with(block, strategy) {
                Ok(page) => page,
                // The row need not go there.
                Err(error) if search.may_avoid(&error) => {
                    block = self.space.pass_on(&mut search, block, 0)?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            if page.fits(row_len, reserve) {
                return Ok(page);
            }
            let horizon = self.db.horizon();
            if self.prunable(&page.heap, &horizon)
                && self.prune_locked(&mut page.heap, &horizon)?
                && page.fits(row_len, reserve)
            {
                return Ok(page);
            }
            let free = page.heap.gap();
            drop(page);
            block = self.space.pass_on(&mut search, block, free)?;
        }
    }
}
