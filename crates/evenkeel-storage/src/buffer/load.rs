//! Bringing pages into the pool: on a miss, and ahead of use.

use std::sync::Arc;

use evenkeel_io::{IoBuf, IoCompletion, IoOp};

use super::entry::{Entry, Place};
use super::fork_pages::ForkPages;
use super::frame::Owner;
use super::frame_state::FrameState;
use super::owed::{PageRedo, Start};
use super::pool_core::PoolCore;
use super::stats::Counters;
use super::strategy::{BufferAccessStrategy, Strategy};
use crate::error::{StorageError, StorageResult};
use crate::ids::{BlockNumber, Fork, FrameId, Lsn};
use crate::page::checksum::{self, Verdict};
use crate::page::{PAGE_SIZE, PageBytes, header_fault};
use crate::retry;
use crate::stats::IoContext;

/// The source of the content of a page that is not in the pool.
#[derive(Clone, Copy)]
pub(super) enum Fill<'a> {
    /// The data file.
    Read,
    /// Zeroes: the caller will initialise it.
    Zero,
    /// The content that a record in the log gave a page that is set aside.
    Image(&'a PageBytes),
}

/// Under which context what is done with this strategy counts.
pub(super) fn context_of(strategy: Strategy<'_>) -> IoContext {
    strategy.map_or(IoContext::Normal, |ring| ring.context())
}

/// Brings pages of one fork into the pool.
#[derive(Clone, Copy)]
pub(super) struct Loader<'a> {
    pub(super) core: &'a PoolCore,
    pub(super) fork: &'a Arc<ForkPages>,
}

