//! evenkeel: a heap table with one unique index.

use std::path::Path;
use std::sync::Arc;

use evenkeel_engine::btree::BTree;
use evenkeel_engine::heap::{RowBatch, RowHandle};
use evenkeel_engine::table::{
    Arbiter, IndexDef, Inserted, KeyExtractor, KeyHint, KeyKind, Modified, TableDef,
};
use evenkeel_engine::{Config, Database, Durability, Isolation, Table, Transaction, block_on};
use evenkeel_io::{FileDisk, IoMethod};
use evenkeel_storage::{FileId, Fork, StorageConfig};

use crate::subject::{KEY_BYTES, Key, Result, Row, Session, Store, Subject, VALUE_BYTES, locked};

pub const SUBJECT: Subject = Subject {
    name: "evenkeel",
    version: || locked("evenkeel-engine"),
    durability: "Durability::Sync: fdatasync of the log, shared by the commits that wait",
    settings: "shared_buffers = cache; fillfactor 90; double-write area on",
    open,
};

const HEAP: FileId = FileId(100);
const INDEX: FileId = FileId(101);

/// A row is its key followed by its value.
struct FirstBytes;

impl KeyExtractor for FirstBytes {
    fn key(&self, row: &[u8], out: &mut Vec<u8>) -> KeyKind {
        out.extend_from_slice(&row[..KEY_BYTES.min(row.len())]);
        KeyKind::Unique
    }
}

struct Evenkeel {
    db: Database,
    table: Arc<Table>,
}

fn open(dir: &Path, cache: u64) -> Result<Box<dyn Store>> {
    let config = Config {
        storage: StorageConfig {
            shared_buffers: cache,
            ..StorageConfig::default()
        },
        ..Config::default()
    };
    let disk = Arc::new(FileDisk::new(IoMethod::Worker { threads: 2 }));
    let db = Database::open(disk, dir, config)?;
    let table = open_table(&db)?;
    Ok(Box::new(Evenkeel { db, table }))
}

fn open_table(db: &Database) -> Result<Arc<Table>> {
    let index = IndexDef {
        file: INDEX,
        unique: true,
        name: "key".into(),
        key: Arc::new(FirstBytes),
        usable_after: None,
        deferrable: false,
    };
    let def = TableDef {
        id: 1,
        heap: HEAP,
        fillfactor: 90,
        indexes: vec![index],
    };
    if !db.pool().fork(INDEX, Fork::Main)?.is_empty() {
        return Ok(Table::open(db, def)?);
    }
    let mut txn = db.begin(Isolation::ReadCommitted)?;
    txn.create_file_as(HEAP)?;
    txn.create_file_as(INDEX)?;
    let xid = txn.xid()?;
    BTree::create(db.store(), xid, INDEX)?;
    block_on(txn.commit(Durability::Sync))?;
    Ok(Table::open(db, def)?)
}

impl Store for Evenkeel {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(EvenkeelSession {
            store: self,
            reads: self.db.begin(Isolation::ReadCommitted)?,
            found: RowBatch::new(),
        }))
    }

    fn checkpoint(&self) -> Result<bool> {
        self.db.checkpoint()?;
        Ok(true)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.db.close()?)
    }
}

struct EvenkeelSession<'a> {
    store: &'a Evenkeel,
    /// The transaction that reads; each of them is a statement with a snapshot of its own.
    reads: Transaction,
    found: RowBatch,
}

impl EvenkeelSession<'_> {
    fn put_row(&self, txn: &mut Transaction, row: &[u8]) -> Result<()> {
        let table = &self.store.table;
        let snapshot = txn.snapshot()?;
        loop {
            match block_on(table.insert_or_conflict(txn, &snapshot, row, Arbiter::Any))? {
                Inserted::Done(_) => return Ok(()),
                Inserted::Conflict { row: there, .. } => {
                    if Self::update(table, txn, there, row)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Overwrites a version; `false` if the row has gone meanwhile.
    fn update(
        table: &Table,
        txn: &mut Transaction,
        there: RowHandle<'_>,
        row: &[u8],
    ) -> Result<bool> {
        let mut there = there;
        loop {
            match block_on(table.update(txn, there, row, KeyHint::Unchanged))? {
                Modified::Changed { newest } => there = newest,
                // Twice in one batch.
                Modified::SelfModified => {
                    txn.next_command()?;
                }
                Modified::Gone => return Ok(false),
                Modified::Done(_) | Modified::Skipped => return Ok(true),
            }
        }
    }
}

impl Session for EvenkeelSession<'_> {
    fn put(&mut self, rows: &[Row]) -> Result<()> {
        let mut txn = self.store.db.begin(Isolation::ReadCommitted)?;
        let mut bytes = [0; KEY_BYTES + VALUE_BYTES];
        for row in rows {
            bytes[..KEY_BYTES].copy_from_slice(&row.key);
            bytes[KEY_BYTES..].copy_from_slice(&row.value);
            self.put_row(&mut txn, &bytes)?;
        }
        Ok(block_on(txn.commit(Durability::Sync))?)
    }

    fn get(&mut self, key: &Key, found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.reads.begin_statement()?;
        let snapshot = self.reads.snapshot()?;
        self.found.clear();
        let table = &self.store.table;
        table.index_lookup(&snapshot, 0, key, &mut self.found)?;
        if self.found.is_empty() {
            return Ok(false);
        }
        found(&self.found.row(0)[KEY_BYTES..]);
        // With the rows the snapshot goes, and the next one can have its place.
        self.found.clear();
        Ok(true)
    }
}
