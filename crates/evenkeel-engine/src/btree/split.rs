//! Splitting pages, and giving the new page its downlink.
//!
//! A split and the insertion of the downlink are two records. Between them the left page is
//! flagged as incompletely split; whoever wants to insert there finishes the split first, so it
//! does not matter who, or whether a crash came between.

use std::sync::atomic::Ordering;

use evenkeel_storage::buffer::{FrameReservation, Pin, WriteGuard};
use evenkeel_storage::page::PageRead;
use evenkeel_storage::{BlockNumber, PartFlags};
use smallvec::SmallVec;

use super::BTree;
use super::alloc::{Spare, unlinked};
use super::key::{Position, TidOrder};
use super::order::{Sound, check_alone};
use super::page::{
    Fault, META_BLOCK, Meta, NO_BLOCK, Node, NodeHeader, Pivot, TupleBuf, fits_empty, flag,
    footprint,
};
use super::redo::{self, InsertData, NodeContent, SplitLeft, op};
use crate::error::EngineResult;
use crate::types::Xid;

/// How full, in percent, the left page becomes when keys arrive in ascending order.
const ASCENDING_LEAF_FILL: usize = 90;
const ASCENDING_INNER_FILL: usize = 70;

/// The most pages pinned at once: of a split with its child, or of a branch being unlinked.
const FRAMES: usize = 5;

/// The pages that a split needs, pinned before any page is locked (BT-2).
pub(super) struct Room<'t> {
    spare: Spare<'t>,
    new: Pin<'t>,
    right: Option<Pin<'t>>,
    right_block: BlockNumber,
}

impl Room<'_> {
    /// Whether it is good for splitting the page with this header.
    pub fn is_for(&self, header: &NodeHeader) -> bool {
        header.right == self.right_block
    }
}

/// The insertion that needs the split.
pub(super) struct Wanted<'a> {
    /// The page that is too full.
    pub block: BlockNumber,
    /// The slot the tuple comes before.
    pub slot: u16,
    /// The tuple to insert.
    pub tuple: &'a [u8],
}

/// A page flagged as incompletely split, as read under a share lock.
struct Unfinished {
    level: u16,
    right: BlockNumber,
    is_root: bool,
    key: SmallVec<[u8; 64]>,
    tid: TidOrder,
}

impl Unfinished {
    fn separator(&self) -> Position<'_> {
        Position::new(&self.key, self.tid)
    }

    fn matches(&self, header: &NodeHeader) -> bool {
        header.is(flag::INCOMPLETE_SPLIT)
            && !header.is_ignored()
            && header.right == self.right
            && header.is(flag::ROOT) == self.is_root
    }
}

impl BTree {
    /// Reserves the most frames that a step of an operation pins at once. The caller holds no
    /// pin, and no other reservation.
    pub(super) fn reserve_frames(&self) -> FrameReservation {
        self.store().pool().reserve(FRAMES)
    }

