//! One segment file and its two counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use evenkeel_io::{File, IoResult};
use parking_lot::Mutex;

/// An open segment file. It stays open while a write to it is not synced, so that a write-back
/// error cannot be missed (files rule 2).
pub(crate) struct Segment {
    file: Arc<dyn File>,
    written: AtomicU64,
    synced: AtomicU64,
    dropped: AtomicBool,
    syncing: Mutex<()>,
}

impl Segment {
    /// Through [`super::SyncTable::register`] only, which knows every open segment.
    pub(super) fn new(file: Arc<dyn File>) -> Arc<Segment> {
        Arc::new(Segment {
            file,
            written: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            dropped: AtomicBool::new(false),
            syncing: Mutex::new(()),
        })
    }

    pub(crate) fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// Counts a completed write; answers its number, for [`Segment::is_synced`]. One addition:
    /// nothing here can fail, wait or allocate (files rule 1).
    pub(crate) fn count_write(&self) -> u64 {
        self.written.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Whether write number `write` is durable, or of no interest since the file was dropped.
    pub(crate) fn is_synced(&self, write: u64) -> bool {
        self.dropped.load(Ordering::Acquire) || self.synced.load(Ordering::Acquire) >= write
    }

    pub(crate) fn needs_sync(&self) -> bool {
        !self.is_synced(self.written.load(Ordering::Acquire))
    }

    /// The file is being unlinked, or cut to nothing: what was written needs no sync.
    pub(crate) fn mark_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
    }

    /// Makes every write counted before the call durable. Two callers at once share one sync or
    /// do two; neither returns before its writes are durable.
    pub(super) fn sync(&self, fsync: bool) -> IoResult<bool> {
        let _one_at_a_time = self.syncing.lock();
        let written = self.written.load(Ordering::Acquire);
        if self.is_synced(written) {
            return Ok(false);
        }
        if fsync {
            self.file.sync_data()?;
        }
        self.synced.store(written, Ordering::Release);
        Ok(true)
    }
}
