//! Looking ahead of redo for the pages it will need, and reading them meanwhile (T. Vondra,
//! “WAL prefetch”, pgsql-hackers, 2018; T. Munro's lookahead in PostgreSQL 15).

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::buffer::{BufferPool, ForkHandle, Prefetcher};
use crate::error::StorageResult;
use crate::ids::{FileId, Fork, Lsn, PageId};
use crate::recovery::LogScan;
use crate::wal::reader::LogReader;
use crate::wal::record::{PartFlags, PartView};

/// What has become of the pages that redo was going to need (`pg_stat_recovery_prefetch`).
#[derive(Clone, Copy, Debug, Default)]
pub struct PrefetchStats {
    /// Asked for ahead of use.
    pub prefetch: u64,
    /// In the pool already.
    pub hit: u64,
    /// To be initialised, so not read.
    pub skip_init: u64,
    /// Behind the end of their fork.
    pub skip_new: u64,
    /// To be replaced by an image in the log, so not read.
    pub skip_fpw: u64,
    /// Asked for already, and not read yet.
    pub skip_rep: u64,
}

/// Handles resolved once; redo touches few files very often.
pub(super) struct Forks<'a> {
    pool: &'a BufferPool,
    known: HashMap<(FileId, Fork), Arc<ForkHandle>>,
}

impl<'a> Forks<'a> {
    pub(super) fn new(pool: &'a BufferPool) -> Forks<'a> {
        Forks {
            pool,
            known: HashMap::new(),
        }
    }

    /// The fork; one that has no file yet is empty.
    pub(super) fn get(&mut self, file: FileId, fork: Fork) -> StorageResult<&Arc<ForkHandle>> {
        match self.known.entry((file, fork)) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(vacant) => Ok(vacant.insert(self.pool.fork(file, fork)?)),
        }
    }

    /// Lets go of a file that is dropped.
    pub(super) fn forget(&mut self, file: FileId) {
        self.known.retain(|(known, _), _| *known != file);
    }
}

/// The look ahead of one redo: at most `depth` pages are asked for whose records are still to
/// be replayed.
pub(super) struct LookAhead {
    reads: Prefetcher,
    depth: usize,
    /// Next record to look at.
    at: Lsn,
    /// What was asked for, and by which record, oldest first.
    asked: VecDeque<(Lsn, PageId)>,
    /// Whether the log goes on behind what is in memory.
    more: bool,
    pub(super) stats: PrefetchStats,
}

impl LookAhead {
    pub(super) fn new(reads: Prefetcher) -> LookAhead {
        LookAhead {
            depth: reads.depth(),
            reads,
            at: Lsn::ZERO,
            asked: VecDeque::new(),
            more: true,
            stats: PrefetchStats::default(),
        }
    }

    /// To be called before each record: looks on once half of what was asked for is used, so
    /// that requests go out in groups.
    #[inline]
    pub(super) fn before(
        &mut self,
        reader: &mut LogReader,
        forks: &mut Forks<'_>,
        scan: &LogScan,
    ) -> StorageResult<()> {
        while self
            .asked
            .front()
            .is_some_and(|(lsn, _)| *lsn < reader.position())
        {
            self.asked.pop_front();
        }
        if self.asked.len() <= self.depth / 2 && self.at < scan.end {
            self.look(reader, forks, scan)?;
        }
        Ok(())
    }

    fn look(
        &mut self,
        reader: &mut LogReader,
        forks: &mut Forks<'_>,
        scan: &LogScan,
    ) -> StorageResult<()> {
        if self.more {
            self.more = reader.read_on()?;
        }
        self.at = self.at.max(reader.position());
        while self.asked.len() < self.depth
            && self.at < scan.end
            && let Some(record) = reader.peek(self.at)
        {
            for part in record.parts() {
                self.part(record.lsn(), &part, forks, scan)?;
            }
            self.at = record.end();
        }
        Ok(())
    }

    fn part(
        &mut self,
        lsn: Lsn,
        part: &PartView<'_>,
        forks: &mut Forks<'_>,
        scan: &LogScan,
    ) -> StorageResult<()> {
        let page = part.page;
        if scan.is_doomed(page, lsn) {
            return Ok(());
        }
        let stats = &mut self.stats;
        if part.flags.contains(PartFlags::BEFORE) {
            stats.skip_fpw += 1;
            return Ok(());
        }
        if part.flags.contains(PartFlags::INIT) {
            stats.skip_init += 1;
            return Ok(());
        }
        let fork = forks.get(page.file, page.fork)?;
        if page.block.0 >= fork.len() {
            stats.skip_new += 1;
        } else if !fork.is_missing(page.block) {
            stats.hit += 1;
        } else if self.asked.iter().any(|(_, asked)| *asked == page) {
            stats.skip_rep += 1;
        } else {
            stats.prefetch += 1;
            self.reads.read_soon(fork, page.block);
            self.asked.push_back((lsn, page));
        }
        Ok(())
    }
}

impl Drop for LookAhead {
    fn drop(&mut self) {
        self.reads.stop();
    }
}
