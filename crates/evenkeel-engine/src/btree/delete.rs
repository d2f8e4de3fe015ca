//! Deleting empty leaves, and the branches above them that lead to nothing else.
//!
//! Two stages, each one record per page unlinked. First the leaf becomes half-dead and the
//! branch loses its downlink: searches for its key range now go to the right sibling. Then the
//! branch's pages, top first and the leaf last, are unlinked from their siblings. A crash
//! between leaves a half-dead leaf that the next vacuum finds.

use evenkeel_storage::buffer::{Pin, WriteGuard};
use evenkeel_storage::page::PageRead;
use evenkeel_storage::{BlockNumber, Lsn, PartFlags, RemovalLsn};
use smallvec::SmallVec;

use super::BTree;
use super::key::{Position, TidOrder};
use super::order::Sound;
use super::page::{Fault, NO_BLOCK, Node, NodeHeader, flag};
use super::redo::{RemoveDownlink, op};
use super::vacuum::RecycleHorizon;
use crate::error::EngineResult;
use crate::types::Xid;

/// How often a deletion that finds the tree changed under it starts again.
const ATTEMPTS: usize = 4;

/// A page of the branch to be deleted, as read under a share lock.
#[derive(Clone, Copy)]
struct Limb {
    block: BlockNumber,
    right: BlockNumber,
}

/// The pages that go: the empty leaf and the inner pages above it that lead to it alone.
struct Branch {
    limbs: SmallVec<[Limb; 4]>,
    /// The page with the downlink to the last of them.
    parent: BlockNumber,
}

impl BTree {
    /// Deletes the leaf if it is empty and the tree allows it; answers how many pages were
    /// unlinked. `removal`: the newest commit that removed a row of its entries. The caller holds
    /// no page lock.
    pub(super) fn delete_leaf(
        &self,
        leaf: BlockNumber,
        horizon: &dyn RecycleHorizon,
        removal: Lsn,
    ) -> EngineResult<u64> {
        for _ in 0..ATTEMPTS {
            let Some(branch) = self.find_branch(leaf)? else {
                return Ok(0);
            };
            if self.cut_branch(&branch, removal)? {
                return self.unlink_branch(leaf, horizon, removal);
            }
        }
        Ok(0)
    }

    /// The first stage alone.
    #[cfg(test)]
    pub(super) fn half_delete(&self, leaf: BlockNumber) -> EngineResult<bool> {
        match self.find_branch(leaf)? {
            Some(branch) => self.cut_branch(&branch, self.store().removal_bound()),
            None => Ok(false),
        }
    }

    /// Finds how far up the branch reaches, holding one lock at a time. `None` when the leaf
    /// cannot be deleted now.
    fn find_branch(&self, leaf: BlockNumber) -> EngineResult<Option<Branch>> {
        let page = self.fork().read(leaf)?;
        let node = self.node(&page, leaf, 0)?;
        if node.len() > 0 || !is_removable(&node.header) {
            return Ok(None);
        }
        let fault = |fault| self.damaged(leaf, fault);
        let Some(high) = node.high_key().map_err(fault)? else {
            return Ok(None);
        };
        let (key, tid): (SmallVec<[u8; 64]>, TidOrder) = (SmallVec::from_slice(high.key), high.tid);
        let mut limbs = SmallVec::from_slice(&[Limb {
            block: leaf,
            right: node.header.right,
        }]);
        drop(page);
        // All pages of a branch end where its leaf does.
        let end = Position::new(&key, tid).just_before();
        for level in 1.. {
            let Some(last) = limbs.last().copied() else {
                return Ok(None);
            };
            let Some(start) = self.start_for(&end, level)? else {
                return Ok(None);
            };
            let mut parent = start;
            let found = loop {
                let page = self.fork().read(parent)?;
                let node = self.node(&page, parent, level)?;
                let fault = |fault| self.damaged(parent, fault);
                if node.is_beyond(&end).map_err(fault)? {
                    parent = self.right_of(&node, parent)?;
                    continue;
                }
                break downlink(&node, last).map_err(fault)?;
            };
            match found {
                Downlink::Between(_) => return Ok(Some(Branch { limbs, parent })),
                Downlink::Alone(right) => limbs.push(Limb {
                    block: parent,
                    right,
                }),
                Downlink::Unfit => return Ok(None),
            }
        }
        Ok(None)
    }

