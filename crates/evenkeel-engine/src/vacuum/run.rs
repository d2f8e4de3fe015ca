//! The passes of a vacuum.

use evenkeel_storage::page::PageRead;
use evenkeel_storage::{BlockNumber, Fork, PartFlags};

use super::dead::DeadItems;
use super::{VacuumOptions, VacuumPhase, VacuumProgress, VacuumStats, freeze_limit};
use crate::btree::RecycleHorizon;
use crate::database::Database;
use crate::error::EngineResult;
use crate::heap::layout::{HeapRead, PAGE_CAPACITY};
use crate::heap::ops::{OP_PRUNE, SET_VISIBLE};
use crate::heap::prune::{Plan, PlanOptions, oldest, plan};
use crate::table::Table;
use crate::table::pages::map_part;
use crate::txn::Horizon;
use crate::types::Xid;
use crate::vm::{self, ALL_FROZEN, ALL_VISIBLE};

/// Blocks asked for ahead of use.
const AHEAD: u32 = 32;

/// Vacuums a table. One at a time, which the caller's table lock sees to (vacuum rule 5).
pub(crate) fn run(
    table: &Table,
    options: &VacuumOptions,
    progress: &mut dyn FnMut(&VacuumProgress),
) -> EngineResult<VacuumStats> {
    let horizon = table.db().horizon();
    let blocks = table.blocks();
    let mut vacuum = Vacuum {
        table,
        options,
        freeze_below: freeze_limit(options, &horizon),
        horizon,
        progress,
        at: VacuumProgress {
            heap_blks_total: blocks,
            ..VacuumProgress::default()
        },
        stats: VacuumStats::default(),
        dead: DeadItems::default(),
        oldest: horizon.floor(),
        skipped: false,
    };
    vacuum.scan(blocks)?;
    vacuum.clean()?;
    if options.truncate {
        vacuum.truncate()?;
    }
    let mut stats = vacuum.stats;
    stats.pages = table.blocks();
    stats.oldest_xid = (!vacuum.skipped).then_some(vacuum.oldest);
    Ok(stats)
}

struct Vacuum<'a> {
    table: &'a Table,
    options: &'a VacuumOptions,
    freeze_below: Xid,
    horizon: Horizon,
    progress: &'a mut dyn FnMut(&VacuumProgress),
    at: VacuumProgress,
    stats: VacuumStats,
    dead: DeadItems,
    oldest: Xid,
    /// A page with unfrozen ids may have been skipped.
    skipped: bool,
}

