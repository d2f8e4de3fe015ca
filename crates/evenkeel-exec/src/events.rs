//! Row events: changed rows that constraints have yet to look at. They are gathered while a
//! statement runs, and acted on by the session at its end or at the end of its transaction.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_engine::Tid;
use evenkeel_engine::memory::{Reservation, SessionMemory};

use crate::error::ExecResult;

/// The part of a changed row in a constraint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It refers, by a foreign key.
    Refers,
    /// Others may refer to it, by a foreign key.
    Referred,
    /// Another row may have its key in a deferrable unique index.
    Doubtful,
}

/// A changed row and a constraint that it concerns. The versions stay where they are: the one
/// that is new to the transaction until it ends, the one before as long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowEvent {
    /// The oid of the foreign key, or of the unique index.
    pub key: u32,
    /// The row's part in it.
    pub role: Role,
    /// The version before; none for an insert and for a doubtful key.
    pub old: Option<Tid>,
    /// The version after; none for a delete.
    pub new: Option<Tid>,
}

/// An event, and the number of savepoints there were when it was acted on, if it was.
#[derive(Debug, Clone, Copy)]
struct Queued {
    event: RowEvent,
    done: Option<usize>,
}

/// The row events of one session's transaction.
#[derive(Debug)]
pub struct RowEvents {
    queue: Mutex<Queue>,
    /// How many there are, to be read without the lock.
    length: AtomicUsize,
}

#[derive(Debug)]
struct Queue {
    events: Vec<Queued>,
    /// The events from here on have not been looked at since they were queued.
    fresh: usize,
    memory: Reservation,
}

/// Events that are made room for at once.
const CHUNK: usize = 1024;

impl RowEvents {
    /// An empty queue in the session's memory.
    pub fn new(memory: &Arc<SessionMemory>) -> RowEvents {
        RowEvents {
            queue: Mutex::new(Queue {
                events: Vec::new(),
                fresh: 0,
                memory: Reservation::new(memory),
            }),
            length: AtomicUsize::new(0),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // A panic in between leaves a queue that is no worse than before it.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length.load(Ordering::Relaxed) == 0
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.length.load(Ordering::Relaxed)
    }

    /// Adds an event.
    ///
    /// # Errors
    /// 53200.
    pub fn push(&self, event: RowEvent) -> ExecResult<()> {
        let mut queue = self.queue();
        if queue.events.len() == queue.events.capacity() {
            let room = queue.events.capacity() * 2;
            let room = room.clamp(16, queue.events.capacity() + CHUNK * 64);
            queue.memory.resize(room * size_of::<Queued>())?;
            let more = room - queue.events.len();
            queue.events.reserve_exact(more);
        }
        queue.events.push(Queued { event, done: None });
        self.length.store(queue.events.len(), Ordering::Relaxed);
        Ok(())
    }

    /// Looks at all events again, for those put off till now.
    pub fn look_again(&self) {
        self.queue().fresh = 0;
    }

    /// The next event that was not looked at, if one of `wanted` is left: it counts as acted on
    /// from now on, at this number of savepoints.
    pub fn next(&self, savepoints: usize, wanted: impl Fn(&RowEvent) -> bool) -> Option<RowEvent> {
        let mut queue = self.queue();
        let fresh = queue.fresh;
        let rest = queue.events.iter_mut().enumerate().skip(fresh);
        let mut found = None;
        for (at, queued) in rest {
            if queued.done.is_none() && wanted(&queued.event) {
                queued.done = Some(savepoints);
                found = Some((at + 1, queued.event));
                break;
            }
        }
        let end = queue.events.len();
        let (fresh, event) = match found {
            Some((fresh, event)) => (fresh, Some(event)),
            None => (end, None),
        };
        queue.fresh = fresh;
        event
    }

    /// Forgets the events from `from` on that were acted on: what they were queued by ends with
    /// what acted on them.
    pub fn forget_done(&self, from: usize) {
        let mut queue = self.queue();
        if from >= queue.events.len() {
            return;
        }
        let tail = queue.events.split_off(from);
        let waiting = tail.into_iter().filter(|queued| queued.done.is_none());
        queue.events.extend(waiting);
        queue.fresh = queue.events.len();
        self.length.store(queue.events.len(), Ordering::Relaxed);
    }

    /// Takes back what came after a savepoint: `length` events there were, `savepoints` with it.
    pub fn rollback_to(&self, length: usize, savepoints: usize) {
        let mut queue = self.queue();
        queue.events.truncate(length);
        for queued in &mut queue.events {
            queued.done = queued.done.filter(|done| *done < savepoints);
        }
        queue.fresh = queue.events.len();
        self.length.store(queue.events.len(), Ordering::Relaxed);
    }

    /// A savepoint was released: what came after it is the level's below.
    pub fn release(&self, savepoints: usize) {
        for queued in &mut self.queue().events {
            queued.done = queued.done.map(|done| done.min(savepoints));
        }
    }

    /// Whether one of these events waits.
    pub fn waits_for(&self, of: impl Fn(&RowEvent) -> bool) -> bool {
        let queue = self.queue();
        let mut waiting = queue.events.iter().filter(|queued| queued.done.is_none());
        waiting.any(|queued| of(&queued.event))
    }

    /// Forgets all.
    pub fn clear(&self) {
        if self.is_empty() {
            return;
        }
        let mut queue = self.queue();
        queue.events = Vec::new();
        queue.fresh = 0;
        // Less than before needs no room.
        let _ = queue.memory.resize(0);
        self.length.store(0, Ordering::Relaxed);
    }
}
