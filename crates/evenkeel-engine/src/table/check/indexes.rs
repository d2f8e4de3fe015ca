//! Whether a heap's rows and an index's entries have each other.
//!
//! The keys that rows should have are sorted, on disk if they are many, and compared with the
//! entries in their order. Entries that belong to no row are sorted by place, so that the heap is
//! read in order once more.

use std::ops::Bound;

use evenkeel_storage::page::PageRead;

use super::{CheckReport, CheckStep};
use crate::btree::{Direction, LeafBatch, TreeReader, TreeScan};
use crate::error::{EngineError, EngineResult};
use crate::heap::layout::{HEAP_ONLY, HeapRead, LpState};
use crate::heap::prune::{xmax_hint, xmin_hint};
use crate::heap::read::{Entry, Link, chain};
use crate::heap::rows::RowBatch;
use crate::sort::KeySorter;
use crate::table::{KeyKind, Table};
use crate::temp::WorkLimits;
use crate::ticket::CancelFlag;
use crate::txn::Horizon;
use crate::txn::XidAtHorizon;
use crate::types::Tid;

/// Memory for sorting the keys of all indexes, in bytes; more are sorted on disk.
const SORT_MEMORY: usize = 128 << 20;
/// One index has this much of it, however many there are: runs on disk are merged at once.
const SORT_MEMORY_MIN: usize = 16 << 20;
/// The same for the entries of one index that belong to no row.
const STRAY_MEMORY: usize = 16 << 20;
/// Tag of a key that must be in the index; others may be.
const REQUIRED: u8 = 1;

/// The keys that rows should have, by index.
pub(super) struct RowKeys {
    sorters: Vec<KeySorter>,
    key: Vec<u8>,
    /// The rows of a page and their tags; keys are computed once it is unlocked (TAB-17).
    rows: RowBatch,
    tags: Vec<u8>,
}

impl RowKeys {
    pub(super) fn new(table: &Table) -> RowKeys {
        let limit = (SORT_MEMORY / table.indexes.len().max(1)).max(SORT_MEMORY_MIN);
        RowKeys {
            sorters: table.indexes.iter().map(|_| sorter(table, limit)).collect(),
            key: Vec::new(),
            rows: RowBatch::new(),
            tags: Vec::new(),
        }
    }

    /// Notes the chain that starts at `tid`, whose key is that of its newest version (TAB-9). It
    /// must be in the index if that version is live.
    pub(super) fn note(
        &mut self,
        table: &Table,
        page: &impl PageRead,
        tid: Tid,
        horizon: &Horizon,
    ) -> EngineResult<()> {
        let Some((newest, required)) = newest_version(table, page, tid, horizon)? else {
            return Ok(());
        };
        self.tags.push(if required { REQUIRED } else { 0 });
        let row = page.row(newest.offset, newest.length);
        self.rows.push(tid, row);
        Ok(())
    }

    /// Computes the keys of the rows that were noted; no page is locked.
    pub(super) fn enter(&mut self, table: &Table, report: &mut CheckReport) -> EngineResult<()> {
        for ((tid, row), tag) in self.rows.iter().zip(&self.tags) {
            for (index, sorter) in table.def.indexes.iter().zip(&mut self.sorters) {
                self.key.clear();
                match index.key.key(row, &mut self.key) {
                    Ok(KeyKind::Absent) => {}
                    Ok(_) => sorter.add(&self.key, tid, *tag)?,
                    Err(error) => {
                        let name = &index.name;
                        report.add(format!("index \"{name}\": the row at {tid}: {error}"));
                    }
                }
            }
        }
        self.rows.clear();
        self.tags.clear();
        Ok(())
    }
}

/// The newest version of the chain at `tid` that was not rolled back, or the root of a chain that
/// was as a whole; and whether it is live, so that its key must be in every index.
fn newest_version(
    table: &Table,
    page: &impl PageRead,
    tid: Tid,
    horizon: &Horizon,
) -> EngineResult<Option<(Link, bool)>> {
    let mut newest = None;
    let mut fate = table.fates(horizon);
    for link in chain(page, tid.block, tid.slot, Entry::Index) {
        let header = &link.header;
        let inserted = if header.frozen() {
            XidAtHorizon::CommittedForAll
        } else {
            fate(header.xmin, xmin_hint(header))?
        };
        if inserted == XidAtHorizon::Aborted && newest.is_some() {
            continue;
        }
        // An insert may have ended before all its index entries were in.
        let sure = matches!(
            inserted,
            XidAtHorizon::CommittedForAll | XidAtHorizon::CommittedLately
        );
        let gone = header.xmax.is_some()
            && fate(header.xmax, xmax_hint(header))? == XidAtHorizon::CommittedForAll;
        newest = Some((link, sure && !gone));
    }
    Ok(newest)
}

pub(super) fn sorter(table: &Table, limit: usize) -> KeySorter {
    let store = table.db.store();
    KeySorter::new(store, WorkLimits::unlimited(limit), &CancelFlag::new())
}

/// The entries of a tree, one by one in order.
struct Entries {
    scan: TreeScan,
    batch: LeafBatch,
    at: usize,
    seen: u64,
}

impl Entries {
    /// The entry at hand; none at the end.
    fn current(&mut self) -> EngineResult<Option<(&[u8], Tid)>> {
        while self.at >= self.batch.len() {
            if !self.scan.next_page(&mut self.batch)? {
                return Ok(None);
            }
            self.at = 0;
        }
        Ok(Some((self.batch.key(self.at), self.batch.tids()[self.at])))
    }

