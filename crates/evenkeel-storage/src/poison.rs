//! The instance's point of no return: after a failed log write or sync, nothing is acknowledged.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::error::{StorageError, StorageResult};
#[cfg(test)]
use crate::mutant::Mutant;

type Hook = Box<dyn Fn() + Send + Sync>;

/// Shared by every part of one store. Once set it stays set, with the first reason.
#[derive(Default)]
pub struct Poison {
    set: AtomicBool,
    reason: OnceLock<Arc<str>>,
    hooks: Mutex<Vec<Hook>>,
    /// A deliberate bug: every part of a store has its poison, so it is carried here.
    #[cfg(test)]
    mutant: OnceLock<Mutant>,
}

impl Poison {
    /// A healthy instance.
    #[must_use]
    pub fn new() -> Arc<Poison> {
        Arc::new(Poison::default())
    }

    /// Poisons the instance and wakes everything that registered for it. The first reason stays.
    pub fn set(&self, reason: impl Into<Arc<str>>) {
        let reason = reason.into();
        if self.reason.set(Arc::clone(&reason)).is_err() {
            return;
        }
        tracing::error!("storage poisoned: {reason}");
        self.set.store(true, Ordering::SeqCst);
        for hook in self.hooks.lock().iter() {
            hook();
        }
    }

    #[cfg(test)]
    pub(crate) fn mutate(&self, mutant: Mutant) {
        self.mutant.set(mutant).expect("one bug at a time");
    }

    #[cfg(test)]
    pub(crate) fn has(&self, mutant: Mutant) -> bool {
        self.mutant.get() == Some(&mutant)
    }

    /// To be held by a thread of the store for as long as it runs; `thread` is what it is called.
    pub(crate) fn guard(self: &Arc<Self>, thread: &'static str) -> PanicGuard {
        PanicGuard {
            poison: Arc::clone(self),
            thread,
        }
    }

    /// Whether the instance is poisoned.
    #[inline]
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }

    /// An error if the instance is poisoned.
    #[inline]
    pub fn check(&self) -> StorageResult<()> {
        if self.is_set() {
            Err(self.error())
        } else {
            Ok(())
        }
    }

    /// The error that a poisoned instance answers with.
    #[must_use]
    pub fn error(&self) -> StorageError {
        let reason = self
            .reason
            .get()
            .map_or_else(|| Arc::from("unknown"), Arc::clone);
        StorageError::Poisoned { reason }
    }

    /// The first reason, when poisoned.
    #[must_use]
    pub fn reason(&self) -> Option<Arc<str>> {
        self.is_set()
            .then(|| self.reason.get().map(Arc::clone))
            .flatten()
    }

    /// Runs `hook` when the instance is poisoned (at once if it already is). Hooks wake waiters;
    /// they may run on any thread and must not block.
    pub fn on_set(&self, hook: impl Fn() + Send + Sync + 'static) {
        let mut hooks = self.hooks.lock();
        if self.is_set() {
            hook();
        }
        hooks.push(Box::new(hook));
    }
}

/// Poisons the instance should its thread panic: who waits for that thread's work would wait for
/// ever.
pub(crate) struct PanicGuard {
    poison: Arc<Poison>,
    thread: &'static str,
}

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let thread = self.thread;
            self.poison.set(format!("the {thread} thread panicked"));
        }
    }
}

impl std::fmt::Debug for Poison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Poison")
            .field("reason", &self.reason())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn a_thread_that_panics_poisons() {
        let poison = Poison::new();
        let run = |panics: bool| {
            let poison = Arc::clone(&poison);
            let thread = std::thread::spawn(move || {
                let _guard = poison.guard("cleaner");
                assert!(!panics, "as the test wants it");
            });
            thread.join().is_err()
        };
        assert!(!run(false) && !poison.is_set());
        assert!(run(true));
        let reason = poison.reason();
        assert_eq!(reason.as_deref(), Some("the cleaner thread panicked"));
    }

    #[test]
    fn the_first_reason_stays_and_hooks_run_once() {
        let poison = Poison::new();
        assert!(poison.check().is_ok());
        let runs = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&runs);
        poison.on_set(move || {
            seen.fetch_add(1, Ordering::Relaxed);
        });
        poison.set("sync of wal/1 failed");
        poison.set("something later");
        assert_eq!(runs.load(Ordering::Relaxed), 1);
        assert_eq!(poison.reason().as_deref(), Some("sync of wal/1 failed"));
        assert!(matches!(poison.check(), Err(StorageError::Poisoned { .. })));
    }
}
