//! Loading a tree from entries in order, bottom up, each page written once.

use std::sync::Arc;

use evenkeel_storage::buffer::BufferAccessStrategy;
use evenkeel_storage::{BlockNumber, FileId, PartFlags, Store};

use super::key::TidOrder;
use super::order::check_alone;
use super::page::{
    CAPACITY, Entry, Fault, META_BLOCK, Meta, NO_BLOCK, NodeHeader, Pivot, TupleBuf, fits_empty,
    flag, footprint,
};
use super::redo::{self, NodeContent, op};
use super::shared::Shared;
use super::{BTree, MAX_KEY_LEN};
use crate::error::{EngineError, EngineResult};
use crate::types::{Tid, Xid};

/// The most blocks a file under construction grows by at once; a short one doubles.
const EXTEND_MOST: u32 = 64;
/// Blocks for the meta page and the first leaf.
const EXTEND_FIRST: u32 = 2;
/// A page keeps room for the tid that its high key may need beyond the entry it comes from.
const HIGH_KEY_SLACK: usize = 8;

/// Fills an empty file with a tree. The tree exists once [`TreeBuilder::finish`] has returned;
/// until then the file has no meta page.
pub struct TreeBuilder {
    tree: BTree,
    xid: Xid,
    /// Bytes of a page to fill.
    fill: usize,
    levels: Vec<Level>,
    /// Blocks added to the file and not yet used.
    unused: std::ops::Range<u32>,
    last_key: Vec<u8>,
    last_tid: TidOrder,
    entries: u64,
    ring: Arc<BufferAccessStrategy>,
}

/// The page of a level that is being filled.
struct Level {
    block: BlockNumber,
    left: BlockNumber,
    /// The tuples, each with its length before it, as [`NodeContent`] has them.
    tuples: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
    /// Bytes of a page that they take.
    bytes: usize,
}

impl Level {
    fn start(block: BlockNumber, left: BlockNumber) -> Level {
        Level {
            block,
            left,
            tuples: Vec::new(),
            ends: Vec::new(),
            bytes: 0,
        }
    }

    fn push(&mut self, tuple: &[u8]) {
        self.tuples
            .extend_from_slice(&(tuple.len() as u16).to_le_bytes());
        self.tuples.extend_from_slice(tuple);
        self.ends.push(self.tuples.len());
        self.bytes += footprint(tuple.len());
    }

    /// The last tuple.
    fn last(&self) -> Option<&[u8]> {
        let (end, others) = self.ends.split_last()?;
        let start = others.last().copied().unwrap_or(0);
        self.tuples.get(start + size_of::<u16>()..*end)
    }

    fn pop(&mut self) -> Option<TupleBuf> {
        let tuple = TupleBuf::from_slice(self.last()?);
        self.ends.pop();
        self.tuples.truncate(self.ends.last().copied().unwrap_or(0));
        self.bytes -= footprint(tuple.len());
        Some(tuple)
    }

    /// Goes on with another page.
    fn next(&mut self, block: BlockNumber) -> Level {
        let room = (self.tuples.len(), self.ends.len());
        let mut next = Level::start(block, self.block);
        next.tuples.reserve(room.0);
        next.ends.reserve(room.1);
        std::mem::replace(self, next)
    }
}

impl TreeBuilder {
    /// Begins a tree in `file`, which has just been created by transaction `xid` and is empty.
    /// Leaves are filled to `fillfactor` percent (clamped to 10..=100).
    ///
    /// # Errors
    /// A full disk; `Corrupted` when the file is not empty; storage failures.
    pub fn new(
        store: &Arc<Store>,
        xid: Xid,
        file: FileId,
        fillfactor: u8,
    ) -> EngineResult<TreeBuilder> {
        let tree = BTree {
            shared: Shared::attach(store, file)?,
        };
        let first = tree.fork().extend(EXTEND_FIRST)?;
        if first != META_BLOCK {
            return Err(tree.damaged(first, Fault("file is not empty")));
        }
        let mut builder = TreeBuilder {
            tree,
            xid,
            fill: CAPACITY * usize::from(fillfactor.clamp(10, 100)) / 100,
            levels: Vec::new(),
            unused: 1..EXTEND_FIRST,
            last_key: Vec::new(),
            last_tid: TidOrder::LEAST,
            entries: 0,
            ring: BufferAccessStrategy::bulk_write(store.pool()),
        };
        let leaf = builder.next_block()?;
        builder.levels.push(Level::start(leaf, NO_BLOCK));
        Ok(builder)
    }

