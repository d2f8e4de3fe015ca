//! The back end of `io_method = io_uring`: rings, each with a thread that submits, takes what has
//! completed and does what follows on it.
//!
//! A ring does reads and direct writes. Workers do the rest: buffered writes, which the kernel
//! would carry out one at a time for each file; and syncs and write-back, for which a ring has
//! nothing quicker than a thread of the kernel's that waits in the same call, and which are too
//! few for its cheaper submission to count.

mod locks;
mod ring;
mod thread;

use std::io;
use std::sync::Arc;

pub(crate) use self::locks::HeldLocks;
pub(crate) use self::ring::RingSetup;
use self::thread::{Mailbox, transfer};
use crate::error::OpKind;
use crate::queue::IoOp;
use crate::shared_queue::{Carrier, Done};
use crate::worker::WorkerPool;

/// Most rings of a disk. Each adds a thread for what follows on reads.
const MOST_RINGS: usize = 4;

/// Rings, and workers for what they do not do. All threads end when the pool and its queues are
/// gone.
pub(crate) struct RingPool {
    rings: Vec<Arc<Mailbox>>,
    workers: Arc<WorkerPool>,
}

impl RingPool {
    /// A ring for each processor, up to [`MOST_RINGS`], with `threads` threads of the kernel among
    /// them for what has to wait.
    ///
    /// # Errors
    /// When the system gives no ring.
    pub(crate) fn new(
        workers: Arc<WorkerPool>,
        threads: usize,
        setup: RingSetup,
        locks: &Arc<HeldLocks>,
    ) -> io::Result<Arc<RingPool>> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let count = processors.min(MOST_RINGS);
        let mut pool = RingPool {
            rings: Vec::with_capacity(count),
            workers,
        };
        for _ in 0..count {
            let share = threads.div_ceil(count).max(1);
            match thread::start(setup, share, Arc::clone(locks)) {
                Ok(ring) => pool.rings.push(ring),
                // One does.
                Err(_) if !pool.rings.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(Arc::new(pool))
    }

    /// The ring with the least to do.
    fn least_loaded(&self, given: &[Vec<IoOp>]) -> usize {
        let loads = self.rings.iter().zip(given);
        let loads = loads.map(|(ring, given)| ring.load() + given.len());
        let least = loads.enumerate().min_by_key(|(_, load)| *load);
        least.map_or(0, |(at, _)| at)
    }
}

impl Carrier for RingPool {
    fn start(&self, ops: Vec<IoOp>, done: &Arc<Done>) {
        let mut given: Vec<Vec<IoOp>> = self.rings.iter().map(|_| Vec::new()).collect();
        let mut rest = Vec::new();
        for op in ops {
            if suits_a_ring(&op) {
                let ring = self.least_loaded(&given);
                given[ring].push(op);
            } else {
                rest.push(op);
            }
        }
        for (ring, ops) in self.rings.iter().zip(given) {
            if !ops.is_empty() {
                ring.send(ops, done);
            }
        }
        if !rest.is_empty() {
            self.workers.start(rest, done);
        }
    }
}

impl Drop for RingPool {
    fn drop(&mut self) {
        for ring in &self.rings {
            ring.close();
        }
    }
}

fn suits_a_ring(op: &IoOp) -> bool {
    let (Some(native), Some(transfer)) = (op.file.native(), transfer(op)) else {
        return false;
    };
    // Beyond, a ring would take an offset for "where the file stands".
    let end = transfer.offset.checked_add(transfer.len);
    let has_place = end.is_some_and(|end| i64::try_from(end).is_ok());
    let is_done_by_rings = match transfer.kind {
        OpKind::Read => true,
        _ => native.direct && !native.atomic,
    };
    transfer.len > 0 && has_place && is_done_by_rings
}

#[cfg(test)]
mod tests;
