//! A store without a log, shared by the tests of pool and writer.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_io::{Disk, SimDisk};
use parking_lot::Mutex;

use crate::buffer::{BufferPool, PoolCore, ReadAheadOptions, WriteGuard};
use crate::config::TornPageProtection;
use crate::error::StorageResult;
use crate::files::{DataAccess, FileSpace, SyncTable};
use crate::gaps::Gaps;
use crate::ids::{BlockNumber, FileId, Fork, Lsn, PageId};
use crate::page::PageRead;
use crate::poison::Poison;
use crate::stats::IoStats;
use crate::wal::LogFlush;
use crate::writeout::{Writer, WriterOptions};

/// Where the tests' databases are.
pub(crate) const DIR: &str = "/db";
/// A file to work on.
pub(crate) const FILE: FileId = FileId(7);

/// A log that keeps its records in memory and tells the disk's journal what is durable.
#[derive(Default)]
pub(crate) struct TestLog {
    next: AtomicU64,
    durable: AtomicU64,
    records: Mutex<Vec<(Lsn, PageId, u64)>>,
    disk: Option<SimDisk>,
    flushing: Mutex<()>,
    gaps: Gaps,
    /// How often somebody asked for a flush ahead of need.
    pub(crate) asked: AtomicU64,
}

/// Bytes of the tests' records.
const RECORD: u64 = 8;
/// Marks an acknowledgement in the disk's journal as one of a redo point.
pub(crate) const REDO_TAG: u64 = 1 << 63;

impl TestLog {
    pub(crate) fn new(disk: Option<SimDisk>) -> Arc<TestLog> {
        let log = TestLog {
            next: AtomicU64::new(RECORD),
            disk,
            ..TestLog::default()
        };
        Arc::new(log)
    }

    /// A log that ends at `end`, all durable.
    pub(crate) fn ended(end: Lsn) -> Arc<TestLog> {
        let log = TestLog {
            next: AtomicU64::new(end.0.max(RECORD)),
            durable: AtomicU64::new(end.0),
            ..TestLog::default()
        };
        Arc::new(log)
    }

    /// Sets word 0 of the page's content under a record of its own.
    pub(crate) fn change(&self, page: &mut WriteGuard<'_>, value: u64) -> Lsn {
        page.mark_dirty(self.insert_lsn());
        let lsn = {
            let mut records = self.records.lock();
            let lsn = Lsn(self.next.fetch_add(RECORD, Ordering::SeqCst));
            records.push((lsn, page.page_id(), value));
            lsn
        };
        apply(page, lsn, value);
        lsn
    }

    pub(crate) fn records(&self) -> Vec<(Lsn, PageId, u64)> {
        self.records.lock().clone()
    }
}

/// Applies a record to its page: fills it with the value, so that a torn page shows.
pub(crate) fn apply(page: &mut WriteGuard<'_>, lsn: Lsn, value: u64) {
    let mut page = page.page_mut();
    if page.is_new() {
        page.init(1, 0);
    }
    for offset in (24..crate::page::PAGE_SIZE).step_by(8) {
        page.put_u64(offset, value);
    }
    page.set_lsn(lsn);
}

impl LogFlush for TestLog {
    fn flush(&self, lsn: Lsn) -> StorageResult<()> {
        let end = lsn.0 + RECORD;
        // Nobody goes on before the journal has what another thread is about to acknowledge.
        let _one_at_a_time = self.flushing.lock();
        if self.durable.fetch_max(end, Ordering::SeqCst) < end
            && let Some(disk) = &self.disk
        {
            disk.acknowledge(end);
        }
        Ok(())
    }

    fn request_flush(&self) {
        self.asked.fetch_add(1, Ordering::SeqCst);
    }

    fn durable_lsn(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::SeqCst))
    }

    fn insert_lsn(&self) -> Lsn {
        Lsn(self.next.load(Ordering::SeqCst))
    }

    fn gaps(&self) -> &Gaps {
        &self.gaps
    }
}

/// A pool with its writer on some disk.
pub(crate) struct TestStore {
    pub(crate) pool: Arc<BufferPool>,
    pub(crate) writer: Arc<Writer>,
    pub(crate) poison: Arc<Poison>,
}

/// Blocks in a segment file: small, so that tests meet their borders.
pub(crate) const TEST_SEGMENT: u32 = 24;

/// A pool without a writer.
pub(crate) fn open_pool(disk: &SimDisk, frames: usize) -> (Arc<BufferPool>, Arc<Poison>) {
    open_pool_with(disk, frames, usize::MAX)
}

/// A pool without a writer that keeps about `most_open` files open.
pub(crate) fn open_pool_with(
    disk: &SimDisk,
    frames: usize,
    most_open: usize,
) -> (Arc<BufferPool>, Arc<Poison>) {
    let dir = Path::new(DIR);
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    disk.create_dir_all(dir).expect("no fault armed");
    disk.sync_dir(Path::new("/")).expect("no fault armed");
    let poison = Poison::new();
    let sync = SyncTable::new(Arc::clone(&disk), true, &poison, most_open);
    let space = FileSpace::open(disk, dir, DataAccess::Buffered, TEST_SEGMENT, sync)
        .expect("no fault armed");
    let io = IoStats::new(std::time::Duration::ZERO);
    let ahead = ReadAheadOptions::default();
    let core = PoolCore::new(frames, Arc::clone(&poison), io).expect("memory");
    let pool = BufferPool::new(core, space, ahead);
    (pool, poison)
}

pub(crate) fn options(protection: TornPageProtection, area_pages: u32) -> WriterOptions {
    WriterOptions {
        dir: DIR.into(),
        torn_page_protection: protection,
        images_cover: false,
        replayed: None,
        reuse_slots_early: false,
        leave_one_out: false,
        batch_pages: 16,
        area_pages,
        flush_after: 256 << 10,
        cleaner_flush_after: 512 << 10,
    }
}

impl TestStore {
    pub(crate) fn open(
        disk: &SimDisk,
        frames: usize,
        log: &Arc<TestLog>,
        options: &WriterOptions,
    ) -> StorageResult<TestStore> {
        let (pool, poison) = open_pool(disk, frames);
        let log = Arc::clone(log) as Arc<dyn LogFlush>;
        let writer = Writer::start(Arc::clone(&pool), log, options)?;
        Ok(TestStore {
            pool,
            writer,
            poison,
        })
    }

    /// Writes, scans and syncs as a checkpoint does; answers the redo point.
    pub(crate) fn checkpoint(&self, log: &TestLog) -> StorageResult<Lsn> {
        let target = log.insert_lsn();
        self.writer.write_dirty_before(target, &mut |_, _| {})?;
        let least = self.pool.min_first_dirtied();
        self.writer.sync_all()?;
        Ok(least.map_or(target, |least| least.min(target)))
    }
}

pub(crate) fn page_id(block: u32) -> PageId {
    PageId {
        file: FILE,
        fork: Fork::Main,
        block: BlockNumber(block),
    }
}
