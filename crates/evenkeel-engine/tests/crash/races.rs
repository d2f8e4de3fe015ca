//! Moments too short for chance, held open by a disk that waits.

use std::io::{IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_engine::{Durability, EngineResult, Isolation, XidStatus};
use evenkeel_io::{Disk, File, IoQueue, IoResult, LockGuard, OpenOptions, Outcome, SimDisk};
use evenkeel_storage::{CheckpointMode, StorageConfig};
use parking_lot::Mutex;

use crate::schema::{create_catalog, open, small};
use crate::watch::guarded;

type AfterSync = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// Calls back after a sync of the log, before whoever asked for it hears of it.
struct Waiting {
    disk: SimDisk,
    after_sync: AfterSync,
}

struct WaitingFile {
    file: Arc<dyn File>,
    after_sync: AfterSync,
}

impl Disk for Waiting {
    fn open(&self, path: &Path, opts: OpenOptions) -> IoResult<Arc<dyn File>> {
        let file = self.disk.open(path, opts)?;
        let after_sync = Arc::clone(&self.after_sync);
        Ok(Arc::new(WaitingFile { file, after_sync }))
    }

    fn rename(&self, from: &Path, to: &Path) -> IoResult<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> IoResult<()> {
        self.disk.remove(path)
    }

    fn create_dir_all(&self, path: &Path) -> IoResult<()> {
        self.disk.create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> IoResult<Vec<String>> {
        self.disk.list(dir)
    }

    fn exists(&self, path: &Path) -> IoResult<bool> {
        self.disk.exists(path)
    }

    fn sync_dir(&self, dir: &Path) -> IoResult<()> {
        self.disk.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> IoResult<Box<dyn LockGuard>> {
        self.disk.lock(path)
    }

    fn queue(&self, depth: usize) -> Box<dyn IoQueue> {
        self.disk.queue(depth)
    }

    fn random_u64(&self) -> u64 {
        self.disk.random_u64()
    }

    fn now_micros(&self) -> u64 {
        self.disk.now_micros()
    }

    fn free_space(&self, dir: &Path) -> IoResult<Option<u64>> {
        self.disk.free_space(dir)
    }
}

impl File for WaitingFile {
    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> IoResult<usize> {
        self.file.read_vectored_at(bufs, offset)
    }

    fn write_all_vectored_at(&self, bufs: &mut [IoSlice<'_>], offset: u64) -> IoResult<()> {
        self.file.write_all_vectored_at(bufs, offset)
    }

    fn sync_data(&self) -> IoResult<()> {
        self.file.sync_data()?;
        if self.path().to_string_lossy().contains("wal/")
            && let Some(call) = self.after_sync.lock().take()
        {
            call();
        }
        Ok(())
    }

    fn sync_all(&self) -> IoResult<()> {
        self.file.sync_all()
    }

    fn len(&self) -> IoResult<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> IoResult<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, offset: u64, len: u64) -> IoResult<()> {
        self.file.allocate(offset, len)
    }

    fn start_writeback(&self, offset: u64, len: u64) -> IoResult<()> {
        self.file.start_writeback(offset, len)
    }

    fn await_writeback(&self, offset: u64, len: u64) -> IoResult<()> {
        self.file.await_writeback(offset, len)
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}

/// A transaction makes a file and commits asynchronously while a checkpoint makes its redo point
/// record durable. If the commit is lost, recovery must still know of the file.
#[test]
fn a_commit_during_a_checkpoint_leaves_no_file_behind() {
    let disk = SimDisk::new(1);
    let after_sync = AfterSync::default();
    let waiting = Waiting {
        disk: disk.clone(),
        after_sync: Arc::clone(&after_sync),
    };
    let storage = StorageConfig {
        wal_writer_delay: Duration::from_secs(3600),
        ..small()
    };
    let work = || -> EngineResult<()> {
        let db = open(Arc::new(waiting), storage)?;
        create_catalog(&db)?;
        // Nothing older is to hold the redo point back.
        while db.txn_statistics().status_backlog > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        db.store().checkpoint(CheckpointMode::Fast)?;
        let mut txn = db.begin(Isolation::ReadCommitted)?;
        let (file, xid) = (txn.create_file()?, txn.xid()?);
        // Not awaited: this is the thread that makes the log durable.
        *after_sync.lock() = Some(Box::new(move || drop(txn.commit(Durability::Async))));
        db.store().checkpoint(CheckpointMode::Fast)?;
        let image = disk.crash_with(Outcome::Nothing, 1);
        let db = open(Arc::new(image.clone()), small())?;
        let is_there = image.exists(&Path::new("data/base").join(file.number().to_string()));
        let committed = db.xid_status(xid)? == XidStatus::Committed;
        assert_eq!(is_there.unwrap_or(false), committed, "{file} of {xid:?}");
        Ok(())
    };
    let result = guarded("a commit during a checkpoint", || {
        work().map_err(|error| error.to_string())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}
