//! Whether a heap's rows and an index's entries have each other.
//!
//! The keys that rows should have are sorted, on disk if they are many, and compared with the
//! entries in their order. Entries that belong to no row are sorted by place, so that the heap is
//! read in order once more.

use std::ops::Bound;

use evenkeel_storage::page::PageRead;

use super::{CheckReport, CheckStep};
use crate::btree::{Direction, LeafBatch, TreeScan};
use crate::error::EngineResult;
use crate::heap::layout::{HEAP_ONLY, HeapRead, LpState};
use crate::heap::prune::{Fate, xmax_hint, xmin_hint};
use crate::heap::read::{Entry, chain};
use crate::table::sort::KeySorter;
use crate::table::{KeyKind, Table};
use crate::txn::Horizon;
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
    /// The distinct keys of one chain.
    chain: Vec<(Vec<u8>, u8)>,
}

impl RowKeys {
    pub(super) fn new(table: &Table) -> RowKeys {
        let limit = (SORT_MEMORY / table.indexes.len().max(1)).max(SORT_MEMORY_MIN);
        RowKeys {
            sorters: table.indexes.iter().map(|_| sorter(table, limit)).collect(),
            chain: Vec::new(),
        }
    }

    /// Notes each distinct key of the chain that starts at `tid`; one that a live version has must
    /// be in the index.
    pub(super) fn note(
        &mut self,
        table: &Table,
        page: &impl PageRead,
        tid: Tid,
        horizon: &Horizon,
    ) -> EngineResult<()> {
        for (index, sorter) in table.def.indexes.iter().zip(&mut self.sorters) {
            self.chain.clear();
            for link in chain(page, tid.block, tid.slot, Entry::Index) {
                let mut key = Vec::new();
                let row = page.row(link.offset, link.length);
                if index.key.key(row, &mut key) == KeyKind::Absent {
                    continue;
                }
                let header = &link.header;
                let mut fate = table.fates(horizon);
                // An insert may have ended before all its index entries were in.
                let sure = header.frozen()
                    || matches!(
                        fate(header.xmin, xmin_hint(header))?,
                        Fate::Old | Fate::Recent
                    );
                let gone =
                    header.xmax.is_some() && fate(header.xmax, xmax_hint(header))? == Fate::Old;
                let tag = if sure && !gone { REQUIRED } else { 0 };
                match self.chain.iter_mut().find(|known| known.0 == key) {
                    Some(known) => known.1 |= tag,
                    None => self.chain.push((key, tag)),
                }
            }
            for (key, tag) in &self.chain {
                sorter.add(key, tid, *tag)?;
            }
        }
        Ok(())
    }
}

fn sorter(table: &Table, limit: usize) -> KeySorter {
    let store = table.db.store();
    KeySorter::new(store.disk(), store.dir(), limit)
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
            self.check_entries(index, keys, report)?;
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
            scan: tree.scan(Bound::Unbounded, Bound::Unbounded, Direction::Forward),
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

    /// What is wrong with an entry for `tid` whose key no version there has. Nothing, if such a
    /// version may have been there and was pruned.
    fn stray(&self, tid: Tid) -> EngineResult<Option<&'static str>> {
        const NOTHING: Option<&str> = Some("no row there");
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
        Ok(match page.line_pointer(tid.slot).state {
            LpState::Dead | LpState::Redirect => None,
            LpState::Unused => NOTHING,
            LpState::Normal => match page.tuple_at(tid.slot) {
                Some((offset, _)) if !page.header(offset).is(HEAP_ONLY) => {
                    Some("the row there has another key")
                }
                _ => NOTHING,
            },
        })
    }
}
