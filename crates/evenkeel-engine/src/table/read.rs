//! Reading a table: heap scans, index scans, fetches by place.

use std::ops::{Bound, Range};
use std::sync::Arc;

use evenkeel_storage::BlockNumber;
use evenkeel_storage::buffer::{ReadGuard, Strategy};

use super::passes::Pass;
use super::{Direction, KeyKind, KeyRange, Table};
use crate::btree::{self, LeafBatch, TreeScan, Visit};
use crate::error::{EngineError, EngineResult};
use crate::heap::layout::{HEAP_ONLY, HeapRead, LpState, PAGE_CAPACITY};
use crate::heap::read::{Entry, Link, find_visible, read_page};
use crate::heap::rows::{Row, RowBatch};
use crate::heap::visibility::Viewer;
use crate::ticket::CancelFlag;
use crate::txn::{Snapshot, Transaction};
use crate::types::Tid;

/// A scan prunes pages that have less contiguous space than this, in bytes.
const SHORT_OF_SPACE: usize = PAGE_CAPACITY / 10;

/// No key at all.
const EMPTY: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Included(&[]), Bound::Excluded(&[]));

/// A heap scan: page at a time, rows copied out, nothing locked or pinned between calls.
pub struct Scan {
    table: Arc<Table>,
    snapshot: Snapshot,
    pass: Pass,
    cancel: Option<CancelFlag>,
}

impl Scan {
    /// Makes the scan end with `Cancelled` when the flag is raised.
    #[must_use]
    pub fn cancelled_by(mut self, flag: &CancelFlag) -> Scan {
        self.cancel = Some(flag.clone());
        self
    }

