//! One batch of pages on its way from dirty to written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use evenkeel_io::{IoOp, IoQueue};

use super::LogFlush;
use super::area::{Area, Slots};
use super::format::{BatchEntry, BatchHeader, MAX_BATCH};
use super::staging::Staging;
use crate::buffer::{BufferPool, Copied};
use crate::error::StorageResult;
use crate::files::Segment;
use crate::ids::{FrameId, Lsn, PageId};
use crate::page::PAGE_SIZE;

/// Home writes in flight at once in one lane.
const QUEUE_DEPTH: usize = 16;

/// What all lanes share.
pub(super) struct Shared {
    pub(super) pool: Arc<BufferPool>,
    pub(super) log: Arc<dyn LogFlush>,
    /// `None` when the operator vouches for atomic page writes, or the log has images.
    pub(super) area: Option<Area>,
    /// Pages that are torn are restored from the log: the area is not needed any more.
    pub(super) images_cover: AtomicBool,
    /// Whether to ask for write-back right after a write.
    pub(super) write_back: bool,
    pub(super) counters: Counters,
}

/// What the lanes count.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) batches: AtomicU64,
    pub(super) pages: AtomicU64,
    pub(super) home_writes: AtomicU64,
    pub(super) log_flushes: AtomicU64,
}

/// The means to write one batch at a time.
pub(super) struct Lane {
    staging: Staging,
    queue: Box<dyn IoQueue>,
    copied: Vec<Copied>,
}

/// Adjacent pages of one segment, written in one operation.
struct Run {
    segment: Arc<Segment>,
    offset: u64,
    first: usize,
    end: usize,
}

impl Lane {
    pub(super) fn new(shared: &Shared, batch: usize) -> Lane {
        let limit = shared
            .area
            .as_ref()
            .map_or(MAX_BATCH, Area::max_batch)
            .min(MAX_BATCH);
        Lane {
            staging: Staging::new(batch.min(limit)),
            queue: shared.pool.files().disk().queue(QUEUE_DEPTH),
            copied: Vec::new(),
        }
    }

    /// Most pages in a batch.
    pub(super) fn capacity(&self) -> usize {
        self.staging.capacity()
    }

    /// Writes those of `due` that are still dirty and not locked, as many as fit, and answers
    /// how many of `due` it looked at and how many it wrote. `due` is in file order.
    ///
    /// # Errors
    /// Any error leaves frames WRITING for good, so it poisons the instance (write-out rule 6).
    pub(super) fn write(
        &mut self,
        shared: &Shared,
        due: &[(PageId, FrameId)],
        wait: bool,
    ) -> StorageResult<(usize, usize)> {
        shared.pool.poison().check()?;
        let looked_at = self.copy(shared, due, wait);
        if self.copied.is_empty() {
            return Ok((looked_at, 0));
        }
        match self.write_copied(shared) {
            Ok(()) => Ok((looked_at, self.copied.len())),
            Err(error) => {
                shared
                    .pool
                    .poison()
                    .set(format!("writing pages failed: {error}"));
                Err(error)
            }
        }
    }

