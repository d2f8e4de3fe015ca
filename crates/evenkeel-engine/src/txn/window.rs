//! The window of recent transaction ids: what became of each, and at which log position.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};

use evenkeel_io::{Disk, File, OpenOptions};
use evenkeel_storage::{Lsn, StorageError};
use parking_lot::Mutex;

use crate::error::EngineResult;
use crate::types::Xid;

/// Ids in a chunk.
pub(super) const CHUNK: u64 = 4096;
const CHUNK_BYTES: usize = CHUNK as usize * 8;
const NO_CHUNK: u64 = u64::MAX;

const IN_PROGRESS: u64 = 0;
const ABORTED: u64 = 1;

/// What the window knows of an id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WindowState {
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
/// or running transactions still need it is spilled to a temporary file (txn rule 6).
pub(crate) struct Window {
    ring: Box<[Chunk]>,
    tail: AtomicU64,
    spill: Mutex<Spill>,
}

struct Chunk {
    /// Number of the chunk that lies here.
    number: AtomicU64,
    /// Threads that may be storing into it: a switch waits for them.
    writers: AtomicU32,
    entries: OnceLock<Box<[AtomicU64]>>,
}

struct Spill {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Option<Arc<dyn File>>,
    chunks: HashMap<u64, SpilledChunk>,
    free: Vec<u64>,
    slots: u64,
}

struct SpilledChunk {
    slot: u64,
    /// Ids that were undecided when the chunk was spilled, and what became of them since.
    late: BTreeMap<u64, u64>,
    max_lsn: u64,
}

