//! Reading: point look-ups and range scans, a leaf at a time, nothing locked or pinned between.

use std::ops::{Bound, Range};

use evenkeel_storage::buffer::ReadGuard;
use evenkeel_storage::mutant::Mutant;
use evenkeel_storage::page::PageRead;
use evenkeel_storage::{BlockNumber, Lsn};
use smallvec::SmallVec;

use super::key::{Position, TidOrder};
use super::page::{Fault, NO_BLOCK, Node, dead_hint, flag};
use super::{BTree, Visit};
use crate::error::EngineResult;
use crate::txn::Snapshot;
use crate::types::Tid;

/// Somebody who may read a tree beside writers: while it lasts no page that a read can come to is
/// used for something else (BT-7).
///
/// ```no_run
/// use evenkeel_engine::Snapshot;
/// use evenkeel_engine::btree::{BTree, Visit};
/// fn with_a_snapshot(tree: &BTree, snapshot: &Snapshot) {
///     tree.lookup(snapshot.into(), b"key", &mut |_| Ok(Visit::Next)).unwrap();
/// }
/// ```
///
/// ```compile_fail,E0061
/// use evenkeel_engine::btree::{BTree, Visit};
/// fn by_chance(tree: &BTree) {
///     tree.lookup(b"key", &mut |_| Ok(Visit::Next)).unwrap();
/// }
/// ```
///
/// ```compile_fail,E0277
/// use evenkeel_engine::Transaction;
/// use evenkeel_engine::btree::{BTree, Visit};
/// fn without_a_snapshot(tree: &BTree, txn: &Transaction) {
///     // It need not have an id.
///     tree.lookup(txn.into(), b"key", &mut |_| Ok(Visit::Next)).unwrap();
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TreeReader<'a>(Option<&'a Snapshot>);

impl<'a> From<&'a Snapshot> for TreeReader<'a> {
    fn from(snapshot: &'a Snapshot) -> TreeReader<'a> {
        TreeReader(Some(snapshot))
    }
}

impl TreeReader<'_> {
    /// Of a tree that nobody writes or vacuums as long as it is read: one that is verified.
    pub(crate) fn alone() -> TreeReader<'static> {
        TreeReader(None)
    }

    /// Of a transaction that has an id.
    pub(crate) fn of_writer() -> TreeReader<'static> {
        TreeReader(None)
    }
}

/// The order of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Backward,
}

/// A leaf as it was when entries were copied from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafStamp {
    block: BlockNumber,
    lsn: Lsn,
}

/// Entries copied from one leaf, in the order of the scan.
#[derive(Debug, Default)]
pub struct LeafBatch {
    tids: Vec<Tid>,
    slots: Vec<u16>,
    keys: Vec<u8>,
    key_ends: Vec<usize>,
    with_keys: bool,
    stamp: Option<LeafStamp>,
}

impl LeafBatch {
    /// A batch for tids only.
    pub fn new() -> LeafBatch {
        LeafBatch::default()
    }

    /// A batch that also receives the keys.
    pub fn with_keys() -> LeafBatch {
        LeafBatch {
            with_keys: true,
            ..LeafBatch::default()
        }
    }

    /// The tids.
    pub fn tids(&self) -> &[Tid] {
        &self.tids
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.tids.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tids.is_empty()
    }

    /// The key of entry `at`; empty unless the batch is one [`LeafBatch::with_keys`].
    ///
    /// # Panics
    /// When the batch has keys and `at` is not less than [`LeafBatch::len`].
    pub fn key(&self, at: usize) -> &[u8] {
        if !self.with_keys {
            return &[];
        }
        let start = at.checked_sub(1).map_or(0, |before| self.key_ends[before]);
        &self.keys[start..self.key_ends[at]]
    }

    fn clear(&mut self) {
        self.tids.clear();
        self.slots.clear();
        self.keys.clear();
        self.key_ends.clear();
        self.stamp = None;
    }

    fn copy<P: PageRead>(
        &mut self,
        node: &Node<'_, P>,
        slots: Range<u16>,
        direction: Direction,
    ) -> Result<(), Fault> {
        match direction {
            Direction::Forward => slots.into_iter().try_for_each(|slot| self.push(node, slot)),
            Direction::Backward => slots.rev().try_for_each(|slot| self.push(node, slot)),
        }
    }

