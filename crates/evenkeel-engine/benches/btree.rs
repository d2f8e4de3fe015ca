//! Hot paths of the B-tree: ascending and scattered inserts, look-ups, scans, loading.
//! `cargo bench -p evenkeel-engine --bench btree`.

use std::ops::Bound;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use evenkeel_engine::btree::{
    self, BTree, Direction, LeafBatch, Liveness, TreeBuilder, UniqueCheck, Visit,
};
use evenkeel_engine::{Config, Database, Isolation, Snapshot, Tid, Xid};
use evenkeel_io::{FileDisk, IoMethod};
use evenkeel_storage::page::PageMut;
use evenkeel_storage::{
    ApplyContext, ApplyError, BlockNumber, InsertedRecord, Lsn, RecordView, ResourceManager,
    StorageConfig, Store,
};

const ROWS: u64 = 500_000;

struct Client;

impl ResourceManager for Client {
    fn apply(
        &self,
        op: u16,
        page: &mut PageMut<'_>,
        data: &[u8],
        cx: &ApplyContext,
    ) -> Result<(), ApplyError> {
        btree::redo::apply(op, page, data, cx)
    }
    fn completed(&self, _: &[InsertedRecord]) {}
    fn durable(&self, _: Lsn) {}
    fn replayed(&self, _: &RecordView<'_>) -> Result<(), ApplyError> {
        Ok(())
    }
    fn redo_floor(&self) -> Option<Lsn> {
        None
    }
    fn checkpoint_payload(&self) -> Vec<u8> {
        Vec::new()
    }
}

fn tid(number: u64) -> Tid {
    Tid::new(
        BlockNumber((number / 100) as u32),
        (number % 100) as u16 + 1,
    )
}

fn scattered(number: u64) -> [u8; 9] {
    key(number.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// A tag byte and the number, as an encoded integer column has them.
fn key(number: u64) -> [u8; 9] {
    let mut key = [1; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

fn new_tree(store: &Arc<Store>) -> BTree {
    let (file, _hold) = store.create_file(3).expect("a file");
    BTree::create(store, Xid::FIRST, file).expect("a tree")
}

/// A loaded tree of `ROWS` scattered keys.
fn loaded(store: &Arc<Store>) -> BTree {
    let mut keys: Vec<([u8; 9], u64)> = (0..ROWS).map(|n| (scattered(n), n)).collect();
    keys.sort_unstable();
    load(store, keys.iter().copied())
}

fn load(store: &Arc<Store>, keys: impl Iterator<Item = ([u8; 9], u64)>) -> BTree {
    let (file, _hold) = store.create_file(3).expect("a file");
    let mut builder = TreeBuilder::new(store, Xid::FIRST, file, 90).expect("a builder");
    for (key, number) in keys {
        builder.add(&key, tid(number)).expect("in order");
    }
    builder.finish().expect("a tree").0
}

fn inserts(c: &mut Criterion, store: &Arc<Store>) {
    let (ascending, unique) = (new_tree(store), new_tree(store));
    let mut next = 0;
    c.bench_function("btree: insert, ascending", |b| {
        b.iter(|| {
            next += 1;
            ascending.insert(Xid::FIRST, &key(next), tid(next), UniqueCheck::None)
        });
    });
    let mut next = 0;
    c.bench_function("btree: insert, scattered, unique", |b| {
        b.iter(|| {
            next += 1;
            let mut live = |_| Ok(Liveness::Live);
            let check = UniqueCheck::Check(&mut live);
            unique
                .insert(Xid::FIRST, &scattered(next), tid(next), check)
                .map(drop)
        });
    });
}

fn reads(c: &mut Criterion, tree: &BTree, snapshot: &Snapshot) {
    let mut next: u64 = 0;
    c.bench_function("btree: look-up, random", |b| {
        b.iter(|| {
            next = next.wrapping_add(0x2545_F491_4F6C_DD1D);
            let mut found = 0;
            let visit = &mut |_| {
                found += 1;
                Ok(Visit::Stop)
            };
            let key = scattered(next % ROWS);
            tree.lookup(snapshot.into(), &key, visit)
                .expect("a look-up");
            assert_eq!(found, 1);
        });
    });
    let mut scans = c.benchmark_group("btree: scan");
    scans.throughput(Throughput::Elements(ROWS)).sample_size(10);
    for direction in [Direction::Forward, Direction::Backward] {
        scans.bench_function(format!("{direction:?}"), |b| {
            b.iter(|| {
                let mut batch = LeafBatch::new();
                let all = (Bound::Unbounded, Bound::Unbounded);
                let mut scan = tree.scan(snapshot.into(), all, direction);
                let mut count = 0;
                while scan.next_page(&mut batch).expect("a page") {
                    count += batch.len() as u64;
                }
                assert_eq!(count, ROWS);
            });
        });
    }
    scans.finish();
}

fn btree(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a directory");
    let config = StorageConfig {
        shared_buffers: 512 << 20,
        fsync: false,
        ..StorageConfig::default()
    };
    let disk = Arc::new(FileDisk::new(IoMethod::Sync));
    let store = Store::open(disk, dir.path(), config, Arc::new(Client)).expect("a store");
    inserts(c, &store);
    // Nobody writes the trees: the snapshot of another database does.
    let other = dir.path().join("other");
    let disk = Arc::new(FileDisk::new(IoMethod::Sync));
    let db = Database::open(disk, &other, Config::default());
    let db = db.expect("a database");
    let mut txn = db.begin(Isolation::RepeatableRead).expect("a transaction");
    let snapshot = txn.snapshot().expect("a snapshot");
    reads(c, &loaded(&store), &snapshot);
    let mut loads = c.benchmark_group("btree: load");
    loads.throughput(Throughput::Elements(ROWS)).sample_size(10);
    loads.bench_function("ascending", |b| {
        let keys = || (0..ROWS).map(|n| (key(n), n));
        b.iter_batched(keys, |keys| load(&store, keys), BatchSize::PerIteration);
    });
    loads.finish();
}

criterion_group!(benches, btree);
criterion_main!(benches);
