//! A relation fork in the pool: resolved once, kept by its users, found without a lock.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::entry::{Entry, ForkArray, Place};
use super::latch::Latch;
use super::load::Fill;
use super::pin::{Pin, ReadGuard, WriteGuard};
use super::pool_core::PoolCore;
use super::prefetch::{LAST_WINDOW, Prefetcher};
use super::ring::Strategy;
use super::stats::{Counters, ForkStats, Hits};
use super::word::{PinRefused, Word};
use crate::error::{StorageError, StorageResult};
use crate::files::ForkFiles;
use crate::ids::{BlockNumber, FileId, Fork, FrameId};
use crate::stats::{BackendType, IoContext, IoObject};

/// One fork of one file, and where its pages are.
pub struct ForkHandle {
    pub(super) core: Arc<PoolCore>,
    pub(super) myself: Weak<ForkHandle>,
    pub(super) file: FileId,
    pub(super) fork: Fork,
    pub(super) array: ForkArray,
    pub(super) files: ForkFiles,
    /// Blocks in the fork.
    len: AtomicU32,
    dropped: AtomicBool,
    growing: Mutex<()>,
    prefetcher: Arc<Prefetcher>,
    /// Pages found, but for those found through a ring.
    hits: Hits,
    ring_hits: AtomicU64,
    pub(super) reads: AtomicU64,
}

impl ForkHandle {
    pub(super) fn new(
        core: Arc<PoolCore>,
        file: FileId,
        fork: Fork,
        files: ForkFiles,
        len: u32,
        prefetcher: Arc<Prefetcher>,
    ) -> Arc<ForkHandle> {
        Arc::new_cyclic(|myself| ForkHandle {
            core,
            myself: Weak::clone(myself),
            file,
            fork,
            array: ForkArray::new(),
            files,
            len: AtomicU32::new(len),
            dropped: AtomicBool::new(false),
            growing: Mutex::new(()),
            prefetcher,
            hits: Hits::new(),
            ring_hits: AtomicU64::new(0),
            reads: AtomicU64::new(0),
        })
    }

    #[inline]
    pub(super) fn core(&self) -> &PoolCore {
        &self.core
    }

    pub(crate) fn files(&self) -> &ForkFiles {
        &self.files
    }

    /// The file.
    #[inline]
    #[must_use]
    pub fn file(&self) -> FileId {
        self.file
    }

    /// Which of its forks.
    #[inline]
    #[must_use]
    pub fn fork(&self) -> Fork {
        self.fork
    }

    /// Length in blocks.
    #[inline]
    #[must_use]
    pub fn len(&self) -> u32 {
        self.len.load(Ordering::SeqCst)
    }

