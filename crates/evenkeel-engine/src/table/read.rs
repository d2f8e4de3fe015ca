//! Reading a table: heap scans, index scans, fetches by place.

use std::ops::{Bound, Range};
use std::sync::Arc;

use evenkeel_storage::buffer::{ReadGuard, Strategy};
use evenkeel_storage::page::PageRead;
use evenkeel_storage::{BlockNumber, Lsn};
use smallvec::SmallVec;

use super::pass::Pass;
use super::young::HeapOrder;
use super::{Direction, KeyKind, KeyRange, Table};
use crate::btree::{self, LeafBatch, TreeScan, Visit};
use crate::error::{EngineError, EngineResult};
use crate::heap::layout::{HeapRead, LpState, PAGE_CAPACITY};
use crate::heap::read::{Entry, Link, find_visible, read_page, whole};
use crate::heap::rows::{Row, RowBatch, RowHandle};
use crate::heap::visibility::VisibilityChecker;
use crate::mutant::Mutant;
use crate::ticket::CancelFlag;
use crate::txn::Snapshot;
use crate::types::{Tid, Xid};

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
        Ok(self.next_page_of(&mut whole, batch)?.is_some())
    }

    /// As [`Scan::next_page`], of each visible row as many of its first bytes as `wanted` says, or
    /// nothing. Returns how many visible rows the page has; none at the end. `wanted` is asked
    /// under the page lock, perhaps twice for a row: it must be quick.
    ///
    /// # Errors
    /// `Cancelled`; damage; storage failures.
    pub fn next_page_of(
        &mut self,
        wanted: &mut impl FnMut(&[u8]) -> Option<usize>,
        batch: &mut RowBatch,
    ) -> EngineResult<Option<u64>> {
        batch.clear();
        while let Some(block) = self.pass.next() {
            if let Some(flag) = &self.cancel {
                flag.check()?;
            }
            let at = (BlockNumber(block), self.pass.ring());
            let seen = self.table.read_block(&self.snapshot, at, wanted, batch)?;
            if seen > 0 {
                self.table.counters().sequential_read(0, seen);
                return Ok(Some(seen));
            }
        }
        Ok(None)
    }
}

/// An index scan: a leaf page's worth of rows at a time, in key order, nothing locked or pinned
/// between calls.
pub struct IndexScan {
    table: Arc<Table>,
    index: usize,
    snapshot: Snapshot,
    source: Source,
    cancel: Option<CancelFlag>,
    /// Whether it gives keys, and how many rows of the heap were looked at for that.
    keys_only: bool,
    heap_rows: u64,
}

/// Where an index scan takes its rows from.
enum Source {
    /// The index.
    Tree(TreeScan, LeafBatch),
    /// The heap: the index lacks versions that the snapshot sees.
    Heap(HeapOrder),
}

impl IndexScan {
    /// Makes the scan end with `Cancelled` when the flag is raised.
    #[must_use]
    pub fn cancelled_by(mut self, flag: &CancelFlag) -> IndexScan {
        self.cancel = Some(flag.clone());
        self
    }

    /// Makes the scan give the rows' keys in the place of their bytes. Where the visibility map
    /// says that a page's rows are visible to all, it is not read (TAB-19).
    #[must_use]
    pub fn keys_only(mut self) -> IndexScan {
        self.keys_only = true;
        if let Source::Tree(_, entries) = &mut self.source {
            *entries = LeafBatch::with_keys();
        }
        self
    }

    /// The places of the next index page, whoever sees their rows; empty at the end. `None`: the
    /// index lacks versions that the snapshot sees.
    pub(super) fn next_tids(&mut self) -> EngineResult<Option<&[Tid]>> {
        match &mut self.source {
            Source::Tree(scan, entries) => {
                scan.next_page(entries)?;
                Ok(Some(entries.tids()))
            }
            Source::Heap(_) => Ok(None),
        }
    }

    /// Blocks of its table.
    pub(super) fn blocks(&self) -> u32 {
        self.table.blocks()
    }