    /// Finds and pins what splitting the page with this header needs. The caller holds no page
    /// lock.
    pub(super) fn room_for_split(&self, header: &NodeHeader) -> EngineResult<Room<'_>> {
        let right = match header.right {
            NO_BLOCK => None,
            block => Some(self.fork().pin(block)?),
        };
        let spare = self.allocate()?;
        Ok(Room {
            new: spare.pin()?,
            spare,
            right,
            right_block: header.right,
        })
    }

    /// Splits the locked page, inserting the wanted tuple. With `child`, a locked page of the
    /// level below, that page's split is finished by it. False when the spare page turned out
    /// to be in use; nothing has happened then.
    pub(super) fn split(
        &self,
        xid: Xid,
        page: &mut WriteGuard<'_>,
        wanted: &Wanted<'_>,
        room: Room<'_>,
        child: Option<&mut WriteGuard<'_>>,
    ) -> EngineResult<bool> {
        let block = wanted.block;
        let Room {
            spare,
            new,
            right,
            right_block,
        } = room;
        let Some(mut new_page) = spare.lock(new) else {
            spare.consume();
            return Ok(false);
        };
        let mut right_page = right.map(Pin::write);
        if let Some(right) = &right_page
            && Node::of(right).map(|node| node.header.left) != Ok(block)
        {
            return Err(self.damaged(right_block, Fault("left link does not lead back")));
        }
        // With all pages locked: a vacuum that has passed the new page's block began before
        // (BT-8).
        let cycle = self.shared.vacuum_cycle.load(Ordering::SeqCst);
        let halves = Node::of(&*page)
            .and_then(|node| Halves::plan(&node, wanted, spare.block, cycle))
            .map_err(|fault| self.damaged(block, fault))?;
        let sound = Sound::before(page);
        let right_sound = right_page.as_ref().map(Sound::before);
        let new_block = spare.block.0.to_le_bytes();
        let mut change = self.store().change(xid.get());
        change.removes(unlinked(&new_page));
        change.part(page, op::SPLIT_LEFT, PartFlags::NONE, &halves.left);
        change.part(
            &mut new_page,
            op::NODE,
            PartFlags::INIT,
            halves.right.data(),
        );
        if let Some(right) = &mut right_page {
            change.part(right, op::SET_LEFT, PartFlags::NONE, &new_block);
        }
        if let Some(child) = child {
            change.part(child, op::CLEAR_FLAGS, PartFlags::NONE, &SPLIT_DONE);
        }
        change.commit();
        sound.assert_after(page);
        sound.assert_neighbours((block.0, page), (spare.block.0, &new_page));
        if let (Some(right), Some(right_sound)) = (&right_page, right_sound) {
            let both = sound.and(right_sound);
            both.assert_neighbours((spare.block.0, &new_page), (right_block.0, right));
        }
        drop((new_page, right_page));
        spare.consume();
        Ok(true)
    }

    fn unfinished_split(&self, block: BlockNumber) -> EngineResult<Option<Unfinished>> {
        let page = self.fork().read(block)?;
        let fault = |fault| self.damaged(block, fault);
        let node = Node::of(&page).map_err(fault)?;
        let header = node.header;
        if !header.is(flag::INCOMPLETE_SPLIT) || header.is_ignored() {
            return Ok(None);
        }
        let high = node.high_key().map_err(fault)?;
        let high = high.ok_or_else(|| self.damaged(block, Fault("split without a high key")))?;
        Ok(Some(Unfinished {
            level: header.level,
            right: header.right,
            is_root: header.is(flag::ROOT),
            key: SmallVec::from_slice(high.key),
            tid: high.tid,
        }))
    }

    /// Gives the right sibling of `block` its downlink, if `block` is flagged as incompletely
    /// split. The caller holds no page lock and has reserved frames.
    pub(super) fn finish_split(&self, xid: Xid, block: BlockNumber) -> EngineResult<()> {
        while let Some(split) = self.unfinished_split(block)? {
            let done = if split.is_root {
                self.grow_root(xid, block, &split)?
            } else {
                self.insert_downlink(xid, block, &split)?
            };
            if done {
                break;
            }
        }
        Ok(())
    }

    /// [`BTree::finish_split`] by the thread that has just made it.
    pub(super) fn finish_own_split(&self, xid: Xid, block: BlockNumber) -> EngineResult<()> {
        #[cfg(test)]
        if self.shared.leaves_split_unfinished() {
            return Ok(());
        }
        self.finish_split(xid, block)
    }

    /// Puts a new root above a root that was split. False when something changed meanwhile.
    fn grow_root(&self, xid: Xid, block: BlockNumber, split: &Unfinished) -> EngineResult<bool> {
        let spare = self.allocate()?;
        let (pin, new, meta) = (
            self.fork().pin(block)?,
            spare.pin()?,
            self.fork().pin(META_BLOCK)?,
        );
        let mut page = pin.write();
        if !Node::of(&page).is_ok_and(|node| split.matches(&node.header)) {
            return Ok(false);
        }
        let Some(mut new_page) = spare.lock(new) else {
            spare.consume();
            return Ok(false);
        };
        let mut meta_page = meta.write();
        let root = Meta {
            root: spare.block,
            level: split.level + 1,
        };
        let mut content = NodeContent::new(&NodeHeader {
            left: NO_BLOCK,
            right: NO_BLOCK,
            level: root.level,
            flags: flag::ROOT,
            extra: 0,
        });
        content.push_pivot(&Pivot::least(block));
        content.push_pivot(&Pivot {
            child: split.right,
            key: &split.key,
            tid: split.tid,
        });
        let mut change = self.store().change(xid.get());
        change.removes(unlinked(&new_page));
        change.part(&mut page, op::CLEAR_FLAGS, PartFlags::NONE, &SPLIT_DONE);
        change.part(&mut new_page, op::NODE, PartFlags::INIT, content.data());
        change.part(
            &mut meta_page,
            op::META,
            PartFlags::NONE,
            &redo::encode_meta(root),
        );
        change.commit();
        debug_assert_eq!(check_alone(&new_page), Ok(()), "the new root");
        self.shared.cache_root(Some(root));
        drop((page, new_page, meta_page));
        spare.consume();
        Ok(true)
    }

    /// Inserts the downlink into the level above. False when something changed meanwhile.
    fn insert_downlink(
        &self,
        xid: Xid,
        block: BlockNumber,
        split: &Unfinished,
    ) -> EngineResult<bool> {
        let pivot = Pivot {
            child: split.right,
            key: &split.key,
            tid: split.tid,
        };
        let mut data = InsertData::pivot(&pivot);
        let separator = split.separator();
        let level = split.level + 1;
        let mut parent = self
            .start_for(&separator, level)?
            .ok_or_else(|| self.damaged(block, Fault("page that is not the root has no parent")))?;
        let mut room: Option<Room<'_>> = None;
        loop {
            let (child_pin, parent_pin) = (self.fork().pin(block)?, self.fork().pin(parent)?);
            // Child before parent (BT-1).
            let mut child = child_pin.write();
            if !Node::of(&child).is_ok_and(|node| split.matches(&node.header)) {
                return Ok(false);
            }
            let mut page = parent_pin.write();
            let node = self.node(&page, parent, level)?;
            let header = node.header;
            let fault = |fault| self.damaged(parent, fault);
            if header.is(flag::INCOMPLETE_SPLIT) && !header.is_ignored() {
                drop((page, child, room.take()));
                self.finish_split(xid, parent)?;
                continue;
            }
            if node.is_beyond(&separator).map_err(fault)? {
                parent = self.right_of(&node, parent)?;
                continue;
            }
            let slot = node.downlink_for(&separator).map_err(fault)?;
            let before = node.pivot(slot).map_err(fault)?;
            if before.child != block {
                let from = before.child;
                drop((page, child, room.take()));
                self.finish_splits_up_to(xid, from, block)?;
                return Ok(false);
            }
            if node.fits(data.tuple().len()) {
                self.link(xid, &mut page, &mut child, data.at(slot + 1));
                return Ok(true);
            }
            let Some(room) = room.take_if(|room| room.is_for(&header)) else {
                drop((page, child, room.take()));
                room = Some(self.room_for_split(&header)?);
                continue;
            };
            let wanted = Wanted {
                block: parent,
                slot: slot + 1,
                tuple: data.tuple(),
            };
            let done = self.split(xid, &mut page, &wanted, room, Some(&mut child))?;
            drop((page, child));
            if done {
                self.finish_own_split(xid, parent)?;
                return Ok(true);
            }
        }
    }

    /// Puts a downlink into a page with room for it.
    fn link(
        &self,
        xid: Xid,
        page: &mut WriteGuard<'_>,
        child: &mut WriteGuard<'_>,
        downlink: &[u8],
    ) {
        let sound = Sound::before(page);
        let mut change = self.store().change(xid.get());
        change.part(page, op::INSERT, PartFlags::NONE, downlink);
        change.part(child, op::CLEAR_FLAGS, PartFlags::NONE, &SPLIT_DONE);
        change.commit();
        sound.assert_after(page);
    }

    /// `block` has no downlink itself: a split to the left of it, at or right of `from`, is
    /// unfinished. Finishes those there are.
    fn finish_splits_up_to(
        &self,
        xid: Xid,
        from: BlockNumber,
        block: BlockNumber,
    ) -> EngineResult<()> {
        let mut at = from;
        while at != block {
            self.finish_split(xid, at)?;
            let page = self.fork().read(at)?;
            at = Node::of(&page)
                .map_err(|fault| self.damaged(at, fault))?
                .header
                .right;
            if at == NO_BLOCK {
                return Err(self.damaged(block, Fault("page is not right of its downlink")));
            }
        }
        Ok(())
    }
}

