//! One batch of pages on its way from dirty to written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use evenkeel_io::{IoOp, IoQueue};

use super::doublewrite::{BatchSlots, DoublewriteBuffer};
use super::format::{BatchEntry, BatchHeader, MAX_BATCH};
use super::spacing::{FullSpeed, Piece, WritePace};
use super::staging::Staging;
use crate::buffer::{BufferPool, Copied};
use crate::error::StorageResult;
use crate::files::{OpenSegment, Segment};
use crate::ids::{BlockNumber, FrameId, Lsn, PageId};
use crate::invariant;
#[cfg(test)]
use crate::mutant::Mutant;
use crate::page::{PAGE_SIZE, checksum, header_fault};
use crate::wal::LogFlush;

/// Home writes in flight at once in one lane.
const QUEUE_DEPTH: usize = 16;

/// State shared by all lanes.
pub(super) struct Shared {
    pub(super) pool: Arc<BufferPool>,
    pub(super) log: Arc<dyn LogFlush>,
    /// `None` when the operator vouches for atomic page writes, or the log has images.
    pub(super) area: Option<DoublewriteBuffer>,
    /// Pages that are torn are restored from the log: the area is not needed any more.
    pub(super) images_cover: AtomicBool,
    /// Whether clean pages may be written again to close gaps.
    pub(super) fill_gaps: bool,
    pub(super) counters: Counters,
}

/// Counters of all lanes.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) batches: AtomicU64,
    pub(super) pages: AtomicU64,
    pub(super) home_writes: AtomicU64,
    pub(super) log_flushes: AtomicU64,
}

/// The means to write one batch at a time.
pub(super) struct BatchWriter {
    staging: Staging,
    queue: Box<dyn IoQueue>,
    copied: Vec<Copied>,
    /// Which of the copied pages only close gaps.
    filler: Vec<bool>,
    /// Ranges that the device may still be writing: segment, offset and length.
    on_device: Vec<(OpenSegment, u64, u64)>,
    /// Write-back is asked for whenever so many bytes have been written, and no more than twice
    /// as many are with the device at once; 0 leaves it to the system.
    flush_after: u64,
    /// Rings wait for what it writes: the log's part of that is counted.
    awaited: bool,
}

/// The last home write of each segment in a batch.
type Homes = Vec<(Arc<Segment>, u64)>;

/// Adjacent pages of one segment, written in one operation.
struct Run {
    segment: OpenSegment,
    offset: u64,
    first: usize,
    end: usize,
}

impl Run {
    fn len(&self) -> u64 {
        ((self.end - self.first) * PAGE_SIZE) as u64
    }
}

impl Shared {
    /// Tells the log that page writes begin, or have ended.
    fn pages_under_way(&self, begin: bool) {
        if let Some(latency) = self.log.latency() {
            if begin {
                latency.pages_begin();
            } else {
                latency.pages_end();
            }
        }
    }
}

