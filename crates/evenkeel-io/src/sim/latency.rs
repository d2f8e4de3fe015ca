//! How long operations take.

use std::collections::{BTreeMap, BTreeSet};

use super::blocks::{BLOCK, block_number};
use super::state::Ino;

/// The cost of operations in microseconds.
///
/// Buffered writes cost nothing; a sync pays for the runs of blocks they left, unless
/// [`crate::File::start_writeback`] has covered them: then [`crate::File::await_writeback`] does,
/// if anyone calls it. Reads and direct writes pay at once; going
/// on where the last one ended saves the access time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencyModel {
    /// Per access that does not follow on the one before.
    pub access: u64,
    /// Per MiB moved.
    pub per_mib: u64,
    /// Per sync of a file or directory.
    pub flush: u64,
    /// Operations served at the same time.
    pub parallel: usize,
}

impl LatencyModel {
    /// A disk with heads: about 120 accesses per second, 150 MiB/s.
    pub const fn spinning() -> Self {
        Self {
            access: 8_000,
            per_mib: 6_700,
            flush: 8_000,
            parallel: 1,
        }
    }

    /// A volume over a network: slow to answer, but many at a time.
    pub const fn network() -> Self {
        Self {
            access: 700,
            per_mib: 4_000,
            flush: 1_000,
            parallel: 32,
        }
    }

    /// A local flash device.
    pub const fn nvme() -> Self {
        Self {
            access: 80,
            per_mib: 350,
            flush: 300,
            parallel: 64,
        }
    }

    fn transfer(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(self.per_mib) >> 20
    }
}

/// The effect of an operation's cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatencyMode {
    /// Advances the simulated clock.
    Virtual,
    /// Also makes the caller sleep, while at most [`LatencyModel::parallel`] are served.
    Sleep,
}

/// The model in force and what it needs to remember.
pub(crate) struct Device {
    pub(crate) model: LatencyModel,
    pub(crate) mode: LatencyMode,
    head: Option<(Ino, u64)>,
    dirty: BTreeMap<Ino, BTreeSet<u64>>,
    /// Blocks being written back, paid for by who waits for them.
    in_write_back: BTreeMap<Ino, BTreeSet<u64>>,
}

impl Device {
    pub(crate) fn new(model: LatencyModel, mode: LatencyMode) -> Self {
        Self {
            model,
            mode,
            head: None,
            dirty: BTreeMap::new(),
            in_write_back: BTreeMap::new(),
        }
    }

    /// Cost of moving bytes now.
    pub(crate) fn access(&mut self, ino: Ino, offset: u64, len: u64) -> u64 {
        let follows = self.head == Some((ino, offset));
        self.head = Some((ino, offset.saturating_add(len)));
        self.model.transfer(len) + if follows { 0 } else { self.model.access }
    }

    /// Remembers blocks that a sync will have to write.
    pub(crate) fn dirty(&mut self, ino: Ino, offset: u64, len: u64) {
        if len > 0 {
            let last = block_number(offset.saturating_add(len - 1));
            self.dirty
                .entry(ino)
                .or_default()
                .extend(block_number(offset)..=last);
        }
    }

    /// The system writes a range back by itself.
    pub(crate) fn written_back(&mut self, ino: Ino, offset: u64, len: u64) {
        if let Some(dirty) = self.dirty.get_mut(&ino) {
            let end = block_number(offset.saturating_add(len));
            let taken = dirty.extract_if(block_number(offset)..end, |_| true);
            self.in_write_back.entry(ino).or_default().extend(taken);
        }
    }

    /// Cost of waiting for a range to have been written back.
    pub(crate) fn await_writeback(&mut self, ino: Ino, offset: u64, len: u64) -> u64 {
        self.written_back(ino, offset, len);
        let end = block_number(offset.saturating_add(len));
        let blocks: BTreeSet<u64> = match self.in_write_back.get_mut(&ino) {
            Some(all) => all
                .extract_if(block_number(offset)..end, |_| true)
                .collect(),
            None => return 0,
        };
        self.head = None;
        self.write_cost(&blocks)
    }

    /// An access for each run of blocks, and their transfer.
    fn write_cost(&self, blocks: &BTreeSet<u64>) -> u64 {
        let starts = blocks
            .iter()
            .filter(|&&b| b == 0 || !blocks.contains(&(b - 1)))
            .count();
        self.model.access * starts as u64 + self.model.transfer((blocks.len() * BLOCK) as u64)
    }

    /// Cost of a sync.
    pub(crate) fn sync(&mut self, ino: Option<Ino>) -> u64 {
        let blocks = ino
            .and_then(|ino| self.dirty.remove(&ino))
            .unwrap_or_default();
        if let Some(ino) = ino {
            self.in_write_back.remove(&ino);
        }
        self.head = None;
        self.model.flush + self.write_cost(&blocks)
    }
}
