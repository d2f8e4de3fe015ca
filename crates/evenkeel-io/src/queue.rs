//! Operations that own their buffers, and the queues that carry them out.

use std::collections::VecDeque;
use std::fmt;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use crate::buffer::IoBuf;
use crate::disk::File;
use crate::error::IoResult;

/// What a queued operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoWork {
    /// Fills the buffers in turn from this offset on; short at the end of the file only.
    Read {
        /// Byte offset in the file.
        offset: u64,
    },
    /// Writes the buffers in turn from this offset on, all of them or an error.
    Write {
        /// Byte offset in the file.
        offset: u64,
    },
    /// As [`File::sync_data`]. Covers writes whose completion was received before `submit`.
    SyncData,
    /// As [`File::sync_all`], with the same cover.
    SyncAll,
    /// As [`File::start_writeback`].
    StartWriteback {
        /// Byte offset in the file.
        offset: u64,
        /// Length in bytes.
        len: u64,
    },
}

/// An operation: it owns its file, its buffers and the caller's tag until it completes.
pub struct IoOp {
    /// The file.
    pub file: Arc<dyn File>,
    /// What to do.
    pub work: IoWork,
    /// Buffers of a read or write, used in turn; empty otherwise.
    pub bufs: Vec<IoBuf>,
    /// Handed back unchanged.
    pub tag: u64,
}

impl IoOp {
    /// A read of the buffers' total length.
    pub fn read(file: Arc<dyn File>, offset: u64, bufs: Vec<IoBuf>, tag: u64) -> Self {
        Self {
            file,
            work: IoWork::Read { offset },
            bufs,
            tag,
        }
    }

    /// A write of all buffers.
    pub fn write(file: Arc<dyn File>, offset: u64, bufs: Vec<IoBuf>, tag: u64) -> Self {
        Self {
            file,
            work: IoWork::Write { offset },
            bufs,
            tag,
        }
    }

    /// A sync of content and length.
    pub fn sync_data(file: Arc<dyn File>, tag: u64) -> Self {
        Self {
            file,
            work: IoWork::SyncData,
            bufs: Vec::new(),
            tag,
        }
    }

    /// Carries the operation out on this thread.
    pub fn run(mut self) -> IoCompletion {
        let result = match self.work {
            IoWork::Read { offset } => {
                let mut slices: Vec<_> = self
                    .bufs
                    .iter_mut()
                    .map(|buf| IoSliceMut::new(buf))
                    .collect();
                self.file.read_vectored_at(&mut slices, offset)
            }
            IoWork::Write { offset } => {
                let mut slices: Vec<_> = self.bufs.iter().map(|buf| IoSlice::new(buf)).collect();
                let total = slices.iter().map(|slice| slice.len()).sum();
                self.file
                    .write_all_vectored_at(&mut slices, offset)
                    .map(|()| total)
            }
            IoWork::SyncData => self.file.sync_data().map(|()| 0),
            IoWork::SyncAll => self.file.sync_all().map(|()| 0),
            IoWork::StartWriteback { offset, len } => {
                self.file.start_writeback(offset, len).map(|()| 0)
            }
        };
        IoCompletion { op: self, result }
    }
}

impl fmt::Debug for IoOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoOp")
            .field("path", &self.file.path())
            .field("work", &self.work)
            .field("bufs", &self.bufs)
            .field("tag", &self.tag)
            .finish()
    }
}

/// A finished operation, handed back whole, with its result.
#[derive(Debug)]
pub struct IoCompletion {
    /// The operation; its buffers hold what was read.
    pub op: IoOp,
    /// Bytes moved by a read or write, otherwise zero.
    pub result: IoResult<usize>,
}

impl IoCompletion {
    /// The tag given with the operation.
    pub fn tag(&self) -> u64 {
        self.op.tag
    }
}

/// A queue of one I/O thread. Operations in flight at the same time complete in any order, and
/// none is ordered against another: what must follow is submitted after the completion arrived.
///
/// Dropping a queue with operations in flight lets them finish; their completions are lost.
pub trait IoQueue: Send {
    /// Takes operations; those beyond the queue's depth start as others complete.
    fn submit(&mut self, ops: Vec<IoOp>);

    /// Appends what has completed, without waiting.
    fn poll(&mut self, out: &mut Vec<IoCompletion>);

    /// Appends at least `min` completions (fewer only if fewer are in flight), waiting for them.
    fn wait(&mut self, min: usize, out: &mut Vec<IoCompletion>);

    /// Operations submitted and not yet handed back.
    fn in_flight(&self) -> usize;
}

/// The back end of `io_method = sync`: an operation runs in `submit`.
#[derive(Default)]
pub(crate) struct SyncQueue {
    done: VecDeque<IoCompletion>,
}

impl IoQueue for SyncQueue {
    fn submit(&mut self, ops: Vec<IoOp>) {
        self.done.extend(ops.into_iter().map(IoOp::run));
    }

    fn poll(&mut self, out: &mut Vec<IoCompletion>) {
        out.extend(self.done.drain(..));
    }

    fn wait(&mut self, _min: usize, out: &mut Vec<IoCompletion>) {
        self.poll(out);
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }
}
