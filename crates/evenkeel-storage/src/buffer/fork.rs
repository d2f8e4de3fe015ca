//! A relation fork in the pool: resolved once, kept by its users, found without a lock.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::entry::{Entry, Place};
use super::fork_pages::ForkPages;
use super::frame_state::{FrameState, PinRefused};
use super::latch::Latch;
use super::load::{Flight, Reader};
use super::pool_core::PoolCore;
use super::prefetch::{Prefetcher, Request};
use super::stats::{Counters, ForkStats, Hits};
use super::strategy::{BufferAccessStrategy, Strategy};
use crate::error::{StorageError, StorageResult};
use crate::files::ForkFiles;
use crate::ids::{BlockNumber, FileId, Fork, FrameId};
use crate::stats::{BackendType, IoContext, IoObject};

/// Windows of a pass that a ring holds: what is ahead, and what is still in use.
const WINDOWS: usize = 4;

/// One fork of one file, with all that its users need of the pool.
pub struct ForkHandle {
    pub(super) core: Arc<PoolCore>,
    pub(super) pages: Arc<ForkPages>,
    prefetcher: Arc<Prefetcher>,
    /// Pages found, but for those found through a ring.
    pub(super) hits: Hits,
    ring_hits: AtomicU64,
}

impl ForkHandle {
    pub(super) fn new(
        core: Arc<PoolCore>,
        pages: ForkPages,
        prefetcher: Arc<Prefetcher>,
    ) -> Arc<ForkHandle> {
        Arc::new(ForkHandle {
            core,
            pages: Arc::new(pages),
            prefetcher,
            hits: Hits::new(),
            ring_hits: AtomicU64::new(0),
        })
    }

    #[inline]
    pub(super) fn core(&self) -> &PoolCore {
        &self.core
    }

    pub(crate) fn files(&self) -> &ForkFiles {
        self.pages.files()
    }

    /// The file.
    #[inline]
    #[must_use]
    pub fn file(&self) -> FileId {
        self.pages.file
    }

    /// Which of its forks.
    #[inline]
    #[must_use]
    pub fn fork(&self) -> Fork {
        self.pages.fork
    }

    /// Length in blocks.
    #[inline]
    #[must_use]
    pub fn len(&self) -> u32 {
        self.pages.len()
    }

    /// Whether the fork has no blocks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a page is neither in the pool nor on its way.
    pub(crate) fn is_missing(&self, block: BlockNumber) -> bool {
        self.pages.is_missing(block)
    }

