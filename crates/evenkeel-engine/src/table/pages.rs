//! Actions of a table's operations on pages: lock them together with their map page, log a change
//! with the map's part, prune.

use evenkeel_storage::buffer::{FrameReservation, Pin, Strategy, WriteGuard};
use evenkeel_storage::page::PageRead;
use evenkeel_storage::{BlockNumber, MiniTransaction, PartFlags, RemovalLsn};

use super::Table;
use crate::error::{EngineError, EngineResult};
use crate::heap::check::Sound;
use crate::heap::layout::{HeapRead, LINE_POINTER_SIZE, tuple_space};
use crate::heap::ops::{CLEAR_VISIBLE, INIT_PAGE, OP_PRUNE, Prune};
use crate::heap::prune::{PlanOptions, plan};
use crate::mutant::Mutant;
use crate::txn::XidAtHorizon;
use crate::txn::{Hint, Horizon};
use crate::types::Xid;
use crate::vm::{self, ALL_FROZEN, ALL_VISIBLE};

/// A heap page locked for a change, with its map page when the change ends its visibility.
pub struct Locked<'a> {
    /// The heap page.
    pub heap: WriteGuard<'a>,
    map: Option<WriteGuard<'a>>,
    sound: Sound,
    /// Given back after the pages, or with the other page's.
    _frames: Option<FrameReservation>,
}

/// The most pages a step that changes rows pins at once: two of the heap, a map's, a status page.
const FRAMES: usize = 4;
/// The most pages a visit of a heap page for reading pins at once: it, and a status page.
const READING_FRAMES: usize = 2;

impl<'a> Locked<'a> {
    /// The page's block number.
    pub fn block(&self) -> BlockNumber {
        self.heap.block()
    }

    /// The tuple at `slot`, if there is one.
    pub fn tuple(&self, slot: u16) -> Option<(usize, usize)> {
        if self.heap.is_heap() {
            self.heap.tuple_at(slot)
        } else {
            None
        }
    }

    /// The bits a part needs for what is locked here: lay out a new page, end the visibility.
    pub fn bits(&self) -> u16 {
        let init = if self.heap.is_new() { INIT_PAGE } else { 0 };
        let clear = if self.heap.all_visible() {
            CLEAR_VISIBLE
        } else {
            0
        };
        init | clear
    }

    /// Whether a row of `row_len` bytes fits, with `reserve` bytes left over. An empty page
    /// takes any row.
    pub fn fits(&self, row_len: usize, reserve: usize) -> bool {
        let empty = self.heap.slots() == 0;
        let need = tuple_space(row_len) + LINE_POINTER_SIZE + if empty { 0 } else { reserve };
        self.heap.gap() >= need || (reserve == 0 && self.heap.fits(row_len))
    }

    fn new(
        heap: WriteGuard<'a>,
        map: Option<WriteGuard<'a>>,
        frames: Option<FrameReservation>,
    ) -> Self {
        Locked {
            sound: Sound::before(&heap),
            heap,
            map,
            _frames: frames,
        }
    }

    /// Asserts, in builds with debug assertions, that the committed change has left a sound page,
    /// and a map that says no more than the page (HEAP-11, HEAP-15).
    pub fn assert_sound(&self) {
        self.sound.assert_after(&self.heap);
        if let Some(map) = &self.map {
            let (_, index) = vm::position(self.heap.block());
            debug_assert!(
                self.heap.all_visible() || vm::read_bits(map, index) == 0,
                "the map calls block {} all-visible, its page does not",
                self.heap.block()
            );
        }
    }

    /// Adds the heap page's part, and the map page's when the visibility ends.
    pub fn part<'c>(&'c mut self, change: &mut MiniTransaction<'c>, op: u16, data: &[u8]) {
        let block = self.heap.block();
        let clears = self.heap.all_visible();
        let init = init_flag(&self.heap);
        change.part(&mut self.heap, op, init, data);
        if let Some(map) = self.map.as_mut().filter(|_| clears) {
            map_part(change, map, block, 0, ALL_VISIBLE | ALL_FROZEN);
        }
    }
}

/// The flag of a part that lays out a new page.
pub fn init_flag(guard: &WriteGuard<'_>) -> PartFlags {
    if guard.is_new() {
        PartFlags::INIT
    } else {
        PartFlags::NONE
    }
}

/// Adds a part that sets and clears bits of a heap block in its map page.
pub fn map_part<'c>(
    change: &mut MiniTransaction<'c>,
    map: &'c mut WriteGuard<'_>,
    block: BlockNumber,
    set: u8,
    clear: u8,
) {
    let (_, index) = vm::position(block);
    let init = init_flag(map);
    change.part(
        map,
        vm::redo::OP_CHANGE,
        init,
        &vm::redo::encode(index, set, clear),
    );
}

