//! Hot paths of storage: a visit of a page in the pool, a sequential pass over more than the pool
//! holds, a change of a page with its log record, the checksum of a page.
//! `cargo bench -p evenkeel-storage`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use evenkeel_io::{FileDisk, IoMethod};
use evenkeel_storage::buffer::{BufferAccessStrategy, ForkHandle, ReadAhead};
use evenkeel_storage::page::{PageMut, PageRead};
use evenkeel_storage::{
    ApplyContext, ApplyError, BlockNumber, CheckpointMode, Fork, InsertedRecord, Lsn, PartFlags,
    RecordView, ResourceManager, StorageConfig, StorageResult, Store,
};

const FRAMES: u64 = 8192;
const RESIDENT: u32 = 4096;
const BLOCKS: u32 = 32_768;

struct Client;

impl ResourceManager for Client {
    fn apply(
        &self,
        op: u16,
        page: &mut PageMut<'_>,
        data: &[u8],
        _: &ApplyContext,
    ) -> Result<(), ApplyError> {
        match op {
            1 => page.init(1, 0),
            _ => page.bytes_mut()[4096..4096 + data.len()].copy_from_slice(data),
        }
        Ok(())
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

/// A fork four times as large as the pool, of which the first pages are resident.
fn filled(store: &Arc<Store>) -> StorageResult<Arc<ForkHandle>> {
    let (file, hold) = store.create_file(0)?;
    let fork = store.pool().fork(file, Fork::Main)?;
    fork.extend(BLOCKS)?;
    let load = BufferAccessStrategy::bulk_write(store.pool());
    for block in 0..BLOCKS {
        store.admit()?;
        let mut page = fork.pin_new_with(BlockNumber(block), Some(&load))?.write();
        let mut change = store.change(0);
        change.part(&mut page, 1, PartFlags::INIT, &[]);
        change.commit();
    }
    drop(hold);
    store.checkpoint(CheckpointMode::Fast)?;
    for block in 0..RESIDENT {
        drop(fork.read(BlockNumber(block))?);
    }
    Ok(fork)
}

/// Visits resident pages at random.
fn visit(fork: &ForkHandle, mut at: u32, visits: u64) {
    let mut sum = 0;
    for _ in 0..visits {
        at = at.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let block = BlockNumber((at >> 16) % RESIDENT);
        let page = fork.read(block).expect("a resident page");
        sum ^= page.u64_at(0);
    }
    black_box(sum);
}

/// The time of `visits` by each of two threads.
fn visit_by_two(fork: &ForkHandle, visits: u64) -> Duration {
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..2_u32 {
            scope.spawn(move || visit(fork, thread.wrapping_mul(2_654_435_761), visits));
        }
    });
    begun.elapsed()
}

/// Reads every page once, in order.
fn pass(store: &Store, fork: &ForkHandle, ahead: u32) {
    let ring = BufferAccessStrategy::bulk_read(store.pool());
    let mut reader = ReadAhead::new(ahead, Some(Arc::clone(&ring)));
    let mut sum = 0;
    for block in 0..BLOCKS {
        reader.at(fork, block);
        let page = fork
            .read_with(BlockNumber(block), Some(&ring))
            .expect("a page");
        sum ^= page.u64_at(0);
    }
    black_box(sum);
}

fn change(store: &Store, fork: &ForkHandle, number: u32) {
    store.admit().expect("room");
    let block = BlockNumber(number.wrapping_mul(7919) % RESIDENT);
    let mut page = fork.pin(block).expect("a resident page").write();
    let mut change = store.change(0);
    change.part(&mut page, 2, PartFlags::NONE, &[7; 64]);
    change.commit();
}

fn pool(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a directory");
    let config = StorageConfig {
        shared_buffers: FRAMES * 8192,
        fsync: false,
        ..StorageConfig::default()
    };
    let disk = Arc::new(FileDisk::new(IoMethod::Worker { threads: 4 }));
    let store = Store::open(disk, dir.path(), config, Arc::new(Client)).expect("a store");
    let fork = filled(&store).expect("pages");
    c.bench_function("pool: visit of a resident page", |b| {
        b.iter_custom(|visits| {
            let begun = Instant::now();
            visit(&fork, 1, visits);
            begun.elapsed()
        });
    });
    c.bench_function("pool: visit of a resident page by two threads", |b| {
        b.iter_custom(|visits| visit_by_two(&fork, visits));
    });
    let mut number = 0;
    c.bench_function("log: change of a page, 64 bytes", |b| {
        b.iter(|| {
            number += 1;
            change(&store, &fork, number);
        });
    });
    let mut passes = c.benchmark_group("pool: pass over 256 MiB");
    passes.sample_size(10);
    passes.bench_function("without reading ahead", |b| {
        b.iter(|| pass(&store, &fork, 0));
    });
    passes.bench_function("reading ahead", |b| {
        b.iter(|| pass(&store, &fork, BLOCKS));
    });
    passes.finish();
}

criterion_group!(benches, pool);
criterion_main!(benches);
