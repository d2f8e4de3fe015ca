//! Watching operations that are under way: a device that hangs is reported while it hangs.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::io::IoStats;

/// Reports what has been under way for too long, once.
fn look(stats: &IoStats) {
    let age = |started| stats.age(started);
    stats.flights.inspect(age, |what, age| {
        stats.count_slow();
        tracing::warn!(
            "{what} has been under way for {:.1} s: the device may be stuck",
            age.as_secs_f64()
        );
    });
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
        let slow = stats.flights.slow();
        let thread = (!slow.is_zero()).then(|| {
            let (stats, ended) = (Arc::clone(stats), Arc::clone(&ended));
            let pause = (slow / 4).clamp(Duration::from_millis(5), Duration::from_secs(1));
            let run = move || {
                let (flag, changed) = &*ended;
                let mut flag = flag.lock();
                while !*flag {
                    changed.wait_for(&mut flag, pause);
                    look(&stats);
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
    use std::path::Path;

    use evenkeel_io::{IoObserver, Observed, OpKind};

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
            direct: false,
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
