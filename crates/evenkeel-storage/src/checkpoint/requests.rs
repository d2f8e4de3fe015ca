//! Checkpoints that are asked for, and those who wait for them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::stats::CheckpointStats;
use crate::error::StorageError;
use crate::poison::Poison;

/// How long a checkpoint waits for what keeps its target from becoming the redo point.
const SETTLE: Duration = Duration::from_secs(5);

/// How a checkpoint is taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CheckpointMode {
    /// Spread over `checkpoint_completion_target` of the time to the next one.
    Spread,
    /// As fast as the disk can.
    Fast,
    /// The last one: nothing changes pages any more.
    Shutdown,
}

/// The requests for checkpoints, and how far they are served.
#[derive(Default)]
pub(super) struct Requests {
    /// Number of the last checkpoint asked for, and the most pressing mode of those pending.
    pub(super) wanted: u64,
    pub(super) mode: Option<CheckpointMode>,
    /// Number of the last request that was served, and how.
    pub(super) served: u64,
    pub(super) result: Option<StorageError>,
    pub(super) stop: bool,
    /// The last one was taken; nothing is served any more.
    pub(super) closed: bool,
}

/// State that the checkpointer's thread shares with those who ask for checkpoints.
pub(super) struct Shared {
    pub(super) poison: Arc<Poison>,
    pub(super) requests: Mutex<Requests>,
    pub(super) changed: Condvar,
    pub(super) stats: Mutex<CheckpointStats>,
}

impl Shared {
    /// Whether a wait for what keeps the target from becoming the redo point is to end.
    pub(super) fn gives_up(&self, begun: Instant) -> bool {
        begun.elapsed() > SETTLE || self.requests.lock().stop
    }

    /// Whether somebody waits for this checkpoint, or another.
    pub(super) fn is_hurried(&self, number: u64) -> bool {
        let requests = self.requests.lock();
        requests.stop || requests.wanted > number
    }

    /// Sleeps unless [`Shared::is_hurried`].
    pub(super) fn sleep(&self, number: u64, time: Duration) {
        let mut requests = self.requests.lock();
        if !(requests.stop || requests.wanted > number || time.is_zero()) {
            self.changed.wait_for(&mut requests, time);
        }
    }
}