    /// The rows of the heap that were looked at since the last call, to see whether keys are those
    /// of visible rows.
    pub fn take_heap_rows(&mut self) -> u64 {
        std::mem::take(&mut self.heap_rows)
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
            let more = match &mut self.source {
                Source::Tree(scan, entries) => {
                    let more = scan.next_page(entries)?;
                    let at = (self.index, &self.snapshot);
                    if self.keys_only {
                        self.heap_rows += self.table.keys_of_entries(at, entries, batch)?;
                    } else {
                        self.table
                            .visit_entries(at, entries, 0..entries.len(), batch)?;
                    }
                    more
                }
                Source::Heap(order) => {
                    let cancel = self.cancel.as_ref();
                    let more = order.next_page(&self.table, &self.snapshot, cancel, batch)?;
                    if self.keys_only {
                        self.heap_rows += batch.len() as u64;
                        self.table.keys_of_rows(self.index, batch)?;
                    }
                    more
                }
            };
            if !more {
                return Ok(false);
            }
        }
        batch.read_under(0, &self.snapshot);
        self.table.counters().index_read(0, batch.len() as u64);
        Ok(true)
    }
}

/// The result of following an index entry.
enum Found {
    Row(Link),
    /// Nothing that any snapshot will ever see, as the heap page says, which has this LSN.
    Dead(Lsn),
    Nothing,
}

/// Which of some places have visible rows, and which have rows that nobody will see, with the LSN
/// of the page that says so.
#[derive(Default)]
pub(super) struct Visited {
    kept: SmallVec<[usize; 16]>,
    dead: SmallVec<[(usize, Lsn); 4]>,
}

/// Follows an index entry. All versions of a chain that a snapshot may see and that can use the
/// index share their key (TAB-9), and a slot that was given to another row since the
/// entry was read holds nothing that the snapshot sees.
fn visit(
    tid: Tid,
    guard: &mut ReadGuard<'_>,
    checker: &mut VisibilityChecker<'_>,
) -> EngineResult<Found> {
    if let Some(link) = find_visible(guard, tid, Entry::Index, checker)? {
        return Ok(Found::Row(link));
    }
    let dead = guard.is_heap() && guard.line_pointer(tid.slot).state == LpState::Dead;
    Ok(if dead {
        Found::Dead(guard.lsn())
    } else {
        Found::Nothing
    })
}

impl Table {
    /// Scans the whole heap with `snapshot`. A large one may begin in the middle, where another
    /// scan is (`synchronize_seqscans`).
    pub fn scan(self: &Arc<Self>, snapshot: &Snapshot) -> Scan {
        self.counters().sequential_read(1, 0);
        self.scan_from(snapshot, Pass::new(self, 0..self.blocks(), true))
    }

    /// As [`Table::scan`], from the first block to the last.
    pub fn scan_in_order(self: &Arc<Self>, snapshot: &Snapshot) -> Scan {
        self.counters().sequential_read(1, 0);
        self.scan_blocks(snapshot, 0..self.blocks())
    }

    /// Scans some blocks of the heap: parts of `0..blocks()`, for parallel scans.
    pub fn scan_blocks(self: &Arc<Self>, snapshot: &Snapshot, blocks: Range<u32>) -> Scan {
        self.scan_from(snapshot, Pass::new(self, blocks, false))
    }

    fn scan_from(self: &Arc<Self>, snapshot: &Snapshot, pass: Pass) -> Scan {
        Scan {
            table: Arc::clone(self),
            snapshot: snapshot.clone(),
            pass,
            cancel: None,
        }
    }

