//! Inserting entries.

use std::ops::ControlFlow;

use evenkeel_storage::buffer::WriteGuard;
use evenkeel_storage::page::PageRead;
use evenkeel_storage::{BlockNumber, PartFlags, RemovalLsn};

use super::key::{Position, TidOrder};
use super::order::Sound;
use super::page::{self, Entry, META_BLOCK, Meta, NO_BLOCK, Node, NodeHeader, flag};
use super::redo::{self, InsertData, NodeContent, op};
use super::split::{Room, Wanted};
use super::{BTree, InsertOutcome, Liveness, MAX_KEY_LEN, TreeReader, UniqueCheck, Visit};
use crate::error::{EngineError, EngineResult};
use crate::types::{Tid, Xid};

/// The outcome of an insert that looks for duplicates on its way.
enum Attempt {
    Inserted,
    EqualKey,
}

impl BTree {
    /// Writes the meta page and an empty root leaf.
    pub(super) fn lay_out(&self, xid: Xid) -> EngineResult<()> {
        self.store().admit()?;
        let meta_block = self.fork().extend(2)?;
        if meta_block != META_BLOCK {
            return Err(self.damaged(meta_block, page::Fault("file is not empty")));
        }
        let meta = Meta {
            root: BlockNumber(1),
            level: 0,
        };
        let header = NodeHeader {
            left: NO_BLOCK,
            right: NO_BLOCK,
            level: 0,
            flags: flag::ROOT,
            extra: 0,
        };
        let root_pin = self.fork().pin_new(meta.root)?;
        let meta_pin = self.fork().pin_new(META_BLOCK)?;
        let (mut root_page, mut meta_page) = (root_pin.write(), meta_pin.write());
        let mut change = self.store().change(xid.get());
        let content = NodeContent::new(&header);
        change.part(&mut root_page, op::NODE, PartFlags::INIT, content.data());
        change.part(
            &mut meta_page,
            op::META,
            PartFlags::INIT,
            &redo::encode_meta(meta),
        );
        change.commit();
        self.shared.cache_root(Some(meta));
        Ok(())
    }

    /// Inserts the entry `(key, tid)`, which is not there yet.
    ///
    /// # Errors
    /// `KeyTooLarge` beyond [`MAX_KEY_LEN`]; a full disk; what the resolver returns; damage;
    /// storage failures.
    pub fn insert(
        &self,
        xid: Xid,
        key: &[u8],
        tid: Tid,
        check: UniqueCheck<'_>,
    ) -> EngineResult<InsertOutcome> {
        if key.len() > MAX_KEY_LEN {
            return Err(EngineError::KeyTooLarge {
                index: self.file().to_string(),
                size: key.len(),
                max: MAX_KEY_LEN,
            });
        }
        self.store().admit()?;
        let entry = Entry {
            key,
            tid: TidOrder::of(tid),
        };
        let (resolve, only_noted) = match check {
            UniqueCheck::None => {
                self.insert_entry(xid, entry, false)?;
                return Ok(InsertOutcome::Inserted);
            }
            UniqueCheck::Check(resolve) => (resolve, false),
            UniqueCheck::Note(resolve) => (resolve, true),
        };
        let _value = self.shared.lock_value(key);
        if let Attempt::Inserted = self.insert_entry(xid, entry, true)? {
            return Ok(InsertOutcome::Inserted);
        }
        let conflict = self.find_conflict(TreeReader::of_writer(), key, Some(tid), resolve)?;
        match conflict {
            Some(conflict) if !only_noted => Ok(conflict),
            conflict => {
                self.insert_entry(xid, entry, false)?;
                Ok(match conflict {
                    Some(_) => InsertOutcome::Doubtful,
                    None => InsertOutcome::Inserted,
                })
            }
        }
    }

    /// Asks `resolve` about every entry with this key but that for `own`. The caller holds the
    /// key's value lock, or only looks whether an insertion is worth while: other entries may be
    /// added meanwhile.
    ///
    /// # Errors
    /// Errors of the resolver; damage; storage failures.
    pub fn find_conflict(
        &self,
        reader: TreeReader<'_>,
        key: &[u8],
        own: Option<Tid>,
        resolve: &mut dyn FnMut(Tid) -> EngineResult<Liveness>,
    ) -> EngineResult<Option<InsertOutcome>> {
        let mut suspect = None;
        loop {
            let mut conflict = None;
            self.lookup(reader, key, &mut |found| {
                if own == Some(found) {
                    return Ok(Visit::Next);
                }
                conflict = match resolve(found)? {
                    Liveness::Dead => return Ok(Visit::Next),
                    Liveness::Live => Some(InsertOutcome::Duplicate(found)),
                    Liveness::InProgress(xid) => Some(InsertOutcome::MustWait(xid)),
                };
                Ok(Visit::Stop)
            })?;
            // The entry was copied and its page unlocked before the heap was read: vacuum may
            // have removed it in between and its heap slot may hold a row with another key. An
            // entry that is found twice was there all the while.
            if conflict.is_none() || conflict == suspect {
                return Ok(conflict);
            }
            suspect = conflict;
        }
    }

