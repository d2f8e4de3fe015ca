//! Pages for the tree to grow into: deleted ones that nobody can reach, or new ones.

use evenkeel_storage::buffer::{Pin, WriteGuard};
use evenkeel_storage::page::PageRead;
use evenkeel_storage::{BlockNumber, RemovalLsn};

use super::BTree;
use super::page::{Node, flag};
use crate::error::EngineResult;

/// The most blocks a file grows by at once.
const EXTEND_MOST: u32 = 64;
/// A file grows by this part of its length.
const EXTEND_PART: u32 = 32;

/// Blocks that may be used. A list in memory: vacuum finds what it lacks.
#[derive(Debug, Default)]
pub(super) struct FreeBlocks {
    /// Found by vacuum: deleted pages with their stamp, and pages never initialised. This is
    /// advice; the page is compared with it, under its lock, before it is used.
    found: Vec<(BlockNumber, Option<u64>)>,
    /// Added to the file by this process, used by nothing, listed nowhere else.
    extended: Vec<BlockNumber>,
    /// As `extended`, and in the hands of an operation.
    held: Vec<BlockNumber>,
}

impl FreeBlocks {
    /// Replaces what vacuum found. A page never initialised is listed only if no operation is
    /// about to use it.
    pub fn replace(&mut self, found: Vec<(BlockNumber, Option<u64>)>) {
        self.found = found;
        let ours = |block: &BlockNumber| self.extended.contains(block) || self.held.contains(block);
        self.found
            .retain(|(block, stamp)| stamp.is_some() || !ours(block));
    }

    /// Lists blocks that were added to the file and are used by nothing.
    pub fn add_extended(&mut self, blocks: std::ops::Range<u32>) {
        self.extended.extend(blocks.rev().map(BlockNumber));
    }

    /// How many blocks are listed.
    pub fn len(&self) -> usize {
        self.found.len() + self.extended.len()
    }
}

/// A block for one new page. Dropped unused it is free again.
pub(super) struct Spare<'t> {
    tree: &'t BTree,
    /// Where.
    pub block: BlockNumber,
    kind: SpareKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SpareKind {
    Found(Option<u64>),
    Extended,
    Gone,
}

impl BTree {
    /// Finds a block for a new page. Takes no page lock.
    pub(super) fn allocate(&self) -> EngineResult<Spare<'_>> {
        let mut free = self.shared.free.lock();
        if let Some((block, stamp)) = free.found.pop() {
            return Ok(Spare {
                tree: self,
                block,
                kind: SpareKind::Found(stamp),
            });
        }
        if free.extended.is_empty() {
            // Under the list's lock: vacuum must not take the new pages for lost ones.
            let count = (self.fork().len() / EXTEND_PART).clamp(1, EXTEND_MOST);
            let first = self.fork().extend(count)?;
            free.extended
                .extend((first.0..first.0 + count).rev().map(BlockNumber));
        }
        let block = free.extended.pop().unwrap_or_default();
        free.held.push(block);
        Ok(Spare {
            tree: self,
            block,
            kind: SpareKind::Extended,
        })
    }
}

impl<'t> Spare<'t> {
    /// Pins the page.
    pub fn pin(&self) -> EngineResult<Pin<'t>> {
        let fork = self.tree.fork();
        Ok(match self.kind {
            SpareKind::Extended => fork.pin_new(self.block)?,
            SpareKind::Found(_) | SpareKind::Gone => fork.pin(self.block)?,
        })
    }

    /// Locks the page. None if it is not what the list said: it is in use, perhaps by the very
    /// operation that asks and has it locked. So what vacuum found is never waited for.
    pub fn lock<'p>(&self, pin: Pin<'p>) -> Option<WriteGuard<'p>> {
        let page = match self.kind {
            SpareKind::Extended => pin.write(),
            SpareKind::Found(_) | SpareKind::Gone => pin.try_write().ok()?,
        };
        self.is_usable(&page).then_some(page)
    }

    /// Whether the page, locked exclusively, is what the list said.
    fn is_usable(&self, page: &impl PageRead) -> bool {
        match self.kind {
            SpareKind::Extended | SpareKind::Found(None) => page.is_new(),
            SpareKind::Found(Some(stamp)) => Node::of(page)
                .is_ok_and(|node| node.header.is(flag::DELETED) && node.header.extra == stamp),
            SpareKind::Gone => false,
        }
    }

    /// The page is part of the tree now, or was not free after all.
    pub fn consume(mut self) {
        self.release(false);
    }

    fn release(&mut self, unused: bool) {
        let kind = std::mem::replace(&mut self.kind, SpareKind::Gone);
        if kind == SpareKind::Gone {
            return;
        }
        let mut free = self.tree.shared.free.lock();
        match kind {
            SpareKind::Found(stamp) if unused => free.found.push((self.block, stamp)),
            SpareKind::Extended => {
                free.held.retain(|held| *held != self.block);
                if unused {
                    free.extended.push(self.block);
                }
            }
            SpareKind::Found(_) | SpareKind::Gone => {}
        }
    }
}

/// The removal by which a page is reused: snapshots that may still be on their way to the page are
/// older than the record that unlinked it, which is the last one that changed it.
pub(super) fn unlinked(page: &impl PageRead) -> RemovalLsn {
    RemovalLsn::Commit(page.lsn())
}

impl Drop for Spare<'_> {
    fn drop(&mut self) {
        self.release(true);
    }
}