    #[cfg(test)]
    pub(crate) fn resident_frame(&self, block: BlockNumber) -> Option<FrameId> {
        match self.pages.array.get(block)?.load() {
            Place::Frame(id) => Some(id),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn latch(&self, id: FrameId) -> &Latch {
        &self.core.frame(id).latch
    }

    /// Pins the frame of an entry; one with a ring leaves the page as cold as it was.
    #[inline]
    pub(super) fn pin_entry(
        &self,
        entry: &Entry,
        strategy: Strategy<'_>,
    ) -> Result<FrameId, PinRefused> {
        match strategy {
            None => entry.pin(|id| self.latch(id)),
            Some(_) => entry.pin_quietly(|id| self.latch(id)),
        }
    }

    pub(super) fn count_hit(&self, strategy: Strategy<'_>) {
        match strategy {
            None => self.hits.increment(),
            Some(ring) => {
                self.ring_hits.fetch_add(1, Ordering::Relaxed);
                let counts = self.core.io.counts(IoObject::Relation, ring.context());
                counts.hit(1);
            }
        }
    }

    /// Asks for pages to be read ahead of use, in the background. Advice: it may do nothing.
    pub fn prefetch(&self, blocks: Range<u32>) {
        self.prefetch_with(blocks, None);
    }

    /// As [`ForkHandle::prefetch`], with places in the pool as the strategy says.
    pub fn prefetch_with(&self, blocks: Range<u32>, strategy: Strategy<'_>) {
        self.ask_ahead(blocks, strategy, None);
    }

    pub(super) fn ask_ahead(
        &self,
        blocks: Range<u32>,
        strategy: Strategy<'_>,
        position: Option<&Arc<AtomicU32>>,
    ) {
        let missing = |block: &u32| self.is_missing(BlockNumber(*block));
        // The common case of a fork in memory costs no message.
        if let Some(first) = blocks.clone().find(missing) {
            let (ring, position) = (strategy.cloned(), position.cloned());
            self.ask(&self.prefetcher, first..blocks.end, ring, position);
        }
    }

    /// Begins to read the next run of pages of `blocks` that redo is to change, of at most `most`;
    /// `blocks` is left behind it. None when somebody else has them, or no frame is free.
    pub(crate) fn begin_redo(&self, blocks: &mut Range<u32>, most: usize) -> Option<Flight> {
        Flight::begin(&self.core, &self.pages, blocks, most, None, Reader::Redo)
    }

    fn ask(
        &self,
        prefetcher: &Prefetcher,
        blocks: Range<u32>,
        ring: Option<Arc<BufferAccessStrategy>>,
        position: Option<Arc<AtomicU32>>,
    ) {
        prefetcher.ask(Request {
            core: Arc::clone(&self.core),
            fork: Arc::clone(&self.pages),
            blocks,
            ring,
            position,
            backend: BackendType::current(),
        });
    }

    /// The most blocks that a sequential pass asks for ahead: not so many that they would be
    /// replaced before they are used.
    pub(super) fn window(&self, strategy: Strategy<'_>) -> u32 {
        let most = match strategy {
            Some(ring) => ring.frames() / WINDOWS,
            None => self.core.frame_count() / 16,
        };
        u32::try_from(most).unwrap_or(u32::MAX)
    }

    /// The most blocks that a pass asks for at once if its reads wait for the device: so many that
    /// they reach the depth. A ring gets room for that.
    pub(super) fn deep_window(&self, strategy: Strategy<'_>) -> u32 {
        let deep = self.prefetcher.pages_in_flight();
        if let Some(ring) = strategy {
            ring.widen(deep.saturating_mul(WINDOWS));
        }
        u32::try_from(deep).unwrap_or(u32::MAX)
    }

    /// Reads ahead of use so far that had to wait for the device.
    pub(super) fn device_reads(&self) -> u64 {
        self.pages.device_reads.load(Ordering::Relaxed)
    }

    /// Pages of this fork found in the pool (approximate under many threads), and read.
    #[must_use]
    pub fn stats(&self) -> ForkStats {
        ForkStats {
            hits: self.hits.sum() + self.ring_hits.load(Ordering::Relaxed),
            reads: self.pages.reads.load(Ordering::Relaxed),
        }
    }

    pub(super) fn hits(&self) -> &Hits {
        &self.hits
    }

    /// Lengthens the fork by `blocks` zero pages with space allocated for them; answers the
    /// first. Not logged.
    ///
    /// # Errors
    /// [`StorageError::DiskFull`] when there is no space: the fork keeps its length.
    pub fn extend(&self, blocks: u32) -> StorageResult<BlockNumber> {
        let _one_at_a_time = self.pages.growing.lock();
        let first = self.len();
        let Some(end) = first.checked_add(blocks).filter(|end| *end < u32::MAX) else {
            let text = format!(
                "{} cannot grow by {blocks} blocks",
                self.pages.page_id(BlockNumber(first))
            );
            return Err(StorageError::Config(text));
        };
        self.grow(first, end)?;
        Ok(BlockNumber(first))
    }

    /// Lengthens the fork to at least `len` blocks (redo of a part beyond the end).
    ///
    /// # Errors
    /// As [`ForkHandle::extend`].
    pub fn ensure_len(&self, len: u32) -> StorageResult<()> {
        if self.len() >= len {
            return Ok(());
        }
        let _one_at_a_time = self.pages.growing.lock();
        let first = self.len();
        if first < len {
            self.grow(first, len)
        } else {
            Ok(())
        }
    }

    fn grow(&self, from: u32, to: u32) -> StorageResult<()> {
        if self.pages.dropped.load(Ordering::SeqCst) {
            return Err(StorageError::NoSuchPage {
                page: self.pages.page_id(BlockNumber(from)),
            });
        }
        self.core.poison.check()?;
        evenkeel_io::blocking(|| self.pages.files().extend(from, to))?;
        Counters::add(&self.core.counters.extends, u64::from(to - from));
        self.pages.len.store(to, Ordering::SeqCst);
        Ok(())
    }

    /// Cuts the fork to `blocks`: frames beyond are discarded, dirty or not, then the files are
    /// cut. The caller sees to it that nobody uses the blocks beyond.
    pub(super) fn truncate(&self, blocks: u32) -> StorageResult<()> {
        let _not_growing = self.pages.growing.lock();
        let old = self.len();
        if blocks >= old {
            // In recovery: the process that cut it may have been killed before any sync, and the
            // redo point passes the record of it next.
            return self.pages.files().truncated_before(blocks);
        }
        self.pages.len.store(blocks, Ordering::SeqCst);
        self.invalidate(blocks, old)?;
        // Before the fork can grow again: blocks that come back are others.
        let tail = (self.pages.fork, blocks);
        self.core.owed.forget(self.pages.file, Some(tail));
        self.pages.files().truncate(blocks)
    }

    /// Discards every frame and unlinks the files. The handle is good for nothing afterwards.
    pub(super) fn drop_files(&self) -> StorageResult<()> {
        let _not_growing = self.pages.growing.lock();
        self.pages.dropped.store(true, Ordering::SeqCst);
        let old = self.pages.len.swap(0, Ordering::SeqCst);
        self.invalidate(0, old)?;
        self.pages.files().remove()
    }

    /// Discards the frames of a range of blocks, waiting for pins and write-outs to end.
    fn invalidate(&self, first: u32, end: u32) -> StorageResult<()> {
        let _in_a_hurry = self.core.await_write_outs();
        let mut freed = Vec::new();
        let mut result = Ok(());
        self.pages.array.for_each(first, end, |_, entry| {
            while result.is_ok() {
                match entry.load() {
                    Place::Empty => break,
                    Place::Loading => entry.wait_loaded(&self.core.waiters),
                    Place::Frame(id) => {
                        if self.discard_own(entry, id) {
                            freed.push(id);
                            break;
                        }
                        result = self.core.poison.check();
                        std::thread::yield_now();
                    }
                }
            }
        });
        self.core.put_frames(&freed);
        result
    }

    /// Discards the page of `entry` in frame `id`, if it is still that page and nobody uses it.
    fn discard_own(&self, entry: &Entry, id: FrameId) -> bool {
        let latch = &self.core.frame(id).latch;
        if latch.update(FrameState::pinned_quietly).is_err() {
            return false;
        }
        // The pin holds the page in the frame from here on.
        if entry.load() == Place::Frame(id) && self.core.discard(id) {
            return true;
        }
        latch.unpin();
        false
    }
}

impl Drop for ForkHandle {
    /// Adds the fork's hits to the pool's counters, which outlive it.
    fn drop(&mut self) {
        for (who, hits) in BackendType::ALL.into_iter().zip(self.hits.by_backend()) {
            let counts = self
                .core
                .io
                .counts_of(who, IoObject::Relation, IoContext::Normal);
            counts.hit(hits);
        }
    }
}

impl std::fmt::Debug for ForkHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "ForkHandle({} {}, {} blocks)",
            self.pages.file,
            self.pages.fork,
            self.len()
        )
    }
}
