//! Bringing pages into the pool: on a miss, and ahead of use.

use std::sync::Arc;

use evenkeel_io::{IoBuf, IoCompletion, IoOp};

use super::entry::{Entry, Place};
use super::fork::ForkHandle;
use super::frame::Owner;
use super::pin::Pin;
use super::ring::{Ring, Strategy};
use super::stats::Counters;
use super::word::PinRefused;
use crate::error::{StorageError, StorageResult};
use crate::ids::{BlockNumber, Fork, FrameId, PageId};
use crate::page::checksum::{self, Verdict};
use crate::page::{PAGE_SIZE, PageBytes};
use crate::stats::IoContext;

/// What a page that is not in the pool is filled with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fill {
    /// What the disk holds.
    Read,
    /// Zeroes: the caller will initialise it.
    Zero,
}

/// Under which context what is done with this strategy counts.
pub(super) fn context_of(strategy: Strategy<'_>) -> IoContext {
    strategy.map_or(IoContext::Normal, |ring| ring.context())
}

impl ForkHandle {
    pub(super) fn page_id(&self, block: BlockNumber) -> PageId {
        PageId {
            file: self.file,
            fork: self.fork,
            block,
        }
    }

    #[cold]
    pub(super) fn pin_missing(
        &self,
        block: BlockNumber,
        fill: Fill,
        strategy: Strategy<'_>,
    ) -> StorageResult<Pin<'_>> {
        loop {
            self.check_exists(block)?;
            let entry = self.array.get_or_grow(block);
            match entry.load() {
                Place::Frame(_) => match self.pin_entry(entry, strategy) {
                    Ok(id) => {
                        self.count_hit(strategy);
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
                        return self.load(entry, block, fill, strategy);
                    }
                }
            }
        }
    }

    /// Brings a page in, having won its entry.
    fn load(
        &self,
        entry: &Entry,
        block: BlockNumber,
        fill: Fill,
        strategy: Strategy<'_>,
    ) -> StorageResult<Pin<'_>> {
        let mut loading = Loading {
            fork: self,
            entry,
            frame: None,
        };
        // Again, now that whoever cuts or drops the fork waits for this entry (buffer rule 9).
        self.check_exists(block)?;
        let id = match strategy {
            Some(ring) => ring.take(&self.core)?,
            None => self.core.take_frame()?,
        };
        loading.frame = Some(id);
        // SAFETY: the frame was free and is this thread's alone until it is published.
        let page = unsafe { self.core.arena().page(id).as_mut() };
        match fill {
            Fill::Zero => page.fill(0),
            Fill::Read => {
                Counters::add(&self.core.counters.reads, 1);
                Counters::add(&self.reads, 1);
                let _context = context_of(strategy).enter();
                let read = self.files.read(block, page);
                read.map_err(|error| self.unreadable(block, error))?;
                self.judge(block, page)?;
            }
        }
        loading.publish(id, block);
        if let Some(ring) = strategy {
            ring.filled(&self.core, self.page_id(block), id);
        }
        Ok(Pin::of(self, id, block))
    }

    /// A page that cannot be read is named; what else was wrong is said as it is.
    fn unreadable(&self, block: BlockNumber, error: StorageError) -> StorageError {
        match error {
            StorageError::Io(error) => StorageError::PageRead {
                page: self.page_id(block),
                error,
            },
            other => other,
        }
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

    /// The next run of pages of `blocks` that are not in the pool, of at most `most`, with a
    /// frame for each: to be read in one operation. `blocks` is left behind it. None when
    /// everything is there, or no frame is free.
    pub(super) fn begin_ahead(
        self: &Arc<Self>,
        blocks: &mut std::ops::Range<u32>,
        most: usize,
        ring: Option<&Arc<Ring>>,
    ) -> Option<Flight> {
        blocks.end = blocks.end.min(self.len());
        let mut flight = Flight {
            fork: Arc::clone(self),
            ring: ring.cloned(),
            first: blocks.start,
            frames: Vec::new(),
        };
        let mut limit = most;
        while flight.frames.len() < limit
            && let Some(block) = blocks.next()
        {
            let block = BlockNumber(block);
            match self.claim_ahead(block, ring) {
                Claim::Frame(id) if flight.frames.is_empty() => {
                    flight.first = block.0;
                    limit = most.min(self.files.blocks_left_in_segment(block) as usize);
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

    /// Wins the entry of a page that is not in the pool, if a frame is free for it.
    fn claim_ahead(&self, block: BlockNumber, ring: Option<&Arc<Ring>>) -> Claim {
        let entry = self.array.get_or_grow(block);
        if entry.load() != Place::Empty || !entry.begin_load() {
            return Claim::Resident;
        }
        let mut loading = Loading {
            fork: self,
            entry,
            frame: None,
        };
        if self.check_exists(block).is_err() {
            return Claim::NoFrame;
        }
        loading.frame = match ring {
            Some(ring) => ring.try_take(&self.core),
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
}

/// What came of a try to read a page ahead.
enum Claim {
    Frame(FrameId),
    /// In the pool, or on its way.
    Resident,
    /// Nothing is free.
    NoFrame,
}

/// Adjacent pages being read ahead of use, each entry won and each frame this flight's alone.
/// Unless they are shown, dropping it empties the entries and gives the frames back.
pub(super) struct Flight {
    fork: Arc<ForkHandle>,
    ring: Option<Arc<Ring>>,
    first: u32,
    frames: Vec<FrameId>,
}

impl Flight {
    /// The read that fills the frames, all in one segment.
    pub(super) fn operation(&self, tag: u64) -> StorageResult<IoOp> {
        let (segment, offset) = self.fork.files.segment(BlockNumber(self.first))?;
        let bufs = self.frames.iter().map(|id| {
            let start = self.fork.core.arena().page(*id).cast::<u8>();
            let owner = Arc::clone(&self.fork.core);
            // SAFETY: the frame is this flight's alone until it is shown, which is after the
            // operation has come back; the core keeps the arena mapped.
            unsafe { IoBuf::lend(start, PAGE_SIZE, owner) }
        });
        Ok(IoOp::read(
            Arc::clone(segment.file()),
            offset,
            bufs.collect(),
            tag,
        ))
    }

    pub(super) fn context(&self) -> IoContext {
        context_of(self.ring.as_ref())
    }

    /// Shows the pages that were read and are whole. Advice: errors, and damaged pages, are left
    /// to who needs the page.
    pub(super) fn finish(mut self, completion: IoCompletion) {
        let whole = completion
            .result
            .is_ok_and(|len| len == self.frames.len() * PAGE_SIZE);
        // The operation's buffers are gone before the frames are used.
        drop(completion.op);
        if !whole {
            return;
        }
        let count = self.frames.len() as u64;
        Counters::add(&self.fork.core.counters.prefetched, count);
        Counters::add(&self.fork.reads, count);
        for (index, id) in std::mem::take(&mut self.frames).into_iter().enumerate() {
            // A fork's length is a u32.
            let block = BlockNumber(self.first + index as u32);
            let page_id = self.fork.page_id(block);
            let loading = Loading {
                fork: &self.fork,
                entry: self.fork.array.get_or_grow(block),
                frame: Some(id),
            };
            // SAFETY: the frame is this flight's alone.
            let page = unsafe { self.fork.core.arena().page(id).as_ref() };
            if !checksum::verify(page, page_id).is_valid() {
                continue;
            }
            loading.publish(id, block);
            if let Some(ring) = &self.ring {
                ring.filled(&self.fork.core, page_id, id);
            }
            self.fork.core.frame(id).latch.unpin();
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        for (index, id) in self.frames.drain(..).enumerate() {
            let block = BlockNumber(self.first + index as u32);
            drop(Loading {
                fork: &self.fork,
                entry: self.fork.array.get_or_grow(block),
                frame: Some(id),
            });
        }
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
