//! Reading pages ahead of use.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use parking_lot::Mutex;

use super::fork::ForkHandle;

/// Requests waiting beyond this number are forgotten.
const BACKLOG: usize = 64;

/// One thread that reads what it is asked for; started at the first request.
#[derive(Default)]
pub(crate) struct Prefetcher {
    worker: Mutex<State>,
}

#[derive(Default)]
enum State {
    #[default]
    Idle,
    Running(SyncSender<(Arc<ForkHandle>, Range<u32>)>, JoinHandle<()>),
    Stopped,
}

impl Prefetcher {
    /// Hands a request to the thread, or forgets it when the thread is far behind.
    pub(super) fn ask(&self, fork: Arc<ForkHandle>, blocks: Range<u32>) {
        let mut state = self.worker.lock();
        if matches!(*state, State::Idle) {
            *state = start();
        }
        if let State::Running(sender, _) = &*state {
            // Full or gone: it is advice.
            let _ = sender.try_send((fork, blocks));
        }
    }

    /// Ends the thread, after what it has been asked for.
    pub(super) fn stop(&self) {
        let state = std::mem::replace(&mut *self.worker.lock(), State::Stopped);
        if let State::Running(sender, thread) = state {
            drop(sender);
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

fn start() -> State {
    let (sender, receiver) = sync_channel::<(Arc<ForkHandle>, Range<u32>)>(BACKLOG);
    let run = move || {
        for (fork, blocks) in receiver {
            fork.load_ahead(blocks);
        }
    };
    match Builder::new().name("evenkeel-prefetch".into()).spawn(run) {
        Ok(thread) => State::Running(sender, thread),
        Err(error) => {
            tracing::warn!("no prefetching: {error}");
            State::Stopped
        }
    }
}