impl Window {
    /// An empty window of at most `ids` ids in memory; `dir` takes the spill file.
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: &Path, ids: usize) -> Window {
        let chunks = (ids as u64).div_ceil(CHUNK).max(2);
        let chunk = || Chunk {
            number: AtomicU64::new(NO_CHUNK),
            writers: AtomicU32::new(0),
            entries: OnceLock::new(),
        };
        let spill = Spill {
            disk,
            path: dir.join("xid-window.tmp"),
            file: None,
            chunks: HashMap::new(),
            free: Vec::new(),
            slots: 0,
        };
        Window {
            ring: (0..chunks).map(|_| chunk()).collect(),
            tail: AtomicU64::new(Xid::FIRST.get()),
            spill: Mutex::new(spill),
        }
    }

    /// The first id of the window.
    pub(crate) fn tail(&self) -> Xid {
        Xid::new(self.tail.load(Ordering::Acquire))
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
        let mut spill = self.spill.lock();
        let chunk = self.chunk(number);
        let old = chunk.number.load(Ordering::Acquire);
        if old != NO_CHUNK && old >= number {
            return Ok(());
        }
        let entries = chunk
            .entries
            .get_or_init(|| (0..CHUNK).map(|_| AtomicU64::new(0)).collect());
        // Announce first, then wait for those who may not have seen it.
        chunk.number.store(NO_CHUNK, Ordering::SeqCst);
        while chunk.writers.load(Ordering::SeqCst) != 0 {
            std::thread::yield_now();
        }
        fence(Ordering::SeqCst);
        if old != NO_CHUNK && (old + 1) * CHUNK > self.tail.load(Ordering::SeqCst) {
            let values: Vec<u64> = entries
                .iter()
                .map(|entry| entry.load(Ordering::Relaxed))
                .collect();
            if let Err(error) = spill.put(old, &values) {
                chunk.number.store(old, Ordering::SeqCst);
                return Err(error);
            }
        }
        entries
            .iter()
            .for_each(|entry| entry.store(IN_PROGRESS, Ordering::Relaxed));
        chunk.number.store(number, Ordering::SeqCst);
        Ok(())
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

    /// What is known of an id that was given out.
    pub(crate) fn get(&self, xid: Xid) -> EngineResult<WindowState> {
        let raw = xid.get();
        let value = match self.read_fast(raw) {
            Some(value) => value,
            None => match self.read_slow(raw)? {
                Some(value) => value,
                None => return Ok(WindowState::Below),
            },
        };
        Ok(match value {
            IN_PROGRESS if raw < self.tail.load(Ordering::Acquire) => WindowState::Below,
            IN_PROGRESS => WindowState::InProgress,
            ABORTED => WindowState::Aborted,
            lsn => WindowState::Committed(Lsn(lsn)),
        })
    }

    #[cold]
    fn read_slow(&self, raw: u64) -> EngineResult<Option<u64>> {
        if raw < self.tail.load(Ordering::Acquire) {
            return Ok(None);
        }
        let spill = self.spill.lock();
        // With the mutex held no chunk is being switched.
        if let Some(value) = self.read_fast(raw) {
            return Ok(Some(value));
        }
        match spill.get(raw)? {
            Some(value) => Ok(Some(value)),
            None if raw < self.tail.load(Ordering::Acquire) => Ok(None),
            None => Ok(Some(IN_PROGRESS)),
        }
    }

    /// Notes that `xid` commits with the record at `lsn`. Never waits for a disk.
    pub(crate) fn commit(&self, xid: Xid, lsn: Lsn) {
        self.set(xid.get(), lsn.0);
    }

    /// Notes that `xid` has aborted.
    pub(crate) fn abort(&self, xid: Xid) {
        self.set(xid.get(), ABORTED);
    }

    fn set(&self, xid: u64, value: u64) {
        let number = xid / CHUNK;
        let chunk = self.chunk(number);
        chunk.writers.fetch_add(1, Ordering::SeqCst);
        let here = chunk.number.load(Ordering::SeqCst) == number;
        if here && let Some(entries) = chunk.entries.get() {
            entries[(xid % CHUNK) as usize].store(value, Ordering::Release);
        }
        chunk.writers.fetch_sub(1, Ordering::SeqCst);
        if !here {
            self.set_spilled(xid, value);
        }
    }

    #[cold]
    fn set_spilled(&self, xid: u64, value: u64) {
        let mut spill = self.spill.lock();
        if let Some(chunk) = spill.chunks.get_mut(&(xid / CHUNK)) {
            chunk.late.insert(xid, value);
            if value > ABORTED {
                chunk.max_lsn = chunk.max_lsn.max(value);
            }
            return;
        }
        // The switch that was under way failed, and the chunk is back.
        let chunk = self.chunk(xid / CHUNK);
        if chunk.number.load(Ordering::SeqCst) == xid / CHUNK
            && let Some(entries) = chunk.entries.get()
        {
            entries[(xid % CHUNK) as usize].store(value, Ordering::Release);
        }
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
            let Some(chunk) = spill.chunks.get(&(xid / CHUNK)) else {
                return Xid::new(xid);
            };
            let mut late = chunk.late.range(xid..);
            if let Some((first, _)) = late.find(|(_, value)| undecided(**value)) {
                return Xid::new(*first);
            }
            if chunk.max_lsn > published.0 {
                return Xid::new(xid);
            }
            xid = (xid / CHUNK + 1) * CHUNK;
        }
    }

    /// Moves the tail up: nobody will ask the window for older ids, and the status pages
    /// have them.
    pub(crate) fn advance_tail(&self, tail: Xid) {
        let old = self.tail.fetch_max(tail.get(), Ordering::SeqCst);
        if old / CHUNK < tail.get() / CHUNK {
            self.spill.lock().free_below(tail.get() / CHUNK);
        }
    }

    /// Starts over at `next`, after recovery: everything older is in the status pages.
    pub(crate) fn restart(&self, next: Xid) {
        self.tail.store(next.get(), Ordering::SeqCst);
    }

    /// Chunks in the spill file.
    pub(crate) fn spilled_chunks(&self) -> usize {
        self.spill.lock().chunks.len()
    }
}

impl Spill {
    fn file(&mut self) -> EngineResult<Arc<dyn File>> {
        if let Some(file) = &self.file {
            return Ok(Arc::clone(file));
        }
        let options = OpenOptions::create().truncate();
        let file = self
            .disk
            .open(&self.path, options)
            .map_err(StorageError::from)?;
        self.file = Some(Arc::clone(&file));
        Ok(file)
    }

