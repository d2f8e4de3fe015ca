//! The passes of a vacuum.

use std::sync::Arc;

use evenkeel_storage::buffer::BufferAccessStrategy;
use evenkeel_storage::page::PageRead;
use evenkeel_storage::wal::LogUsage;
use evenkeel_storage::{BlockNumber, Lsn, PartFlags, RemovalLsn};
use smallvec::SmallVec;

use super::dead::DeadItems;
use super::{
    IndexCleanup, IndexVacuumStats, VacuumOptions, VacuumPhase, VacuumProgress, VacuumStats,
    freeze_limit,
};
use crate::btree::RecycleHorizon;
use crate::cost::CostAccount;
use crate::database::Database;
use crate::error::EngineResult;
use crate::heap::check::Sound;
use crate::heap::horizon_xids::HorizonXids;
use crate::heap::layout::{HeapRead, PAGE_CAPACITY};
use crate::heap::ops::{OP_PRUNE, SET_VISIBLE};
use crate::heap::prune::{Plan, PlanOptions, XidsAtHorizon, oldest, plan};
use crate::mutant::Mutant;
use crate::stats::Running;
use crate::table::Table;
use crate::table::pages::map_part;
use crate::txn::Horizon;
use crate::types::Xid;
use crate::vm::{self, ALL_FROZEN, ALL_VISIBLE};

/// Blocks asked for ahead of use, and between two looks at cancel flag and cost.
const AHEAD: u32 = 32;
/// Blocks whose map bits are read at once.
const WINDOW: u32 = 4096;
/// Fewer all-visible pages than this in a row are visited if they are not frozen (PostgreSQL's
/// rule): one such page skipped, and the table's oldest id would not be known.
const SKIP_RUN: usize = 32;
/// Pages between two wanted ones that are read along with them.
const READ_ALONG: u32 = 4;
/// Dead rows on fewer than one in so many pages are not worth a pass over the indexes, as long
/// as they take less than `BYPASS_BYTES`. Both as in PostgreSQL.
const BYPASS_SHARE: u64 = 50;
const BYPASS_BYTES: usize = 32 << 20;

impl Table {
    /// Removes dead row versions and their index entries, freezes, and sets visibility bits.
    /// One at a time, which the caller's table lock sees to (VAC-5); readers and writers go on.
    ///
    /// # Errors
    /// `Cancelled`; damage; storage failures. The work done so far stays.
    pub fn vacuum(
        &self,
        options: &VacuumOptions,
        progress: &mut dyn FnMut(&VacuumProgress),
    ) -> EngineResult<VacuumStats> {
        let horizon = self.db().horizon();
        let blocks = self.blocks();
        let freeze_below = freeze_limit(options, &horizon);
        let mut vacuum = Vacuum {
            table: self,
            options,
            freeze_below,
            horizon,
            running: self.db().progress().vacuum(self.def().id, options.pid),
            progress,
            at: VacuumProgress {
                heap_blks_total: blocks,
                max_dead_tuple_bytes: options.memory as u64,
                indexes_total: self.trees().len() as u32,
                ..VacuumProgress::default()
            },
            stats: VacuumStats {
                removal_cutoff: horizon.floor(),
                freeze_limit: freeze_below,
                ..VacuumStats::default()
            },
            ring: self.db().vacuum_ring(options.buffer_usage_limit),
            cost: CostAccount::open(options.cost.as_deref()),
            dead: DeadItems::default(),
            oldest: horizon.floor(),
            skipped: false,
            used_blocks: 0,
            removal: Lsn::ZERO,
            log: LogUsage::of_this_thread(),
        };
        let mut fates = HorizonXids::new(self.db().system(), &horizon);
        vacuum.scan(blocks, &mut fates)?;
        vacuum.clean_at_end(blocks, &mut fates)?;
        let mut stats = vacuum.finish()?;
        if let Some(large) = self.large() {
            // Rows first: none that is left names a value whose chunks go.
            stats.include(&large.vacuum(options, progress)?);
        }
        Ok(stats)
    }
}

