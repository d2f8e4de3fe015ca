//! What a caller says about a table: its files, its indexes and how index keys come out of rows.

use std::sync::Arc;

use evenkeel_storage::FileId;
use evenkeel_storage::buffer::Ring;

use crate::types::Tid;

/// What a [`KeyExtractor`] says about the key it produced.
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
/// It must be a pure function of the row's bytes: the engine calls it again to find a row's
/// index entries, to verify an index, and to decide whether an update changed a key.
pub trait KeyExtractor: Send + Sync {
    /// Appends the key to `out`, which the caller has cleared.
    fn key(&self, row: &[u8], out: &mut Vec<u8>) -> KeyKind;
}

/// One index of a table.
#[derive(Clone)]
pub struct IndexDef {
    /// The file of its B-tree.
    pub file: FileId,
    /// Whether two live rows may not have the same key.
    pub unique: bool,
    /// The name error messages use.
    pub name: Arc<str>,
    /// How its keys come out of rows.
    pub key: Arc<dyn KeyExtractor>,
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

/// What became of an update or delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modified {
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
        newest: Tid,
    },
    /// `lock_row` with [`crate::WaitPolicy::SkipLocked`] found the row locked.
    Skipped,
}

/// What became of an insert that yields to rows that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The row is in.
    Done(Tid),
    /// A live row with the same key of index `index` is in the way; nothing was inserted.
    Conflict {
        /// Position of the index in [`TableDef::indexes`].
        index: usize,
        /// The row in the way: committed, or of this transaction.
        tid: Tid,
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

/// What the caller knows about an update's effect on index keys.
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
    /// Write frozen rows on all-visible pages (`COPY … FREEZE`). Allowed only when the table's
    /// heap file was created by the same transaction, which the caller has checked.
    pub freeze: bool,
    /// What the load may take of the pool: one ring for all its batches
    /// ([`Table::load_ring`](super::Table::load_ring)). `None` for few rows.
    pub ring: Option<Arc<Ring>>,
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
