//! One segment file and its two counters.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use evenkeel_io::{File, IoError, IoErrorKind, IoResult, OpKind};
use parking_lot::{Mutex, RwLock};

/// A segment file, open or closed. It stays open while a write to it is not synced, so that a
/// write-back error cannot be missed (FILE-2).
pub(crate) struct Segment {
    path: PathBuf,
    file: RwLock<Option<Arc<dyn File>>>,
    /// Since the hand of the clock last passed.
    used: AtomicBool,
    written: AtomicU64,
    synced: AtomicU64,
    dropped: AtomicBool,
    /// Of a file that is gone with the process: nothing written to it has to be durable.
    temporary: bool,
    syncing: Mutex<()>,
    /// Open segments of all forks, this one among them while it is open.
    open: Arc<AtomicUsize>,
}

/// A segment in use: open at least until this is dropped.
#[derive(Clone)]
pub(crate) struct OpenSegment {
    segment: Arc<Segment>,
    file: Arc<dyn File>,
}

impl Segment {
    /// Closed as yet. Through [`super::SyncTable`] only, which knows every open segment.
    pub(super) fn new(path: &Path, temporary: bool, open: &Arc<AtomicUsize>) -> Arc<Segment> {
        Arc::new(Segment {
            path: path.to_owned(),
            file: RwLock::new(None),
            used: AtomicBool::new(true),
            written: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            dropped: AtomicBool::new(false),
            temporary,
            syncing: Mutex::new(()),
            open: Arc::clone(open),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// For use, if it is open.
    pub(super) fn if_open(self: &Arc<Self>) -> Option<OpenSegment> {
        let file = self.file.read().as_ref().map(Arc::clone)?;
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        Some(OpenSegment {
            segment: Arc::clone(self),
            file,
        })
    }

    /// Opens it with `open`, unless another thread has meanwhile; says whether this did.
    pub(super) fn open_with(
        self: &Arc<Self>,
        open: impl FnOnce() -> IoResult<Arc<dyn File>>,
    ) -> IoResult<(OpenSegment, bool)> {
        let mut place = self.file.write();
        let (file, opened) = match &*place {
            Some(file) => (Arc::clone(file), false),
            None => (open()?, true),
        };
        if opened {
            self.open.fetch_add(1, Ordering::Relaxed);
            *place = Some(Arc::clone(&file));
        }
        self.used.store(true, Ordering::Relaxed);
        let segment = Arc::clone(self);
        Ok((OpenSegment { segment, file }, opened))
    }

    pub(super) fn is_open(&self) -> bool {
        self.file.read().is_some()
    }

    /// Whether it was used since the last call.
    pub(super) fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    /// Closes the file if nobody uses it and everything written to it is synced (FILE-2);
    /// says whether it did. With `careless`, a deliberate bug, also what is not synced.
    pub(super) fn close_if_idle(&self, careless: bool) -> bool {
        let mut place = self.file.write();
        // The last user's writes were counted before it let go of the file, which this sees.
        let unused = place
            .as_mut()
            .is_some_and(|file| Arc::get_mut(file).is_some());
        if !unused || (self.needs_sync() && !careless) {
            return false;
        }
        self.close(&mut place);
        true
    }

    fn close(&self, place: &mut Option<Arc<dyn File>>) {
        if place.take().is_some() {
            self.open.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether write number `write` is durable, or of no interest since the file was dropped.
    pub(crate) fn is_synced(&self, write: u64) -> bool {
        self.dropped.load(Ordering::Acquire) || self.synced.load(Ordering::Acquire) >= write
    }

    pub(crate) fn needs_sync(&self) -> bool {
        !self.is_synced(self.written.load(Ordering::Acquire))
    }

    /// The file is being unlinked, or cut to nothing: what was written needs no sync. It is closed
    /// once nobody uses it, so that its space is free.
    pub(super) fn drop_file(&self) {
        self.dropped.store(true, Ordering::Release);
        self.close(&mut self.file.write());
    }

    pub(super) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
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
            let file = self.file.read().as_ref().map(Arc::clone);
            match file {
                Some(file) => file.sync_data()?,
                None if self.is_dropped() => return Ok(false),
                // An error may have been reported to nobody.
                None => {
                    let kind = IoErrorKind::Io;
                    return Err(IoError::new(OpKind::SyncData, &self.path, None, kind));
                }
            }
        }
        self.synced.store(written, Ordering::Release);
        Ok(true)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if self.file.get_mut().take().is_some() {
            self.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl OpenSegment {
    pub(crate) fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// Counts a completed write; answers its number, for [`Segment::is_synced`]. One addition:
    /// nothing here can fail, wait or allocate (FILE-1). The file is still in use, so that
    /// it is not closed between its write and this. Those of a temporary file are not counted, so
    /// that it is never synced.
    pub(crate) fn count_write(&self) -> u64 {
        if self.segment.temporary {
            return 0;
        }
        self.segment.written.fetch_add(1, Ordering::AcqRel) + 1
    }

    pub(crate) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }
}

impl Deref for OpenSegment {
    type Target = Segment;

    fn deref(&self) -> &Segment {
        &self.segment
    }
}