    fn push<P: PageRead>(&mut self, node: &Node<'_, P>, slot: u16) -> Result<(), Fault> {
        if node.is_dead(slot) {
            return Ok(());
        }
        let entry = node.entry(slot)?;
        self.tids.push(entry.tid.tid());
        self.slots.push(slot);
        if self.with_keys {
            self.keys.extend_from_slice(entry.key);
            self.key_ends.push(self.keys.len());
        }
        Ok(())
    }
}

/// A position that owns its key.
#[derive(Clone, Debug)]
enum Edge {
    Open,
    At(Vec<u8>, TidOrder),
}

impl Edge {
    /// Where a scan begins: everything in range is at or behind it.
    fn lower(bound: Bound<&[u8]>) -> Edge {
        match bound {
            Bound::Unbounded => Edge::Open,
            Bound::Included(key) => Edge::At(key.to_vec(), TidOrder::LEAST),
            Bound::Excluded(key) => Edge::At(key.to_vec(), TidOrder::GREATEST),
        }
    }

    /// Where a scan ends: everything in range is before it.
    fn upper(bound: Bound<&[u8]>) -> Edge {
        match bound {
            Bound::Unbounded => Edge::Open,
            Bound::Included(key) => Edge::At(key.to_vec(), TidOrder::GREATEST),
            Bound::Excluded(key) => Edge::At(key.to_vec(), TidOrder::LEAST),
        }
    }

    fn position(&self) -> Option<Position<'_>> {
        match self {
            Edge::Open => None,
            Edge::At(key, tid) => Some(Position::new(key, *tid)),
        }
    }

    fn set(&mut self, at: &Position<'_>) {
        match self {
            Edge::Open => *self = Edge::At(at.key.to_vec(), at.tid),
            Edge::At(key, tid) => {
                key.clear();
                key.extend_from_slice(at.key);
                *tid = at.tid;
            }
        }
    }
}

/// A range scan. It holds nothing between calls but the numbers of the pages to go on at, which
/// stay good as the snapshot that it holds keeps deleted pages from being used again (btree
/// BT-7).
pub struct TreeScan {
    tree: BTree,
    _held: Option<Snapshot>,
    cursor: Cursor,
}

struct Cursor {
    direction: Direction,
    /// Entries before it are out of range.
    lower: Edge,
    /// Entries at or behind it are out of range, or have been returned going backward.
    upper: Edge,
    next: Next,
    /// How often in a row the page to the left was not found by its link.
    lost: u32,
}

/// So often a scan looks for its left neighbour anew before it calls the links damaged.
const LOST_MOST: u32 = 10_000;

#[derive(Clone, Copy, Debug)]
enum Next {
    /// Descend to the edge.
    Descend,
    /// Going forward: this page.
    Right(BlockNumber),
    /// Going backward: the page left of `from`, which was `left` when `from` was read.
    Left {
        from: BlockNumber,
        left: BlockNumber,
    },
    End,
}

impl BTree {
    /// Scans the entries with keys in a range. Equal keys come in the order of their tids (or
    /// the reverse, going backward).
    pub fn scan(
        &self,
        reader: TreeReader<'_>,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
    ) -> TreeScan {
        let (lower, upper) = (Edge::lower(lower), Edge::upper(upper));
        TreeScan {
            tree: self.clone(),
            _held: reader.0.cloned(),
            cursor: Cursor {
                direction,
                lower,
                upper,
                next: Next::Descend,
                lost: 0,
            },
        }
    }

    /// Visits the entries with exactly this key in the order of their tids, until `visit` says
    /// stop. No page is locked while it runs. Does not allocate when there are few.
    ///
    /// # Errors
    /// Errors of `visit`; damage; storage failures.
    pub fn lookup(
        &self,
        _reader: TreeReader<'_>,
        key: &[u8],
        visit: &mut dyn FnMut(Tid) -> EngineResult<Visit>,
    ) -> EngineResult<()> {
        self.visit_while(key, &|found| found == key, visit)
    }

    /// Visits the entries whose key starts with `prefix`, in key order, as [`BTree::lookup`].
    ///
    /// # Errors
    /// As [`BTree::lookup`].
    pub fn lookup_prefix(
        &self,
        _reader: TreeReader<'_>,
        prefix: &[u8],
        visit: &mut dyn FnMut(Tid) -> EngineResult<Visit>,
    ) -> EngineResult<()> {
        self.visit_while(prefix, &|found| found.starts_with(prefix), visit)
    }

