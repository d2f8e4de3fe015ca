//! Updates and deletes.

use evenkeel_storage::{BlockNumber, Fork, MiniTransaction, RecordKind};

use super::large::LargeRefs;
use super::locking::Judgement;
use super::pages::Locked;
use super::{KeyHint, KeyKind, Modified, ReplicaIdentity, Table};
use crate::error::{EngineError, EngineResult};
use crate::heap::layout::{HeapRead, TupleHeader, XMAX_KEYS};
use crate::heap::ops::{
    HOT, Insert, Modify, NOTE_PRUNABLE, OLD_COMBO, OLD_KEY, OLD_ROW, OP_INSERT, OP_MODIFY,
    OP_UPDATE, Update,
};
use crate::heap::rows::RowHandle;
use crate::lock::{LockKey, LockMark, RowLockMode, RowObject, WaitPolicy};
use crate::mutant::Mutant;
use crate::stats::RowChanges;
use crate::transaction::{RowVersion, Transaction};
use crate::types::{Tid, Xid};

/// The outcome of an attempt to change a tuple. Nothing is locked any more.
enum Step {
    /// Done; `reindex` when the new version needs index entries of its own.
    Done {
        tid: Tid,
        reindex: bool,
        /// The large values that the old version names and the new one does not.
        dropped: LargeRefs,
    },
    /// This transaction has changed it already.
    SelfModified,
    /// A running transaction is changing it.
    Busy(RowVersion, Xid, RowLockMode),
    /// Others hold row locks that conflict.
    Contended(RowVersion, RowLockMode),
    /// A committed transaction updated it.
    Updated(RowLockMode),
    /// A committed transaction deleted it, or it is not there.
    Gone,
    /// No page that was tried has room for the new version: the free bytes of the row's own, and
    /// of the other one.
    Full(usize, Option<usize>),
}

/// One update, as it is tried again and again.
struct Job<'a> {
    tid: Tid,
    row: &'a [u8],
    hint: KeyHint,
}

/// The effect of an update on index keys.
#[derive(Clone, Copy)]
struct KeyChange {
    any: bool,
    unique: bool,
}

impl KeyChange {
    /// The row lock that the update has: a change of other columns passes key-share locks.
    fn mode(self) -> RowLockMode {
        match self.unique {
            true => RowLockMode::Update,
            false => RowLockMode::NoKeyUpdate,
        }
    }
}

/// A version that may be changed, and the key of the row's locks if there are any.
type Held = (RowVersion, Option<LockKey>);

