//! The pages of a relation fork: their places in the pool and their files. Frames own it, so it
//! knows neither the pool nor those who use the fork.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::entry::{ForkArray, Place};
use crate::error::{StorageError, StorageResult};
use crate::files::ForkFiles;
use crate::ids::{BlockNumber, FileId, Fork, PageId};

/// Where the pages of one fork are: in which frames, and in which files.
pub(crate) struct ForkPages {
    pub(super) file: FileId,
    pub(super) fork: Fork,
    pub(super) array: ForkArray,
    files: ForkFiles,
    /// Blocks in the fork.
    pub(super) len: AtomicU32,
    pub(super) dropped: AtomicBool,
    pub(super) growing: Mutex<()>,
    /// Pages read.
    pub(super) reads: AtomicU64,
    /// Reads ahead of use that had to wait for the device.
    pub(super) device_reads: AtomicU64,
}

impl ForkPages {
    pub(super) fn new(file: FileId, fork: Fork, files: ForkFiles, len: u32) -> ForkPages {
        ForkPages {
            file,
            fork,
            array: ForkArray::new(),
            files,
            len: AtomicU32::new(len),
            dropped: AtomicBool::new(false),
            growing: Mutex::new(()),
            reads: AtomicU64::new(0),
            device_reads: AtomicU64::new(0),
        }
    }

    pub(crate) fn files(&self) -> &ForkFiles {
        &self.files
    }

    /// Length in blocks.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len.load(Ordering::SeqCst)
    }

    #[inline]
    pub(super) fn page_id(&self, block: BlockNumber) -> PageId {
        PageId {
            file: self.file,
            fork: self.fork,
            block,
        }
    }

    pub(super) fn check_exists(&self, block: BlockNumber) -> StorageResult<()> {
        if self.dropped.load(Ordering::SeqCst) || block.0 >= self.len() {
            return Err(StorageError::NoSuchPage {
                page: self.page_id(block),
            });
        }
        Ok(())
    }

    /// Whether a page is in the pool now.
    pub(crate) fn is_resident(&self, block: BlockNumber) -> bool {
        let entry = self.array.get(block);
        entry.is_some_and(|entry| matches!(entry.load(), Place::Frame(_)))
    }

    /// Whether a page is neither in the pool nor on its way.
    pub(super) fn is_missing(&self, block: BlockNumber) -> bool {
        let entry = self.array.get(block);
        entry.is_none_or(|entry| entry.load() == Place::Empty)
    }

    /// Empties the entry of a page just evicted.
    pub(super) fn clear_entry(&self, block: BlockNumber) {
        if let Some(entry) = self.array.get(block) {
            entry.clear();
        }
    }
}