    /// Adds an entry, which must be greater than the last one by key and tid. Answers whether
    /// its key equals the last one's.
    ///
    /// # Errors
    /// `KeyTooLarge`; `Corrupted` when it is not greater; a full disk; storage failures.
    pub fn add(&mut self, key: &[u8], tid: Tid) -> EngineResult<bool> {
        if key.len() > MAX_KEY_LEN {
            return Err(EngineError::KeyTooLarge {
                index: self.tree.file().to_string(),
                size: key.len(),
                max: MAX_KEY_LEN,
            });
        }
        let entry = Entry {
            key,
            tid: TidOrder::of(tid),
        };
        let ordered = entry
            .position()
            .compare(&self.last_key, self.last_tid)
            .is_gt();
        if self.entries > 0 && !ordered {
            let what = format!(
                "index {}: entries to load are out of order",
                self.tree.file()
            );
            return Err(EngineError::corrupted(what));
        }
        let mut tuple = TupleBuf::new();
        entry.encode(&mut tuple);
        self.push(0, &tuple)?;
        let equal = self.entries > 0 && self.last_key == key;
        self.entries += 1;
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.last_tid = entry.tid;
        Ok(equal)
    }

    /// Writes what is left, the root, and last the meta page. Answers the tree and how many
    /// entries it has.
    ///
    /// # Errors
    /// A full disk; storage failures.
    pub fn finish(mut self) -> EngineResult<(BTree, u64)> {
        let Some(top) = self.levels.pop() else {
            return Err(self.tree.damaged(META_BLOCK, Fault("nothing was built")));
        };
        for (level, page) in std::mem::take(&mut self.levels).into_iter().enumerate() {
            self.write(level, &page, None)?;
            self.levels.push(Level::start(page.block, NO_BLOCK));
        }
        let meta = Meta {
            root: top.block,
            level: self.levels.len() as u16,
        };
        let content = content_of(meta.level, &top, None, flag::ROOT);
        self.tree.store().admit()?;
        let root_pin = self.tree.fork().pin_new(top.block)?;
        let meta_pin = self.tree.fork().pin_new(META_BLOCK)?;
        let (mut root_page, mut meta_page) = (root_pin.write(), meta_pin.write());
        let mut change = self.tree.store().change(self.xid.get());
        change.part(&mut root_page, op::NODE, PartFlags::INIT, content.data());
        change.part(
            &mut meta_page,
            op::META,
            PartFlags::INIT,
            &redo::encode_meta(meta),
        );
        change.commit();
        drop((root_page, meta_page));
        self.tree.shared.cache_root(Some(meta));
        self.tree
            .shared
            .free
            .lock()
            .add_extended(self.unused.clone());
        Ok((self.tree.clone(), self.entries))
    }

    fn next_block(&mut self) -> EngineResult<BlockNumber> {
        if self.unused.is_empty() {
            let count = self.tree.blocks().clamp(1, EXTEND_MOST);
            let first = self.tree.fork().extend(count)?.0;
            self.unused = first..first + count;
        }
        let block = self.unused.start;
        self.unused.start += 1;
        Ok(BlockNumber(block))
    }

    /// Adds a tuple to the page being filled on `level`, beginning the next page if it is full.
    fn push(&mut self, level: usize, tuple: &[u8]) -> EngineResult<()> {
        let page = &self.levels[level];
        let bytes = page.bytes + footprint(tuple.len()) + HIGH_KEY_SLACK;
        let full = !fits_empty(bytes) || bytes > self.fill && page.ends.len() > 1;
        if full {
            self.next_page(level, tuple)?;
        }
        if level > 0 && self.levels[level].ends.is_empty() {
            let least = self.least(tuple)?;
            self.levels[level].push(&least);
        } else {
            self.levels[level].push(tuple);
        }
        Ok(())
    }

