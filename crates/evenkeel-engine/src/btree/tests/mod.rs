//! Tests of the tree as a whole, on a store over the simulated disk.

mod building;
mod crashes;
mod deleting;
mod model;
mod recovery;
mod small;
mod threads;
mod unique;

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_io::{Disk, SimDisk};
use evenkeel_storage::page::{PageBytes, PageMut};
use evenkeel_storage::{
    ApplyContext, ApplyError, BlockNumber, FileId, InsertedRecord, Lsn, RecordView,
    ResourceManager, StorageConfig, Store,
};
use parking_lot::Mutex;

use super::*;

/// One part as it was applied on the way forward.
#[derive(Clone)]
pub(super) struct Applied {
    pub lsn: Lsn,
    pub block: BlockNumber,
    pub op: u16,
    pub data: Vec<u8>,
    pub before: Box<PageBytes>,
    pub after: Box<PageBytes>,
}

/// The storage client of a database that has nothing but trees.
#[derive(Default)]
pub(super) struct Client {
    pub record: std::sync::atomic::AtomicBool,
    pub applied: Mutex<Vec<Applied>>,
}

impl ResourceManager for Client {
    fn apply(
        &self,
        op: u16,
        page: &mut PageMut<'_>,
        data: &[u8],
        cx: &ApplyContext,
    ) -> Result<(), ApplyError> {
        if !self.record.load(Ordering::Relaxed) {
            return redo::apply(op, page, data, cx);
        }
        let before = Box::new(*page.bytes());
        let result = redo::apply(op, page, data, cx);
        self.applied.lock().push(Applied {
            lsn: cx.lsn,
            block: cx.page_id.block,
            op,
            data: data.to_vec(),
            before,
            after: Box::new(*page.bytes()),
        });
        result
    }

    fn completed(&self, _notes: &[InsertedRecord]) {}
    fn durable(&self, _upto: Lsn) {}
    fn replayed(&self, _record: &RecordView<'_>) -> Result<(), ApplyError> {
        Ok(())
    }
    fn redo_floor(&self) -> Option<Lsn> {
        None
    }
    fn checkpoint_payload(&self) -> Vec<u8> {
        Vec::new()
    }
}

/// A store with one tree.
pub(super) struct Fixture {
    pub disk: SimDisk,
    pub client: Arc<Client>,
    pub store: Arc<Store>,
    pub tree: BTree,
}

pub(super) fn open_store(disk: &SimDisk, frames: u64, client: &Arc<Client>) -> Arc<Store> {
    let config = StorageConfig {
        shared_buffers: frames * 8192,
        wal_buffers: 4 << 20,
        wal_segment_size: 1 << 20,
        max_wal_size: 64 << 20,
        min_wal_size: 2 << 20,
        ..StorageConfig::small()
    };
    let client = Arc::clone(client) as Arc<dyn ResourceManager>;
    let dir = Path::new("/data");
    disk.create_dir_all(dir).expect("directory is made");
    disk.sync_dir(Path::new("/")).expect("directory is durable");
    Store::open(Arc::new(disk.clone()), dir, config, client).expect("store opens")
}

impl Fixture {
    pub fn new(frames: u64) -> Fixture {
        let disk = SimDisk::new(1);
        let client = Arc::new(Client::default());
        let store = open_store(&disk, frames, &client);
        let (file, _hold) = store.create_file(3).expect("file is created");
        let tree = BTree::create(&store, Xid::FIRST, file).expect("tree is created");
        Fixture {
            disk,
            client,
            store,
            tree,
        }
    }

    pub fn new_file(&self) -> FileId {
        self.store.create_file(3).expect("file is created").0
    }

    pub fn insert(&self, key: &[u8], tid: Tid) {
        insert(&self.tree, key, tid);
    }

    pub fn check(&self) -> TreeStatistics {
        check(&self.tree)
    }
}

pub(super) fn insert(tree: &BTree, key: &[u8], tid: Tid) {
    let outcome = tree
        .insert(Xid::FIRST, key, tid, UniqueCheck::None)
        .expect("insert");
    assert_eq!(outcome, InsertOutcome::Inserted);
}

pub(super) fn check(tree: &BTree) -> TreeStatistics {
    tree.check(&mut |_| Ok(())).expect("tree is sound")
}

pub(super) fn tid(number: u64) -> Tid {
    Tid::new(
        BlockNumber((number / 100) as u32),
        (number % 100) as u16 + 1,
    )
}

/// A transaction counter that says a deleted page can be used again `lag` stamps later.
#[derive(Default)]
pub(super) struct Clock {
    pub now: AtomicU64,
    pub horizon: AtomicU64,
}

impl RecycleHorizon for Clock {
    fn removal(&self) -> Lsn {
        Lsn::ZERO
    }
    fn stamp(&self) -> u64 {
        self.now.fetch_add(1, Ordering::SeqCst)
    }
    fn is_past(&self, stamp: u64) -> bool {
        stamp < self.horizon.load(Ordering::SeqCst)
    }
}

pub(super) type Entries = Vec<(Vec<u8>, Tid)>;

pub(super) fn scan(
    tree: &BTree,
    lower: Bound<&[u8]>,
    upper: Bound<&[u8]>,
    direction: Direction,
) -> Entries {
    let mut scan = tree.scan(TreeReader::alone(), (lower, upper), direction);
    let mut batch = LeafBatch::with_keys();
    let mut found = Vec::new();
    while scan.next_page(&mut batch).expect("scan") {
        assert!(!batch.is_empty());
        found.extend((0..batch.len()).map(|at| (batch.key(at).to_vec(), batch.tids()[at])));
    }
    assert!(
        !scan.next_page(&mut batch).expect("scan"),
        "a scan at its end stays there"
    );
    found
}

pub(super) fn scan_all(tree: &BTree) -> Entries {
    scan(tree, Bound::Unbounded, Bound::Unbounded, Direction::Forward)
}

pub(super) fn lookup(tree: &BTree, key: &[u8]) -> Vec<Tid> {
    let mut found = Vec::new();
    tree.lookup(TreeReader::alone(), key, &mut |tid| {
        found.push(tid);
        Ok(Visit::Next)
    })
    .expect("lookup");
    found
}

/// The seed of a random test: `EVENKEEL_SEED`, or else fixed.
pub(super) fn seed(default: u64) -> u64 {
    let seed = std::env::var("EVENKEEL_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(default);
    println!("EVENKEEL_SEED={seed}");
    seed
}
