//! Sorting index entries: in memory up to a limit, beyond it in runs on disk that are merged.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_io::{Disk, File, OpenOptions};
use evenkeel_storage::store::Store;
use evenkeel_storage::{BlockNumber, StorageError};

use crate::error::{EngineError, EngineResult};
use crate::memory::Reservation;
use crate::temp::{TempQuota, WorkLimits};
use crate::ticket::CancelFlag;
use crate::types::Tid;

/// Bytes read from a run, or written to it, at once.
const CHUNK: usize = 64 << 10;
/// Entries that are sorted at once, in some ten milliseconds.
const PIECE: usize = 1 << 16;
/// So many runs on disk become one.
const FAN_IN: usize = 32;
/// Entries moved between two looks at whether the statement is cancelled.
const CANCEL_EVERY: u32 = 1 << 12;
/// Bytes of an entry in a run besides its key.
const ENTRY_HEADER: usize = 9;

/// An index entry to be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SortedEntry {
    /// The key.
    pub key: Vec<u8>,
    /// The row.
    pub tid: Tid,
    /// A bit pattern of the caller's.
    pub tag: u8,
}

/// One entry in memory; its key is in the arena. The key's first bytes decide most comparisons
/// without a look there.
struct Item {
    prefix: u64,
    start: u32,
    length: u16,
    tag: u8,
    tid: Tid,
}

/// Sorts entries by key, then by place. No step takes long: it is noticed to be cancelled between
/// any two entries that it moves.
pub(crate) struct KeySorter {
    store: Arc<Store>,
    limits: WorkLimits,
    cancel: CancelFlag,
    reservation: Reservation,
    memory: InMemory,
    /// Runs on disk, each with its level: those of the same level have about as many entries.
    runs: Vec<(Run, u32)>,
}

/// Entries in memory.
#[derive(Default)]
struct InMemory {
    arena: Vec<u8>,
    items: Vec<Item>,
    /// Where each sorted piece of `items` ends; those behind the last are not sorted yet.
    ends: Vec<usize>,
}

/// Sorted entries that are merged with others, at one of them.
enum Source {
    /// A piece of those in memory: the entry, and the piece's end.
    Memory(usize, usize),
    /// A run, and the entry that was read from it.
    Disk(Run, u64, SortedEntry),
}

fn prefix_of(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let n = key.len().min(8);
    bytes[..n].copy_from_slice(&key[..n]);
    u64::from_be_bytes(bytes)
}

fn io(error: evenkeel_io::IoError) -> EngineError {
    StorageError::from(error).into()
}

impl InMemory {
    fn key(&self, item: &Item) -> &[u8] {
        let start = item.start as usize;
        &self.arena[start..start + usize::from(item.length)]
    }

    fn unsorted(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Sorts the entries that came since the last piece.
    fn sort_piece(&mut self) {
        let from = self.unsorted();
        if from == self.items.len() {
            return;
        }
        let mut items = std::mem::take(&mut self.items);
        items[from..].sort_unstable_by(|a, b| {
            let by_key = || self.key(a).cmp(self.key(b)).then(a.tid.cmp(&b.tid));
            a.prefix.cmp(&b.prefix).then_with(by_key)
        });
        self.items = items;
        self.ends.push(self.items.len());
    }

    fn pieces(&mut self) -> Vec<Source> {
        self.sort_piece();
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let pieces = starts.zip(self.ends.iter().copied());
        pieces
            .map(|(start, end)| Source::Memory(start, end))
            .collect()
    }
}

impl Source {
    /// A run from its first entry on; none for one without.
    fn of_run(mut run: Run) -> EngineResult<Option<Source>> {
        let first = run.next()?;
        Ok(first.map(|entry| Source::Disk(run, prefix_of(&entry.key), entry)))
    }

    fn entry<'a>(&'a self, memory: &'a InMemory) -> (u64, &'a [u8], Tid, u8) {
        match self {
            Source::Memory(at, _) => {
                let item = &memory.items[*at];
                (item.prefix, memory.key(item), item.tid, item.tag)
            }
            Source::Disk(_, prefix, entry) => (*prefix, &entry.key, entry.tid, entry.tag),
        }
    }

    /// Goes to the next entry; false behind the last.
    fn advance(&mut self) -> EngineResult<bool> {
        match self {
            Source::Memory(at, end) => {
                *at += 1;
                Ok(*at < *end)
            }
            Source::Disk(run, prefix, entry) => {
                let Some(next) = run.next()? else {
                    return Ok(false);
                };
                *prefix = prefix_of(&next.key);
                *entry = next;
                Ok(true)
            }
        }
    }
}

