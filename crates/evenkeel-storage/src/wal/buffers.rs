//! The log's ring in memory: reservation by one atomic add, parallel copying, completion marks.

use crate::ids::Lsn;
use crate::record::{ALIGN, FLAG_NOTIFY, HEADER_LEN, aligned};
use crate::sync::{
    AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, fence, lock, wait,
};
use crate::wal::words::Words;

/// A record found complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completed {
    pub lsn: Lsn,
    pub end: Lsn,
    pub xid: u64,
    pub kind: u8,
    pub flags: u8,
}

/// The bits of a position that [`ALIGN`] leaves free: in `inserted` they count cycles, modulo 8.
const CYCLE_BITS: u64 = ALIGN as u64 - 1;

/// Space in the ring, reserved for one record and not yet published.
///
/// Dropping it unpublished leaves a hole that no later record can become durable behind; the
/// caller poisons the instance then.
#[must_use]
pub(crate) struct Reservation<'a> {
    ring: &'a WalBuffers,
    lsn: Lsn,
    len: usize,
    cycle: u8,
    /// False when the ring was closed before space came free: nothing may be written.
    backed: bool,
}

impl Reservation<'_> {
    pub(crate) fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// The cycle that the record lies in: how many redo points were announced before it, modulo
    /// 8.
    pub(crate) fn cycle(&self) -> u8 {
        self.cycle
    }

    /// Copies the record's bytes behind the first 8, then publishes those as completion mark.
    pub(crate) fn publish(self, body: &[u8], mark: u64) {
        debug_assert!(mark != 0 && aligned(body.len() + 8) == self.len);
        if self.backed && body.len() + 8 <= self.len {
            // SAFETY: the reservation is the only owner of [lsn, lsn + len), which lies within
            // one ring length above `released`; readers look at it only after the mark.
            unsafe { self.ring.words.copy_in(self.lsn.0 + 8, body) };
            self.ring
                .words
                .mark(self.lsn.0)
                .store(mark, Ordering::Release);
        }
    }
}

/// Log bytes between `released` and `inserted`, at their position modulo the ring's size.
///
/// Positions only grow: `released <= taken by the walk <= inserted`. A byte is owned by its
/// reservation until its record's mark is stored, then by the one thread that drains.
pub(crate) struct WalBuffers {
    words: Words,
    mask: u64,
    /// Where the next record will be reserved, and in the low bits the present cycle: so one
    /// atomic add tells a record both its place and the redo points before it.
    inserted: AtomicU64,
    released: AtomicU64,
    /// Everything below is complete; moved under `walk`.
    completed: AtomicU64,
    walk: Mutex<()>,
    closed: AtomicBool,
    space_waiters: AtomicUsize,
    space_lock: Mutex<()>,
    space: Condvar,
}

impl WalBuffers {
    /// A ring of `size` bytes (a power of two) whose first record will lie at `start`.
    pub(crate) fn new(size: usize, start: Lsn) -> WalBuffers {
        assert!(size.is_power_of_two() && start.0.is_multiple_of(ALIGN as u64));
        WalBuffers {
            words: Words::new(size / 8),
            mask: size as u64 - 1,
            inserted: AtomicU64::new(start.0),
            released: AtomicU64::new(start.0),
            completed: AtomicU64::new(start.0),
            walk: Mutex::new(()),
            closed: AtomicBool::new(false),
            space_waiters: AtomicUsize::new(0),
            space_lock: Mutex::new(()),
            space: Condvar::new(),
        }
    }

    pub(crate) fn size(&self) -> u64 {
        self.mask + 1
    }

    /// Where the next record will be reserved.
    #[inline]
    pub(crate) fn inserted(&self) -> Lsn {
        Lsn(self.inserted.load(Ordering::Acquire) & !CYCLE_BITS)
    }

    /// Everything below is complete, as far as was walked.
    pub(crate) fn completed(&self) -> Lsn {
        Lsn(self.completed.load(Ordering::Acquire))
    }

    /// Bytes reserved and not yet drained.
    #[inline]
    pub(crate) fn backlog(&self) -> u64 {
        let released = self.released.load(Ordering::Relaxed);
        let inserted = self.inserted.load(Ordering::Relaxed) & !CYCLE_BITS;
        inserted.saturating_sub(released)
    }

