//! Tables: a heap and its indexes kept in agreement.
//!
//! Entry points: [`Table::open`], then [`Table::insert`], [`Table::insert_many`],
//! [`Table::update`], [`Table::delete`], [`Table::lock_row`], [`Table::scan`],
//! [`Table::index_scan`], [`Table::index_lookup`], [`Table::fetch`], [`Table::build_index`],
//! [`Table::vacuum`], [`Table::check`].

mod bitmap;
mod build;
mod bulk;
mod check;
mod def;
mod insert;
mod large;
mod locking;
pub(crate) mod pages;
mod pass;
mod read;
mod recheck;
mod sample;
mod space;
mod sync_scan;
#[cfg(test)]
mod tests;
mod update;
mod young;

use std::sync::Arc;

use evenkeel_storage::buffer::ForkHandle;
use evenkeel_storage::{FileId, Store};

pub use bitmap::{BitmapScan, TidBitmap, TidSearch};
pub use check::{CheckReport, CheckStep};
pub use def::{
    Arbiter, Built, Direction, IndexDef, InsertOptions, Inserted, KeyExtractor, KeyHint, KeyKind,
    KeyRange, Modified, ReplicaIdentity, TableDef,
};
pub use large::{CHUNK_BYTES, LONGEST_KEY, LONGEST_ROW, LargeDef, LargeRef, NamesLarge};
pub use read::{IndexScan, Scan, VersionMarks};
pub use sample::{Sample, SampleOptions};

use self::large::Large;
use self::space::Space;
use crate::btree::BTree;
use crate::database::Database;
use crate::error::EngineResult;
use crate::mutant::Mutant;
use crate::stats::TableCounters;
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
    replica_identity: ReplicaIdentity,
    large: Option<Large>,
}

impl Table {
    /// Opens a table whose files exist: the heap's file (an empty one is an empty heap) and its
    /// indexes'.
    ///
    /// # Errors
    /// Storage failures. A damaged page is the error of who reads it.
    pub fn open(db: &Database, def: TableDef) -> EngineResult<Arc<Table>> {
        Table::open_logging(db, def, ReplicaIdentity::Nothing)
    }

    /// [`Table::open`], for changes of rows that the log says more of.
    ///
    /// # Errors
    /// Those of [`Table::open`].
    pub fn open_logging(
        db: &Database,
        def: TableDef,
        replica_identity: ReplicaIdentity,
    ) -> EngineResult<Arc<Table>> {
        Table::open_as(db, def, replica_identity, None)
    }

    fn open_as(
        db: &Database,
        def: TableDef,
        replica_identity: ReplicaIdentity,
        large: Option<Large>,
    ) -> EngineResult<Arc<Table>> {
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
            replica_identity,
            large,
        }))
    }

    /// The definition it was opened with.
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

    /// Whether the engine runs with this deliberate bug.
    #[inline]
    fn has(&self, mutant: Mutant) -> bool {
        self.db.system().has(mutant)
    }

    pub(crate) fn counters(&self) -> &Arc<TableCounters> {
        &self.counters
    }

    /// Where a transaction counts changes of its rows.
    fn counted(&self) -> (&Arc<TableCounters>, FileId) {
        (&self.counters, self.def.heap)
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

    /// How many blocks of the heap the map calls all-visible, and how many all-frozen.
    ///
    /// # Errors
    /// Storage failures.
    pub fn visibility(&self) -> EngineResult<(u32, u32)> {
        self.vm.count(self.blocks())
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