    fn step(&mut self) {
        self.at += 1;
        self.seen += 1;
    }

    /// Goes on to the entry of `key` and `tid`, or to where it should be; says whether it is
    /// there. Entries on the way belong to no row and are added to `strays`.
    fn reach(&mut self, key: &[u8], tid: Tid, strays: &mut KeySorter) -> EngineResult<bool> {
        while let Some(entry) = self.current()? {
            match entry.cmp(&(key, tid)) {
                std::cmp::Ordering::Less => add_stray(strays, entry.1)?,
                std::cmp::Ordering::Equal => {
                    self.step();
                    return Ok(true);
                }
                std::cmp::Ordering::Greater => return Ok(false),
            }
            self.step();
        }
        Ok(false)
    }

    /// Goes to the end; see [`Entries::reach`].
    fn finish(&mut self, strays: &mut KeySorter) -> EngineResult<()> {
        while let Some((_, tid)) = self.current()? {
            add_stray(strays, tid)?;
            self.step();
        }
        Ok(())
    }
}

/// Places are sorted as keys, whose order is that of their bytes.
fn add_stray(strays: &mut KeySorter, tid: Tid) -> EngineResult<()> {
    strays.add(&tid.block.0.to_be_bytes(), tid, 0)
}

impl Table {
    /// Verifies the trees, then that their entries and the heap's rows have each other.
    pub(super) fn check_indexes(
        &self,
        keys: RowKeys,
        report: &mut CheckReport,
        progress: &mut dyn FnMut(CheckStep<'_>),
    ) -> EngineResult<()> {
        for (index, keys) in keys.sorters.into_iter().enumerate() {
            let name = &self.def.indexes[index].name;
            let checked = self.indexes[index].check(&mut |step| {
                progress(CheckStep {
                    index: Some(name),
                    blocks_done: step.blocks_done,
                    blocks: step.blocks,
                });
                Ok(())
            });
            if let Err(error) = checked {
                report.add(format!("index \"{name}\": {error}"));
                continue;
            }
            match self.check_entries(index, keys, report) {
                Err(error @ EngineError::Storage(_)) => {
                    report.add(format!("index \"{name}\": {error}"));
                }
                other => other?,
            }
        }
        Ok(())
    }

    fn check_entries(
        &self,
        index: usize,
        keys: KeySorter,
        report: &mut CheckReport,
    ) -> EngineResult<()> {
        let name = &self.def.indexes[index].name;
        let tree = &self.indexes[index];
        let mut entries = Entries {
            scan: tree.scan(
                TreeReader::alone(),
                (Bound::Unbounded, Bound::Unbounded),
                Direction::Forward,
            ),
            batch: LeafBatch::with_keys(),
            at: 0,
            seen: 0,
        };
        let mut strays = sorter(self, STRAY_MEMORY);
        keys.finish(&mut |key, tid, tag| {
            if !entries.reach(key, tid, &mut strays)? && tag & REQUIRED != 0 {
                report.add(format!("index \"{name}\": no entry for the row at {tid}"));
            }
            Ok(())
        })?;
        entries.finish(&mut strays)?;
        report.index_entries += entries.seen;
        strays.finish(&mut |_, tid, _| {
            if let Some(problem) = self.stray(tid)? {
                report.add(format!("index \"{name}\": entry for {tid}, {problem}"));
            }
            Ok(())
        })
    }

    /// The fault of an entry for `tid` whose key is not that of the chain there. None, if the row
    /// was pruned and vacuum has not come to the entry yet, or if the whole chain was rolled back.
    fn stray(&self, tid: Tid) -> EngineResult<Option<&'static str>> {
        const NOTHING: Option<&str> = Some("no row there");
        const OTHER_KEY: Option<&str> = Some("the row there has another key");
        if tid.block.0 >= self.blocks() {
            return Ok(NOTHING);
        }
        let _frames = self.reserve_for_reading();
        let Ok(page) = self.heap().read(tid.block) else {
            // Was reported with its block.
            return Ok(None);
        };
        if !page.is_heap() || tid.slot > page.slots() {
            return Ok(NOTHING);
        }
        let row = match page.line_pointer(tid.slot).state {
            LpState::Dead => return Ok(None),
            LpState::Unused => false,
            LpState::Redirect => true,
            LpState::Normal => page
                .tuple_at(tid.slot)
                .is_some_and(|(offset, _)| !page.header(offset).is(HEAP_ONLY)),
        };
        if !row {
            return Ok(NOTHING);
        }
        let rolled_back = self.is_rolled_back(&page, tid)?;
        Ok(OTHER_KEY.filter(|_| !rolled_back))
    }

    /// Whether the inserters of all versions of the chain at `tid` rolled back. Pruning may have
    /// taken the version whose key the entry has: the others may have another key, because the
    /// transaction had dropped the index when it made them, and its rollback brought it back.
    fn is_rolled_back(&self, page: &impl PageRead, tid: Tid) -> EngineResult<bool> {
        let horizon = self.db.horizon();
        let mut fate = self.fates(&horizon);
        let mut versions = 0;
        for link in chain(page, tid.block, tid.slot, Entry::Index) {
            let header = &link.header;
            if header.frozen() || fate(header.xmin, xmin_hint(header))? != XidAtHorizon::Aborted {
                return Ok(false);
            }
            versions += 1;
        }
        Ok(versions > 0)
    }
}