    /// Rows of an index range in key order.
    ///
    /// # Errors
    /// When the table was opened without an index of this number; storage failures.
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
                false => return self.scan_tree(snapshot, index, tree, EMPTY, direction),
            },
        };
        let upper = match &range.high {
            Some((key, false)) => Bound::Excluded(key.as_slice()),
            Some((key, true)) if btree::prefix_successor(key, &mut before) => {
                Bound::Excluded(before.as_slice())
            }
            Some((_, true)) | None => Bound::Unbounded,
        };
        self.scan_tree(snapshot, index, tree, (lower, upper), direction)
    }

    fn scan_tree(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        index: usize,
        tree: &btree::BTree,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
    ) -> EngineResult<IndexScan> {
        let source = if self.can_read_by(snapshot, index)? {
            let direction = match direction {
                Direction::Forward => btree::Direction::Forward,
                Direction::Backward => btree::Direction::Backward,
            };
            let scan = tree.scan(snapshot.into(), (lower, upper), direction);
            Source::Tree(scan, LeafBatch::new())
        } else {
            let range = (lower.map(<[u8]>::to_vec), upper.map(<[u8]>::to_vec));
            Source::Heap(HeapOrder::new(index, range, direction))
        };
        Ok(IndexScan {
            table: Arc::clone(self),
            index,
            snapshot: snapshot.clone(),
            source,
            cancel: None,
            keys_only: false,
            heap_rows: 0,
        })
    }

    /// The keys of a leaf's entries whose rows are visible; how many rows had to be looked at.
    ///
    /// A page that the map calls all-visible has no dead row. But the entry was copied before the
    /// map is read, and in between vacuum may have removed it with its row and marked the page; so
    /// the leaf is looked at once more behind that, and if it has changed, so are the rows.
    pub(super) fn keys_of_entries(
        &self,
        (index, snapshot): (usize, &Snapshot),
        entries: &LeafBatch,
        batch: &mut RowBatch,
    ) -> EngineResult<u64> {
        let tids = entries.tids();
        let mut visible = Vec::with_capacity(tids.len());
        {
            let _frames = self.reserve_for_reading();
            self.vm.visible_of(tids, &mut visible)?;
        }
        let trusts = self.has(Mutant::TrustStaleEntries);
        if !trusts && visible.contains(&true) && !self.indexes[index].is_unchanged(entries)? {
            visible.fill(false);
        }
        let (mut at, mut rows) = (0, 0);
        let mut found = RowBatch::new();
        while at < tids.len() {
            let run = visible[at..].iter();
            let run = at..at + run.take_while(|seen| **seen == visible[at]).count();
            if visible[at] {
                run.clone()
                    .for_each(|at| batch.push(tids[at], entries.key(at)));
            } else {
                found.clear();
                let kept =
                    self.visit_entries((index, snapshot), entries, run.clone(), &mut found)?;
                kept.into_iter()
                    .for_each(|at| batch.push(tids[at], entries.key(at)));
                rows += run.len() as u64;
            }
            at = run.end;
        }
        Ok(rows)
    }

    /// Puts the keys of rows into their places.
    fn keys_of_rows(&self, index: usize, batch: &mut RowBatch) -> EngineResult<()> {
        let extractor = &self.def.indexes[index].key;
        let (mut keys, mut key) = (RowBatch::new(), Vec::new());
        for (tid, row) in batch.iter() {
            key.clear();
            if extractor.key(row, &mut key)? != KeyKind::Absent {
                keys.push(tid, &key);
            }
        }
        *batch = keys;
        Ok(())
    }

    /// Copies the visible rows of some of a leaf's entries, and answers which these are. Others
    /// that nobody will see are marked.
    fn visit_entries(
        &self,
        (index, snapshot): (usize, &Snapshot),
        entries: &LeafBatch,
        range: Range<usize>,
        batch: &mut RowBatch,
    ) -> EngineResult<SmallVec<[usize; 16]>> {
        let first = range.start;
        let visited = self.visit_tids(snapshot, &entries.tids()[range], batch)?;
        if !visited.dead.is_empty() {
            let dead = visited.dead.into_iter();
            let dead = dead.map(|(at, since)| (first + at, since));
            self.indexes[index].mark_dead(entries, dead)?;
        }
        Ok(visited.kept.into_iter().map(|at| first + at).collect())
    }

    /// Copies the visible rows of places that an index has given; neighbours on one heap page share
    /// a visit.
    pub(super) fn visit_tids(
        &self,
        snapshot: &Snapshot,
        tids: &[Tid],
        batch: &mut RowBatch,
    ) -> EngineResult<Visited> {
        let mut checker = VisibilityChecker::new(snapshot);
        let mut visited = Visited::default();
        let mut next = 0;
        while next < tids.len() {
            let block = tids[next].block;
            let _frames = self.reserve_for_reading();
            let mut guard = self.heap().read(block)?;
            let mut missed = None;
            while next < tids.len() && tids[next].block == block {
                let found = match visit(tids[next], &mut guard, &mut checker) {
                    Err(EngineError::StatusNotInMemory { xid }) => {
                        missed = Some(xid);
                        break;
                    }
                    found => found?,
                };
                match found {
                    Found::Row(link) => {
                        let row = guard.row(link.offset, link.length);
                        batch.push(Tid::new(block, link.slot), row);
                        visited.kept.push(next);
                    }
                    Found::Dead(since) => visited.dead.push((next, since)),
                    Found::Nothing => {}
                }
                next += 1;
            }
            if let Some(xid) = missed {
                // With the page let go of; this entry is visited again.
                drop(guard);
                checker.start_again();
                self.db.xid_status(xid)?;
            }
        }
        Ok(visited)
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
        let tree = self.tree(index)?;
        let first = out.len();
        if !self.can_read_by(snapshot, index)? {
            self.lookup_in_heap(snapshot, index, key, out)?;
            self.counters().index_read(1, (out.len() - first) as u64);
            return Ok(());
        }
        let mut checker = VisibilityChecker::new(snapshot);
        tree.lookup_prefix(snapshot.into(), key, &mut |tid| {
            let _frames = self.reserve_for_reading();
            let (guard, found) = self.retry(|| {
                checker.start_again();
                let mut guard = self.heap().read(tid.block)?;
                let found = visit(tid, &mut guard, &mut checker)?;
                Ok((guard, found))
            })?;
            match found {
                Found::Row(link) => {
                    let tid = Tid::new(tid.block, link.slot);
                    out.push(tid, guard.row(link.offset, link.length));
                    Ok(Visit::Next)
                }
                Found::Dead(since) => Ok(Visit::Dead(since)),
                Found::Nothing => Ok(Visit::Next),
            }
        })?;
        out.read_under(first, snapshot);
        self.counters().index_read(1, (out.len() - first) as u64);
        Ok(())
    }

    /// Appends the visible rows of a block as [`read_page`] does, and prunes it if it is short of
    /// space.
    pub(super) fn read_block(
        &self,
        snapshot: &Snapshot,
        (block, strategy): (BlockNumber, Strategy<'_>),
        wanted: &mut impl FnMut(&[u8]) -> Option<usize>,
        out: &mut RowBatch,
    ) -> EngineResult<u64> {
        let _frames = self.reserve_for_reading();
        let before = out.len();
        let mut checker = VisibilityChecker::new(snapshot);
        let (guard, seen) = self.retry(|| {
            out.truncate(before);
            checker.start_again();
            let mut guard = self.heap().read_with(block, strategy)?;
            let seen = read_page(&mut guard, block, &mut checker, wanted, out)?;
            Ok((guard, seen))
        })?;
        out.read_under(before, snapshot);
        if guard.prune_xid().is_some() && guard.gap() < SHORT_OF_SPACE {
            let horizon = self.db.recent_horizon();
            if self.prunable(&guard, &horizon)
                && let Ok(mut page) = guard.unlock().try_write()
            {
                self.prune_locked(&mut page, &horizon)?;
            }
        }
        Ok(seen)
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
        let mut checker = VisibilityChecker::new(snapshot);
        let (guard, found) = self.retry(|| {
            checker.start_again();
            let mut guard = self.heap().read(tid.block)?;
            let found = find_visible(&mut guard, tid, Entry::Version, &mut checker)?;
            Ok((guard, found))
        })?;
        if let Some(link) = found {
            out.push(
                Tid::new(tid.block, link.slot),
                guard.row(link.offset, link.length),
            );
            out.read_under(out.len() - 1, snapshot);
        }
        Ok(found.is_some())
    }

    /// The version itself, whatever a snapshot says of it: for one this transaction has locked, as
    /// after [`super::Modified::Changed`].
    ///
    /// # Errors
    /// Damage; storage failures.
    pub fn fetch_locked(&self, row: RowHandle<'_>) -> EngineResult<Option<Row>> {
        let tid = row.place()?;
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

    /// Which transactions and commands made and ended the version, as it is now; none if it is not
    /// there.
    ///
    /// # Errors
    /// Damage; storage failures.
    pub fn version_marks(&self, row: RowHandle<'_>) -> EngineResult<Option<VersionMarks>> {
        let tid = row.place()?;
        if tid.block.0 >= self.blocks() {
            return Ok(None);
        }
        let guard = self.heap().read(tid.block)?;
        let found = guard.is_heap().then(|| guard.tuple_at(tid.slot)).flatten();
        Ok(found.map(|(offset, _)| {
            let header = guard.header(offset);
            VersionMarks {
                xmin: header.xmin,
                xmax: header.xmax,
                command: header.cid,
            }
        }))
    }
}

/// The marks of a version's header, whatever became of the transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionMarks {
    /// The transaction that made it.
    pub xmin: Xid,
    /// The one that deleted or replaced it, or tried to; 0 if none did.
    pub xmax: Xid,
    /// The number of the command that made it, or of the one that ended it; or of both.
    pub command: u32,
}
