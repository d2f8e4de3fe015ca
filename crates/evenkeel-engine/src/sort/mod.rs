//! Sorting index entries: in memory up to a limit, beyond it in runs on disk that are merged.

mod memory;
mod run;

use std::path::Path;
use std::sync::Arc;

use evenkeel_io::Disk;
use evenkeel_storage::store::Store;
use evenkeel_storage::{BlockNumber, StorageError};

use crate::error::{EngineError, EngineResult};
use crate::memory::Reservation;
use crate::temp::WorkLimits;
use crate::ticket::CancelFlag;
use crate::types::Tid;
use memory::{ITEM_BYTES, InMemory, head_of};
use run::{Run, RunWriter};

/// So many runs on disk become one.
const FAN_IN: usize = 32;
/// Entries moved between two looks at whether the statement is cancelled.
const CANCEL_EVERY: u32 = 1 << 12;
/// Entries added between two such looks.
const CANCEL_EVERY_ADDED: usize = 1 << 16;
/// Names of temporary files start like this.
const TEMPORARY_PREFIX: &str = "sort.tmp.";

/// An index entry that was read from a run.
struct SortedEntry {
    /// The key.
    pub key: Vec<u8>,
    /// The row.
    pub tid: Tid,
    /// A bit pattern of the caller's.
    pub tag: u8,
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

/// Sorted entries that are merged with others, at one of them.
enum Source {
    /// Those in memory, at one that begins so.
    Memory(usize, u64),
    /// A run, at the entry that was read from it, which begins so.
    Disk(Run, u64, SortedEntry),
}

fn io(error: evenkeel_io::IoError) -> EngineError {
    StorageError::from(error).into()
}

impl Source {
    /// The sorted entries in memory from the first one on; none if there are none.
    fn of_memory(memory: &InMemory) -> Option<Source> {
        (!memory.is_empty()).then(|| Source::Memory(0, head_of(memory.entry(0).0, 0)))
    }

    /// A run from its first entry on; none for one without.
    fn of_run(mut run: Run) -> EngineResult<Option<Source>> {
        let mut first = SortedEntry {
            key: Vec::new(),
            tid: Tid::new(BlockNumber(0), 0),
            tag: 0,
        };
        let any = run.next(&mut first)?;
        Ok(any.then(|| Source::Disk(run, head_of(&first.key, 0), first)))
    }

    fn head(&self) -> u64 {
        match self {
            Source::Memory(_, head) | Source::Disk(_, head, _) => *head,
        }
    }

    fn entry<'a>(&'a self, memory: &'a InMemory) -> (&'a [u8], Tid, u8) {
        match self {
            Source::Memory(at, _) => memory.entry(*at),
            Source::Disk(_, _, entry) => (&entry.key, entry.tid, entry.tag),
        }
    }

    /// Goes to the next entry; false behind the last.
    fn advance(&mut self, memory: &InMemory) -> EngineResult<bool> {
        match self {
            Source::Memory(at, head) => {
                *at += 1;
                if *at == memory.len() {
                    return Ok(false);
                }
                *head = head_of(memory.entry(*at).0, 0);
            }
            Source::Disk(run, head, entry) => {
                if !run.next(entry)? {
                    return Ok(false);
                }
                *head = head_of(&entry.key, 0);
            }
        }
        Ok(true)
    }
}

/// Moves an element of a heap of sources, the least first, down to its place.
fn sift(heap: &mut [usize], mut at: usize, sources: &[Source], memory: &InMemory) {
    let less = |a: usize, b: usize| {
        let (a, b) = (&sources[a], &sources[b]);
        if a.head() != b.head() {
            return a.head() < b.head();
        }
        let (a, b) = (a.entry(memory), b.entry(memory));
        (a.0, a.1) < (b.0, b.1)
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
        let (key, tid, tag) = sources[least].entry(memory);
        each(key, tid, tag)?;
        if !sources[least].advance(memory)? {
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

    /// Makes room for so many entries with keys as long as the one that was added first, as far as
    /// they stay in memory: growing piece by piece would copy all of them time and again.
    pub fn expect(&mut self, entries: usize) {
        if self.memory.is_empty() {
            return;
        }
        let key = self.memory.entry(0).0.len();
        let entries = entries.min(self.most() / (key + ITEM_BYTES));
        self.memory.expect(entries, entries * key);
    }

    /// Bytes in memory before a run is written.
    fn most(&self) -> usize {
        // Offsets into the arena are 32 bits.
        self.limits.bytes.min(1 << 31)
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
        let limit = self.most();
        let bytes = key.len() + ITEM_BYTES;
        let full =
            self.reservation.bytes() + bytes > limit || self.reservation.grow(bytes).is_err();
        if full {
            self.spill()?;
            self.reservation.grow(bytes)?;
        }
        self.memory.push(key, length, tid, tag);
        if self.memory.len().is_multiple_of(CANCEL_EVERY_ADDED) {
            self.cancel.check()?;
        }
        Ok(())
    }

    /// Writes the entries in memory to disk as one sorted run.
    fn spill(&mut self) -> EngineResult<()> {
        if self.memory.is_empty() {
            return Ok(());
        }
        self.memory.sort(&self.cancel)?;
        let mut writer = RunWriter::create(&self.store, &self.limits.files)?;
        let put = &mut |key: &[u8], tid, tag| writer.put(key, tid, tag);
        self.memory.each(&self.cancel, put)?;
        let run = writer.finish()?;
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
        self.memory.sort(&self.cancel)?;
        if self.runs.is_empty() {
            return self.memory.each(&self.cancel, each);
        }
        let mut sources: Vec<Source> = Source::of_memory(&self.memory).into_iter().collect();
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
