//! Bulk deletion: every block in physical order, entries the caller names removed, empty pages
//! deleted, pages nobody can reach listed for use.

use std::sync::atomic::Ordering;

use evenkeel_storage::buffer::Strategy;
use evenkeel_storage::page::PageRead;
use evenkeel_storage::{BlockNumber, Lsn, PartFlags, RemovalLsn};

use super::BTree;
use super::order::Sound;
use super::page::{Fault, NO_BLOCK, Node, flag};
use super::redo::{self, op};
use super::shared::Shared;
use crate::error::EngineResult;
use crate::types::{Tid, Xid};

/// Decides when a deleted page can be used again.
pub trait RecycleHorizon {
    /// The newest commit that removed a row whose entries the run removes.
    fn removal(&self) -> Lsn;
    /// A number for a page that is being unlinked now. Every transaction and snapshot that
    /// exists at this moment is older.
    fn stamp(&self) -> u64;
    /// Whether no transaction or snapshot is left that is older than `stamp`.
    fn is_past(&self, stamp: u64) -> bool;
}

/// Where a bulk deletion is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VacuumStep {
    /// Blocks seen.
    pub blocks_done: u32,
    /// Blocks there are.
    pub blocks: u32,
}

/// Results of a bulk deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BulkDeleteStats {
    /// Blocks of the file.
    pub blocks: u32,
    /// Entries left.
    pub entries: u64,
    /// Entries removed.
    pub removed: u64,
    /// Pages unlinked by this run.
    pub pages_deleted: u64,
    /// Pages that can be used again.
    pub pages_free: u64,
}

struct Vacuum<'a> {
    is_dead: &'a mut dyn FnMut(Tid) -> bool,
    horizon: &'a dyn RecycleHorizon,
    cycle: u64,
    ring: Strategy<'a>,
    stats: BulkDeleteStats,
    found: Vec<(BlockNumber, Option<u64>)>,
}

/// The action that a page needs once its lock is released.
enum Next {
    Nothing,
    FinishSplit,
    Unlink,
    /// With the newest commit that removed a row of the leaf's.
    DeleteLeaf(Lsn),
}

/// Ends the vacuum's number however the vacuum ends.
struct Cycle<'a>(&'a Shared);

impl Drop for Cycle<'_> {
    fn drop(&mut self) {
        self.0.vacuum_cycle.store(0, Ordering::SeqCst);
    }
}

impl BTree {
    /// Removes every entry whose tid `is_dead` names and that was in the tree when this began.
    /// Deletes pages that became empty. One runs at a time; readers and writers go on.
    ///
    /// `is_dead` runs under a page lock: it must not read pages. `progress` runs under none; an
    /// error it returns ends the run, with what was done so far in place.
    ///
    /// # Errors
    /// Errors of `progress`; damage; storage failures.
    pub fn bulk_delete(
        &self,
        is_dead: &mut dyn FnMut(Tid) -> bool,
        horizon: &dyn RecycleHorizon,
        progress: &mut dyn FnMut(VacuumStep) -> EngineResult<()>,
    ) -> EngineResult<BulkDeleteStats> {
        self.bulk_delete_with(is_dead, horizon, progress, None)
    }

    /// [`BTree::bulk_delete`] within a ring.
    ///
    /// # Errors
    /// Those of [`BTree::bulk_delete`].
    pub fn bulk_delete_with(
        &self,
        is_dead: &mut dyn FnMut(Tid) -> bool,
        horizon: &dyn RecycleHorizon,
        progress: &mut dyn FnMut(VacuumStep) -> EngineResult<()>,
        ring: Strategy<'_>,
    ) -> EngineResult<BulkDeleteStats> {
        let _alone = self.shared.vacuum.lock();
        let cycle = Shared::next_cycle();
        // Before any page is read (BT-8).
        self.shared.vacuum_cycle.store(cycle, Ordering::SeqCst);
        let _ends = Cycle(&self.shared);
        let _frames = self.reserve_frames();
        let stats = BulkDeleteStats::default();
        let mut vacuum = Vacuum {
            is_dead,
            horizon,
            cycle,
            ring,
            stats,
            found: Vec::new(),
        };
        let mut at = 1;
        // A page split meanwhile may have got its right half at the new end of the file.
        while at < self.blocks() {
            let blocks = self.blocks();
            for block in at..blocks {
                progress(VacuumStep {
                    blocks_done: block,
                    blocks,
                })?;
                vacuum.visit(self, BlockNumber(block))?;
            }
            at = blocks;
        }
        let mut free = self.shared.free.lock();
        free.replace(vacuum.found);
        vacuum.stats.pages_free = free.len() as u64;
        vacuum.stats.blocks = at;
        Ok(vacuum.stats)
    }
}

