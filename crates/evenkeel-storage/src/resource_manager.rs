//! The interface to the layer above: what it hands to storage, and what storage tells it.

use crate::error::ApplyError;
use crate::ids::{FileId, Lsn, PageId};
use crate::page::PageMut;
use crate::record::{PartFlags, RecordKind, RecordView, image};

/// Where a part is applied.
#[derive(Clone, Copy, Debug)]
pub struct ApplyContext {
    /// LSN of the record.
    pub lsn: Lsn,
    /// The page.
    pub page_id: PageId,
}

/// A record that was flagged to be notified, now complete in memory (not yet durable).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InsertedRecord {
    /// Where the record starts.
    pub lsn: Lsn,
    /// Where the next one starts; durable up to here means this record is durable.
    pub end: Lsn,
    /// The record's transaction.
    pub xid: u64,
    /// The record's kind.
    pub kind: RecordKind,
    /// The record's flags.
    pub flags: u8,
}

/// Storage's part of the state that the manager logs at redo points and at intervals.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreState {
    /// Microseconds since the Unix epoch.
    pub time_micros: u64,
    /// No file has this number or a higher one.
    pub next_file: u64,
    /// Files whose creators have not ended, with their transactions.
    pub files: Vec<(FileId, u64)>,
}

/// The engine, as storage sees it. None of these may call back into [`Store`](crate::Store) to
/// wait, insert log or take page locks, except where said.
pub trait ResourceManager: Send + Sync {
    /// Applies one part to its page: the way forward and redo alike. A function of the page's
    /// bytes, `op` and `data` alone.
    ///
    /// # Errors
    /// When page and data do not fit together. On the way forward this poisons the instance; in
    /// recovery it stops it.
    fn apply(
        &self,
        op: u16,
        page: &mut PageMut<'_>,
        data: &[u8],
        cx: &ApplyContext,
    ) -> Result<(), ApplyError>;

    /// Clears what redo need not bring back and may differ from what is logged: hint bits, and
    /// bytes that nothing refers to (`wal_consistency_checking`).
    fn mask(&self, page: &mut PageMut<'_>) {
        let _ = page;
    }

    /// Clears hints that must not be handed on by an image in the log: what they call dead a
    /// snapshot on a standby may still need.
    fn strip(&self, page: &mut PageMut<'_>) {
        let _ = page;
    }

    /// Notified records, each once, in log order, when they and everything before them are
    /// complete. Called on any thread that writes log; must be quick.
    fn completed(&self, notes: &[InsertedRecord]);

    /// Every record that starts below `upto` is durable. Called on the flusher's thread, before
    /// threads waiting in [`Log::flush`](crate::wal::Log::flush) wake.
    fn durable(&self, upto: Lsn);

    /// Recovery, before anything is changed: whether the manager knows the content of a record of
    /// its own kinds.
    ///
    /// # Errors
    /// The unknown part of it; the store is not opened ([`StorageError::UnknownRecord`]).
    ///
    /// [`StorageError::UnknownRecord`]: crate::StorageError::UnknownRecord
    fn knows(&self, record: &RecordView<'_>) -> Result<(), String> {
        let _ = record;
        Ok(())
    }

    /// Recovery, after [`ResourceManager::restore_payload`]: no transaction with an id below the
    /// answer runs on, given that no record in the log has an id from `next` on. Announced with
    /// the new incarnation.
    fn floor_after(&self, next: u64) -> u64 {
        next
    }

    /// Recovery: each record of the manager's own kinds, in log order, after its parts.
    ///
    /// # Errors
    /// When the record makes no sense; recovery stops.
    fn replayed(&self, record: &RecordView<'_>) -> Result<(), ApplyError>;

    /// Recovery: file `file` was created by transaction `xid`. The manager drops those of
    /// transactions that did not commit, once the store is open.
    fn file_created(&self, file: FileId, xid: u64) {
        let _ = (file, xid);
    }

    /// Recovery: file `file` was dropped.
    fn file_dropped(&self, file: FileId) {
        let _ = file;
    }

    /// Log from here on is still needed by the manager; the redo point may not pass it.
    fn redo_floor(&self) -> Option<Lsn>;

    /// The records of the manager's state, for readers of the log that begin here. Asked for at
    /// every redo point and by [`Store::log_state`](crate::Store::log_state).
    fn state_records(&self, state: StoreState) -> Vec<(RecordKind, Vec<u8>)> {
        drop(state);
        Vec::new()
    }

    /// No commit behind this position has had its effects removed by anybody; zero: no commit has.
    fn removal_bound(&self) -> Lsn {
        Lsn::ZERO
    }

    /// A checkpoint waits for the floor to rise: what is put off is to be done now.
    fn raise_redo_floor(&self) {}

    /// State to be kept in the control block, at most
    /// [`MAX_PAYLOAD`](crate::control::MAX_PAYLOAD) bytes. It must be at least as new as every
    /// record before the redo point, which is chosen before this is called.
    fn checkpoint_payload(&self) -> Vec<u8>;

    /// Recovery: the payload of the control block it starts from, before anything is replayed.
    /// Empty for a new database.
    ///
    /// # Errors
    /// When the payload makes no sense; the store is not opened.
    fn restore_payload(&self, payload: &[u8]) -> Result<(), ApplyError> {
        let _ = payload;
        Ok(())
    }
}

/// Applies one part and sets the page's LSN: the one way pages change, forward and in redo.
#[inline]
pub(crate) fn apply_part(
    manager: &dyn ResourceManager,
    op: u16,
    flags: PartFlags,
    page: &mut PageMut<'_>,
    data: &[u8],
    cx: &ApplyContext,
) -> Result<(), ApplyError> {
    if flags.contains(PartFlags::INIT) {
        page.zero();
    }
    let result = if flags.contains(PartFlags::IMAGE) {
        image::restore(data, page.bytes_mut()).map(|_| ())
    } else {
        manager.apply(op, page, data, cx)
    };
    page.set_lsn(cx.lsn);
    result
}
