//! The synchronisation primitives of the parts that are model-checked: the standard ones, or
//! loom's when the tests are built with `--cfg loom`.

#[cfg(not(all(test, loom)))]
mod imp {
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
    pub(crate) use std::thread::{self, Thread};

    pub(crate) type Mutex<T> = parking_lot::Mutex<T>;
    pub(crate) type MutexGuard<'a, T> = parking_lot::MutexGuard<'a, T>;

    #[inline]
    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock()
    }

    /// Rounds of trying again before a thread parks.
    pub(crate) const SPINS: u32 = 60;
}

#[cfg(all(test, loom))]
mod imp {
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
    pub(crate) use loom::thread::{self, Thread};

    pub(crate) type Mutex<T> = loom::sync::Mutex<T>;
    pub(crate) type MutexGuard<'a, T> = loom::sync::MutexGuard<'a, T>;

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().expect("a model's mutex is not poisoned")
    }

    /// A model explores every order anyway; spinning only adds states.
    pub(crate) const SPINS: u32 = 0;
}

pub(crate) use imp::*;
