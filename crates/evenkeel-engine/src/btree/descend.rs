//! Finding the page of a level that covers a position, without holding two locks at a time.

use evenkeel_storage::buffer::ReadGuard;
use evenkeel_storage::page::PageRead;
use evenkeel_storage::{BlockNumber, Fork, PageId};

use super::BTree;
use super::key::Position;
use super::page::{Fault, META_BLOCK, Meta, NO_BLOCK, Node, flag};
use crate::error::{EngineError, EngineResult};

/// How often a descent starts again because the root it knew is not the root any more.
const ROOT_ATTEMPTS: usize = 1_000;

impl BTree {
    /// An error that names the damaged page.
    pub(super) fn damaged(&self, block: BlockNumber, fault: Fault) -> EngineError {
        let page = PageId {
            file: self.shared.file,
            fork: Fork::Main,
            block,
        };
        EngineError::corrupted(format!("index {page}: {}", fault.0))
    }

    /// The page as a node of `level`.
    #[inline]
    pub(super) fn node<'p, P: PageRead>(
        &self,
        page: &'p P,
        block: BlockNumber,
        level: u16,
    ) -> EngineResult<Node<'p, P>> {
        let node = Node::of(page).map_err(|fault| self.damaged(block, fault))?;
        if node.header.level != level {
            return Err(self.damaged(block, Fault("page of another level than its links say")));
        }
        Ok(node)
    }

    /// The next page to the right of one that a search has to leave.
    #[inline]
    pub(super) fn right_of<P: PageRead>(
        &self,
        node: &Node<'_, P>,
        block: BlockNumber,
    ) -> EngineResult<BlockNumber> {
        match node.header.right {
            NO_BLOCK => Err(self.damaged(block, Fault("deleted page without a right sibling"))),
            right => Ok(right),
        }
    }

    /// The root: as last seen, or else as the meta page says.
    pub(super) fn root(&self) -> EngineResult<Meta> {
        if let Some(root) = self.shared.cached_root() {
            return Ok(root);
        }
        let page = self.fork().read(META_BLOCK)?;
        let meta = Meta::read(&page).map_err(|fault| self.damaged(META_BLOCK, fault))?;
        self.shared.cache_root(Some(meta));
        Ok(meta)
    }

    /// A page of `level` at or left of the one that covers `position`: where to start moving
    /// right. `None` when the tree has no such level.
    pub(super) fn start_for(
        &self,
        position: &Position<'_>,
        level: u16,
    ) -> EngineResult<Option<BlockNumber>> {
        'root: for _ in 0..ROOT_ATTEMPTS {
            let root = self.root()?;
            if root.level <= level && self.is_root(root)? {
                return Ok((root.level == level).then_some(root.root));
            }
            let (mut block, mut at) = (root.root, root.level);
            while at > level {
                let page = self.fork().read(block)?;
                let node = Node::of(&page).map_err(|fault| self.damaged(block, fault))?;
                if block == root.root && !is_root_page(&node, root) {
                    self.shared.cache_root(None);
                    continue 'root;
                }
                if node.header.level != at {
                    return Err(self.damaged(block, Fault("page of an unexpected level")));
                }
                let fault = |fault| self.damaged(block, fault);
                if node.is_beyond(position).map_err(fault)? {
                    block = self.right_of(&node, block)?;
                    continue;
                }
                let slot = node.downlink_for(position).map_err(fault)?;
                block = node.pivot(slot).map_err(fault)?.child;
                at -= 1;
            }
            if root.level > level {
                return Ok(Some(block));
            }
            self.shared.cache_root(None);
        }
        Err(self.damaged(META_BLOCK, Fault("meta page does not lead to the root")))
    }

    fn is_root(&self, root: Meta) -> EngineResult<bool> {
        let page = self.fork().read(root.root)?;
        Ok(Node::of(&page).is_ok_and(|node| is_root_page(&node, root)))
    }

    /// The page of `level` that covers `position`, under its share lock.
    pub(super) fn covering(
        &self,
        position: &Position<'_>,
        level: u16,
    ) -> EngineResult<ReadGuard<'_>> {
        let mut block = self
            .start_for(position, level)?
            .ok_or_else(|| self.damaged(META_BLOCK, Fault("tree without this level")))?;
        loop {
            let page = self.fork().read(block)?;
            let node = self.node(&page, block, level)?;
            if !node
                .is_beyond(position)
                .map_err(|fault| self.damaged(block, fault))?
            {
                return Ok(page);
            }
            block = self.right_of(&node, block)?;
        }
    }
}

fn is_root_page<P: PageRead>(node: &Node<'_, P>, root: Meta) -> bool {
    node.header.is(flag::ROOT) && node.header.level == root.level
}