impl Loader<'_> {
    /// Brings a page in, having won its entry. The caller has a pin on it afterwards.
    pub(super) fn load(
        &self,
        entry: &Entry,
        block: BlockNumber,
        fill: Fill<'_>,
        strategy: Strategy<'_>,
    ) -> StorageResult<FrameId> {
        let mut loading = self.loading(entry);
        // Again, now that whoever cuts or drops the fork waits for this entry (BUF-9).
        self.fork.check_exists(block)?;
        let page_id = self.fork.page_id(block);
        let is_image = matches!(fill, Fill::Image(_));
        if !is_image {
            self.core.damaged.check(page_id)?;
        }
        let id = match strategy {
            Some(ring) => ring.take(self.core)?,
            None => self.core.take_frame()?,
        };
        loading.frame = Some(id);
        // SAFETY: the frame was free and is this thread's alone until it is published.
        let page = unsafe { self.core.arena().page(id).as_mut() };
        let owed = self.core.owed.get().filter(|_| !is_image);
        let owed = owed.and_then(|redo| Some((redo.start_of(page_id)?, redo)));
        let dirtied = match &owed {
            Some((start, redo)) => {
                let read = |page: &mut PageBytes| self.read(block, page, strategy);
                self.bring_up(block, *start, &**redo, page, read)
                    .map_err(|error| redo.set_aside(page_id, error))?
            }
            None => {
                self.fill(block, fill, page, strategy)?;
                None
            }
        };
        loading.publish(id, block, dirtied);
        if let Some((_, redo)) = owed {
            redo.completed(page_id);
        }
        if let Some(ring) = strategy {
            ring.filled(self.core, page_id, id);
        }
        Ok(id)
    }

    fn fill(
        &self,
        block: BlockNumber,
        fill: Fill<'_>,
        page: &mut PageBytes,
        strategy: Strategy<'_>,
    ) -> StorageResult<()> {
        match fill {
            Fill::Zero => page.fill(0),
            Fill::Image(bytes) => page.copy_from_slice(bytes),
            Fill::Read => match self.read(block, page, strategy) {
                Ok(()) => self.judge(block, page)?,
                Err(error) => self.replace_advice(error, page)?,
            },
        }
        Ok(())
    }

    /// Makes the changes that the log owes to a page. Its LSN is compared with what the log says
    /// of it, and not with what was last written home: that may be of a change which the log
    /// lost. Returns the LSN of the first change if the page is to be written home.
    fn bring_up(
        &self,
        block: BlockNumber,
        start: Start,
        redo: &dyn PageRedo,
        page: &mut PageBytes,
        read: impl Fn(&mut PageBytes) -> StorageResult<()>,
    ) -> StorageResult<Option<Lsn>> {
        let page_id = self.fork.page_id(block);
        let read = match start {
            Start::Zeroed => {
                page.fill(0);
                Ok(())
            }
            Start::Read => {
                let may_pass =
                    |error: &StorageError| matches!(error, StorageError::PageRead { .. });
                let read = retry::attempts(may_pass, || read(page));
                let whole = read.and_then(|()| match checksum::verify(page, page_id) {
                    Verdict::Damaged { stored, computed } => {
                        Err(checksum::damaged(page, page_id, stored, computed))
                    }
                    Verdict::Zero => Ok(()),
                    Verdict::Valid => self.check_header(block, page),
                });
                whole.or_else(|error| self.replace_advice(error, page))
            }
        };
        redo.complete(page_id, page, read)
    }

    /// Reads a page from its file. One that cannot be read is named; what else was wrong is said
    /// as it is.
    fn read(
        &self,
        block: BlockNumber,
        page: &mut PageBytes,
        strategy: Strategy<'_>,
    ) -> StorageResult<()> {
        Counters::add(&self.core.counters.reads, 1);
        Counters::add(&self.fork.reads, 1);
        let _context = context_of(strategy).enter();
        let read = self.fork.files().read(block, page);
        read.map_err(|error| match error {
            StorageError::Io(error) => StorageError::PageRead {
                page: self.fork.page_id(block),
                error,
            },
            other => other,
        })
    }

    /// Checks a page just read. A damaged page of a free-space map is replaced by zeroes, which
    /// is advice as good.
    fn judge(&self, block: BlockNumber, page: &mut PageBytes) -> StorageResult<()> {
        let id = self.fork.page_id(block);
        let Verdict::Damaged { stored, computed } = checksum::verify(page, id) else {
            let sound = self.check_sound(block, page);
            return sound.or_else(|error| self.replace_advice(error, page));
        };
        self.replace_advice(checksum::damaged(page, id, stored, computed), page)
    }

    /// A page of a free-space map that is damaged or cannot be read is replaced by zeroes, which
    /// is advice as good.
    fn replace_advice(&self, error: StorageError, page: &mut PageBytes) -> StorageResult<()> {
        let is_of_page = error.damaged_page().is_some();
        if self.fork.fork != Fork::Fsm || !is_of_page {
            return Err(error);
        }
        tracing::warn!("{error}; it is only advice and starts again empty");
        Counters::add(&self.core.counters.zeroed_advice, 1);
        page.fill(0);
        Ok(())
    }

    /// Checks what a valid checksum does not say of a page just read.
    fn check_sound(&self, block: BlockNumber, page: &PageBytes) -> StorageResult<()> {
        self.check_header(block, page)?;
        self.check_age(block, page)
    }

    /// Checks that the header of a page just read is one that a write-out lets pass (OUT-19).
    fn check_header(&self, block: BlockNumber, page: &PageBytes) -> StorageResult<()> {
        match header_fault(page) {
            None => Ok(()),
            Some(reason) => Err(StorageError::PageDamaged {
                page: self.fork.page_id(block),
                lsn: checksum::lsn_of(page),
                reason,
            }),
        }
    }

    /// Checks that a page just read, and whole, is not older than what was last written home, and
    /// that the log has what it was last changed by: no page goes home before its log, so log
    /// that such a page is ahead of was lost.
    fn check_age(&self, block: BlockNumber, page: &PageBytes) -> StorageResult<()> {
        if self.fork.file.is_temporary() {
            return Ok(());
        }
        let lsn = checksum::lsn_of(page);
        let written = self.fork.files().last_written(block);
        let reason = if let Some(written) = written.filter(|written| lsn < *written) {
            if checksum::is_zero(page) {
                format!("it is all zeroes, and was last written with LSN {written}")
            } else {
                format!("its LSN is {lsn}, and it was last written with LSN {written}")
            }
        } else if let Some(reason) = self.core.lost_log(lsn) {
            reason
        } else {
            return Ok(());
        };
        Err(StorageError::PageDamaged {
            page: self.fork.page_id(block),
            lsn,
            reason,
        })
    }

    /// Wins the entry of a page that is not in the pool, if a frame is free for it. A page that is
    /// owed changes is left to redo.
    fn claim_ahead(
        &self,
        block: BlockNumber,
        ring: Option<&Arc<BufferAccessStrategy>>,
        by: Reader,
    ) -> Claim {
        let entry = self.fork.array.get_or_grow(block);
        if entry.load() != Place::Empty || !entry.begin_load() {
            return Claim::Resident;
        }
        let mut loading = self.loading(entry);
        if self.fork.check_exists(block).is_err() {
            return Claim::NoFrame;
        }
        let page_id = self.fork.page_id(block);
        if self.core.damaged.get(page_id).is_some() {
            return Claim::Resident;
        }
        let start = self.core.owed.get().and_then(|redo| redo.start_of(page_id));
        if (by == Reader::Redo) != (start == Some(Start::Read)) {
            return Claim::Resident;
        }
        loading.frame = match ring {
            Some(ring) => ring.try_take(self.core),
            None => self.core.try_take_frame(),
        };
        match loading.frame {
            Some(id) => {
                // The flight has it from here on.
                std::mem::forget(loading);
                Claim::Frame(id)
            }
            None => Claim::NoFrame,
        }
    }

    fn loading<'a>(&'a self, entry: &'a Entry) -> Loading<'a> {
        Loading {
            loader: *self,
            entry,
            frame: None,
        }
    }
}

