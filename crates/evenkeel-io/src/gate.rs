//! Changes of files that are under way, which a directory's lock waits for.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::error::{IoError, IoErrorKind, IoResult, OpKind};

const CLOSED: u64 = 1 << 63;
/// A wait that takes longer is reported.
const LONG: Duration = Duration::from_secs(5);

/// Counts the changes under way until it is closed, and lets none begin from then on.
#[derive(Default)]
pub(crate) struct Gate {
    /// Changes under way, and [`CLOSED`].
    state: AtomicU64,
    waiting: Mutex<()>,
    all_out: Condvar,
}

impl Gate {
    /// A change begins. It is followed by [`Gate::leave`] unless this fails.
    pub(crate) fn enter(&self, kind: OpKind, path: &Path) -> IoResult<()> {
        if self.state.fetch_add(1, Ordering::SeqCst) & CLOSED == 0 {
            return Ok(());
        }
        self.leave();
        Err(IoError::new(kind, path, None, IoErrorKind::Unlocked))
    }

    /// A change has ended.
    pub(crate) fn leave(&self) {
        if self.state.fetch_sub(1, Ordering::SeqCst) == CLOSED | 1 {
            drop(self.waiting.lock());
            self.all_out.notify_all();
        }
    }

    /// Carries out a change, unless the gate is closed.
    pub(crate) fn pass<R>(
        &self,
        kind: OpKind,
        path: &Path,
        change: impl FnOnce() -> IoResult<R>,
    ) -> IoResult<R> {
        struct Leaving<'a>(&'a Gate);
        impl Drop for Leaving<'_> {
            fn drop(&mut self) {
                self.0.leave();
            }
        }
        self.enter(kind, path)?;
        let _leaving = Leaving(self);
        change()
    }

    /// Lets no change begin any more and waits until those under way have ended.
    pub(crate) fn close(&self) {
        self.state.fetch_or(CLOSED, Ordering::SeqCst);
        let begun = Instant::now();
        let mut is_reported = false;
        let mut waiting = self.waiting.lock();
        while self.state.load(Ordering::SeqCst) != CLOSED {
            self.all_out.wait_for(&mut waiting, LONG);
            if begun.elapsed() >= LONG && !is_reported {
                is_reported = true;
                tracing::warn!(
                    "the lock is kept until the writes under way have ended, for {:.0} s by now",
                    begun.elapsed().as_secs_f64()
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;

    #[test]
    fn a_closed_gate_waits_for_changes_under_way_and_lets_none_begin() {
        let gate = Gate::default();
        let path = Path::new("file");
        let (began, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                gate.pass(OpKind::Write, path, || {
                    began.store(true, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(50));
                    ended.store(true, Ordering::SeqCst);
                    Ok(())
                })
            });
            while !began.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            gate.close();
            assert!(ended.load(Ordering::SeqCst));
        });
        let refused = gate.pass(OpKind::Write, path, || -> IoResult<()> { panic!("begun") });
        assert_eq!(refused.unwrap_err().kind(), IoErrorKind::Unlocked);
        gate.close();
    }
}
