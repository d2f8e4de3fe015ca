//! Hot paths of transactions: point reads, updates and inserts with their commits, the wait for a
//! lock beside many waiters, VACUUM of a table with few changes.
//! `cargo bench -p evenkeel-engine --bench transactions`.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use evenkeel_engine::heap::rows::RowBatch;
use evenkeel_engine::table::{
    IndexDef, InsertOptions, KeyExtractor, KeyHint, KeyKind, Modified, TableDef,
};
use evenkeel_engine::vacuum::VacuumOptions;
use evenkeel_engine::{
    BlockNumber, Config, Database, Durability, EngineResult, Isolation, Table, TableLockMode, Tid,
    WaitPolicy, block_on,
};
use evenkeel_io::{FileDisk, IoMethod};
use evenkeel_storage::StorageConfig;

const ROWS: u64 = 200_000;
/// As wide as a row of `pgbench_accounts`.
const ROW: usize = 97;
/// A vacuum finds one row in so many changed.
const SPARSE: u64 = 200;
const WAITERS: u64 = 1000;

/// A row begins with its key.
struct Key;

impl KeyExtractor for Key {
    fn key(&self, row: &[u8], out: &mut Vec<u8>) -> evenkeel_engine::EngineResult<KeyKind> {
        out.extend_from_slice(&row[..8]);
        Ok(KeyKind::Unique)
    }
}

fn row(number: u64) -> [u8; ROW] {
    let mut row = [b' '; ROW];
    row[..8].copy_from_slice(&number.to_be_bytes());
    row
}

/// A number that looks random.
fn scatter(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

fn load(db: &Database, id: u64) -> EngineResult<Arc<Table>> {
    let mut txn = db.begin(Isolation::ReadCommitted)?;
    let bare = TableDef {
        id,
        heap: txn.create_file()?,
        fillfactor: 90,
        indexes: Vec::new(),
    };
    let table = Table::open(db, bare.clone())?;
    let mut batch = RowBatch::new();
    for number in 0..ROWS {
        batch.push(Tid::new(BlockNumber(0), 1), &row(number));
        if batch.len() == 1000 || number + 1 == ROWS {
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
        deferrable: false,
    };
    // Its rows are new: no chain is broken.
    let _ = table.build_index(&mut txn, &index)?;
    block_on(txn.commit(Durability::Async))?;
    let indexes = vec![index];
    Table::open(db, TableDef { indexes, ..bare })
}

fn read(db: &Database, table: &Arc<Table>, number: u64, out: &mut RowBatch) -> EngineResult<()> {
    let mut txn = db.begin(Isolation::ReadCommitted)?;
    txn.begin_statement()?;
    let snapshot = txn.snapshot()?;
    out.clear();
    table.index_lookup(&snapshot, 0, &number.to_be_bytes(), out)?;
    drop(snapshot);
    block_on(txn.commit(Durability::Async))?;
    assert_eq!(out.len(), 1);
    Ok(())
}

fn update(db: &Database, table: &Arc<Table>, number: u64) -> EngineResult<()> {
    let mut txn = db.begin(Isolation::ReadCommitted)?;
    txn.begin_statement()?;
    let snapshot = txn.snapshot()?;
    let mut found = RowBatch::new();
    table.index_lookup(&snapshot, 0, &number.to_be_bytes(), &mut found)?;
    drop(snapshot);
    let handle = found.handle(0).expect("the row");
    let done = block_on(table.update(&mut txn, handle, &row(number), KeyHint::Unchanged))?;
    assert!(matches!(done, Modified::Done(_)));
    block_on(txn.commit(Durability::Async))?;
    Ok(())
}

fn insert(db: &Database, table: &Arc<Table>, number: u64) -> EngineResult<()> {
    let mut txn = db.begin(Isolation::ReadCommitted)?;
    txn.begin_statement()?;
    block_on(table.insert(&mut txn, &row(number)))?;
    block_on(txn.commit(Durability::Async))?;
    Ok(())
}

/// The time that `count` transactions take to enter the queue of a lock which has `WAITERS`.
fn wait(db: &Database, count: u64) -> EngineResult<Duration> {
    let mut total = Duration::ZERO;
    let mode = TableLockMode::Exclusive;
    for _ in 0..count.div_ceil(WAITERS) {
        let holder = db.begin(Isolation::ReadCommitted)?;
        block_on(holder.lock_advisory(1, mode, WaitPolicy::Block))?;
        let begin = |_| db.begin(Isolation::ReadCommitted);
        let waiters: Vec<_> = (0..WAITERS).map(begin).collect::<EngineResult<_>>()?;
        let lock = |txn| {
            let txn: &evenkeel_engine::Transaction = txn;
            Box::pin(txn.lock_advisory(1, mode, WaitPolicy::Block))
        };
        let mut futures: Vec<_> = waiters.iter().map(lock).collect();
        let mut context = Context::from_waker(Waker::noop());
        let begun = Instant::now();
        for future in &mut futures {
            assert!(pin!(future).poll(&mut context).is_pending());
        }
        total += begun.elapsed();
    }
    Ok(total.mul_f64(count as f64 / (count.div_ceil(WAITERS) * WAITERS) as f64))
}

fn transactions(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a directory");
    let storage = StorageConfig {
        shared_buffers: 512 << 20,
        fsync: false,
        ..StorageConfig::default()
    };
    let config = Config {
        storage,
        ..Config::default()
    };
    let disk = Arc::new(FileDisk::new(IoMethod::Worker { threads: 2 }));
    let db = Database::open(disk, dir.path(), config).expect("a database");
    let table = load(&db, 1).expect("a table");
    let (mut next, mut out) = (0, RowBatch::new());
    c.bench_function("transaction: read by key", |b| {
        b.iter(|| {
            next += 1;
            read(&db, &table, scatter(next) % ROWS, &mut out)
        });
    });
    c.bench_function("transaction: update by key", |b| {
        b.iter(|| {
            next += 1;
            update(&db, &table, scatter(next) % ROWS)
        });
    });
    let mut key = ROWS;
    c.bench_function("transaction: insert", |b| {
        b.iter(|| {
            key += 1;
            insert(&db, &table, key)
        });
    });
    c.bench_function("lock: wait beside 1000 waiters", |b| {
        b.iter_custom(|count| wait(&db, count).expect("waits"));
    });
    vacuum(c, &db);
    db.close().expect("closed");
}

fn vacuum(c: &mut Criterion, db: &Database) {
    let table = load(db, 2).expect("a table");
    let changed = || {
        let rows = (0..ROWS).filter(|n| scatter(*n).is_multiple_of(SPARSE));
        rows.for_each(|number| update(db, &table, number).expect("updated"));
    };
    let options = VacuumOptions {
        freeze: true,
        ..VacuumOptions::default()
    };
    let mut group = c.benchmark_group("vacuum");
    group.throughput(Throughput::Elements(ROWS)).sample_size(10);
    group.bench_function("freeze, one row in 200 updated", |b| {
        let vacuum = |()| table.vacuum(&options, &mut |_| {}).map(drop);
        b.iter_batched(changed, vacuum, BatchSize::PerIteration);
    });
    group.finish();
}

criterion_group!(benches, transactions);
criterion_main!(benches);
