//! Tables: a heap and its indexes kept in agreement.
//!
//! Entry points: [`Table::open`], then [`Table::insert`], [`Table::insert_many`],
//! [`Table::update`], [`Table::delete`], [`Table::lock_row`], [`Table::scan`],
//! [`Table::index_scan`], [`Table::index_lookup`], [`Table::fetch`], [`Table::build_index`],
//! [`Table::vacuum`], [`Table::check`].

mod build;
mod bulk;
mod check;
mod def;
mod insert;
mod locking;
pub(crate) mod pages;
mod passes;
mod read;
mod sample;
pub(crate) mod sort;
mod space;
#[cfg(test)]
mod tests;
mod update;

use std::sync::Arc;

use evenkeel_storage::Store;
use evenkeel_storage::buffer::ForkHandle;

pub use check::{CheckReport, CheckStep};
pub use def::{
    Arbiter, Direction, IndexDef, InsertOptions, Inserted, KeyExtractor, KeyHint, KeyKind,
    KeyRange, Modified, TableDef,
};
pub use read::{IndexScan, Scan};
pub use sample::{Sample, SampleOptions};

use self::space::Space;
use crate::btree::BTree;
use crate::database::Database;
use crate::error::EngineResult;
use crate::stats::TableCounters;
use crate::ticket::CancelFlag;
use crate::vacuum::{VacuumOptions, VacuumProgress, VacuumStats};
use crate::vm::VisibilityMap;

/// Added to a heap's file number to name its [`Space`] among what the database caches.
const SPACE_KEY: u64 = 1 << 62;

/// A table. Cheap to share; the caller keeps it, and opens it anew when its definition changes.
///
/// Futures of the `async` methods are `Send` and hold no page between polls.
pub struct Table {
    def: TableDef,
    db: Database,
    space: Arc<Space>,
    vm: VisibilityMap,
    indexes: Vec<BTree>,
    counters: Arc<TableCounters>,
}

impl Table {
    /// Opens a table whose files exist: the heap's file (an empty one is an empty heap) and its
    /// indexes'.
    ///
    /// # Errors
    /// `Corrupted` when an index file is not a tree; storage failures.
    pub fn open(db: &Database, def: TableDef) -> EngineResult<Arc<Table>> {
        let store = db.store();
        let space = db.cached(SPACE_KEY ^ def.heap.0, || {
            Ok(Arc::new(Space::open(store, def.heap)?))
        })?;
        let vm = VisibilityMap::open(store, def.heap)?;
        let open = |index: &IndexDef| BTree::open(store, index.file);
        let indexes = def.indexes.iter().map(open).collect::<EngineResult<_>>()?;
        let counters = db.table_counters(def.id);
        Ok(Arc::new(Table {
            def,
            counters,
            db: db.clone(),
            space,
            vm,
            indexes,
        }))
    }

    /// What it was opened with.
    pub fn def(&self) -> &TableDef {
        &self.def
    }

    /// The database it is in.
    pub fn db(&self) -> &Database {
        &self.db
    }

    /// Length of the heap in blocks.
    pub fn blocks(&self) -> u32 {
        self.heap().len()
    }

    /// Length of index `number` (its place in the definition) in blocks.
    pub fn index_blocks(&self, number: usize) -> Option<u32> {
        self.indexes.get(number).map(BTree::blocks)
    }

    pub(crate) fn heap(&self) -> &ForkHandle {
        self.space.fork()
    }

    pub(crate) fn counters(&self) -> &Arc<TableCounters> {
        &self.counters
    }

    pub(crate) fn store(&self) -> &Store {
        self.db.store()
    }

    pub(crate) fn vm(&self) -> &VisibilityMap {
        &self.vm
    }

    pub(crate) fn space(&self) -> &Space {
        &self.space
    }

    pub(crate) fn trees(&self) -> &[BTree] {
        &self.indexes
    }

    /// Removes dead row versions and their index entries, freezes, and sets visibility bits.
    /// One at a time, which the caller's table lock sees to; readers and writers go on.
    ///
    /// # Errors
    /// `Cancelled`; damage; storage failures. What was done so far stays.
    pub fn vacuum(
        &self,
        options: &VacuumOptions,
        progress: &mut dyn FnMut(&VacuumProgress),
    ) -> EngineResult<VacuumStats> {
        crate::vacuum::run(self, options, progress)
    }

    /// How many blocks of the heap the map calls all-visible, and how many all-frozen.
    ///
    /// # Errors
    /// Storage failures.
    pub fn visibility(&self) -> EngineResult<(u32, u32)> {
        self.vm.count(self.blocks())
    }

    /// Cuts empty pages off the heap's end and answers how many. The caller holds the table
    /// exclusively.
    ///
    /// # Errors
    /// `Cancelled`; damage; storage failures.
    pub fn truncate_tail(&self, cancel: Option<&CancelFlag>) -> EngineResult<u32> {
        crate::vacuum::truncate(self, cancel)
    }
}

impl Database {
    /// Opens a table; see [`Table::open`].
    ///
    /// # Errors
    /// Those of [`Table::open`].
    pub fn open_table(&self, def: TableDef) -> EngineResult<Arc<Table>> {
        Table::open(self, def)
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("id", &self.def.id)
            .finish_non_exhaustive()
    }
}
