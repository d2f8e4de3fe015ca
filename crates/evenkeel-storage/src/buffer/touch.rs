//! Memory for frames that is touched ahead of their use. The system zeroes memory at its first
//! touch, which takes a third of the time of redo; while one thread reads the log another can do
//! it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle, park_timeout};
use std::time::Duration;

use super::pool_core::PoolCore;

/// Frames that are touched at once: a huge page.
pub(super) const CHUNK: usize = 256;
/// Pools of fewer frames are left alone.
pub(super) const LEAST: usize = 4096;
/// Longest time between two looks at how many frames are wanted.
const PAUSE: Duration = Duration::from_millis(2);

/// A thread that touches the memory of as many frames as will be wanted, the first ones: the free
/// list gives frames out in the order of their numbers. It ends when this is dropped.
pub(crate) struct TouchAhead {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    core: Arc<PoolCore>,
    wanted: AtomicUsize,
    stopped: AtomicBool,
}

impl TouchAhead {
    /// For a pool that is to be filled. Nothing is touched before it is wanted.
    pub(crate) fn start(core: &Arc<PoolCore>) -> TouchAhead {
        let shared = Arc::new(Shared {
            core: Arc::clone(core),
            wanted: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        });
        let run = {
            let shared = Arc::clone(&shared);
            move || shared.run()
        };
        let is_large = core.frame_count() >= LEAST;
        let several = std::thread::available_parallelism().is_ok_and(|count| count.get() > 1);
        // Without it redo is slower, and no more.
        let thread = (is_large && several).then(|| Builder::new().name("touch".into()).spawn(run));
        TouchAhead {
            shared,
            thread: thread.and_then(Result::ok),
        }
    }

    /// So many frames will be used.
    pub(crate) fn want(&self, frames: usize) {
        let most = self.shared.core.frame_count();
        self.shared
            .wanted
            .store(frames.min(most), Ordering::Relaxed);
    }
}

impl Drop for TouchAhead {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It touches what is there: a panic in it has no consequence.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run(&self) {
        let mut next = 0;
        while !self.stopped.load(Ordering::Relaxed) {
            let wanted = self.wanted.load(Ordering::Relaxed);
            if next >= wanted {
                park_timeout(PAUSE);
                continue;
            }
            let end = (next + CHUNK).min(wanted);
            if let Err(errno) = self.core.arena().touch(next..end) {
                // Linux has it from 5.14 on.
                tracing::debug!("memory is not touched ahead: {errno}");
                return;
            }
            next = end;
        }
    }
}
