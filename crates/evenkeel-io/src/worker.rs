//! The back end of `io_method = worker`: threads shared by all queues of a disk.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;

use parking_lot::{Condvar, Mutex};

use crate::queue::{IoCompletion, IoOp, IoQueue};

/// Worker threads; they end when the pool and all its queues are gone.
pub(crate) struct WorkerPool {
    jobs: Arc<Jobs>,
}

struct Jobs {
    state: Mutex<JobState>,
    available: Condvar,
}

struct JobState {
    waiting: VecDeque<(IoOp, Arc<Done>)>,
    closed: bool,
}

#[derive(Default)]
struct Done {
    completions: Mutex<Vec<IoCompletion>>,
    arrived: Condvar,
}

impl WorkerPool {
    /// Starts the threads. With none startable, queues run their operations inline.
    pub(crate) fn start(threads: usize) -> Arc<Self> {
        let jobs = Arc::new(Jobs {
            state: Mutex::new(JobState {
                waiting: VecDeque::new(),
                closed: false,
            }),
            available: Condvar::new(),
        });
        let mut started = 0;
        for number in 0..threads.max(1) {
            let jobs = Arc::clone(&jobs);
            let spawned = thread::Builder::new()
                .name(format!("io worker {number}"))
                .spawn(move || {
                    while let Some((op, done)) = jobs.next() {
                        let completion = op.run();
                        done.completions.lock().push(completion);
                        done.arrived.notify_one();
                    }
                });
            match spawned {
                Ok(_) => started += 1,
                Err(error) => tracing::warn!(%error, "could not start an I/O worker"),
            }
        }
        if started == 0 {
            jobs.state.lock().closed = true;
        }
        Arc::new(Self { jobs })
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        self.jobs.state.lock().closed = true;
        self.jobs.available.notify_all();
    }
}

impl Jobs {
    /// Blocks for the next job; `None` when closed and drained.
    fn next(&self) -> Option<(IoOp, Arc<Done>)> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.waiting.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            self.available.wait(&mut state);
        }
    }
}

/// One I/O thread's view of the pool.
pub(crate) struct WorkerQueue {
    pool: Arc<WorkerPool>,
    done: Arc<Done>,
    /// Accepted beyond the depth; started as others complete.
    backlog: VecDeque<IoOp>,
    /// Handed to the pool and not yet handed back.
    started: usize,
    depth: usize,
}

impl WorkerQueue {
    pub(crate) fn new(pool: Arc<WorkerPool>, depth: usize) -> Self {
        Self {
            pool,
            done: Arc::default(),
            backlog: VecDeque::new(),
            started: 0,
            depth: depth.max(1),
        }
    }

    /// Starts what the depth allows.
    fn start_more(&mut self) {
        self.start(self.backlog.len().min(self.depth - self.started));
    }

    fn start(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        self.started += count;
        let jobs = &self.pool.jobs;
        let mut state = jobs.state.lock();
        if state.closed {
            drop(state);
            let finished: Vec<_> = self.backlog.drain(..count).map(IoOp::run).collect();
            self.done.completions.lock().extend(finished);
            return;
        }
        let started = self
            .backlog
            .drain(..count)
            .map(|op| (op, Arc::clone(&self.done)));
        state.waiting.extend(started);
        drop(state);
        for _ in 0..count {
            jobs.available.notify_one();
        }
    }

    fn take(&mut self, out: &mut Vec<IoCompletion>) -> usize {
        let mut completions = self.done.completions.lock();
        let count = completions.len();
        out.append(&mut completions);
        drop(completions);
        self.started -= count;
        self.start_more();
        count
    }
}

impl IoQueue for WorkerQueue {
    fn submit(&mut self, ops: Vec<IoOp>) {
        self.backlog.extend(ops);
        self.start_more();
    }

    fn poll(&mut self, out: &mut Vec<IoCompletion>) {
        self.take(out);
    }

    fn wait(&mut self, min: usize, out: &mut Vec<IoCompletion>) {
        let mut got = self.take(out);
        while got < min && self.started > 0 {
            let mut completions = self.done.completions.lock();
            while completions.is_empty() {
                self.done.arrived.wait(&mut completions);
            }
            drop(completions);
            got += self.take(out);
        }
    }

    fn in_flight(&self) -> usize {
        self.started + self.backlog.len()
    }
}

impl Drop for WorkerQueue {
    fn drop(&mut self) {
        self.start(self.backlog.len());
    }
}
