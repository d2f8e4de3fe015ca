//! Errors of storage, distinguished by what a caller would do about them.

use std::path::PathBuf;
use std::sync::Arc;

use evenkeel_io::{IoError, IoErrorKind};

use crate::ids::{Lsn, PageId};

/// Result of a storage operation.
pub type StorageResult<T> = Result<T, StorageError>;

/// Failure of a storage operation.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StorageError {
    /// The disk is full. The statement fails; the instance goes on.
    #[error("disk full: {0}")]
    DiskFull(IoError),

    /// The process has no descriptor left for a file. The statement fails; the instance goes on.
    #[error("out of file descriptors: {0}")]
    TooManyFiles(IoError),

    /// The operating system refused an operation.
    #[error(transparent)]
    Io(IoError),

    /// A page could not be read: an error of whoever needs it, and of nobody else.
    #[error("could not read page: {page}: {error}")]
    PageRead {
        /// The page.
        page: PageId,
        /// The error from the operating system.
        error: IoError,
    },

    /// The instance has stopped acknowledging anything after a failure; reopen it.
    #[error("storage is stopped after a failure: {reason}; opening it again recovers it")]
    Poisoned {
        /// The failure that came first, with file and offset where there is one.
        reason: Arc<str>,
    },

    /// A page's content is not what was written there.
    #[error("page damaged: {page}, LSN {lsn}: {reason}")]
    PageDamaged {
        /// The page.
        page: PageId,
        /// The LSN in the page's header, as found.
        lsn: Lsn,
        /// A description of the damage.
        reason: String,
    },

    /// A page that could not be brought up to date is set aside: nobody sees it before it is
    /// zeroed, discarded or repaired by an explicit command.
    #[error(
        "page set aside as damaged: {page}, LSN {lsn}: {reason}; the log's changes of it are kept \
         in {}", side_file.display()
    )]
    PageSetAside {
        /// The page.
        page: PageId,
        /// The LSN that the page was found with; zero when it could not be read.
        lsn: Lsn,
        /// Why it was set aside.
        reason: Arc<str>,
        /// The file with the changes that the page lacks.
        side_file: PathBuf,
    },

    /// A page on disk lacks a change that the log says it had: a write was lost.
    #[error("lost write: {page}: record at {record} expects page LSN {expected}, found {found}")]
    LostWrite {
        /// The page.
        page: PageId,
        /// The record that was to be applied.
        record: Lsn,
        /// The page LSN the record was made on.
        expected: Lsn,
        /// The page LSN found.
        found: Lsn,
    },

    /// A damaged page cannot be made again from what else there is of it.
    #[error("{page} cannot be rebuilt: {reason}")]
    CannotRebuild {
        /// The page.
        page: PageId,
        /// Why not, for each thing that there is of it.
        reason: String,
    },

    /// Redo made something else of a page than the change had (`wal_consistency_checking`).
    #[error(
        "inconsistent page: {page} as of {lsn} differs from the logged image at offset {offset}: \
         {found:#04x} instead of {expected:#04x}"
    )]
    Inconsistent {
        /// The page.
        page: PageId,
        /// The change after which the image was logged.
        lsn: Lsn,
        /// First byte that differs.
        offset: usize,
        /// The byte of the image there.
        expected: u8,
        /// The byte of the page there.
        found: u8,
    },

    /// The log ends, or has a hole, before a position that was proven durable.
    #[error(
        "log damaged: no valid record at {lsn}, in {}, but {proof} shows it was durable up to \
         {durable}; set ignore_log_damage to open without what followed", segment.display()
    )]
    LogDamaged {
        /// The file in which that position is, or would be.
        segment: PathBuf,
        /// First position without a valid record.
        lsn: Lsn,
        /// The log was durable up to here at least.
        durable: Lsn,
        /// The proof: the control file or a record.
        proof: String,
    },

    /// A record that is valid by its checksum has content that this program does not know: it is
    /// not the end of the log, and nothing was changed.
    #[error("the record at {lsn} is valid, but its {what} is unknown: another version wrote it")]
    UnknownRecord {
        /// The record.
        lsn: Lsn,
        /// The part of it that is unknown.
        what: String,
    },

    /// A record that is valid by its checksum cannot be applied.
    #[error("redo of the record at {lsn} failed{}: {reason}", on_page(*.page))]
    Redo {
        /// The record.
        lsn: Lsn,
        /// The page, when the failure is of a part.
        page: Option<PageId>,
        /// Why.
        reason: String,
    },

    /// The directory holds something, but not an evenkeel database.
    #[error("{path} is not an evenkeel database: {reason}")]
    NotADatabase {
        /// The directory.
        path: PathBuf,
        /// Why it is not one.
        reason: String,
    },

    /// The database was written by an incompatible version.
    #[error("{path} has format version {found}; this program reads version {expected}")]
    WrongVersion {
        /// The directory.
        path: PathBuf,
        /// Version in the control file.
        found: u32,
        /// Version of this program.
        expected: u32,
    },

    /// Both copies of the control block are damaged.
    #[error("control file damaged: {path}: {reason}")]
    ControlDamaged {
        /// The control file.
        path: PathBuf,
        /// A description of the damage of each copy.
        reason: String,
    },

    /// Another process has the database open.
    #[error("{path} is open in another process")]
    Locked {
        /// The lock file.
        path: PathBuf,
    },

    /// A file other than a page or the log is damaged.
    #[error("file damaged: {path} at offset {offset}: {reason}")]
    FileDamaged {
        /// The file.
        path: PathBuf,
        /// Byte offset of the damage.
        offset: u64,
        /// A description of the damage.
        reason: String,
    },

    /// Every frame of the pool is pinned or waiting to be written.
    #[error("no buffer frame became free")]
    NoFreeFrame,

    /// A block number or file that does not exist was asked for.
    #[error("{page} does not exist")]
    NoSuchPage {
        /// The page.
        page: PageId,
    },

    /// A setting, or an argument, is out of its range.
    #[error("invalid setting: {0}")]
    Config(String),

    /// The store has been shut down.
    #[error("storage is shut down")]
    ShutDown,

    /// An internal rule was found broken; the instance is poisoned.
    #[error("internal error: {0}")]
    Internal(Arc<str>),
}

impl StorageError {
    /// The page that this is the damage of: an error of whoever needs the page, and of nobody
    /// else.
    #[must_use]
    pub fn damaged_page(&self) -> Option<PageId> {
        match self {
            StorageError::PageRead { page, .. }
            | StorageError::PageDamaged { page, .. }
            | StorageError::PageSetAside { page, .. }
            | StorageError::LostWrite { page, .. } => Some(*page),
            StorageError::Redo { page, .. } => *page,
            _ => None,
        }
    }
}

fn on_page(page: Option<PageId>) -> String {
    page.map_or_else(String::new, |page| format!(" on {page}"))
}

impl From<IoError> for StorageError {
    fn from(error: IoError) -> Self {
        match error.kind() {
            IoErrorKind::NoSpace => StorageError::DiskFull(error),
            IoErrorKind::TooManyFiles => StorageError::TooManyFiles(error),
            _ => StorageError::Io(error),
        }
    }
}

/// Why a redo function could not apply a part to a page: the page or the data is not what a
/// correct log would have brought together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ApplyError(pub String);

impl ApplyError {
    /// An error with this text.
    pub fn new(text: impl Into<String>) -> Self {
        ApplyError(text.into())
    }
}
