//! One simulated file: what a process sees of it, and what the disk holds.

use std::collections::BTreeMap;

use super::blocks::{Block, Blocks, cut_block};

/// A file's content.
///
/// `blocks` and `len` are what buffered reads see. They differ from what is durable only in the
/// blocks named by `pending` (written, not synced: a crash chooses) and `stale` (a sync failed:
/// the cache calls them clean, the disk has the older content). No block is in both.
#[derive(Clone, Default)]
pub(crate) struct Inode {
    pub(crate) blocks: Blocks,
    pub(crate) len: u64,
    pub(crate) pending: BTreeMap<u64, Pending>,
    pub(crate) stale: BTreeMap<u64, Block>,
    pub(crate) durable_len: u64,
    /// Unsynced changes of the length: journal index and new length.
    pub(crate) pending_lens: Vec<(u64, u64)>,
}

/// A block's unsynced history.
#[derive(Clone)]
pub(crate) struct Pending {
    pub(crate) durable: Block,
    /// Journal index of the write, and the whole block after it; in order, never empty.
    pub(crate) versions: Vec<(u64, Block)>,
}

impl Inode {
    /// Whether cache and disk agree.
    pub(crate) fn is_clean(&self) -> bool {
        self.pending.is_empty()
            && self.stale.is_empty()
            && self.pending_lens.is_empty()
            && self.len == self.durable_len
    }

    /// The content that a direct read finds in a block: with unsynced writes, but without writes
    /// that a failed sync lost.
    pub(crate) fn direct(&self, number: u64) -> &Block {
        self.stale
            .get(&number)
            .unwrap_or_else(|| self.blocks.get(number))
    }

    /// Writes one block.
    pub(crate) fn put(&mut self, index: u64, number: u64, block: Block) {
        if self.pending_lens.is_empty() && self.len != self.durable_len {
            // Writing makes a length that a failed sync had lost count as unsynced again.
            self.pending_lens.push((index, self.len));
        }
        let pending = self.pending.entry(number).or_insert_with(|| Pending {
            durable: match self.stale.remove(&number) {
                Some(durable) => durable,
                None => self.blocks.get(number).clone(),
            },
            versions: Vec::new(),
        });
        pending.versions.push((index, block.clone()));
        self.blocks.set(number, block);
    }

    /// Cuts or extends. Cut blocks become zero, as an unsynced write of theirs.
    pub(crate) fn set_len(&mut self, index: u64, len: u64) {
        if len < self.len {
            for number in self.blocks.non_zero_from(len) {
                let block = cut_block(self.blocks.get(number), number, len);
                self.put(index, number, block);
            }
        }
        if len != self.len {
            self.len = len;
            self.pending_lens.push((index, len));
        }
    }

    /// A sync that succeeded.
    pub(crate) fn sync(&mut self) {
        self.pending.clear();
        self.pending_lens.clear();
        self.durable_len = self.len;
    }

    /// A sync or write-back that failed: nothing reached the disk, the cache calls it clean.
    pub(crate) fn fail_sync(&mut self) {
        for (number, pending) in std::mem::take(&mut self.pending) {
            self.stale.insert(number, pending.durable);
        }
        self.pending_lens.clear();
    }

    /// Clean cache pages are dropped: what a failed sync lost shows as it is on disk.
    pub(crate) fn drop_cache(&mut self) {
        for (number, block) in std::mem::take(&mut self.stale) {
            self.blocks.set(number, block);
        }
        if self.pending_lens.is_empty() && self.len != self.durable_len {
            self.len = self.durable_len;
            self.blocks.cut(self.len);
        }
    }
}
