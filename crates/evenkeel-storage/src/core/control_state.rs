//! The control file of an open database, and what its next block will say.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::control::{Control, ControlFile};
use crate::ids::{FileId, Lsn};

/// The control file, and what changes between two writes of it.
pub(crate) struct ControlState {
    file: Mutex<ControlFile>,
    /// Redo points announced since the one in the control file, when only those may be one.
    announced: Mutex<Vec<Lsn>>,
    /// Number of the next file to be created.
    next_file: AtomicU64,
    /// Speed of redo as measured, in bytes of log per second; 0 when it never was.
    redo_speed: AtomicU64,
    /// How long restoring torn pages took when it was last needed.
    restore_micros: u64,
    /// Position from which each incarnation's records lie, oldest first, from the redo point on.
    incarnations: Mutex<Vec<(Lsn, u64)>>,
}

impl ControlState {
    /// The state of a database whose log goes on after `incarnations`. `restore_micros`: how long
    /// this start took to restore torn pages; `None` when it looked at none.
    pub(crate) fn new(
        file: ControlFile,
        next_file: u64,
        restore_micros: Option<u64>,
        incarnations: Vec<(Lsn, u64)>,
    ) -> ControlState {
        let (redo_speed, before) = {
            let control = file.current();
            (control.redo_speed, control.restore_micros)
        };
        ControlState {
            file: Mutex::new(file),
            announced: Mutex::default(),
            next_file: AtomicU64::new(next_file),
            redo_speed: AtomicU64::new(redo_speed),
            restore_micros: restore_micros.unwrap_or(before),
            incarnations: Mutex::new(incarnations),
        }
    }

    /// The control file, to be written.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ControlFile> {
        self.file.lock()
    }

    /// The control block as last written.
    pub(crate) fn current(&self) -> Control {
        self.file.lock().current().clone()
    }

    /// Whether the page cache held nothing of the database when it was opened, so that what was
    /// read since is what the disk has.
    pub(crate) fn page_cache_held_nothing(&self) -> bool {
        self.file.lock().page_cache_held_nothing()
    }

    /// The redo point in the control file.
    pub(crate) fn redo(&self) -> Lsn {
        self.file.lock().current().redo
    }

    /// Remembers a redo point that was announced in the log.
    pub(super) fn announced(&self, lsn: Lsn) {
        self.announced.lock().push(lsn);
    }

    /// The last announced redo point that is not beyond `limit`, or else `old`. Those before it
    /// are forgotten.
    pub(super) fn take_announced(&self, limit: Lsn, old: Lsn) -> Lsn {
        let mut announced = self.announced.lock();
        let best = announced.iter().copied().filter(|lsn| *lsn <= limit).max();
        let redo = best.map_or(old, |best| best.max(old));
        announced.retain(|lsn| *lsn > redo);
        redo
    }

    /// Number of the next file to be created.
    pub(crate) fn next_file(&self) -> u64 {
        self.next_file.load(Ordering::SeqCst)
    }

    /// The id of a file to be created, which no other file has had.
    pub(crate) fn take_file_id(&self) -> FileId {
        FileId(self.next_file.fetch_add(1, Ordering::Relaxed))
    }

    /// Gives no file the number of this one, of which recovery may not have heard.
    pub(crate) fn pass_file_id(&self, file: FileId) {
        self.next_file
            .fetch_max(file.number() + 1, Ordering::Relaxed);
    }

    /// Speed of redo as measured, in bytes of log per second; 0 when it never was.
    pub(crate) fn redo_speed(&self) -> u64 {
        self.redo_speed.load(Ordering::Relaxed)
    }

    /// Replaces the speed of redo after one was measured.
    pub(crate) fn set_redo_speed(&self, speed: u64) {
        self.redo_speed.store(speed, Ordering::Relaxed);
    }

    /// How long restoring torn pages took when it was last needed, in microseconds.
    pub(crate) fn restore_micros(&self) -> u64 {
        self.restore_micros
    }

    /// Incarnation of the record at `lsn`, which is not before the redo point.
    pub(crate) fn incarnation_at(&self, lsn: Lsn) -> u64 {
        let incarnations = self.incarnations.lock();
        let at = incarnations.partition_point(|(start, _)| *start <= lsn);
        incarnations
            .get(at.saturating_sub(1))
            .map_or(0, |(_, incarnation)| *incarnation)
    }

    /// Forgets incarnations that ended before the redo point.
    pub(crate) fn forget_incarnations_before(&self, redo: Lsn) {
        let mut incarnations = self.incarnations.lock();
        let at = incarnations.partition_point(|(start, _)| *start <= redo);
        incarnations.drain(..at.saturating_sub(1));
    }
}
