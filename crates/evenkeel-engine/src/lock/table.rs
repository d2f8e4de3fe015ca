//! The lock table: who holds what, and who queues for it.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

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
    /// Numbers that entries with aliases have had.
    numbers: AtomicU64,
}

type KeyMap<T> = HashMap<LockKey, T, BuildHasherDefault<KeyHasher>>;

#[derive(Debug, Default)]
struct Shard {
    maps: Mutex<Maps>,
    /// Entries and aliases for rows: lets an update see without the mutex that nobody locked its
    /// row. A row is locked and looked at under its page's lock, which orders the two (LOCK-3).
    rows: AtomicUsize,
}

#[derive(Debug, Default)]
struct Maps {
    entries: KeyMap<Entry>,
    /// Newer versions of rows whose entry has the key of an older one.
    aliases: KeyMap<Alias>,
}

/// Where the locks of a row version are. It counts as long as the entry with this number is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Alias {
    root: LockKey,
    number: u64,
}

#[derive(Debug, Default)]
struct Entry {
    holders: SmallVec<[Holder; 1]>,
    queue: VecDeque<Waiter>,
    /// Differs from that of every other entry with aliases; 0 without.
    number: u64,
    /// The versions by which the row is known besides.
    aliases: SmallVec<[LockKey; 2]>,
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
            numbers: AtomicU64::new(0),
        }
    }

    fn shard(&self, key: &LockKey) -> &Shard {
        let mut hasher = KeyHasher::default();
        key.hash(&mut hasher);
        &self.shards[(hasher.finish() >> 32) as usize % SHARDS]
    }

    /// The key under which the locks of a row are, as they are now, and the number of the entry if
    /// the key is an alias of it.
    fn resolve(&self, key: &LockKey) -> Option<Alias> {
        let shard = self.shard(key);
        if !matches!(key, LockKey::Row(..)) || shard.rows.load(Ordering::Acquire) == 0 {
            return None;
        }
        shard.maps.lock().aliases.get(key).copied()
    }

    /// Works on the entry of a lock, under the key that it has. `make`: it is made if it is not
    /// there.
    fn at_entry<T>(
        &self,
        key: &LockKey,
        make: bool,
        mut work: impl FnMut(&LockKey, &mut Entry) -> T,
    ) -> Option<(LockKey, T)> {
        loop {
            let alias = self.resolve(key);
            let root = alias.map_or(*key, |alias| alias.root);
            let shard = self.shard(&root);
            let mut maps = shard.maps.lock();
            if let Some(alias) = alias {
                match maps.entries.get_mut(&root) {
                    Some(entry) if entry.number == alias.number => {
                        return Some((root, work(&root, entry)));
                    }
                    // All who locked the row have gone.
                    _ => {
                        drop(maps);
                        self.forget_alias(key, alias);
                        continue;
                    }
                }
            }
            // An alias and an entry of one key exclude each other: somebody was faster.
            if maps.aliases.contains_key(key) {
                continue;
            }
            if !maps.entries.contains_key(key) {
                if !make {
                    return None;
                }
                shard.count_row(key, true);
            }
            let entry = maps.entries.entry(root).or_default();
            return Some((root, work(&root, entry)));
        }
    }

    fn forget_alias(&self, key: &LockKey, alias: Alias) {
        let shard = self.shard(key);
        let mut maps = shard.maps.lock();
        if maps.aliases.get(key) == Some(&alias) {
            maps.aliases.remove(key);
            shard.count_row(key, false);
        }
    }

    /// Asks for a lock; stands in the queue if it is not free and `wait` is set. Answers the key
    /// that the lock has.
    pub(super) fn request(
        &self,
        txn: TxnNumber,
        key: LockKey,
        mode: Mode,
        wait: bool,
    ) -> (LockKey, Requested) {
        let asked = self.at_entry(&key, true, |key, entry| {
            if entry.is_free(key, txn, mode) {
                let new = entry.hold(txn, mode);
                entry.assert_compatible(key);
                return Requested::Granted { new };
            }
            if !wait {
                return Requested::Busy;
            }
            let cell = TicketCell::new();
            let place = entry.place(key, txn);
            entry.queue.insert(
                place,
                Waiter {
                    txn,
                    mode,
                    cell: Arc::clone(&cell),
                },
            );
            Requested::Queued(cell)
        });
        asked.unwrap_or((key, Requested::Busy))
    }

    /// Whether a request would have to wait. One load if nobody locked a row of this shard.
    pub(super) fn conflicts(&self, txn: TxnNumber, key: &LockKey, mode: Mode) -> bool {
        let row = matches!(key, LockKey::Row(..));
        if row && self.shard(key).rows.load(Ordering::Acquire) == 0 {
            return false;
        }
        let found = self.at_entry(key, false, |key, entry| !entry.is_free(key, txn, mode));
        found.is_some_and(|(_, conflicts)| conflicts)
    }

    /// Takes the lock of a row that somebody has locked, if it is free; none if nobody has. One
    /// load if nobody locked a row of this shard.
    pub(super) fn join(
        &self,
        txn: TxnNumber,
        key: &LockKey,
        mode: Mode,
    ) -> Option<(LockKey, Requested)> {
        if self.shard(key).rows.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.at_entry(key, false, |key, entry| {
            if !entry.is_free(key, txn, mode) {
                return Requested::Busy;
            }
            let new = entry.hold(txn, mode);
            entry.assert_compatible(key);
            Requested::Granted { new }
        })
    }

    /// Makes the version `new` known as one of the row whose locks `root` has, which the caller
    /// holds; false where it has locks of its own. `only`: of the other versions only this one is
    /// still of use.
    pub(super) fn add_alias(&self, root: &LockKey, new: LockKey, only: Option<LockKey>) -> bool {
        let mut stale = SmallVec::<[LockKey; 2]>::new();
        let number = {
            let mut maps = self.shard(root).maps.lock();
            let Some(entry) = maps.entries.get_mut(root) else {
                return false;
            };
            if entry.number == 0 {
                entry.number = self.numbers.fetch_add(1, Ordering::Relaxed) + 1;
            }
            if let Some(only) = only {
                entry.aliases.retain(|alias| {
                    let keep = *alias == only;
                    if !keep {
                        stale.push(*alias);
                    }
                    keep
                });
            }
            if !entry.aliases.contains(&new) {
                entry.aliases.push(new);
            }
            entry.number
        };
        let alias = Alias {
            root: *root,
            number,
        };
        stale.iter().for_each(|key| self.forget_alias(key, alias));
        let shard = self.shard(&new);
        let mut maps = shard.maps.lock();
        if maps.entries.contains_key(&new) {
            return new == *root;
        }
        if maps.aliases.insert(new, alias).is_none() {
            shard.count_row(&new, true);
        }
        true
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
        let mut maps = shard.maps.lock();
        let Some(entry) = maps.entries.get_mut(key) else {
            return;
        };
        change(entry);
        entry.grant_queue(key, wakes);
        entry.assert_compatible(key);
        if !entry.holders.is_empty() || !entry.queue.is_empty() {
            return;
        }
        let Some(entry) = maps.entries.remove(key) else {
            return;
        };
        shard.count_row(key, false);
        maps.give_memory_back();
        drop(maps);
        let alias = Alias {
            root: *key,
            number: entry.number,
        };
        entry
            .aliases
            .iter()
            .for_each(|known| self.forget_alias(known, alias));
    }

    /// The holders of a lock, and its queue from the front.
    pub(super) fn queue(&self, key: &LockKey) -> QueueView {
        let maps = self.shard(key).maps.lock();
        let Some(entry) = maps.entries.get(key) else {
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
            for (key, entry) in &shard.maps.lock().entries {
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

impl Maps {
    /// Many row locks that are given up give their memory back, in time proportional to their
    /// number.
    fn give_memory_back(&mut self) {
        let entries = &mut self.entries;
        if entries.capacity() > KEPT_ENTRIES && entries.len() < entries.capacity() / 8 {
            let kept = entries.len() * 2;
            entries.shrink_to(kept.max(KEPT_ENTRIES / 2));
        }
        let aliases = &mut self.aliases;
        if aliases.capacity() > KEPT_ENTRIES && aliases.len() < aliases.capacity() / 8 {
            aliases.shrink_to(KEPT_ENTRIES / 2);
        }
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