    fn visit_while(
        &self,
        from: &[u8],
        wanted: &dyn Fn(&[u8]) -> bool,
        visit: &mut dyn FnMut(Tid) -> EngineResult<Visit>,
    ) -> EngineResult<()> {
        let position = Position::new(from, TidOrder::LEAST);
        let mut page = self.covering(&position, 0)?;
        let mut found: SmallVec<[(Tid, u16); 16]> = SmallVec::new();
        loop {
            let block = page.block();
            let fault = |fault| self.damaged(block, fault);
            let node = self.node(&page, block, 0)?;
            let more = collect(&node, &position, wanted, &mut found).map_err(fault)?;
            let next = if more { node.header.right } else { NO_BLOCK };
            let stamp = LeafStamp {
                block,
                lsn: page.lsn(),
            };
            drop(page);
            if self.visit_found(stamp, &found, visit)? || next == NO_BLOCK {
                return Ok(());
            }
            found.clear();
            page = self.fork().read(next)?;
        }
    }

    /// Visits what was found on one leaf; whether to stop.
    fn visit_found(
        &self,
        stamp: LeafStamp,
        found: &[(Tid, u16)],
        visit: &mut dyn FnMut(Tid) -> EngineResult<Visit>,
    ) -> EngineResult<bool> {
        let mut dead: SmallVec<[(u16, Lsn); 16]> = SmallVec::new();
        let mut stop = false;
        for (tid, slot) in found {
            match visit(*tid)? {
                Visit::Next => {}
                Visit::Dead(since) => dead.push((*slot, since)),
                Visit::Stop => {
                    stop = true;
                    break;
                }
            }
        }
        self.hint_dead(stamp, dead.into_iter())?;
        Ok(stop)
    }

    /// Hints that some entries of a batch lead to row versions that no snapshot, present or
    /// future, can see, each with the LSN of the newest record that this rests on: scans skip
    /// them from now on, and an insert that needs room removes them. Does nothing when the leaf
    /// has changed since the batch was copied, and leaves out entries whose record is not
    /// durable (BT-10).
    ///
    /// # Errors
    /// Storage failures while reading the page.
    pub fn mark_dead(
        &self,
        batch: &LeafBatch,
        entries: impl Iterator<Item = (usize, Lsn)>,
    ) -> EngineResult<()> {
        let Some(stamp) = batch.stamp else {
            return Ok(());
        };
        let slot = |(at, since): (usize, Lsn)| Some((*batch.slots.get(at)?, since));
        self.hint_dead(stamp, entries.filter_map(slot))
    }

    /// Whether the leaf that a batch was copied from is as it was then, but for hints.
    ///
    /// # Errors
    /// Storage failures while reading the page.
    pub fn is_unchanged(&self, batch: &LeafBatch) -> EngineResult<bool> {
        let Some(stamp) = batch.stamp else {
            return Ok(false);
        };
        Ok(self.fork().read(stamp.block)?.lsn() == stamp.lsn)
    }

    fn hint_dead(
        &self,
        stamp: LeafStamp,
        slots: impl Iterator<Item = (u16, Lsn)>,
    ) -> EngineResult<()> {
        // A hint does not move the leaf's LSN, so the leaf may go home before the log that the
        // hint rests on. Were that lost, the row would live again without an entry.
        let early = self.store().config().has(Mutant::HintDeadEarly);
        let durable = self.store().log().durable_lsn();
        let mut slots = slots
            .filter(|(_, since)| *since < durable || early)
            .map(|(slot, _)| slot)
            .peekable();
        if slots.peek().is_none() {
            return Ok(());
        }
        // First: who finds a hint knows the bound of the rows it is about.
        self.shared.will_hint();
        let mut page = self.fork().read(stamp.block)?;
        // Every change but a hint moves the LSN, so the slots still are the entries that were
        // looked up, and their tids have not been used for other rows: vacuum would have had
        // to remove the entries first.
        if page.lsn() == stamp.lsn
            && let Some(mut hint) = page.try_hint()
        {
            for slot in slots {
                let (offset, bits) = dead_hint(slot);
                hint.or_u64(offset, bits);
            }
        }
        Ok(())
    }
}

/// Copies the wanted entries at or behind `position`; whether the next page may have more.
fn collect(
    node: &Node<'_, ReadGuard<'_>>,
    position: &Position<'_>,
    wanted: &dyn Fn(&[u8]) -> bool,
    found: &mut SmallVec<[(Tid, u16); 16]>,
) -> Result<bool, Fault> {
    if !node.header.is_ignored() {
        for slot in node.lower_bound(position)?..node.end() {
            let entry = node.entry(slot)?;
            if !wanted(entry.key) {
                return Ok(false);
            }
            if !node.is_dead(slot) {
                found.push((entry.tid.tid(), slot));
            }
        }
    }
    // The page covers `position`, so its high key is greater: wanted itself, or greater than
    // everything wanted.
    Ok(node.high_key()?.is_some_and(|high| wanted(high.key)))
}

