//! Watching operations that are under way: a device that hangs is reported while it hangs.

use std::path::Path;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use evenkeel_io::{Observed, OpKind};
use parking_lot::{Condvar, Mutex};

use super::IoStats;
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

/// What and where, for a message.
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

    /// Reports what has been under way for too long, once.
    fn inspect(&self, stats: &IoStats) {
        for slot in &self.slots {
            let mut stuck = Vec::new();
            for flight in slot.0.lock().iter_mut().filter(|flight| !flight.reported) {
                let age = stats.age(flight.started);
                if age >= self.slow {
                    flight.reported = true;
                    let what = describe(flight.kind, &flight.path, flight.offset, flight.len);
                    stuck.push((what, age));
                }
            }
            for (what, age) in stuck {
                stats.count_slow();
                tracing::warn!(
                    "{what} has been under way for {:.1} s: the device may be stuck",
                    age.as_secs_f64()
                );
            }
        }
    }
}

/// The thread that looks at the operations under way.
pub(crate) struct Watchdog {
    ended: Arc<(Mutex<bool>, Condvar)>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Watchdog {
    /// Watches the operations of `stats`; does nothing when no time is set.
    pub(crate) fn start(stats: &Arc<IoStats>) -> Watchdog {
        let ended = Arc::new((Mutex::new(false), Condvar::new()));
        let slow = stats.flights.slow;
        let thread = (!slow.is_zero()).then(|| {
            let (stats, ended) = (Arc::clone(stats), Arc::clone(&ended));
            let pause = (slow / 4).clamp(Duration::from_millis(5), Duration::from_secs(1));
            let run = move || {
                let (flag, changed) = &*ended;
                let mut flag = flag.lock();
                while !*flag {
                    changed.wait_for(&mut flag, pause);
                    stats.flights.inspect(&stats);
                }
            };
            Builder::new().name("evenkeel-watchdog".into()).spawn(run)
        });
        let thread = match thread.transpose() {
            Ok(thread) => thread,
            Err(error) => {
                tracing::warn!("slow operations are reported only as they end: {error}");
                None
            }
        };
        Watchdog {
            ended,
            thread: Mutex::new(thread),
        }
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        *self.ended.0.lock() = true;
        self.ended.1.notify_all();
        if let Some(thread) = self.thread.lock().take()
            && let Err(panic) = thread.join()
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_io::IoObserver;

    use super::*;

    #[test]
    fn an_operation_that_hangs_is_reported_before_it_ends() {
        let stats = IoStats::new(Duration::from_millis(20));
        let watchdog = Watchdog::start(&stats);
        let path: Arc<Path> = Arc::from(Path::new("/db/base/7"));
        let op = |offset| Observed {
            path: &path,
            class: 0,
            kind: OpKind::Read,
            offset,
            len: 8192,
            account: None,
        };
        let quick = stats.begin(&op(0));
        stats.end(&op(0), quick);
        let stuck = stats.begin(&op(8192));
        while stats.slow_operations() == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
        stats.end(&op(8192), stuck);
        assert_eq!(stats.slow_operations(), 1, "counted once");
        watchdog.stop();
        // Without anybody looking it is reported when it ends.
        let late = stats.begin(&op(16384));
        std::thread::sleep(Duration::from_millis(25));
        stats.end(&op(16384), late);
        assert_eq!(stats.slow_operations(), 2);
    }
}
