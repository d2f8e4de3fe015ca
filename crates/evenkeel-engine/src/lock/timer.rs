//! Ends waits whose time is up, and runs the search for deadlocks when it is due.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Instant;
use std::{io, thread};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::error::EngineError;
use crate::ticket::TicketCell;

/// Entries of waits that have ended are removed when there are this many entries.
const SWEEP: usize = 1024;
/// The search takes at most one part in this many of the timer's time.
const REST: u32 = 20;

/// Runs the search for deadlocks; returns when the next one is due.
pub(super) type RunSearch = Box<dyn Fn(Instant) -> Option<Instant> + Send + Sync>;

/// Deadlines of waits, served by one thread.
pub(super) struct Timers {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    search: RunSearch,
}

#[derive(Default)]
struct State {
    deadlines: BTreeMap<(Instant, u64), Weak<TicketCell>>,
    count: u64,
    sweep_at: usize,
    search_at: Option<Instant>,
    running: bool,
    stopped: bool,
}

impl State {
    fn next(&self) -> Option<Instant> {
        let deadline = self.deadlines.keys().next().map(|(at, _)| *at);
        deadline.into_iter().chain(self.search_at).min()
    }
}

impl Timers {
    pub(super) fn new(search: RunSearch) -> Timers {
        Timers {
            shared: Arc::new(Shared {
                state: Mutex::default(),
                changed: Condvar::new(),
                search,
            }),
        }
    }

    /// Starts the thread if it does not run yet. A wait that finds none starts it.
    pub(super) fn start(&self) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        if !state.running {
            let shared = Arc::clone(&self.shared);
            let builder = thread::Builder::new().name("lock timer".into());
            builder.spawn(move || shared.run())?;
            state.running = true;
        }
        Ok(())
    }

    /// Ends the wait with 55P03 at `deadline` if it has not ended by then.
    pub(super) fn expire_at(&self, deadline: Instant, cell: &Arc<TicketCell>) {
        self.change(|state| {
            if state.deadlines.len() >= state.sweep_at.max(SWEEP) {
                state.deadlines.retain(|_, cell| cell.strong_count() > 0);
                state.sweep_at = 2 * state.deadlines.len();
            }
            state.count += 1;
            let key = (deadline, state.count);
            state.deadlines.insert(key, Arc::downgrade(cell));
        });
    }

    /// Runs the search at `at`, or soon after.
    pub(super) fn search_at(&self, at: Instant) {
        self.change(|state| state.search_at = Some(state.search_at.map_or(at, |old| old.min(at))));
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.shared.state.lock();
        let before = state.next();
        change(&mut state);
        let is_earlier = state.next() != before;
        let running = state.running;
        drop(state);
        if !running && let Err(error) = self.start() {
            tracing::error!(%error, "cannot start the thread that ends lock waits");
        }
        if is_earlier {
            self.shared.changed.notify_one();
        }
    }
}

impl Drop for Timers {
    fn drop(&mut self) {
        self.shared.state.lock().stopped = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn run(&self) {
        let mut state = self.state.lock();
        while !state.stopped {
            let Some(next) = state.next() else {
                self.changed.wait(&mut state);
                continue;
            };
            let now = Instant::now();
            if now < next {
                self.changed.wait_until(&mut state, next);
                continue;
            }
            if state.search_at.is_some_and(|at| at <= now) {
                self.run_search(&mut state, now);
            } else if let Some((_, cell)) = state.deadlines.pop_first()
                && let Some(cell) = cell.upgrade()
            {
                MutexGuard::unlocked(&mut state, || {
                    cell.complete_now(Err(EngineError::LockTimeout));
                });
            }
        }
    }

    fn run_search(&self, state: &mut MutexGuard<'_, State>, now: Instant) {
        state.search_at = None;
        let (next, end) = MutexGuard::unlocked(state, || ((self.search)(now), Instant::now()));
        let rested = end + end.duration_since(now) * REST;
        let next = next.map(|next| next.max(rested));
        state.search_at = state.search_at.into_iter().chain(next).min();
    }
}
