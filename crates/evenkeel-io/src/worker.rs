//! The back end of `io_method = worker`: threads shared by all queues of a disk.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::queue::{IoCompletion, IoOp, IoQueue};

/// A worker that has no operation for so long ends.
const IDLE_LIMIT: Duration = Duration::from_secs(10);

/// Worker threads, started as operations need them. All end when the pool and its queues are
/// gone.
pub(crate) struct WorkerPool {
    jobs: Arc<Jobs>,
}

struct Jobs {
    state: Mutex<JobState>,
    /// Most workers at once.
    most: usize,
    idle_limit: Duration,
    /// A worker could not be started, and that has been reported.
    refused: AtomicBool,
}

/// At any time there are as many workers that are not idle as there are operations, or `most`:
/// a worker is woken or started for each operation, and becomes idle only when none waits.
#[derive(Default)]
struct JobState {
    waiting: VecDeque<(IoOp, Arc<Done>)>,
    /// One alarm of each idle worker. The last one to become idle is woken first, so that
    /// workers beyond the need stay idle and end.
    idle: Vec<Arc<Condvar>>,
    /// Workers that run or are about to.
    workers: usize,
    closed: bool,
}

impl WorkerPool {
    /// A pool that grows to `most` threads, at least one.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Self::with_idle_limit(most, IDLE_LIMIT)
    }

    fn with_idle_limit(most: usize, idle_limit: Duration) -> Arc<Self> {
        let jobs = Arc::new(Jobs {
            state: Mutex::default(),
            most: most.max(1),
            idle_limit,
            refused: AtomicBool::new(false),
        });
        Arc::new(Self { jobs })
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        let mut state = self.jobs.state.lock();
        state.closed = true;
        for alarm in state.idle.drain(..) {
            alarm.notify_one();
        }
    }
}

impl Jobs {
    /// Adds operations, with a worker for each as far as there may be so many.
    fn add(self: &Arc<Self>, ops: impl ExactSizeIterator<Item = IoOp>, done: &Arc<Done>) {
        let mut unserved = ops.len();
        let mut state = self.state.lock();
        state.waiting.extend(ops.map(|op| (op, Arc::clone(done))));
        while unserved > 0
            && let Some(alarm) = state.idle.pop()
        {
            alarm.notify_one();
            unserved -= 1;
        }
        let new = unserved.min(self.most - state.workers);
        state.workers += new;
        drop(state);
        for _ in 0..new {
            self.start_worker();
        }
    }

    /// Starts a worker that has been counted.
    fn start_worker(self: &Arc<Self>) {
        let jobs = Arc::clone(self);
        let worker = thread::Builder::new().name("io worker".into());
        let Err(error) = worker.spawn(move || jobs.work()) else {
            return;
        };
        if !self.refused.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "could not start an I/O worker");
        }
        let mut state = self.state.lock();
        state.workers -= 1;
        if state.workers == 0 {
            // No worker is left to take these.
            let left = std::mem::take(&mut state.waiting);
            drop(state);
            for (op, done) in left {
                done.run(op);
            }
        }
    }

    fn work(&self) {
        let alarm = Arc::default();
        while let Some((op, done)) = self.next(&alarm) {
            done.run(op);
        }
    }

    /// Blocks for the next job. `None`: the worker is counted out and ends, since it has been
    /// idle for long or the pool is closed and drained.
    fn next(&self, alarm: &Arc<Condvar>) -> Option<(IoOp, Arc<Done>)> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.waiting.pop_front() {
                return Some(job);
            }
            if !state.closed {
                state.idle.push(Arc::clone(alarm));
                alarm.wait_for(&mut state, self.idle_limit);
            }
            // Still idle: the wait timed out. A worker that was taken out of the list has an
            // operation to look for, even if the time was up at the same moment.
            let place = state.idle.iter().position(|idle| Arc::ptr_eq(idle, alarm));
            if let Some(place) = place {
                state.idle.remove(place);
            }
            if place.is_some() || (state.closed && state.waiting.is_empty()) {
                state.workers -= 1;
                return None;
            }
        }
    }
}

/// Operations of one queue that the workers have carried out.
#[derive(Default)]
struct Done {
    finished: Mutex<Finished>,
    arrived: Condvar,
}

#[derive(Default)]
struct Finished {
    /// Operations that the queue has not counted yet.
    count: usize,
    completions: Vec<IoCompletion>,
    /// Panic of an operation, which goes on in the queue's owner.
    panic: Option<Box<dyn Any + Send>>,
}

impl Done {
    /// Carries an operation out. The worker and its queue survive a panic in it: a queue that
    /// lost an operation would wait for ever.
    fn run(&self, op: IoOp) {
        let result = catch_unwind(AssertUnwindSafe(|| op.run()));
        let mut finished = self.finished.lock();
        finished.count += 1;
        match result {
            Ok(completion) => finished.completions.extend(completion),
            Err(panic) => finished.panic = Some(panic),
        }
        drop(finished);
        self.arrived.notify_one();
    }

    fn wait(&self) {
        let mut finished = self.finished.lock();
        while finished.count == 0 {
            self.arrived.wait(&mut finished);
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
        if count > 0 {
            self.started += count;
            self.pool.jobs.add(self.backlog.drain(..count), &self.done);
        }
    }

    fn take(&mut self, out: &mut Vec<IoCompletion>) -> usize {
        let mut finished = self.done.finished.lock();
        let count = std::mem::take(&mut finished.count);
        out.append(&mut finished.completions);
        let panic = finished.panic.take();
        drop(finished);
        self.started -= count;
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
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
            self.done.wait();
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

#[cfg(test)]
mod tests;
