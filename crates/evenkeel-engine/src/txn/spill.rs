//! The chunks of the window that have left memory.
//!
//! [`Spill`] hands out places in the file; [`read`] and [`write`] use them without the mutex
//! around it.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_io::File;
use evenkeel_storage::StorageError;

use crate::error::EngineResult;

/// Ids in a chunk.
pub(super) const CHUNK: u64 = 4096;
/// The value of an id that is not decided.
pub(super) const IN_PROGRESS: u64 = 0;
/// The value of an id that has aborted; that of one that has committed is its commit LSN.
pub(super) const ABORTED: u64 = 1;

const CHUNK_BYTES: usize = CHUNK as usize * 8;
/// Chunks read back that are kept. More than the ids on one page can need, so that a visit of a
/// page that is repeated for each chunk it misses comes to its end.
const KEPT: usize = 512;

#[derive(Default)]
pub(super) struct Spill {
    chunks: HashMap<u64, SpilledChunk>,
    free: Vec<u64>,
    slots: u64,
    /// Chunks read back, in the order in which they were.
    kept: HashMap<u64, Box<[u64]>>,
    order: VecDeque<u64>,
    /// Chunks that the background thread is to read back.
    pub(super) wanted: BTreeSet<u64>,
}

struct SpilledChunk {
    slot: u64,
    /// Ids that were undecided when the chunk was written, and what became of them since.
    late: BTreeMap<u64, Arc<AtomicU64>>,
    /// The greatest commit LSN in the file.
    most: u64,
}

/// A chunk in the spill file, with the values that the file has.
pub(super) struct Written {
    pub(super) slot: u64,
    pub(super) values: Box<[u64]>,
}

/// Where the value of an id is.
pub(super) enum InSpill {
    Value(u64),
    /// In the file, not in memory.
    InFile,
    Nowhere,
}

/// Writes a chunk.
pub(super) fn write(file: &dyn File, slot: u64, values: &[u64]) -> EngineResult<()> {
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    file.write_all_at(&bytes, slot * CHUNK_BYTES as u64)
        .map_err(StorageError::from)?;
    Ok(())
}

/// Reads a chunk.
pub(super) fn read(file: &dyn File, slot: u64) -> EngineResult<Box<[u64]>> {
    let mut bytes = vec![0; CHUNK_BYTES];
    file.read_exact_at(&mut bytes, slot * CHUNK_BYTES as u64)
        .map_err(StorageError::from)?;
    let (values, _) = bytes.as_chunks();
    Ok(values
        .iter()
        .map(|value| u64::from_le_bytes(*value))
        .collect())
}

impl Spill {
    pub(super) fn len(&self) -> usize {
        self.chunks.len()
    }

    /// A place in the file for a chunk.
    pub(super) fn reserve(&mut self) -> u64 {
        self.free.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        })
    }

    pub(super) fn give_back(&mut self, slot: u64) {
        self.free.push(slot);
    }

    /// Takes over a chunk from the ring, where nothing is stored any more. Ids that the file has as
    /// in progress are kept in memory, because it will not have their outcome.
    pub(super) fn add(&mut self, number: u64, written: &Written, entries: &[AtomicU64]) {
        let ids = (number * CHUNK..).zip(written.values.iter().zip(entries));
        let late = ids.filter(|(_, (value, _))| **value == IN_PROGRESS);
        let late = late.map(|(xid, (_, entry))| {
            let now = entry.load(Ordering::Acquire);
            (xid, Arc::new(AtomicU64::new(now)))
        });
        let values = written.values.iter().copied();
        let chunk = SpilledChunk {
            slot: written.slot,
            late: late.collect(),
            most: values.filter(|value| *value > ABORTED).max().unwrap_or(0),
        };
        self.chunks.insert(number, chunk);
    }

    pub(super) fn get(&self, xid: u64) -> InSpill {
        let number = xid / CHUNK;
        let Some(chunk) = self.chunks.get(&number) else {
            return InSpill::Nowhere;
        };
        if let Some(value) = chunk.late.get(&xid) {
            return InSpill::Value(value.load(Ordering::Acquire));
        }
        match self.kept.get(&number) {
            Some(values) => InSpill::Value(values[(xid % CHUNK) as usize]),
            None => InSpill::InFile,
        }
    }

    /// The greatest commit LSN in a spilled chunk, or zero.
    pub(super) fn most(&self, number: u64) -> u64 {
        self.chunks.get(&number).map_or(0, |chunk| {
            let late = chunk.late.values();
            let late = late.map(|value| value.load(Ordering::Acquire));
            late.filter(|value| *value > ABORTED)
                .fold(chunk.most, u64::max)
        })
    }

    /// Where an undecided id of a spilled chunk will be noted.
    pub(super) fn late(&self, xid: u64) -> Option<Arc<AtomicU64>> {
        self.chunks.get(&(xid / CHUNK))?.late.get(&xid).cloned()
    }

    /// The first id from `xid` on, in its chunk, that is in progress or committed beyond
    /// `published`, or `xid` if that is not known.
    pub(super) fn undecided(&self, xid: u64, published: u64) -> Option<u64> {
        let Some(chunk) = self.chunks.get(&(xid / CHUNK)) else {
            return Some(xid);
        };
        let undecided = |value: &AtomicU64| {
            let value = value.load(Ordering::Acquire);
            value == IN_PROGRESS || value > published
        };
        let mut late = chunk.late.range(xid..);
        match late.find(|(_, value)| undecided(value)) {
            Some((first, _)) => Some(*first),
            None => (chunk.most > published).then_some(xid),
        }
    }

    /// Where in the file a chunk is, if it is to be read back.
    pub(super) fn place(&self, number: u64) -> Option<u64> {
        if self.kept.contains_key(&number) {
            return None;
        }
        self.chunks.get(&number).map(|chunk| chunk.slot)
    }

    /// Keeps a chunk that was read back, unless its place was given to another one meanwhile.
    pub(super) fn keep(&mut self, number: u64, slot: u64, values: Box<[u64]>) {
        if self
            .chunks
            .get(&number)
            .is_none_or(|chunk| chunk.slot != slot)
            || self.kept.insert(number, values).is_some()
        {
            return;
        }
        self.order.push_back(number);
        if self.order.len() > KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.kept.remove(&oldest);
        }
    }

    pub(super) fn free_below(&mut self, number: u64) {
        let Spill { chunks, free, .. } = self;
        chunks.retain(|chunk, spilled| {
            if *chunk < number {
                free.push(spilled.slot);
            }
            *chunk >= number
        });
        self.kept.retain(|chunk, _| *chunk >= number);
        self.order.retain(|chunk| *chunk >= number);
    }
}
