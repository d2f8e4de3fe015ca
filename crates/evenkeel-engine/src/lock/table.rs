//! The lock table: who holds what, and who queues for it.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::{LockKey, Mode, ModeSet, TxnNumber};
use crate::ticket::{TicketCell, WakeList};

const SHARDS: usize = 128;
/// A shard keeps room for so many entries.
const KEPT_ENTRIES: usize = 256;

/// Locks and their queues, in shards by key.
#[derive(Debug)]
pub(crate) struct LockTable {
    shards: Box<[Shard]>,
}

#[derive(Debug, Default)]
struct Shard {
    entries: Mutex<HashMap<LockKey, Entry, BuildHasherDefault<KeyHasher>>>,
    /// Entries for rows: lets an update see without the mutex that nobody locked its row. A
    /// row is locked and looked at under its page's lock, which orders the two (LOCK-3).
    rows: AtomicUsize,
}

#[derive(Debug, Default)]
struct Entry {
    holders: SmallVec<[Holder; 1]>,
    queue: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Holder {
    txn: TxnNumber,
    modes: ModeSet,
}

#[derive(Debug)]
struct Waiter {
    txn: TxnNumber,
    mode: Mode,
    cell: Arc<TicketCell>,
}

/// Answer to a request for a lock.
#[derive(Debug)]
pub(super) enum Requested {
    /// It is held now; `new` if it was not before.
    Granted { new: bool },
    /// It is not free.
    Busy,
    /// The transaction stands in the queue.
    Queued(Arc<TicketCell>),
}

/// A lock's holders and its queue, as of a moment.
#[derive(Debug, Default)]
pub(super) struct QueueView {
    pub(super) holders: Vec<(TxnNumber, ModeSet)>,
    pub(super) queue: Vec<(TxnNumber, Mode)>,
}

/// One lock held or waited for, as `pg_locks` shows it.
#[derive(Clone, Debug)]
pub struct LockInfo {
    /// The locked object.
    pub key: LockKey,
    /// PostgreSQL's name of the mode.
    pub mode: &'static str,
    /// Number of the transaction.
    pub transaction: u64,
    /// Held, or waited for.
    pub granted: bool,
}

impl LockTable {
    pub(super) fn new() -> LockTable {
        LockTable {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
        }
    }

    fn shard(&self, key: &LockKey) -> &Shard {
        let mut hasher = KeyHasher::default();
        key.hash(&mut hasher);
        &self.shards[(hasher.finish() >> 32) as usize % SHARDS]
    }

    /// Asks for a lock; stands in the queue if it is not free and `wait` is set.
    pub(super) fn request(
        &self,
        txn: TxnNumber,
        key: LockKey,
        mode: Mode,
        wait: bool,
    ) -> Requested {
        let shard = self.shard(&key);
        let mut entries = shard.entries.lock();
        let entry = match entries.entry(key) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                shard.count_row(&key, true);
                entry.insert(Entry::default())
            }
        };
        if entry.is_free(&key, txn, mode) {
            let new = entry.hold(txn, mode);
            entry.assert_compatible(&key);
            return Requested::Granted { new };
        }
        if !wait {
            return Requested::Busy;
        }
        let cell = TicketCell::new();
        let place = entry.place(&key, txn);
        entry.queue.insert(
            place,
            Waiter {
                txn,
                mode,
                cell: Arc::clone(&cell),
            },
        );
        Requested::Queued(cell)
    }

    /// Whether a request would have to wait. One load if nobody locked a row of this shard.
    pub(super) fn conflicts(&self, txn: TxnNumber, key: &LockKey, mode: Mode) -> bool {
        let shard = self.shard(key);
        if matches!(key, LockKey::Row(..)) && shard.rows.load(Ordering::Acquire) == 0 {
            return false;
        }
        let entries = shard.entries.lock();
        entries
            .get(key)
            .is_some_and(|entry| !entry.is_free(key, txn, mode))
    }

    /// Gives up one mode and grants what became free.
    pub(super) fn release(&self, txn: TxnNumber, key: &LockKey, mode: Mode, wakes: &mut WakeList) {
        self.change(key, wakes, |entry| {
            if let Some(at) = entry.holders.iter().position(|holder| holder.txn == txn) {
                let holder = &mut entry.holders[at];
                holder.modes.remove(mode);
                if holder.modes.is_empty() {
                    entry.holders.swap_remove(at);
                }
            }
        });
    }

    /// Leaves the queue; waiters behind may become free.
    pub(super) fn leave(&self, key: &LockKey, cell: &Arc<TicketCell>, wakes: &mut WakeList) {
        self.change(key, wakes, |entry| {
            entry
                .queue
                .retain(|waiter| !Arc::ptr_eq(&waiter.cell, cell));
        });
    }

    fn change(&self, key: &LockKey, wakes: &mut WakeList, change: impl FnOnce(&mut Entry)) {
        let shard = self.shard(key);
        let mut entries = shard.entries.lock();
        let Some(entry) = entries.get_mut(key) else {
            return;
        };
        change(entry);
        entry.grant_queue(key, wakes);
        entry.assert_compatible(key);
        if entry.holders.is_empty() && entry.queue.is_empty() {
            entries.remove(key);
            shard.count_row(key, false);
            // Many row locks that are given up give their memory back, in time proportional to
            // their number.
            if entries.capacity() > KEPT_ENTRIES && entries.len() < entries.capacity() / 8 {
                let kept = entries.len() * 2;
                entries.shrink_to(kept.max(KEPT_ENTRIES / 2));
            }
        }
    }

    /// The holders of a lock, and its queue from the front.
    pub(super) fn queue(&self, key: &LockKey) -> QueueView {
        let entries = self.shard(key).entries.lock();
        let Some(entry) = entries.get(key) else {
            return QueueView::default();
        };
        let holders = entry.holders.iter();
        let queue = entry.queue.iter();
        QueueView {
            holders: holders.map(|holder| (holder.txn, holder.modes)).collect(),
            queue: queue.map(|waiter| (waiter.txn, waiter.mode)).collect(),
        }
    }

    /// All locks and waits, shard by shard.
    pub(super) fn list(&self) -> Vec<LockInfo> {
        let mut list = Vec::new();
        for shard in &self.shards {
            for (key, entry) in shard.entries.lock().iter() {
                let mut add = |mode: Mode, txn: TxnNumber, granted| {
                    let mode = mode.name(key);
                    list.push(LockInfo {
                        key: *key,
                        mode,
                        transaction: txn.0,
                        granted,
                    });
                };
                for holder in &entry.holders {
                    holder
                        .modes
                        .modes()
                        .for_each(|mode| add(mode, holder.txn, true));
                }
                entry
                    .queue
                    .iter()
                    .for_each(|waiter| add(waiter.mode, waiter.txn, false));
            }
        }
        list
    }
}