    /// The first stage. False when the tree has changed since the branch was found.
    fn cut_branch(&self, branch: &Branch, newest: Lsn) -> EngineResult<bool> {
        self.store().admit()?;
        let parent_pin = self.fork().pin(branch.parent)?;
        let mut pins: SmallVec<[Pin<'_>; 4]> = SmallVec::new();
        for limb in &branch.limbs {
            pins.push(self.fork().pin(limb.block)?);
        }
        // Bottom up (BT-1).
        let mut pages: SmallVec<[WriteGuard<'_>; 4]> = SmallVec::new();
        let mut below: Option<Limb> = None;
        for (level, (limb, pin)) in (0..).zip(branch.limbs.iter().zip(pins)) {
            let page = pin.write();
            let node = self.node(&page, limb.block, level)?;
            let fault = |fault| self.damaged(limb.block, fault);
            let same = node.header.right == limb.right && is_removable(&node.header);
            let empty = match below {
                None => node.len() == 0,
                Some(below) => {
                    downlink(&node, below).map_err(fault)? == Downlink::Alone(limb.right)
                }
            };
            if !same || !empty {
                return Ok(false);
            }
            below = Some(*limb);
            pages.push(page);
        }
        let mut parent = parent_pin.write();
        let node = Node::of(&parent).map_err(|fault| self.damaged(branch.parent, fault))?;
        let (Some(top), false) = (below, node.header.is_ignored()) else {
            return Ok(false);
        };
        let fault = |fault| self.damaged(branch.parent, fault);
        let Downlink::Between(slot) = downlink(&node, top).map_err(fault)? else {
            return Ok(false);
        };
        let Some(leaf) = pages.first_mut() else {
            return Ok(false);
        };
        let downlink = RemoveDownlink {
            slot,
            child: top.block,
            next: top.right,
        };
        let sound = Sound::before(&parent);
        let mut change = self.store().change(Xid::NONE.get());
        change.removes(RemovalLsn::Commit(newest));
        change.part(
            leaf,
            op::HALF_DEAD,
            PartFlags::NONE,
            &top.block.0.to_le_bytes(),
        );
        change.part(
            &mut parent,
            op::REMOVE_DOWNLINK,
            PartFlags::NONE,
            &downlink.encode(),
        );
        change.commit();
        sound.assert_after(&parent);
        Ok(true)
    }

    /// The second stage: unlinks what hangs on a half-dead leaf, and it. Answers how many pages.
    pub(super) fn unlink_branch(
        &self,
        leaf: BlockNumber,
        horizon: &dyn RecycleHorizon,
        removal: Lsn,
    ) -> EngineResult<u64> {
        let mut unlinked = 0;
        loop {
            let header = self.header_of(leaf)?;
            if !header.is(flag::HALF_DEAD) {
                return Ok(unlinked);
            }
            let top = BlockNumber(header.extra as u32);
            let mut done = false;
            for _ in 0..ATTEMPTS {
                if self.unlink(leaf, top, horizon, removal)? {
                    done = true;
                    break;
                }
            }
            if !done {
                return Ok(unlinked);
            }
            unlinked += 1;
        }
    }

    fn header_of(&self, block: BlockNumber) -> EngineResult<NodeHeader> {
        let page = self.fork().read(block)?;
        Ok(Node::of(&page)
            .map_err(|fault| self.damaged(block, fault))?
            .header)
    }

    /// Unlinks `target`, the topmost page left of the branch of `leaf`, from its siblings. False
    /// when one of them has changed meanwhile.
    fn unlink(
        &self,
        leaf: BlockNumber,
        target: BlockNumber,
        horizon: &dyn RecycleHorizon,
        removal: Lsn,
    ) -> EngineResult<bool> {
        self.store().admit()?;
        let header = self.header_of(target)?;
        let pin_if = |wanted: bool, block: BlockNumber| -> EngineResult<Option<Pin<'_>>> {
            Ok(if wanted {
                Some(self.fork().pin(block)?)
            } else {
                None
            })
        };
        let leaf_pin = pin_if(target != leaf, leaf)?;
        let left_pin = pin_if(header.left != NO_BLOCK, header.left)?;
        let target_pin = self.fork().pin(target)?;
        let right_pin = self.fork().pin(self.right_link(target, &header)?)?;
        // Child before parent level, and left to right (BT-1).
        let mut leaf_page = leaf_pin.map(Pin::write);
        let mut left_page = left_pin.map(Pin::write);
        let mut page = target_pin.write();
        let mut right_page = right_pin.write();
        // A page's left link changes in the same record as the right link that leads to it.
        let unchanged = has(Some(&page), |now| *now == header)
            && has(left_page.as_ref(), |left| left.right == target)
            && has(Some(&right_page), |right| right.left == target)
            && has(leaf_page.as_ref().or(Some(&page)), |leaf| {
                leaf.is(flag::HALF_DEAD) && leaf.extra == u64::from(target.0)
            });
        if !unchanged {
            return Ok(false);
        }
        let below = self.below(&page, leaf)?.0.to_le_bytes();
        let (left, right) = (header.left.0.to_le_bytes(), header.right.0.to_le_bytes());
        let stamp = horizon.stamp().to_le_bytes();
        let right_sound = Sound::before(&right_page);
        let sound = left_page
            .as_ref()
            .map(|left| Sound::before(left).and(right_sound));
        let mut change = self.store().change(Xid::NONE.get());
        change.removes(RemovalLsn::Commit(removal));
        if let Some(leaf) = &mut leaf_page {
            change.part(leaf, op::HALF_DEAD, PartFlags::NONE, &below);
        }
        if let Some(page) = &mut left_page {
            change.part(page, op::SET_RIGHT, PartFlags::NONE, &right);
        }
        change.part(&mut page, op::UNLINK, PartFlags::NONE, &stamp);
        change.part(&mut right_page, op::SET_LEFT, PartFlags::NONE, &left);
        change.commit();
        if let (Some(left_page), Some(sound)) = (&left_page, sound) {
            let right = (header.right.0, &right_page);
            sound.assert_neighbours((header.left.0, left_page), right);
        }
        Ok(true)
    }

    /// The page that the leaf names when `page` is gone: the page below in the branch, and in the
    /// end the leaf itself.
    fn below(&self, page: &WriteGuard<'_>, leaf: BlockNumber) -> EngineResult<BlockNumber> {
        let child = Node::of(page).and_then(|node| match node.header.level {
            0 => Ok(leaf),
            _ => node.pivot(node.first()).map(|pivot| pivot.child),
        });
        child.map_err(|fault| self.damaged(page.block(), fault))
    }

    fn right_link(&self, block: BlockNumber, header: &NodeHeader) -> EngineResult<BlockNumber> {
        match header.right {
            NO_BLOCK => Err(self.damaged(block, Fault("half-dead rightmost page"))),
            right => Ok(right),
        }
    }
}

fn has(page: Option<&WriteGuard<'_>>, expected: impl Fn(&NodeHeader) -> bool) -> bool {
    page.is_none_or(|page| Node::of(page).is_ok_and(|node| expected(&node.header)))
}

/// The root, the rightmost page of a level, and the halves of an unfinished split stay.
fn is_removable(header: &NodeHeader) -> bool {
    !header.is_ignored()
        && !header.is(flag::ROOT | flag::INCOMPLETE_SPLIT)
        && !header.is_rightmost()
}

/// The place of a downlink in its parent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Downlink {
    /// At this slot, and the next one leads to the page's right sibling.
    Between(u16),
    /// The only one of a page that can be deleted too and has this right sibling.
    Alone(BlockNumber),
    /// Missing, or the last of several: the key range could not go to the right.
    Unfit,
}

fn downlink<P: PageRead>(node: &Node<'_, P>, child: Limb) -> Result<Downlink, Fault> {
    if node.is_leaf() {
        return Ok(Downlink::Unfit);
    }
    let Some(slot) = node.downlink_to(child.block)? else {
        return Ok(Downlink::Unfit);
    };
    if slot + 1 < node.end() {
        let next = node.pivot(slot + 1)?.child;
        return Ok(if next == child.right {
            Downlink::Between(slot)
        } else {
            Downlink::Unfit
        });
    }
    let alone = node.len() == 1 && is_removable(&node.header);
    Ok(if alone {
        Downlink::Alone(node.header.right)
    } else {
        Downlink::Unfit
    })
}
