//! B-link trees: ordered maps from byte keys to heap tids, with duplicates.
//!
//! Entry points: [`BTree::create`], [`BTree::open`], [`BTree::insert`], [`BTree::lookup`],
//! [`BTree::scan`], [`BTree::bulk_delete`], [`TreeBuilder`], [`BTree::check`]. The rules are in
//! the README beside this file.

mod alloc;
mod build;
mod check;
mod delete;
mod descend;
mod insert;
mod key;
mod order;
mod page;
pub mod redo;
mod scan;
mod search;
mod shared;
mod split;
#[cfg(test)]
mod tests;
mod vacuum;

use std::sync::Arc;

use evenkeel_storage::buffer::ForkHandle;
use evenkeel_storage::{FileId, Lsn, Store};

use crate::error::EngineResult;
use crate::types::{Tid, Xid};

pub use build::TreeBuilder;
pub use check::TreeStatistics;
pub use key::{MAX_KEY_LEN, prefix_successor};
pub use page::{META_PAGE_KIND, NODE_PAGE_KIND, mask_hints};
pub use scan::{Direction, LeafBatch, LeafStamp, TreeReader, TreeScan};
pub use vacuum::{BulkDeleteStats, RecycleHorizon, VacuumStep};

/// An index file opened as a tree. Cheap to clone; all handles of one file share what is kept
/// in memory about it.
#[derive(Clone)]
pub struct BTree {
    shared: Arc<shared::Shared>,
}

/// Liveness of the row version that an index entry points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It conflicts with nothing: deleted by a committed transaction, or never committed.
    Dead,
    /// It is there: a duplicate.
    Live,
    /// That depends on how this transaction ends.
    InProgress(Xid),
}

/// Whether an insert may put an equal key beside another.
pub enum UniqueCheck<'a> {
    /// It may.
    None,
    /// Only beside keys of dead row versions. The resolver looks a version up in the heap; no
    /// index page is locked while it runs, and the caller must not hold a heap page either.
    Check(&'a mut dyn FnMut(Tid) -> EngineResult<Liveness>),
    /// It may, and is told so: as `Check`, but that the entry is inserted all the same.
    Note(&'a mut dyn FnMut(Tid) -> EngineResult<Liveness>),
}

/// Result of an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum InsertOutcome {
    /// The entry is in.
    Inserted,
    /// With [`UniqueCheck::Note`]: the entry is in, beside one of a row version with the same key
    /// that is live or whose transaction has not ended.
    Doubtful,
    /// Nothing was inserted: this live row version has the same key.
    Duplicate(Tid),
    /// Nothing was inserted: wait for this transaction and try again.
    MustWait(Xid),
}

/// Continuation of a look-up after an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// Goes on.
    Next,
    /// Goes on, and hints that no snapshot, present or future, can see this row version, as the
    /// log says up to and including the record at this LSN.
    Dead(Lsn),
    /// Ends.
    Stop,
}

impl BTree {
    /// Lays out an empty tree in `file`, which has just been created and is empty.
    ///
    /// # Errors
    /// A full disk; storage failures.
    pub fn create(store: &Arc<Store>, xid: Xid, file: FileId) -> EngineResult<BTree> {
        let tree = BTree {
            shared: shared::Shared::attach(store, file)?,
        };
        tree.lay_out(xid)?;
        Ok(tree)
    }

    /// Opens the tree in `file`. A file that is no tree is the error of the first use.
    ///
    /// # Errors
    /// Storage failures.
    pub fn open(store: &Arc<Store>, file: FileId) -> EngineResult<BTree> {
        // Nothing is read: a damaged page is the error of who uses the tree (REC-11).
        Ok(BTree {
            shared: shared::Shared::attach(store, file)?,
        })
    }

    /// The file of the tree.
    pub fn file(&self) -> FileId {
        self.shared.file
    }

    /// Length of the file in blocks.
    pub fn blocks(&self) -> u32 {
        self.shared.fork.len()
    }

    fn fork(&self) -> &ForkHandle {
        &self.shared.fork
    }

    fn store(&self) -> &Store {
        &self.shared.store
    }
}
