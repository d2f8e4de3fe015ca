//! Measures the cost of waiting beside many other waiters, and of reading rows of transactions that
//! are younger than an idle one, before and after `xid_window` ids have been used.
//! `cargo run --release -p evenkeel-engine --example waiting [waiters] [directory]`.

use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use evenkeel_engine::heap::rows::RowBatch;
use evenkeel_engine::table::{IndexDef, KeyExtractor, KeyKind, TableDef};
use evenkeel_engine::{
    Config, Database, Durability, Isolation, Table, TableLockMode, WaitPolicy, block_on,
};
use evenkeel_io::{FileDisk, IoMethod};

const WINDOW: usize = 1 << 16;
const LOOKUPS: u64 = 200_000;

struct Key;

impl KeyExtractor for Key {
    fn key(&self, row: &[u8], out: &mut Vec<u8>) -> KeyKind {
        out.extend_from_slice(&row[..8]);
        KeyKind::Unique
    }
}

/// Mean time from asking for a lock to being in its queue.
fn waits(db: &Database, waiters: usize) -> Result<Duration, Box<dyn Error>> {
    let holder = db.begin(Isolation::ReadCommitted)?;
    let mode = TableLockMode::Exclusive;
    block_on(holder.lock_advisory(1, mode, WaitPolicy::Block))?;
    let mut transactions = Vec::new();
    for _ in 0..waiters {
        transactions.push(db.begin(Isolation::ReadCommitted)?);
    }
    let mut context = Context::from_waker(Waker::noop());
    let mut futures: Vec<_> = transactions
        .iter()
        .map(|txn| Box::pin(txn.lock_advisory(1, mode, WaitPolicy::Block)))
        .collect();
    let begun = Instant::now();
    for future in &mut futures {
        let waiting = pin!(future);
        assert!(waiting.poll(&mut context).is_pending());
    }
    Ok(begun.elapsed() / u32::try_from(waiters)?)
}

fn table(db: &Database) -> Result<Arc<Table>, Box<dyn Error>> {
    let mut txn = db.begin(Isolation::ReadCommitted)?;
    let heap = txn.create_file()?;
    let file = txn.create_file()?;
    let index = IndexDef {
        file,
        unique: true,
        name: "key".into(),
        key: Arc::new(Key),
        usable_after: None,
    };
    let bare = TableDef {
        id: 1,
        heap,
        fillfactor: 100,
        indexes: Vec::new(),
    };
    let table = Table::open(db, bare.clone())?;
    let _ = table.build_index(&mut txn, &index)?;
    block_on(txn.commit(Durability::Async))?;
    Ok(Table::open(
        db,
        TableDef {
            indexes: vec![index],
            ..bare
        },
    )?)
}

fn insert(db: &Database, table: &Table, number: u64) -> Result<(), Box<dyn Error>> {
    let mut txn = db.begin(Isolation::ReadCommitted)?;
    txn.begin_statement()?;
    let mut row = [b' '; 80];
    row[..8].copy_from_slice(&number.to_be_bytes());
    block_on(table.insert(&mut txn, &row))?;
    block_on(txn.commit(Durability::Async))?;
    Ok(())
}

/// Mean time of a look-up by key, with the given number of threads.
fn lookups(
    db: &Database,
    table: &Arc<Table>,
    rows: u64,
    threads: u64,
) -> Result<Duration, Box<dyn Error>> {
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let mut txn = db.begin(Isolation::ReadCommitted).expect("a transaction");
                let mut out = RowBatch::new();
                for at in 0..LOOKUPS {
                    txn.begin_statement().expect("a snapshot");
                    let snapshot = txn.snapshot().expect("a snapshot");
                    let number = (at * threads + thread).wrapping_mul(0x9e37_79b9_7f4a_7c15) % rows;
                    out.clear();
                    let key = number.to_be_bytes();
                    table
                        .index_lookup(&snapshot, 0, &key, &mut out)
                        .expect("a look-up");
                    assert_eq!(out.len(), 1, "row {number}");
                    drop(snapshot);
                    txn.end_statement();
                }
            });
        }
    });
    Ok(begun.elapsed() / u32::try_from(LOOKUPS)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let waiters = arguments.next().map_or(Ok(1000), |text| text.parse())?;
    let given = arguments.next();
    let temporary = tempfile::tempdir()?;
    let dir = given.map_or(temporary.path().join("db"), Into::into);
    let disk = Arc::new(FileDisk::new(IoMethod::Worker { threads: 2 }));
    let config = Config {
        xid_window: WINDOW,
        ..Config::default()
    };
    let db = Database::open(disk, &dir, config)?;
    for waiters in [waiters / 100, waiters / 10, waiters] {
        let took = waits(&db, waiters.max(1))?;
        println!("{waiters} waiters: {took:?} a wait");
    }
    let table = table(&db)?;
    let mut idle = db.begin(Isolation::ReadCommitted)?;
    idle.xid()?;
    let mut rows = 0;
    for (name, upto) in [("within", WINDOW / 2), ("beyond", WINDOW * 4)] {
        while rows < upto as u64 {
            insert(&db, &table, rows)?;
            rows += 1;
        }
        db.checkpoint()?;
        for threads in [1, 2, 4] {
            let rows = (WINDOW / 2) as u64;
            let first = lookups(&db, &table, rows, threads)?;
            println!("{name} the window, {threads} threads: {first:?} a look-up");
        }
    }
    idle.rollback();
    Ok(())
}
