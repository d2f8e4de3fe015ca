//! The files of relation forks: segments, their growth and their syncs.

mod fork_files;
mod lengths;
mod segment;
mod sync_table;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_io::{Disk, IoErrorKind, OpenOptions};
use parking_lot::RwLock;

use crate::error::StorageResult;
use crate::ids::{FileId, Fork};
use crate::page::PAGE_SIZE;
use lengths::Lengths;

pub(crate) use fork_files::ForkFiles;
pub(crate) use segment::Segment;
pub use sync_table::{SYNC_TIME_BOUNDS, SyncPass, SyncStats, SyncTable};

/// Blocks in a segment file of 1 GiB.
pub const SEGMENT_BLOCKS: u32 = (1 << 30) / crate::page::PAGE_SIZE as u32;

/// How data files are opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataAccess {
    /// Through the page cache.
    Buffered,
    /// Past it.
    Direct,
    /// Past it, each page written atomically by the device's own guarantee.
    Atomic,
}

impl DataAccess {
    /// Whether a file below `dir` can be opened for atomic writes of pages.
    ///
    /// # Errors
    /// When the disk cannot say.
    pub fn is_atomic(disk: &dyn Disk, dir: &Path) -> StorageResult<bool> {
        disk.create_dir_all(&dir.join("base"))?;
        let probe = dir.join("base/probe");
        let opened = disk.open(&probe, DataAccess::Atomic.options(OpenOptions::create()));
        if disk.exists(&probe)? {
            disk.remove(&probe)?;
        }
        match opened {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == IoErrorKind::Unsupported => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn options(self, options: OpenOptions) -> OpenOptions {
        // A page is 8 KiB, so its size fits.
        let atomic = match self {
            DataAccess::Atomic => PAGE_SIZE as u32,
            DataAccess::Buffered | DataAccess::Direct => 0,
        };
        let direct = self != DataAccess::Buffered;
        options.direct(direct).atomic(atomic)
    }
}

/// Where data files are and how they are opened; shared by all forks.
pub struct FileSpace {
    disk: Arc<dyn Disk>,
    base: PathBuf,
    status: PathBuf,
    access: DataAccess,
    segment_blocks: u32,
    sync: Arc<SyncTable>,
    /// How long forks were at the last clean end, for those not yet opened since.
    lengths: RwLock<Lengths>,
}

impl FileSpace {
    /// The files under `dir`, whose `base/` and `status/` are created if missing.
    ///
    /// # Errors
    /// When the directories cannot be made durable.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        access: DataAccess,
        segment_blocks: u32,
        sync: Arc<SyncTable>,
    ) -> StorageResult<Arc<FileSpace>> {
        let (base, status) = (dir.join("base"), dir.join("status"));
        for made in [&base, &status] {
            if !disk.exists(made)? {
                disk.create_dir_all(made)?;
            }
        }
        // Also if they were there: an earlier start may have ended between making and syncing.
        disk.sync_dir(dir)?;
        // What an earlier process made or removed may be known to the page cache alone.
        for entries in [&base, &status] {
            sync.note_dir(entries);
        }
        Ok(Arc::new(FileSpace {
            disk,
            base,
            status,
            access,
            segment_blocks,
            sync,
            lengths: RwLock::default(),
        }))
    }

    /// After a clean end: forks shorter than they were then are damaged (file rule 10).
    /// `generation` is that of the control block then.
    pub(crate) fn expect_lengths(&self, dir: &Path, generation: u64) -> StorageResult<()> {
        *self.lengths.write() = lengths::read(&*self.disk, dir, generation)?;
        Ok(())
    }

    /// Writes down how long all forks are. Nobody changes them any more.
    pub(crate) fn note_lengths(&self, dir: &Path, generation: u64) -> StorageResult<()> {
        lengths::write(self, dir, generation)
    }

    /// A file that is dropped: whatever its forks' lengths were.
    pub(crate) fn forget_lengths(&self, file: FileId) {
        let mut lengths = self.lengths.write();
        for fork in Fork::ALL {
            lengths.remove(&(file, fork));
        }
    }

    /// The table through which data files are synced.
    #[must_use]
    pub fn sync_table(&self) -> &Arc<SyncTable> {
        &self.sync
    }

    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Whether data files bypass the page cache.
    pub(crate) fn direct(&self) -> bool {
        self.access != DataAccess::Buffered
    }

    /// Whether the device writes pages atomically.
    pub(crate) fn is_atomic(&self) -> bool {
        self.access == DataAccess::Atomic
    }

    fn open_options(&self, options: OpenOptions) -> OpenOptions {
        self.access.options(options)
    }

    /// The directory of a file's segments.
    pub(crate) fn dir_of(&self, file: FileId) -> &Path {
        if file.is_status() {
            &self.status
        } else {
            &self.base
        }
    }

    /// Name of a segment: `<number>[_fsm|_vm][.<segment>]`.
    fn name(file: FileId, fork: Fork, segment: u32) -> String {
        let number = file.number();
        let fork = match fork {
            Fork::Main => "",
            Fork::Fsm => "_fsm",
            Fork::Vm => "_vm",
        };
        if segment == 0 {
            format!("{number}{fork}")
        } else {
            format!("{number}{fork}.{segment}")
        }
    }

    pub(crate) fn path(&self, file: FileId, fork: Fork, segment: u32) -> PathBuf {
        self.dir_of(file).join(Self::name(file, fork, segment))
    }

    /// Ids of all files that have a main fork on disk, in order.
    ///
    /// # Errors
    /// When a directory cannot be read.
    pub fn list(&self) -> StorageResult<Vec<FileId>> {
        let mut files = Vec::new();
        for (dir, is_status) in [(&self.base, false), (&self.status, true)] {
            for name in self.disk.list(dir)? {
                if let Ok(number) = name.parse::<u64>() {
                    files.push(if is_status {
                        FileId::status(number)
                    } else {
                        FileId(number)
                    });
                }
            }
        }
        files.sort_unstable();
        Ok(files)
    }

    /// Whether the fork has a first segment on disk.
    ///
    /// # Errors
    /// When the disk cannot say.
    pub fn exists(&self, file: FileId, fork: Fork) -> StorageResult<bool> {
        Ok(self.disk.exists(&self.path(file, fork, 0))?)
    }
}

#[cfg(test)]
mod tests;
