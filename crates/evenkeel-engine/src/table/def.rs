//! A caller's definition of a table: its files, its indexes and how index keys come out of rows.

use std::sync::Arc;

use evenkeel_storage::FileId;
use evenkeel_storage::buffer::BufferAccessStrategy;

use crate::error::EngineResult;
use crate::heap::rows::RowHandle;
use crate::types::{Tid, Xid};

/// The kind of a key, as the [`KeyExtractor`] that produced it reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// Equal keys are duplicates: a unique index refuses the second.
    Unique,
    /// A key with a NULL in it; it never conflicts with anything.
    HasNull,
    /// The row has no entry in this index (a partial index whose predicate does not hold).
    Absent,
}

/// Produces the index key of a row as order-preserving bytes: `memcmp` order is key order.
///
/// It must be a pure function of the row's bytes: the engine calls it again to build and to
/// verify an index.
pub trait KeyExtractor: Send + Sync {
    /// Appends the key to `out`, which the caller has cleared. `row` is a copy: no page is locked,
    /// so computing a key may take its time (TAB-17).
    ///
    /// # Errors
    /// [`EngineError::Key`](crate::EngineError::Key): computing the key has failed, and with it the
    /// statement.
    fn key(&self, row: &[u8], out: &mut Vec<u8>) -> EngineResult<KeyKind>;

    /// Whether two versions of a row have the same key and kind. It is asked under a page lock:
    /// an extractor that computes keys compares the bytes of the columns that they come from. It
    /// may say no for equal keys, which only costs the update index entries of its own.
    fn same_key(&self, old: &[u8], new: &[u8]) -> bool {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        match (self.key(old, &mut a), self.key(new, &mut b)) {
            (Ok(old), Ok(new)) => old == new && a == b,
            _ => false,
        }
    }

    /// Whether expressions or a predicate decide the keys. Such keys identify no row to others:
    /// locks that share a row's keys do not hold them.
    fn is_computed(&self) -> bool {
        false
    }
}

/// One index of a table.
#[derive(Clone)]
pub struct IndexDef {
    /// The file of its B-tree.
    pub file: FileId,
    /// Whether two live rows may not have the same key.
    pub unique: bool,
    /// Whether a unique index takes an entry beside that of another live row. An insert that meets
    /// one notes a [`crate::Doubt`], and the caller asks [`crate::Table::recheck_unique`] about it
    /// before the transaction commits (TAB-18).
    pub deferrable: bool,
    /// The name error messages use.
    pub name: Arc<str>,
    /// How its keys come out of rows.
    pub key: Arc<dyn KeyExtractor>,
    /// The transaction that built it, if [`Built::broken_chains`] was true: only snapshots that
    /// see this transaction's commit are read for by the index, others in its order by the heap.
    /// Unique checks use it all the same, for they look at newest versions.
    pub usable_after: Option<Xid>,
}

/// The result of [`crate::Table::build_index`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Built {
    /// Number of the index's entries.
    pub entries: u64,
    /// Some snapshot may see a version of a HOT chain whose key is not the chain's newest one,
    /// which alone has an entry (PostgreSQL's `indcheckxmin`).
    pub broken_chains: bool,
}

/// The part of a row's old version that the log has beside its update or deletion, for decoding
/// (PostgreSQL's `REPLICA IDENTITY`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplicaIdentity {
    /// None.
    #[default]
    Nothing,
    /// The key in this index of the list, where the row is deleted or its key changes.
    Index(usize),
    /// The whole row.
    Full,
}

/// A table: a heap and its indexes.
#[derive(Clone)]
pub struct TableDef {
    /// The caller's number for the table (an OID); names it in lock keys and messages.
    pub id: u64,
    /// The file of its heap.
    pub heap: FileId,
    /// How full inserts make a page, in percent (10 to 100); the rest is left for updates.
    pub fillfactor: u8,
    /// Its indexes; index numbers in [`crate::Table`]'s methods are positions in this list.
    pub indexes: Vec<IndexDef>,
}

/// The outcome of an update or delete.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Modified<'r> {
    /// Done; for an update the new version's place, for a delete the row's.
    Done(Tid),
    /// The row was already changed by this transaction, in this command or a later one: the
    /// statement leaves it alone.
    SelfModified,
    /// READ COMMITTED: a transaction that has committed since the snapshot deleted the row.
    Gone,
    /// READ COMMITTED: a transaction that has committed since the snapshot updated the row. Its
    /// newest version is now locked for this transaction; check that the statement still wants
    /// it (read it with [`crate::Table::fetch_locked`]) and change that version.
    Changed {
        /// Where the newest version is.
        newest: RowHandle<'r>,
    },
    /// `lock_row` with [`crate::WaitPolicy::SkipLocked`] found the row locked.
    Skipped,
}

/// The outcome of an insert that yields to rows that are there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Inserted<'s> {
    /// The row is in.
    Done(Tid),
    /// A live row with the same key of index `index` is in the way; nothing was inserted.
    Conflict {
        /// Position of the index in [`TableDef::indexes`].
        index: usize,
        /// The row in the way: committed, or of this transaction.
        row: RowHandle<'s>,
    },
}

/// Which conflicts an `insert_or_conflict` yields to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arbiter {
    /// Any unique index (`ON CONFLICT DO NOTHING`).
    Any,
    /// This index only; others raise a unique violation.
    Index(usize),
}

/// The caller's knowledge of an update's effect on index keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyHint {
    /// Nothing: the keys of both versions are compared.
    Compare,
    /// No column of any index is assigned; keys are not even looked at.
    Unchanged,
}

/// How a bulk insert writes its rows.
#[derive(Clone, Debug, Default)]
pub struct InsertOptions {
    /// Write frozen rows on all-visible pages (`COPY … FREEZE`): nothing takes them back but the
    /// end of the file. Allowed only when the same subtransaction made the table's heap file
    /// ([`crate::Transaction::made_here`]).
    pub freeze: bool,
    /// The frames that the load may take of the pool: one ring for all its batches
    /// ([`Table::load_ring`](super::Table::load_ring)). `None` for few rows.
    pub ring: Option<Arc<BufferAccessStrategy>>,
}

/// The order of an index scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Backward,
}

/// A range of encoded keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    /// The least key wanted, and whether it is itself wanted.
    pub low: Option<(Vec<u8>, bool)>,
    /// The greatest key wanted, and whether it is itself wanted. An inclusive bound also covers
    /// every key that has it as a prefix, so a bound on leading columns selects their rows.
    pub high: Option<(Vec<u8>, bool)>,
}

impl KeyRange {
    /// Every key.
    pub fn all() -> Self {
        Self::default()
    }

    /// Keys that start with `prefix` (one key, when it has all columns).
    pub fn prefix(prefix: &[u8]) -> Self {
        Self {
            low: Some((prefix.to_vec(), true)),
            high: Some((prefix.to_vec(), true)),
        }
    }
}
