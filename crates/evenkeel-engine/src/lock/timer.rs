//! Ends waits whose time is up.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::ticket::TicketCell;

/// How a wait ends whose time is up.
pub(super) type OnTimeout = Box<dyn FnOnce(&TicketCell) + Send>;

/// Deadlines of waits, served by one thread that starts with the first of them.
#[derive(Default)]
pub(super) struct Timers {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    deadlines: BTreeMap<(Instant, Reverse<u64>), (Weak<TicketCell>, OnTimeout)>,
    count: u64,
    running: bool,
    stopped: bool,
}

impl Timers {
    /// Calls `on_timeout` at `deadline` if somebody still holds the ticket then.
    pub(super) fn add(&self, deadline: Instant, cell: &Arc<TicketCell>, on_timeout: OnTimeout) {
        let mut state = self.shared.state.lock();
        state.count += 1;
        let key = (deadline, Reverse(state.count));
        let first = state
            .deadlines
            .keys()
            .next()
            .is_none_or(|earliest| key < *earliest);
        state
            .deadlines
            .insert(key, (Arc::downgrade(cell), on_timeout));
        if !state.running {
            state.running = true;
            let shared = Arc::clone(&self.shared);
            let builder = thread::Builder::new().name("lock timer".into());
            if builder.spawn(move || shared.run()).is_err() {
                state.running = false;
            }
        }
        if first {
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
            state
                .deadlines
                .retain(|_, (cell, _)| cell.strong_count() > 0);
            let Some(&(deadline, _)) = state.deadlines.keys().next() else {
                self.changed.wait(&mut state);
                continue;
            };
            if Instant::now() < deadline {
                self.changed.wait_until(&mut state, deadline);
                continue;
            }
            if let Some((_, (cell, on_timeout))) = state.deadlines.pop_first()
                && let Some(cell) = cell.upgrade()
            {
                drop(state);
                on_timeout(&cell);
                state = self.state.lock();
            }
        }
    }
}
