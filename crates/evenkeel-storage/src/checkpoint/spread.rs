//! Writing a spread checkpoint: the pacer's decisions carried out.

use std::time::{Duration, Instant};

use super::homes::Homes;
use super::limits::Limits;
use super::pace::{Bounds, Flushes, Pacer, Place, Urgency, WriteThrottle};
use super::requests::Shared;
use crate::core::Core;
use crate::ids::Lsn;
use crate::writeout::{Piece, WritePace};

/// Log that a checkpoint writes, at most, when nobody else does.
pub(super) const OWN_LOG: u64 = 64;
/// Longest sleep before looking again.
const SLICE: Duration = Duration::from_millis(20);

/// However near a bound is, log may grow by this share of it per second: sessions are slowed down
/// and not stopped, and four fifths of `max_recovery_time` leave room for it.
const LEAST_RATE: f64 = 1.0 / 64.0;

/// The state that the checkpointer keeps from cycle to cycle.
pub(super) struct Memory {
    pub(super) pacer: Pacer,
    pub(super) brake: WriteThrottle,
    pub(super) limits: Limits,
    pub(super) homes: Homes,
    pub(super) started: Instant,
    /// Seconds that the syncs of the last cycle took.
    pub(super) sync: f64,
    /// Log that a cycle is expected to make, in bytes.
    pub(super) estimate: u64,
    /// Log that the last cycle wrote itself, at most, in bytes.
    pub(super) own_log: u64,
    /// The least LSN owed to a page when the last checkpoint began.
    pub(super) owed: Lsn,
}

impl Memory {
    pub(super) fn new() -> Memory {
        Memory {
            pacer: Pacer::default(),
            brake: WriteThrottle::default(),
            limits: Limits::default(),
            homes: Homes::new(),
            started: Instant::now(),
            sync: 0.0,
            estimate: 0,
            own_log: OWN_LOG,
            owed: Lsn::ZERO,
        }
    }

    /// Sets the price of log for sessions. `needed`: seconds of full speed until the redo point
    /// moves, if a cycle is under way.
    pub(super) fn brake(&mut self, core: &Core, needed: Option<f64>) {
        let inserted = core.log.insert_lsn();
        let redo = core.control.redo();
        let hard = self.limits.hard(core);
        let left = hard.saturating_sub(core.log.gaps().log_between(redo, inserted));
        // Without anything to do the bound is far, or a cycle about to begin.
        let allowed = needed
            .filter(|needed| *needed > 0.0)
            .map(|needed| (left as f64 / needed).max(hard as f64 * LEAST_RATE));
        let now = self.started.elapsed();
        let price = self.brake.tick(now, inserted.0, allowed);
        core.log.backpressure().set_price(price);
    }
}

fn flushes(core: &Core) -> Flushes {
    let latency = core.log.latency();
    Flushes {
        quiet: latency.quiet(),
        busy: latency.busy(),
        met: latency.met(),
    }
}

/// The pace of one spread cycle.
pub(super) struct Spread<'a> {
    core: &'a Core,
    shared: &'a Shared,
    memory: &'a mut Memory,
    /// Number of the request that this cycle serves: a later one hurries it.
    number: u64,
    begun: Instant,
    target: Lsn,
    bounds: Bounds,
    done: u64,
    due: u64,
}

impl<'a> Spread<'a> {
    pub(super) fn new(
        core: &'a Core,
        shared: &'a Shared,
        memory: &'a mut Memory,
        number: u64,
        target: Lsn,
    ) -> Spread<'a> {
        let share = core.tuning().checkpoint_completion_target;
        let redo = core.control.redo();
        let hard = memory.limits.hard(core);
        let soft = memory.limits.volume(core) as f64 * share;
        let bounds = Bounds {
            time: core.tuning().checkpoint_timeout.mul_f64(share),
            soft_log: soft as u64,
            // A tenth is for the syncs.
            hard_log: hard.saturating_sub(core.log.gaps().log_between(redo, target)) / 10 * 9,
        };
        Spread {
            core,
            shared,
            memory,
            number,
            begun: Instant::now(),
            target,
            bounds,
            done: 0,
            due: 0,
        }
    }

    /// Has the cycle not wait for time to pass.
    pub(super) fn at_once(&mut self) {
        self.bounds.time = Duration::ZERO;
    }

    fn place(&self) -> Place {
        Place {
            elapsed: self.begun.elapsed(),
            log: self.core.log.log_since(self.target),
            done: self.done,
            due: self.due,
        }
    }

    /// How pressing the next write is, by the bounds and by those who wait.
    fn urgency(&self) -> Urgency {
        let hurried = self.core.poison.is_set()
            || self.core.writer.is_awaited()
            || self.shared.is_hurried(self.number);
        if hurried {
            Urgency::Pressed
        } else {
            self.bounds.urgency(&self.place())
        }
    }

    fn brake(&mut self) {
        let writing = self.memory.pacer.time_for(self.due - self.done);
        let needed = writing + self.memory.sync;
        self.memory.brake(self.core, Some(needed));
    }
}

impl WritePace for Spread<'_> {
    fn begin(&mut self, due: u64) {
        self.due = due;
    }

    fn gap(&mut self) -> usize {
        let behind = self.bounds.is_behind(&self.place());
        self.memory.pacer.gap(behind)
    }

    fn piece(&mut self) -> Option<usize> {
        match self.urgency() {
            Urgency::Pressed => None,
            _ => Some(self.memory.pacer.writes()),
        }
    }

    fn wrote(&mut self, piece: Piece) {
        (self.done, self.due) = (piece.done, piece.due);
        self.memory.pacer.wrote(&piece, flushes(self.core));
        self.brake();
        self.memory.homes.tell(self.core);
        if self.urgency() == Urgency::Behind {
            let rest = self.memory.pacer.rest(piece.took);
            self.shared.sleep(self.number, rest);
        }
        while self.done < self.due && self.urgency() == Urgency::Ahead {
            self.shared.sleep(self.number, SLICE);
            self.brake();
        }
    }
}
