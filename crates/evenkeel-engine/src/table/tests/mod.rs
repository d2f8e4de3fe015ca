//! Tables on a database of their own. Rows are `key:value` texts; indexes are on the key or on
//! the value.

mod basic;
mod check;
mod concurrent;
mod consistency;
mod crash;
mod damaged;
mod identity;
mod interleavings;
mod keys_only;
mod large;
mod locks;
mod mutants;
mod oracle;
mod pass;
mod redo;
mod removal;
mod settings;
mod shared_keys;
mod sorting;
mod stale;
mod statistics;
mod temporary;
mod vacuum;

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use evenkeel_io::SimDisk;
use evenkeel_storage::{FileId, StorageConfig};

use super::{IndexDef, KeyExtractor, KeyHint, KeyKind, Modified, Table, TableDef};
use crate::btree::BTree;
use crate::error::EngineResult;
use crate::heap::rows::{RowBatch, RowHandle};
use crate::mutant::Mutant;
use crate::transaction::Transaction;
use crate::txn::Snapshot;
use crate::types::{Durability, Isolation, Tid};
use crate::vacuum::{VacuumOptions, VacuumStats};
use crate::{Config, Database, block_on};

const DIR: &str = "/db";

/// The part of a row before or behind its first colon.
struct Part {
    value: bool,
}

impl KeyExtractor for Part {
    fn key(&self, row: &[u8], out: &mut Vec<u8>) -> EngineResult<KeyKind> {
        let colon = row
            .iter()
            .position(|byte| *byte == b':')
            .unwrap_or(row.len());
        let part = if self.value {
            &row[(colon + 1).min(row.len())..]
        } else {
            &row[..colon]
        };
        out.extend_from_slice(&part[..part.len().min(200)]);
        out.push(0);
        if part.is_empty() {
            Ok(KeyKind::HasNull)
        } else {
            Ok(KeyKind::Unique)
        }
    }
}

/// Index number of the unique index on the key.
const BY_KEY: usize = 0;
/// Index number of the other one, on the value.
const BY_VALUE: usize = 1;

#[derive(Clone)]
struct Fixture {
    disk: SimDisk,
    db: Database,
    files: Vec<FileId>,
    table: Arc<Table>,
}

fn open_db(disk: &SimDisk, frames: Option<u64>) -> Database {
    open_with_bug(disk, frames, None)
}

fn open_with_bug(disk: &SimDisk, frames: Option<u64>, mutant: Option<Mutant>) -> Database {
    let mut storage = StorageConfig::small();
    storage.shared_buffers = frames.unwrap_or(1024) * 8192;
    let config = Config {
        storage,
        deadlock_timeout: std::time::Duration::from_millis(20),
        mutant,
        ..Config::default()
    };
    Database::open(Arc::new(disk.clone()), Path::new(DIR), config).unwrap()
}

fn def(files: &[FileId], fillfactor: u8) -> TableDef {
    let index = |at: usize| IndexDef {
        file: files[at + 1],
        unique: at == BY_KEY,
        name: ["by_key", "by_value"][at].into(),
        key: Arc::new(Part {
            value: at == BY_VALUE,
        }),
        usable_after: None,
        deferrable: false,
    };
    let indexes = (0..files.len() - 1).map(index).collect();
    TableDef {
        id: 1,
        heap: files[0],
        fillfactor,
        indexes,
    }
}

fn key_of(row: &[u8]) -> &[u8] {
    row.split(|byte| *byte == b':').next().unwrap()
}

fn key(text: &str) -> Vec<u8> {
    let mut key = text.as_bytes().to_vec();
    key.push(0);
    key
}

impl Fixture {
    fn new(indexes: usize) -> Fixture {
        Fixture::with(indexes, 100, None)
    }

    fn with(indexes: usize, fillfactor: u8, frames: Option<u64>) -> Fixture {
        let disk = SimDisk::new(1);
        let db = open_db(&disk, frames);
        Fixture::on(&disk, db, indexes, fillfactor)
    }

    /// A new table in `db`.
    fn on(disk: &SimDisk, db: Database, indexes: usize, fillfactor: u8) -> Fixture {
        Fixture::made(disk, db, (indexes, fillfactor), |txn| {
            txn.create_file().unwrap()
        })
    }

    /// A new table in files that `file` makes.
    fn made(
        disk: &SimDisk,
        db: Database,
        (indexes, fillfactor): (usize, u8),
        file: impl Fn(&mut Transaction) -> FileId,
    ) -> Fixture {
        let mut txn = db.begin(Isolation::ReadCommitted).unwrap();
        let files: Vec<FileId> = (0..=indexes).map(|_| file(&mut txn)).collect();
        let xid = txn.xid().unwrap();
        for file in &files[1..] {
            let _ = BTree::create(db.store(), xid, *file).unwrap();
        }
        block_on(txn.commit(Durability::Sync)).unwrap();
        let table = Table::open(&db, def(&files, fillfactor)).unwrap();
        Fixture {
            disk: disk.clone(),
            db,
            files,
            table,
        }
    }

    /// The same database as another process finds it on `disk`.
    fn reopened(&self, disk: SimDisk) -> Fixture {
        let db = open_db(&disk, None);
        let table = Table::open(&db, self.table.def().clone()).unwrap();
        Fixture {
            disk,
            db,
            files: self.files.clone(),
            table,
        }
    }