/// On whose behalf pages are read ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reader {
    /// Somebody who will need them as they are.
    User,
    /// Redo, which changes them before anybody sees them.
    Redo,
}

/// Result of an attempt to read a page ahead.
enum Claim {
    Frame(FrameId),
    /// In the pool, or on its way, or not to be read.
    Resident,
    /// Nothing is free.
    NoFrame,
}

/// Adjacent pages being read ahead of use, each entry won and each frame this flight's alone.
/// Unless they are shown, dropping it empties the entries and gives the frames back.
pub(crate) struct Flight {
    core: Arc<PoolCore>,
    fork: Arc<ForkPages>,
    ring: Option<Arc<BufferAccessStrategy>>,
    first: u32,
    frames: Vec<FrameId>,
}

impl Flight {
    /// The next run of pages of `blocks` that are not in the pool, of at most `most`, with a
    /// frame for each: to be read in one operation. `blocks` is left behind it. None when
    /// everything is there, or no frame is free.
    pub(super) fn begin(
        core: &Arc<PoolCore>,
        fork: &Arc<ForkPages>,
        blocks: &mut std::ops::Range<u32>,
        most: usize,
        ring: Option<&Arc<BufferAccessStrategy>>,
        by: Reader,
    ) -> Option<Flight> {
        blocks.end = blocks.end.min(fork.len());
        let mut flight = Flight {
            core: Arc::clone(core),
            fork: Arc::clone(fork),
            ring: ring.cloned(),
            first: blocks.start,
            frames: Vec::new(),
        };
        let loader = Loader { core, fork };
        let mut limit = most;
        while flight.frames.len() < limit
            && let Some(block) = blocks.next()
        {
            let block = BlockNumber(block);
            match loader.claim_ahead(block, ring, by) {
                Claim::Frame(id) if flight.frames.is_empty() => {
                    flight.first = block.0;
                    limit = most.min(fork.files().blocks_left_in_segment(block) as usize);
                    flight.frames.push(id);
                }
                Claim::Frame(id) => flight.frames.push(id),
                Claim::NoFrame => {
                    blocks.start = blocks.end;
                    break;
                }
                Claim::Resident if flight.frames.is_empty() => {}
                Claim::Resident => break,
            }
        }
        (!flight.frames.is_empty()).then_some(flight)
    }

