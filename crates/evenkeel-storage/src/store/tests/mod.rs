//! The store with a manager whose pages hold counters, on disks that crash and fail.

mod accounts;
mod crash;
mod damage;
mod gaps;
mod holes;
mod homes;
mod images;
mod invariants;
mod lifecycle;
mod lying;
mod prefetch;
mod quarantine;
mod rebuild;
mod redo;
mod stale;
mod stuck;
mod temporary;
mod unknown;
mod unlock;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_io::{Disk, SimDisk};
use parking_lot::Mutex;

use super::*;
use crate::buffer::ForkHandle;
use crate::error::{ApplyError, StorageError, StorageResult};
use crate::ids::Lsn;
use crate::ids::{BlockNumber, FileId, Fork, PageId};
use crate::page::{PAGE_HEADER_SIZE, PageMut, PageRead};
use crate::record::{FieldReader, PartFlags, RecordKind, RecordView, RemovalLsn};
use crate::wal::SegmentLayout;

const INIT: u16 = 1;
const ADD: u16 = 2;
const COMMIT: RecordKind = RecordKind(20);
/// A kind that the manager refuses.
const UNKNOWN_KIND: RecordKind = RecordKind(99);
const COUNTERS: FileId = FileId(1);
/// More pages than a small pool has frames.
const PAGES: u32 = 100;
const SLOTS: u64 = 8;
/// No commit's effects are removed.
const NOTHING: RemovalLsn = RemovalLsn::Commit(Lsn::ZERO);
/// A payload that the manager panics over.
const PANIC: &[u8] = b"panic";

/// Applying a part twice, not at all, or to the wrong page shows in the counters.
#[derive(Default)]
struct Toy {
    notes: Mutex<Vec<InsertedRecord>>,
    durable: AtomicU64,
    replayed: Mutex<Vec<u64>>,
    created: Mutex<Vec<FileId>>,
    dropped: Mutex<Vec<FileId>>,
    payload: Mutex<Vec<u8>>,
    restored: Mutex<Option<Vec<u8>>>,
    floor: Mutex<Option<Lsn>>,
    /// A page whose parts do not apply.
    refused: Mutex<Option<PageId>>,
}

impl ResourceManager for Toy {
    fn apply(
        &self,
        op: u16,
        page: &mut PageMut<'_>,
        data: &[u8],
        cx: &ApplyContext,
    ) -> Result<(), ApplyError> {
        if *self.refused.lock() == Some(cx.page_id) {
            return Err(ApplyError::new("refused, as the test wants it"));
        }
        let mut fields = FieldReader::new(data);
        match op {
            INIT => page.init(1, 0),
            ADD => {
                if page.kind() != 1 {
                    return Err(ApplyError::new("page was never initialised"));
                }
                let offset = PAGE_HEADER_SIZE + 8 * usize::from(fields.u16()?);
                let sum = page.u64_at(offset).wrapping_add(fields.u64()?);
                page.put_u64(offset, sum);
            }
            _ => return Err(ApplyError::new("no such operation")),
        }
        Ok(())
    }

    fn completed(&self, notes: &[InsertedRecord]) {
        self.notes.lock().extend_from_slice(notes);
    }

    fn durable(&self, upto: Lsn) {
        self.durable.store(upto.0, Ordering::SeqCst);
    }

    fn knows(&self, record: &RecordView<'_>) -> Result<(), String> {
        match record.kind() {
            UNKNOWN_KIND => Err(format!("kind {}", record.kind().0)),
            _ => Ok(()),
        }
    }

    fn replayed(&self, record: &RecordView<'_>) -> Result<(), ApplyError> {
        if record.kind() == COMMIT {
            self.replayed
                .lock()
                .push(FieldReader::new(record.payload()).u64()?);
        }
        Ok(())
    }

    fn file_created(&self, file: FileId, _: u64) {
        self.created.lock().push(file);
    }

    fn file_dropped(&self, file: FileId) {
        self.dropped.lock().push(file);
    }

    fn redo_floor(&self) -> Option<Lsn> {
        *self.floor.lock()
    }

    fn checkpoint_payload(&self) -> Vec<u8> {
        let payload = self.payload.lock().clone();
        assert_ne!(payload, PANIC, "as the test wants it");
        payload
    }

    fn restore_payload(&self, payload: &[u8]) -> Result<(), ApplyError> {
        *self.restored.lock() = Some(payload.to_vec());
        Ok(())
    }
}

fn dir() -> PathBuf {
    PathBuf::from("/db")
}

fn config() -> StorageConfig {
    StorageConfig {
        // Only where a test asks for one.
        checkpoint_timeout: std::time::Duration::from_secs(3600),
        ..StorageConfig::small()
    }
}

fn open_with(disk: &SimDisk, config: StorageConfig) -> StorageResult<(Arc<Store>, Arc<Toy>)> {
    let toy = Arc::new(Toy::default());
    let manager = Arc::clone(&toy) as Arc<dyn ResourceManager>;
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Ok((Store::open(disk, &dir(), config, manager)?, toy))
}

