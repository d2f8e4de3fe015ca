//! The cost of a visit of a page: one in the pool, by several threads, and one of a sequential
//! pass over more than the pool holds, by the size of its reads ahead.
//! `cargo run --release -p evenkeel-storage --example pool_speed`.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use evenkeel_io::{FileDisk, IoMethod};
use evenkeel_storage::buffer::{BufferAccessStrategy, ForkHandle, ReadAhead};
use evenkeel_storage::page::{PageMut, PageRead};
use evenkeel_storage::{
    ApplyContext, ApplyError, BlockNumber, Fork, InsertedRecord, Lsn, PartFlags, RecordView,
    ResourceManager, StorageConfig, Store,
};

const FRAMES: u64 = 8192;
const RESIDENT: u32 = 4096;
const BLOCKS: u32 = 32_768;
const VISITS: u32 = 4_000_000;

struct Client;

impl ResourceManager for Client {
    fn apply(
        &self,
        _: u16,
        page: &mut PageMut<'_>,
        _: &[u8],
        _: &ApplyContext,
    ) -> Result<(), ApplyError> {
        page.init(1, 0);
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

/// Nanoseconds of a visit of a resident page by each of `threads`.
fn visit(fork: &ForkHandle, threads: u32) -> f64 {
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let mut at = thread.wrapping_mul(2_654_435_761);
                let mut sum = 0;
                for _ in 0..VISITS {
                    at = at.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let block = BlockNumber((at >> 16) % RESIDENT);
                    if let Ok(page) = fork.read(block) {
                        sum ^= page.u64_at(0);
                    }
                }
                std::hint::black_box(sum);
            });
        }
    });
    begun.elapsed().as_nanos() as f64 / f64::from(VISITS)
}

/// Nanoseconds of a block in a pass over all of them.
fn pass(store: &Store, fork: &ForkHandle, ahead: bool) -> Result<f64, Box<dyn Error>> {
    let ring = BufferAccessStrategy::bulk_read(store.pool());
    let mut reader = ReadAhead::new(if ahead { BLOCKS } else { 0 }, Some(Arc::clone(&ring)));
    let begun = Instant::now();
    let mut sum = 0;
    for block in 0..BLOCKS {
        reader.at(fork, block);
        let page = fork.read_with(BlockNumber(block), Some(&ring))?;
        sum ^= page.slice(24..8192).iter().fold(0, |sum, byte| sum ^ byte);
    }
    std::hint::black_box(sum);
    Ok(begun.elapsed().as_nanos() as f64 / f64::from(BLOCKS))
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::temp_dir().join(format!("evenkeel-pool-speed-{}", std::process::id()));
    let config = StorageConfig {
        shared_buffers: FRAMES * 8192,
        fsync: false,
        ..StorageConfig::default()
    };
    let disk = Arc::new(FileDisk::new(IoMethod::Worker { threads: 4 }));
    let store = Store::open(disk, &dir, config, Arc::new(Client))?;
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
    store.checkpoint(evenkeel_storage::CheckpointMode::Fast)?;
    for block in 0..RESIDENT {
        drop(fork.read(BlockNumber(block))?);
    }
    for threads in [1, 2, 1, 2] {
        println!("hit, {threads} threads: {:.1} ns", visit(&fork, threads));
    }
    for ahead in [false, true, false, true] {
        let cost = pass(&store, &fork, ahead)?;
        println!("pass, reading ahead {ahead}: {cost:.0} ns a block");
    }
    let stats = store.pool().stats();
    println!("{stats:?}");
    drop(store);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