    /// The frames of the last batch.
    pub(super) fn written(&self) -> impl Iterator<Item = FrameId> + '_ {
        self.copied.iter().map(|copied| copied.frame)
    }

    fn copy(&mut self, shared: &Shared, due: &[(PageId, FrameId)], wait: bool) -> usize {
        self.copied.clear();
        for (index, (page, frame)) in due.iter().enumerate() {
            let image = self.copied.len();
            if image == self.staging.capacity() {
                return index;
            }
            // Only the first may be waited for: no other frame is WRITING yet.
            let wait = wait && image == 0;
            let image = self.staging.image_mut(image);
            self.copied.extend(
                shared
                    .pool
                    .begin_write(*page, *frame, image, wait, &*shared.log),
            );
        }
        due.len()
    }

    /// Log, area, home: in this order (write-out rule 1).
    fn write_copied(&mut self, shared: &Shared) -> StorageResult<()> {
        let newest = self
            .copied
            .iter()
            .map(|copied| copied.lsn)
            .max()
            .unwrap_or(Lsn::ZERO);
        if !newest.is_zero() {
            if newest >= shared.log.durable_lsn() {
                shared.counters.log_flushes.fetch_add(1, Ordering::Relaxed);
            }
            shared.log.flush(newest)?;
        }
        let slots = match &shared.area {
            Some(area) if !shared.images_cover.load(Ordering::SeqCst) => Some(self.protect(area)?),
            _ => None,
        };
        let homes = self.write_home(shared)?;
        if let (Some(area), Some(slots)) = (&shared.area, &slots) {
            area.finish(slots, homes);
        }
        shared
            .pool
            .end_write(self.copied.iter().map(|copied| copied.frame));
        shared.counters.batches.fetch_add(1, Ordering::Relaxed);
        shared
            .counters
            .pages
            .fetch_add(self.copied.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Makes the images durable in the double-write area.
    fn protect(&mut self, area: &Area) -> StorageResult<Slots> {
        let slots = area.take(self.copied.len())?;
        let entries = (0..self.copied.len())
            .map(|image| {
                let [a, b, c, d, ..] = *self.staging.image_mut(image);
                let checksum = u32::from_le_bytes([a, b, c, d]);
                BatchEntry {
                    page: self.copied[image].page,
                    checksum,
                }
            })
            .collect();
        let header = BatchHeader {
            epoch: area.epoch(),
            sequence: slots.sequence,
            entries,
        };
        header.encode(self.staging.header_mut());
        area.write(&slots, self.staging.header_and_images(self.copied.len()))?;
        Ok(slots)
    }

    /// Writes the images home, adjacent ones in one operation and several in flight, and counts
    /// the writes. Answers the last write of each segment.
    fn write_home(&mut self, shared: &Shared) -> StorageResult<Vec<(Arc<Segment>, u64)>> {
        let runs = self.runs()?;
        let ops = runs.iter().zip(0..).map(|(run, tag)| {
            // SAFETY: runs do not overlap, and this function returns only after every buffer has
            // come back, or (should it panic) leaves them to their operations.
            let images = unsafe { self.staging.lend(run.first..run.end) };
            IoOp::write(
                Arc::clone(run.segment.file()),
                run.offset,
                vec![images],
                tag,
            )
        });
        self.queue.submit(ops.collect());
        let mut done = Vec::with_capacity(runs.len());
        while self.queue.in_flight() > 0 {
            self.queue.wait(1, &mut done);
        }
        shared
            .counters
            .home_writes
            .fetch_add(runs.len() as u64, Ordering::Relaxed);
        let mut result = Ok(());
        for completion in done {
            result = result.and(completion.result.map(|_| ()));
        }
        result?;
        let mut homes: Vec<(Arc<Segment>, u64)> = Vec::new();
        for run in &runs {
            let write = run.segment.count_write();
            match homes
                .last_mut()
                .filter(|(segment, _)| Arc::ptr_eq(segment, &run.segment))
            {
                Some(last) => last.1 = write,
                None => homes.push((Arc::clone(&run.segment), write)),
            }
            if shared.write_back {
                let len = ((run.end - run.first) * PAGE_SIZE) as u64;
                // Advice: the sync reports what matters.
                let _ = run.segment.file().start_writeback(run.offset, len);
            }
        }
        Ok(homes)
    }

    /// Groups the images, which are in file order, into adjacent ones.
    fn runs(&self) -> StorageResult<Vec<Run>> {
        let mut runs: Vec<Run> = Vec::new();
        for (image, copied) in self.copied.iter().enumerate() {
            let (segment, offset) = copied.fork.files().segment(copied.page.block)?;
            let follows = |run: &&mut Run| {
                let len = ((run.end - run.first) * PAGE_SIZE) as u64;
                Arc::ptr_eq(&run.segment, &segment) && run.offset + len == offset
            };
            match runs.last_mut().filter(follows) {
                Some(run) => run.end = image + 1,
                None => runs.push(Run {
                    segment,
                    offset,
                    first: image,
                    end: image + 1,
                }),
            }
        }
        Ok(runs)
    }
}
