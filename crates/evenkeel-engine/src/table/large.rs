//! Values that are too large for a row: kept in chunks in a second heap, which a tree finds by
//! the value's id and the chunk's number.
//!
//! The heap and the tree are a table of their own, written, vacuumed, checked and replayed as any
//! other. A chunk that fills a page belongs to one value, and a value to one row and the versions
//! of it that keep it. So a chunk is read by whoever has read a row that names it, whatever the
//! chunk's own transaction ids say (TAB-13).

use std::sync::Arc;

use evenkeel_storage::page::PAGE_SIZE;
use evenkeel_storage::{BlockNumber, FileId};
use smallvec::SmallVec;

use super::{IndexDef, InsertOptions, KeyExtractor, KeyKind, Table, TableDef};
use crate::btree::{TreeReader, Visit};
use crate::database::Database;
use crate::error::{EngineError, EngineResult};
use crate::heap::layout::{HeapRead, MAX_ROW};
use crate::heap::rows::RowBatch;
use crate::ticket::CancelFlag;
use crate::transaction::Transaction;
use crate::txn::Snapshot;
use crate::types::Tid;

/// Bytes before a chunk's data: the value's id and the chunk's number, both big endian, which is
/// the key of its entry too.
pub(super) const CHUNK_KEY: usize = 12;
/// Bytes of a value in a chunk that fills a page.
pub const CHUNK_BYTES: usize = MAX_ROW - CHUNK_KEY;
/// The longest row.
pub const LONGEST_ROW: usize = MAX_ROW;
/// The longest key of an index.
pub const LONGEST_KEY: usize = crate::btree::MAX_KEY_LEN;
/// Chunks that are handed to the heap at once.
const CHUNKS_AT_ONCE: usize = 16;

/// A large value as a row names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LargeRef {
    /// Its id, which no other value of the database ever has.
    pub id: u64,
    /// Its bytes as they are kept.
    pub bytes: u32,
}

/// The large values that a row names.
pub(super) type LargeRefs = SmallVec<[LargeRef; 2]>;

/// Finds the large values that rows name. A pure function of the row's bytes, asked under page
/// locks.
pub trait NamesLarge: Send + Sync {
    /// Calls `found` for each large value that the row names.
    fn each(&self, row: &[u8], found: &mut dyn FnMut(LargeRef));
}

/// The place of a table's large values.
#[derive(Clone)]
pub struct LargeDef {
    /// The caller's number for it, as [`TableDef::id`].
    pub id: u64,
    /// The file of the chunks' heap.
    pub heap: FileId,
    /// The file of the tree that finds them.
    pub tree: FileId,
    /// Which values a row names.
    pub names: Arc<dyn NamesLarge>,
}

/// A table's large values.
pub(super) struct Large {
    pub(super) chunks: Arc<Table>,
    pub(super) names: Arc<dyn NamesLarge>,
}

/// The key of a chunk's entry.
struct ChunkKey;

impl KeyExtractor for ChunkKey {
    fn key(&self, row: &[u8], out: &mut Vec<u8>) -> EngineResult<KeyKind> {
        Ok(match row.get(..CHUNK_KEY) {
            Some(key) => {
                out.extend_from_slice(key);
                KeyKind::Unique
            }
            None => KeyKind::Absent,
        })
    }
}

impl LargeDef {
    fn table(&self) -> TableDef {
        TableDef {
            id: self.id,
            heap: self.heap,
            fillfactor: 100,
            indexes: vec![IndexDef {
                file: self.tree,
                // Ids are not given out twice; nothing is to be waited for.
                unique: false,
                name: "chunks".into(),
                key: Arc::new(ChunkKey),
                usable_after: None,
                deferrable: false,
            }],
        }
    }
}

impl Large {
    pub(super) fn open(db: &Database, def: &LargeDef) -> EngineResult<Large> {
        Ok(Large {
            chunks: Table::open(db, def.table())?,
            names: Arc::clone(&def.names),
        })
    }

