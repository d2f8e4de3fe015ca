//! Levels of a transaction that can be rolled back: savepoints and subtransactions.

use evenkeel_storage::{FileId, RedoHold};

use crate::lock::LockMark;
use crate::types::Xid;

/// A running internal subtransaction, to be ended by `commit_sub` or `abort_sub`.
#[derive(Debug)]
#[must_use = "a subtransaction is ended by commit_sub or abort_sub"]
pub struct Subtransaction(pub(super) u64);

/// A level of a transaction; the lowest is the transaction itself and not in the stack.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) id: u64,
    /// Savepoint name; none for an internal subtransaction.
    pub(super) name: Option<String>,
    /// The id that stamps changes made at this level, once there is one.
    pub(super) xid: Option<Xid>,
    /// How much there was of everything when the level began.
    pub(super) marks: Marks,
}

/// How much of everything a transaction has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    pub(super) subs: usize,
    pub(super) locks: LockMark,
    pub(super) files: usize,
    pub(super) drops: usize,
    pub(super) invalidations: usize,
    pub(super) on_commit: usize,
    pub(super) on_abort: usize,
}

/// A file made by the transaction.
#[derive(Debug)]
pub(super) struct MadeFile {
    pub(super) file: FileId,
    /// Keeps the newest record of its creation until the transaction's fate is in the log. None for
    /// a temporary file, which has no record.
    pub(super) hold: Option<RedoHold>,
}
