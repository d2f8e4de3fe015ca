//! The pool: its forks, and what the writer and the checkpointer need of all frames.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;

use super::damaged::DamagedPages;
use super::dirtiness::Dirtiness;
use super::fork::ForkHandle;
use super::fork_pages::ForkPages;
use super::frame::{Frame, Owner};
use super::frame_state::{Flag, FrameState, Mode};
use super::owed::OwedPages;
use super::pin::WriteGuard;
use super::pool_core::{FrameReservation, PoolCore};
use super::prefetch::{Prefetcher, ReadAheadOptions};
use super::stats::{Counters, PoolStats};
use super::strategy::{BULK_READ, BULK_WRITE, BufferAccessStrategy};
use crate::error::StorageResult;
use crate::files::{FileSpace, ForkFiles};
use crate::ids::{BlockNumber, FileId, Fork, FrameId, Lsn, PageId};
use crate::invariant;
use crate::page::checksum;
use crate::page::{LSN_OFFSET, PAGE_SIZE, PageBytes, PageMut, PageRead};
use crate::poison::Poison;
use crate::stats::{BackendType, IoContext, IoObject, IoStatsRow};
use crate::wal::LogFlush;

/// The one buffer pool of a store.
pub struct BufferPool {
    core: Arc<PoolCore>,
    space: Arc<FileSpace>,
    forks: RwLock<HashMap<(FileId, Fork), Arc<ForkHandle>>>,
    prefetcher: Arc<Prefetcher>,
}

/// A page copied for writing, its frame now WRITING.
pub(crate) struct Copied {
    pub(crate) frame: FrameId,
    pub(crate) page: PageId,
    pub(crate) fork: Arc<ForkPages>,
    /// LSN of the copy: the log must be durable to there before the copy is written anywhere. Zero
    /// for a temporary page, of which the log has nothing.
    pub(crate) lsn: Lsn,
}

impl BufferPool {
    /// A pool of the frames of `core`, which are empty, over the files of `space`.
    pub(crate) fn new(
        core: Arc<PoolCore>,
        space: Arc<FileSpace>,
        ahead: ReadAheadOptions,
    ) -> Arc<BufferPool> {
        let prefetcher = Prefetcher::new(Arc::clone(space.disk()), ahead);
        Arc::new(BufferPool {
            core,
            space,
            forks: RwLock::default(),
            prefetcher: Arc::new(prefetcher),
        })
    }

    /// A fork, opened if it is not yet. One that has no file is empty, and gets its file when it
    /// is extended.
    ///
    /// # Errors
    /// When its files cannot be opened.
    pub fn fork(&self, file: FileId, fork: Fork) -> StorageResult<Arc<ForkHandle>> {
        if let Some(handle) = self.forks.read().get(&(file, fork)) {
            return Ok(Arc::clone(handle));
        }
        let mut forks = self.forks.write();
        if let Some(handle) = forks.get(&(file, fork)) {
            return Ok(Arc::clone(handle));
        }
        let (files, len) = ForkFiles::open(&self.space, file, fork)?;
        let pages = ForkPages::new(file, fork, files, len);
        let (core, prefetcher) = (Arc::clone(&self.core), Arc::clone(&self.prefetcher));
        let handle = ForkHandle::new(core, pages, prefetcher);
        forks.insert((file, fork), Arc::clone(&handle));
        Ok(handle)
    }

