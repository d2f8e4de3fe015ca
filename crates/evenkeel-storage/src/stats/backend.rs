//! On whose account, and why, a thread works.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Slots of client backends' threads; more threads than that share slots.
const CLIENTS: usize = 16;
/// Slots of a counter that each thread increments in its own.
pub(crate) const SLOTS: usize = CLIENTS + BackendType::COUNT - 1;
const UNSET: usize = usize::MAX;

thread_local! {
    static SLOT: Cell<usize> = const { Cell::new(UNSET) };
    static CLIENT_SLOT: Cell<usize> = const { Cell::new(UNSET) };
    static BACKEND: Cell<BackendType> = const { Cell::new(BackendType::ClientBackend) };
    static CONTEXT: Cell<IoContext> = const { Cell::new(IoContext::Normal) };
}

/// Kinds of threads, with the names of `pg_stat_io.backend_type`. A thread is a client backend
/// unless it says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BackendType {
    /// A session's.
    ClientBackend,
    /// One that vacuums and analyses by itself.
    AutovacuumWorker,
    /// The cleaner.
    BackgroundWriter,
    /// The checkpointer.
    Checkpointer,
    /// The log's flusher.
    WalWriter,
    /// Recovery.
    Startup,
    /// One that receives log.
    WalReceiver,
    /// One that sends log.
    WalSender,
    /// Any other.
    BackgroundWorker,
}

impl BackendType {
    /// All of them, in the order of their numbers.
    pub const ALL: [BackendType; 9] = [
        BackendType::ClientBackend,
        BackendType::AutovacuumWorker,
        BackendType::BackgroundWriter,
        BackendType::Checkpointer,
        BackendType::WalWriter,
        BackendType::Startup,
        BackendType::WalReceiver,
        BackendType::WalSender,
        BackendType::BackgroundWorker,
    ];
    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();

    /// The name in `pg_stat_io`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            BackendType::ClientBackend => "client backend",
            BackendType::AutovacuumWorker => "autovacuum worker",
            BackendType::BackgroundWriter => "background writer",
            BackendType::Checkpointer => "checkpointer",
            BackendType::WalWriter => "walwriter",
            BackendType::Startup => "startup",
            BackendType::WalReceiver => "walreceiver",
            BackendType::WalSender => "walsender",
            BackendType::BackgroundWorker => "background worker",
        }
    }

    /// The calling thread's backend type.
    #[must_use]
    pub fn current() -> BackendType {
        BACKEND.get()
    }

    /// Makes the calling thread one of these until the answer is dropped.
    pub fn enter(self) -> BackendScope {
        let before = BACKEND.replace(self);
        SLOT.set(slot_of(self));
        BackendScope {
            before,
            _bound_to_thread: PhantomData,
        }
    }
}

/// Keeps the calling thread what [`BackendType::enter`] made it.
#[must_use = "the thread is what it was before when this is dropped"]
pub struct BackendScope {
    before: BackendType,
    _bound_to_thread: PhantomData<*const ()>,
}

impl Drop for BackendScope {
    fn drop(&mut self) {
        BACKEND.set(self.before);
        SLOT.set(slot_of(self.before));
    }
}

fn slot_of(backend: BackendType) -> usize {
    match backend {
        BackendType::ClientBackend => client_slot(),
        other => CLIENTS - 1 + other as usize,
    }
}

fn client_slot() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    if CLIENT_SLOT.get() == UNSET {
        CLIENT_SLOT.set(NEXT.fetch_add(1, Ordering::Relaxed) % CLIENTS);
    }
    CLIENT_SLOT.get()
}

/// The calling thread's slot.
#[inline]
pub(crate) fn slot() -> usize {
    match SLOT.get() {
        UNSET => first_slot(),
        slot => slot,
    }
}

#[cold]
fn first_slot() -> usize {
    let slot = slot_of(BACKEND.get());
    SLOT.set(slot);
    slot
}

/// The kind of backend whose threads count in a slot.
pub(crate) fn backend_of_slot(slot: usize) -> BackendType {
    match slot.checked_sub(CLIENTS) {
        None => BackendType::ClientBackend,
        Some(other) => BackendType::ALL[1 + other],
    }
}

/// Why pages are accessed, with the names of `pg_stat_io.context`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoContext {
    /// For use, with a place in the pool like any page's.
    Normal,
    /// Through vacuum's ring.
    Vacuum,
    /// Through a large scan's ring.
    BulkRead,
    /// Through the ring of who fills new pages.
    BulkWrite,
    /// While files are made.
    Init,
}

impl IoContext {
    /// All of them, in the order of their numbers.
    pub const ALL: [IoContext; 5] = [
        IoContext::Normal,
        IoContext::Vacuum,
        IoContext::BulkRead,
        IoContext::BulkWrite,
        IoContext::Init,
    ];

    /// The name in `pg_stat_io`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            IoContext::Normal => "normal",
            IoContext::Vacuum => "vacuum",
            IoContext::BulkRead => "bulkread",
            IoContext::BulkWrite => "bulkwrite",
            IoContext::Init => "init",
        }
    }

    /// Why the calling thread accesses pages now.
    #[must_use]
    pub fn current() -> IoContext {
        CONTEXT.get()
    }

    /// Makes this the calling thread's reason until the answer is dropped.
    pub fn enter(self) -> ContextScope {
        ContextScope {
            before: CONTEXT.replace(self),
            _bound_to_thread: PhantomData,
        }
    }
}

/// Keeps the reason that [`IoContext::enter`] gave.
#[must_use = "the reason is what it was before when this is dropped"]
pub struct ContextScope {
    before: IoContext,
    _bound_to_thread: PhantomData<*const ()>,
}

impl Drop for ContextScope {
    fn drop(&mut self) {
        CONTEXT.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_put_back_and_slots_tell_the_backend() {
        let mine = slot();
        assert_eq!(backend_of_slot(mine), BackendType::ClientBackend);
        for backend in BackendType::ALL {
            let _who = backend.enter();
            assert_eq!(BackendType::current(), backend);
            assert_eq!(backend_of_slot(slot()), backend);
            assert_eq!(BackendType::ALL[backend as usize], backend);
        }
        assert_eq!(slot(), mine);
        {
            let _why = IoContext::Vacuum.enter();
            let _inner = IoContext::BulkRead.enter();
            assert_eq!(IoContext::current(), IoContext::BulkRead);
        }
        assert_eq!(IoContext::current(), IoContext::Normal);
    }
}
