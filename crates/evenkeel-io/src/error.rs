//! The one error type of this crate: which operation, on which path, where, and why.

use std::fmt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// Result of every operation of this crate.
pub type IoResult<T> = Result<T, IoError>;

/// The operations a disk knows; names an error and selects what a fault applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OpKind {
    /// Opening or creating a file.
    Open,
    /// Renaming a file.
    Rename,
    /// Unlinking a file.
    Remove,
    /// Creating directories.
    CreateDir,
    /// Listing a directory.
    List,
    /// Asking whether a path exists.
    Exists,
    /// Making a directory's entries durable.
    SyncDir,
    /// Taking a lock file.
    Lock,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Making a file's data and size durable.
    SyncData,
    /// Making a file's data and all its metadata durable.
    SyncAll,
    /// Asking for a file's length.
    Len,
    /// Cutting or extending a file.
    SetLen,
    /// Reserving space.
    Allocate,
    /// Advising the system to begin writing back.
    StartWriteback,
    /// Waiting for the device to have taken what was written.
    AwaitWriteback,
    /// Asking how much space is left.
    FreeSpace,
}

impl fmt::Display for OpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Rename => "rename",
            Self::Remove => "remove",
            Self::CreateDir => "create directory",
            Self::List => "list directory",
            Self::Exists => "stat",
            Self::SyncDir => "sync directory",
            Self::Lock => "lock",
            Self::Read => "read",
            Self::Write => "write",
            Self::SyncData => "sync data of",
            Self::SyncAll => "sync",
            Self::Len => "length of",
            Self::SetLen => "set length of",
            Self::Allocate => "allocate space in",
            Self::StartWriteback => "start write-back of",
            Self::AwaitWriteback => "write back",
            Self::FreeSpace => "free space of",
        })
    }
}

/// Kinds of errors, distinguished by what a caller would do about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IoErrorKind {
    /// No such file or directory.
    NotFound,
    /// The file exists and was to be created.
    AlreadyExists,
    /// The disk or quota is full: an error of one statement.
    NoSpace,
    /// The process, or the system, has no descriptor left: an error of one statement, and another
    /// try may succeed when something was closed.
    TooManyFiles,
    /// Another holder has the lock.
    Locked,
    /// The directory's lock has been given back, and what held it may change nothing any more.
    Unlocked,
    /// Fewer bytes than asked for lie before the end of the file.
    UnexpectedEof,
    /// Not permitted, or a read-only file system.
    PermissionDenied,
    /// The file system cannot do this (direct I/O on some, for instance).
    Unsupported,
    /// The call itself is wrong: misaligned direct I/O, writing through a read-only handle.
    InvalidInput,
    /// Everything else; after one of these from a write or a sync nothing is known.
    Io,
}

impl fmt::Display for IoErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "no such file or directory",
            Self::AlreadyExists => "already exists",
            Self::NoSpace => "no space left on device",
            Self::TooManyFiles => "too many open files",
            Self::Locked => "locked by another process or handle",
            Self::Unlocked => "the directory's lock has been given back",
            Self::UnexpectedEof => "file ends too early",
            Self::PermissionDenied => "permission denied",
            Self::Unsupported => "not supported by the file system",
            Self::InvalidInput => "invalid argument",
            Self::Io => "input/output error",
        })
    }
}

impl From<Errno> for IoErrorKind {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT | Errno::NOTDIR => Self::NotFound,
            Errno::EXIST => Self::AlreadyExists,
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG => Self::NoSpace,
            Errno::MFILE | Errno::NFILE => Self::TooManyFiles,
            Errno::ACCESS | Errno::PERM | Errno::ROFS => Self::PermissionDenied,
            Errno::OPNOTSUPP | Errno::NOSYS => Self::Unsupported,
            Errno::INVAL | Errno::BADF | Errno::ISDIR => Self::InvalidInput,
            _ => Self::Io,
        }
    }
}

/// A failed operation: the operation, the path, the byte offset where it has one, the kind, and
/// the system's error number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IoError {
    op: OpKind,
    kind: IoErrorKind,
    errno: Option<i32>,
    path: PathBuf,
    offset: Option<u64>,
}

impl IoError {
    /// An error of a kind that no system call reported.
    pub fn new(op: OpKind, path: &Path, offset: Option<u64>, kind: IoErrorKind) -> Self {
        Self {
            op,
            kind,
            errno: None,
            path: path.to_owned(),
            offset,
        }
    }

    /// An error that a system call (or the simulated disk) reported.
    pub(crate) fn from_errno(op: OpKind, path: &Path, offset: Option<u64>, errno: Errno) -> Self {
        Self {
            op,
            kind: errno.into(),
            errno: Some(errno.raw_os_error()),
            path: path.to_owned(),
            offset,
        }
    }

    /// The operation that failed.
    pub fn op(&self) -> OpKind {
        self.op
    }

    /// The kind of error, which a caller would act on.
    pub fn kind(&self) -> IoErrorKind {
        self.kind
    }

    /// The system's error number, where a system call failed.
    pub fn errno(&self) -> Option<i32> {
        self.errno
    }

    /// The file or directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The byte offset, for operations that have one.
    pub fn offset(&self) -> Option<u64> {
        self.offset
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "could not {} \"{}\"", self.op, self.path.display())?;
        if let Some(offset) = self.offset {
            write!(f, " at offset {offset}")?;
        }
        match self.errno {
            Some(errno) if self.kind == IoErrorKind::Io => {
                write!(f, ": {}", std::io::Error::from_raw_os_error(errno))
            }
            Some(errno) => write!(f, ": {} (errno {errno})", self.kind),
            None => write!(f, ": {}", self.kind),
        }
    }
}

impl std::error::Error for IoError {}
