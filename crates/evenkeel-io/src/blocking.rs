//! The one "about to block" hook.

use std::cell::Cell;
use std::sync::OnceLock;

/// Runs the closure it is given, once, on the calling thread, after making arrangements for the
/// thread's other work (a server lets its other sessions move off this thread).
pub type BlockingHook = fn(&mut dyn FnMut());

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

static HOOK: OnceLock<BlockingHook> = OnceLock::new();

/// The process-wide hook has been set before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the blocking hook is already set")]
pub struct HookAlreadySet;

/// Sets the process-wide hook. It can be set once; without it closures run inline.
pub fn set_blocking_hook(hook: BlockingHook) -> Result<(), HookAlreadySet> {
    HOOK.set(hook).map_err(|_| HookAlreadySet)
}

/// Runs `work`, which may block the thread (a read that the page cache cannot answer, a wait for
/// log space), through the hook.
pub fn blocking<R>(work: impl FnOnce() -> R) -> R {
    CALLS.set(calls().wrapping_add(1));
    run(HOOK.get().copied(), work)
}

/// How often this thread has been about to block.
pub(crate) fn calls() -> u64 {
    CALLS.get()
}

fn run<R>(hook: Option<BlockingHook>, work: impl FnOnce() -> R) -> R {
    let Some(hook) = hook else { return work() };
    let mut work = Some(work);
    let mut result = None;
    hook(&mut || {
        if let Some(work) = work.take() {
            result = Some(work());
        }
    });
    match (result, work) {
        (Some(result), _) => result,
        (None, Some(work)) => work(),
        (None, None) => unreachable!("work ran but left no result"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocking_runs_exactly_once_whatever_the_hook_does() {
        for hook in [None, Some(twice as BlockingHook), Some(never), Some(once)] {
            let mut runs = 0;
            let result = run(hook, || {
                runs += 1;
                42
            });
            assert_eq!((result, runs), (42, 1));
        }
    }

    fn once(work: &mut dyn FnMut()) {
        work();
    }

    fn twice(work: &mut dyn FnMut()) {
        work();
        work();
    }

    fn never(_: &mut dyn FnMut()) {}

    #[test]
    fn the_hook_is_settable_once() {
        assert_eq!(set_blocking_hook(once), Ok(()));
        assert_eq!(set_blocking_hook(never), Err(HookAlreadySet));
        assert_eq!(blocking(|| 7), 7);
    }
}
