//! The synchronisation primitives of the parts that are model-checked: the standard ones, or
//! loom's when the tests are built with `--cfg loom`.

#[cfg(not(all(test, loom)))]
mod imp {
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };

    use std::thread::{self, Thread};

    pub(crate) type Mutex<T> = parking_lot::Mutex<T>;
    pub(crate) type MutexGuard<'a, T> = parking_lot::MutexGuard<'a, T>;
    pub(crate) type Condvar = parking_lot::Condvar;

    #[inline]
    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock()
    }

    /// Releases the mutex, waits to be notified, and takes it again.
    pub(crate) fn wait<'a, T>(
        condvar: &Condvar,
        mut guard: MutexGuard<'a, T>,
    ) -> MutexGuard<'a, T> {
        condvar.wait(&mut guard);
        guard
    }

    /// Rounds of trying again before a thread parks.
    pub(crate) const SPINS: u32 = 60;

    /// Parks one thread until another wakes it; a wake-up that comes first is kept.
    pub(crate) struct Parker {
        thread: Thread,
        woken: AtomicBool,
    }

    impl Parker {
        /// For the calling thread.
        pub(crate) fn new() -> Self {
            Parker {
                thread: thread::current(),
                woken: AtomicBool::new(false),
            }
        }

        pub(crate) fn park(&self) {
            while !self.woken.swap(false, Ordering::Acquire) {
                thread::park();
            }
        }

        pub(crate) fn wake(&self) {
            self.woken.store(true, Ordering::Release);
            self.thread.unpark();
        }
    }
}

#[cfg(all(test, loom))]
mod imp {
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::Condvar;
    pub(crate) use loom::sync::atomic::{
        AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };

    pub(crate) type Mutex<T> = loom::sync::Mutex<T>;
    pub(crate) type MutexGuard<'a, T> = loom::sync::MutexGuard<'a, T>;

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().expect("a model's mutex is not poisoned")
    }

    pub(crate) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        condvar
            .wait(guard)
            .expect("a model's mutex is not poisoned")
    }

    /// A model explores every order anyway; spinning only adds states.
    pub(crate) const SPINS: u32 = 0;

    /// Loom forgets an unpark that comes while the thread takes a mutex, so here it is a flag
    /// with a condition variable.
    pub(crate) struct Parker {
        woken: Mutex<bool>,
        changed: Condvar,
    }

    impl Parker {
        pub(crate) fn new() -> Self {
            Parker {
                woken: Mutex::new(false),
                changed: Condvar::new(),
            }
        }

        pub(crate) fn park(&self) {
            let mut woken = lock(&self.woken);
            while !std::mem::replace(&mut *woken, false) {
                woken = wait(&self.changed, woken);
            }
        }

        pub(crate) fn wake(&self) {
            *lock(&self.woken) = true;
            self.changed.notify_one();
        }
    }
}

pub(crate) use imp::*;
