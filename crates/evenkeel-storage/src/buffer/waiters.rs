//! Where threads wait for a content lock or for a page that another thread is loading.

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;

use super::frame_state::Mode;
use crate::sync::{Mutex, MutexGuard, Parker, lock};

/// Queues of waiting threads, hashed by what they wait for.
pub(crate) struct WaitTable {
    buckets: Box<[Bucket]>,
}

/// Cache lines are not shared between buckets.
#[repr(align(128))]
struct Bucket(Mutex<Queue>);

/// The waiters of one bucket, oldest first.
#[derive(Default)]
pub(crate) struct Queue(VecDeque<Entry>);

struct Entry {
    key: usize,
    mode: Mode,
    waiter: Arc<Parker>,
}

/// Waiters taken out of a queue, to be woken after its mutex is released.
pub(crate) type Woken = SmallVec<[Arc<Parker>; 4]>;

impl WaitTable {
    /// A table of `buckets` queues, rounded up to a power of two.
    pub(crate) fn new(buckets: usize) -> Self {
        let buckets = (0..buckets.next_power_of_two())
            .map(|_| Bucket(Mutex::new(Queue::default())))
            .collect();
        WaitTable { buckets }
    }

    /// The queue for `key`, locked.
    pub(crate) fn queue(&self, key: usize) -> MutexGuard<'_, Queue> {
        let hash = (key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        lock(&self.buckets[hash as usize & (self.buckets.len() - 1)].0)
    }
}

impl Queue {
    pub(crate) fn push_back(&mut self, key: usize, mode: Mode, waiter: &Arc<Parker>) {
        self.0.push_back(Entry {
            key,
            mode,
            waiter: Arc::clone(waiter),
        });
    }

    pub(crate) fn push_front(&mut self, key: usize, mode: Mode, waiter: &Arc<Parker>) {
        self.0.push_front(Entry {
            key,
            mode,
            waiter: Arc::clone(waiter),
        });
    }

    /// Takes out those waiting for `key` who could hold the lock together, oldest first: one
    /// exclusive waiter, or the sharers before the first exclusive one, with at most one
    /// share-exclusive among them. Says whether others stay.
    pub(crate) fn take_compatible(&mut self, key: usize) -> (Woken, bool) {
        let mut taken = Woken::new();
        let mut share_exclusive = false;
        // Once one had to stay, or an exclusive locker goes, everybody later stays.
        let mut closed = false;
        let mut stay = false;
        self.0.retain(|entry| {
            if entry.key != key {
                return true;
            }
            let fits = match entry.mode {
                Mode::Share => true,
                Mode::ShareExclusive => !share_exclusive,
                Mode::Exclusive => taken.is_empty(),
            };
            if closed || !fits {
                closed = true;
                stay = true;
                return true;
            }
            share_exclusive |= entry.mode == Mode::ShareExclusive;
            closed |= entry.mode == Mode::Exclusive;
            taken.push(Arc::clone(&entry.waiter));
            false
        });
        (taken, stay)
    }

    /// Takes out everybody waiting for `key`.
    pub(crate) fn take_all(&mut self, key: usize) -> Woken {
        let mut taken = Woken::new();
        self.0.retain(|entry| {
            if entry.key == key {
                taken.push(Arc::clone(&entry.waiter));
            }
            entry.key != key
        });
        taken
    }
}
