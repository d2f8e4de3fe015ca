//! A bank in one file: the engine embedded in a program, without a server or SQL.
//!
//! ```text
//! cargo run --release -p evenkeel-engine --example embedded -- DIR [--abort]
//! ```
//! Each run transfers money between accounts from several threads and prints the total, which
//! never changes. With `--abort` the process kills itself amid the transfers: the next run
//! recovers, and finds every acknowledged transfer and none by half.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use evenkeel_engine::btree::BTree;
use evenkeel_engine::heap::RowBatch;
use evenkeel_engine::table::{IndexDef, KeyExtractor, KeyHint, KeyKind, Modified, TableDef};
use evenkeel_engine::{
    Config, Database, Durability, EngineResult, Isolation, Table, Transaction, block_on,
};
use evenkeel_io::{FileDisk, IoMethod};
use evenkeel_storage::{FileId, Fork};

const HEAP: FileId = FileId(100);
const INDEX: FileId = FileId(101);
const ACCOUNTS: u64 = 1000;
const THREADS: u64 = 8;

/// A row is the account's number and its balance, 8 bytes each; the key is the number.
struct AccountNumber;

impl KeyExtractor for AccountNumber {
    fn key(&self, row: &[u8], out: &mut Vec<u8>) -> EngineResult<KeyKind> {
        out.extend_from_slice(&row[..8]);
        Ok(KeyKind::Unique)
    }
}

fn row(account: u64, balance: i64) -> Vec<u8> {
    [account.to_be_bytes(), balance.to_be_bytes()].concat()
}

fn balance(row: &[u8]) -> i64 {
    row.get(8..16)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, i64::from_be_bytes)
}

/// Opens the table, making and filling it in one transaction if it is not there.
fn open_table(db: &Database) -> EngineResult<Arc<Table>> {
    let index = IndexDef {
        file: INDEX,
        unique: true,
        name: "account_number".into(),
        key: Arc::new(AccountNumber),
        usable_after: None,
        deferrable: false,
    };
    let def = TableDef {
        id: 1,
        heap: HEAP,
        fillfactor: 90,
        indexes: vec![index],
    };
    if !db.pool().fork(HEAP, Fork::Main)?.is_empty() {
        return Table::open(db, def);
    }
    let mut txn = db.begin(Isolation::ReadCommitted)?;
    txn.create_file_as(HEAP)?;
    txn.create_file_as(INDEX)?;
    let xid = txn.xid()?;
    BTree::create(db.store(), xid, INDEX)?;
    let table = Table::open(db, def)?;
    for account in 0..ACCOUNTS {
        block_on(table.insert(&mut txn, &row(account, 100)))?;
    }
    block_on(txn.commit(Durability::Sync))?;
    Ok(table)
}

/// Adds to one account's balance, waiting for whoever is changing it.
fn add(table: &Arc<Table>, txn: &mut Transaction, account: u64, amount: i64) -> EngineResult<()> {
    txn.begin_statement()?;
    let snapshot = txn.snapshot()?;
    let mut found = RowBatch::new();
    table.index_lookup(&snapshot, 0, &account.to_be_bytes(), &mut found)?;
    drop(snapshot);
    // The batch holds the snapshot under which the row was read.
    let Some(mut there) = found.handle(0) else {
        return Ok(());
    };
    let mut old = balance(found.row(0));
    loop {
        let new = row(account, old + amount);
        match block_on(table.update(txn, there, &new, KeyHint::Unchanged))? {
            // Somebody was faster: that version is locked for us now.
            Modified::Changed { newest } => {
                there = newest;
                old = table
                    .fetch_locked(there)?
                    .map_or(0, |row| balance(&row.bytes));
            }
            _ => return Ok(()),
        }
    }
}

fn transfer(db: &Database, table: &Arc<Table>, from: u64, to: u64) -> EngineResult<()> {
    let mut txn = db.begin(Isolation::ReadCommitted)?;
    // In the order of the account numbers, so that two transfers never wait for each other.
    let (first, second, amount) = if from < to {
        (from, to, -1)
    } else {
        (to, from, 1)
    };
    add(table, &mut txn, first, amount)?;
    add(table, &mut txn, second, -amount)?;
    block_on(txn.commit(Durability::Sync))
}

fn total(db: &Database, table: &Arc<Table>) -> EngineResult<(usize, i64)> {
    let mut txn = db.begin(Isolation::ReadCommitted)?;
    let mut scan = table.scan(&txn.snapshot()?);
    let mut batch = RowBatch::new();
    let (mut rows, mut sum) = (0, 0);
    while scan.next_page(&mut batch)? {
        rows += batch.len();
        sum += batch.iter().map(|(_, row)| balance(row)).sum::<i64>();
    }
    Ok((rows, sum))
}

fn run_transfers(db: &Database, table: &Arc<Table>, until: Instant) -> EngineResult<u64> {
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let done = &done;
                scope.spawn(move || -> EngineResult<()> {
                    let mut random = 0x9e37_79b9_u64.wrapping_mul(thread + 1);
                    while Instant::now() < until {
                        random = random
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1);
                        let (from, to) = (random >> 33, random >> 13);
                        let (from, to) = (from % ACCOUNTS, to % ACCOUNTS);
                        if from != to {
                            transfer(db, table, from, to)?;
                            done.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })?;
    Ok(done.into_inner())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().ok_or("usage: embedded DIR [--abort]")?;
    let abort = arguments
        .next()
        .is_some_and(|argument| argument == "--abort");
    let disk = Arc::new(FileDisk::new(IoMethod::Worker { threads: 4 }));
    let db = Database::open(disk, Path::new(&dir), Config::default())?;
    let table = open_table(&db)?;
    let (rows, sum) = total(&db, &table)?;
    println!("found {rows} accounts with {sum} in total");
    if abort {
        std::thread::spawn(|| {
            std::thread::sleep(Duration::from_millis(700));
            println!("dying amid transfers");
            std::process::abort();
        });
    }
    let begun = Instant::now();
    let done = run_transfers(&db, &table, begun + Duration::from_secs(2))?;
    let per_second = done as f64 / begun.elapsed().as_secs_f64();
    let (rows, sum) = total(&db, &table)?;
    println!("{done} transfers, {per_second:.0} per second; {rows} accounts with {sum} in total");
    db.close()?;
    Ok(())
}