    fn put(&mut self, number: u64, values: &[u64]) -> EngineResult<()> {
        let file = self.file()?;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        });
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        if let Err(error) = file.write_all_at(&bytes, slot * CHUNK_BYTES as u64) {
            self.free.push(slot);
            return Err(StorageError::from(error).into());
        }
        let ids = number * CHUNK..;
        let late = ids.zip(values).filter(|(_, value)| **value == IN_PROGRESS);
        let late = late.map(|(xid, _)| (xid, IN_PROGRESS)).collect();
        let committed = values.iter().copied().filter(|value| *value > ABORTED);
        let max_lsn = committed.max().unwrap_or(0);
        self.chunks.insert(
            number,
            SpilledChunk {
                slot,
                late,
                max_lsn,
            },
        );
        Ok(())
    }

    fn get(&self, xid: u64) -> EngineResult<Option<u64>> {
        let Some(chunk) = self.chunks.get(&(xid / CHUNK)) else {
            return Ok(None);
        };
        if let Some(value) = chunk.late.get(&xid) {
            return Ok(Some(*value));
        }
        let Some(file) = &self.file else {
            return Ok(None);
        };
        let mut bytes = [0; 8];
        let offset = chunk.slot * CHUNK_BYTES as u64 + xid % CHUNK * 8;
        file.read_exact_at(&mut bytes, offset)
            .map_err(StorageError::from)?;
        Ok(Some(u64::from_le_bytes(bytes)))
    }

    fn free_below(&mut self, number: u64) {
        let Spill { chunks, free, .. } = self;
        chunks.retain(|chunk, spilled| {
            if *chunk < number {
                free.push(spilled.slot);
            }
            *chunk >= number
        });
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // Left behind it would do no harm: the next start truncates it.
            let _ = self.disk.remove(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_io::SimDisk;

    fn window(ids: usize) -> Window {
        let disk = Arc::new(SimDisk::new(1));
        disk.create_dir_all(Path::new("/db")).unwrap();
        Window::new(disk, Path::new("/db"), ids)
    }

    fn state(window: &Window, xid: u64) -> WindowState {
        window.get(Xid::new(xid)).unwrap()
    }

    #[test]
    fn what_was_stored_is_found_until_the_tail_passes() {
        let window = window(2 * CHUNK as usize);
        for xid in 3..100 {
            window.prepare(xid).unwrap();
            assert_eq!(state(&window, xid), WindowState::InProgress);
        }
        window.commit(Xid::new(7), Lsn(800));
        window.abort(Xid::new(8));
        assert_eq!(state(&window, 7), WindowState::Committed(Lsn(800)));
        assert_eq!(state(&window, 8), WindowState::Aborted);
        window.advance_tail(Xid::new(50));
        assert_eq!(state(&window, 9), WindowState::Below);
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
                    0 if xid < late => WindowState::Committed(Lsn(1_000_000 + xid)),
                    0 => WindowState::InProgress,
                    1 => WindowState::Aborted,
                    _ => WindowState::Committed(Lsn(xid * 10)),
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
        assert_eq!(state(&window, 7), WindowState::Below);
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
                        assert_eq!(state(window, xid), WindowState::InProgress);
                        window.commit(Xid::new(xid), Lsn(xid + 1_000_000));
                        let expected = WindowState::Committed(Lsn(xid + 1_000_000));
                        assert_eq!(state(window, xid), expected);
                        xid += 2;
                    }
                });
            }
        });
        for xid in 3..end {
            assert_eq!(
                state(&window, xid),
                WindowState::Committed(Lsn(xid + 1_000_000))
            );
        }
    }

    #[test]
    fn a_failed_spill_leaves_the_chunk_where_it_was() {
        let disk = SimDisk::new(1);
        disk.create_dir_all(Path::new("/db")).unwrap();
        let window = Window::new(Arc::new(disk.clone()), Path::new("/db"), 2 * CHUNK as usize);
        for xid in 3..2 * CHUNK {
            window.prepare(xid).unwrap();
            window.abort(Xid::new(xid));
        }
        let fault = evenkeel_io::Fault::nth(1, evenkeel_io::FaultKind::Enospc);
        disk.inject(fault.on(evenkeel_io::OpKind::Write));
        assert!(window.prepare(2 * CHUNK).is_err());
        assert_eq!(state(&window, 3), WindowState::Aborted);
        window.prepare(2 * CHUNK).unwrap();
        assert_eq!(state(&window, 3), WindowState::Aborted);
        assert_eq!(window.spilled_chunks(), 1);
    }
}