    /// Replaces `batch` by the visible rows of the next page that has any; false at the end.
    ///
    /// # Errors
    /// `Cancelled`; damage; storage failures.
    pub fn next_page(&mut self, batch: &mut RowBatch) -> EngineResult<bool> {
        batch.clear();
        while let Some(block) = self.pass.next() {
            if let Some(flag) = &self.cancel {
                flag.check()?;
            }
            let (block, ring) = (BlockNumber(block), self.pass.ring());
            self.table.read_block(&self.snapshot, block, ring, batch)?;
            if !batch.is_empty() {
                let counters = self.table.counters();
                counters.sequential_read(0, batch.len() as u64);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// An index scan: a leaf page's worth of rows at a time, in key order, nothing locked or pinned
/// between calls.
pub struct IndexScan {
    table: Arc<Table>,
    index: usize,
    snapshot: Snapshot,
    scan: TreeScan,
    entries: LeafBatch,
    cancel: Option<CancelFlag>,
}

impl IndexScan {
    /// Makes the scan end with `Cancelled` when the flag is raised.
    #[must_use]
    pub fn cancelled_by(mut self, flag: &CancelFlag) -> IndexScan {
        self.cancel = Some(flag.clone());
        self
    }

    /// Replaces `batch` by the next visible rows, those of one index page; false at the end.
    ///
    /// # Errors
    /// `Cancelled`; damage; storage failures.
    pub fn next_page(&mut self, batch: &mut RowBatch) -> EngineResult<bool> {
        batch.clear();
        while batch.is_empty() {
            if let Some(flag) = &self.cancel {
                flag.check()?;
            }
            if !self.scan.next_page(&mut self.entries)? {
                return Ok(false);
            }
            self.visit_entries(batch)?;
        }
        self.table.counters().index_read(0, batch.len() as u64);
        Ok(true)
    }

    /// Copies the visible rows of a leaf's entries; neighbours on one heap page share a visit.
    fn visit_entries(&self, batch: &mut RowBatch) -> EngineResult<()> {
        let mut viewer = Viewer::new(&self.snapshot);
        let tids = self.entries.tids();
        let (mut dead, mut scratch) = (Vec::new(), Vec::new());
        let mut next = 0;
        while next < tids.len() {
            let block = tids[next].block;
            let _frames = self.table.reserve_for_reading();
            let mut guard = self.table.heap().read(block)?;
            let mut missed = None;
            while next < tids.len() && tids[next].block == block {
                let key = self.entries.key(next);
                let wanted = |found: &[u8]| found == key;
                let entry = Visited {
                    index: self.index,
                    tid: tids[next],
                    wanted: &wanted,
                };
                let found = self
                    .table
                    .visit(&entry, &mut guard, &mut viewer, &mut scratch);
                let found = match found {
                    Err(EngineError::StatusNotInMemory { xid }) => {
                        missed = Some(xid);
                        break;
                    }
                    found => found?,
                };
                match found {
                    Found::Row(link) => batch.push(
                        Tid::new(block, link.slot),
                        guard.row(link.offset, link.length),
                    ),
                    Found::Dead => dead.push(next),
                    Found::Nothing => {}
                }
                next += 1;
            }
            if let Some(xid) = missed {
                // With the page let go of; this entry is visited again.
                drop(guard);
                viewer.start_again();
                self.table.db.xid_status(xid)?;
            }
        }
        if !dead.is_empty() {
            self.table.indexes[self.index].mark_dead(&self.entries, dead.into_iter())?;
        }
        Ok(())
    }
}

/// An index entry to follow.
struct Visited<'a> {
    index: usize,
    tid: Tid,
    /// Whether a key is one that the scan asks for.
    wanted: &'a dyn Fn(&[u8]) -> bool,
}

/// What an index entry led to.
enum Found {
    Row(Link),
    /// Nothing that any snapshot will ever see.
    Dead,
    Nothing,
}

impl Table {
    /// Scans the whole heap with `snapshot`. A large one may begin in the middle, where another
    /// scan is (`synchronize_seqscans`).
    pub fn scan(self: &Arc<Self>, snapshot: &Snapshot) -> Scan {
        self.counters().sequential_read(1, 0);
        self.scan_blocks(snapshot, 0..self.blocks())
    }

    /// Scans some blocks of the heap: parts of `0..blocks()`, for parallel scans.
    pub fn scan_blocks(self: &Arc<Self>, snapshot: &Snapshot, blocks: Range<u32>) -> Scan {
        Scan {
            table: Arc::clone(self),
            snapshot: snapshot.clone(),
            pass: Pass::new(self, blocks),
            cancel: None,
        }
    }

    /// Rows of an index range in key order.
    ///
    /// # Errors
    /// When the table was opened without an index of this number.
    pub fn index_scan(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        index: usize,
        range: &KeyRange,
        direction: Direction,
    ) -> EngineResult<IndexScan> {
        let tree = self.tree(index)?;
        self.counters().index_read(1, 0);
        let (mut after, mut before) = (Vec::new(), Vec::new());
        let lower = match &range.low {
            None => Bound::Unbounded,
            Some((key, true)) => Bound::Included(key.as_slice()),
            // Behind every key that starts with it; if there is none, the scan is empty.
            Some((key, false)) => match btree::prefix_successor(key, &mut after) {
                true => Bound::Included(after.as_slice()),
                false => return Ok(self.scan_tree(snapshot, index, tree, EMPTY, direction)),
            },
        };
        let upper = match &range.high {
            Some((key, false)) => Bound::Excluded(key.as_slice()),
            Some((key, true)) if btree::prefix_successor(key, &mut before) => {
                Bound::Excluded(before.as_slice())
            }
            Some((_, true)) | None => Bound::Unbounded,
        };
        Ok(self.scan_tree(snapshot, index, tree, (lower, upper), direction))
    }

    fn scan_tree(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        index: usize,
        tree: &btree::BTree,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
    ) -> IndexScan {
        let direction = match direction {
            Direction::Forward => btree::Direction::Forward,
            Direction::Backward => btree::Direction::Backward,
        };
        IndexScan {
            table: Arc::clone(self),
            index,
            snapshot: snapshot.clone(),
            scan: tree.scan(lower, upper, direction),
            entries: LeafBatch::with_keys(),
            cancel: None,
        }
    }

    fn tree(&self, index: usize) -> EngineResult<&btree::BTree> {
        let what = "reading an index the table was opened without";
        self.indexes
            .get(index)
            .ok_or(EngineError::Unsupported { what })
    }

    /// Appends the visible rows whose key in `index` starts with `key` (is `key`, when that has
    /// all columns), in key order: the path of point reads.
    ///
    /// # Errors
    /// Damage; storage failures.
    pub fn index_lookup(
        &self,
        snapshot: &Snapshot,
        index: usize,
        key: &[u8],
        out: &mut RowBatch,
    ) -> EngineResult<()> {
        let mut viewer = Viewer::new(snapshot);
        let first = out.len();
        let wanted = |found: &[u8]| found.starts_with(key);
        let mut scratch = Vec::new();
        self.tree(index)?.lookup_prefix(key, &mut |tid| {
            let _frames = self.reserve_for_reading();
            let entry = Visited {
                index,
                tid,
                wanted: &wanted,
            };
            let (guard, found) = self.retry(|| {
                viewer.start_again();
                let mut guard = self.heap().read(tid.block)?;
                let found = self.visit(&entry, &mut guard, &mut viewer, &mut scratch)?;
                Ok((guard, found))
            })?;
            match found {
                Found::Row(link) => {
                    let tid = Tid::new(tid.block, link.slot);
                    // One chain can have entries under several keys (heap rule 7).
                    let again = link.header.is(HEAP_ONLY)
                        && (first..out.len()).any(|at| out.tid(at) == tid);
                    if !again {
                        out.push(tid, guard.row(link.offset, link.length));
                    }
                    Ok(Visit::Next)
                }
                Found::Dead => Ok(Visit::Dead),
                Found::Nothing => Ok(Visit::Next),
            }
        })?;
        self.counters().index_read(1, (out.len() - first) as u64);
        Ok(())
    }

    /// Follows an index entry. A row version other than its chain's root is taken only if its
    /// own key is one that is wanted.
    fn visit(
        &self,
        entry: &Visited<'_>,
        guard: &mut ReadGuard<'_>,
        viewer: &mut Viewer<'_>,
        scratch: &mut Vec<u8>,
    ) -> EngineResult<Found> {
        let Some(link) = find_visible(guard, entry.tid, Entry::Index, viewer)? else {
            let slot = entry.tid.slot;
            let dead = guard.is_heap() && guard.line_pointer(slot).state == LpState::Dead;
            return Ok(if dead { Found::Dead } else { Found::Nothing });
        };
        if link.header.is(HEAP_ONLY) {
            scratch.clear();
            let row = guard.row(link.offset, link.length);
            let kind = self.def.indexes[entry.index].key.key(row, scratch);
            if kind == KeyKind::Absent || !(entry.wanted)(scratch) {
                return Ok(Found::Nothing);
            }
        }
        Ok(Found::Row(link))
    }

    /// Appends the visible rows of a block, and prunes it if it is short of space.
    fn read_block(
        &self,
        snapshot: &Snapshot,
        block: BlockNumber,
        strategy: Strategy<'_>,
        out: &mut RowBatch,
    ) -> EngineResult<()> {
        let _frames = self.reserve_for_reading();
        let before = out.len();
        let mut viewer = Viewer::new(snapshot);
        let guard = self.retry(|| {
            out.truncate(before);
            viewer.start_again();
            let mut guard = self.heap().read_with(block, strategy)?;
            read_page(&mut guard, block, &mut viewer, out)?;
            Ok(guard)
        })?;
        if guard.prune_xid().is_some() && guard.gap() < SHORT_OF_SPACE {
            let horizon = self.db.recent_horizon();
            if Self::prunable(&guard, &horizon)
                && let Ok(mut page) = guard.unlock().try_write()
            {
                self.prune_locked(&mut page, &horizon)?;
            }
        }
        Ok(())
    }

    /// The version that `snapshot` sees of the row at `tid`, or of the HOT chain that starts
    /// there.
    ///
    /// # Errors
    /// Damage; storage failures.
    pub fn fetch(&self, snapshot: &Snapshot, tid: Tid) -> EngineResult<Option<Row>> {
        let mut batch = RowBatch::new();
        if !self.fetch_into(snapshot, tid, &mut batch)? {
            return Ok(None);
        }
        Ok(Some(Row {
            tid: batch.tid(0),
            bytes: batch.row(0).to_vec(),
        }))
    }

    /// As [`Table::fetch`], appended to `out`; says whether there was one.
    ///
    /// # Errors
    /// Damage; storage failures.
    pub fn fetch_into(
        &self,
        snapshot: &Snapshot,
        tid: Tid,
        out: &mut RowBatch,
    ) -> EngineResult<bool> {
        if tid.block.0 >= self.blocks() {
            return Ok(false);
        }
        let _frames = self.reserve_for_reading();
        let mut viewer = Viewer::new(snapshot);
        let (guard, found) = self.retry(|| {
            viewer.start_again();
            let mut guard = self.heap().read(tid.block)?;
            let found = find_visible(&mut guard, tid, Entry::Version, &mut viewer)?;
            Ok((guard, found))
        })?;
        if let Some(link) = found {
            out.push(
                Tid::new(tid.block, link.slot),
                guard.row(link.offset, link.length),
            );
        }
        Ok(found.is_some())
    }

    /// The row at exactly `tid`, whatever a snapshot says of it: for a version this transaction
    /// has locked, as after [`super::Modified::Changed`].
    ///
    /// # Errors
    /// Damage; storage failures.
    pub fn fetch_locked(&self, _txn: &Transaction, tid: Tid) -> EngineResult<Option<Row>> {
        if tid.block.0 >= self.blocks() {
            return Ok(None);
        }
        let guard = self.heap().read(tid.block)?;
        let found = guard.is_heap().then(|| guard.tuple_at(tid.slot)).flatten();
        Ok(found.map(|(offset, length)| Row {
            tid,
            bytes: guard.row(offset, length).to_vec(),
        }))
    }
}