impl Vacuum<'_> {
    fn tell(&mut self, phase: VacuumPhase) -> EngineResult<()> {
        if let Some(flag) = &self.options.cancel {
            flag.check()?;
        }
        self.at.phase = phase;
        self.at.num_dead_item_ids = self.dead.len() as u64;
        (self.progress)(&self.at);
        Ok(())
    }

    /// The first pass, with a round of cleaning whenever memory is full.
    fn scan(&mut self, blocks: u32) -> EngineResult<()> {
        for block in 0..blocks {
            if block % AHEAD == 0 {
                self.at.heap_blks_scanned = block;
                self.tell(VacuumPhase::ScanningHeap)?;
                self.table.heap().prefetch(block..blocks.min(block + AHEAD));
            }
            let bits = self.table.vm().bits(BlockNumber(block))?;
            let frozen = bits & ALL_FROZEN != 0;
            if frozen || (bits & ALL_VISIBLE != 0 && !self.options.freeze) {
                self.skipped |= !frozen;
                continue;
            }
            self.scan_page(BlockNumber(block))?;
            if self.dead.bytes() >= self.options.memory {
                self.clean()?;
            }
        }
        self.at.heap_blks_scanned = blocks;
        Ok(())
    }

    fn scan_page(&mut self, block: BlockNumber) -> EngineResult<()> {
        self.stats.pages_scanned += 1;
        let Some(done) = self.work_on(block, &[])? else {
            // Extended and never used, or its filler is about to lay it out.
            return self.table.space().fsm().record(block, PAGE_CAPACITY);
        };
        self.stats.tuples_kept += u64::from(done.plan.kept);
        self.stats.tuples_recently_dead += u64::from(done.plan.recently_dead);
        self.oldest = oldest(self.oldest, done.plan.oldest_xid);
        self.dead.add(block, &done.plan.dead);
        if done.plan.dead.is_empty() {
            self.table.space().fsm().record(block, done.free)?;
        }
        Ok(())
    }

    /// Prunes, freezes and marks one page, and frees the slots in `reap`. None for a page that
    /// is not laid out.
    fn work_on(&mut self, block: BlockNumber, reap: &[u16]) -> EngineResult<Option<Done>> {
        self.table.store().admit()?;
        let map = self.table.vm().pin(block)?;
        let mut heap = self.table.heap().pin(block)?.write();
        if !heap.is_heap() {
            return Ok(None);
        }
        let plan = self.plan(&heap, block, reap)?;
        let mut map = map.write();
        let (_, index) = vm::position(block);
        let have = vm::read_bits(&map, index);
        let want = match (plan.all_visible, plan.all_frozen) {
            (true, true) => ALL_VISIBLE | ALL_FROZEN,
            (true, false) => ALL_VISIBLE,
            _ => 0,
        };
        let hint_stale = heap.prune_xid() != plan.op.prune_xid;
        if !plan.is_idle() || hint_stale || want & !have != 0 {
            let mut change = self.table.store().change(Xid::NONE.get());
            change.part(&mut heap, OP_PRUNE, PartFlags::NONE, &plan.op.encode());
            if want & !have != 0 {
                map_part(&mut change, &mut map, block, want, 0);
            }
            change.commit();
        }
        drop(map);
        self.stats.tuples_removed += u64::from(plan.removed);
        self.stats.tuples_frozen += plan.op.freeze.len() as u64;
        self.stats.pages_set_visible += u32::from(plan.op.bits & SET_VISIBLE != 0);
        Ok(Some(Done {
            plan,
            free: heap.gap(),
        }))
    }

    /// A page that a record is written for anyway, and that every snapshot sees all of, is
    /// frozen at once: later it would be written again for that.
    fn plan(&self, heap: &impl PageRead, block: BlockNumber, reap: &[u16]) -> EngineResult<Plan> {
        let mut options = PlanOptions {
            thorough: true,
            no_indexes: self.table.def().indexes.is_empty(),
            reap,
            freeze_below: Some(self.freeze_below),
            set_visible: true,
        };
        let mut fates = self.table.fates(&self.horizon);
        let first = plan(heap, block.0, options, &mut fates)?;
        if !first.all_visible || first.all_frozen || first.is_idle() {
            return Ok(first);
        }
        options.freeze_below = Some(self.horizon.floor());
        plan(heap, block.0, options, &mut fates)
    }

    /// Removes the index entries of the dead rows found so far, then frees their slots.
    fn clean(&mut self) -> EngineResult<()> {
        if self.dead.is_empty() {
            return Ok(());
        }
        let dead = std::mem::take(&mut self.dead);
        self.at.num_dead_item_ids = dead.len() as u64;
        for tree in self.table.trees() {
            let mut is_dead = |tid| dead.contains(tid);
            let recycle = Recycle(self.table.db());
            let mut step = |_| self.tell(VacuumPhase::VacuumingIndexes);
            let stats = tree.bulk_delete(&mut is_dead, &recycle, &mut step)?;
            self.stats.index_entries_removed += stats.removed;
        }
        self.at.index_vacuum_count += 1;
        for (block, slots) in dead.iter() {
            self.tell(VacuumPhase::VacuumingHeap)?;
            if let Some(done) = self.work_on(block, slots)? {
                self.stats.dead_items_removed += slots.len() as u64;
                self.table.space().fsm().record(block, done.free)?;
            }
            self.at.heap_blks_vacuumed += 1;
        }
        self.dead = dead;
        self.dead.clear();
        Ok(())
    }

    /// Cuts empty pages off the end. Their map bits are cleared first: the blocks' numbers will
    /// be used again.
    fn truncate(&mut self) -> EngineResult<()> {
        self.tell(VacuumPhase::TruncatingHeap)?;
        let blocks = self.table.blocks();
        let mut keep = blocks;
        while keep > 0 {
            let guard = self.table.heap().read(BlockNumber(keep - 1))?;
            if guard.is_heap() && guard.slots() > 0 {
                break;
            }
            keep -= 1;
        }
        if keep == blocks {
            return Ok(());
        }
        for block in (keep..blocks).map(BlockNumber) {
            if self.table.vm().bits(block)? != 0 {
                self.table.store().admit()?;
                let mut map = self.table.vm().pin(block)?.write();
                let mut change = self.table.store().change(Xid::NONE.get());
                map_part(&mut change, &mut map, block, 0, ALL_VISIBLE | ALL_FROZEN);
                change.commit();
            }
        }
        self.table.space().fsm().record_range(keep..blocks, 0)?;
        self.table
            .store()
            .truncate(self.table.def().heap, Fork::Main, keep)?;
        self.table.space().truncated(keep);
        self.stats.pages_removed = blocks - keep;
        Ok(())
    }
}

/// What became of a page.
struct Done {
    plan: Plan,
    free: usize,
}

/// Deleted index pages are used again when every snapshot and transaction is younger.
pub(crate) struct Recycle<'a>(pub(crate) &'a Database);

impl RecycleHorizon for Recycle<'_> {
    fn stamp(&self) -> u64 {
        self.0.next_xid().get()
    }

    fn is_past(&self, stamp: u64) -> bool {
        // Strictly: a snapshot taken just before the page was unlinked may have `stamp` itself
        // as its floor.
        self.0.recent_horizon().floor().get() > stamp
    }
}
