//! The engine's errors: one variant for each thing a caller would do differently.

use std::sync::Arc;

use evenkeel_storage::{PageId, StorageError};

use crate::memory::OutOfMemory;
use crate::types::{Tid, Xid};

/// Result of an engine call.
pub type EngineResult<T> = Result<T, EngineError>;

/// Why an engine call failed. [`EngineError::sqlstate`] gives PostgreSQL's code for it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The key exists in a unique index.
    #[error("duplicate key value violates unique constraint \"{index}\"")]
    UniqueViolation {
        /// Name of the index.
        index: String,
        /// Which of the rows that were inserted together has the key, counted from 0.
        row: usize,
    },
    /// Two rows have the same key of a unique index that is built.
    #[error("could not create unique index \"{index}\"")]
    DuplicateRows {
        /// Name of the index.
        index: String,
        /// One of the rows.
        row: Arc<[u8]>,
    },
    /// A row has no index key, because computing it has failed.
    #[error("{error}")]
    Key {
        /// PostgreSQL's code.
        sqlstate: &'static str,
        /// The error of whatever computes keys.
        error: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// A row changed since the transaction's snapshot; retry the transaction.
    #[error("could not serialize access due to concurrent {what}")]
    SerializationFailure {
        /// `update` or `delete`.
        what: &'static str,
    },
    /// Waiting would have closed a cycle of waiting transactions.
    #[error("deadlock detected: {detail}")]
    Deadlock {
        /// The waiting transactions and the transactions they wait for, one edge after the other.
        detail: String,
    },
    /// The lock was not free (NOWAIT).
    #[error("could not obtain lock on {what}")]
    LockNotAvailable {
        /// The thing that is locked.
        what: String,
    },
    /// The lock did not become free in time (`lock_timeout`).
    #[error("canceling statement due to lock timeout")]
    LockTimeout,
    /// The row does not fit into a page.
    #[error("row is too big: size {size}, maximum size {max}")]
    RowTooLarge {
        /// Bytes needed.
        size: usize,
        /// Bytes available.
        max: usize,
    },
    /// The index key is too long.
    #[error("index row size {size} exceeds maximum {max} for index \"{index}\"")]
    KeyTooLarge {
        /// Name of the index.
        index: String,
        /// Bytes needed.
        size: usize,
        /// Bytes available.
        max: usize,
    },
    /// The caller's cancel flag was raised.
    #[error("canceling statement due to user request")]
    Cancelled,
    /// The statement's time was over (`statement_timeout`).
    #[error("canceling statement due to statement timeout")]
    StatementTimeout,
    /// A memory budget is used up; its name is a setting's.
    #[error("out of memory")]
    OutOfMemory(#[from] OutOfMemory),
    /// The session's temporary files are as large as they may be (`temp_file_limit`).
    #[error("temporary file size exceeds \"temp_file_limit\" ({}kB)", limit >> 10)]
    TempFileLimit {
        /// The limit, in bytes.
        limit: u64,
    },
    /// The transaction has failed and accepts only a rollback.
    #[error("current transaction is aborted, commands ignored until end of transaction block")]
    TransactionAborted,
    /// There is no savepoint of this name.
    #[error("savepoint \"{name}\" does not exist")]
    NoSuchSavepoint {
        /// The name asked for.
        name: String,
    },
    /// A deferrable index was asked for a row in the way of an insert.
    #[error(
        "ON CONFLICT does not support deferrable unique constraints/exclusion constraints as \
         arbiters"
    )]
    DeferrableArbiter {
        /// The index.
        index: String,
    },
    /// The engine does not do this.
    #[error("{what} is not supported")]
    Unsupported {
        /// The thing asked for.
        what: &'static str,
    },
    /// A subtransaction was rolled back since the row was read, which may have been its own;
    /// read it again.
    #[error("row {tid} was read before a subtransaction was rolled back")]
    StaleRow {
        /// Where it was.
        tid: Tid,
    },
    /// A limit of the engine was reached.
    #[error("{what}")]
    LimitExceeded {
        /// The limit.
        what: String,
    },
    /// Stored data is damaged.
    #[error("damaged data: {what}")]
    Corrupted {
        /// File, block and what is wrong there.
        what: String,
    },
    /// Inside the engine only: what became of a transaction is on a status page that is not in
    /// memory, and a page is locked. The caller that locked it unlocks it, has the status read, and
    /// tries again.
    #[error("the status of transaction {xid} is not in memory")]
    StatusNotInMemory {
        /// The transaction.
        xid: Xid,
    },
    /// The server ends, and its sessions with it.
    #[error("terminating connection due to administrator command")]
    ShuttingDown,
    /// Storage failed; its error says whether the disk is full, damaged or gone.
    #[error(transparent)]
    Storage(Arc<StorageError>),
}

