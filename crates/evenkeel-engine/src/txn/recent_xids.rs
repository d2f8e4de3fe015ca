//! The window of recent transaction ids: what became of each, and at which log position.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};

use evenkeel_io::{Disk, File, OpenOptions};
use evenkeel_storage::{Lsn, StorageError};
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::spans::Spans;
use super::spill::{self, ABORTED, CHUNK, IN_PROGRESS, InSpill, Spill, Written};
use crate::error::EngineResult;
use crate::types::Xid;

const NO_CHUNK: u64 = u64::MAX;

/// The state of an id in the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecentXidsState {
    InProgress,
    Aborted,
    /// Its commit record lies here; whether that is published is for the reader to judge.
    Committed(Lsn),
    /// Older than the window: the status pages know.
    Below,
}

/// A ring of chunks over the ids in `[tail, next)`.
///
/// Chunks are used again, never freed, so a reader needs no lock: it checks before and after
/// reading that the chunk is still its id's. A chunk that must make room while old snapshots
/// or running transactions still need it is spilled to a temporary file. The file is written and
/// read with no lock but `switching` held, which only sessions that need a new chunk take (txn
/// TXN-6).
pub(crate) struct RecentXids {
    ring: Box<[Chunk]>,
    spans: Spans,
    tail: AtomicU64,
    /// The greatest commit LSN of an id below the tail; raised before the tail is.
    settled: AtomicU64,
    /// Held by a session that makes room for a new chunk.
    switching: Mutex<()>,
    spill: Mutex<Spill>,
    spill_file: SpillFile,
}

/// The temporary file, made when it is first needed.
struct SpillFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: OnceLock<Arc<dyn File>>,
}

struct Chunk {
    /// Number of the chunk whose values can be read here.
    number: AtomicU64,
    /// Number of the chunk whose values can be stored here.
    open: AtomicU64,
    /// Threads that may be storing into it: a switch waits for them.
    writers: AtomicU32,
    entries: OnceLock<Box<[AtomicU64]>>,
}