/// Moves an element of a heap of sources, the least first, down to its place.
fn sift(heap: &mut [usize], mut at: usize, sources: &[Source], memory: &InMemory) {
    let less = |a: usize, b: usize| {
        let (a, b) = (sources[a].entry(memory), sources[b].entry(memory));
        (a.0, a.1, a.2) < (b.0, b.1, b.2)
    };
    loop {
        let mut least = at;
        for child in [2 * at + 1, 2 * at + 2] {
            if child < heap.len() && less(heap[child], heap[least]) {
                least = child;
            }
        }
        if least == at {
            return;
        }
        heap.swap(at, least);
        at = least;
    }
}

/// Hands the entries of all sources over in order.
fn merge(
    memory: &InMemory,
    mut sources: Vec<Source>,
    cancel: &CancelFlag,
    each: &mut dyn FnMut(&[u8], Tid, u8) -> EngineResult<()>,
) -> EngineResult<()> {
    let mut heap: Vec<usize> = (0..sources.len()).collect();
    for at in (0..heap.len() / 2).rev() {
        sift(&mut heap, at, &sources, memory);
    }
    let mut moved = 0u32;
    while let Some(least) = heap.first().copied() {
        moved = moved.wrapping_add(1);
        if moved.is_multiple_of(CANCEL_EVERY) {
            cancel.check()?;
        }
        let (_, key, tid, tag) = sources[least].entry(memory);
        each(key, tid, tag)?;
        if !sources[least].advance()? {
            heap.swap_remove(0);
        }
        sift(&mut heap, 0, &sources, memory);
    }
    Ok(())
}

impl KeySorter {
    /// A sorter within these limits; runs go to temporary files of the data directory.
    pub fn new(store: &Arc<Store>, limits: WorkLimits, cancel: &CancelFlag) -> KeySorter {
        KeySorter {
            store: Arc::clone(store),
            reservation: Reservation::new(&limits.memory),
            limits,
            cancel: cancel.clone(),
            memory: InMemory::default(),
            runs: Vec::new(),
        }
    }

    /// Adds an entry. The key is at most `u16::MAX` bytes.
    ///
    /// # Errors
    /// 53200, 53400, 57014; those of temporary files.
    pub fn add(&mut self, key: &[u8], tid: Tid, tag: u8) -> EngineResult<()> {
        let Ok(length) = u16::try_from(key.len()) else {
            return Err(EngineError::KeyTooLarge {
                index: String::new(),
                size: key.len(),
                max: crate::btree::MAX_KEY_LEN,
            });
        };
        // Offsets into the arena are 32 bits.
        let limit = self.limits.bytes.min(1 << 31);
        let bytes = key.len() + size_of::<Item>();
        let full =
            self.reservation.bytes() + bytes > limit || self.reservation.grow(bytes).is_err();
        if full {
            self.spill()?;
            self.reservation.grow(bytes)?;
        }
        let memory = &mut self.memory;
        let start = memory.arena.len() as u32;
        memory.arena.extend_from_slice(key);
        memory.items.push(Item {
            prefix: prefix_of(key),
            start,
            length,
            tag,
            tid,
        });
        if memory.items.len() - memory.unsorted() >= PIECE {
            self.cancel.check()?;
            memory.sort_piece();
        }
        Ok(())
    }

    /// Writes the entries in memory to disk as one sorted run.
    fn spill(&mut self) -> EngineResult<()> {
        if self.memory.items.is_empty() {
            return Ok(());
        }
        let pieces = self.memory.pieces();
        let run = self.run_of(pieces)?;
        self.memory = InMemory::default();
        self.reservation.shrink(usize::MAX);
        self.add_run(run, 0)
    }

    fn run_of(&self, sources: Vec<Source>) -> EngineResult<Run> {
        let mut writer = RunWriter::create(&self.store, &self.limits.files)?;
        let put = &mut |key: &[u8], tid, tag| writer.put(key, tid, tag);
        merge(&self.memory, sources, &self.cancel, put)?;
        writer.finish()
    }

    /// Adds a run. Many of its level become one: few files are open at once.
    fn add_run(&mut self, mut run: Run, mut level: u32) -> EngineResult<()> {
        loop {
            self.runs.push((run, level));
            let same = self.runs.iter().rev().take_while(|run| run.1 == level);
            if same.count() < FAN_IN {
                return Ok(());
            }
            let runs = self.runs.split_off(self.runs.len() - FAN_IN);
            let sources = runs.into_iter().map(|(run, _)| Source::of_run(run));
            let sources: EngineResult<Vec<_>> = sources.filter_map(Result::transpose).collect();
            run = self.run_of(sources?)?;
            level += 1;
        }
    }