impl BatchWriter {
    pub(super) fn new(
        shared: &Shared,
        batch: usize,
        flush_after: u64,
        awaited: bool,
    ) -> BatchWriter {
        let limit = shared
            .area
            .as_ref()
            .map_or(MAX_BATCH, DoublewriteBuffer::max_batch)
            .min(MAX_BATCH);
        BatchWriter {
            staging: Staging::new(batch.min(limit)),
            queue: shared.pool.files().disk().queue(QUEUE_DEPTH),
            copied: Vec::new(),
            filler: Vec::new(),
            on_device: Vec::new(),
            flush_after,
            awaited,
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
    /// Any error leaves frames WRITING for good, so it poisons the instance (OUT-6).
    pub(super) fn write(
        &mut self,
        shared: &Shared,
        due: &[(PageId, FrameId)],
        wait: bool,
    ) -> StorageResult<(usize, usize)> {
        self.write_spaced(shared, due, None, wait, &mut FullSpeed)
    }

    /// As [`BatchWriter::write`], spaced by `pace`, and without those that nothing changed before
    /// `target` any more.
    pub(super) fn write_spaced(
        &mut self,
        shared: &Shared,
        due: &[(PageId, FrameId)],
        target: Option<Lsn>,
        wait: bool,
        pace: &mut dyn WritePace,
    ) -> StorageResult<(usize, usize)> {
        shared.pool.poison().check()?;
        let most = pace.batch().clamp(1, self.staging.capacity());
        let gap = if shared.fill_gaps { pace.gap() } else { 0 };
        let looked_at = self.copy(shared, due, target, (most, gap), wait);
        if self.copied.is_empty() {
            return Ok((looked_at, 0));
        }
        let result = self.write_copied(shared, pace);
        let written = self.copied.len() - self.fillers();
        Self::poison_on_error(shared, result).map(|()| (looked_at, written))
    }

    pub(super) fn poison_on_error(shared: &Shared, result: StorageResult<()>) -> StorageResult<()> {
        result.inspect_err(|error| {
            let poison = shared.pool.poison();
            poison.set(format!("writing pages failed: {error}"));
        })
    }

    /// Waits until the device has taken what was handed to it.
    ///
    /// # Errors
    /// As [`BatchWriter::write`]: what it did not take is lost.
    pub(super) fn settle(&mut self, shared: &Shared) -> StorageResult<()> {
        if self.on_device.is_empty() {
            return Ok(());
        }
        let mut result = Ok(());
        for (segment, offset, len) in self.on_device.drain(..) {
            result = result.and_then(|()| segment.file().await_writeback(offset, len));
        }
        shared.pages_under_way(false);
        Self::poison_on_error(shared, result.map_err(Into::into))
    }

    /// The frames of the last batch.
    pub(super) fn written(&self) -> impl Iterator<Item = FrameId> + '_ {
        self.copied.iter().map(|copied| copied.frame)
    }

    /// The pages of the last batch that were due.
    pub(super) fn written_pages(&self) -> impl Iterator<Item = PageId> + '_ {
        let due = self.copied.iter().zip(&self.filler);
        due.filter(|(_, filler)| !**filler)
            .map(|(copied, _)| copied.page)
    }

    fn copy(
        &mut self,
        shared: &Shared,
        due: &[(PageId, FrameId)],
        target: Option<Lsn>,
        (most, gap): (usize, usize),
        wait: bool,
    ) -> usize {
        self.copied.clear();
        self.filler.clear();
        for (index, (page, frame)) in due.iter().enumerate() {
            let image = self.copied.len();
            let is_temporary = page.file.is_temporary();
            let first = self.copied.first();
            // Temporary pages go home by themselves: neither log nor area has them (STO-15).
            if image == most
                || first.is_some_and(|first| first.page.file.is_temporary() != is_temporary)
            {
                return index;
            }
            // Cleaned meanwhile, and perhaps changed again: the next cycle's (OUT-12).
            if target.is_some_and(|target| !shared.pool.is_due(*page, *frame, target)) {
                continue;
            }
            if gap > 0 {
                self.fill_gap(shared, *page, most, gap);
            }
            // Only the first may be waited for: no other frame is WRITING yet.
            let image = self.copied.len();
            let wait = wait && image == 0;
            let image = self.staging.image_mut(image);
            self.copied.extend(
                shared
                    .pool
                    .begin_write(*page, *frame, image, wait, &*shared.log),
            );
            self.filler.resize(self.copied.len(), false);
        }
        due.len()
    }

    /// Copies the pages between the last one copied and `next`, if there are at most `gap` of
    /// them, all in memory, and room for them and `next` in a batch of `most`.
    fn fill_gap(&mut self, shared: &Shared, next: PageId, most: usize, gap: usize) {
        let Some(last) = self.copied.last() else {
            return;
        };
        let first = last.page.block.0 + 1;
        let between = first..next.block.0;
        let same = (last.page.file, last.page.fork) == (next.file, next.fork);
        if !same || between.len() > gap || self.copied.len() + between.len() >= most {
            return;
        }
        let fork = Arc::clone(&last.fork);
        if !between
            .clone()
            .all(|block| fork.is_resident(BlockNumber(block)))
        {
            return;
        }
        for block in between {
            let image = self.staging.image_mut(self.copied.len());
            let copied = shared.pool.begin_rewrite(&fork, BlockNumber(block), image);
            // One that was locked, or changed meanwhile: the gap stays open there.
            self.copied.extend(copied);
            self.filler.resize(self.copied.len(), true);
        }
    }

    /// How many pages of the last batch only closed gaps.
    pub(super) fn fillers(&self) -> usize {
        self.filler.iter().filter(|filler| **filler).count()
    }

