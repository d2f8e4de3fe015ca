//! Operations that own their buffers, and the queues that carry them out.

use std::collections::VecDeque;
use std::fmt;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use crate::blocking;
use crate::buffer::IoBuf;
use crate::error::IoResult;
use crate::file::File;

/// How [`crate::FileDisk`] carries out queued operations (`io_method`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoMethod {
    /// In `submit`, on the calling thread.
    Sync,
    /// By threads that all queues of the disk share. They start when operations need them and
    /// end when they are idle.
    Worker {
        /// Most worker threads at once (`io_max_workers`), at least one. Queues whose depths add
        /// up to no more have their depth of operations under way.
        threads: usize,
    },
    /// By rings of the kernel's (io_uring(7)), each with a thread, and by workers where a ring
    /// cannot or would be no quicker. By workers alone where the system gives no ring.
    IoUring {
        /// Most worker threads at once, and most kernel threads of a ring.
        threads: usize,
    },
}

/// The kind of a queued operation.
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

/// Takes a finished operation on the thread that carried it out.
pub type Finish = Box<dyn FnOnce(IoCompletion) + Send>;

/// An operation: it owns its file, its buffers and the caller's tag until it completes.
pub struct IoOp {
    /// The file.
    pub file: Arc<dyn File>,
    /// Its kind, with offset and length.
    pub work: IoWork,
    /// Buffers of a read or write, used in turn; empty otherwise.
    pub bufs: Vec<IoBuf>,
    /// Handed back unchanged.
    pub tag: u64,
    /// Takes the completion, which the queue then does not hand back: work on what was read is
    /// done by as many threads as the disk has for operations. It must not wait for another
    /// operation of a queue: all threads may be at such work.
    pub finish: Option<Finish>,
}

impl IoOp {
    /// A read of the buffers' total length.
    pub fn read(file: Arc<dyn File>, offset: u64, bufs: Vec<IoBuf>, tag: u64) -> Self {
        Self {
            file,
            work: IoWork::Read { offset },
            bufs,
            tag,
            finish: None,
        }
    }

    /// A write of all buffers.
    pub fn write(file: Arc<dyn File>, offset: u64, bufs: Vec<IoBuf>, tag: u64) -> Self {
        Self {
            file,
            work: IoWork::Write { offset },
            bufs,
            tag,
            finish: None,
        }
    }

    /// A sync of content and length.
    pub fn sync_data(file: Arc<dyn File>, tag: u64) -> Self {
        Self {
            file,
            work: IoWork::SyncData,
            bufs: Vec::new(),
            tag,
            finish: None,
        }
    }

    /// The same operation, whose completion goes to `finish`.
    #[must_use]
    pub fn finished_by(self, finish: impl FnOnce(IoCompletion) + Send + 'static) -> Self {
        Self {
            finish: Some(Box::new(finish)),
            ..self
        }
    }

    /// Bytes that a read or write is to move.
    pub(crate) fn len(&self) -> usize {
        self.bufs.iter().map(|buf| buf.len()).sum()
    }

    /// Carries the operation out on this thread. `None`: its own `finish` had the completion.
    pub fn run(mut self) -> Option<IoCompletion> {
        let finish = self.finish.take();
        // Behind `finish`, so that a panic drops the buffers before those who lent them.
        let mut op = self;
        let calls = blocking::calls();
        let result = match op.work {
            IoWork::Read { offset } => {
                let mut slices: Vec<_> =
                    op.bufs.iter_mut().map(|buf| IoSliceMut::new(buf)).collect();
                op.file.read_vectored_at(&mut slices, offset)
            }
            IoWork::Write { offset } => {
                let mut slices: Vec<_> = op.bufs.iter().map(|buf| IoSlice::new(buf)).collect();
                let total = slices.iter().map(|slice| slice.len()).sum();
                op.file
                    .write_all_vectored_at(&mut slices, offset)
                    .map(|()| total)
            }
            IoWork::SyncData => op.file.sync_data().map(|()| 0),
            IoWork::SyncAll => op.file.sync_all().map(|()| 0),
            IoWork::StartWriteback { offset, len } => {
                op.file.start_writeback(offset, len).map(|()| 0)
            }
        };
        op.finish = finish;
        op.complete(result, blocking::calls() != calls)
    }

    /// Hands the result to the operation's `finish` on this thread, or back.
    pub(crate) fn complete(
        mut self,
        result: IoResult<usize>,
        blocked: bool,
    ) -> Option<IoCompletion> {
        let finish = self.finish.take();
        let completion = IoCompletion {
            op: self,
            result,
            blocked,
        };
        match finish {
            Some(finish) => {
                finish(completion);
                None
            }
            None => Some(completion),
        }
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
    /// A read had to wait for the device: the page cache did not hold all of it.
    pub blocked: bool,
}

impl IoCompletion {
    /// The tag given with the operation.
    pub fn tag(&self) -> u64 {
        self.op.tag
    }
}

/// A queue of one I/O thread. Operations in flight at the same time complete in any order, and
/// none is ordered against another: what must follow is submitted after the completion arrived.
/// An operation with a `finish` counts as handed back once that has returned.
///
/// Dropping a queue with operations in flight lets them finish; their completions are lost.
pub trait IoQueue: Send {
    /// Takes operations; those beyond the queue's depth start as others complete.
    fn submit(&mut self, ops: Vec<IoOp>);

    /// Appends what has completed, without waiting. A queue whose operations are carried out by
    /// the thread that asks for completions carries out at least one.
    fn poll(&mut self, out: &mut Vec<IoCompletion>);

    /// Waits until at least `min` operations, or all in flight, have completed, and appends what
    /// is handed back of them.
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
        self.done.extend(ops.into_iter().filter_map(IoOp::run));
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
