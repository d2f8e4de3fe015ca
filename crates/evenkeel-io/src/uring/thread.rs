//! The thread of a ring: it submits, takes what has completed, and does what follows on it.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::ReadWriteFlags;

use super::locks::HeldLocks;
use super::ring::{Job, MOST, Ring, RingSetup, kind};
use crate::error::IoResult;
use crate::native::Watched;
use crate::queue::{IoCompletion, IoOp, IoWork};
use crate::shared_queue::Done;

/// A read through the page cache of so many bytes is left to the kernel's threads: else the ring's
/// thread would do all the copying, one read after another.
const LARGE: usize = 32 << 10;

/// Operations for the thread of a ring.
pub(super) struct Mailbox {
    inbox: Mutex<Inbox>,
    alarm: Arc<OwnedFd>,
    /// Operations that were sent and whose follow-up is not done yet.
    load: AtomicUsize,
}

#[derive(Default)]
struct Inbox {
    ops: VecDeque<(IoOp, Arc<Done>)>,
    /// The thread waits, or is about to, and has to be woken.
    asleep: bool,
    closed: bool,
}

impl Mailbox {
    pub(super) fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    pub(super) fn send(&self, ops: Vec<IoOp>, done: &Arc<Done>) {
        self.load.fetch_add(ops.len(), Ordering::Relaxed);
        let ops = ops.into_iter().map(|op| (op, Arc::clone(done)));
        self.tell(|inbox| inbox.ops.extend(ops));
    }

    /// Has the thread end when nothing is left to be done.
    pub(super) fn close(&self) {
        self.tell(|inbox| inbox.closed = true);
    }

    fn tell(&self, what: impl FnOnce(&mut Inbox)) {
        let mut inbox = self.inbox.lock();
        what(&mut inbox);
        let is_asleep = std::mem::take(&mut inbox.asleep);
        drop(inbox);
        if is_asleep && let Err(error) = rustix::io::write(&self.alarm, &1_u64.to_ne_bytes()) {
            tracing::error!("a ring's thread could not be woken: {error}");
        }
    }

    /// `false`: something has come meanwhile. An idle thread has nothing else that would wake it.
    fn fall_asleep(&self, is_idle: bool) -> bool {
        let mut inbox = self.inbox.lock();
        let is_over = inbox.closed && is_idle;
        inbox.asleep = inbox.ops.is_empty() && !is_over;
        inbox.asleep
    }

    fn wake_up(&self) {
        self.inbox.lock().asleep = false;
    }
}

/// Starts a ring with its thread. The ring is the thread's alone.
pub(super) fn start(
    setup: RingSetup,
    threads: usize,
    locks: Arc<HeldLocks>,
) -> io::Result<Arc<Mailbox>> {
    let alarm = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let mailbox = Arc::new(Mailbox {
        inbox: Mutex::default(),
        alarm,
        load: AtomicUsize::new(0),
    });
    let (sender, receiver) = sync_channel(1);
    let theirs = Arc::clone(&mailbox);
    let run = move || run(setup, threads, locks, theirs, &sender);
    thread::Builder::new().name("io ring".into()).spawn(run)?;
    match receiver.recv() {
        Ok(made) => made.map(|()| mailbox),
        Err(_) => Err(io::ErrorKind::Other.into()),
    }
}

fn run(
    setup: RingSetup,
    threads: usize,
    locks: Arc<HeldLocks>,
    mailbox: Arc<Mailbox>,
    made: &SyncSender<io::Result<()>>,
) {
    let ring = match Ring::new(setup, Arc::clone(&mailbox.alarm), threads) {
        Ok(ring) => ring,
        Err(error) => {
            let _ = made.send(Err(error));
            return;
        }
    };
    let _ = made.send(Ok(()));
    let mut thread = RingThread {
        ring,
        mailbox,
        locks,
        locks_seen: 0,
        waiting: VecDeque::new(),
    };
    thread.run();
}

