//! A file as the system knows it, for what carries operations out without [`crate::File`]'s calls.

use std::os::fd::BorrowedFd;

use crate::error::{IoResult, OpKind};

/// A file of the system's: what a ring needs to know of it. Only [`crate::FileDisk`] makes one.
pub struct NativeFile<'a> {
    pub(crate) fd: BorrowedFd<'a>,
    /// Transfers bypass the page cache.
    pub(crate) direct: bool,
    /// Writes are atomic, which a ring does not do.
    pub(crate) atomic: bool,
    /// Is told of each operation.
    pub(crate) watch: Option<&'a dyn Watch>,
}

impl<'a> NativeFile<'a> {
    pub(crate) fn new(fd: BorrowedFd<'a>, direct: bool, atomic: bool) -> NativeFile<'a> {
        NativeFile {
            fd,
            direct,
            atomic,
            watch: None,
        }
    }

    /// The same, with `watch` told of its operations. `None` if another one is told already: its
    /// operations are carried out by [`crate::File`]'s calls, which tell them both.
    pub(crate) fn watched_by(self, watch: &'a dyn Watch) -> Option<NativeFile<'a>> {
        self.watch.is_none().then_some(NativeFile {
            watch: Some(watch),
            ..self
        })
    }
}

/// One transfer, as a watch is told of it.
#[derive(Clone, Copy)]
pub(crate) struct Watched {
    pub(crate) kind: OpKind,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// Is told of transfers that a ring carries out, as an observed file's own calls would tell.
pub(crate) trait Watch {
    /// A transfer begins, on the thread that will tell its end; the answer goes to `end`. An error
    /// is the transfer's, which then does not begin.
    fn begin(&self, transfer: Watched) -> IoResult<u64>;
    /// It has ended, well or not.
    fn end(&self, transfer: Watched, ticket: u64);
}
