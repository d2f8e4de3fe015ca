//! Reading pages ahead of use: a thread that keeps several large reads in flight, and leaves what
//! follows on a read to the thread that carried it out.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::{Builder, JoinHandle};

use evenkeel_io::{Disk, IoQueue};
use parking_lot::Mutex;

use super::fork_pages::ForkPages;
use super::load::{Flight, Reader as By};
use super::pool_core::PoolCore;
use super::strategy::BufferAccessStrategy;
use crate::stats::BackendType;

/// Requests waiting beyond this number are forgotten.
const BACKLOG: usize = 64;

/// How pages are read ahead.
#[derive(Clone, Copy, Debug)]
pub struct ReadAheadOptions {
    /// Reads in flight at once (`effective_io_concurrency`); 0 turns reading ahead off.
    pub depth: usize,
    /// Most adjacent pages in one read (`io_combine_limit`), 1 to 128.
    pub combine: usize,
}

impl Default for ReadAheadOptions {
    fn default() -> Self {
        ReadAheadOptions {
            depth: 16,
            combine: 32,
        }
    }
}

/// Pages that somebody will need soon.
pub(super) struct Request {
    pub(super) core: Arc<PoolCore>,
    pub(super) fork: Arc<ForkPages>,
    pub(super) blocks: Range<u32>,
    pub(super) ring: Option<Arc<BufferAccessStrategy>>,
    /// How far the pass is that will need them: what is behind it is not read any more.
    pub(super) position: Option<Arc<AtomicU32>>,
    /// On whose account.
    pub(super) backend: BackendType,
}

impl Request {
    /// Forgets the blocks that the pass has left behind.
    fn catch_up(&mut self) {
        if let Some(position) = &self.position {
            self.blocks.start = self.blocks.start.max(position.load(Ordering::Relaxed));
        }
    }
}

/// One thread that reads what it is asked for; started at the first request.
pub(crate) struct Prefetcher {
    worker: Mutex<State>,
    disk: Arc<dyn Disk>,
    options: ReadAheadOptions,
}

enum State {
    Idle,
    Running(SyncSender<Request>, JoinHandle<()>),
    Stopped,
}

impl Prefetcher {
    pub(crate) fn new(disk: Arc<dyn Disk>, options: ReadAheadOptions) -> Prefetcher {
        Prefetcher {
            worker: Mutex::new(State::Idle),
            disk,
            options: ReadAheadOptions {
                depth: options.depth,
                combine: options.combine.clamp(1, 128),
            },
        }
    }

    /// Hands a request to the thread, or forgets it when the thread is far behind.
    pub(super) fn ask(&self, request: Request) {
        if self.options.depth == 0 {
            return;
        }
        let mut state = self.worker.lock();
        if matches!(*state, State::Idle) {
            *state = self.start();
        }
        if let State::Running(sender, _) = &*state {
            // Full or gone: it is advice.
            let _ = sender.try_send(request);
        }
    }

    /// The most pages that are being read at once.
    pub(super) fn pages_in_flight(&self) -> usize {
        self.options.depth.saturating_mul(self.options.combine)
    }

    /// Ends the thread, after what it has been asked for.
    pub(crate) fn stop(&self) {
        let state = std::mem::replace(&mut *self.worker.lock(), State::Stopped);
        if let State::Running(sender, thread) = state {
            drop(sender);
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }

    fn start(&self) -> State {
        let (sender, receiver) = sync_channel(BACKLOG.max(self.options.depth));
        let mut reader = Reader {
            queue: self.disk.queue(self.options.depth),
            options: self.options,
        };
        let run = move || reader.run(&receiver);
        match Builder::new().name("evenkeel-prefetch".into()).spawn(run) {
            Ok(thread) => State::Running(sender, thread),
            Err(error) => {
                tracing::warn!("no prefetching: {error}");
                State::Stopped
            }
        }
    }
}

/// The thread's side. The threads that carry the reads out check and show their pages.
struct Reader {
    queue: Box<dyn IoQueue>,
    options: ReadAheadOptions,
}

impl Reader {
    fn run(&mut self, requests: &Receiver<Request>) {
        loop {
            match requests.try_recv() {
                Ok(request) => self.serve(request),
                Err(TryRecvError::Empty) if self.carry_on() => {}
                Err(TryRecvError::Empty) => match requests.recv() {
                    Ok(request) => self.serve(request),
                    Err(_) => break,
                },
                Err(TryRecvError::Disconnected) => break,
            }
        }
        self.await_reads(usize::MAX);
    }

    /// Has reads complete that need to be asked for. `false`: none is in flight, or other threads
    /// complete them. A request that comes meanwhile does not wait for those.
    fn carry_on(&mut self) -> bool {
        let before = self.queue.in_flight();
        self.queue.poll(&mut Vec::new());
        self.queue.in_flight() < before
    }

    /// Waits for at least `min` reads to have completed.
    fn await_reads(&mut self, min: usize) {
        // All have their own finish: the queue hands nothing back.
        self.queue.wait(min, &mut Vec::new());
    }

    /// Submits the reads of one request.
    fn serve(&mut self, mut request: Request) {
        let _who = request.backend.enter();
        loop {
            // Before frames are taken for a read that would have to wait.
            while self.queue.in_flight() >= self.options.depth {
                self.await_reads(1);
            }
            request.catch_up();
            let (blocks, ring) = (&mut request.blocks, request.ring.as_ref());
            let combine = self.options.combine;
            let flight = Flight::begin(
                &request.core,
                &request.fork,
                blocks,
                combine,
                ring,
                By::User,
            );
            let Some(flight) = flight else { return };
            let _context = flight.context().enter();
            let Ok(op) = flight.into_operation() else {
                return;
            };
            self.queue.submit(vec![op]);
        }
    }
}