    /// Lets everybody through who waits for space, now and from now on.
    pub(crate) fn close(&self) {
        // Under the mutex that waiters look at it under, so none misses it.
        self.closed.store(true, Ordering::Release);
        drop(lock(&self.space_lock));
        self.space.notify_all();
    }

    /// Reserves `len` bytes (a multiple of 8, at most half of the ring), waiting for the drain
    /// if there is no space. `full` is called before waiting, to wake who drains.
    #[inline]
    pub(crate) fn reserve(&self, len: usize, full: impl Fn()) -> Reservation<'_> {
        debug_assert!(len.is_multiple_of(ALIGN) && len as u64 <= self.size() / 2);
        // AcqRel: a checkpoint that reserves later sees every page noted dirty before this.
        let at = self.inserted.fetch_add(len as u64, Ordering::AcqRel);
        self.reserved(at, len, full)
    }

    /// As [`WalBuffers::reserve`], for a record that announces a redo point: in one step with its
    /// place it begins the next cycle, which it belongs to.
    pub(crate) fn reserve_redo_point(&self, len: usize, full: impl Fn()) -> Reservation<'_> {
        let next = |at: u64| ((at & !CYCLE_BITS) + len as u64) | ((at + 1) & CYCLE_BITS);
        let update = |at| Some(next(at));
        let (Ok(at) | Err(at)) =
            self.inserted
                .fetch_update(Ordering::AcqRel, Ordering::Relaxed, update);
        let cycle = (at + 1) & CYCLE_BITS;
        self.reserved((at & !CYCLE_BITS) | cycle, len, full)
    }

    #[inline]
    fn reserved(&self, at: u64, len: usize, full: impl Fn()) -> Reservation<'_> {
        let lsn = at & !CYCLE_BITS;
        let end = lsn + len as u64;
        let backed = self.has_space(end) || self.wait_for_space(end, full);
        Reservation {
            ring: self,
            lsn: Lsn(lsn),
            len,
            cycle: (at & CYCLE_BITS) as u8,
            backed,
        }
    }

    #[inline]
    fn has_space(&self, end: u64) -> bool {
        // Others may have drained past what a wait for the backlog aims at.
        end.saturating_sub(self.released.load(Ordering::Acquire)) <= self.size()
    }

    #[cold]
    fn wait_for_space(&self, end: u64, full: impl Fn()) -> bool {
        full();
        self.space_waiters.fetch_add(1, Ordering::Relaxed);
        // Pairs with the fence in `drain`: either the drain sees this waiter, or the waiter sees
        // what the drain has released.
        fence(Ordering::SeqCst);
        let backed = evenkeel_io::blocking(|| {
            let mut guard = lock(&self.space_lock);
            loop {
                if self.has_space(end) {
                    return true;
                }
                if self.closed.load(Ordering::Acquire) {
                    return false;
                }
                guard = wait(&self.space, guard);
            }
        });
        self.space_waiters.fetch_sub(1, Ordering::Relaxed);
        backed
    }

    /// Waits until at most `most` bytes are reserved and undrained, or the ring is closed.
    pub(crate) fn wait_for_backlog(&self, most: u64, full: impl Fn()) {
        let target = self.inserted.load(Ordering::Relaxed) & !CYCLE_BITS;
        // Others may have inserted and drained past `target` since.
        if target.saturating_sub(self.released.load(Ordering::Relaxed)) > most {
            self.wait_for_space((target + self.size()).saturating_sub(most), full);
        }
    }

    /// Moves the completion watermark over every record whose mark is there, calling `seen` for
    /// each notified one, in log order. Any thread may walk; walks exclude each other.
    pub(crate) fn walk(&self, mut seen: impl FnMut(Completed)) -> WalkResult<'_> {
        let guard = lock(&self.walk);
        let from = self.completed.load(Ordering::Relaxed);
        let limit = self.released.load(Ordering::Acquire) + self.size();
        let mut at = from;
        while at < limit {
            let mark = self.words.mark(at).load(Ordering::Acquire);
            if mark == 0 {
                break;
            }
            let end = at + aligned((mark & 0xFFFF_FFFF) as usize) as u64;
            let mut head = [0u8; HEADER_LEN - 8];
            // SAFETY: the record is complete, and is not drained before `completed` passes it.
            unsafe { self.words.copy_out(at + 8, &mut head) };
            if head[17] & FLAG_NOTIFY != 0 {
                let mut xid = [0; 8];
                xid.copy_from_slice(&head[..8]);
                seen(Completed {
                    lsn: Lsn(at),
                    end: Lsn(end),
                    xid: u64::from_le_bytes(xid),
                    kind: head[16],
                    flags: head[17],
                });
            }
            at = end;
        }
        self.completed.store(at, Ordering::Release);
        WalkResult {
            completed: Lsn(at),
            _walking: guard,
        }
    }

    /// Length of the complete record at `at`. Only for the draining thread.
    pub(crate) fn record_len(&self, at: Lsn) -> u64 {
        let mark = self.words.mark(at.0).load(Ordering::Acquire);
        aligned((mark & 0xFFFF_FFFF) as usize) as u64
    }

    /// Copies complete bytes from `from` on into `out`, zeroes their place and hands it out
    /// again. Only one thread drains, in order, and never beyond `completed`.
    pub(crate) fn drain(&self, from: Lsn, out: &mut [u8]) {
        let end = from.0 + out.len() as u64;
        assert!(
            from.0 == self.released.load(Ordering::Relaxed)
                && end <= self.completed.load(Ordering::Acquire),
            "drain of {from}, {} bytes, out of order",
            out.len()
        );
        // SAFETY: bytes below `completed` belong to the draining thread until released.
        unsafe {
            self.words.copy_out(from.0, out);
            self.words.zero(from.0, out.len());
        }
        self.released.store(end, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.space_waiters.load(Ordering::Relaxed) > 0 {
            drop(lock(&self.space_lock));
            self.space.notify_all();
        }
    }
}