impl RecentXids {
    /// An empty window of at most `ids` ids in memory; `dir` takes the spill file.
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: &Path, ids: usize) -> RecentXids {
        let chunks = (ids as u64).div_ceil(CHUNK).max(2);
        let chunk = || Chunk {
            number: AtomicU64::new(NO_CHUNK),
            open: AtomicU64::new(NO_CHUNK),
            writers: AtomicU32::new(0),
            entries: OnceLock::new(),
        };
        RecentXids {
            ring: (0..chunks).map(|_| chunk()).collect(),
            spans: Spans::new(),
            tail: AtomicU64::new(Xid::FIRST.get()),
            settled: AtomicU64::new(0),
            switching: Mutex::new(()),
            spill: Mutex::default(),
            spill_file: SpillFile {
                disk,
                path: dir.join("xid-window.tmp"),
                file: OnceLock::new(),
            },
        }
    }

    /// The first id of the window.
    pub(crate) fn tail(&self) -> Xid {
        Xid::new(self.tail.load(Ordering::Acquire))
    }

    /// No id below the tail has committed behind this position.
    pub(crate) fn settled(&self) -> Lsn {
        Lsn(self.settled.load(Ordering::Acquire))
    }

    /// The commit of an id; for one that is not known in memory a position that is not before it,
    /// and zero for one that has not committed. Reads no file.
    pub(crate) fn commit_bound(&self, xid: Xid) -> Lsn {
        match self.get_in_memory(xid) {
            Some(RecentXidsState::Committed(lsn)) => lsn,
            Some(RecentXidsState::Below) => self.settled(),
            Some(RecentXidsState::Aborted | RecentXidsState::InProgress) => Lsn::ZERO,
            None => {
                let most = self.spill.lock().most(xid.get() / CHUNK);
                // It may have left the file meanwhile, and the window.
                Lsn(most).max(self.settled())
            }
        }
    }

    fn chunk(&self, number: u64) -> &Chunk {
        &self.ring[(number % self.ring.len() as u64) as usize]
    }

    /// Makes room for `xid`. To be called before the id is given out, in order.
    pub(crate) fn prepare(&self, xid: u64) -> EngineResult<()> {
        let number = xid / CHUNK;
        if self.chunk(number).number.load(Ordering::Acquire) == number {
            return Ok(());
        }
        self.switch(number)
    }

    #[cold]
    fn switch(&self, number: u64) -> EngineResult<()> {
        let _one_at_a_time = self.switching.lock();
        let chunk = self.chunk(number);
        let old = chunk.number.load(Ordering::Acquire);
        if old != NO_CHUNK && old >= number {
            return Ok(());
        }
        let entries = chunk
            .entries
            .get_or_init(|| (0..CHUNK).map(|_| AtomicU64::new(0)).collect());
        let needed = old != NO_CHUNK && (old + 1) * CHUNK > self.tail.load(Ordering::SeqCst);
        let written = if needed {
            Some(self.write_out(entries)?)
        } else {
            None
        };
        // Announce first, then wait for those who may not have seen it. No lock is held that
        // they, or the flusher that they may wait for, could need.
        chunk.open.store(NO_CHUNK, Ordering::SeqCst);
        while chunk.writers.load(Ordering::SeqCst) != 0 {
            std::thread::yield_now();
        }
        let mut spill = self.spill.lock();
        if let Some(written) = written {
            spill.add(old, &written, entries);
        }
        chunk.number.store(NO_CHUNK, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        entries
            .iter()
            .for_each(|entry| entry.store(IN_PROGRESS, Ordering::Relaxed));
        self.spans.start(number);
        chunk.number.store(number, Ordering::SeqCst);
        chunk.open.store(number, Ordering::SeqCst);
        Ok(())
    }

    /// Writes a chunk to the spill file as it is now. Ids may still be decided in the ring.
    fn write_out(&self, entries: &[AtomicU64]) -> EngineResult<Written> {
        let values: Box<[u64]> = entries
            .iter()
            .map(|entry| entry.load(Ordering::Acquire))
            .collect();
        let file = self.spill_file.make()?;
        let slot = self.spill.lock().reserve();
        if let Err(error) = spill::write(file, slot, &values) {
            self.spill.lock().give_back(slot);
            return Err(error);
        }
        Ok(Written { slot, values })
    }

    fn read_fast(&self, xid: u64) -> Option<u64> {
        let number = xid / CHUNK;
        let chunk = self.chunk(number);
        if chunk.number.load(Ordering::Acquire) != number {
            return None;
        }
        let value = chunk.entries.get()?[(xid % CHUNK) as usize].load(Ordering::Acquire);
        fence(Ordering::Acquire);
        (chunk.number.load(Ordering::Relaxed) == number).then_some(value)
    }

    /// The state of an id that was given out. May read the spill file.
    pub(crate) fn get(&self, xid: Xid) -> EngineResult<RecentXidsState> {
        loop {
            if let Some(state) = self.get_in_memory(xid) {
                return Ok(state);
            }
            self.fetch(xid.get() / CHUNK)?;
        }
    }

    /// The state of an id that was given out; `None` if it has to be read from the spill file.
    pub(crate) fn get_in_memory(&self, xid: Xid) -> Option<RecentXidsState> {
        let raw = xid.get();
        let value = match self.read_fast(raw) {
            Some(value) => value,
            None => match self.read_slow(raw) {
                InSpill::Value(value) => value,
                InSpill::InFile => return None,
                InSpill::Nowhere => return Some(RecentXidsState::Below),
            },
        };
        Some(match value {
            IN_PROGRESS if raw < self.tail.load(Ordering::Acquire) => RecentXidsState::Below,
            IN_PROGRESS => RecentXidsState::InProgress,
            ABORTED => RecentXidsState::Aborted,
            lsn => RecentXidsState::Committed(Lsn(lsn)),
        })
    }

    #[cold]
    fn read_slow(&self, raw: u64) -> InSpill {
        if raw < self.tail.load(Ordering::Acquire) {
            return InSpill::Nowhere;
        }
        let spill = self.spill.lock();
        // With the mutex held no chunk is being switched.
        if let Some(value) = self.read_fast(raw) {
            return InSpill::Value(value);
        }
        match spill.get(raw) {
            InSpill::Nowhere if raw >= self.tail.load(Ordering::Acquire) => {
                InSpill::Value(IN_PROGRESS)
            }
            found => found,
        }
    }

    /// Whether the commit of `xid`, which is known to have committed, lies at or below `lsn`.
    /// `None` if its chunk has commits on both sides. Takes no lock (TXN-4).
    #[inline]
    pub(crate) fn committed_by(&self, xid: Xid, lsn: Lsn) -> Option<bool> {
        let (least, most) = self.spans.get(xid.get() / CHUNK)?;
        if most <= lsn.0 {
            return Some(true);
        }
        // The span does not know of commits before the last start: those are below the tail.
        (least > lsn.0 && xid >= self.tail()).then_some(false)
    }

    /// Reads a chunk back from the spill file.
    fn fetch(&self, number: u64) -> EngineResult<()> {
        let Some(slot) = self.spill.lock().place(number) else {
            return Ok(());
        };
        let Some(file) = self.spill_file.file.get() else {
            return Ok(());
        };
        let values = spill::read(file.as_ref(), slot)?;
        self.spill.lock().keep(number, slot, values);
        Ok(())
    }

    /// Has a chunk read back by the background thread.
    pub(crate) fn fetch_later(&self, xid: Xid) {
        self.spill.lock().wanted.insert(xid.get() / CHUNK);
    }

    /// Reads back the chunks that were asked for.
    pub(crate) fn fetch_wanted(&self) -> EngineResult<()> {
        let wanted = std::mem::take(&mut self.spill.lock().wanted);
        wanted.into_iter().try_for_each(|number| self.fetch(number))
    }

    /// Finds where the commit LSN of these ids goes, so that storing it takes no lock. Chunks stay
    /// where they are until the places are used or dropped.
    pub(crate) fn commit_places(
        &self,
        xids: &(impl Iterator<Item = Xid> + Clone),
    ) -> CommitPlaces<'_> {
        loop {
            let mut places = CommitPlaces {
                window: self,
                places: SmallVec::new(),
            };
            // Those that take the mutex first: it is not waited for with a chunk kept in place.
            for xid in xids.clone() {
                let place = match self.is_open(xid.get()) {
                    true => Place::Unknown,
                    false => self.late_place(xid.get()),
                };
                places.places.push((xid.get(), place));
            }
            if places.pin() {
                return places;
            }
        }
    }

    fn is_open(&self, xid: u64) -> bool {
        self.chunk(xid / CHUNK).open.load(Ordering::SeqCst) == xid / CHUNK
    }

    fn late_place(&self, xid: u64) -> Place {
        let spill = self.spill.lock();
        match (spill.late(xid), spill.get(xid)) {
            (Some(late), _) => Place::Late(late),
            (None, InSpill::Nowhere) => Place::Unknown,
            // Decided before its chunk was spilled.
            (None, InSpill::Value(_) | InSpill::InFile) => Place::Nowhere,
        }
    }

    /// Notes that `xid` commits with the record at `lsn`.
    #[cfg(test)]
    pub(crate) fn commit(&self, xid: Xid, lsn: Lsn) {
        self.commit_places(&std::iter::once(xid)).store(lsn);
    }

    /// Notes that `xid` has aborted. Never waits for a disk.
    pub(crate) fn abort(&self, xid: Xid) {
        self.commit_places(&std::iter::once(xid)).put(ABORTED);
    }

    /// The first id from `from` on that is not decided as of `published`: in progress, or
    /// committed beyond it.
    pub(crate) fn decided_until(&self, from: Xid, published: Lsn) -> Xid {
        let undecided = |value: u64| value == IN_PROGRESS || value > published.0;
        let mut xid = from.get();
        loop {
            if let Some(value) = self.read_fast(xid) {
                if undecided(value) {
                    return Xid::new(xid);
                }
                xid += 1;
                continue;
            }
            let spill = self.spill.lock();
            if self.read_fast(xid).is_some() {
                continue;
            }
            match spill.undecided(xid, published.0) {
                Some(first) => return Xid::new(first),
                None => xid = (xid / CHUNK + 1) * CHUNK,
            }
        }
    }

    /// The greatest commit LSN of the decided ids in `[from, to)`; of a chunk in the spill file,
    /// that of all its ids.
    fn newest_commit(&self, from: u64, to: u64) -> u64 {
        let (mut xid, mut newest) = (from, 0);
        while xid < to {
            if let Some(value) = self.read_fast(xid) {
                newest = newest.max(if value > ABORTED { value } else { 0 });
                xid += 1;
                continue;
            }
            let spill = self.spill.lock();
            if self.read_fast(xid).is_none() {
                newest = newest.max(spill.most(xid / CHUNK));
                xid = (xid / CHUNK + 1) * CHUNK;
            }
        }
        newest
    }

    /// Moves the tail up: nobody will ask the window for older ids, and the status pages
    /// have them.
    pub(crate) fn advance_tail(&self, tail: Xid) {
        let newest = self.newest_commit(self.tail().get(), tail.get());
        self.settled.fetch_max(newest, Ordering::AcqRel);
        let old = self.tail.fetch_max(tail.get(), Ordering::SeqCst);
        if old / CHUNK < tail.get() / CHUNK {
            self.spill.lock().free_below(tail.get() / CHUNK);
        }
    }

    /// Starts over at `next`, after recovery: everything older is in the status pages, and none
    /// of it has committed behind `settled`.
    pub(crate) fn restart(&self, next: Xid, settled: Lsn) {
        self.settled.fetch_max(settled.0, Ordering::AcqRel);
        self.tail.store(next.get(), Ordering::SeqCst);
    }

    /// Chunks in the spill file.
    pub(crate) fn spilled_chunks(&self) -> usize {
        self.spill.lock().len()
    }
}