    /// Hands all entries over in order.
    ///
    /// # Errors
    /// As [`KeySorter::add`]; those of `each`.
    pub fn finish(
        mut self,
        each: &mut dyn FnMut(&[u8], Tid, u8) -> EngineResult<()>,
    ) -> EngineResult<()> {
        let mut sources = self.memory.pieces();
        for (run, _) in std::mem::take(&mut self.runs) {
            sources.extend(Source::of_run(run)?);
        }
        merge(&self.memory, sources, &self.cancel, each)
    }
}

/// Removes the runs that a process which ended in the middle of a sort has left in `dir`.
pub(crate) fn remove_leftovers(disk: &dyn Disk, dir: &Path) -> EngineResult<()> {
    for name in disk.list(dir).map_err(io)? {
        if name.starts_with(TEMPORARY_PREFIX) {
            disk.remove(&dir.join(name)).map_err(io)?;
        }
    }
    Ok(())
}

struct RunWriter {
    run: Run,
    buffer: Vec<u8>,
}

impl RunWriter {
    fn create(store: &Store, files: &Arc<TempQuota>) -> EngineResult<RunWriter> {
        let disk = store.disk();
        let path = store
            .dir()
            .join(format!("{TEMPORARY_PREFIX}{:016x}", disk.random_u64()));
        let options = OpenOptions {
            read: true,
            write: true,
            create_new: true,
            ..OpenOptions::default()
        };
        let file = store.open_temporary(&path, options)?;
        let run = Run {
            disk: Arc::clone(disk),
            files: Arc::clone(files),
            path,
            file,
            length: 0,
            offset: 0,
            buffer: Vec::new(),
            at: 0,
        };
        Ok(RunWriter {
            run,
            buffer: Vec::with_capacity(CHUNK + (8 << 10)),
        })
    }

    fn put(&mut self, key: &[u8], tid: Tid, tag: u8) -> EngineResult<()> {
        self.buffer
            .extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.buffer.extend_from_slice(&tid.block.0.to_le_bytes());
        self.buffer.extend_from_slice(&tid.slot.to_le_bytes());
        self.buffer.push(tag);

        self.buffer.extend_from_slice(key);
        if self.buffer.len() >= CHUNK {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> EngineResult<()> {
        let (run, bytes) = (&mut self.run, self.buffer.len() as u64);
        run.files.take(bytes)?;
        let written = run.file.write_all_at(&self.buffer, run.length);
        // Given back with the run, written or not.
        run.length += bytes;
        written.map_err(io)?;
        self.buffer.clear();
        Ok(())
    }

    fn finish(mut self) -> EngineResult<Run> {
        self.flush()?;
        Ok(self.run)
    }
}

/// Names of temporary files start like this.
const TEMPORARY_PREFIX: &str = "sort.tmp.";

/// A sorted run in a temporary file, removed when this is dropped.
struct Run {
    disk: Arc<dyn Disk>,
    files: Arc<TempQuota>,
    path: PathBuf,
    file: Arc<dyn File>,
    length: u64,
    offset: u64,
    buffer: Vec<u8>,
    at: usize,
}

impl Run {
    fn next(&mut self) -> EngineResult<Option<SortedEntry>> {
        if !self.want(ENTRY_HEADER)? {
            return Ok(None);
        }
        let head = &self.buffer[self.at..self.at + ENTRY_HEADER];
        let length = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let block = u32::from_le_bytes([head[2], head[3], head[4], head[5]]);
        let slot = u16::from_le_bytes([head[6], head[7]]);
        let tag = head[8];
        if !self.want(ENTRY_HEADER + length)? {
            let what = format!("{} ends within an entry", self.path.display());
            return Err(EngineError::corrupted(what));
        }
        let start = self.at + ENTRY_HEADER;
        let key = self.buffer[start..start + length].to_vec();
        self.at = start + length;
        Ok(Some(SortedEntry {
            key,
            tid: Tid::new(BlockNumber(block), slot),
            tag,
        }))
    }

    /// Makes sure of `n` bytes in the buffer; false when the run ends before.
    fn want(&mut self, n: usize) -> EngineResult<bool> {
        if self.buffer.len() - self.at >= n {
            return Ok(true);
        }
        self.buffer.drain(..self.at);
        self.at = 0;
        let left = self.length - self.offset;
        let more = (CHUNK.max(n) as u64).min(left) as usize;
        let start = self.buffer.len();
        self.buffer.resize(start + more, 0);
        self.file
            .read_exact_at(&mut self.buffer[start..], self.offset)
            .map_err(io)?;
        self.offset += more as u64;
        Ok(self.buffer.len() >= n)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.files.give_back(self.length);
        if let Err(error) = self.disk.remove(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "temporary file stays");
        }
    }
}