impl Shard {
    fn count_row(&self, key: &LockKey, added: bool) {
        if matches!(key, LockKey::Row(..)) {
            if added {
                self.rows.fetch_add(1, Ordering::Release);
            } else {
                self.rows.fetch_sub(1, Ordering::Release);
            }
        }
    }
}

impl Entry {
    fn held(&self, txn: TxnNumber) -> ModeSet {
        let holder = self.holders.iter().find(|holder| holder.txn == txn);
        holder.map_or(ModeSet::default(), |holder| holder.modes)
    }

    /// Whether `txn` may have the lock at once (LOCK-2). A transaction that holds some mode
    /// passes the queue: making it wait for those it blocks would be a deadlock. A request for a
    /// row lock passes it too, as in PostgreSQL: a lock that no holder conflicts with is free.
    fn is_free(&self, key: &LockKey, txn: TxnNumber, mode: Mode) -> bool {
        let against = mode.conflicts(key);
        let mut others = self.holders.iter().filter(|holder| holder.txn != txn);
        if others.any(|holder| holder.modes.intersects(against)) {
            return false;
        }
        matches!(key, LockKey::Row(..))
            || !self.held(txn).is_empty()
            || !self
                .queue
                .iter()
                .any(|waiter| against.contains(waiter.mode))
    }

    /// Adds the mode to what `txn` holds; says whether it is new.
    fn hold(&mut self, txn: TxnNumber, mode: Mode) -> bool {
        if let Some(holder) = self.holders.iter_mut().find(|holder| holder.txn == txn) {
            let new = !holder.modes.contains(mode);
            holder.modes.insert(mode);
            return new;
        }
        let mut modes = ModeSet::default();
        modes.insert(mode);
        self.holders.push(Holder { txn, modes });
        true
    }

    /// Asserts that no two transactions hold modes that conflict (LOCK-8).
    fn assert_compatible(&self, key: &LockKey) {
        let conflicts = |holder: &Holder, mode: Mode| {
            let against = mode.conflicts(key);
            let mut others = self.holders.iter().filter(|other| other.txn != holder.txn);
            others.any(|other| other.modes.intersects(against))
        };
        debug_assert!(
            !self
                .holders
                .iter()
                .any(|holder| holder.modes.modes().any(|mode| conflicts(holder, mode))),
            "two transactions hold conflicting locks on {key:?}"
        );
    }

    /// Where in the queue `txn` belongs: at the end, or ahead of the first waiter that waits
    /// for it.
    fn place(&self, key: &LockKey, txn: TxnNumber) -> usize {
        let held = self.held(txn);
        if held.is_empty() {
            return self.queue.len();
        }
        let waits_for_it = |waiter: &Waiter| waiter.mode.conflicts(key).intersects(held);
        self.queue
            .iter()
            .position(waits_for_it)
            .unwrap_or(self.queue.len())
    }

    /// Grants from the front: nobody overtakes a waiter that it conflicts with (LOCK-2).
    fn grant_queue(&mut self, key: &LockKey, wakes: &mut WakeList) {
        let mut ahead = ModeSet::default();
        let mut place = 0;
        while let Some(waiter) = self.queue.get(place) {
            let (txn, mode) = (waiter.txn, waiter.mode);
            let against = mode.conflicts(key);
            let mut others = self.holders.iter().filter(|holder| holder.txn != txn);
            let busy = others.any(|holder| holder.modes.intersects(against));
            if busy || ahead.intersects(against) {
                if against == ModeSet::all(key) {
                    // Nobody passes this one.
                    return;
                }
                ahead.insert(mode);
                place += 1;
                continue;
            }
            let Some(waiter) = self.queue.remove(place) else {
                return;
            };
            // A waiter that was cancelled or timed out leaves the lock to the next one.
            if waiter.cell.complete(Ok(()), wakes) {
                self.hold(txn, mode);
            }
        }
    }
}

/// Multiplies and mixes: keys are small numbers, not chosen by an adversary.
#[derive(Debug, Default)]
struct KeyHasher(u64);

impl KeyHasher {
    fn mix(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(23) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 29;
    }
}

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.mix(u64::from(*byte)));
    }

    fn write_u16(&mut self, value: u16) {
        self.mix(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.mix(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.mix(value as u64);
    }
}