    /// Log, area, home: in this order (OUT-1).
    fn write_copied(&mut self, shared: &Shared, pace: &mut dyn WritePace) -> StorageResult<()> {
        let newest = self.check_copies(shared)?;
        if !newest.is_zero() {
            if newest >= shared.log.durable_lsn() {
                shared.counters.log_flushes.fetch_add(1, Ordering::Relaxed);
            }
            self.flush_log(shared, newest)?;
            let durable = shared.log.durable_lsn();
            invariant!(
                shared.pool.poison(),
                newest < durable,
                "pages changed up to {newest} would go home while the log is durable to {durable}"
            );
        }
        let begun = Instant::now();
        let first = self.copied.first();
        let is_temporary = first.is_some_and(|first| first.page.file.is_temporary());
        let is_covered = is_temporary || shared.images_cover.load(Ordering::SeqCst);
        let slots = match &shared.area {
            Some(area) if !is_covered => {
                shared.pages_under_way(true);
                let slots = self.protect(area);
                shared.pages_under_way(false);
                Some(slots?)
            }
            _ => None,
        };
        let homes = self.write_home(shared, begun.elapsed(), pace)?;
        if let (Some(area), Some(slots)) = (&shared.area, &slots) {
            area.finish(slots, homes);
        }
        shared.counters.batches.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Checks that the copies are what may be written, and answers their highest LSN: their
    /// headers are in order, and the log has the records that they were changed by (OUT-19).
    fn check_copies(&mut self, shared: &Shared) -> StorageResult<Lsn> {
        let poison = shared.pool.poison();
        let mut newest = Lsn::ZERO;
        for (at, copied) in self.copied.iter().enumerate() {
            let image = self.staging.image_mut(at);
            debug_assert!(
                checksum::verify(image, copied.page).is_valid(),
                "the copy of {} is not what was sealed",
                copied.page
            );
            let fault = header_fault(image);
            invariant!(
                poison,
                fault.is_none(),
                "{} would be written: {}",
                copied.page,
                fault.unwrap_or_default()
            );
            newest = newest.max(copied.lsn);
        }
        let end = shared.log.insert_lsn();
        invariant!(
            poison,
            newest.is_zero() || newest < end,
            "a page to be written has LSN {newest}, and the log ends at {end}"
        );
        Ok(newest)
    }

    /// Waits for the log up to `newest`.
    fn flush_log(&self, shared: &Shared, newest: Lsn) -> StorageResult<()> {
        #[cfg(test)]
        if shared.pool.poison().has(Mutant::SkipLogFlush) {
            return Ok(());
        }
        if !self.awaited {
            return shared.log.flush(newest);
        }
        let log_waits = shared.pool.core().log_waits();
        log_waits.time(|| shared.log.flush(newest))
    }

    /// Makes the images durable in the double-write area.
    fn protect(&mut self, area: &DoublewriteBuffer) -> StorageResult<BatchSlots> {
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
            live: slots.live,
            entries,
        };
        header.encode(self.staging.header_mut());
        area.write(&slots, self.staging.header_and_images(self.copied.len()))?;
        Ok(slots)
    }

    /// Writes the images home in pieces, adjacent ones in one operation. Answers the last write
    /// of each segment.
    fn write_home(
        &mut self,
        shared: &Shared,
        mut protect: Duration,
        pace: &mut dyn WritePace,
    ) -> StorageResult<Homes> {
        let runs = self.runs()?;
        let mut homes = Homes::with_capacity(runs.len());
        let mut rest = &runs[..];
        let mut pages = 0;
        while !rest.is_empty() {
            let begun = Instant::now();
            let most = pace.piece();
            let (piece, later) = rest.split_at(piece_len(rest, most, self.flush_after));
            rest = later;
            self.write_piece(shared, piece, &mut homes)?;
            if most.is_some() {
                self.settle(shared)?;
            }
            let images = piece
                .iter()
                .flat_map(|run| &self.filler[run.first..run.end]);
            let written = images.filter(|filler| !**filler).count() as u64;
            pages += written;
            pace.wrote(Piece {
                pages: written,
                writes: piece.len() as u64,
                took: begun.elapsed(),
                protect: std::mem::take(&mut protect),
                done: pages,
                due: self.copied.len() as u64,
            });
        }
        Ok(homes)
    }