    fn begin(&self) -> Transaction {
        self.db.begin(Isolation::ReadCommitted).unwrap()
    }

    fn begin_rr(&self) -> Transaction {
        let mut txn = self.db.begin(Isolation::RepeatableRead).unwrap();
        let _ = txn.snapshot().unwrap();
        txn
    }

    /// Runs and commits a transaction.
    fn commit<T>(&self, work: impl FnOnce(&mut Transaction) -> T) -> T {
        let mut txn = self.begin();
        let result = work(&mut txn);
        end(txn);
        result
    }

    fn insert(&self, txn: &mut Transaction, row: &str) -> EngineResult<Tid> {
        txn.begin_statement().unwrap();
        block_on(self.table.insert(txn, row.as_bytes()))
    }

    fn put(&self, row: &str) -> Tid {
        self.commit(|txn| self.insert(txn, row).unwrap())
    }

    fn update(
        &self,
        txn: &mut Transaction,
        tid: Tid,
        row: &str,
    ) -> EngineResult<Modified<'static>> {
        let old = RowHandle::unguarded(tid);
        block_on(
            self.table
                .update(txn, old, row.as_bytes(), KeyHint::Compare),
        )
    }

    /// Updates the row with this key as one statement.
    fn set(&self, txn: &mut Transaction, row: &str) -> Tid {
        txn.begin_statement().unwrap();
        let (tid, _) = self
            .find(txn, key_of(row.as_bytes()))
            .expect("row to update");
        match self.update(txn, tid, row).unwrap() {
            Modified::Done(tid) => tid,
            other => panic!("{other:?}"),
        }
    }

    fn delete(&self, txn: &mut Transaction, tid: Tid) -> EngineResult<Modified<'static>> {
        block_on(self.table.delete(txn, RowHandle::unguarded(tid)))
    }

    /// The row with this key that the current snapshot sees, by the index if there is one.
    fn find(&self, txn: &mut Transaction, wanted: &[u8]) -> Option<(Tid, String)> {
        let snapshot = txn.snapshot().unwrap();
        let mut batch = RowBatch::new();
        if self.table.def().indexes.is_empty() {
            let all = self.scan(&snapshot);
            return all
                .into_iter()
                .find(|(_, row)| key_of(row.as_bytes()) == wanted);
        }
        let mut key = wanted.to_vec();
        key.push(0);
        self.table
            .index_lookup(&snapshot, BY_KEY, &key, &mut batch)
            .unwrap();
        assert!(batch.len() <= 1, "{} rows with one key", batch.len());
        batch.iter().next().map(|(tid, row)| (tid, text(row)))
    }

    fn scan(&self, snapshot: &Snapshot) -> Vec<(Tid, String)> {
        let mut scan = self.table.scan(snapshot);
        let mut batch = RowBatch::new();
        let mut rows = Vec::new();
        while scan.next_page(&mut batch).unwrap() {
            rows.extend(batch.iter().map(|(tid, row)| (tid, text(row))));
        }
        rows
    }

    /// All rows a new statement of `txn` sees, sorted; scan and indexes must agree.
    fn rows(&self, txn: &mut Transaction) -> Vec<String> {
        txn.begin_statement().unwrap();
        let snapshot = txn.snapshot().unwrap();
        self.rows_at(&snapshot)
    }

    fn rows_at(&self, snapshot: &Snapshot) -> Vec<String> {
        let mut rows: Vec<String> = self
            .scan(snapshot)
            .into_iter()
            .map(|(_, row)| row)
            .collect();
        rows.sort();
        for index in 0..self.table.def().indexes.len() {
            let range = super::KeyRange::all();
            let mut scan = self
                .table
                .index_scan(snapshot, index, &range, super::Direction::Forward)
                .unwrap();
            let mut batch = RowBatch::new();
            let mut found = Vec::new();
            while scan.next_page(&mut batch).unwrap() {
                found.extend(batch.iter().map(|(_, row)| text(row)));
            }
            found.sort();
            assert_eq!(found, rows, "index {index} and scan");
        }
        rows
    }

    /// All committed rows.
    fn committed(&self) -> Vec<String> {
        self.rows(&mut self.begin())
    }

    fn vacuum(&self, options: &VacuumOptions) -> VacuumStats {
        self.table.vacuum(options, &mut |_| {}).unwrap()
    }

    /// Nothing is wrong with the table.
    fn assert_sound(&self) {
        let report = self.table.check().unwrap();
        assert!(report.is_ok(), "{:#?}", report.problems);
    }
}

fn end(txn: Transaction) {
    block_on(txn.commit(Durability::Sync)).unwrap();
}

fn text(row: &[u8]) -> String {
    String::from_utf8(row.to_vec()).unwrap()
}

/// Runs a future on a thread of its own.
fn spawn<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> std::thread::JoinHandle<T> {
    std::thread::spawn(move || block_on(future))
}

/// Waits until `transactions` wait for something.
fn until_waiting(db: &Database, transactions: usize) {
    let start = std::time::Instant::now();
    while db.system().core.locks.waits() < transactions {
        assert!(start.elapsed().as_secs() < 20, "nobody waits");
        std::thread::yield_now();
    }
}