impl Table {
    /// Replaces the row at `tid`, a version that the transaction's snapshot sees or that was
    /// reported as `Changed`, by `row`.
    ///
    /// # Errors
    /// `UniqueViolation`, `RowTooLarge`; `SerializationFailure` under REPEATABLE READ when the
    /// row has changed since the snapshot; `Deadlock`, `Cancelled`; storage failures.
    pub async fn update<'r>(
        &self,
        txn: &mut Transaction,
        old: RowHandle<'r>,
        row: &[u8],
        hint: KeyHint,
    ) -> EngineResult<Modified<'r>> {
        Self::check_size(row)?;
        let tid = old.place()?;
        let job = Job { tid, row, hint };
        let mut search = self.space.search_for(row.len());
        let mut room = None;
        let before = txn.locks_mark();
        loop {
            let step = match self.retry(|| self.try_update(txn, &job, room)) {
                Err(error) if self.lies_in(&error, room) && search.may_avoid(&error) => {
                    let tried = room.map(|block| (block, 0));
                    room = Some(self.space.elsewhere(&mut search, (tid.block, 0), tried)?);
                    continue;
                }
                step => step?,
            };
            if let Step::Done {
                tid,
                reindex,
                dropped,
            } = step
            {
                let old = job.tid.block;
                self.count_update(txn, !reindex, tid.block != old);
                txn.end_turns(before);
                self.drop_large(txn, &dropped)?;
                if reindex {
                    self.index_row(txn, row, tid).await?;
                }
                return Ok(Modified::Done(tid));
            }
            if let Step::Full(own, other) = step {
                let tried = room.zip(other);
                room = Some(self.space.elsewhere(&mut search, (tid.block, own), tried)?);
                continue;
            }
            if let Some(outcome) = self.settle(txn, old, before, step).await? {
                return Ok(outcome);
            }
        }
    }

    /// Whether the page where a new version was to go is the damaged one.
    fn lies_in(&self, error: &EngineError, room: Option<BlockNumber>) -> bool {
        let damaged = error.damaged_page();
        damaged.is_some_and(|page| {
            (page.file, page.fork, Some(page.block)) == (self.def.heap, Fork::Main, room)
        })
    }

    /// Deletes the row at `tid`, a version that the transaction's snapshot sees or that was
    /// reported as `Changed`.
    ///
    /// # Errors
    /// As [`Table::update`].
    pub async fn delete<'r>(
        &self,
        txn: &mut Transaction,
        old: RowHandle<'r>,
    ) -> EngineResult<Modified<'r>> {
        let tid = old.place()?;
        let before = txn.locks_mark();
        loop {
            let step = self.retry(|| self.try_delete(txn, tid))?;
            if let Step::Done { tid, dropped, .. } = step {
                txn.end_turns(before);
                self.count_delete(txn);
                self.drop_large(txn, &dropped)?;
                return Ok(Modified::Done(tid));
            }
            if let Some(outcome) = self.settle(txn, old, before, step).await? {
                return Ok(outcome);
            }
        }
    }

    /// Waits for what is in the way, or finds the row's newest version; none means try again.
    async fn settle<'r>(
        &self,
        txn: &mut Transaction,
        old: RowHandle<'r>,
        before: LockMark,
        step: Step,
    ) -> EngineResult<Option<Modified<'r>>> {
        let wait = WaitPolicy::Block;
        match step {
            Step::Done { tid, .. } => Ok(Some(Modified::Done(tid))),
            Step::SelfModified => Ok(Some(Modified::SelfModified)),
            Step::Full(..) => Ok(None),
            Step::Gone => {
                txn.release_locks_to(before);
                Self::changed(txn, "delete")?;
                Ok(Some(Modified::Gone))
            }
            Step::Busy(row, xid, mode) => {
                self.wait_for_change(txn, row, xid, mode, wait).await?;
                Ok(None)
            }
            Step::Contended(row, mode) => {
                txn.lock_row(self.def.heap, row, mode, wait).await?;
                Ok(None)
            }
            Step::Updated(mode) => {
                Self::changed(txn, "update")?;
                let outcome = self.lock_walk(txn, old, mode, wait).await;
                match outcome {
                    // The change that was seen has been taken back since.
                    Ok(Modified::Done(_)) => return Ok(None),
                    Ok(Modified::Changed { .. }) => txn.end_turns(before),
                    _ => txn.release_locks_to(before),
                }
                outcome.map(Some)
            }
        }
    }

    /// Which keys differ between the old row and the new one.
    fn key_change(&self, old: &[u8], job: &Job<'_>) -> KeyChange {
        let mut change = KeyChange {
            any: false,
            unique: false,
        };
        if job.hint == KeyHint::Unchanged {
            // A chain whose versions differ in a key gives wrong rows (TAB-9).
            debug_assert!(
                self.def
                    .indexes
                    .iter()
                    .all(|index| index.key.same_key(old, job.row)),
                "an update said to change no key changes one"
            );
            return change;
        }
        for index in &self.def.indexes {
            if !index.key.same_key(old, job.row) {
                change.any = true;
                // Nobody refers to a key that two rows may have for a while.
                let identifies = index.unique && !index.deferrable && !index.key.is_computed();
                change.unique |= identifies;
            }
        }
        change
    }

    fn try_update(
        &self,
        txn: &mut Transaction,
        job: &Job<'_>,
        room: Option<BlockNumber>,
    ) -> EngineResult<Step> {
        let xid = txn.xid()?;
        self.store().admit()?;
        let (mut page, other) = match room {
            None => (self.lock_page(job.tid.block)?, None),
            Some(block) => {
                let (page, other) = self.lock_two(job.tid.block, block)?;
                (page, Some(other))
            }
        };
        let slot = job.tid.slot;
        let Some((offset, length)) = page.tuple(slot) else {
            return Ok(Step::Gone);
        };
        let header = page.heap.header(offset);
        let change = self.key_change(page.heap.row(offset, length), job);
        let held = match self.in_the_way(txn, job.tid, &header, change.mode())? {
            Ok(held) => held,
            Err(step) => return Ok(step),
        };
        if !self.make_room(&mut page, job.row.len())? {
            let own = page.heap.gap();
            let Some(mut other) = other else {
                return Ok(Step::Full(own, None));
            };
            if !self.make_room(&mut other, job.row.len())? {
                return Ok(Step::Full(own, Some(other.heap.gap())));
            }
            return self.move_row(txn, job, (page, other), (&header, held), (xid, change));
        }
        drop(other);
        self.update_in_page(txn, job, page, (&header, held), (xid, change))
    }

    /// The obstacle, if there is one, that keeps this transaction from changing the tuple now; if
    /// there is none and others have locked the row, it is one of them now.
    fn in_the_way(
        &self,
        txn: &Transaction,
        tid: Tid,
        header: &TupleHeader,
        mode: RowLockMode,
    ) -> EngineResult<Result<Held, Step>> {
        let row = RowVersion {
            tid,
            xmin: header.xmin,
        };
        Ok(match self.judge(txn, tid, header)? {
            Judgement::Free if self.has(Mutant::IgnoreRowLocks) => Ok((row, None)),
            Judgement::Free => match txn.row_join(self.def.heap, row, mode)? {
                RowObject::None => Ok((row, None)),
                RowObject::Held(root) => Ok((row, Some(root))),
                RowObject::Contended => Err(Step::Contended(row, mode)),
            },
            Judgement::SelfModified => Err(Step::SelfModified),
            Judgement::Busy(xid) => Err(Step::Busy(row, xid, mode)),
            Judgement::Updated(..) => Err(Step::Updated(mode)),
            Judgement::Deleted => Err(Step::Gone),
        })
    }

    /// A row that others have locked is known to them by its new version too, before the page is
    /// unlocked.
    fn note_moved(&self, txn: &Transaction, (old, root): Held, tid: Tid, xid: Xid) {
        if let Some(root) = root {
            let new = RowVersion { tid, xmin: xid };
            txn.row_moved(self.def.heap, &root, old, new);
        }
    }

    /// Whether the page has room for the row, pruning it if that may help.
    fn make_room(&self, page: &mut Locked<'_>, row_len: usize) -> EngineResult<bool> {
        if page.fits(row_len, 0) {
            return Ok(true);
        }
        // Once for many updates: a page that was pruned has room for some time.
        let horizon = self.db.horizon();
        Ok(self.prunable(&page.heap, &horizon)
            && self.prune_locked(&mut page.heap, &horizon)?
            && page.fits(row_len, 0))
    }

    /// Puts the new version on the same page: heap-only when no index key changed.
    fn update_in_page(
        &self,
        txn: &mut Transaction,
        job: &Job<'_>,
        mut page: Locked<'_>,
        (header, held): (&TupleHeader, Held),
        (xid, keys): (Xid, KeyChange),
    ) -> EngineResult<Step> {
        let (old_cid, combo) = self.change_cid(txn, header)?;
        let old_slot = job.tid.slot;
        // Pruning may have moved it.
        let Some((offset, length)) = page.tuple(old_slot) else {
            return Ok(Step::Gone);
        };
        let old = page.heap.row(offset, length);
        let (prefix, suffix) = Update::common(old, job.row);
        let dropped = self.dropped(old, Some(job.row));
        let new_slot = page.heap.next_slot();
        let data = Update {
            xid,
            xmax_mask: if keys.unique { XMAX_KEYS } else { 0 },
            old_cid,
            old_slot,
            bits: page.bits() | if keys.any { 0 } else { HOT } | if combo { OLD_COMBO } else { 0 },
            new_cid: txn.command().0,
            new_slot,
            prefix: prefix as u16,
            suffix: suffix as u16,
            middle: &job.row[prefix..job.row.len() - suffix],
        }
        .encode();
        let tid = Tid::new(job.tid.block, new_slot);
        let identity = self.old_identity(old, Some(job.row));
        let mut change = self.store().change(xid.get());
        page.part(&mut change, OP_UPDATE, &data);
        add_identity(&mut change, identity.as_deref());
        change.commit();
        page.assert_sound();
        self.note_moved(txn, held, tid, xid);
        Ok(Step::Done {
            tid,
            reindex: keys.any,
            dropped,
        })
    }

    /// Puts the new version on another page.
    fn move_row(
        &self,
        txn: &mut Transaction,
        job: &Job<'_>,
        (mut page, mut other): (Locked<'_>, Locked<'_>),
        (header, held): (&TupleHeader, Held),
        (xid, keys): (Xid, KeyChange),
    ) -> EngineResult<Step> {
        let (old_cid, combo) = self.change_cid(txn, header)?;
        let slot = other.heap.next_slot();
        let tid = Tid::new(other.block(), slot);
        let insert = Insert {
            xmin: xid,
            xmin_mask: 0,
            cid: txn.command().0,
            slot,
            bits: other.bits() | NOTE_PRUNABLE,
            row: job.row,
        };
        let modify = Modify {
            xmax: xid,
            xmax_mask: if keys.unique { XMAX_KEYS } else { 0 },
            cid: old_cid,
            slot: job.tid.slot,
            bits: page.bits() | NOTE_PRUNABLE | if combo { OLD_COMBO } else { 0 },
            ctid: tid,
        };
        // Pruning has moved it, perhaps, and let it be.
        let mut dropped = LargeRefs::new();
        let identity = page.tuple(job.tid.slot).and_then(|(offset, length)| {
            let old = page.heap.row(offset, length);
            dropped = self.dropped(old, Some(job.row));
            self.old_identity(old, Some(job.row))
        });
        let mut change = self.store().change(xid.get());
        other.part(&mut change, OP_INSERT, &insert.encode());
        page.part(&mut change, OP_MODIFY, &modify.encode());
        add_identity(&mut change, identity.as_deref());
        change.commit();
        page.assert_sound();
        other.assert_sound();
        self.note_moved(txn, held, tid, xid);
        Ok(Step::Done {
            tid,
            reindex: true,
            dropped,
        })
    }

    fn count_update(&self, txn: &mut Transaction, hot: bool, moved: bool) {
        let changes = RowChanges {
            updated: 1,
            hot: u64::from(hot),
            moved: u64::from(moved),
            ..RowChanges::default()
        };
        txn.count(self.counted(), &changes);
    }

    pub(super) fn count_delete(&self, txn: &mut Transaction) {
        let changes = RowChanges {
            deleted: 1,
            ..RowChanges::default()
        };
        txn.count(self.counted(), &changes);
    }

    fn try_delete(&self, txn: &mut Transaction, tid: Tid) -> EngineResult<Step> {
        let xid = txn.xid()?;
        self.store().admit()?;
        let page = self.lock_page(tid.block)?;
        let Some((offset, length)) = page.tuple(tid.slot) else {
            return Ok(Step::Gone);
        };
        let header = page.heap.header(offset);
        if let Err(step) = self.in_the_way(txn, tid, &header, RowLockMode::Update)? {
            return Ok(step);
        }
        let dropped = self.dropped(page.heap.row(offset, length), None);
        self.mark_deleted(txn, tid, page, &header, xid)?;
        Ok(Step::Done {
            tid,
            reindex: false,
            dropped,
        })
    }

    /// The large values that a row names and its next version, if there is one, does not.
    fn dropped(&self, old: &[u8], new: Option<&[u8]>) -> LargeRefs {
        let large = self.large.as_ref();
        large.map_or_else(LargeRefs::new, |large| large.dropped(old, new))
    }

    /// Deletes a tuple this transaction has just inserted and that turned out to be in conflict.
    pub(super) fn take_back(&self, txn: &mut Transaction, tid: Tid) -> EngineResult<()> {
        let xid = txn.xid()?;
        let page = self.lock_page(tid.block)?;
        if let Some((offset, _)) = page.tuple(tid.slot) {
            let header = page.heap.header(offset);
            self.mark_deleted(txn, tid, page, &header, xid)?;
            self.count_delete(txn);
        }
        Ok(())
    }

    pub(super) fn mark_deleted(
        &self,
        txn: &mut Transaction,
        tid: Tid,
        mut page: Locked<'_>,
        header: &TupleHeader,
        xid: Xid,
    ) -> EngineResult<()> {
        let (cid, combo) = self.change_cid(txn, header)?;
        let modify = Modify {
            xmax: xid,
            xmax_mask: XMAX_KEYS,
            cid,
            slot: tid.slot,
            bits: page.bits() | NOTE_PRUNABLE | if combo { OLD_COMBO } else { 0 },
            ctid: tid,
        };
        let identity = page.tuple(tid.slot).and_then(|(offset, length)| {
            let old = page.heap.row(offset, length);
            self.old_identity(old, None)
        });
        let mut change = self.store().change(xid.get());
        page.part(&mut change, OP_MODIFY, &modify.encode());
        add_identity(&mut change, identity.as_deref());
        change.commit();
        page.assert_sound();
        Ok(())
    }

    /// The payload about a row's old version, if the table asks for one. `new`: the version that
    /// takes its place.
    fn old_identity(&self, old: &[u8], new: Option<&[u8]>) -> Option<Vec<u8>> {
        match self.replica_identity {
            ReplicaIdentity::Nothing => None,
            ReplicaIdentity::Full => Some([&[OLD_ROW], old].concat()),
            ReplicaIdentity::Index(index) => {
                let key = &self.def.indexes.get(index)?.key;
                if new.is_some_and(|new| key.same_key(old, new)) {
                    return None;
                }
                let mut bytes = Vec::new();
                // An index that computes keys is no identity.
                let kind = key.key(old, &mut bytes).ok()?;
                bytes.insert(0, OLD_KEY);
                (kind != KeyKind::Absent).then_some(bytes)
            }
        }
    }
}

/// Adds the payload about a row's old version to the record that updates or deletes it.
fn add_identity(change: &mut MiniTransaction<'_>, identity: Option<&[u8]>) {
    if let Some(identity) = identity {
        change.payload(RecordKind::PAGES, identity);
    }
}