struct RingThread {
    ring: Ring,
    mailbox: Arc<Mailbox>,
    locks: Arc<HeldLocks>,
    locks_seen: u64,
    /// Those that the ring has no place for.
    waiting: VecDeque<(IoOp, Arc<Done>)>,
}

impl RingThread {
    fn run(&mut self) {
        let mut ended = Vec::new();
        loop {
            let is_open = self.feed();
            if !is_open && self.ring.in_flight() == 0 {
                return;
            }
            let is_asleep = self.mailbox.fall_asleep(self.ring.in_flight() == 0);
            self.ring.enter(is_asleep);
            if is_asleep {
                self.mailbox.wake_up();
            }
            self.ring.reap(&mut ended);
            self.finish(&mut ended);
        }
    }

    /// Starts what has been sent. `false`: nothing more will be.
    fn feed(&mut self) -> bool {
        let is_open = {
            let mut inbox = self.mailbox.inbox.lock();
            self.waiting.append(&mut inbox.ops);
            !inbox.closed
        };
        if let Some(files) = self.locks.changed_since(&mut self.locks_seen) {
            self.ring.keep_open(&files);
        }
        while self.ring.in_flight() < MOST
            && let Some((op, done)) = self.waiting.pop_front()
        {
            self.begin(op, done);
        }
        is_open
    }

    fn begin(&mut self, op: IoOp, done: Arc<Done>) {
        let (Some(native), Some(transfer)) = (op.file.native(), transfer(&op)) else {
            self.conclude(&done, op, |op| op.run());
            return;
        };
        let ticket = native.watch.map_or(Ok(0), |watch| watch.begin(transfer));
        let is_cached = !native.direct && is_read(&op) && is_cached(native.fd, transfer);
        let is_copied = !native.direct && is_read(&op) && op.len() >= LARGE;
        match ticket {
            Ok(ticket) => {
                let blocked = is_read(&op) && !is_cached;
                let job = Job {
                    op,
                    done,
                    ticket,
                    blocked,
                };
                self.ring.start(job, is_copied);
            }
            Err(error) => self.conclude(&done, op, |op| op.complete(Err(error), false)),
        }
    }

    /// Ends operations, and lets others begin before each follow-up.
    fn finish(&mut self, ended: &mut Vec<(Job, IoResult<usize>)>) {
        for (job, _) in &*ended {
            if let Some(native) = job.op.file.native()
                && let (Some(watch), Some(transfer)) = (native.watch, transfer(&job.op))
            {
                watch.end(transfer, job.ticket);
            }
        }
        for (job, result) in ended.drain(..) {
            self.feed();
            self.ring.submit();
            let blocked = job.blocked;
            self.conclude(&job.done, job.op, |op| op.complete(result, blocked));
        }
    }

    fn conclude(&self, done: &Done, op: IoOp, how: impl FnOnce(IoOp) -> Option<IoCompletion>) {
        done.run(|| how(op));
        self.mailbox.load.fetch_sub(1, Ordering::Relaxed);
    }
}

fn is_read(op: &IoOp) -> bool {
    matches!(op.work, IoWork::Read { .. })
}

/// The transfer that an operation is. `None`: it is none.
pub(super) fn transfer(op: &IoOp) -> Option<Watched> {
    match op.work {
        IoWork::Read { offset } | IoWork::Write { offset } => Some(Watched {
            kind: kind(op),
            offset,
            len: op.len() as u64,
        }),
        IoWork::SyncData | IoWork::SyncAll | IoWork::StartWriteback { .. } => None,
    }
}

/// Whether the page cache holds the first and the last byte, and so most likely what is between.
fn is_cached(fd: BorrowedFd<'_>, transfer: Watched) -> bool {
    let last = transfer.offset + transfer.len.saturating_sub(1);
    [transfer.offset, last].into_iter().all(|at| {
        let mut byte = [0];
        let bufs = &mut [IoSliceMut::new(&mut byte)];
        rustix::io::preadv2(fd, bufs, at, ReadWriteFlags::NOWAIT) == Ok(1)
    })
}
