//! A relation fork in the pool: resolved once, kept by its users, found without a lock.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use evenkeel_io::AlignedBuf;
use parking_lot::Mutex;

use super::entry::{Entry, ForkArray, Place};
use super::frame::Owner;
use super::latch::Latch;
use super::pin::{Pin, ReadGuard, WriteGuard};
use super::pool_core::PoolCore;
use super::prefetch::Prefetcher;
use super::stats::Counters;
use super::word::{PinRefused, Word};
use crate::error::{StorageError, StorageResult};
use crate::files::ForkFiles;
use crate::ids::{BlockNumber, FileId, Fork, FrameId, PageId};
use crate::page::checksum::{self, Verdict};
use crate::page::{PAGE_SIZE, PageBytes};

/// One fork of one file, and where its pages are.
pub struct ForkHandle {
    core: Arc<PoolCore>,
    myself: Weak<ForkHandle>,
    file: FileId,
    fork: Fork,
    array: ForkArray,
    files: ForkFiles,
    /// Blocks in the fork.
    len: AtomicU32,
    dropped: AtomicBool,
    growing: Mutex<()>,
    prefetcher: Arc<Prefetcher>,
}

/// What a page that is not in the pool is filled with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fill {
    /// What the disk holds.
    Read,
    /// Zeroes: the caller will initialise it.
    Zero,
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

    fn page_id(&self, block: BlockNumber) -> PageId {
        PageId {
            file: self.file,
            fork: self.fork,
            block,
        }
    }

    /// Pins a page, reading it if it is not in the pool.
    ///
    /// # Errors
    /// [`StorageError::NoSuchPage`] beyond the end; [`StorageError::PageDamaged`] when the page
    /// fails its checksum; read errors; no free frame.
    #[inline]
    pub fn pin(&self, block: BlockNumber) -> StorageResult<Pin<'_>> {
        if let Some(pin) = self.pin_resident(block) {
            self.core.counters.hits.increment();
            return Ok(pin);
        }
        self.pin_missing(block, Fill::Read)
    }

    /// Pins a page whose content the caller will replace: it is not read. A page already in the
    /// pool keeps its content.
    ///
    /// # Errors
    /// As [`ForkHandle::pin`], but for those of reading.
    pub fn pin_new(&self, block: BlockNumber) -> StorageResult<Pin<'_>> {
        self.pin_missing(block, Fill::Zero)
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
            self.core.counters.hits.increment();
            let pin = Pin::of(self, id, block);
            return Ok(if shared {
                pin.already_shared()
            } else {
                pin.read()
            });
        }
        Ok(self.pin(block)?.read())
    }

    /// Pins a page and takes its exclusive lock.
    ///
    /// # Errors
    /// As [`ForkHandle::pin`].
    #[inline]
    pub fn write(&self, block: BlockNumber) -> StorageResult<WriteGuard<'_>> {
        Ok(self.pin(block)?.write())
    }

    /// Pins a page if it is in the pool.
    #[inline]
    pub fn pin_resident(&self, block: BlockNumber) -> Option<Pin<'_>> {
        let id = self.array.get(block)?.pin(|id| self.latch(id)).ok()?;
        Some(Pin::of(self, id, block))
    }

    #[inline]
    fn latch(&self, id: FrameId) -> &Latch {
        &self.core.frame(id).latch
    }

    #[cold]
    fn pin_missing(&self, block: BlockNumber, fill: Fill) -> StorageResult<Pin<'_>> {
        loop {
            self.check_exists(block)?;
            let entry = self.array.get_or_grow(block);
            match entry.load() {
                Place::Frame(_) => match entry.pin(|id| self.latch(id)) {
                    Ok(id) => {
                        self.core.counters.hits.increment();
                        return Ok(Pin::of(self, id, block));
                    }
                    // Its evictor is about to clear the entry.
                    Err(PinRefused::NotValid) => std::thread::yield_now(),
                    Err(PinRefused::TooMany) => {
                        return Err(StorageError::Internal("too many pins on one page".into()));
                    }
                },
                Place::Loading => {
                    evenkeel_io::blocking(|| entry.wait_loaded(&self.core.waiters));
                }
                Place::Empty => {
                    if entry.begin_load() {
                        return self.load(entry, block, fill);
                    }
                }
            }
        }
    }

    fn check_exists(&self, block: BlockNumber) -> StorageResult<()> {
        if self.dropped.load(Ordering::SeqCst) || block.0 >= self.len() {
            return Err(StorageError::NoSuchPage {
                page: self.page_id(block),
            });
        }
        Ok(())
    }

    /// Brings a page in, having won its entry.
    fn load(&self, entry: &Entry, block: BlockNumber, fill: Fill) -> StorageResult<Pin<'_>> {
        let mut loading = Loading {
            fork: self,
            entry,
            frame: None,
        };
        // Again, now that whoever cuts or drops the fork waits for this entry (buffer rule 9).
        self.check_exists(block)?;
        let id = self.core.take_frame()?;
        loading.frame = Some(id);
        // SAFETY: the frame was free and is this thread's alone until it is published.
        let page = unsafe { self.core.arena().page(id).as_mut() };
        match fill {
            Fill::Zero => page.fill(0),
            Fill::Read => {
                Counters::add(&self.core.counters.reads, 1);
                evenkeel_io::blocking(|| self.files.read(block, page))?;
                self.judge(block, page)?;
            }
        }
        loading.publish(id, block);
        Ok(Pin::of(self, id, block))
    }

    /// Checks a page just read. A damaged page of a free-space map is replaced by zeroes, which
    /// is advice as good.
    fn judge(&self, block: BlockNumber, page: &mut PageBytes) -> StorageResult<()> {
        let id = self.page_id(block);
        let Verdict::Damaged { stored, computed } = checksum::verify(page, id) else {
            return Ok(());
        };
        let error = checksum::damaged(page, id, stored, computed);
        if self.fork != Fork::Fsm {
            return Err(error);
        }
        tracing::warn!("{error}; it is only advice and starts again empty");
        Counters::add(&self.core.counters.zeroed_advice, 1);
        page.fill(0);
        Ok(())
    }

    /// Reads pages of `blocks` that are not in the pool into free frames, adjacent ones at once,
    /// as far as free frames go. Advice: errors are left for who needs the page.
    pub(super) fn load_ahead(&self, blocks: std::ops::Range<u32>) {
        const RUN: usize = 16;
        let end = blocks.end.min(self.len());
        let mut at = blocks.start;
        let mut buf = AlignedBuf::zeroed(RUN * PAGE_SIZE);
        while at < end {
            let limit = RUN.min(self.files.blocks_left_in_segment(BlockNumber(at)) as usize);
            let mut run: Vec<Loading<'_>> = Vec::with_capacity(limit);
            while run.len() < limit && at + (run.len() as u32) < end {
                match self.begin_ahead(BlockNumber(at + run.len() as u32)) {
                    Some(loading) => run.push(loading),
                    None => break,
                }
            }
            if run.is_empty() {
                at += 1;
                continue;
            }
            let bytes = &mut buf[..run.len() * PAGE_SIZE];
            if self.files.read(BlockNumber(at), bytes).is_err() {
                return;
            }
            Counters::add(&self.core.counters.prefetched, run.len() as u64);
            for (loading, bytes) in run.into_iter().zip(bytes.chunks_exact(PAGE_SIZE)) {
                self.end_ahead(loading, BlockNumber(at), bytes);
                at += 1;
            }
        }
    }

    /// Wins the entry of a page that is not in the pool, if a frame is free for it.
    fn begin_ahead(&self, block: BlockNumber) -> Option<Loading<'_>> {
        let entry = self.array.get_or_grow(block);
        if entry.load() != Place::Empty || !entry.begin_load() {
            return None;
        }
        let mut loading = Loading {
            fork: self,
            entry,
            frame: None,
        };
        self.check_exists(block).ok()?;
        loading.frame = Some(self.core.try_take_frame()?);
        Some(loading)
    }

    fn end_ahead(&self, loading: Loading<'_>, block: BlockNumber, bytes: &[u8]) {
        let Some(id) = loading.frame else { return };
        // SAFETY: as in `load`.
        let page = unsafe { self.core.arena().page(id).as_mut() };
        page.copy_from_slice(bytes);
        if checksum::verify(page, self.page_id(block)).is_valid() {
            loading.publish(id, block);
            self.latch(id).unpin();
        }
    }

    /// Asks for pages to be read ahead of use, in the background. Advice: it may do nothing.
    pub fn prefetch(&self, blocks: std::ops::Range<u32>) {
        let missing = |block: &u32| {
            let entry = self.array.get(BlockNumber(*block));
            entry.is_none_or(|entry| entry.load() == Place::Empty)
        };
        // The common case of a fork in memory costs no message.
        if let Some(first) = blocks.clone().find(missing)
            && let Some(fork) = self.myself.upgrade()
        {
            self.prefetcher.ask(fork, first..blocks.end);
        }
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

/// A page being loaded by this thread. Unless it is published, dropping it empties the entry,
/// gives the frame back and wakes who waits.
struct Loading<'a> {
    fork: &'a ForkHandle,
    entry: &'a Entry,
    frame: Option<FrameId>,
}

impl Loading<'_> {
    /// The page is in the frame, complete and checked: shows it to everybody, with a pin of this
    /// thread.
    fn publish(mut self, id: FrameId, block: BlockNumber) {
        self.frame = None;
        let frame = self.fork.core.frame(id);
        let Some(handle) = self.fork.myself.upgrade() else {
            unreachable!("a fork is used only through an Arc")
        };
        // SAFETY: the frame is not VALID and this thread's alone.
        unsafe {
            frame.replace_owner(Some(Owner {
                fork: handle,
                block,
            }))
        };
        self.entry.show(&frame.latch, id, &self.fork.core.waiters);
        std::mem::forget(self);
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.frame.take() {
            self.fork.core.put_frames(&[id]);
        }
        self.entry.end_load(None, &self.fork.core.waiters);
    }
}