impl Vacuum<'_> {
    /// Deals with the page at `block` and with those that got entries from it behind the scan's
    /// back.
    fn visit(&mut self, tree: &BTree, scan: BlockNumber) -> EngineResult<()> {
        let mut block = scan;
        loop {
            let (next, behind) = self.visit_page(tree, block, scan)?;
            match next {
                Next::FinishSplit => tree.finish_split(Xid::NONE, block)?,
                Next::Unlink => {
                    let removal = tree.store().removal_bound();
                    self.stats.pages_deleted += tree.unlink_branch(block, self.horizon, removal)?;
                }
                Next::DeleteLeaf(removal) => {
                    self.stats.pages_deleted += tree.delete_leaf(block, self.horizon, removal)?;
                }
                Next::Nothing => {}
            }
            match behind {
                Some(right) => block = right,
                None => return Ok(()),
            }
        }
    }
}

impl Vacuum<'_> {
    /// Deals with one page; answers what is to be done with it, and the page that got entries
    /// from it during this run and lies in the part of the file that has been passed.
    fn visit_page(
        &mut self,
        tree: &BTree,
        block: BlockNumber,
        scan: BlockNumber,
    ) -> EngineResult<(Next, Option<BlockNumber>)> {
        loop {
            let page = tree.fork().read_with(block, self.ring)?;
            if page.is_new() {
                self.found.push((block, None));
                return Ok((Next::Nothing, None));
            }
            let fault = |fault| tree.damaged(block, fault);
            let node = Node::of(&page).map_err(fault)?;
            let header = node.header;
            if header.is(flag::DELETED) {
                if self.horizon.is_past(header.extra) {
                    self.found.push((block, Some(header.extra)));
                }
                return Ok((Next::Nothing, None));
            }
            if header.is(flag::HALF_DEAD) {
                return Ok((Next::Unlink, None));
            }
            let mut next = Next::Nothing;
            if header.is(flag::INCOMPLETE_SPLIT) {
                next = Next::FinishSplit;
            }
            if !node.is_leaf() {
                return Ok((next, None));
            }
            let dead = self.dead_slots(&node).map_err(fault)?;
            let left = node.len() - dead.len();
            let lsn = page.lsn();
            drop(page);
            let removal = self.horizon.removal();
            let expected = Expected { block, lsn };
            if !dead.is_empty() && !delete_slots(tree, expected, &dead, removal, self.ring)? {
                continue;
            }
            self.stats.entries += left as u64;
            self.stats.removed += dead.len() as u64;
            if left == 0 && !header.is(flag::INCOMPLETE_SPLIT) {
                next = Next::DeleteLeaf(match dead.is_empty() {
                    true => tree.store().removal_bound(),
                    false => removal,
                });
            }
            let right = header.right;
            let moved = header.extra == self.cycle && right != NO_BLOCK && right < scan;
            return Ok((next, moved.then_some(right)));
        }
    }

    fn dead_slots<P: PageRead>(&mut self, node: &Node<'_, P>) -> Result<Vec<u16>, Fault> {
        let mut dead = Vec::new();
        for slot in node.first()..node.end() {
            if (self.is_dead)(node.entry(slot)?.tid.tid()) {
                dead.push(slot);
            }
        }
        Ok(dead)
    }
}

/// A leaf as it was found.
#[derive(Clone, Copy)]
struct Expected {
    block: BlockNumber,
    lsn: Lsn,
}

/// Removes entries of a leaf; false when it has changed since they were found.
fn delete_slots(
    tree: &BTree,
    leaf: Expected,
    slots: &[u16],
    removal: Lsn,
    ring: Strategy<'_>,
) -> EngineResult<bool> {
    tree.store().admit()?;
    let mut page = tree.fork().write_with(leaf.block, ring)?;
    if page.lsn() != leaf.lsn {
        return Ok(false);
    }
    let sound = Sound::before(&page);
    let mut change = tree.store().change(Xid::NONE.get());
    change.removes(RemovalLsn::Commit(removal));
    change.part(
        &mut page,
        op::DELETE_ITEMS,
        PartFlags::NONE,
        &redo::encode_slots(slots),
    );
    change.commit();
    sound.assert_after(&page);
    Ok(true)
}
