//! Moments too short for chance, held open by a disk that waits.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use evenkeel_engine::{Durability, EngineResult, Isolation, XidStatus};
use evenkeel_io::{Disk, File, IoResult, Outcome, SimDisk};
use evenkeel_storage::{CheckpointMode, StorageConfig};
use parking_lot::Mutex;

use crate::hooked::{Hooked, Hooks, is_in};
use crate::schema::{create_catalog, open, small};
use crate::watch::guarded;

type AfterSync = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// Calls back after a sync of the log, before whoever asked for it hears of it.
struct Waiting(AfterSync);

impl Hooks for Waiting {
    fn sync_data(&self, file: &dyn File, _: &AtomicBool) -> IoResult<()> {
        file.sync_data()?;
        if is_in(file, "wal/")
            && let Some(call) = self.0.lock().take()
        {
            call();
        }
        Ok(())
    }
}

/// A transaction makes a file and commits asynchronously while a checkpoint makes its redo point
/// record durable. If the commit is lost, recovery must still know of the file.
#[test]
fn a_commit_during_a_checkpoint_leaves_no_file_behind() {
    let disk = SimDisk::new(1);
    let after_sync = AfterSync::default();
    let waiting = Hooked::new(&disk, Waiting(Arc::clone(&after_sync)));
    let storage = StorageConfig {
        wal_writer_delay: Duration::from_secs(3600),
        ..small()
    };
    let work = || -> EngineResult<()> {
        let db = open(waiting, storage)?;
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
