//! Where live snapshots are announced, so that nothing they need is removed.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

use evenkeel_storage::Lsn;

use crate::types::Xid;

const CHUNK: usize = 64;
const CHUNKS: usize = 1024;
const IDLE: u64 = u64::MAX;

/// The basis of a snapshot, or of a remover's decisions: the log position up to which commits
/// count, and the id below which all is decided by then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct View {
    pub(crate) lsn: Lsn,
    pub(crate) floor: Xid,
}

/// One slot per live snapshot, and the removers' announcement.
///
/// A remover announces how far it may go, then scans the slots. A snapshot is stored in its
/// slot, then checked against the announcement. In every interleaving, one of the two sees the
/// other (TXN-3).
pub(crate) struct SnapshotRegistry {
    chunks: Box<[OnceLock<Box<[Slot]>>]>,
    /// Slots ever handed out: scans stop there.
    used: AtomicUsize,
    announced_lsn: AtomicU64,
    announced_floor: AtomicU64,
    cached_lsn: AtomicU64,
    cached_floor: AtomicU64,
}

#[derive(Debug)]
#[repr(align(64))]
struct Slot {
    taken: AtomicBool,
    lsn: AtomicU64,
    floor: AtomicU64,
}

/// Index of a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotIndex(usize);

thread_local! {
    /// A session mostly gets back the slot its thread used last.
    static LAST: Cell<usize> = const { Cell::new(0) };
}

impl SnapshotRegistry {
    pub(crate) fn new() -> SnapshotRegistry {
        SnapshotRegistry {
            chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect(),
            used: AtomicUsize::new(0),
            announced_lsn: AtomicU64::new(0),
            announced_floor: AtomicU64::new(0),
            cached_lsn: AtomicU64::new(0),
            cached_floor: AtomicU64::new(0),
        }
    }

    fn chunk(&self, index: usize) -> &[Slot] {
        self.chunks[index / CHUNK].get_or_init(|| {
            let idle = || Slot {
                taken: AtomicBool::new(false),
                lsn: AtomicU64::new(IDLE),
                floor: AtomicU64::new(IDLE),
            };
            (0..CHUNK).map(|_| idle()).collect()
        })
    }

    fn slot(&self, index: usize) -> &Slot {
        &self.chunk(index)[index % CHUNK]
    }

    /// Takes a free slot; `None` if 65,536 snapshots are alive.
    pub(crate) fn take(&self) -> Option<SlotIndex> {
        let last = LAST.get();
        let index = if self.try_take(last) {
            last
        } else {
            (0..CHUNK * CHUNKS).find(|index| self.try_take(*index))?
        };
        LAST.set(index);
        if self.used.load(Ordering::SeqCst) <= index {
            self.used.fetch_max(index + 1, Ordering::SeqCst);
        }
        Some(SlotIndex(index))
    }

    fn try_take(&self, index: usize) -> bool {
        let taken = &self.slot(index).taken;
        !taken.load(Ordering::Relaxed)
            && taken
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// Stores a view read from `read` in the slot, such that no remover misses it.
    pub(crate) fn announce(&self, slot: SlotIndex, read: impl Fn() -> View) -> View {
        let slot = self.slot(slot.0);
        loop {
            let view = read();
            slot.floor.store(view.floor.get(), Ordering::Relaxed);
            slot.lsn.store(view.lsn.0, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            let lsn = self.announced_lsn.load(Ordering::Relaxed);
            let floor = self.announced_floor.load(Ordering::Relaxed);
            if lsn <= view.lsn.0 && floor <= view.floor.get() {
                self.assert_unpassed(slot);
                return view;
            }
        }
    }

    /// Gives the slot back.
    pub(crate) fn release(&self, slot: SlotIndex) {
        let slot = self.slot(slot.0);
        self.assert_unpassed(slot);
        slot.lsn.store(IDLE, Ordering::Release);
        slot.floor.store(IDLE, Ordering::Release);
        slot.taken.store(false, Ordering::Release);
    }

    /// Asserts what TXN-3 is for: no horizon has passed the snapshot in a slot that is taken.
    #[inline]
    fn assert_unpassed(&self, slot: &Slot) {
        debug_assert!(
            self.cached_lsn.load(Ordering::SeqCst) <= slot.lsn.load(Ordering::SeqCst)
                && self.cached_floor.load(Ordering::SeqCst) <= slot.floor.load(Ordering::SeqCst),
            "a horizon has passed a live snapshot: {:?} and {slot:?}",
            self.cached_horizon()
        );
    }

    /// The least view of all snapshots, alive or yet to come, if `now` is the newest one.
    pub(crate) fn horizon(&self, now: View) -> View {
        self.announced_lsn.fetch_max(now.lsn.0, Ordering::Relaxed);
        self.announced_floor
            .fetch_max(now.floor.get(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let (mut lsn, mut floor) = (now.lsn.0, now.floor.get());
        for index in 0..self.used.load(Ordering::SeqCst) {
            let slot = self.slot(index);
            lsn = lsn.min(slot.lsn.load(Ordering::Acquire));
            floor = floor.min(slot.floor.load(Ordering::Acquire));
        }
        self.cached_lsn.fetch_max(lsn, Ordering::Relaxed);
        self.cached_floor.fetch_max(floor, Ordering::Relaxed);
        View {
            lsn: Lsn(lsn),
            floor: Xid::new(floor),
        }
    }

    /// The last horizon found: horizons only grow, so an old one is a safe one.
    pub(crate) fn cached_horizon(&self) -> View {
        View {
            lsn: Lsn(self.cached_lsn.load(Ordering::Relaxed)),
            floor: Xid::new(self.cached_floor.load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(lsn: u64) -> View {
        View {
            lsn: Lsn(lsn),
            floor: Xid::new(lsn),
        }
    }

    #[test]
    fn the_horizon_is_the_least_of_the_live_snapshots() {
        let slots = SnapshotRegistry::new();
        assert_eq!(slots.horizon(view(10)), view(10));
        let (a, b) = (slots.take().unwrap(), slots.take().unwrap());
        slots.announce(a, || view(12));
        slots.announce(b, || view(15));
        assert_eq!(slots.horizon(view(20)), view(12));
        slots.release(a);
        assert_eq!(slots.horizon(view(20)), view(15));
        slots.release(b);
        assert_eq!(slots.horizon(view(21)), view(21));
    }

    #[test]
    fn a_snapshot_older_than_an_announced_removal_is_taken_again() {
        let slots = SnapshotRegistry::new();
        slots.horizon(view(50));
        let reads = AtomicU64::new(49);
        let slot = slots.take().unwrap();
        let taken = slots.announce(slot, || view(reads.fetch_add(1, Ordering::Relaxed)));
        assert_eq!(taken, view(50));
    }

    #[test]
    fn no_remover_misses_a_snapshot() {
        let slots = SnapshotRegistry::new();
        let published = AtomicU64::new(1);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for lsn in 2..20_000 {
                    published.store(lsn, Ordering::SeqCst);
                    let horizon = slots.horizon(view(lsn));
                    assert!(horizon.lsn <= Lsn(lsn));
                }
                done.store(true, Ordering::SeqCst);
            });
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::SeqCst) {
                        let slot = slots.take().unwrap();
                        let read = || view(published.load(Ordering::SeqCst));
                        let taken = slots.announce(slot, read);
                        for _ in 0..3 {
                            // Every horizon computed while the slot is held stays at or below.
                            assert!(slots.horizon(read()).lsn <= taken.lsn);
                            assert!(slots.cached_horizon().lsn <= taken.lsn);
                        }
                        slots.release(slot);
                    }
                });
            }
        });
    }
}