    /// The values that `old` names and `new` does not.
    pub(super) fn dropped(&self, old: &[u8], new: Option<&[u8]>) -> LargeRefs {
        let mut dropped = LargeRefs::new();
        self.names.each(old, &mut |found| dropped.push(found));
        if let Some(new) = new.filter(|_| !dropped.is_empty()) {
            self.names
                .each(new, &mut |kept| dropped.retain(|gone| gone.id != kept.id));
        }
        dropped
    }

    fn missing(&self, at: LargeRef, have: usize) -> EngineError {
        let (file, number) = (self.chunks.def.heap, have / CHUNK_BYTES);
        EngineError::corrupted(format!(
            "missing chunk number {number} of large value {} in file {file}: it has {have} of {} \
             bytes",
            at.id, at.bytes
        ))
    }
}

/// Number and data of a chunk of the value.
pub(super) fn chunk_of(row: &[u8], id: u64) -> Option<(u32, &[u8])> {
    let (of, rest) = row.split_first_chunk::<8>()?;
    let (number, data) = rest.split_first_chunk::<4>()?;
    (u64::from_be_bytes(*of) == id).then(|| (u32::from_be_bytes(*number), data))
}

impl Table {
    /// [`Table::open`], for a table whose rows name large values. The files exist: the heap's is
    /// empty at first, the tree's is laid out ([`Table::create_large`]).
    ///
    /// # Errors
    /// Those of [`Table::open`].
    pub fn open_with_large(
        db: &Database,
        def: TableDef,
        large: &LargeDef,
    ) -> EngineResult<Arc<Table>> {
        let large = Large::open(db, large)?;
        Table::open_as(db, def, super::ReplicaIdentity::Nothing, Some(large))
    }

    /// Makes the files of the large values of a table whose heap is `of`, which are empty: heap and
    /// tree. They go with the transaction if that does not commit.
    ///
    /// # Errors
    /// As [`Transaction::create_file`].
    pub fn create_large(txn: &mut Transaction, of: FileId) -> EngineResult<(FileId, FileId)> {
        let (heap, tree) = (txn.create_file_like(of)?, txn.create_file_like(of)?);
        let xid = txn.xid()?;
        crate::btree::BTree::create(txn.db().store(), xid, tree)?;
        Ok((heap, tree))
    }

    /// The table of the chunks of its large values, if it has such.
    pub fn large(&self) -> Option<&Arc<Table>> {
        self.large.as_ref().map(|large| &large.chunks)
    }

    fn large_store(&self) -> EngineResult<&Large> {
        let what = "large values of a table that was opened without";
        self.large.as_ref().ok_or(EngineError::Unsupported { what })
    }

    /// Stores a value in chunks. The caller puts a row that names it into the table, or drops it
    /// again ([`Table::drop_large`]), in the same subtransaction.
    ///
    /// # Errors
    /// `Cancelled`; a full disk; damage; storage failures.
    pub async fn store_large(&self, txn: &mut Transaction, value: &[u8]) -> EngineResult<LargeRef> {
        let what = "a large value of 4 GiB";
        let bytes = u32::try_from(value.len()).map_err(|_| EngineError::Unsupported { what })?;
        let large = self.large_store()?;
        let id = self.db.system().new_large_id();
        let options = InsertOptions {
            ring: (value.len() > CHUNK_BYTES * CHUNKS_AT_ONCE).then(|| self.load_ring()),
            ..InsertOptions::default()
        };
        let (mut batch, mut row) = (RowBatch::new(), Vec::with_capacity(MAX_ROW));
        let mut numbered = (0u32..).zip(value.chunks(CHUNK_BYTES)).peekable();
        while numbered.peek().is_some() {
            batch.clear();
            for (number, data) in numbered.by_ref().take(CHUNKS_AT_ONCE) {
                row.clear();
                row.extend_from_slice(&id.to_be_bytes());
                row.extend_from_slice(&number.to_be_bytes());
                row.extend_from_slice(data);
                batch.push(Tid::new(BlockNumber(0), 1), &row);
            }
            large.chunks.insert_many(txn, &batch, &options).await?;
        }
        Ok(LargeRef { id, bytes })
    }

