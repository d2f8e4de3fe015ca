//! One ring, which owns the operations that the kernel works at.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::Errno;

use crate::error::{IoError, IoResult, OpKind};
use crate::queue::{IoOp, IoWork};
use crate::shared_queue::Done;
use crate::transfer::{MAX_SLICES, Step, Transfer};

/// Places in the submission queue.
const ENTRIES: u32 = 256;
/// Places in the completion queue: one for each operation under way, and one for the alarm, so
/// that it never overflows.
const COMPLETIONS: u32 = 1024;
/// Most operations under way.
pub(super) const MOST: usize = COMPLETIONS as usize - 1;
/// Places for lock files.
const LOCKS: usize = 16;
/// Marks the alarm's completions.
const ALARM: u64 = u64::MAX;
/// Before the kernel is asked again for what it had no memory for.
const PAUSE: Duration = Duration::from_millis(1);

/// Makes a ring; tests have it fail.
#[derive(Clone, Copy)]
pub(crate) struct RingSetup(pub(crate) fn() -> io::Result<IoUring>);

impl Default for RingSetup {
    fn default() -> RingSetup {
        RingSetup(set_up)
    }
}

/// A ring that only the calling thread uses. A kernel before 6.1 does not know the flags by which
/// completions disturb nobody: it gives a plain one.
fn set_up() -> io::Result<IoUring> {
    let mut plain = IoUring::builder();
    plain.dontfork().setup_clamp().setup_cqsize(COMPLETIONS);
    let mut quiet = plain.clone();
    quiet
        .setup_submit_all()
        .setup_single_issuer()
        .setup_defer_taskrun();
    let uring = match quiet.build(ENTRIES) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => plain.build(ENTRIES)?,
        built => built?,
    };
    if !uring.params().is_feature_nodrop() {
        // Before Linux 5.5.
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(uring)
}

/// An operation with what is to be done at its end.
pub(super) struct Job {
    pub(super) op: IoOp,
    pub(super) done: Arc<Done>,
    /// Its watch's.
    pub(super) ticket: u64,
    /// It reads what the page cache does not hold.
    pub(super) blocked: bool,
}

/// An operation under way.
struct Running {
    job: Job,
    /// Of the step that the kernel works at; it reads them when the step is submitted, and again
    /// if that has to wait.
    slices: Vec<libc::iovec>,
    transfer: Transfer,
}

pub(super) struct Ring {
    uring: IoUring,
    /// Operations under way, by the number that their completions name.
    running: Vec<Option<Running>>,
    free: Vec<usize>,
    /// Wakes the thread that waits for completions.
    alarm: Arc<OwnedFd>,
    is_alarm_set: bool,
}

impl Ring {
    /// A ring for the calling thread, which may have `threads` threads of the kernel for what has
    /// to wait.
    pub(super) fn new(setup: RingSetup, alarm: Arc<OwnedFd>, threads: usize) -> io::Result<Ring> {
        let uring = setup.0()?;
        let threads = u32::try_from(threads).unwrap_or(u32::MAX);
        // Linux 5.15. Without it there are four for each processor.
        let _ = uring
            .submitter()
            .register_iowq_max_workers(&mut [threads, 0]);
        if let Err(error) = uring.submitter().register_files(&[-1; LOCKS]) {
            tracing::warn!("a ring has no place for lock files: {error}");
        }
        Ok(Ring {
            uring,
            running: Vec::new(),
            free: Vec::new(),
            alarm,
            is_alarm_set: false,
        })
    }

    /// Operations under way.
    pub(super) fn in_flight(&self) -> usize {
        self.running.len() - self.free.len()
    }

    /// Has the kernel keep these lock files open until the ring has ended, instead of others.
    pub(super) fn keep_open(&self, files: &[Arc<OwnedFd>]) {
        let mut places: [RawFd; LOCKS] = [-1; LOCKS];
        for (place, file) in places.iter_mut().zip(files) {
            *place = file.as_raw_fd();
        }
        let kept = self.uring.submitter().register_files_update(0, &places);
        if kept.is_err() || files.len() > LOCKS {
            tracing::warn!("should this process be killed, a lock may be free before its writes");
        }
    }