struct Vacuum<'a> {
    table: &'a Table,
    options: &'a VacuumOptions,
    freeze_below: Xid,
    horizon: Horizon,
    running: Running,
    progress: &'a mut dyn FnMut(&VacuumProgress),
    at: VacuumProgress,
    stats: VacuumStats,
    ring: Option<Arc<BufferAccessStrategy>>,
    cost: CostAccount<'a>,
    dead: DeadItems,
    oldest: Xid,
    /// A page with unfrozen ids may have been skipped.
    skipped: bool,
    /// Blocks up to the last one that has, or may have, a row.
    used_blocks: u32,
    /// The newest commit that removed a row whose entries are to be removed.
    removal: Lsn,
    /// This thread's use of the log before the vacuum.
    log: LogUsage,
}

impl Vacuum<'_> {
    fn tell(&mut self, phase: VacuumPhase) -> EngineResult<()> {
        if let Some(flag) = &self.options.cancel {
            flag.check()?;
        }
        self.cost.settle();
        self.at.phase = phase;
        self.at.num_dead_item_ids = self.dead.len() as u64;
        self.at.dead_tuple_bytes = self.dead.bytes() as u64;
        self.at.delay_time = self.cost.slept();
        self.running.vacuum_at(&self.at);
        (self.progress)(&self.at);
        Ok(())
    }

    /// Sleeps if the cost limit says so; whoever cancels it meanwhile is not kept waiting long.
    fn pause(&mut self, phase: VacuumPhase) -> EngineResult<()> {
        if self.cost.settle() {
            self.tell(phase)?;
        }
        Ok(())
    }

    /// The first pass, with a round of cleaning whenever memory is full.
    fn scan(&mut self, blocks: u32, fates: &mut HorizonXids<'_>) -> EngineResult<()> {
        let mut bits = Vec::new();
        let mut chosen = Vec::new();
        for first in (0..blocks).step_by(WINDOW as usize) {
            let window = first..blocks.min(first + WINDOW);
            self.table.vm().bits_of(window, &mut bits)?;
            chosen.clear();
            self.choose(first, &bits, &mut chosen);
            for batch in chosen.chunks(AHEAD as usize) {
                self.at.heap_blks_scanned = batch[0];
                self.tell(VacuumPhase::ScanningHeap)?;
                self.read_ahead(batch);
                for &block in batch {
                    self.scan_page(BlockNumber(block), fates)?;
                    self.pause(VacuumPhase::ScanningHeap)?;
                    if self.dead.bytes() >= self.options.memory {
                        self.clean(fates)?;
                    }
                }
            }
        }
        self.at.heap_blks_scanned = blocks;
        self.tell(VacuumPhase::ScanningHeap)
    }

    /// Which blocks of a window to visit, given their map bits (VAC-3).
    fn choose(&mut self, first: u32, bits: &[u8], chosen: &mut Vec<u32>) {
        let every = self.options.every_page;
        let all_unfrozen = self.options.freeze || self.options.aggressive;
        let mut first = first;
        for run in bits.chunk_by(|a, b| a & b & ALL_VISIBLE != 0) {
            let visible = run[0] & ALL_VISIBLE != 0;
            let skip = visible && run.len() >= SKIP_RUN && !all_unfrozen;
            for (block, bits) in (first..).zip(run) {
                let frozen = bits & ALL_FROZEN != 0;
                if every || (!frozen && !skip) {
                    chosen.push(block);
                } else {
                    self.skipped |= !frozen;
                    self.used_blocks = self.used_blocks.max(block + 1);
                }
            }
            first += run.len() as u32;
        }
    }

    /// Asks for the wanted blocks, and for those between that cost little.
    fn read_ahead(&self, blocks: &[u32]) {
        for near in blocks.chunk_by(|a, b| b - a <= READ_ALONG) {
            self.table
                .heap()
                .prefetch_with(near[0]..near[near.len() - 1] + 1, self.ring.as_ref());
        }
    }

    fn scan_page(&mut self, block: BlockNumber, fates: &mut HorizonXids<'_>) -> EngineResult<()> {
        self.stats.pages_scanned += 1;
        let Some(done) = self.work_on(block, &[], fates)? else {
            // Extended and never used, or its filler is about to lay it out.
            return self.table.space().fsm().record(block, PAGE_CAPACITY);
        };
        if done.plan.kept > 0 {
            self.used_blocks = self.used_blocks.max(block.0 + 1);
        }
        self.stats.tuples_kept += u64::from(done.plan.kept);
        self.stats.tuples_recently_dead += u64::from(done.plan.recently_dead);
        self.oldest = oldest(self.oldest, done.plan.oldest_xid);
        self.stats.dead_pages += u32::from(!done.plan.dead.is_empty());
        self.dead.add(block, &done.plan.dead);
        if !done.plan.op.dead.is_empty() {
            self.removal = self.removal.max(done.removal);
        }
        if done.plan.dead.len() > done.plan.op.dead.len() {
            // Others have pruned the page before.
            self.removal = self
                .removal
                .max(self.table.db().system().core.removal_bound());
        }
        if done.plan.dead.is_empty() {
            self.table.space().fsm().record(block, done.free)?;
        }
        Ok(())
    }

    /// Prunes, freezes and marks one page, and frees the slots in `reap`. None for a page that
    /// is not laid out.
    fn work_on(
        &mut self,
        block: BlockNumber,
        reap: &[u16],
        fates: &mut HorizonXids<'_>,
    ) -> EngineResult<Option<Done>> {
        self.table.store().admit()?;
        let resident = self.table.heap().pin_resident(block).is_some();
        self.cost.page(resident);
        let done = fates.retry(|fates| self.try_work_on(block, reap, fates))?;
        let Some(done) = done else { return Ok(None) };
        let plan = &done.plan;
        self.stats.tuples_removed += u64::from(plan.removed);
        self.stats.tuples_frozen += plan.op.frozen();
        self.stats.pages_frozen += u32::from(!plan.op.freeze.is_empty());
        self.stats.pages_set_visible += u32::from(plan.op.bits & SET_VISIBLE != 0);
        self.stats.pages_set_frozen += u32::from(done.set & ALL_FROZEN != 0);
        if done.dirtied {
            self.cost.dirtied();
        }
        Ok(Some(done))
    }

    fn try_work_on(
        &self,
        block: BlockNumber,
        reap: &[u16],
        fates: &mut HorizonXids<'_>,
    ) -> EngineResult<Option<Done>> {
        let _frames = self.table.reserve_frames();
        let map = self.table.vm().pin(block)?;
        let heap = self.table.heap().pin_with(block, self.ring.as_ref())?;
        let mut heap = heap.write();
        if !heap.is_heap() {
            return Ok(None);
        }
        let plan = self.plan(&heap, block, reap, fates)?;
        let mut map = map.write();
        let (_, index) = vm::position(block);
        let have = vm::read_bits(&map, index);
        let want = match (plan.all_visible, plan.all_frozen) {
            (true, true) => ALL_VISIBLE | ALL_FROZEN,
            (true, false) => ALL_VISIBLE,
            _ => 0,
        };
        let set = want & !have;
        let lie = if heap.all_visible() { 0 } else { have & !want };
        if lie != 0 {
            tracing::warn!(
                "file {} block {block}: map says all-visible, the page does not; the map is corrected",
                self.table.def().heap
            );
        }
        let hint_stale = heap.prune_xid() != plan.op.prune_xid;
        let dirtied = !plan.is_idle() || hint_stale || set | lie != 0;
        let removal = self.removal_of(&plan, set);
        if dirtied {
            let sound = Sound::before(&heap);
            let mut change = self.table.store().change(Xid::NONE.get());
            change.removes(RemovalLsn::Commit(removal));
            change.part(&mut heap, OP_PRUNE, PartFlags::NONE, &plan.op.encode());
            if set | lie != 0 {
                map_part(&mut change, &mut map, block, want, lie);
            }
            change.commit();
            sound.assert_after(&heap);
        }
        debug_assert!(
            want == 0 || heap.all_visible(),
            "the map alone calls block {block} all-visible"
        );
        let free = heap.gap();
        Ok(Some(Done {
            plan,
            free,
            set,
            removal,
            dirtied,
        }))
    }

    /// The newest commit that a page's record takes from snapshots that do not see it. Bits that
    /// make a page visible to all do so with the commits of all its rows.
    fn removal_of(&self, plan: &Plan, set: u8) -> Lsn {
        let system = self.table.db().system();
        let newest = system.newest_commit(plan.removes.iter());
        if set == 0 && plan.op.bits & SET_VISIBLE == 0 {
            return newest;
        }
        newest.max(system.newest_commit(plan.shows.iter()))
    }

    /// A page that a record is written for anyway, and that every snapshot sees all of, is
    /// frozen at once: later it would be written again for that.
    fn plan(
        &self,
        heap: &impl PageRead,
        block: BlockNumber,
        reap: &[u16],
        fates: &mut dyn XidsAtHorizon,
    ) -> EngineResult<Plan> {
        let mut options = PlanOptions {
            thorough: true,
            no_indexes: self.table.def().indexes.is_empty(),
            reap,
            freeze_below: Some(self.freeze_below),
            set_visible: true,
            freeze_recent: self.table.db().system().has(Mutant::FreezeRecent),
        };
        let first = plan(heap, block.0, options, fates)?;
        if !first.all_visible || first.all_frozen || first.is_idle() {
            return Ok(first);
        }
        options.freeze_below = Some(self.horizon.floor());
        plan(heap, block.0, options, fates)
    }

    /// The last round of cleaning, unless it does not pay or is not wanted.
    fn clean_at_end(&mut self, blocks: u32, fates: &mut HorizonXids<'_>) -> EngineResult<()> {
        let few = u64::from(self.stats.dead_pages) * BYPASS_SHARE < u64::from(blocks)
            && self.dead.bytes() < BYPASS_BYTES
            && self.stats.index_rounds == 0;
        let bypass = match self.options.index_cleanup {
            IndexCleanup::Auto => few,
            IndexCleanup::On => false,
            IndexCleanup::Off => true,
        };
        if bypass {
            self.leave_dead();
            return Ok(());
        }
        self.clean(fates)
    }

    fn leave_dead(&mut self) {
        self.stats.dead_items_left += self.dead.len() as u64;
        self.dead.clear();
    }

    /// Removes the index entries of the dead rows found so far, then frees their slots.
    fn clean(&mut self, fates: &mut HorizonXids<'_>) -> EngineResult<()> {
        if self.dead.is_empty() {
            return Ok(());
        }
        if self.options.index_cleanup == IndexCleanup::Off {
            self.leave_dead();
            return Ok(());
        }
        let dead = std::mem::take(&mut self.dead);
        self.at.num_dead_item_ids = dead.len() as u64;
        self.clean_indexes(&dead)?;
        self.at.index_vacuum_count += 1;
        self.stats.index_rounds += 1;
        let blocks: SmallVec<[(BlockNumber, &[u16]); 0]> = dead.iter().collect();
        for batch in blocks.chunks(AHEAD as usize) {
            self.tell(VacuumPhase::VacuumingHeap)?;
            let numbers: SmallVec<[u32; AHEAD as usize]> =
                batch.iter().map(|(block, _)| block.0).collect();
            self.read_ahead(&numbers);
            for &(block, slots) in batch {
                if let Some(done) = self.work_on(block, slots, fates)? {
                    self.stats.dead_items_removed += slots.len() as u64;
                    self.table.space().fsm().record(block, done.free)?;
                }
                self.at.heap_blks_vacuumed += 1;
                self.pause(VacuumPhase::VacuumingHeap)?;
            }
        }
        drop(blocks);
        self.dead = dead;
        self.dead.clear();
        self.removal = Lsn::ZERO;
        Ok(())
    }

    fn clean_indexes(&mut self, dead: &DeadItems) -> EngineResult<()> {
        self.at.indexes_processed = 0;
        let ring = self.ring.clone();
        for (index, tree) in self.table.trees().iter().enumerate() {
            let mut is_dead = |tid| dead.contains(tid);
            let recycle = Recycle {
                db: self.table.db(),
                removal: self.removal,
            };
            let mut step = |_| {
                self.cost.page(true);
                self.tell(VacuumPhase::VacuumingIndexes)
            };
            let ring = ring.as_ref();
            let stats = tree.bulk_delete_with(&mut is_dead, &recycle, &mut step, ring)?;
            self.stats.index_entries_removed += stats.removed;
            self.at.indexes_processed += 1;
            self.note_index(IndexVacuumStats {
                index,
                pages: stats.blocks,
                pages_deleted: stats.pages_deleted,
                pages_free: stats.pages_free,
                entries_removed: stats.removed,
                entries: stats.entries,
            });
        }
        Ok(())
    }

    /// Adds what a round did to an index to what the rounds before did.
    fn note_index(&mut self, round: IndexVacuumStats) {
        let known = &mut self.stats.indexes;
        match known.iter_mut().find(|stats| stats.index == round.index) {
            None => known.push(round),
            Some(stats) => {
                *stats = IndexVacuumStats {
                    pages_deleted: stats.pages_deleted + round.pages_deleted,
                    entries_removed: stats.entries_removed + round.entries_removed,
                    ..round
                }
            }
        }
    }

    fn finish(mut self) -> EngineResult<VacuumStats> {
        if self.options.truncate {
            self.tell(VacuumPhase::TruncatingHeap)?;
            self.stats.pages_removed = self.table.truncate_tail(self.options.cancel.as_ref())?;
        }
        self.tell(VacuumPhase::PerformingFinalCleanup)?;
        let blocks = self.table.blocks();
        let (visible, frozen) = self.table.vm().count(blocks)?;
        let mut stats = std::mem::take(&mut self.stats);
        stats.pages = blocks;
        stats.pages_all_visible = visible;
        stats.pages_all_frozen = frozen;
        stats.oldest_xid = (!self.skipped).then_some(self.oldest);
        stats.empty_tail = blocks.saturating_sub(self.used_blocks);
        stats.buffers = self.cost.buffers;
        stats.delayed = self.cost.slept();
        stats.log = LogUsage::of_this_thread() - self.log;
        Ok(stats)
    }
}

/// The outcome of a vacuum's visit to a page.
struct Done {
    plan: Plan,
    free: usize,
    /// Map bits that were newly set.
    set: u8,
    /// The newest commit that was removed or made visible to all.
    removal: Lsn,
    dirtied: bool,
}

/// Deleted index pages are used again when every snapshot and transaction is younger.
struct Recycle<'a> {
    db: &'a Database,
    removal: Lsn,
}

impl RecycleHorizon for Recycle<'_> {
    fn removal(&self) -> Lsn {
        self.removal
    }

    fn stamp(&self) -> u64 {
        self.db.next_xid().get()
    }

    fn is_past(&self, stamp: u64) -> bool {
        // Strictly: a snapshot taken just before the page was unlinked may have `stamp` itself
        // as its floor.
        self.db.recent_horizon().floor().get() > stamp
    }
}