    fn fault(&self, fault: Fault) -> EngineError {
        self.tree.damaged(META_BLOCK, fault)
    }

    /// The first downlink of an inner page.
    fn least(&self, tuple: &[u8]) -> EngineResult<TupleBuf> {
        let pivot = Pivot::decode(tuple).map_err(|fault| self.fault(fault))?;
        let mut least = TupleBuf::new();
        Pivot::least(pivot.child).encode(&mut least);
        Ok(least)
    }

    /// Writes the full page of `level` and begins the one `next` goes to.
    fn next_page(&mut self, level: usize, next: &[u8]) -> EngineResult<()> {
        let block = self.next_block()?;
        let page = &mut self.levels[level];
        let mut carried = None;
        let mut high =
            high_key(level, page, next).map_err(|fault| self.tree.damaged(block, fault))?;
        let page = &mut self.levels[level];
        if !fits_empty(page.bytes + footprint(high.len())) {
            // The last tuple makes room for the high key, which comes from it.
            carried = page.pop();
            if let Some(carried) = &carried {
                high = high_key(level, page, carried)
                    .map_err(|fault| self.tree.damaged(block, fault))?;
            }
        }
        let full = self.levels[level].next(block);
        self.write(level, &full, Some((block, &high)))?;
        if let Some(carried) = carried {
            let carried = if level > 0 {
                self.least(&carried)?
            } else {
                carried
            };
            self.levels[level].push(&carried);
        }
        if self.levels.len() == level + 1 {
            let above = self.next_block()?;
            let mut parent = Level::start(above, NO_BLOCK);
            let mut first = TupleBuf::new();
            Pivot::least(full.block).encode(&mut first);
            parent.push(&first);
            self.levels.push(parent);
        }
        let separator = Pivot::decode(&high).map_err(|fault| self.fault(fault))?;
        let mut downlink = TupleBuf::new();
        separator.leading_to(block).encode(&mut downlink);
        self.push(level + 1, &downlink)
    }

    fn write(
        &mut self,
        level: usize,
        page: &Level,
        right: Option<(BlockNumber, &TupleBuf)>,
    ) -> EngineResult<()> {
        let content = content_of(level as u16, page, right, 0);
        self.tree.store().admit()?;
        let ring = Some(&self.ring);
        let mut guard = self.tree.fork().pin_new_with(page.block, ring)?.write();
        let mut change = self.tree.store().change(self.xid.get());
        change.part(&mut guard, op::NODE, PartFlags::INIT, content.data());
        change.commit();
        debug_assert_eq!(check_alone(&guard), Ok(()), "a page was built out of order");
        Ok(())
    }
}

fn content_of(
    level: u16,
    page: &Level,
    right: Option<(BlockNumber, &TupleBuf)>,
    flags: u16,
) -> NodeContent {
    let mut content = NodeContent::new(&NodeHeader {
        left: page.left,
        right: right.map_or(NO_BLOCK, |(block, _)| block),
        level,
        flags,
        extra: 0,
    });
    if let Some((_, high)) = right {
        content.push(high);
    }
    content.push_all(&page.tuples, page.ends.len());
    content
}

/// The high key of `page` when `next` is the first tuple of the page right of it.
fn high_key(level: usize, page: &Level, next: &[u8]) -> Result<TupleBuf, Fault> {
    let separator = match (level, page.last()) {
        (0, Some(last)) => Pivot::between(last, next)?,
        (0, None) => return Err(Fault("entry does not fit into an empty page")),
        (_, _) => Pivot::decode(next)?,
    };
    let mut high = TupleBuf::new();
    separator.leading_to(NO_BLOCK).encode(&mut high);
    Ok(high)
}