impl TreeScan {
    /// Replaces the batch by the entries of the next leaf that has any in range; false at the
    /// end.
    ///
    /// # Errors
    /// Damage; storage failures.
    pub fn next_page(&mut self, batch: &mut LeafBatch) -> EngineResult<bool> {
        batch.clear();
        while batch.is_empty() {
            let Some(page) = self.cursor.next_leaf(&self.tree)? else {
                return Ok(false);
            };
            let block = page.block();
            let node = self.tree.node(&page, block, 0)?;
            batch.stamp = Some(LeafStamp {
                block,
                lsn: page.lsn(),
            });
            let copied = match self.cursor.direction {
                Direction::Forward => self.cursor.copy_forward(&node, batch),
                Direction::Backward => self.cursor.copy_backward(&node, block, batch),
            };
            copied.map_err(|fault| self.tree.damaged(block, fault))?;
        }
        Ok(true)
    }
}

impl Cursor {
    fn next_leaf<'t>(&mut self, tree: &'t BTree) -> EngineResult<Option<ReadGuard<'t>>> {
        loop {
            match self.next {
                Next::End => return Ok(None),
                Next::Descend => {
                    let position = match self.direction {
                        Direction::Forward => self.lower.position().unwrap_or(Position::start()),
                        Direction::Backward => self.upper.position().unwrap_or(Position::end()),
                    };
                    return tree.covering(&position, 0).map(Some);
                }
                Next::Right(block) => return Ok(Some(tree.fork().read(block)?)),
                Next::Left { from, left } => {
                    let page = tree.fork().read(left)?;
                    let header = tree.node(&page, left, 0)?.header;
                    if header.right == from && !header.is_ignored() {
                        self.lost = 0;
                        return Ok(Some(page));
                    }
                    self.lost += 1;
                    if self.lost > LOST_MOST {
                        return Err(tree.damaged(from, Fault("left link does not lead back")));
                    }
                    // The page was split or deleted since: find the place anew, unless it only
                    // waits to be unlinked.
                    self.next = if header.right != from || header.is(flag::DELETED) {
                        Next::Descend
                    } else if header.left == NO_BLOCK {
                        Next::End
                    } else {
                        Next::Left {
                            from: left,
                            left: header.left,
                        }
                    };
                }
            }
        }
    }

    fn copy_forward<P: PageRead>(
        &mut self,
        node: &Node<'_, P>,
        batch: &mut LeafBatch,
    ) -> Result<(), Fault> {
        let right = node.header.right;
        let next = if right == NO_BLOCK {
            Next::End
        } else {
            Next::Right(right)
        };
        if node.header.is_ignored() {
            self.next = next;
            return Ok(());
        }
        let start = match (self.next, self.lower.position()) {
            (Next::Descend, Some(lower)) => node.lower_bound(&lower)?,
            _ => node.first(),
        };
        let mut end = node.end();
        self.next = next;
        if let Some(upper) = self.upper.position() {
            end = node.lower_bound(&upper)?;
            let beyond = node
                .high_key()?
                .is_some_and(|high| upper.compare(high.key, high.tid).is_le());
            if end < node.end() || beyond {
                self.next = Next::End;
            }
        }
        batch.copy(node, start..end.max(start), Direction::Forward)
    }

    fn copy_backward<P: PageRead>(
        &mut self,
        node: &Node<'_, P>,
        block: BlockNumber,
        batch: &mut LeafBatch,
    ) -> Result<(), Fault> {
        let end = match self.upper.position() {
            Some(upper) => node.lower_bound(&upper)?,
            None => node.end(),
        };
        let start = match self.lower.position() {
            Some(lower) => node.lower_bound(&lower)?,
            None => node.first(),
        };
        batch.copy(node, start..end.max(start), Direction::Backward)?;
        let left = node.header.left;
        if start > node.first() || left == NO_BLOCK {
            self.next = Next::End;
            return Ok(());
        }
        // Everything from the page's first entry on has been seen.
        if end > node.first() {
            self.upper.set(&node.entry(node.first())?.position());
        }
        self.next = Next::Left { from: block, left };
        Ok(())
    }
}