impl EngineError {
    /// The error of a key that is too long, with the index's name.
    pub(crate) fn of_index(self, name: &str) -> EngineError {
        match self {
            EngineError::KeyTooLarge { size, max, .. } => EngineError::KeyTooLarge {
                index: name.to_owned(),
                size,
                max,
            },
            other => other,
        }
    }

    /// PostgreSQL's five-character code.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            EngineError::UniqueViolation { .. } | EngineError::DuplicateRows { .. } => "23505",
            EngineError::Key { sqlstate, .. } => sqlstate,
            EngineError::SerializationFailure { .. } => "40001",
            EngineError::Deadlock { .. } => "40P01",
            EngineError::LockNotAvailable { .. } | EngineError::LockTimeout => "55P03",
            EngineError::RowTooLarge { .. }
            | EngineError::KeyTooLarge { .. }
            | EngineError::LimitExceeded { .. } => "54000",
            EngineError::Cancelled | EngineError::StatementTimeout => "57014",
            EngineError::OutOfMemory(_) => "53200",
            EngineError::TempFileLimit { .. } => "53400",
            EngineError::TransactionAborted => "25P02",
            EngineError::NoSuchSavepoint { .. } => "3B001",
            EngineError::DeferrableArbiter { .. } => "55000",
            EngineError::Unsupported { .. } => "0A000",
            EngineError::Corrupted { .. } => "XX001",
            EngineError::ShuttingDown => "57P01",
            EngineError::StaleRow { .. } | EngineError::StatusNotInMemory { .. } => "XX000",
            EngineError::Storage(error) => storage_sqlstate(error),
        }
    }

    /// The page whose damage this is.
    pub(crate) fn damaged_page(&self) -> Option<PageId> {
        match self {
            EngineError::Storage(error) => error.damaged_page(),
            _ => None,
        }
    }

    /// A damage report.
    pub fn corrupted(what: impl Into<String>) -> EngineError {
        EngineError::Corrupted { what: what.into() }
    }
}

impl From<StorageError> for EngineError {
    fn from(error: StorageError) -> EngineError {
        EngineError::Storage(Arc::new(error))
    }
}

fn storage_sqlstate(error: &StorageError) -> &'static str {
    match error {
        StorageError::DiskFull(_) => "53100",
        StorageError::TooManyFiles(_) => "53000",
        StorageError::Poisoned { .. } => "57P02",
        StorageError::ShutDown => "57P01",
        StorageError::PageDamaged { .. }
        | StorageError::PageSetAside { .. }
        | StorageError::LostWrite { .. }
        | StorageError::CannotRebuild { .. }
        | StorageError::Inconsistent { .. }
        | StorageError::LogDamaged { .. }
        | StorageError::Redo { .. }
        | StorageError::ControlDamaged { .. }
        | StorageError::FileDamaged { .. }
        | StorageError::NoSuchPage { .. } => "XX001",
        StorageError::NoFreeFrame => "53200",
        StorageError::Config(_) => "22023",
        StorageError::Locked { .. } => "55006",
        StorageError::Internal(_) => "XX000",
        StorageError::Io(_)
        | StorageError::PageRead { .. }
        | StorageError::NotADatabase { .. }
        | StorageError::WrongVersion { .. }
        | StorageError::UnknownRecord { .. } => "58030",
    }
}