    /// Writes some runs, several in flight, counts the writes, makes the frames clean and has
    /// the system begin with the write-back.
    fn write_piece(
        &mut self,
        shared: &Shared,
        runs: &[Run],
        homes: &mut Homes,
    ) -> StorageResult<()> {
        shared.pages_under_way(true);
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
        let mut result = Ok(());
        for completion in done {
            result = result.and(completion.result.map(|_| ()));
        }
        result?;
        #[cfg(test)]
        let is_early = shared.pool.poison().has(Mutant::CleanBeforeCount);
        #[cfg(not(test))]
        let is_early = false;
        if is_early {
            self.end(shared, runs)?;
            std::thread::sleep(Duration::from_millis(200));
        }
        self.count(shared, runs, homes);
        if !is_early {
            self.end(shared, runs)?;
        }
        if self.flush_after == 0 {
            shared.pages_under_way(false);
            return Ok(());
        }
        for run in runs {
            // Advice: waiting for it, or the sync, reports what matters.
            let _ = run.segment.file().start_writeback(run.offset, run.len());
        }
        // Not more than two pieces are with the device at once, or a commit's log would be
        // behind all of them.
        self.settle(shared)?;
        let ranges = runs
            .iter()
            .map(|run| (run.segment.clone(), run.offset, run.len()));
        self.on_device.extend(ranges);
        Ok(())
    }

    /// Makes the frames of runs clean, unless they were changed since they were copied.
    fn end(&self, shared: &Shared, runs: &[Run]) -> StorageResult<()> {
        let copied = &self.copied;
        let frames = runs.iter().flat_map(|run| &copied[run.first..run.end]);
        shared.pool.end_write(frames.map(|copied| copied.frame))
    }

    /// Counts the completed writes of runs: from here on they are known to need a sync.
    fn count(&self, shared: &Shared, runs: &[Run], homes: &mut Homes) {
        let counters = &shared.counters;
        for run in runs {
            #[cfg(test)]
            if shared.pool.poison().has(Mutant::CountLost) && run.offset / 8192 % 3 == 1 {
                continue;
            }
            let write = run.segment.count_write();
            self.note(run);
            match homes
                .last_mut()
                .filter(|(segment, _)| Arc::ptr_eq(segment, run.segment.segment()))
            {
                Some(last) => last.1 = write,
                None => homes.push((Arc::clone(run.segment.segment()), write)),
            }
            let pages = (run.end - run.first) as u64;
            counters.pages.fetch_add(pages, Ordering::Relaxed);
        }
        let writes = runs.len() as u64;
        counters.home_writes.fetch_add(writes, Ordering::Relaxed);
    }

    /// Tells the manifest what a run has written, now that a sync is known to be needed for it
    /// and before its frames are clean (FILE-13).
    fn note(&self, run: &Run) {
        let copied = &self.copied[run.first..run.end];
        if let Some(first) = copied.first() {
            let files = first.fork.files();
            files.wrote(copied.iter().map(|copied| (copied.page.block, copied.lsn)));
        }
    }

    /// Groups the images, which are in file order, into adjacent ones.
    fn runs(&self) -> StorageResult<Vec<Run>> {
        debug_assert!(
            self.copied.is_sorted_by_key(|copied| copied.page),
            "a batch out of file order"
        );
        let mut runs: Vec<Run> = Vec::new();
        for (image, copied) in self.copied.iter().enumerate() {
            let (segment, offset) = copied.fork.files().await_segment(copied.page.block)?;
            let follows = |run: &&mut Run| {
                Arc::ptr_eq(run.segment.segment(), segment.segment())
                    && run.offset + run.len() == offset
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

/// How many of `runs` make a piece: at most `most`, and at most `bytes` unless that is 0, but at
/// least one.
fn piece_len(runs: &[Run], most: Option<usize>, bytes: u64) -> usize {
    let most = most.unwrap_or(runs.len()).clamp(1, runs.len());
    let mut left = if bytes == 0 { u64::MAX } else { bytes };
    let mut fits = |run: &&Run| {
        let fits = run.len() <= left;
        left = left.saturating_sub(run.len());
        fits
    };
    runs[..most].iter().take_while(&mut fits).count().max(1)
}
