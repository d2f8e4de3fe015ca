//! The operations on files that are under way.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_io::{Observed, OpKind};
use parking_lot::Mutex;

use super::backend::{SLOTS, slot};

/// Operations under way, by the slot of the thread that carries them out.
pub(super) struct Flights {
    slow: Duration,
    slots: Box<[Slot]>,
}

#[repr(align(64))]
#[derive(Default)]
struct Slot(Mutex<Vec<Flight>>);

/// One operation under way.
struct Flight {
    started: u64,
    kind: OpKind,
    path: Arc<Path>,
    offset: u64,
    len: u64,
    reported: bool,
}

impl Flight {
    fn is(&self, op: &Observed<'_>, started: u64) -> bool {
        self.started == started
            && self.offset == op.offset
            && self.kind == op.kind
            && Arc::ptr_eq(&self.path, op.path)
    }
}

/// Describes an operation and its place, for a message.
fn describe(kind: OpKind, path: &Path, offset: u64, len: u64) -> String {
    let path = path.display();
    if len == 0 {
        format!("{kind} of {path}")
    } else {
        format!("{kind} of {path}, {len} bytes at offset {offset},")
    }
}

impl Flights {
    pub(super) fn new(slow: Duration) -> Flights {
        Flights {
            slow,
            slots: (0..SLOTS).map(|_| Slot::default()).collect(),
        }
    }

    pub(super) fn begin(&self, op: &Observed<'_>, started: u64) {
        if self.slow.is_zero() {
            return;
        }
        self.slots[slot()].0.lock().push(Flight {
            started,
            kind: op.kind,
            path: Arc::clone(op.path),
            offset: op.offset,
            len: op.len,
            reported: false,
        });
    }

    /// Ends an operation. For one that was slow, says so and whether it had been reported.
    pub(super) fn end(&self, op: &Observed<'_>, started: u64, took: Duration) -> Option<bool> {
        if self.slow.is_zero() {
            return None;
        }
        let flight = {
            let mut flights = self.slots[slot()].0.lock();
            let at = flights.iter().rposition(|flight| flight.is(op, started));
            at.map(|at| flights.swap_remove(at))
        };
        if took < self.slow {
            return None;
        }
        let what = describe(op.kind, op.path, op.offset, op.len);
        tracing::warn!("{what} took {:.1} s", took.as_secs_f64());
        Some(flight.is_some_and(|flight| flight.reported))
    }

    /// An operation that takes longer is reported; zero for never.
    pub(super) fn slow(&self) -> Duration {
        self.slow
    }

    /// Calls `report` for what has been under way for too long, once, with its description and
    /// its age. `age` is that of an operation by its start.
    pub(super) fn inspect(&self, age: impl Fn(u64) -> Duration, report: impl Fn(&str, Duration)) {
        for slot in &self.slots {
            let mut stuck = Vec::new();
            for flight in slot.0.lock().iter_mut().filter(|flight| !flight.reported) {
                let age = age(flight.started);
                if age >= self.slow {
                    flight.reported = true;
                    let what = describe(flight.kind, &flight.path, flight.offset, flight.len);
                    stuck.push((what, age));
                }
            }
            for (what, age) in stuck {
                report(&what, age);
            }
        }
    }
}