/// The flags a page loses when its split is finished.
const SPLIT_DONE: [u8; 2] = (flag::INCOMPLETE_SPLIT | flag::ROOT).to_le_bytes();

/// The data of the parts that change a page into two.
struct Halves {
    left: Vec<u8>,
    right: NodeContent,
}

/// The tuples of a page and the one to be inserted, in order.
struct Items<'n, 'p, P: PageRead> {
    node: &'n Node<'p, P>,
    slot: u16,
    tuple: &'n [u8],
}

impl<'n, 'p: 'n, P: PageRead> Items<'n, 'p, P> {
    fn len(&self) -> usize {
        self.node.len() + 1
    }

    /// Position of the new tuple.
    fn new_at(&self) -> usize {
        usize::from(self.slot - self.node.first())
    }

    fn tuple(&self, at: usize) -> Result<&'n [u8], Fault> {
        let slot = self.node.first() + at as u16;
        match at.cmp(&self.new_at()) {
            std::cmp::Ordering::Less => self.node.tuple(slot),
            std::cmp::Ordering::Equal => Ok(self.tuple),
            std::cmp::Ordering::Greater => self.node.tuple(slot - 1),
        }
    }

    /// The separator when the first `k` items stay left.
    fn separator(&self, k: usize) -> Result<Pivot<'n>, Fault> {
        if !self.node.is_leaf() {
            return Pivot::decode(self.tuple(k)?);
        }
        let (left, right) = (self.tuple(k - 1)?, self.tuple(k)?);
        Pivot::between(left, right)
    }
}

