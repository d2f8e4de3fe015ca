//! How long VACUUM FREEZE takes over a large table of which one row in two hundred was updated,
//! with rings of several sizes. `cargo run --release -p evenkeel-engine --example vacuum_speed
//! [rows] [directory] [shared_buffers in MiB]`.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use evenkeel_engine::heap::rows::RowBatch;
use evenkeel_engine::table::{
    IndexDef, InsertOptions, KeyExtractor, KeyHint, KeyKind, Modified, TableDef,
};
use evenkeel_engine::vacuum::VacuumOptions;
use evenkeel_engine::{BlockNumber, Config, Database, Durability, Isolation, Table, Tid, block_on};
use evenkeel_io::{FileDisk, IoMethod};
use evenkeel_storage::{CheckpointMode, StorageConfig};

/// As wide as a row of `pgbench_accounts`.
const ROW: usize = 97;
const SPARSE: u64 = 200;

struct Key;

impl KeyExtractor for Key {
    fn key(&self, row: &[u8], out: &mut Vec<u8>) -> KeyKind {
        out.extend_from_slice(&row[..8]);
        KeyKind::Unique
    }
}

fn row(number: u64) -> Vec<u8> {
    let mut row = vec![b' '; ROW];
    row[..8].copy_from_slice(&number.to_be_bytes());
    row
}

/// A number that looks random.
fn scatter(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

fn load(db: &Database, rows: u64) -> Result<Arc<Table>, Box<dyn Error>> {
    let mut txn = db.begin(Isolation::ReadCommitted)?;
    let heap = txn.create_file()?;
    let bare = TableDef {
        id: 1,
        heap,
        fillfactor: 100,
        indexes: Vec::new(),
    };
    let table = Table::open(db, bare.clone())?;
    let mut batch = RowBatch::new();
    for number in 0..rows {
        batch.push(Tid::new(BlockNumber(0), 1), &row(number));
        if batch.len() == 1000 || number + 1 == rows {
            let options = InsertOptions {
                freeze: true,
                ring: Some(table.load_ring()),
            };
            block_on(table.insert_many(&mut txn, &batch, &options))?;
            batch.clear();
        }
    }
    let index = IndexDef {
        file: txn.create_file()?,
        unique: true,
        name: "key".into(),
        key: Arc::new(Key),
        usable_after: None,
    };
    // Its rows are new: no chain is broken.
    let _ = table.build_index(&mut txn, &index)?;
    block_on(txn.commit(Durability::Sync))?;
    Ok(Table::open(
        db,
        TableDef {
            indexes: vec![index],
            ..bare
        },
    )?)
}

fn update(db: &Database, table: &Arc<Table>) -> Result<u64, Box<dyn Error>> {
    let mut txn = db.begin(Isolation::ReadCommitted)?;
    let mut scan = table.scan(&txn.snapshot()?);
    let mut batch = RowBatch::new();
    let mut changed = 0;
    while scan.next_page(&mut batch)? {
        for (at, (_, row)) in batch.iter().enumerate() {
            let number = u64::from_be_bytes(row[..8].try_into()?);
            if scatter(number).is_multiple_of(SPARSE)
                && let Some(there) = batch.handle(at)
            {
                let done = block_on(table.update(&mut txn, there, row, KeyHint::Unchanged))?;
                assert!(matches!(done, Modified::Done(_)));
                changed += 1;
            }
        }
    }
    block_on(txn.commit(Durability::Sync))?;
    Ok(changed)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let rows: u64 = arguments.next().map_or(Ok(4_000_000), |n| n.parse())?;
    let dir = arguments
        .next()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let mebibytes: u64 = arguments.next().map_or(Ok(128), |n| n.parse())?;
    let dir = dir.join(format!("vacuum_speed.{}", std::process::id()));
    let storage = StorageConfig {
        shared_buffers: mebibytes << 20,
        ..StorageConfig::default()
    };
    let config = Config {
        storage,
        ..Config::default()
    };
    let disk = Arc::new(FileDisk::new(IoMethod::Worker { threads: 4 }));
    let db = Database::open(disk, &dir, config)?;
    for ring in [None, Some(8 << 10), Some(0), None] {
        let table = load(&db, rows)?;
        let updated = update(&db, &table)?;
        db.store().checkpoint(CheckpointMode::Fast)?;
        let options = VacuumOptions {
            freeze: true,
            buffer_usage_limit: ring,
            ..VacuumOptions::default()
        };
        let log = db.store().log();
        let before = (log.stats().syncs.load(Relaxed), log.insert_lsn());
        let writing = log.stats().write_micros.load(Relaxed);
        let started = Instant::now();
        let stats = table.vacuum(&options, &mut |_| {})?;
        let took = started.elapsed();
        let flushes = log.stats().syncs.load(Relaxed) - before.0;
        let writing = log.stats().write_micros.load(Relaxed) - writing;
        let changed = stats.buffers.2;
        println!(
            "ring {ring:?}: {updated} updated, {took:.2?}, {} of {} pages scanned, {changed} \
             changed, {flushes} log flushes ({:.1} a thousand, {:.1} % of the time), {} KiB of log",
            stats.pages_scanned,
            stats.pages,
            flushes as f64 * 1e3 / changed as f64,
            writing as f64 / took.as_micros() as f64 * 100.0,
            (log.insert_lsn().0 - before.1.0) >> 10,
        );
    }
    db.close()?;
    drop(db);
    std::fs::remove_dir_all(dir)?;
    Ok(())
}