    /// Whether the fork has no blocks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pins a page, reading it if it is not in the pool.
    ///
    /// # Errors
    /// [`StorageError::NoSuchPage`] beyond the end; [`StorageError::PageDamaged`] when the page
    /// fails its checksum; read errors; no free frame.
    #[inline]
    pub fn pin(&self, block: BlockNumber) -> StorageResult<Pin<'_>> {
        if let Some(pin) = self.pin_resident(block) {
            self.hits.increment();
            return Ok(pin);
        }
        self.pin_missing(block, Fill::Read, None)
    }

    /// As [`ForkHandle::pin`], with a place in the pool as the strategy says.
    ///
    /// # Errors
    /// As there.
    pub fn pin_with(&self, block: BlockNumber, strategy: Strategy<'_>) -> StorageResult<Pin<'_>> {
        if let Some(entry) = self.array.get(block)
            && let Ok(id) = self.pin_entry(entry, strategy)
        {
            self.count_hit(strategy);
            return Ok(Pin::of(self, id, block));
        }
        self.pin_missing(block, Fill::Read, strategy)
    }

    /// Pins a page whose content the caller will replace: it is not read. A page already in the
    /// pool keeps its content.
    ///
    /// # Errors
    /// As [`ForkHandle::pin`], but for those of reading.
    pub fn pin_new(&self, block: BlockNumber) -> StorageResult<Pin<'_>> {
        self.pin_missing(block, Fill::Zero, None)
    }

    /// As [`ForkHandle::pin_new`], with a place in the pool as the strategy says.
    ///
    /// # Errors
    /// As there.
    pub fn pin_new_with(
        &self,
        block: BlockNumber,
        strategy: Strategy<'_>,
    ) -> StorageResult<Pin<'_>> {
        self.pin_missing(block, Fill::Zero, strategy)
    }

    /// Pins a page and takes its share lock, in one step where possible.
    ///
    /// # Errors
    /// As [`ForkHandle::pin`].
    #[inline]
    pub fn read(&self, block: BlockNumber) -> StorageResult<ReadGuard<'_>> {
        if let Some(entry) = self.array.get(block)
            && let Ok((id, shared)) = entry.pin_and_share(|id| self.latch(id), &self.core.waiters)
        {
            self.hits.increment();
            let pin = Pin::of(self, id, block);
            return Ok(if shared {
                pin.already_shared()
            } else {
                pin.read()
            });
        }
        Ok(self.pin(block)?.read())
    }

    /// As [`ForkHandle::read`], with a place in the pool as the strategy says.
    ///
    /// # Errors
    /// As there.
    pub fn read_with(
        &self,
        block: BlockNumber,
        strategy: Strategy<'_>,
    ) -> StorageResult<ReadGuard<'_>> {
        match strategy {
            None => self.read(block),
            Some(_) => Ok(self.pin_with(block, strategy)?.read()),
        }
    }

    /// Pins a page and takes its exclusive lock.
    ///
    /// # Errors
    /// As [`ForkHandle::pin`].
    #[inline]
    pub fn write(&self, block: BlockNumber) -> StorageResult<WriteGuard<'_>> {
        Ok(self.pin(block)?.write())
    }

    /// As [`ForkHandle::write`], with a place in the pool as the strategy says.
    ///
    /// # Errors
    /// As there.
    pub fn write_with(
        &self,
        block: BlockNumber,
        strategy: Strategy<'_>,
    ) -> StorageResult<WriteGuard<'_>> {
        Ok(self.pin_with(block, strategy)?.write())
    }

    /// Pins a page if it is in the pool.
    #[inline]
    pub fn pin_resident(&self, block: BlockNumber) -> Option<Pin<'_>> {
        let id = self.array.get(block)?.pin(|id| self.latch(id)).ok()?;
        Some(Pin::of(self, id, block))
    }

    /// Whether a page is in the pool now.
    pub(crate) fn is_resident(&self, block: BlockNumber) -> bool {
        let entry = self.array.get(block);
        entry.is_some_and(|entry| matches!(entry.load(), Place::Frame(_)))
    }

    /// Whether a page is neither in the pool nor on its way.
    pub(crate) fn is_missing(&self, block: BlockNumber) -> bool {
        let entry = self.array.get(block);
        entry.is_none_or(|entry| entry.load() == Place::Empty)
    }

    #[cfg(test)]
    pub(crate) fn resident_frame(&self, block: BlockNumber) -> Option<FrameId> {
        match self.array.get(block)?.load() {
            Place::Frame(id) => Some(id),
            _ => None,
        }
    }

    /// Pins the frame of a page that is in the pool, leaving it as cold as it was. The caller
    /// unpins it.
    pub(super) fn pin_resident_quietly(&self, block: BlockNumber) -> Option<FrameId> {
        let entry = self.array.get(block)?;
        entry.pin_quietly(|id| self.latch(id)).ok()
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

    pub(super) fn check_exists(&self, block: BlockNumber) -> StorageResult<()> {
        if self.dropped.load(Ordering::SeqCst) || block.0 >= self.len() {
            return Err(StorageError::NoSuchPage {
                page: self.page_id(block),
            });
        }
        Ok(())
    }

    /// Asks for pages to be read ahead of use, in the background. Advice: it may do nothing.
    pub fn prefetch(&self, blocks: std::ops::Range<u32>) {
        self.prefetch_with(blocks, None);
    }

    /// As [`ForkHandle::prefetch`], with places in the pool as the strategy says.
    pub fn prefetch_with(&self, blocks: std::ops::Range<u32>, strategy: Strategy<'_>) {
        self.ask_ahead(blocks, strategy, None);
    }

    pub(super) fn ask_ahead(
        &self,
        blocks: std::ops::Range<u32>,
        strategy: Strategy<'_>,
        position: Option<&Arc<AtomicU32>>,
    ) {
        let missing = |block: &u32| self.is_missing(BlockNumber(*block));
        // The common case of a fork in memory costs no message.
        if let Some(first) = blocks.clone().find(missing)
            && let Some(fork) = self.myself.upgrade()
        {
            let blocks = first..blocks.end;
            let (ring, position) = (strategy.cloned(), position.cloned());
            self.prefetcher.ask(fork, blocks, ring, position);
        }
    }

    /// The most blocks that a sequential pass asks for ahead: not so many that they would be
    /// replaced before they are used.
    pub(super) fn window(&self, strategy: Strategy<'_>) -> u32 {
        let most = match strategy {
            Some(ring) => ring.frames() / 4,
            None => self.core.frame_count() / 16,
        };
        u32::try_from(most).map_or(LAST_WINDOW, |most| most.min(LAST_WINDOW))
    }

    /// Pages of this fork found in the pool (approximate under many threads), and read.
    #[must_use]
    pub fn stats(&self) -> ForkStats {
        ForkStats {
            hits: self.hits.sum() + self.ring_hits.load(Ordering::Relaxed),
            reads: self.reads.load(Ordering::Relaxed),
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
        let _one_at_a_time = self.growing.lock();
        let first = self.len();
        let Some(end) = first.checked_add(blocks).filter(|end| *end < u32::MAX) else {
            let text = format!(
                "{} cannot grow by {blocks} blocks",
                self.page_id(BlockNumber(first))
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
        let _one_at_a_time = self.growing.lock();
        let first = self.len();
        if first < len {
            self.grow(first, len)
        } else {
            Ok(())
        }
    }

    fn grow(&self, from: u32, to: u32) -> StorageResult<()> {
        if self.dropped.load(Ordering::SeqCst) {
            return Err(StorageError::NoSuchPage {
                page: self.page_id(BlockNumber(from)),
            });
        }
        self.core.poison.check()?;
        evenkeel_io::blocking(|| self.files.extend(from, to))?;
        Counters::add(&self.core.counters.extends, u64::from(to - from));
        self.len.store(to, Ordering::SeqCst);
        Ok(())
    }

    /// Empties the entry of a page just evicted.
    pub(super) fn clear_entry(&self, block: BlockNumber) {
        if let Some(entry) = self.array.get(block) {
            entry.clear();
        }
    }

    /// Cuts the fork to `blocks`: frames beyond are discarded, dirty or not, then the files are
    /// cut. The caller sees to it that nobody uses the blocks beyond.
    pub(super) fn truncate(&self, blocks: u32) -> StorageResult<()> {
        let _not_growing = self.growing.lock();
        let old = self.len();
        if blocks >= old {
            // In recovery: the process that cut it may have been killed before any sync, and the
            // redo point passes the record of it next.
            self.files.count_length();
            return Ok(());
        }
        self.len.store(blocks, Ordering::SeqCst);
        self.invalidate(blocks, old)?;
        self.files.truncate(blocks)
    }

    /// Discards every frame and unlinks the files. The handle is good for nothing afterwards.
    pub(super) fn drop_files(&self) -> StorageResult<()> {
        let _not_growing = self.growing.lock();
        self.dropped.store(true, Ordering::SeqCst);
        let old = self.len.swap(0, Ordering::SeqCst);
        self.invalidate(0, old)?;
        self.files.remove()
    }

    /// Discards the frames of a range of blocks, waiting for pins and write-outs to end.
    fn invalidate(&self, first: u32, end: u32) -> StorageResult<()> {
        let _in_a_hurry = self.core.await_write_outs();
        let mut freed = Vec::new();
        let mut result = Ok(());
        self.array.for_each(first, end, |_, entry| {
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
        if latch.update(Word::pinned_quietly).is_err() {
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
    /// What was counted here stays counted.
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
            self.file,
            self.fork,
            self.len()
        )
    }
}
