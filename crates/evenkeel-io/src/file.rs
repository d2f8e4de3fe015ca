//! An open file, and how it is opened.

use std::io::{IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::Arc;

use crate::error::{IoError, IoErrorKind, IoResult, OpKind};
use crate::native::NativeFile;

/// How a file is opened. Start from [`OpenOptions::read_only`], [`OpenOptions::read_write`] or
/// [`OpenOptions::create`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenOptions {
    /// Reading is allowed.
    pub read: bool,
    /// Writing, cutting and allocating are allowed.
    pub write: bool,
    /// A missing file is created, empty.
    pub create: bool,
    /// The file is created; an existing one is an error.
    pub create_new: bool,
    /// An existing file is cut to length zero.
    pub truncate: bool,
    /// Direct I/O: buffers, offsets and lengths are multiples of [`crate::IO_ALIGN`]; reads give
    /// what the disk holds, not what the page cache remembers.
    pub direct: bool,
    /// If not zero: every write is of whole aligned units of so many bytes, and a power failure
    /// leaves each of these units as it was before or after. Needs direct I/O.
    pub atomic: u32,
}

impl OpenOptions {
    /// Opens an existing file for reading.
    pub const fn read_only() -> Self {
        Self {
            read: true,
            write: false,
            create: false,
            create_new: false,
            truncate: false,
            direct: false,
            atomic: 0,
        }
    }

    /// Opens an existing file for reading and writing.
    pub const fn read_write() -> Self {
        Self {
            write: true,
            ..Self::read_only()
        }
    }

    /// Opens a file for reading and writing, creating it if it is missing.
    pub const fn create() -> Self {
        Self {
            create: true,
            ..Self::read_write()
        }
    }

    /// Creates a file that must not exist, for reading and writing.
    pub const fn create_new() -> Self {
        Self {
            create_new: true,
            ..Self::read_write()
        }
    }

    /// Cuts an existing file to length zero.
    pub const fn truncate(self) -> Self {
        Self {
            truncate: true,
            ..self
        }
    }

    /// Direct I/O, or not.
    pub const fn direct(self, direct: bool) -> Self {
        Self { direct, ..self }
    }

    /// Writes of whole units of `atomic` bytes, each atomic; 0 for ordinary writes.
    pub const fn atomic(self, atomic: u32) -> Self {
        Self { atomic, ..self }
    }
}

/// An open file. All operations are positioned and may run at the same time.
pub trait File: Send + Sync {
    /// Reads into the slices in turn from `offset` on; short at the end of the file only. The
    /// slices are used up by the call.
    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> IoResult<usize>;

    /// Writes all slices in turn from `offset` on, extending the file as needed. The slices are
    /// used up by the call. After an error any part may have been written.
    fn write_all_vectored_at(&self, bufs: &mut [IoSlice<'_>], offset: u64) -> IoResult<()>;

    /// Makes content and length durable. After an error nothing is known of what was written
    /// since the last success, and calling again proves nothing.
    fn sync_data(&self) -> IoResult<()>;

    /// As [`File::sync_data`], and all metadata.
    fn sync_all(&self) -> IoResult<()>;

    /// Length in bytes.
    fn len(&self) -> IoResult<u64>;

    /// Whether the length is zero.
    fn is_empty(&self) -> IoResult<bool> {
        self.len().map(|len| len == 0)
    }

    /// Cuts the file, or extends it by a hole that reads as zero.
    fn set_len(&self, len: u64) -> IoResult<()>;

    /// Reserves real space, which reads as zero where it was not written, and extends the file
    /// to `offset + len` if it is shorter. A full disk is `NoSpace`.
    fn allocate(&self, offset: u64, len: u64) -> IoResult<()>;

    /// Advises the system to begin writing the range back; proves nothing about durability.
    fn start_writeback(&self, offset: u64, len: u64) -> IoResult<()>;

    /// Waits until what was written to the range so far has been handed to the device and
    /// taken by it, beginning that if need be. It proves nothing about durability: a sync does.
    /// An error means what a failed sync means, and is not reported again by one.
    ///
    /// Where the system cannot tell, it returns at once.
    fn await_writeback(&self, offset: u64, len: u64) -> IoResult<()>;

    /// The path it was opened by.
    fn path(&self) -> &Path;

    /// The same file for operations on the account of another thread than the one that carries
    /// them out; None where nobody keeps accounts.
    fn on_account(&self, _account: u64) -> Option<Arc<dyn File>> {
        None
    }

    /// The file as the system knows it, if it is one of the system's: its reads and writes may
    /// then be carried out past this trait's calls, and are the same.
    fn native(&self) -> Option<NativeFile<'_>> {
        None
    }

    /// Reads from `offset` on; short at the end of the file only.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> IoResult<usize> {
        self.read_vectored_at(&mut [IoSliceMut::new(buf)], offset)
    }

    /// Reads exactly `buf.len()` bytes; `UnexpectedEof` if the file ends before.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> IoResult<()> {
        let want = buf.len();
        let got = self.read_at(buf, offset)?;
        if got == want {
            return Ok(());
        }
        let end = offset.saturating_add(got as u64);
        Err(IoError::new(
            OpKind::Read,
            self.path(),
            Some(end),
            IoErrorKind::UnexpectedEof,
        ))
    }

    /// Writes all of `buf` at `offset`, extending the file as needed.
    fn write_all_at(&self, buf: &[u8], offset: u64) -> IoResult<()> {
        self.write_all_vectored_at(&mut [IoSlice::new(buf)], offset)
    }
}
