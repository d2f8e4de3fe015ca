//! Reading pages ahead of use: a thread that keeps several large reads in flight.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::{Builder, JoinHandle};

use evenkeel_io::{Disk, IoCompletion, IoQueue};
use parking_lot::Mutex;

use super::fork::ForkHandle;
use super::load::Flight;
use super::ring::Ring;
use crate::ids::BlockNumber;
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
struct Request {
    fork: Arc<ForkHandle>,
    blocks: Range<u32>,
    ring: Option<Arc<Ring>>,
    /// How far the pass is that will need them: what is behind it is not read any more.
    position: Option<Arc<AtomicU32>>,
    /// On whose account.
    backend: BackendType,
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
    pub(super) fn ask(
        &self,
        fork: Arc<ForkHandle>,
        blocks: Range<u32>,
        ring: Option<Arc<Ring>>,
        position: Option<Arc<AtomicU32>>,
    ) {
        if self.options.depth == 0 {
            return;
        }
        let mut state = self.worker.lock();
        if matches!(*state, State::Idle) {
            *state = self.start();
        }
        if let State::Running(sender, _) = &*state {
            // Full or gone: it is advice.
            let _ = sender.try_send(Request {
                fork,
                blocks,
                ring,
                position,
                backend: BackendType::current(),
            });
        }
    }

    /// Reads in flight at once.
    pub(crate) fn depth(&self) -> usize {
        self.options.depth
    }

    /// Asks for one page.
    pub(crate) fn read_soon(&self, fork: &Arc<ForkHandle>, block: BlockNumber) {
        self.ask(Arc::clone(fork), block.0..block.0 + 1, None, None);
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
            flights: HashMap::new(),
            next: 0,
            done: Vec::new(),
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

/// The thread's side: reads in flight, by their tags.
struct Reader {
    queue: Box<dyn IoQueue>,
    options: ReadAheadOptions,
    flights: HashMap<u64, Flight>,
    next: u64,
    done: Vec<IoCompletion>,
}

impl Reader {
    fn run(&mut self, requests: &Receiver<Request>) {
        loop {
            let request = if self.flights.is_empty() {
                requests.recv().map_err(|_| TryRecvError::Disconnected)
            } else {
                requests.try_recv()
            };
            match request {
                Ok(request) => self.serve(request),
                Err(TryRecvError::Empty) => self.land(1),
                Err(TryRecvError::Disconnected) => break,
            }
        }
        while !self.flights.is_empty() {
            self.land(1);
        }
    }

    /// Submits the reads of one request.
    fn serve(&mut self, mut request: Request) {
        let _who = request.backend.enter();
        loop {
            request.catch_up();
            let (blocks, ring) = (&mut request.blocks, request.ring.as_ref());
            let flight = request.fork.begin_ahead(blocks, self.options.combine, ring);
            let Some(flight) = flight else { return };
            let _context = flight.context().enter();
            let tag = self.next;
            self.next += 1;
            let Ok(op) = flight.operation(tag) else {
                return;
            };
            // In the table first: an operation that is submitted has its frames kept for it.
            self.flights.insert(tag, flight);
            self.queue.submit(vec![op]);
            if self.flights.len() >= self.options.depth {
                self.land(1);
            }
        }
    }

    /// Shows the pages of at least `min` reads.
    fn land(&mut self, min: usize) {
        self.queue.wait(min, &mut self.done);
        for completion in self.done.drain(..) {
            if let Some(flight) = self.flights.remove(&completion.tag()) {
                flight.finish(completion);
            }
        }
    }
}

/// Blocks that a pass asks for at first; a pass that goes on asks for more and more.
const FIRST_WINDOW: u32 = 4;
/// The most blocks that a pass asks for at once.
pub(super) const LAST_WINDOW: u32 = 128;

/// Reading ahead for one sequential pass over a fork, in windows: the next one is asked for when
/// half of the last is still to be used, so that the pass finds its pages there.
#[derive(Debug)]
pub struct ReadAhead {
    end: u32,
    asked: u32,
    window: u32,
    position: Arc<AtomicU32>,
    ring: Option<Arc<Ring>>,
}

impl ReadAhead {
    /// For a pass that goes up to before block `end`.
    #[must_use]
    pub fn new(end: u32, ring: Option<Arc<Ring>>) -> ReadAhead {
        ReadAhead {
            end,
            asked: 0,
            window: FIRST_WINDOW,
            position: Arc::default(),
            ring,
        }
    }

    /// To be called before each block of the pass, in order; blocks may be left out.
    #[inline]
    pub fn at(&mut self, fork: &ForkHandle, block: u32) {
        self.position.store(block, Ordering::Relaxed);
        if block.saturating_add(self.window / 2) >= self.asked {
            self.ask(fork, block);
        }
    }

    #[cold]
    fn ask(&mut self, fork: &ForkHandle, block: u32) {
        let most = fork.window(self.ring.as_ref());
        let first = self.asked.max(block);
        let end = first.saturating_add(self.window.min(most)).min(self.end);
        self.window = (self.window * 2).min(most);
        if most > 1 && first < end {
            self.asked = end;
            fork.ask_ahead(first..end, self.ring.as_ref(), Some(&self.position));
        } else {
            // Nothing to ask for, now and later.
            self.asked = u32::MAX;
        }
    }
}