impl SpillFile {
    /// The file; called by one session at a time.
    fn make(&self) -> EngineResult<&dyn File> {
        if self.file.get().is_none() {
            let options = OpenOptions::create().truncate();
            let file = self.disk.open(&self.path, options);
            let _ = self.file.set(file.map_err(StorageError::from)?);
        }
        let missing = || StorageError::Internal("the spill file was not kept".into());
        Ok(self.file.get().ok_or_else(missing)?.as_ref())
    }
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // Left behind it would do no harm: the next spill truncates it.
            let _ = self.disk.remove(&self.path);
        }
    }
}

/// Where the fate of some ids is to be stored.
#[must_use = "the ids stay undecided"]
pub(crate) struct CommitPlaces<'a> {
    window: &'a RecentXids,
    places: SmallVec<[(u64, Place); 2]>,
}

/// Where the fate of an id is to be stored.
enum Place {
    /// Not in the spill file when it was looked for there.
    Unknown,
    /// In the ring; the chunk counts this thread among its writers.
    Ring,
    /// The id's chunk was spilled before the id was decided.
    Late(Arc<AtomicU64>),
    /// Nobody asks for the id any more.
    Nowhere,
}

impl CommitPlaces<'_> {
    /// Keeps the chunks of the ring where they are; `false` if one has just left.
    fn pin(&mut self) -> bool {
        for (xid, place) in &mut self.places {
            if !matches!(place, Place::Unknown) {
                continue;
            }
            let chunk = self.window.chunk(*xid / CHUNK);
            chunk.writers.fetch_add(1, Ordering::SeqCst);
            if self.window.is_open(*xid) {
                *place = Place::Ring;
                continue;
            }
            chunk.writers.fetch_sub(1, Ordering::SeqCst);
            if *xid >= self.window.tail.load(Ordering::Acquire) {
                std::thread::yield_now();
                return false;
            }
            *place = Place::Nowhere;
        }
        true
    }

    /// Notes that the ids commit with the record at `lsn`. Takes no lock and waits for nothing.
    pub(crate) fn store(self, lsn: Lsn) {
        for (xid, _) in &self.places {
            // First: a reader that knows of the commit finds it within the chunk's span.
            self.window.spans.extend(*xid / CHUNK, lsn.0);
        }
        self.put(lsn.0);
    }

    fn put(self, value: u64) {
        for (xid, place) in &self.places {
            match place {
                Place::Late(late) => decide(late, value),
                Place::Ring => {
                    if let Some(entries) = self.window.chunk(*xid / CHUNK).entries.get() {
                        decide(&entries[(*xid % CHUNK) as usize], value);
                    }
                }
                Place::Nowhere | Place::Unknown => {}
            }
        }
    }
}

