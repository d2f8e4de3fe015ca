//! Bulk inserts: one log record fills a page.

use std::ops::Range;
use std::sync::Arc;

use evenkeel_storage::buffer::{BufferAccessStrategy, Strategy, WriteGuard};
use evenkeel_storage::{BlockNumber, RemovalLsn};
use smallvec::SmallVec;

use super::pages::{init_flag, map_part};
use super::{InsertOptions, Table};
use crate::error::{EngineError, EngineResult};
use crate::heap::check::Sound;
use crate::heap::layout::{
    HeapRead, LINE_POINTER_SIZE, LpState, XMIN_COMMITTED, XMIN_FROZEN, tuple_space,
};
use crate::heap::ops::{
    INIT_PAGE, OP_MULTI_INSERT, SET_VISIBLE, multi_insert_header, multi_insert_tuple,
};
use crate::heap::rows::RowBatch;
use crate::stats::RowChanges;
use crate::transaction::Transaction;
use crate::types::{Tid, Xid};
use crate::vm::{ALL_FROZEN, ALL_VISIBLE};

/// The slots that a page's next rows take.
type Slots = SmallVec<[u16; 256]>;

impl Table {
    /// Inserts many rows and their index entries, whole pages at a time; where the rows are. On an
    /// error some rows are in, and the caller rolls the statement back.
    ///
    /// # Errors
    /// As [`Table::insert`]; `Cancelled`.
    pub async fn insert_many(
        &self,
        txn: &mut Transaction,
        rows: &RowBatch,
        options: &InsertOptions,
    ) -> EngineResult<Vec<Tid>> {
        if options.freeze && !txn.made_here(self.def.heap) {
            let what = "writing frozen rows to a file that the subtransaction has not made";
            return Err(EngineError::Unsupported { what });
        }
        for (_, row) in rows.iter() {
            Self::check_size(row)?;
        }
        let mut tids = Vec::with_capacity(rows.len());
        while tids.len() < rows.len() {
            txn.check_cancel()?;
            if options.freeze {
                self.fill_frozen(txn, rows, options.ring.as_ref(), &mut tids)?;
            } else {
                self.fill_page(txn, rows, options.ring.as_ref(), &mut tids)?;
            }
        }
        let inserted = rows.len() as u64;
        txn.count(
            self.counted(),
            &RowChanges {
                inserted,
                ..RowChanges::default()
            },
        );
        if !self.indexes.is_empty() {
            let placed = rows.iter().map(|(_, row)| row).zip(tids.iter().copied());
            self.index_rows(txn, placed).await?;
        }
        Ok(tids)
    }

    /// A ring for [`InsertOptions::ring`]: COPY, INSERT … SELECT.
    pub fn load_ring(&self) -> Arc<BufferAccessStrategy> {
        BufferAccessStrategy::bulk_write(self.store().pool())
    }

    /// Puts as many of the rows that are not in yet onto one page as fit there.
    fn fill_page(
        &self,
        txn: &mut Transaction,
        rows: &RowBatch,
        strategy: Strategy<'_>,
        tids: &mut Vec<Tid>,
    ) -> EngineResult<()> {
        let xid = txn.xid()?;
        let cid = txn.command().0;
        self.store().admit()?;
        let first = tids.len();
        let mut page = self.page_with_room(rows.row(first).len(), strategy)?;
        let slots = slots_for(&page.heap, rows, first, self.reserve());
        let range = first..first + slots.len();
        let data = part((xid, 0, cid), page.bits(), rows, range, &slots);
        let mut change = self.store().change(xid.get());
        page.part(&mut change, OP_MULTI_INSERT, &data);
        change.commit();
        page.assert_sound();
        let block = page.block();
        tids.extend(slots.iter().map(|&slot| Tid::new(block, slot)));
        Ok(())
    }

    /// Fills a new page with frozen rows and marks it all-visible and all-frozen.
    fn fill_frozen(
        &self,
        txn: &mut Transaction,
        rows: &RowBatch,
        strategy: Strategy<'_>,
        tids: &mut Vec<Tid>,
    ) -> EngineResult<()> {
        let xid = txn.xid()?;
        let cid = txn.command().0;
        self.store().admit()?;
        let block: BlockNumber = self.space.new_block()?;
        let _frames = self.reserve_frames();
        let map = self.vm.pin(block)?;
        let mut heap = self.heap().pin_new_with(block, strategy)?.write();
        let first = tids.len();
        let slots = slots_for(&heap, rows, first, self.reserve());
        let range = first..first + slots.len();
        let mask = XMIN_FROZEN | XMIN_COMMITTED;
        let data = part(
            (xid, mask, cid),
            INIT_PAGE | SET_VISIBLE,
            rows,
            range,
            &slots,
        );
        let mut map = map.write();
        let sound = Sound::before(&heap);
        let init = init_flag(&heap);
        let mut change = self.store().change(xid.get());
        change.removes(RemovalLsn::Own);
        change.part(&mut heap, OP_MULTI_INSERT, init, &data);
        map_part(&mut change, &mut map, block, ALL_VISIBLE | ALL_FROZEN, 0);
        change.commit();
        sound.assert_after(&heap);
        debug_assert!(
            heap.all_visible(),
            "the map alone calls block {block} all-visible"
        );
        tids.extend(slots.iter().map(|&slot| Tid::new(block, slot)));
        Ok(())
    }
}

/// Slots for as many of the rows from `first` on as fit; the first is known to.
fn slots_for(page: &WriteGuard<'_>, rows: &RowBatch, first: usize, reserve: usize) -> Slots {
    let used = if page.is_heap() { page.slots() } else { 0 };
    let mut free = (1..=used).filter(|&slot| page.line_pointer(slot).state == LpState::Unused);
    let mut next = used + 1;
    let mut left = page.gap();
    let mut slots = Slots::new();
    for at in first..rows.len() {
        let reused = if used > 0 && page.has_unused() {
            free.next()
        } else {
            None
        };
        let pointer = if reused.is_some() {
            0
        } else {
            LINE_POINTER_SIZE
        };
        let need = tuple_space(rows.row(at).len()) + pointer;
        let keep = if slots.is_empty() { 0 } else { reserve };
        if left < need + keep {
            break;
        }
        left -= need;
        slots.push(reused.unwrap_or_else(|| {
            next += 1;
            next - 1
        }));
    }
    slots
}

/// The data of a part that puts rows at the given slots.
fn part(
    (xid, mask, cid): (Xid, u16, u32),
    bits: u16,
    rows: &RowBatch,
    range: Range<usize>,
    slots: &[u16],
) -> Vec<u8> {
    let mut data = multi_insert_header(xid, mask, cid, bits, slots.len() as u16);
    for (row, &slot) in range.zip(slots) {
        multi_insert_tuple(&mut data, slot, rows.row(row));
    }
    data
}