    fn insert_entry(
        &self,
        xid: Xid,
        entry: Entry<'_>,
        unless_equal: bool,
    ) -> EngineResult<Attempt> {
        let mut data = InsertData::entry(&entry);
        let position = if unless_equal {
            Position::new(entry.key, TidOrder::LEAST)
        } else {
            entry.position()
        };
        if let ControlFlow::Break(done) =
            self.insert_rightmost(xid, &position, &mut data, unless_equal)?
        {
            return Ok(done);
        }
        let mut block = self.first_leaf_for(&position)?;
        let mut frames = None;
        let mut room: Option<Room<'_>> = None;
        loop {
            let mut page = self.fork().write(block)?;
            let node = self.node(&page, block, 0)?;
            let header = node.header;
            if header.is(flag::INCOMPLETE_SPLIT) && !header.is_ignored() {
                drop((page, room.take()));
                frames.get_or_insert_with(|| self.reserve_frames());
                self.finish_split(xid, block)?;
                continue;
            }
            let fault = |fault| self.damaged(block, fault);
            if node.is_beyond(&position).map_err(fault)? {
                block = self.right_of(&node, block)?;
                continue;
            }
            let slot = node.lower_bound(&position).map_err(fault)?;
            if unless_equal && may_hold_equal(&node, slot, entry.key).map_err(fault)? {
                return Ok(Attempt::EqualKey);
            }
            if node.fits(data.tuple().len()) {
                self.insert_here(xid, &mut page, slot, &mut data)?;
                return Ok(Attempt::Inserted);
            }
            let dead = dead_slots(&node);
            if !dead.is_empty() {
                self.remove_dead(xid, &mut page, &dead);
                continue;
            }
            let Some(room) = room.take_if(|room| room.is_for(&header)) else {
                drop((page, room.take()));
                frames.get_or_insert_with(|| self.reserve_frames());
                room = Some(self.room_for_split(&header)?);
                continue;
            };
            let wanted = Wanted {
                block,
                slot,
                tuple: data.tuple(),
            };
            let done = self.split(xid, &mut page, &wanted, room, None)?;
            drop(page);
            if done {
                self.finish_own_split(xid, block)?;
                return Ok(Attempt::Inserted);
            }
        }
    }

    /// Removes entries that hints call dead, in place of a split.
    fn remove_dead(&self, xid: Xid, page: &mut WriteGuard<'_>, dead: &[u16]) {
        let sound = Sound::before(page);
        let slots = redo::encode_slots(dead);
        let mut change = self.store().change(xid.get());
        change.removes(RemovalLsn::Commit(self.shared.hinted_upto()));
        change.part(page, op::DELETE_ITEMS, PartFlags::NONE, &slots);
        change.commit();
        sound.assert_after(page);
    }

    fn first_leaf_for(&self, position: &Position<'_>) -> EngineResult<BlockNumber> {
        self.start_for(position, 0)?
            .ok_or_else(|| self.damaged(META_BLOCK, page::Fault("tree without leaves")))
    }

    /// The way of ascending keys: straight to the rightmost leaf. Goes on when the entry does
    /// not belong there, or not simply.
    fn insert_rightmost(
        &self,
        xid: Xid,
        position: &Position<'_>,
        data: &mut InsertData,
        unless_equal: bool,
    ) -> EngineResult<ControlFlow<Attempt>> {
        const NOT_HERE: EngineResult<ControlFlow<Attempt>> = Ok(ControlFlow::Continue(()));
        let Some(block) = self.shared.cached_rightmost(position) else {
            return NOT_HERE;
        };
        let mut page = self.fork().write(block)?;
        // The page may have been split, deleted or used for something else since it was noted.
        let Ok(node) = Node::of(&page) else {
            self.shared.forget_rightmost();
            return NOT_HERE;
        };
        let header = node.header;
        if !node.is_leaf() || !header.is_rightmost() || header.is_ignored() {
            self.shared.forget_rightmost();
            return NOT_HERE;
        }
        if node.len() == 0 || !node.fits(data.tuple().len()) {
            return NOT_HERE;
        }
        // Behind an entry of this page, so every entry with the same key is here too: the
        // comparison is with the key alone, or with an entry known to be less.
        let fault = |fault| self.damaged(block, fault);
        let first = node.entry(node.first()).map_err(fault)?;
        if position.key <= first.key {
            return NOT_HERE;
        }
        let slot = node.lower_bound(position).map_err(fault)?;
        if unless_equal && may_hold_equal(&node, slot, position.key).map_err(fault)? {
            return Ok(ControlFlow::Break(Attempt::EqualKey));
        }
        self.insert_here(xid, &mut page, slot, data)?;
        Ok(ControlFlow::Break(Attempt::Inserted))
    }

    /// Puts the entry at `slot` of a leaf that has room for it.
    fn insert_here(
        &self,
        xid: Xid,
        page: &mut WriteGuard<'_>,
        slot: u16,
        data: &mut InsertData,
    ) -> EngineResult<()> {
        let block = page.block();
        let fault = |fault| self.damaged(block, fault);
        let node = self.node(&*page, block, 0)?;
        if slot < node.end() && node.tuple(slot).map_err(fault)? == data.tuple() {
            return Err(fault(page::Fault("entry to be inserted exists")));
        }
        if node.header.is_rightmost() && slot == node.end() && node.len() > 0 {
            let first = node.entry(node.first()).map_err(fault)?;
            self.shared.cache_rightmost(block, &first.position());
        }
        let sound = Sound::before(page);
        let mut change = self.store().change(xid.get());
        change.part(page, op::INSERT, PartFlags::NONE, data.at(slot));
        change.commit();
        sound.assert_after(page);
        Ok(())
    }
}

/// Whether the leaf, which covers `(key, least tid)`, or one right of it may hold an entry with
/// this very key. `slot` is where such an entry would be.
fn may_hold_equal<P: PageRead>(
    node: &Node<'_, P>,
    slot: u16,
    key: &[u8],
) -> Result<bool, page::Fault> {
    if slot < node.end() {
        return Ok(node.entry(slot)?.key == key);
    }
    Ok(node.high_key()?.is_some_and(|high| high.key == key))
}

fn dead_slots<P: PageRead>(node: &Node<'_, P>) -> Vec<u16> {
    (node.first()..node.end())
        .filter(|&slot| node.is_dead(slot))
        .collect()
}