/// Notes what became of an id: once, for those who have read it build on it (TXN-11).
fn decide(entry: &AtomicU64, value: u64) {
    debug_assert!(
        [IN_PROGRESS, value].contains(&entry.load(Ordering::Relaxed)),
        "an id decided as {} is decided again as {value}",
        entry.load(Ordering::Relaxed)
    );
    entry.store(value, Ordering::Release);
}

impl Drop for CommitPlaces<'_> {
    fn drop(&mut self) {
        for (xid, place) in &self.places {
            if matches!(place, Place::Ring) {
                let chunk = self.window.chunk(*xid / CHUNK);
                chunk.writers.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_io::{IoObserver, Observed, OpKind, SimDisk};
    use std::sync::atomic::AtomicBool;

    /// Holds the first write up until it is opened.
    #[derive(Default)]
    struct Gate {
        reached: AtomicBool,
        open: AtomicBool,
    }

    impl IoObserver for Gate {
        fn classify(&self, _: &Path) -> u8 {
            0
        }

        fn account(&self) -> u64 {
            0
        }

        fn begin(&self, op: &Observed<'_>) -> u64 {
            if op.kind == OpKind::Write {
                self.reached.store(true, Ordering::SeqCst);
                while !self.open.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
            }
            0
        }

        fn end(&self, _: &Observed<'_>, _: u64) {}
    }

    fn window(ids: usize) -> RecentXids {
        let disk = Arc::new(SimDisk::new(1));
        disk.create_dir_all(Path::new("/db")).unwrap();
        RecentXids::new(disk, Path::new("/db"), ids)
    }

    fn state(window: &RecentXids, xid: u64) -> RecentXidsState {
        window.get(Xid::new(xid)).unwrap()
    }

    /// TXN-12.
    #[test]
    fn the_tail_keeps_the_newest_commit_it_has_passed() {
        let window = window(2 * CHUNK as usize);
        for xid in 3..CHUNK * 5 {
            window.prepare(xid).unwrap();
            if !xid.is_multiple_of(3) {
                // Younger ids commit earlier.
                window.commit(Xid::new(xid), Lsn((1 << 20) + (CHUNK * 5 - xid) * 8));
            } else {
                window.abort(Xid::new(xid));
            }
        }
        let of = |xid: u64| Lsn((1 << 20) + (CHUNK * 5 - xid) * 8);
        assert!(window.spilled_chunks() > 0);
        assert_eq!(window.settled(), Lsn::ZERO);
        assert_eq!(
            window.commit_bound(Xid::new(CHUNK * 5 - 1)),
            of(CHUNK * 5 - 1)
        );
        assert_eq!(
            window.commit_bound(Xid::new(3)),
            of(4),
            "the spilled chunk's newest"
        );
        assert_eq!(
            window.commit_bound(Xid::new(CHUNK * 5 - 2)),
            Lsn::ZERO,
            "aborted"
        );
        window.advance_tail(Xid::new(CHUNK * 4 + 100));
        assert_eq!(window.settled(), of(4));
        assert_eq!(window.commit_bound(Xid::new(5)), of(4));
        window.restart(Xid::new(CHUNK * 5), Lsn(7));
        assert_eq!(window.settled(), of(4), "it never falls");
    }

    #[test]
    fn what_was_stored_is_found_until_the_tail_passes() {
        let window = window(2 * CHUNK as usize);
        for xid in 3..100 {
            window.prepare(xid).unwrap();
            assert_eq!(state(&window, xid), RecentXidsState::InProgress);
        }
        window.commit(Xid::new(7), Lsn(800));
        window.abort(Xid::new(8));
        assert_eq!(state(&window, 7), RecentXidsState::Committed(Lsn(800)));
        assert_eq!(state(&window, 8), RecentXidsState::Aborted);
        window.advance_tail(Xid::new(50));
        assert_eq!(state(&window, 9), RecentXidsState::Below);
        assert_eq!(window.tail(), Xid::new(50));
    }

    #[test]
    fn what_old_snapshots_need_spills_and_is_found() {
        let window = window(2 * CHUNK as usize);
        let last = 5 * CHUNK + 10;
        for xid in 3..last {
            window.prepare(xid).unwrap();
            match xid % 5 {
                0 => {}
                1 => window.abort(Xid::new(xid)),
                _ => window.commit(Xid::new(xid), Lsn(xid * 10)),
            }
        }
        assert_eq!(window.spilled_chunks(), 4);
        let check = |late: u64| {
            for xid in 3..last {
                let expected = match xid % 5 {
                    0 if xid < late => RecentXidsState::Committed(Lsn(1_000_000 + xid)),
                    0 => RecentXidsState::InProgress,
                    1 => RecentXidsState::Aborted,
                    _ => RecentXidsState::Committed(Lsn(xid * 10)),
                };
                assert_eq!(state(&window, xid), expected, "xid {xid}");
            }
        };
        check(0);
        // Transactions outlive their chunk's stay in memory and commit all the same.
        for xid in (5..last).step_by(5) {
            assert_eq!(
                window.decided_until(Xid::FIRST, Lsn(2_000_000)),
                Xid::new(xid)
            );
            window.commit(Xid::new(xid), Lsn(1_000_000 + xid));
        }
        check(last);
        assert_eq!(
            window.decided_until(Xid::FIRST, Lsn(2_000_000)),
            Xid::new(last)
        );
        assert_eq!(
            window.decided_until(Xid::FIRST, Lsn(1_000_000)),
            Xid::new(5)
        );
        window.advance_tail(Xid::new(3 * CHUNK));
        assert_eq!(window.spilled_chunks(), 1);
        window.advance_tail(Xid::new(last));
        assert_eq!(window.spilled_chunks(), 0);
        assert_eq!(state(&window, 7), RecentXidsState::Below);
    }

    #[test]
    fn readers_and_committers_race_with_the_switch_of_chunks() {
        let window = window(2 * CHUNK as usize);
        let assigned = AtomicU64::new(3);
        let end = 12 * CHUNK;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for xid in 3..end {
                    window.prepare(xid).unwrap();
                    assigned.store(xid + 1, Ordering::SeqCst);
                }
            });
            for offset in 0..2 {
                let (window, assigned) = (&window, &assigned);
                scope.spawn(move || {
                    let mut xid = 3 + offset;
                    while xid < end {
                        if assigned.load(Ordering::SeqCst) <= xid {
                            std::thread::yield_now();
                            continue;
                        }
                        assert_eq!(state(window, xid), RecentXidsState::InProgress);
                        window.commit(Xid::new(xid), Lsn(xid + 1_000_000));
                        let expected = RecentXidsState::Committed(Lsn(xid + 1_000_000));
                        assert_eq!(state(window, xid), expected);
                        xid += 2;
                    }
                });
            }
        });
        for xid in 3..end {
            assert_eq!(
                state(&window, xid),
                RecentXidsState::Committed(Lsn(xid + 1_000_000))
            );
        }
    }

    #[test]
    fn nothing_but_the_next_chunk_waits_for_the_spill_file() {
        let disk = Arc::new(SimDisk::new(1));
        disk.create_dir_all(Path::new("/db")).unwrap();
        let gate = Arc::new(Gate::default());
        let disk = evenkeel_io::MeteredDisk::new(disk, Arc::clone(&gate) as _);
        let window = RecentXids::new(disk, Path::new("/db"), 2 * CHUNK as usize);
        for xid in 3..2 * CHUNK {
            window.prepare(xid).unwrap();
        }
        std::thread::scope(|scope| {
            let switch = scope.spawn(|| window.prepare(2 * CHUNK).unwrap());
            while !gate.reached.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            // The chunk is being written.
            window.commit(Xid::new(3), Lsn(800));
            window.abort(Xid::new(4));
            assert_eq!(state(&window, 3), RecentXidsState::Committed(Lsn(800)));
            assert_eq!(window.decided_until(Xid::FIRST, Lsn(800)), Xid::new(5));
            assert!(!switch.is_finished());
            gate.open.store(true, Ordering::SeqCst);
            switch.join().unwrap();
        });
        // The file has neither.
        assert_eq!(state(&window, 3), RecentXidsState::Committed(Lsn(800)));
        assert_eq!(state(&window, 4), RecentXidsState::Aborted);
        window.commit(Xid::new(5), Lsn(900));
        assert_eq!(state(&window, 5), RecentXidsState::Committed(Lsn(900)));
    }

    #[test]
    fn a_span_says_of_a_commit_whatever_its_lsn_says() {
        let window = window(2 * CHUNK as usize);
        let last = 6 * CHUNK;
        // Chunk 1 goes on committing while chunks 2 and 3 do.
        let lsn = |xid: u64| match xid / CHUNK {
            1 => xid * 10 + xid % 3 * CHUNK * 10,
            _ => xid * 10,
        };
        for xid in 3..last {
            window.prepare(xid).unwrap();
            if xid % 4 != 0 {
                window.commit(Xid::new(xid), Lsn(lsn(xid)));
            }
        }
        let (mut decided, mut open) = (0, 0);
        for xid in (3..last).filter(|xid| xid % 4 != 0) {
            for position in (0..7).map(|chunk| chunk * CHUNK * 10 + 5) {
                match window.committed_by(Xid::new(xid), Lsn(position)) {
                    Some(says) => {
                        assert_eq!(says, lsn(xid) <= position, "xid {xid} at {position}");
                        decided += 1;
                    }
                    None => open += 1,
                }
            }
        }
        // Only chunk 1 has commits on both sides of a position.
        assert!(
            open > 0 && decided > 10 * open,
            "{decided} decided, {open} not"
        );
    }

    #[test]
    fn what_is_in_the_file_is_not_read_for_those_who_hold_a_page() {
        let window = window(2 * CHUNK as usize);
        for xid in 3..4 * CHUNK {
            window.prepare(xid).unwrap();
            window.commit(Xid::new(xid), Lsn(xid * 10));
        }
        let asked = Xid::new(CHUNK + 7);
        assert_eq!(window.get_in_memory(asked), None);
        window.fetch_later(asked);
        window.fetch_wanted().unwrap();
        let found = RecentXidsState::Committed(Lsn(asked.get() * 10));
        assert_eq!(window.get_in_memory(asked), Some(found));
        assert_eq!(window.get_in_memory(Xid::new(3)), None);
        assert_eq!(state(&window, 3), RecentXidsState::Committed(Lsn(30)));
        assert!(window.get_in_memory(Xid::new(3)).is_some());
    }

    #[test]
    fn a_failed_spill_leaves_the_chunk_where_it_was() {
        let disk = SimDisk::new(1);
        disk.create_dir_all(Path::new("/db")).unwrap();
        let window = RecentXids::new(Arc::new(disk.clone()), Path::new("/db"), 2 * CHUNK as usize);
        for xid in 3..2 * CHUNK {
            window.prepare(xid).unwrap();
            window.abort(Xid::new(xid));
        }
        let fault = evenkeel_io::Fault::nth(1, evenkeel_io::FaultKind::Enospc);
        disk.inject(fault.on(evenkeel_io::OpKind::Write));
        assert!(window.prepare(2 * CHUNK).is_err());
        assert_eq!(state(&window, 3), RecentXidsState::Aborted);
        window.prepare(2 * CHUNK).unwrap();
        assert_eq!(state(&window, 3), RecentXidsState::Aborted);
        assert_eq!(window.spilled_chunks(), 1);
    }
}
