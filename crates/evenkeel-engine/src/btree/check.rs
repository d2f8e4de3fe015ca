//! Verifying a tree: order within and across pages, links, levels, high keys, and that every
//! level is what the one above says.

use evenkeel_storage::BlockNumber;
use evenkeel_storage::buffer::ReadGuard;

use super::BTree;
use super::key::TidOrder;
use super::order::check_order;
use super::page::{Fault, META_BLOCK, NO_BLOCK, Node, Pivot, flag};
use super::vacuum::VacuumStep;
use crate::error::EngineResult;

/// Counts taken by a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeStatistics {
    /// Levels, the leaves included.
    pub levels: u32,
    /// Inner pages.
    pub inner_pages: u64,
    /// Leaves.
    pub leaves: u64,
    /// Entries.
    pub entries: u64,
    /// Pages that lost their downlink and are still linked to their siblings.
    pub half_dead: u64,
    /// Pages whose right sibling has no downlink yet.
    pub incomplete_splits: u64,
}

/// A separator that owns its key, and the page behind it.
struct Expected {
    child: BlockNumber,
    low: Option<(Vec<u8>, TidOrder)>,
}

/// A level as seen so far.
struct LevelCheck {
    level: u16,
    expected: std::vec::IntoIter<Expected>,
    below: Vec<Expected>,
    /// The high key of the page before.
    low: Option<(Vec<u8>, TidOrder)>,
    left: BlockNumber,
    /// The page before has an unfinished split.
    unlisted: bool,
}

fn owned(pivot: &Pivot<'_>) -> (Vec<u8>, TidOrder) {
    (pivot.key.to_vec(), pivot.tid)
}

impl BTree {
    /// Verifies the whole tree. Nobody may change it meanwhile: what is compared is read at
    /// different moments.
    ///
    /// # Errors
    /// `Corrupted` names the first page that is wrong; what `progress` returns; storage
    /// failures.
    pub fn check(
        &self,
        progress: &mut dyn FnMut(VacuumStep) -> EngineResult<()>,
    ) -> EngineResult<TreeStatistics> {
        self.shared.cache_root(None);
        let root = self.root()?;
        let mut stats = TreeStatistics {
            levels: u32::from(root.level) + 1,
            ..Default::default()
        };
        let mut expected = vec![Expected {
            child: root.root,
            low: None,
        }];
        let mut pages = 0;
        for level in (0..=root.level).rev() {
            let Some(first) = expected.first().map(|first| first.child) else {
                return Err(self.damaged(META_BLOCK, Fault("level without pages")));
            };
            let mut check = LevelCheck {
                level,
                expected: expected.into_iter(),
                below: Vec::new(),
                low: None,
                left: NO_BLOCK,
                unlisted: false,
            };
            let mut block = self.leftmost(first)?;
            while block != NO_BLOCK {
                pages += 1;
                let blocks = self.blocks();
                if pages > blocks {
                    return Err(self.damaged(block, Fault("right links form a circle")));
                }
                progress(VacuumStep {
                    blocks_done: pages,
                    blocks,
                })?;
                let page = self.fork().read(block)?;
                let next = check.page(&page, block, &mut stats);
                block = next.map_err(|fault| self.damaged(block, fault))?;
            }
            if check.expected.next().is_some() {
                return Err(self.damaged(first, Fault("downlink to a page not on its level")));
            }
            expected = check.below;
        }
        Ok(stats)
    }
}

impl BTree {
    /// The first page of the level that `block` is on, the first with a downlink: before it are
    /// only pages that have lost theirs and are still linked.
    fn leftmost(&self, block: BlockNumber) -> EngineResult<BlockNumber> {
        let mut first = block;
        for _ in 0..self.blocks() {
            let page = self.fork().read(first)?;
            let left = Node::of(&page).map(|node| node.header.left);
            match left.map_err(|fault| self.damaged(first, fault))? {
                NO_BLOCK => return Ok(first),
                left => first = left,
            }
        }
        Err(self.damaged(block, Fault("left links form a circle")))
    }
}

impl LevelCheck {
    /// Verifies one page; answers its right sibling.
    fn page(
        &mut self,
        page: &ReadGuard<'_>,
        block: BlockNumber,
        stats: &mut TreeStatistics,
    ) -> Result<BlockNumber, Fault> {
        let node = Node::of(page)?;
        let header = node.header;
        if header.level != self.level {
            return Err(Fault("page on a level not its own"));
        }
        if header.left != self.left {
            return Err(Fault("left link does not lead back"));
        }
        if header.is(flag::DELETED) {
            return Err(Fault("deleted page still linked"));
        }
        self.left = block;
        let high = node.high_key()?;
        if header.is(flag::HALF_DEAD) {
            stats.half_dead += 1;
            if node.len() > 0 || self.level > 0 {
                return Err(Fault("half-dead page that is not an empty leaf"));
            }
            // Its key range is the right sibling's, so the low bound stays.
            return Ok(header.right);
        }
        if !self.listed(&node, block)? {
            stats.half_dead += 1;
            return Ok(header.right);
        }
        self.unlisted = header.is(flag::INCOMPLETE_SPLIT);
        stats.incomplete_splits += u64::from(self.unlisted);
        let root_expected = header.right == NO_BLOCK && self.low.is_none();
        if header.is(flag::ROOT) && !root_expected && !self.unlisted {
            return Err(Fault("root flag on a page with siblings"));
        }
        let low = self.low.as_ref().map(|(key, tid)| (&key[..], *tid));
        check_order(&node, low)?;
        if self.level == 0 {
            stats.leaves += 1;
            stats.entries += node.len() as u64;
        } else {
            stats.inner_pages += 1;
            self.downlinks(&node)?;
        }
        self.low = high.as_ref().map(owned);
        Ok(header.right)
    }

    /// Compares the page with the next downlink of the level above. False for an inner page of a
    /// branch whose leaf is half-dead: linked still, but without a downlink.
    fn listed(
        &mut self,
        node: &Node<'_, ReadGuard<'_>>,
        block: BlockNumber,
    ) -> Result<bool, Fault> {
        if self.unlisted {
            return Ok(true);
        }
        let Some(expected) = self.expected.as_slice().first() else {
            return Err(Fault("page without a downlink"));
        };
        if expected.child != block {
            if node.header.level > 0 && node.len() == 1 {
                return Ok(false);
            }
            return Err(Fault("downlink leads to another page"));
        }
        if expected.low.is_some() && expected.low != self.low {
            return Err(Fault(
                "downlink and left sibling disagree on the lower bound",
            ));
        }
        self.expected.next();
        Ok(true)
    }

    /// Notes the downlinks, whose order has been verified, for the level below.
    fn downlinks(&mut self, node: &Node<'_, ReadGuard<'_>>) -> Result<(), Fault> {
        for slot in node.first()..node.end() {
            let pivot = node.pivot(slot)?;
            let low = if slot == node.first() {
                self.low.clone()
            } else {
                Some(owned(&pivot))
            };
            self.below.push(Expected {
                child: pivot.child,
                low,
            });
        }
        Ok(())
    }
}
