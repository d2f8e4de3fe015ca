//! Where data files are, and how they are opened.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_io::{Disk, IoErrorKind, OpenOptions};

use super::manifest::Manifest;
use super::sync_table::SyncTable;
use crate::error::StorageResult;
use crate::ids::{FileId, Fork};
use crate::page::PAGE_SIZE;

/// Blocks in a segment file of 1 GiB.
pub const SEGMENT_BLOCKS: u32 = (1 << 30) / PAGE_SIZE as u32;

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
    /// Whether a data file below `dir` can be opened so.
    ///
    /// # Errors
    /// When the disk cannot say.
    pub fn is_had(self, disk: &dyn Disk, dir: &Path) -> StorageResult<bool> {
        disk.create_dir_all(&dir.join("base"))?;
        let probe = dir.join("base/probe");
        let opened = disk.open(&probe, self.options(OpenOptions::create()));
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
    pub(super) disk: Arc<dyn Disk>,
    base: PathBuf,
    status: PathBuf,
    temp: PathBuf,
    access: DataAccess,
    /// By a fork's first segment: how many segments it could have, by the highest number that this
    /// start found. Only forks of several segments are here.
    found: HashMap<PathBuf, u32>,
    pub(super) segment_blocks: u32,
    pub(super) sync: Arc<SyncTable>,
    pub(super) manifest: Manifest,
}

impl FileSpace {
    /// The files under `dir`, whose `base/`, `status/` and `temp/` are created if missing. An
    /// earlier process's files in `temp/` are removed (STO-15).
    ///
    /// # Errors
    /// When the directories cannot be made durable, or what is left in `temp/` not be removed.
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
        let temp = dir.join("temp");
        disk.create_dir_all(&temp)?;
        for left in disk.list(&temp)? {
            disk.remove(&temp.join(left))?;
        }
        // Also if they were there: an earlier start may have ended between making and syncing.
        disk.sync_dir(dir)?;
        // Entries that an earlier process made or removed may be in the page cache alone. From
        // here on the disk has the directories open: their syncs need no descriptor.
        for entries in [&base, &status] {
            sync.sync_dir(entries)?;
        }
        let mut found = HashMap::new();
        for dir in [&base, &status] {
            count_segments(&*disk, dir, &mut found)?;
        }
        Ok(Arc::new(FileSpace {
            disk,
            base,
            status,
            temp,
            access,
            found,
            segment_blocks,
            sync,
            manifest: Manifest::new(),
        }))
    }

    /// The known lengths of forks and LSNs of pages.
    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Why nothing is known of lengths and pages of earlier starts, if that is so by damage.
    #[must_use]
    pub fn manifest_fault(&self) -> Option<String> {
        self.manifest.fault()
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

    pub(super) fn open_options(&self, options: OpenOptions) -> OpenOptions {
        self.access.options(options)
    }

    /// The directory of a file's segments.
    pub(crate) fn dir_of(&self, file: FileId) -> &Path {
        if file.is_status() {
            &self.status
        } else if file.is_temporary() {
            &self.temp
        } else {
            &self.base
        }
    }

    /// Notes that a segment of the file was made or removed, for the next sync of its directory.
    pub(super) fn note_entry(&self, file: FileId) {
        if !file.is_temporary() {
            self.sync.note_dir(self.dir_of(file));
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

    /// Segments of a fork that an earlier process may have left, although one before them is
    /// missing: a crash takes unsynced removals and growth back in any order.
    pub(super) fn segments_found(&self, file: FileId, fork: Fork) -> u32 {
        let found = self.found.get(&self.path(file, fork, 0));
        found.copied().unwrap_or_default()
    }

    /// Ids of all files that have a main fork on disk, or should have one, in order, without the
    /// temporary ones.
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
        files.extend(self.manifest.files());
        files.sort_unstable();
        files.dedup();
        Ok(files)
    }

    /// Whether the fork has a first segment on disk, or should have one.
    ///
    /// # Errors
    /// When the disk cannot say.
    pub fn exists(&self, file: FileId, fork: Fork) -> StorageResult<bool> {
        Ok(self.manifest.len_of(file, fork) > 0 || self.disk.exists(&self.path(file, fork, 0))?)
    }
}

/// Notes for each fork of several segments in `dir` how many it has by their highest number.
fn count_segments(
    disk: &dyn Disk,
    dir: &Path,
    found: &mut HashMap<PathBuf, u32>,
) -> StorageResult<()> {
    for name in disk.list(dir)? {
        let Some((first, number)) = name.split_once('.') else {
            continue;
        };
        if let Ok(number) = number.parse::<u32>() {
            let segments = found.entry(dir.join(first)).or_default();
            *segments = number.saturating_add(1).max(*segments);
        }
    }
    Ok(())
}