/// Keeps other walks out while what was found is being passed on, so that notes stay in order.
pub(crate) struct WalkResult<'a> {
    pub completed: Lsn,
    _walking: MutexGuard<'a, ()>,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::record::{RecordBuilder, RecordKind, RecordView, completion_mark};
    use std::sync::Arc;

    const START: Lsn = Lsn(64 << 10);

    fn put(ring: &WalBuffers, xid: u64, payload: &[u8]) -> Lsn {
        let mut record = RecordBuilder::new(Vec::new(), xid);
        record.payload(RecordKind(20), payload);
        record.add_flags(FLAG_NOTIFY);
        let crc = record.seal(Lsn::ZERO);
        let len = record.len();
        let reservation = ring.reserve(aligned(len), || {});
        let lsn = reservation.lsn();
        reservation.publish(
            &record.bytes()[8..],
            completion_mark(lsn, 9, len as u32, crc),
        );
        lsn
    }

    /// WAL-4 and WAL-5: many threads, a ring much smaller than the log; the drained bytes are
    /// exactly the records, in order, each notified once.
    #[test]
    fn records_of_many_threads_come_out_whole_and_in_order() {
        const THREADS: u64 = 4;
        const EACH: u64 = if cfg!(miri) { 60 } else { 2_000 };
        let ring = Arc::new(WalBuffers::new(64 << 10, START));
        let writers: Vec<_> = (0..THREADS)
            .map(|t| {
                let ring = Arc::clone(&ring);
                std::thread::spawn(move || {
                    for i in 0..EACH {
                        let len = ((i * 37 + t * 11) % 900) as usize;
                        put(&ring, t * EACH + i, &vec![(i % 251) as u8; len]);
                    }
                })
            })
            .collect();
        let mut log = Vec::new();
        let mut notes = Vec::new();
        let mut at = START;
        while notes.len() < (THREADS * EACH) as usize || at < ring.completed() {
            let completed = ring.walk(|note| notes.push(note)).completed;
            let mut chunk = vec![0; (completed.0 - at.0) as usize];
            ring.drain(at, &mut chunk);
            log.extend_from_slice(&chunk);
            at = completed;
            std::thread::yield_now();
        }
        writers
            .into_iter()
            .for_each(|writer| writer.join().expect("writer"));
        let mut next = vec![0; THREADS as usize];
        let mut offset = 0;
        for note in &notes {
            assert_eq!(note.lsn.0, START.0 + offset as u64);
            let record = RecordView::parse(&log[offset..], note.lsn, 9).expect("valid");
            assert_eq!((record.xid(), record.end()), (note.xid, note.end));
            let (thread, i) = (note.xid / EACH, note.xid % EACH);
            assert_eq!(
                next[thread as usize], i,
                "one thread's records keep their order"
            );
            next[thread as usize] += 1;
            assert!(record.payload().iter().all(|&b| b == (i % 251) as u8));
            offset += aligned(record.total_len());
        }
        assert_eq!(offset, log.len());
    }

    #[test]
    fn the_walk_stops_at_an_incomplete_record_and_goes_on_later() {
        let ring = WalBuffers::new(64 << 10, START);
        put(&ring, 1, b"one");
        let mut record = RecordBuilder::new(Vec::new(), 2);
        record.add_flags(FLAG_NOTIFY);
        let crc = record.seal(Lsn::ZERO);
        let open = ring.reserve(aligned(record.len()), || {});
        put(&ring, 3, b"three");
        let mut seen = Vec::new();
        assert_eq!(ring.walk(|note| seen.push(note.xid)).completed, open.lsn());
        let mark = completion_mark(open.lsn(), 9, record.len() as u32, crc);
        open.publish(&record.bytes()[8..], mark);
        assert_eq!(
            ring.walk(|note| seen.push(note.xid)).completed,
            ring.inserted()
        );
        assert_eq!(seen, [1, 2, 3]);
    }

    /// WAL-12: the cycle that a reservation tells is that of its place, whoever raced it.
    #[test]
    fn a_reservation_knows_the_redo_points_before_it() {
        const THREADS: usize = 3;
        let ring = WalBuffers::new(1 << 20, START);
        let ring = &ring;
        let put = |redo: bool| {
            let reserved = if redo {
                ring.reserve_redo_point(32, || {})
            } else {
                ring.reserve(64, || {})
            };
            (reserved.lsn(), reserved.cycle(), redo)
        };
        let mut all: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..=THREADS)
                .map(|t| {
                    let each = if t == 0 { 500 } else { 2000 } / if cfg!(miri) { 50 } else { 1 };
                    scope.spawn(move || (0..each).map(|_| put(t == 0)).collect::<Vec<_>>())
                })
                .collect();
            let all = threads.into_iter().map(|t| t.join().expect("no panic"));
            all.flatten().collect()
        });
        all.sort_unstable();
        let (mut at, mut cycle) = (START, 0);
        for (lsn, told, redo) in all {
            cycle = (cycle + u8::from(redo)) % 8;
            assert_eq!((lsn, told), (at, cycle));
            at.0 += if redo { 32 } else { 64 };
        }
        assert_eq!(ring.inserted(), at);
    }

    #[test]
    fn a_full_ring_does_not_mistake_its_first_record_for_its_next() {
        let ring = WalBuffers::new(64 << 10, START);
        let len = (32 << 10) - HEADER_LEN;
        put(&ring, 1, &vec![1; len]);
        put(&ring, 2, &vec![2; len]);
        let mut seen = 0;
        assert_eq!(ring.walk(|_| seen += 1).completed.0, START.0 + (64 << 10));
        assert_eq!(ring.walk(|_| seen += 1).completed.0, START.0 + (64 << 10));
        assert_eq!(seen, 2);
    }

    #[test]
    fn a_closed_ring_lets_waiters_through_without_writing() {
        let ring = Arc::new(WalBuffers::new(64 << 10, START));
        put(&ring, 1, &vec![1; 30 << 10]);
        put(&ring, 2, &vec![2; 30 << 10]);
        let other = Arc::clone(&ring);
        let waiter = std::thread::spawn(move || put(&other, 3, &vec![3; 20 << 10]));
        while ring.space_waiters.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        ring.close();
        let lsn = waiter.join().expect("returns");
        assert_eq!(ring.walk(|_| {}).completed, lsn);
    }
}
