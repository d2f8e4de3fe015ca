//! How long the B-tree's operations take: ascending and scattered inserts, point look-ups, scans,
//! bulk deletion, loading. `cargo run --release -p evenkeel-engine --example btree_speed [rows]`.

use std::error::Error;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Instant;

use evenkeel_engine::btree::{
    self, BTree, Direction, LeafBatch, Liveness, RecycleHorizon, TreeBuilder, TreeReader,
    UniqueCheck, Visit,
};
use evenkeel_engine::{Tid, Xid};
use evenkeel_io::{FileDisk, IoMethod};
use evenkeel_storage::page::PageMut;
use evenkeel_storage::{
    ApplyContext, ApplyError, BlockNumber, InsertedRecord, Lsn, RecordView, ResourceManager,
    StorageConfig, Store,
};

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

struct Never;

impl RecycleHorizon for Never {
    fn removal(&self) -> Lsn {
        Lsn::ZERO
    }
    fn stamp(&self) -> u64 {
        0
    }
    fn is_past(&self, _: u64) -> bool {
        false
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

fn timed<R>(what: &str, count: u64, run: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = run();
    let nanos = start.elapsed().as_nanos() as f64 / count as f64;
    println!("{what:<40} {nanos:>9.0} ns each");
    result
}

type Outcome<T> = Result<T, Box<dyn Error>>;

fn insert(store: &Arc<Store>, rows: u64) -> Outcome<(BTree, BTree)> {
    let new_tree = || -> Outcome<BTree> {
        let (file, _hold) = store.create_file(3)?;
        Ok(BTree::create(store, Xid::FIRST, file)?)
    };
    let (ascending, unique) = (new_tree()?, new_tree()?);
    timed("insert, ascending", rows, || {
        (0..rows).try_for_each(|n| {
            let outcome = ascending.insert(Xid::FIRST, &key(n), tid(n), UniqueCheck::None);
            outcome.map(|_| ())
        })
    })?;
    timed("insert, scattered, unique", rows, || {
        (0..rows).try_for_each(|n| {
            let mut live = |_| Ok(Liveness::Live);
            let check = UniqueCheck::Check(&mut live);
            unique
                .insert(Xid::FIRST, &scattered(n), tid(n), check)
                .map(|_| ())
        })
    })?;
    Ok((ascending, unique))
}

fn look_up(what: &str, tree: &BTree, rows: u64, key: impl Fn(u64) -> [u8; 9]) -> Outcome<()> {
    let mut found = 0u64;
    timed(&format!("look-up, random, {what} tree"), rows, || {
        (0..rows).try_for_each(|n| {
            let n = n.wrapping_mul(0x2545_F491_4F6C_DD1D) % rows;
            tree.lookup(TreeReader::alone(), &key(n), &mut |_| {
                found += 1;
                Ok(Visit::Stop)
            })
        })
    })?;
    assert_eq!(found, rows);
    Ok(())
}

fn scan(tree: &BTree, rows: u64, direction: Direction) -> Outcome<()> {
    let mut batch = LeafBatch::new();
    let mut scan = tree.scan(
        TreeReader::alone(),
        (Bound::Unbounded, Bound::Unbounded),
        direction,
    );
    let mut count = 0;
    timed(&format!("scan, {direction:?}"), rows, || -> Outcome<()> {
        while scan.next_page(&mut batch)? {
            count += batch.len() as u64;
        }
        Ok(())
    })?;
    assert_eq!(count, rows);
    Ok(())
}

fn main() -> Outcome<()> {
    let rows: u64 = std::env::args()
        .nth(1)
        .map_or(Ok(1_000_000), |rows| rows.parse())?;
    let dir = tempfile::tempdir()?;
    let config = StorageConfig {
        shared_buffers: 1 << 30,
        ..StorageConfig::default()
    };
    let disk = Arc::new(FileDisk::new(IoMethod::Sync));
    let store = Store::open(disk, dir.path(), config, Arc::new(Client))?;
    let (ascending, unique) = insert(&store, rows)?;
    look_up("ascending", &ascending, rows, key)?;
    look_up("scattered", &unique, rows, scattered)?;
    scan(&unique, rows, Direction::Forward)?;
    scan(&unique, rows, Direction::Backward)?;
    let stats = timed("bulk delete of a tenth", rows, || {
        unique.bulk_delete(&mut |tid| tid.slot.is_multiple_of(10), &Never, &mut |_| {
            Ok(())
        })
    })?;
    println!("{stats:?}");
    let (file, _hold) = store.create_file(3)?;
    let (built, _) = timed("load", rows, || -> Outcome<_> {
        let mut builder = TreeBuilder::new(&store, Xid::FIRST, file, 90)?;
        for n in 0..rows {
            builder.add(&key(n), tid(n))?;
        }
        Ok(builder.finish()?)
    })?;
    println!(
        "{:?}",
        timed("check", rows, || built.check(&mut |_| Ok(())))?
    );
    Ok(())
}