fn open(disk: &SimDisk) -> (Arc<Store>, Arc<Toy>) {
    open_with(disk, config()).expect("opens")
}

/// The log of a database here with segments of this size.
fn layout(segment: u64) -> SegmentLayout {
    SegmentLayout {
        dir: dir().join("wal"),
        size: segment,
        timeline: 1,
    }
}

fn counters(store: &Store) -> Arc<ForkHandle> {
    store.pool().fork(COUNTERS, Fork::Main).expect("fork")
}

/// Creates the counters' file with its pages, all durable.
fn set_up(store: &Store) -> StorageResult<()> {
    drop(store.create_file_as(COUNTERS, 0)?);
    let fork = counters(store);
    fork.extend(PAGES)?;
    let last = init_pages(store, &fork, 0..PAGES)?;
    store.log().flush(last)
}

/// Makes new pages of those blocks; returns the last one's record.
fn init_pages(store: &Store, fork: &ForkHandle, blocks: Range<u32>) -> StorageResult<Lsn> {
    let mut last = Lsn::ZERO;
    for block in blocks {
        let mut page = fork.pin_new(BlockNumber(block))?.write();
        let mut change = store.change(0);
        change.part(&mut page, INIT, PartFlags::INIT, &[]);
        last = change.commit();
    }
    Ok(last)
}

/// The values that step `n` adds: functions of `n`, so that the state after `n` steps is known.
fn parts_of(n: u64) -> [(u32, u16, u64); 3] {
    let a = 1 + (n % u64::from(PAGES - 1)) as u32;
    let b = 1 + ((n * 7 + 3) % u64::from(PAGES - 1)) as u32;
    let b = if a == b { a % (PAGES - 1) + 1 } else { b };
    let slot = (n % SLOTS) as u16;
    [(0, 0, 1), (a.min(b), slot, n), (a.max(b), slot, n * n)]
}

fn add_data(slot: u16, delta: u64) -> [u8; 10] {
    let mut data = [0; 10];
    data[..2].copy_from_slice(&slot.to_le_bytes());
    data[2..].copy_from_slice(&delta.to_le_bytes());
    data
}

/// Step `n`: one record that changes three pages.
fn step(store: &Store, fork: &ForkHandle, n: u64) -> StorageResult<Lsn> {
    step_with(store, fork, n, &n.to_le_bytes())
}

/// Step `n`, in a record with this payload.
fn step_with(store: &Store, fork: &ForkHandle, n: u64, payload: &[u8]) -> StorageResult<Lsn> {
    store.admit()?;
    let parts = parts_of(n);
    let mut pages = Vec::new();
    for (block, ..) in parts {
        pages.push(fork.write(BlockNumber(block))?);
    }
    let mut change = store.change(n);
    for (page, (_, slot, delta)) in pages.iter_mut().zip(parts) {
        change.part(page, ADD, PartFlags::NONE, &add_data(slot, delta));
    }
    change.payload(COMMIT, payload).notify();
    Ok(change.commit())
}

/// Steps done, by page 0.
fn steps_done(store: &Store) -> StorageResult<u64> {
    let fork = counters(store);
    if fork.is_empty() {
        return Ok(0);
    }
    Ok(fork.read(BlockNumber(0))?.u64_at(PAGE_HEADER_SIZE))
}

/// Every page is as after exactly that many steps.
fn assert_steps(store: &Store, steps: u64, what: &str) {
    let mut model = vec![[0u64; SLOTS as usize]; PAGES as usize];
    for n in 1..=steps {
        for (block, slot, delta) in parts_of(n) {
            let cell = &mut model[block as usize][usize::from(slot)];
            *cell = cell.wrapping_add(delta);
        }
    }
    let fork = counters(store);
    for (block, slots) in model.iter().enumerate() {
        let page = fork.read(BlockNumber(block as u32)).expect("page");
        for (slot, expected) in slots.iter().enumerate() {
            let found = page.u64_at(PAGE_HEADER_SIZE + 8 * slot);
            assert_eq!(
                found, *expected,
                "{what}: {steps} steps, block {block} slot {slot}"
            );
        }
    }
}

/// Runs steps `from..=to`, flushing every third and acknowledging it then, with a checkpoint
/// every now and then.
fn run(store: &Store, disk: &SimDisk, from: u64, to: u64, checkpoints: u64) -> StorageResult<()> {
    let fork = counters(store);
    for n in from..=to {
        let lsn = step(store, &fork, n)?;
        if n.is_multiple_of(3) {
            store.log().flush(lsn)?;
            disk.acknowledge(n);
        }
        if checkpoints > 0 && n.is_multiple_of(checkpoints) {
            store.checkpoint(CheckpointMode::Fast)?;
        }
    }
    Ok(())
}

/// How to get a crash image again.
fn image_name(image: &evenkeel_io::CrashImage) -> String {
    format!(
        "image_with({}, {:?}, {})",
        image.index, image.outcome, image.seed
    )
}