impl Table {
    /// Locks `block` for a change. The map page is pinned before the heap page is locked, as
    /// reading it may need a disk, and locked after it.
    pub(super) fn lock_page(&self, block: BlockNumber) -> EngineResult<Locked<'_>> {
        self.lock_page_with(block, None)
    }

    /// As [`Table::lock_page`], with a place in the pool as the strategy says.
    pub(super) fn lock_page_with(
        &self,
        block: BlockNumber,
        strategy: Strategy<'_>,
    ) -> EngineResult<Locked<'_>> {
        let frames = Some(self.reserve_frames());
        let heap = self.heap().write_with(block, strategy)?;
        if !heap.all_visible() {
            return Ok(Locked::new(heap, None, frames));
        }
        let pin = heap.unlock();
        let map = self.vm.pin(block)?;
        let heap = pin.write();
        let map = heap.all_visible().then(|| map.write());
        Ok(Locked::new(heap, map, frames))
    }

    /// Reserves the most frames that a step of an operation on the heap pins at once. The caller
    /// holds no pin, and no other reservation (HEAP-13).
    pub(crate) fn reserve_frames(&self) -> FrameReservation {
        self.store().pool().reserve(FRAMES)
    }

    /// As [`Table::reserve_frames`] for a visit that only reads.
    pub(crate) fn reserve_for_reading(&self) -> FrameReservation {
        self.store().pool().reserve(READING_FRAMES)
    }

    /// Locks two pages for a change, the lower block first. The second is not all-visible.
    pub(super) fn lock_two(
        &self,
        first: BlockNumber,
        second: BlockNumber,
    ) -> EngineResult<(Locked<'_>, Locked<'_>)> {
        let mut frames = self.reserve_frames();
        let mut map = None;
        loop {
            let pins = (self.heap().pin(first)?, self.heap().pin(second)?);
            let (a, b) = if first < second || self.has(Mutant::LockPagesAsNamed) {
                let a = pins.0.write();
                (a, pins.1.write())
            } else {
                let b = pins.1.write();
                (pins.0.write(), b)
            };
            if b.all_visible() {
                drop((a, b, map.take(), frames));
                self.end_visibility(second)?;
                frames = self.reserve_frames();
            } else if a.all_visible() && map.is_none() {
                drop((a, b));
                map = Some(self.vm.pin(first)?);
            } else {
                let map = map.filter(|_| a.all_visible()).map(Pin::write);
                let own = Locked::new(a, map, Some(frames));
                let other = Locked::new(b, None, None);
                return Ok((own, other));
            }
        }
    }

    /// Ends the all-visible state of a block by a record of its own.
    fn end_visibility(&self, block: BlockNumber) -> EngineResult<()> {
        let mut page = self.lock_page(block)?;
        if page.heap.all_visible() {
            let op = Prune {
                prune_xid: page.heap.prune_xid(),
                bits: CLEAR_VISIBLE,
                ..Prune::default()
            };
            let mut change = self.store().change(Xid::NONE.get());
            page.part(&mut change, OP_PRUNE, &op.encode());
            change.commit();
            page.assert_sound();
        }
        Ok(())
    }

    /// Runs `attempt`, which looks at locked pages, again for every status page that it missed:
    /// none is read while a page is locked (HEAP-14).
    pub(super) fn retry<T>(&self, attempt: impl FnMut() -> EngineResult<T>) -> EngineResult<T> {
        self.db.system().retry(attempt)
    }

    /// Whether the end of the transaction that the page's prune hint names is old enough that
    /// pruning may find something.
    pub(super) fn prunable(&self, page: &impl PageRead, horizon: &Horizon) -> bool {
        let hint = page.prune_xid();
        self.db.system().is_prunable(horizon, hint)
    }

    /// Prunes a locked page; says whether it did anything. Nothing is read for it: what cannot be
    /// decided by what is in memory is left for the next visit.
    pub(super) fn prune_locked(
        &self,
        heap: &mut WriteGuard<'_>,
        horizon: &Horizon,
    ) -> EngineResult<bool> {
        let options = PlanOptions::default();
        let block = heap.block();
        let mut fates = |xid, hint| self.db.removal_in_memory(horizon, xid, hint);
        let plan = match plan(heap, block.0, options, &mut fates) {
            Ok(plan) => plan,
            Err(EngineError::StatusNotInMemory { xid }) => {
                self.db.system().fetch_later(xid);
                return Ok(false);
            }
            Err(other) => return Err(other),
        };
        if plan.is_idle() && plan.op.prune_xid == heap.prune_xid() {
            return Ok(false);
        }
        let sound = Sound::before(heap);
        let newest = self.db.system().newest_commit(plan.removes.iter());
        let mut change = self.store().change(Xid::NONE.get());
        change.removes(RemovalLsn::Commit(newest));
        change.part(heap, OP_PRUNE, PartFlags::NONE, &plan.op.encode());
        change.commit();
        sound.assert_after(heap);
        Ok(true)
    }

    /// The fate of transactions, as seen from `horizon`.
    pub(crate) fn fates<'a>(
        &'a self,
        horizon: &'a Horizon,
    ) -> impl FnMut(Xid, Hint) -> EngineResult<XidAtHorizon> + 'a {
        move |xid, hint| Ok(self.db.removal(horizon, xid, hint)?.0)
    }
}
