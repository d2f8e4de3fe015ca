//! Work that several threads share for a moment.

use std::panic::resume_unwind;
use std::thread::{Builder, scope};

use crate::stats::BackendType;

/// Runs `work` on this thread and at the same time on up to `helpers` others, on this one's
/// account, and adds up what they answer; a helper that cannot be started is done without.
///
/// # Errors
/// This thread's, or else a helper's. A helper's panic goes on here.
pub(crate) fn share<T: Send, E: Send>(
    name: &str,
    helpers: usize,
    work: impl Fn() -> Result<T, E> + Sync,
    add: impl Fn(T, T) -> T,
) -> Result<T, E> {
    let who = BackendType::current();
    let help = || {
        let _who = who.enter();
        work()
    };
    scope(|scope| {
        let helpers: Vec<_> = (0..helpers)
            .filter_map(|_| {
                let thread = Builder::new().name(name.to_owned());
                thread.spawn_scoped(scope, help).ok()
            })
            .collect();
        let mut result = work();
        for helper in helpers {
            let theirs = helper.join().unwrap_or_else(|panic| resume_unwind(panic));
            result = result.and_then(|ours| Ok(add(ours, theirs?)));
        }
        result
    })
}
