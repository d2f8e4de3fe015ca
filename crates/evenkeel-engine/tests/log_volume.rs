//! Bytes of log per transaction of TPC-B's shape: three updates by key and an insert.

use std::path::Path;
use std::sync::Arc;

use evenkeel_engine::btree::BTree;
use evenkeel_engine::describe::{operation_name, payload_text, record_name};
use evenkeel_engine::heap::RowBatch;
use evenkeel_engine::table::{IndexDef, KeyExtractor, KeyHint, KeyKind, TableDef};
use evenkeel_engine::{
    Config, Database, Durability, EngineResult, Isolation, Table, Transaction, block_on,
};
use evenkeel_io::SimDisk;
use evenkeel_storage::StorageConfig;
use evenkeel_storage::wal::dump::{self, DumpStats, Names};

const TRANSACTIONS: u64 = 5000;
const BYTES_MAX: f64 = 560.0;
const ACCOUNTS: u64 = 20_000;
const TELLERS: u64 = 10;

/// A row begins with its key.
struct Number;

impl KeyExtractor for Number {
    fn key(&self, row: &[u8], out: &mut Vec<u8>) -> EngineResult<KeyKind> {
        out.extend_from_slice(&row[..8]);
        Ok(KeyKind::Unique)
    }
}

fn row(number: u64, balance: u64) -> Vec<u8> {
    let mut row = vec![b' '; 97];
    row[..8].copy_from_slice(&number.to_be_bytes());
    row[8..16].copy_from_slice(&balance.to_le_bytes());
    row
}

fn table(db: &Database, id: u64, rows: u64, indexed: bool) -> EngineResult<Arc<Table>> {
    let mut txn = db.begin(Isolation::ReadCommitted)?;
    let heap = txn.create_file()?;
    let mut indexes = Vec::new();
    if indexed {
        let file = txn.create_file()?;
        BTree::create(db.store(), txn.xid()?, file)?;
        indexes.push(IndexDef {
            file,
            unique: true,
            name: "number".into(),
            key: Arc::new(Number),
            usable_after: None,
            deferrable: false,
        });
    }
    let def = TableDef {
        id,
        heap,
        fillfactor: 100,
        indexes,
    };
    let table = Table::open(db, def)?;
    for number in 0..rows {
        block_on(table.insert(&mut txn, &row(number, 0)))?;
    }
    block_on(txn.commit(Durability::Sync))?;
    Ok(table)
}

fn add(table: &Arc<Table>, txn: &mut Transaction, number: u64, value: u64) -> EngineResult<()> {
    txn.begin_statement()?;
    let snapshot = txn.snapshot()?;
    let mut found = RowBatch::new();
    table.index_lookup(&snapshot, 0, &number.to_be_bytes(), &mut found)?;
    drop(snapshot);
    if let Some(handle) = found.handle(0) {
        let new = row(number, value);
        block_on(table.update(txn, handle, &new, KeyHint::Unchanged))?;
    }
    Ok(())
}

fn run(db: &Database, tables: &[Arc<Table>; 4], count: u64) -> EngineResult<()> {
    let [accounts, tellers, branches, history] = tables;
    let mut random = 0x9e37_79b9_u64;
    for n in 1..=count {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let mut txn = db.begin(Isolation::ReadCommitted)?;
        add(accounts, &mut txn, (random >> 33) % ACCOUNTS, n)?;
        add(tellers, &mut txn, (random >> 13) % TELLERS, n)?;
        add(branches, &mut txn, 0, n)?;
        txn.begin_statement()?;
        block_on(history.insert(&mut txn, &row(n, n)[..50]))?;
        block_on(txn.commit(Durability::Async))?;
    }
    Ok(())
}

#[test]
fn a_transaction_of_tpcb_writes_few_bytes_of_log() {
    let disk = SimDisk::new(1);
    let dir = Path::new("/db");
    let storage = StorageConfig {
        shared_buffers: 256 << 20,
        max_wal_size: 4 << 30,
        ..StorageConfig::small()
    };
    let config = Config {
        storage,
        ..Config::default()
    };
    let db = Database::open(Arc::new(disk.clone()), dir, config).unwrap();
    let tables = [
        table(&db, 1, ACCOUNTS, true).unwrap(),
        table(&db, 2, TELLERS, true).unwrap(),
        table(&db, 3, 1, true).unwrap(),
        table(&db, 4, 0, false).unwrap(),
    ];
    db.checkpoint().unwrap();
    let before = db.store().log().insert_lsn();
    run(&db, &tables, TRANSACTIONS).unwrap();
    let bytes = db.store().log().insert_lsn().distance_from(before);
    let each = bytes as f64 / TRANSACTIONS as f64;
    db.store().log().flush_all().unwrap();
    let (_, mut reader) = dump::open(Arc::new(disk), dir).unwrap();
    let mut stats = DumpStats::default();
    while let Some(record) = reader.next_record().unwrap() {
        stats.add(&record);
    }
    let report = stats.report(Names {
        record: record_name,
        operation: operation_name,
        payload: payload_text,
    });
    assert!(each < BYTES_MAX, "{each:.1} bytes each\n{report}");
}