    /// Takes an operation, of a file that is the system's. With `may_wait` a thread of the kernel
    /// carries it out.
    pub(super) fn start(&mut self, job: Job, may_wait: bool) {
        let (total, direct) = (job.op.len(), is_direct(&job.op));
        let transfer = match job.op.work {
            IoWork::Read { .. } => Transfer::reading(total, direct),
            _ => Transfer::writing(total),
        };
        let running = Running {
            job,
            slices: Vec::new(),
            transfer,
        };
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.running.push(None);
                self.running.len() - 1
            }
        };
        self.running[at] = Some(running);
        self.step(at, may_wait);
    }

    /// Queues the next step of an operation for submission.
    fn step(&mut self, at: usize, may_wait: bool) {
        let Some(running) = &mut self.running[at] else {
            return;
        };
        let (fd, offset) = place(&running.job.op);
        let done = running.transfer.done();
        let offset = offset.saturating_add(done as u64);
        slices(&mut running.job.op, done, &mut running.slices);
        let (slices, count) = (running.slices.as_ptr(), running.slices.len() as u32);
        let entry = match running.job.op.work {
            IoWork::Read { .. } => opcode::Readv::new(fd, slices, count).offset(offset).build(),
            _ => opcode::Writev::new(fd, slices, count)
                .offset(offset)
                .build(),
        };
        let flags = match may_wait {
            true => squeue::Flags::ASYNC,
            false => squeue::Flags::empty(),
        };
        self.push(&entry.flags(flags).user_data(at as u64));
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: an entry's file, slices and memory are of an operation in `running`, which keeps
        // its file open, its slices and the memory that they name until the entry's completion
        // is taken, also when the ring is dropped (`Ring::drop`); nothing else uses that memory
        // meanwhile, as the operation owns it (`IoBuf`). The alarm's entry names no memory, and
        // the ring owns the alarm.
        while unsafe { self.uring.submission().push(entry) }.is_err() {
            self.enter(false);
        }
    }

    /// Submits what is queued. With `wait` it then waits for a completion, or for the alarm, and
    /// may return earlier.
    pub(super) fn enter(&mut self, wait: bool) {
        if wait && !self.is_alarm_set {
            self.is_alarm_set = true;
            let fd = types::Fd(self.alarm.as_raw_fd());
            let poll = opcode::PollAdd::new(fd, libc::POLLIN as u32).build();
            self.push(&poll.user_data(ALARM));
        }
        let Err(error) = self.uring.submit_and_wait(usize::from(wait)) else {
            return;
        };
        // A signal, or the kernel lacks memory, or waits for completions to be taken. The entries
        // stay queued.
        let is_signal = error.raw_os_error() == Some(libc::EINTR);
        if !is_signal && self.uring.completion().is_empty() {
            std::thread::sleep(PAUSE);
        }
    }

    /// Submits what is queued, if something is.
    pub(super) fn submit(&mut self) {
        if !self.uring.submission().is_empty() {
            self.enter(false);
        }
    }

    /// Takes what has completed. Operations that have ended are appended to `ended`; others take
    /// their next step.
    pub(super) fn reap(&mut self, ended: &mut Vec<(Job, IoResult<usize>)>) {
        while let Some(entry) = self.next_completion() {
            let (number, result) = entry;
            if number == ALARM {
                self.is_alarm_set = false;
                // It may be gone already: then another one follows.
                let _ = rustix::io::read(self.alarm.as_fd(), &mut [0; 8]);
                continue;
            }
            let at = number as usize;
            let Some(running) = self.running.get_mut(at).and_then(Option::as_mut) else {
                continue;
            };
            let moved = match usize::try_from(result) {
                Ok(moved) => Ok(moved),
                Err(_) => Err(Errno::from_raw_os_error(-result)),
            };
            match running.transfer.ring_step(moved) {
                (Step::Again, may_wait) => self.step(at, may_wait),
                (Step::Ended(result), _) => {
                    let Some(Running { job, .. }) = self.running[at].take() else {
                        continue;
                    };
                    self.free.push(at);
                    let result = result.map_err(|broken| {
                        let at = place(&job.op).1.saturating_add(broken.done as u64);
                        let path = job.op.file.path();
                        IoError::from_errno(kind(&job.op), path, Some(at), broken.errno)
                    });
                    ended.push((job, result));
                }
            }
        }
    }

    fn next_completion(&mut self) -> Option<(u64, i32)> {
        let entry = self.uring.completion().next()?;
        Some((entry.user_data(), entry.result()))
    }
}

impl Drop for Ring {
    /// The kernel works at memory that these operations own.
    fn drop(&mut self) {
        let mut ended = Vec::new();
        while self.in_flight() > 0 {
            self.enter(true);
            self.reap(&mut ended);
        }
    }
}

/// The kind of a transfer.
pub(super) fn kind(op: &IoOp) -> OpKind {
    match op.work {
        IoWork::Read { .. } => OpKind::Read,
        _ => OpKind::Write,
    }
}

/// File and offset of a transfer. A file that is not the system's is none that is open.
fn place(op: &IoOp) -> (types::Fd, u64) {
    let fd = op.file.native().map(|native| native.fd);
    let fd = fd.as_ref().map_or(-1, BorrowedFd::as_raw_fd);
    match op.work {
        IoWork::Read { offset } | IoWork::Write { offset } => (types::Fd(fd), offset),
        _ => (types::Fd(-1), 0),
    }
}

fn is_direct(op: &IoOp) -> bool {
    op.file.native().is_some_and(|native| native.direct)
}

/// The operation's memory behind the first `done` bytes, as many slices as one step can have.
fn slices(op: &mut IoOp, mut done: usize, out: &mut Vec<libc::iovec>) {
    out.clear();
    for buf in &mut op.bufs {
        let skip = done.min(buf.len());
        done -= skip;
        let rest = &mut buf[skip..];
        if !rest.is_empty() && out.len() < MAX_SLICES {
            out.push(libc::iovec {
                iov_base: rest.as_mut_ptr().cast(),
                iov_len: rest.len(),
            });
        }
    }
}