    /// Makes the file of a fork if there is none, empty. Its directory entry is durable with the
    /// next sync of the table.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create_fork(&self, file: FileId, fork: Fork) -> StorageResult<Arc<ForkHandle>> {
        let handle = self.fork(file, fork)?;
        handle.files().create()?;
        Ok(handle)
    }

    /// Makes the main fork's file of a new file, empty; see [`BufferPool::create_fork`].
    ///
    /// # Errors
    /// As there.
    pub fn create_file(&self, file: FileId) -> StorageResult<Arc<ForkHandle>> {
        self.create_fork(file, Fork::Main)
    }

    /// Discards the frames of all forks of these files and unlinks them. Handles of them are good
    /// for nothing afterwards. The directories are synced, once for all.
    ///
    /// # Errors
    /// When one cannot be unlinked, or a directory not be synced; some are gone then.
    pub fn drop_files(&self, files: &[FileId]) -> StorageResult<()> {
        let mut dirs: Vec<&Path> = Vec::new();
        for file in files {
            self.space.manifest().forget(*file);
            for fork in Fork::ALL {
                let open = self.forks.read().get(&(*file, fork)).map(Arc::clone);
                match open {
                    Some(handle) => handle.drop_files()?,
                    None => ForkFiles::unlink(&self.space, *file, fork)?,
                }
                self.forks.write().remove(&(*file, fork));
            }
            self.core.owed.forget(*file, None);
            let dir = self.space.dir_of(*file);
            if !file.is_temporary() && !dirs.contains(&dir) {
                dirs.push(dir);
            }
        }
        let sync = self.space.sync_table();
        dirs.into_iter().try_for_each(|dir| sync.sync_dir(dir))
    }

    /// As [`BufferPool::drop_files`], for one.
    ///
    /// # Errors
    /// As there.
    pub fn drop_file(&self, file: FileId) -> StorageResult<()> {
        self.drop_files(&[file])
    }

    /// Cuts a fork to `blocks`, discarding the frames beyond. The caller has made the record of
    /// it durable and sees to it that nobody uses those blocks.
    ///
    /// # Errors
    /// When the files cannot be cut.
    pub fn truncate(&self, file: FileId, fork: Fork, blocks: u32) -> StorageResult<()> {
        self.fork(file, fork)?.truncate(blocks)
    }

    /// The data files.
    #[must_use]
    pub fn files(&self) -> &Arc<FileSpace> {
        &self.space
    }

    /// Promises `frames` frames to an operation that is about to pin so many pages at once, and
    /// waits until other operations leave room for it. The caller holds no pin. In a pool of
    /// ordinary size this does nothing.
    #[inline]
    pub fn reserve(&self, frames: usize) -> FrameReservation {
        self.core.reserve(frames)
    }

    /// Marks a page dirty without changing it: recovery has every page that it looked at written
    /// home again, since the page cache may hold content that the disk does not. `position` is
    /// at or before the first record of the page that the redo point must not pass.
    pub fn mark_dirty_for_rewrite(&self, page: &mut WriteGuard<'_>, position: Lsn) {
        page.mark_dirty(position);
    }

    /// The least first-dirtied LSN of all frames that are dirty or being written; `None` when
    /// none is. A change whose record is reserved after this call began is not before the log's
    /// insert position at that time, so `min(position read before, this)` bounds the redo point.
    /// For a checkpoint: call this first, sync all files then.
    #[must_use]
    pub fn min_first_dirtied(&self) -> Option<Lsn> {
        // No write-out begins or ends meanwhile: a frame's change cannot slip from one field to
        // the other behind the scan. Frames only become dirty.
        let _still = self.core.transitions.lock();
        let frames = self.core.frame_ids().map(|id| self.core.frame(id));
        let least = frames.map(|frame| frame.dirtiness.oldest_unwritten(&frame.latch));
        // A page written for its hints alone holds nothing back.
        least.min().filter(|lsn| *lsn != Lsn::MAX)
    }

    /// Frames with changes first made before `target` that are not home, in file order: their
    /// write-out may be under way. With `hints` also those that only hints changed.
    pub(crate) fn dirty_before(&self, target: Lsn, hints: bool) -> Vec<(PageId, FrameId)> {
        let mut found = Vec::new();
        for id in self.core.frame_ids() {
            let frame = self.core.frame(id);
            let due = frame.dirtiness.oldest_unwritten(&frame.latch) < target
                || (hints && frame.latch.load().has(Flag::HINT_DIRTY));
            if due
                && let Some(page) = self.identity(id)
                && !page.file.is_temporary()
            {
                found.push((page, id));
            }
        }
        found.sort_unstable();
        found
    }

    /// Whether a frame still holds the page with changes before `target`, or their write-out is
    /// under way.
    pub(crate) fn is_due(&self, page: PageId, id: FrameId, target: Lsn) -> bool {
        let frame = self.core.frame(id);
        let due = frame.dirtiness.oldest_unwritten(&frame.latch) < target;
        due && self.identity(id) == Some(page)
    }

    /// The page in a frame now.
    pub(crate) fn identity(&self, id: FrameId) -> Option<PageId> {
        let frame = self.core.frame(id);
        frame.latch.update(FrameState::pinned_quietly).ok()?;
        // SAFETY: pinned.
        let page = unsafe { frame.owner() }.map(Owner::page_id);
        frame.latch.unpin();
        page
    }

    /// The pages that are set aside as damaged.
    pub(crate) fn damaged(&self) -> &DamagedPages {
        &self.core.damaged
    }

    /// Redo that pages still need.
    pub(crate) fn owed(&self) -> &OwedPages {
        &self.core.owed
    }

    pub(crate) fn poison(&self) -> &Poison {
        &self.core.poison
    }

    pub(crate) fn core(&self) -> &Arc<PoolCore> {
        &self.core
    }

    /// Copies a dirty page into `image` with its checksum, and marks the frame WRITING. `None`
    /// when the frame holds another page than `expected`, is not dirty, or is being written
    /// already; unless `wait` is set, also when its lock is taken. A caller that waits has no
    /// other frame WRITING: the lock's holder may itself be waiting for a frame.
    pub(crate) fn begin_write(
        &self,
        expected: PageId,
        id: FrameId,
        image: &mut PageBytes,
        wait: bool,
        log: &dyn LogFlush,
    ) -> Option<Copied> {
        let frame = self.core.frame(id);
        frame.latch.update(FrameState::pinned_quietly).ok()?;
        // SAFETY: pinned until the end of this function.
        let owner = unsafe { frame.owner() };
        let copied = owner
            .filter(|owner| owner.page_id() == expected)
            .and_then(|owner| {
                if wait {
                    frame.latch.lock(Mode::ShareExclusive, &self.core.waiters);
                } else if !frame.latch.try_lock(Mode::ShareExclusive) {
                    return None;
                }
                let begun = self.copy_locked(id, expected, image, log);
                frame.latch.unlock(Mode::ShareExclusive, &self.core.waiters);
                let lsn = begun?;
                Some(Copied {
                    frame: id,
                    page: expected,
                    fork: Arc::clone(&owner.fork),
                    lsn,
                })
            });
        frame.latch.unpin();
        copied
    }

    /// Copies a page of `fork` that is in the pool and clean, as [`BufferPool::begin_write`] does
    /// one that is dirty. `None` when it is not there, not clean or locked.
    pub(crate) fn begin_rewrite(
        &self,
        fork: &Arc<ForkPages>,
        block: BlockNumber,
        image: &mut PageBytes,
    ) -> Option<Copied> {
        // The page stays as cold as it was.
        let entry = fork.array.get(block)?;
        let id = entry.pin_quietly(|id| &self.core.frame(id).latch).ok()?;
        let latch = &self.core.frame(id).latch;
        let mut copied = None;
        if latch.try_lock(Mode::ShareExclusive) {
            let page = fork.page_id(block);
            let lsn = self.recopy_locked(id, page, image);
            latch.unlock(Mode::ShareExclusive, &self.core.waiters);
            copied = lsn.map(|lsn| Copied {
                frame: id,
                page,
                fork: Arc::clone(fork),
                lsn,
            });
        }
        latch.unpin();
        copied
    }

    /// Under share-exclusive: marks a clean page WRITING and copies it.
    fn recopy_locked(&self, id: FrameId, page: PageId, image: &mut PageBytes) -> Option<Lsn> {
        let frame = self.core.frame(id);
        {
            let _scans_wait = self.core.transitions.lock();
            frame.dirtiness.begin_rewrite(&frame.latch)?;
        }
        Some(self.copy_out(id, page, image))
    }

    /// Under share-exclusive: marks WRITING and copies.
    fn copy_locked(
        &self,
        id: FrameId,
        page: PageId,
        image: &mut PageBytes,
        log: &dyn LogFlush,
    ) -> Option<Lsn> {
        let frame = self.core.frame(id);
        frame.latch.load().write_begun()?;
        while !self.mark_writing(frame, id, page, log)? {
            self.log_hints(frame, id, page, log)?;
        }
        Some(self.copy_out(id, page, image))
    }

    /// Copies a page that the caller holds in share-exclusive mode; answers the copy's LSN.
    fn copy_out(&self, id: FrameId, page: PageId, image: &mut PageBytes) -> Lsn {
        // SAFETY: share-exclusive keeps out whoever changes the page, hints included.
        let bytes = unsafe { self.core.arena().page(id).as_ref() };
        image.copy_from_slice(bytes);
        checksum::stamp(image, page);
        if page.file.is_temporary() {
            return Lsn::ZERO;
        }
        PageMut::new(image).lsn()
    }

    /// Marks WRITING, under share-exclusive, so that nobody makes the frame dirty meanwhile.
    /// `Some(false)`: only hints changed the page, and the log has no image of it yet from which
    /// redo could restore it, should the write be torn.
    fn mark_writing(
        &self,
        frame: &Frame,
        id: FrameId,
        page: PageId,
        log: &dyn LogFlush,
    ) -> Option<bool> {
        let scans_wait = self.core.transitions.lock();
        let is_dirty = frame.latch.load().has(Flag::DIRTY);
        let lsn = match log.images_below() {
            // The LSN is the one that the flag stands for.
            _ if is_dirty => frame.dirtiness.first_dirtied(),
            // A torn page of advice starts again empty, and nobody reads a temporary one then.
            Some(redo) if page.fork != Fork::Fsm && !page.file.is_temporary() => {
                // Inside the lock: who scans later sees this write, and who scanned before had
                // announced its redo point.
                let lsn = Lsn(u64::from_le(self.lsn_word(id).load(Ordering::Relaxed)));
                if lsn <= redo {
                    return Some(false);
                }
                // The redo point does not pass the image before the write is durable.
                lsn
            }
            _ => Lsn::MAX,
        };
        frame.dirtiness.begin_write(&frame.latch, lsn)?;
        drop(scans_wait);
        Some(true)
    }

    /// Logs the image of a page that only hints changed, which makes it dirty like any logged
    /// change. With no room in the log the hints are given up, and with them the write.
    fn log_hints(
        &self,
        frame: &Frame,
        id: FrameId,
        page: PageId,
        log: &dyn LogFlush,
    ) -> Option<()> {
        frame.dirtiness.mark(&frame.latch, log.insert_lsn());
        // SAFETY: share-exclusive keeps out whoever changes the page, hints included.
        let bytes = unsafe { self.core.arena().page(id).as_ref() };
        match log.log_image(page, bytes) {
            Some(lsn) => {
                self.lsn_word(id).store(lsn.0.to_le(), Ordering::Relaxed);
                Some(())
            }
            None => {
                let clean =
                    |word: FrameState| Some(word.without(Flag::DIRTY).without(Flag::HINT_DIRTY));
                frame.latch.try_update(clean)?;
                None
            }
        }
    }

    /// The LSN in a page's header, which share-exclusive suffices to set.
    fn lsn_word(&self, id: FrameId) -> &AtomicU64 {
        let page = self.core.arena().page(id).cast::<u8>();
        // SAFETY: within the page, aligned since pages are, and alive as long as the arena.
        // Under share-exclusive nobody accesses it but by atomic reads.
        unsafe { AtomicU64::from_ptr(page.add(LSN_OFFSET).as_ptr().cast()) }
    }

    /// Ends the write-out of frames whose home writes have completed and been counted. A frame
    /// that was changed since it was copied stays dirty.
    ///
    /// # Errors
    /// [`StorageError::Internal`], and the instance is poisoned, when a frame was not being
    /// written: what its home has is not known then.
    pub(crate) fn end_write(&self, frames: impl Iterator<Item = FrameId>) -> StorageResult<()> {
        let _scans_wait = self.core.transitions.lock();
        let mut ended = 0;
        for id in frames {
            let latch = &self.core.frame(id).latch;
            invariant!(
                self.core.poison,
                Dirtiness::end_write(latch).is_some(),
                "the write-out of frame {} ended without having begun: {:?}",
                id.0,
                latch.load()
            );
            ended += 1;
        }
        Counters::add(&self.core.counters.writes, ended);
        Ok(())
    }

    /// How many frames there are.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.core.frame_count() as u64
    }

    /// Counters since the start.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        let counters = &self.core.counters;
        PoolStats {
            hits: self.io_rows().iter().map(|row| row.hits).sum(),
            reads: counters.reads.load(Ordering::Relaxed),
            prefetched: counters.prefetched.load(Ordering::Relaxed),
            writes: counters.writes.load(Ordering::Relaxed),
            evictions: counters.evictions.load(Ordering::Relaxed),
            reuses: counters.reuses.load(Ordering::Relaxed),
            extends: counters.extends.load(Ordering::Relaxed),
            allocations: counters.allocations.load(Ordering::Relaxed),
            foreground_waits: counters.foreground_waits.load(Ordering::Relaxed),
            foreground_evictions: counters.foreground_evictions.load(Ordering::Relaxed),
            ring_waits: counters.ring_waits.load(Ordering::Relaxed),
            ring_wait_log_time: Duration::from_micros(
                counters.ring_wait_log_micros.load(Ordering::Relaxed),
            ),
            ring_wait_time: Duration::from_micros(
                counters.ring_wait_micros.load(Ordering::Relaxed),
            ),
            zeroed_advice: counters.zeroed_advice.load(Ordering::Relaxed),
            frames: self.core.frame_count() as u64,
            free: self.core.free_count() as u64,
            dirty: 0,
        }
    }

    /// Counters of operations on pages and files, by backend type, object and context
    /// (`pg_stat_io`).
    #[must_use]
    pub fn io_rows(&self) -> Vec<IoStatsRow> {
        let mut live = [0; BackendType::COUNT];
        for fork in self.forks.read().values() {
            for (sum, hits) in live.iter_mut().zip(fork.hits().by_backend()) {
                *sum += hits;
            }
        }
        let normal =
            |row: &IoStatsRow| row.object == IoObject::Relation && row.context == IoContext::Normal;
        let mut rows: Vec<IoStatsRow> = self.core.io.rows().collect();
        for row in rows.iter_mut().filter(|row| normal(row)) {
            row.hits += live[row.backend_type as usize];
        }
        rows
    }

    /// As [`BufferPool::stats`], with the dirty frames counted by looking at every frame.
    #[must_use]
    pub fn census(&self) -> PoolStats {
        let dirty = |id: &FrameId| self.core.frame(*id).latch.load().has(Flag::DIRTY);
        PoolStats {
            dirty: self.core.frame_ids().filter(dirty).count() as u64,
            ..self.stats()
        }
    }
}

impl Drop for BufferPool {
    /// The threads of both may hold the frames.
    fn drop(&mut self) {
        self.prefetcher.stop();
    }
}

/// Rings for the bulk operations that there are.
impl BufferAccessStrategy {
    /// For reading what is too large to keep.
    #[must_use]
    pub fn bulk_read(pool: &BufferPool) -> Arc<BufferAccessStrategy> {
        BufferAccessStrategy::new(&pool.core, BULK_READ, IoContext::BulkRead)
    }

    /// For filling new pages: COPY, an index being built.
    #[must_use]
    pub fn bulk_write(pool: &BufferPool) -> Arc<BufferAccessStrategy> {
        BufferAccessStrategy::new(&pool.core, BULK_WRITE, IoContext::BulkWrite)
    }

    /// For vacuum, of `vacuum_buffer_usage_limit` bytes; with 0 it may use the whole pool.
    #[must_use]
    pub fn vacuum(pool: &BufferPool, bytes: u64) -> Option<Arc<BufferAccessStrategy>> {
        (bytes > 0).then(|| BufferAccessStrategy::new(&pool.core, bytes, IoContext::Vacuum))
    }
}

const _: () = assert!(PAGE_SIZE == size_of::<PageBytes>());
