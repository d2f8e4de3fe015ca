//! The operations on files that are under way.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_io::{Observed, OpKind};
use parking_lot::Mutex;

use super::backend::{SLOTS, slot};
use super::object::IoObject;

/// Operations under way, by the slot of the thread that carries them out.
pub(super) struct Flights {
    slow: Duration,
    slots: Box<[Slot]>,
}

#[repr(align(64))]
#[derive(Default)]
struct Slot(Mutex<Vec<Place>>);

/// A place for one operation at a time.
#[derive(Default)]
struct Place {
    /// Operations that have had the place.
    generation: u64,
    flight: Option<Flight>,
}

/// One operation under way.
struct Flight {
    started: u64,
    kind: OpKind,
    path: Arc<Path>,
    class: u8,
    offset: u64,
    len: u64,
    account: Option<u64>,
    direct: bool,
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

/// A read or write under way, for `pg_aios`.
#[derive(Clone, Debug)]
pub struct IoUnderWay {
    /// Its place among those under way.
    pub id: u64,
    /// Operations that have had this place.
    pub generation: u64,
    /// Whether it reads; it writes otherwise.
    pub reads: bool,
    /// The file.
    pub path: Arc<Path>,
    /// Which kind of file that is.
    pub object: IoObject,
    /// From which byte on.
    pub offset: u64,
    /// How many bytes.
    pub len: u64,
    /// It was queued; otherwise the thread that needs it carries it out.
    pub queued: bool,
    /// It bypasses the page cache.
    pub direct: bool,
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
        let mut places = self.slots[slot()].0.lock();
        let free = places.iter().position(|place| place.flight.is_none());
        let at = free.unwrap_or_else(|| {
            places.push(Place::default());
            places.len() - 1
        });
        let place = &mut places[at];
        place.generation += 1;
        place.flight = Some(Flight {
            started,
            kind: op.kind,
            path: Arc::clone(op.path),
            class: op.class,
            offset: op.offset,
            len: op.len,
            account: op.account,
            direct: op.direct,
            reported: false,
        });
    }

    /// Ends an operation. For one that was slow, says so and whether it had been reported.
    pub(super) fn end(&self, op: &Observed<'_>, started: u64, took: Duration) -> Option<bool> {
        let flight = {
            let mut places = self.slots[slot()].0.lock();
            let is = |flight: &Flight| flight.is(op, started);
            let mut places = places.iter_mut();
            let place = places.find(|place| place.flight.as_ref().is_some_and(is));
            place.and_then(|place| place.flight.take())
        };
        if self.slow.is_zero() {
            return None;
        }
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

    /// The reads and writes under way.
    pub(super) fn transfers(&self) -> Vec<IoUnderWay> {
        let mut transfers = Vec::new();
        for (number, slot) in self.slots.iter().enumerate() {
            for (at, place) in slot.0.lock().iter().enumerate() {
                let Some(flight) = &place.flight else {
                    continue;
                };
                if !matches!(flight.kind, OpKind::Read | OpKind::Write) {
                    continue;
                }
                transfers.push(IoUnderWay {
                    id: (at * SLOTS + number) as u64,
                    generation: place.generation,
                    reads: flight.kind == OpKind::Read,
                    path: Arc::clone(&flight.path),
                    object: IoObject::of_class(flight.class),
                    offset: flight.offset,
                    len: flight.len,
                    queued: flight.account.is_some(),
                    direct: flight.direct,
                });
            }
        }
        transfers
    }

    /// Calls `report` for what has been under way for too long, once, with its description and
    /// its age. `age` is that of an operation by its start.
    pub(super) fn inspect(&self, age: impl Fn(u64) -> Duration, report: impl Fn(&str, Duration)) {
        for slot in &self.slots {
            let mut stuck = Vec::new();
            let mut places = slot.0.lock();
            let flights = places.iter_mut().filter_map(|place| place.flight.as_mut());
            for flight in flights.filter(|flight| !flight.reported) {
                let age = age(flight.started);
                if age >= self.slow {
                    flight.reported = true;
                    let what = describe(flight.kind, &flight.path, flight.offset, flight.len);
                    stuck.push((what, age));
                }
            }
            drop(places);
            for (what, age) in stuck {
                report(&what, age);
            }
        }
    }
}
