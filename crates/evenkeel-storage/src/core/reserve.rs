//! Space that is kept for starting and stopping on a full disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_io::{Disk, IoErrorKind, IoResult, OpenOptions};

use crate::config::StorageConfig;

/// Name of the file that holds it.
pub(crate) const RESERVE_FILE: &str = "reserve";
/// Less is not worth having.
const LEAST: u64 = 8 << 10;

/// A file of zeroes. Its space is given up when a start or a stop finds the disk full, and taken
/// again when that is over, so that statements do not get it. Having it is no condition of
/// anything: failures are warnings.
pub(crate) struct SpaceReserve {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    size: u64,
    fsync: bool,
    /// All of it is there.
    whole: AtomicBool,
}

impl SpaceReserve {
    /// The reserve of the database in `dir`, given up at once if the disk is full.
    pub(crate) fn open(disk: &Arc<dyn Disk>, dir: &Path, config: &StorageConfig) -> SpaceReserve {
        let reserve = SpaceReserve {
            disk: Arc::clone(disk),
            dir: dir.to_owned(),
            size: config.space_reserve,
            fsync: config.fsync,
            whole: AtomicBool::new(false),
        };
        reserve.release();
        reserve
    }

    /// Gives the space up if the disk has not much more.
    pub(crate) fn release(&self) {
        // Where it is unknown the disk may be full.
        let free = self.disk.free_space(&self.dir).ok().flatten();
        if self.size == 0 || free.is_some_and(|free| free >= 2 * self.size) {
            return;
        }
        match self.give_up() {
            Ok(0) => {}
            Ok(bytes) => tracing::info!("the disk is full: using {} kB kept for that", bytes >> 10),
            Err(error) => tracing::warn!("could not use the space kept for a full disk: {error}"),
        }
    }

    fn give_up(&self) -> IoResult<u64> {
        self.whole.store(false, Ordering::Relaxed);
        let path = self.dir.join(RESERVE_FILE);
        let file = match self.disk.open(&path, OpenOptions::read_write()) {
            Ok(file) => file,
            Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error),
        };
        let len = file.len()?;
        if len > 0 {
            file.set_len(0)?;
            // Some file systems hand space out again only then.
            file.sync_all()?;
        }
        Ok(len)
    }

    /// Takes the space, or as much as there is.
    pub(crate) fn take(&self) {
        if self.size == 0 || self.whole.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.allocate() {
            tracing::warn!("could not keep space for a full disk: {error}");
        }
    }

    /// As [`SpaceReserve::take`], if the disk has so much more that nobody misses it.
    pub(crate) fn take_if_plenty(&self) {
        let free = self.disk.free_space(&self.dir).ok().flatten();
        if free.is_none_or(|free| free >= 8 * self.size) {
            self.take();
        }
    }

    fn allocate(&self) -> IoResult<()> {
        let path = self.dir.join(RESERVE_FILE);
        let file = self.disk.open(&path, OpenOptions::create())?;
        let (mut have, mut step) = (file.len()?, self.size);
        if have > self.size {
            file.set_len(self.size)?;
            have = self.size;
        }
        let had = have;
        while have < self.size && step >= LEAST {
            let more = step.min(self.size - have);
            match file.allocate(have, more) {
                Ok(()) => have += more,
                Err(error) if error.kind() == IoErrorKind::NoSpace => {
                    // Space that a failed call took is not counted, so it is given back.
                    file.set_len(have)?;
                    step /= 2;
                }
                Err(error) => return Err(error),
            }
        }
        if have != had && self.fsync {
            file.sync_all()?;
            self.disk.sync_dir(&self.dir)?;
        }
        self.whole.store(have == self.size, Ordering::Relaxed);
        Ok(())
    }
}
