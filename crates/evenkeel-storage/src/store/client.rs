//! What the layer above hands to storage, and what it is told.

use crate::error::ApplyError;
use crate::ids::{Lsn, PageId};
use crate::page::PageMut;
use crate::wal::record::{RecordKind, RecordView};

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
pub struct CommitNote {
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

/// The engine, as storage sees it. None of these may call back into [`Store`](super::Store) to
/// wait, insert log or take page locks, except where said.
pub trait StorageClient: Send + Sync {
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

    /// Notified records, each once, in log order, when they and everything before them are
    /// complete. Called on any thread that writes log; must be quick.
    fn completed(&self, notes: &[CommitNote]);

    /// Every record that starts below `upto` is durable. Called on the flusher's thread, before
    /// threads waiting in [`Log::flush`](crate::wal::Log::flush) wake.
    fn durable(&self, upto: Lsn);

    /// Recovery: each record of the client's own kinds, in log order, after its parts.
    ///
    /// # Errors
    /// When the record makes no sense; recovery stops.
    fn replayed(&self, record: &RecordView<'_>) -> Result<(), ApplyError>;

    /// Recovery: file `file` was created by transaction `xid`. The client drops those of
    /// transactions that did not commit, once the store is open.
    fn file_created(&self, file: crate::ids::FileId, xid: u64) {
        let _ = (file, xid);
    }

    /// Recovery: file `file` was dropped.
    fn file_dropped(&self, file: crate::ids::FileId) {
        let _ = file;
    }

    /// Log from here on is still needed by the client; the redo point may not pass it.
    fn redo_floor(&self) -> Option<Lsn>;

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