impl Halves {
    fn plan<P: PageRead>(
        node: &Node<'_, P>,
        wanted: &Wanted<'_>,
        new_block: BlockNumber,
        cycle: u64,
    ) -> Result<Halves, Fault> {
        let items = Items {
            node,
            slot: wanted.slot,
            tuple: wanted.tuple,
        };
        let k = choose(&items)?;
        let separator = items.separator(k)?;
        let mut high_key = TupleBuf::new();
        separator.leading_to(NO_BLOCK).encode(&mut high_key);
        let inserted_left = items.new_at() < k;
        let left = SplitLeft {
            first_right: node.first() + k as u16 - u16::from(inserted_left),
            inserted: inserted_left.then_some((wanted.slot, wanted.tuple)),
            right: new_block,
            extra: cycle,
            high_key: &high_key,
        };
        let mut right = NodeContent::new(&NodeHeader {
            left: wanted.block,
            right: node.header.right,
            level: node.header.level,
            flags: 0,
            extra: cycle,
        });
        if !node.header.is_rightmost() {
            right.push(node.tuple(0)?);
        }
        if node.is_leaf() {
            right.push(items.tuple(k)?);
        } else {
            right.push_pivot(&Pivot::least(separator.child));
        }
        for at in k + 1..items.len() {
            right.push(items.tuple(at)?);
        }
        Ok(Halves {
            left: left.encode(),
            right,
        })
    }
}

/// How many items stay left: near the middle (or near full, for ascending keys), with a
/// separator as short as can be had near there.
fn choose<P: PageRead>(items: &Items<'_, '_, P>) -> Result<usize, Fault> {
    let (node, n) = (items.node, items.len());
    // sums[k] is the room the first k items take.
    let mut sums: SmallVec<[usize; 512]> = SmallVec::with_capacity(n + 1);
    sums.push(0);
    for at in 0..n {
        sums.push(sums[at] + footprint(items.tuple(at)?.len()));
    }
    let total = sums[n];
    let high = match node.high_key()? {
        Some(high) => footprint(high.tuple_len()),
        None => 0,
    };
    let ascending = node.header.is_rightmost() && items.new_at() + 1 == n;
    let share = match (ascending, node.is_leaf()) {
        (true, true) => ASCENDING_LEAF_FILL,
        (true, false) => ASCENDING_INNER_FILL,
        (false, _) => 50,
    };
    let target = total * share / 100;
    let ideal = sums.partition_point(|&sum| sum < target).clamp(1, n - 1);
    let window = if ascending { n / 32 } else { n / 12 };
    let mut best: Option<(usize, usize, usize)> = None;
    let mut consider = |k: usize| -> Result<(), Fault> {
        let separator = footprint(items.separator(k)?.tuple_len());
        let right = total - sums[k] + high;
        if fits_empty(sums[k] + separator) && fits_empty(right) {
            let score = (separator, k.abs_diff(ideal), k);
            best = Some(best.map_or(score, |best| best.min(score)));
        }
        Ok(())
    };
    for k in ideal.saturating_sub(window).max(1)..=(ideal + window).min(n - 1) {
        consider(k)?;
    }
    if best.is_none() {
        let mut distance: Vec<usize> = (1..n).collect();
        distance.sort_by_key(|k| sums[*k].abs_diff(target));
        for k in distance {
            let separator = footprint(items.separator(k)?.tuple_len());
            if fits_empty(sums[k] + separator) && fits_empty(total - sums[k] + high) {
                return Ok(k);
            }
        }
    }
    best.map(|(_, _, k)| k).ok_or(Fault("page cannot be split"))
}