    /// The bytes of a value that a row names, from `from` on, `length` at most. The snapshot, which
    /// has seen the row, keeps its chunks.
    ///
    /// # Errors
    /// `Cancelled`; `Corrupted` if chunks are missing or of another length; damage; storage
    /// failures.
    pub fn fetch_large(
        &self,
        snapshot: &Snapshot,
        at: LargeRef,
        (from, length): (usize, usize),
        cancel: Option<&CancelFlag>,
    ) -> EngineResult<Vec<u8>> {
        let large = self.large_store()?;
        let end = from.saturating_add(length).min(at.bytes as usize);
        if from >= end {
            return Ok(Vec::new());
        }
        let first = from / CHUNK_BYTES;
        // A length that is wrong sizes nothing beyond what the heap has.
        let most = (large.chunks.blocks() as usize).saturating_mul(PAGE_SIZE);
        let mut value = Vec::with_capacity((end - first * CHUNK_BYTES).min(most));
        for number in first..end.div_ceil(CHUNK_BYTES) {
            if let Some(flag) = cancel {
                flag.check()?;
            }
            let expected = CHUNK_BYTES.min(at.bytes as usize - number * CHUNK_BYTES);
            let before = value.len();
            large.append_chunk(snapshot, at, number as u32, &mut value)?;
            if value.len() - before != expected {
                return Err(large.missing(at, first * CHUNK_BYTES + before));
            }
        }
        value.truncate(end - first * CHUNK_BYTES);
        value.drain(..from - first * CHUNK_BYTES);
        Ok(value)
    }

    /// Marks the chunks of values deleted by this transaction: those that a row named which it
    /// deletes or updates, or that it has stored for a row that did not come to be.
    ///
    /// # Errors
    /// `Cancelled`; damage; storage failures. The caller rolls the statement back.
    pub fn drop_large(&self, txn: &mut Transaction, values: &[LargeRef]) -> EngineResult<()> {
        if values.is_empty() {
            return Ok(());
        }
        let large = self.large_store()?;
        txn.xid()?;
        for value in values {
            let mut places = Vec::new();
            let tree = &large.chunks.indexes[0];
            let reader = TreeReader::of_writer();
            tree.lookup_prefix(reader, &value.id.to_be_bytes(), &mut |tid| {
                places.push(tid);
                Ok(Visit::Next)
            })?;
            for tid in places {
                txn.check_cancel()?;
                large.chunks.delete_chunk(txn, tid, value.id)?;
            }
        }
        Ok(())
    }

    /// Marks a chunk deleted, if it is one of the value. Nobody else does so meanwhile: who drops a
    /// value holds the row that names it.
    fn delete_chunk(&self, txn: &mut Transaction, tid: Tid, id: u64) -> EngineResult<()> {
        let xid = txn.xid()?;
        self.store().admit()?;
        let page = self.lock_page(tid.block)?;
        let Some((offset, length)) = page.tuple(tid.slot) else {
            return Ok(());
        };
        if chunk_of(page.heap.row(offset, length), id).is_none() {
            return Ok(());
        }
        let header = page.heap.header(offset);
        self.mark_deleted(txn, tid, page, &header, xid)?;
        self.count_delete(txn);
        Ok(())
    }
}

impl Large {
    /// Appends the data of one chunk; nothing if it is not there.
    fn append_chunk(
        &self,
        snapshot: &Snapshot,
        at: LargeRef,
        number: u32,
        value: &mut Vec<u8>,
    ) -> EngineResult<()> {
        let mut key = [0; CHUNK_KEY];
        key[..8].copy_from_slice(&at.id.to_be_bytes());
        key[8..].copy_from_slice(&number.to_be_bytes());
        let tree = &self.chunks.indexes[0];
        tree.lookup(snapshot.into(), &key, &mut |tid| {
            let _frames = self.chunks.reserve_for_reading();
            let guard = self.chunks.heap().read(tid.block)?;
            let tuple = guard.is_heap().then(|| guard.tuple_at(tid.slot)).flatten();
            // An entry may lead to a slot that is another chunk's by now.
            let chunk =
                tuple.and_then(|(offset, length)| chunk_of(guard.row(offset, length), at.id));
            match chunk {
                Some((found, data)) if found == number => {
                    value.extend_from_slice(data);
                    Ok(Visit::Stop)
                }
                _ => Ok(Visit::Next),
            }
        })
    }
}
