//! The back end of `io_method = worker`: threads shared by all queues of a disk.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::queue::IoOp;
use crate::shared_queue::{Carrier, Done};

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

impl Carrier for WorkerPool {
    fn start(&self, ops: Vec<IoOp>, done: &Arc<Done>) {
        self.jobs.add(ops, done);
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
    fn add(self: &Arc<Self>, ops: Vec<IoOp>, done: &Arc<Done>) {
        let mut unserved = ops.len();
        let mut state = self.state.lock();
        let jobs = ops.into_iter().map(|op| (op, Arc::clone(done)));
        state.waiting.extend(jobs);
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
                done.run(|| op.run());
            }
        }
    }

    fn work(&self) {
        let alarm = Arc::default();
        while let Some((op, done)) = self.next(&alarm) {
            done.run(|| op.run());
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

#[cfg(test)]
mod tests;
