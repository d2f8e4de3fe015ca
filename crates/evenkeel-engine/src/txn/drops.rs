//! Files that nobody can see any more, until the background thread has removed them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_storage::{FileId, Lsn, RedoHold};
use parking_lot::{Condvar, Mutex};

/// Those who make or drop files wait while more than this many are still to be removed.
const MOST_PENDING: usize = 256;
/// The longest such wait: files that cannot be removed must not stop everybody.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// A file to be removed, and what keeps the log that says so.
pub(crate) struct PendingDrop {
    pub(crate) file: FileId,
    /// The commit that dropped it; zero for one that nobody but its maker has seen.
    pub(crate) removal: Lsn,
    _hold: Option<Arc<RedoHold>>,
}

#[derive(Default)]
pub(crate) struct Drops {
    state: Mutex<State>,
    progress: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Vec<PendingDrop>,
    /// Taken, and not done with.
    under_way: usize,
}

impl State {
    fn pending(&self) -> usize {
        self.waiting.len() + self.under_way
    }
}

impl Drops {
    pub(crate) fn add(&self, files: &[FileId], hold: Option<RedoHold>, removal: Lsn) {
        let hold = hold.map(Arc::new);
        let drops = files.iter().map(|file| PendingDrop {
            file: *file,
            removal,
            _hold: hold.clone(),
        });
        self.state.lock().waiting.extend(drops);
    }

    /// Everything that waits. The taker, as a rule the background thread, calls [`Drops::done`]
    /// next.
    pub(crate) fn take(&self) -> Vec<PendingDrop> {
        let mut state = self.state.lock();
        let taken = std::mem::take(&mut state.waiting);
        state.under_way += taken.len();
        taken
    }

    /// Of `taken` files all are removed but those in `failed`, which wait for the next round.
    pub(crate) fn done(&self, taken: usize, failed: Vec<PendingDrop>) {
        let mut state = self.state.lock();
        state.under_way -= taken;
        state.waiting.extend(failed);
        self.progress.notify_all();
    }

    /// Waits while too many files are still to be removed: they are on disk, and open, and those
    /// who drop files must not be ahead of the thread that removes them.
    pub(crate) fn await_room(&self) {
        let mut state = self.state.lock();
        if state.pending() <= MOST_PENDING {
            return;
        }
        let end = Instant::now() + LONGEST_WAIT;
        evenkeel_io::blocking(|| {
            while state.pending() > MOST_PENDING {
                if self.progress.wait_until(&mut state, end).timed_out() {
                    break;
                }
            }
        });
    }
}
