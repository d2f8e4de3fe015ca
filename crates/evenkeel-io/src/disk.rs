//! The trait through which everything above this crate reaches storage.

use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;

use crate::error::IoResult;
use crate::file::{File, OpenOptions};
use crate::queue::IoQueue;

/// Identity of one run of the operating system's kernel: another one after each start of the
/// machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BootId(pub NonZero<u128>);

/// A lock that lasts until it is dropped, or the process ends.
pub trait LockGuard: Send + Sync {
    /// The lock file, so that its holder can write who it is.
    fn file(&self) -> &dyn File;
}

/// A disk: a tree of files, a source of time and one of randomness.
///
/// Paths are used verbatim: absolute, or relative to the process. The README's rules, and nothing
/// else, define what survives a crash.
pub trait Disk: Send + Sync + 'static {
    /// Opens a file. The entry of a file created here is durable after [`Disk::sync_dir`] of its
    /// directory. `Unsupported` if direct I/O or atomic writes were asked for and file system
    /// or device do not have them.
    fn open(&self, path: &Path, opts: OpenOptions) -> IoResult<Arc<dyn File>>;

    /// Renames a file atomically, replacing an existing one; durable after [`Disk::sync_dir`].
    fn rename(&self, from: &Path, to: &Path) -> IoResult<()>;

    /// Unlinks a file; durable after [`Disk::sync_dir`]. Open handles go on working.
    fn remove(&self, path: &Path) -> IoResult<()>;

    /// Creates a directory and its missing ancestors. Each new entry is durable after
    /// [`Disk::sync_dir`] of the directory it is in.
    fn create_dir_all(&self, path: &Path) -> IoResult<()>;

    /// Names in a directory, sorted.
    fn list(&self, dir: &Path) -> IoResult<Vec<String>>;

    /// Whether the path names a file or directory.
    fn exists(&self, path: &Path) -> IoResult<bool>;

    /// Makes the entries of a directory durable: created, renamed and removed ones.
    fn sync_dir(&self, dir: &Path) -> IoResult<()>;

    /// Locks a file, creating it if missing; `Locked` at once if anyone, this process included,
    /// holds it.
    fn lock(&self, path: &Path) -> IoResult<Box<dyn LockGuard>>;

    /// Whether a process is there and has the file open. One that was killed may be gone while
    /// the kernel still ends its operations, and so still holds its locks. `true` where that is
    /// unknown.
    fn has_open(&self, _process: u32, _path: &Path) -> bool {
        true
    }

    /// A queue for one I/O thread, carrying out up to `depth` (at least one) operations at once.
    fn queue(&self, depth: usize) -> Box<dyn IoQueue>;

    /// Random bits; unpredictable on a real disk, by seed on a simulated one.
    fn random_u64(&self) -> u64;

    /// Microseconds since 1970-01-01 UTC; never goes back within one disk.
    fn now_micros(&self) -> u64;

    /// Bytes that files under `dir` can still grow by; `None` if that is unknown.
    fn free_space(&self, dir: &Path) -> IoResult<Option<u64>>;

    /// The run of the kernel whose page cache holds the files: under another one it began empty.
    /// `None` if that is unknown.
    fn boot_id(&self) -> Option<BootId>;

    /// Files that can be open at once, whatever they are; `None` if there is no limit.
    fn max_open_files(&self) -> Option<u64>;
}
