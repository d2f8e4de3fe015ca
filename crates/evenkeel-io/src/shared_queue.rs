//! Queues whose operations the threads of a disk carry out.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::queue::{IoCompletion, IoOp, IoQueue};

/// Carries operations out, all at once as far as it can, for all queues of a disk.
pub(crate) trait Carrier: Send + Sync {
    /// Takes operations. Each is told to `done` once, when it has been carried out.
    fn start(&self, ops: Vec<IoOp>, done: &Arc<Done>);
}

/// Operations of one queue that have been carried out.
#[derive(Default)]
pub(crate) struct Done {
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
    /// Does what is left of one operation. The thread and the operation's queue survive a panic in
    /// it: a queue that lost an operation would wait for ever.
    pub(crate) fn run(&self, rest: impl FnOnce() -> Option<IoCompletion>) {
        let result = catch_unwind(AssertUnwindSafe(rest));
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

/// One I/O thread's view of a carrier.
pub(crate) struct SharedQueue {
    carrier: Arc<dyn Carrier>,
    done: Arc<Done>,
    /// Accepted beyond the depth; started as others complete.
    backlog: VecDeque<IoOp>,
    /// Handed to the carrier and not yet handed back.
    started: usize,
    depth: usize,
}

impl SharedQueue {
    pub(crate) fn new(carrier: Arc<dyn Carrier>, depth: usize) -> Self {
        Self {
            carrier,
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
            let ops = self.backlog.drain(..count).collect();
            self.carrier.start(ops, &self.done);
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

impl IoQueue for SharedQueue {
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

impl Drop for SharedQueue {
    fn drop(&mut self) {
        self.start(self.backlog.len());
    }
}

#[cfg(test)]
pub(crate) mod tests;