    fn loader(&self) -> Loader<'_> {
        Loader {
            core: &self.core,
            fork: &self.fork,
        }
    }

    /// The read that fills the frames, all in one segment. The thread that carries it out checks
    /// the pages, makes the changes that they are owed, and shows them.
    pub(crate) fn into_operation(self) -> StorageResult<IoOp> {
        let (segment, offset) = self.fork.files().segment(BlockNumber(self.first))?;
        let bufs = self.frames.iter().map(|id| {
            let start = self.core.arena().page(*id).cast::<u8>();
            let owner = Arc::clone(&self.core);
            // SAFETY: the frame is this flight's alone until it is shown, which is after the
            // operation has come back; the core keeps the arena mapped.
            unsafe { IoBuf::lend(start, PAGE_SIZE, owner) }
        });
        let read = IoOp::read(Arc::clone(segment.file()), offset, bufs.collect(), 0);
        Ok(read.finished_by(move |completion| self.finish(completion)))
    }

    /// The pages.
    pub(crate) fn blocks(&self) -> std::ops::Range<u32> {
        // A fork's length is a u32.
        self.first..self.first + self.frames.len() as u32
    }

    pub(super) fn context(&self) -> IoContext {
        context_of(self.ring.as_ref())
    }

    /// Shows the pages that were read and are whole. Advice: errors, and damaged pages, are left
    /// to who needs the page.
    fn finish(mut self, completion: IoCompletion) {
        let whole = completion
            .result
            .is_ok_and(|len| len == self.frames.len() * PAGE_SIZE);
        // The operation's buffers are gone before the frames are used.
        drop(completion.op);
        if !whole {
            return;
        }
        let count = self.frames.len() as u64;
        if completion.blocked {
            Counters::add(&self.fork.device_reads, 1);
        }
        Counters::add(&self.core.counters.prefetched, count);
        Counters::add(&self.fork.reads, count);
        for (index, id) in std::mem::take(&mut self.frames).into_iter().enumerate() {
            // A fork's length is a u32.
            let block = BlockNumber(self.first + index as u32);
            let page_id = self.fork.page_id(block);
            let loading = Loading {
                loader: self.loader(),
                entry: self.fork.array.get_or_grow(block),
                frame: Some(id),
            };
            // SAFETY: the frame is this flight's alone.
            let page = unsafe { self.core.arena().page(id).as_mut() };
            let redo = self.core.owed.get();
            let owed = redo.and_then(|redo| Some((redo.start_of(page_id)?, redo)));
            let dirtied = match &owed {
                Some((start, redo)) => {
                    let there = |_: &mut PageBytes| Ok(());
                    self.loader().bring_up(block, *start, &**redo, page, there)
                }
                None => self.loader().judge(block, page).map(|()| None),
            };
            let Ok(dirtied) = dirtied else {
                continue;
            };
            loading.publish(id, block, dirtied);
            if let Some((_, redo)) = owed {
                redo.completed(page_id);
            }
            if let Some(ring) = &self.ring {
                ring.filled(&self.core, page_id, id);
            }
            self.core.frame(id).latch.unpin();
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let frames = std::mem::take(&mut self.frames);
        let loader = self.loader();
        for (index, id) in frames.into_iter().enumerate() {
            let block = BlockNumber(self.first + index as u32);
            drop(Loading {
                loader,
                entry: self.fork.array.get_or_grow(block),
                frame: Some(id),
            });
        }
    }
}

/// A page being loaded by this thread. Unless it is published, dropping it empties the entry,
/// gives the frame back and wakes who waits.
struct Loading<'a> {
    loader: Loader<'a>,
    entry: &'a Entry,
    frame: Option<FrameId>,
}

impl Loading<'_> {
    /// The page is in the frame, complete and checked: shows it to everybody, with a pin of this
    /// thread.
    /// `dirtied`: LSN of the first change that redo has made to it.
    fn publish(mut self, id: FrameId, block: BlockNumber, dirtied: Option<Lsn>) {
        self.frame = None;
        let frame = self.loader.core.frame(id);
        let fork = Arc::clone(self.loader.fork);
        debug_assert!(
            frame.latch.load() == FrameState::FREE,
            "page {} shown in a frame in use: {:?}",
            fork.page_id(block),
            frame.latch.load()
        );
        // SAFETY: the frame is not VALID and this thread's alone.
        unsafe { frame.replace_owner(Some(Owner { fork, block })) };
        let word = frame.dirtiness.loaded(dirtied);
        self.entry
            .show(&frame.latch, word, id, &self.loader.core.waiters);
        std::mem::forget(self);
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.frame.take() {
            self.loader.core.put_frames(&[id]);
        }
        self.entry.end_load(None, &self.loader.core.waiters);
    }
}
