//! The threads that bring all pages up to date, in the order of the files, several reads ahead.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use evenkeel_io::IoQueue;

use super::lists::{Key, PageLists};
use super::owed::Owed;
use super::progress::{Progress, Report};
use crate::buffer::{Flight, PageRedo, Start};
use crate::error::{StorageError, StorageResult};
use crate::ids::{BlockNumber, PageId};
use crate::parallel;
use crate::stats::BackendType;

/// Pages that a thread takes at once.
const BATCH: usize = 64;
/// The pages with the oldest changes come first, so that the redo point follows. They are redone in
/// so many steps, each in the order of the files, of no fewer and no more pages than these.
const STEPS: usize = 8;
const LEAST_STEP: usize = if cfg!(test) { 8 } else { 1 << 12 };
const LONGEST_STEP: usize = 1 << 16;
/// Changes from which on a page comes before all others: somebody will want it.
const HOT: u32 = 1024;
/// Most threads by default.
const THREADS: usize = 8;
/// How long a failure that may pass is waited out.
const PAUSE: Duration = Duration::from_millis(200);
/// How long redo steps back at most, at once, for whoever waits for a free frame.
const YIELD: Duration = Duration::from_millis(20);

/// The pages of one share in the order in which they are brought up to date.
pub(super) struct Drain<'a> {
    owed: &'a Owed,
    order: Vec<u32>,
    next: AtomicUsize,
    stop: &'a AtomicBool,
    reads: Reads,
    report: &'a Report,
}

/// How the threads read.
#[derive(Clone, Copy)]
struct Reads {
    /// Reads in flight at once, for each thread; none: pages are read one by one.
    depth: usize,
    combine: usize,
}

impl<'a> Drain<'a> {
    /// For the pages that are still owed something. `ahead`: reads may go ahead of use.
    pub(super) fn new(
        owed: &'a Owed,
        ahead: bool,
        stop: &'a AtomicBool,
        report: &'a Report,
    ) -> Drain<'a> {
        let reads = match ahead {
            true => reads(owed),
            false => Reads {
                depth: 0,
                combine: 1,
            },
        };
        Drain {
            owed,
            order: order(owed.lists(), |at| owed.is_done(at)),
            next: AtomicUsize::new(0),
            stop,
            reads,
            report,
        }
    }

    /// Brings every page up to date that nobody else does, unless it is stopped.
    ///
    /// # Errors
    /// The first that is not of one page.
    pub(super) fn run(&self) -> StorageResult<()> {
        let helpers = threads(self.owed).min(self.order.len() / BATCH + 1) - 1;
        let work = || Worker::new(self).run();
        parallel::share("redo", helpers, work, |(), ()| ())
    }

    fn take(&self) -> &[u32] {
        let start = self.next.fetch_add(BATCH, Ordering::Relaxed);
        let end = start.saturating_add(BATCH).min(self.order.len());
        self.order.get(start..end).unwrap_or_default()
    }
}

fn threads(owed: &Owed) -> usize {
    match owed.core().config.recovery_workers {
        0 => std::thread::available_parallelism().map_or(1, |n| n.get().min(THREADS)),
        set => set,
    }
}

fn reads(owed: &Owed) -> Reads {
    let config = &owed.core().config;
    let frames = config.frames();
    let combine = config.combined_pages().min(frames / 64).max(1);
    let depth = match config.redo_reads_ahead() {
        true => config.maintenance_io_concurrency.div_ceil(threads(owed)),
        false => 0,
    };
    // Never more than a quarter of the pool.
    let depth = depth.min(frames / 4 / combine / threads(owed));
    Reads { depth, combine }
}

/// The lists that are still to be redone, in the order in which they are.
fn order(lists: &PageLists, is_done: impl Fn(u32) -> bool) -> Vec<u32> {
    let all = lists.lists();
    let mut order: Vec<u32> = (0..all.len() as u32).filter(|at| !is_done(*at)).collect();
    let list = |at: &u32| &all[*at as usize];
    let step = (order.len() / STEPS).clamp(LEAST_STEP, LONGEST_STEP);
    if order.len() > step {
        order.sort_unstable_by_key(|at| lists.first(list(at)));
    }
    for step in order.chunks_mut(step) {
        step.sort_unstable_by_key(|at| list(at).key);
    }
    // Stable: the rest keeps its order.
    order.sort_by_key(|at| list(at).len() < HOT);
    order
}

/// A thread with its reads in flight. The thread that carries a read out completes its pages.
struct Worker<'a> {
    drain: &'a Drain<'a>,
    queue: Option<Box<dyn IoQueue>>,
}

impl<'a> Worker<'a> {
    fn new(drain: &'a Drain<'a>) -> Worker<'a> {
        let depth = drain.reads.depth;
        let disk = &drain.owed.core().disk;
        Worker {
            drain,
            queue: (depth > 0).then(|| disk.queue(depth)),
        }
    }

    fn run(&mut self) -> StorageResult<()> {
        let _who = BackendType::Startup.enter();
        let result = self.batches();
        // Also after an error: the reads have frames.
        self.await_reads(0);
        result
    }

    fn batches(&mut self) -> StorageResult<()> {
        loop {
            let batch = self.drain.take();
            if batch.is_empty() || self.drain.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.batch(batch)?;
            self.drain.report.tell(self.drain.owed.progress());
            self.step_back();
        }
    }

    fn batch(&mut self, batch: &[u32]) -> StorageResult<()> {
        let owed = self.drain.owed;
        let lists = owed.lists();
        let mut at = 0;
        while at < batch.len() {
            if self.drain.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            owed.core().poison.check()?;
            let list = &lists.lists()[batch[at] as usize];
            let page = lists.page_id(list.key);
            at += 1;
            match owed.start_of(page) {
                None if self.queue.is_some() => Progress::add(&owed.progress().hits, 1),
                None => {}
                Some(Start::Read) if self.queue.is_some() => {
                    let mut end = page.block.0 + 1;
                    while at < batch.len() {
                        let next = &lists.lists()[batch[at] as usize];
                        let follows = next.key == Key::new(list.key.fork(), BlockNumber(end));
                        if !follows || next.starts_whole {
                            break;
                        }
                        end += 1;
                        at += 1;
                    }
                    self.read_run(page, page.block.0..end)?;
                }
                Some(_) => self.complete(page)?,
            }
        }
        Ok(())
    }

    /// Has a run of pages read. Those that cannot be read together are left for the next round,
    /// which reads them one by one.
    fn read_run(&mut self, page: PageId, mut blocks: Range<u32>) -> StorageResult<()> {
        let Ok(fork) = self.drain.owed.core().pool.fork(page.file, page.fork) else {
            return self.complete_all(page, blocks);
        };
        while !blocks.is_empty() {
            // Before frames are taken for a read that would have to wait.
            self.await_reads(self.drain.reads.depth - 1);
            let combine = self.drain.reads.combine;
            match fork.begin_redo(&mut blocks.clone(), combine) {
                Some(flight) => {
                    blocks.start = flight.blocks().end;
                    self.submit(flight);
                }
                // Somebody else has the page, or no frame is free; nothing is held while that is
                // waited out.
                None => {
                    self.await_reads(0);
                    self.complete_all(page, blocks.start..blocks.start + 1)?;
                    blocks.start += 1;
                }
            }
        }
        Ok(())
    }

    fn submit(&mut self, flight: Flight) {
        let count = u64::from(flight.blocks().end - flight.blocks().start);
        if let (Some(queue), Ok(op)) = (&mut self.queue, flight.into_operation()) {
            Progress::add(&self.drain.owed.progress().prefetched, count);
            queue.submit(vec![op]);
        }
    }

    /// Waits until at most so many reads are in flight.
    fn await_reads(&mut self, most: usize) {
        if let Some(queue) = &mut self.queue {
            while queue.in_flight() > most {
                // All have their own finish: the queue hands nothing back.
                queue.wait(1, &mut Vec::new());
            }
        }
    }

    fn complete_all(&self, page: PageId, blocks: Range<u32>) -> StorageResult<()> {
        for block in blocks {
            let page = PageId {
                block: BlockNumber(block),
                ..page
            };
            if self.drain.owed.start_of(page).is_some() {
                self.complete(page)?;
            }
        }
        Ok(())
    }

    /// Brings one page up to date by loading it.
    fn complete(&self, page: PageId) -> StorageResult<()> {
        let owed = self.drain.owed;
        let core = owed.core();
        loop {
            let loaded = core
                .pool
                .fork(page.file, page.fork)
                .and_then(|fork| fork.pin(page.block).map(drop));
            match loaded {
                // Without the block, its fork is just being cut or dropped.
                Ok(()) | Err(StorageError::NoSuchPage { .. }) => return Ok(()),
                // Set aside, or cut off or dropped meanwhile.
                Err(_) if owed.start_of(page).is_none() => return Ok(()),
                Err(error @ StorageError::FileDamaged { .. }) => {
                    owed.set_aside(page, error);
                    return Ok(());
                }
                Err(StorageError::NoFreeFrame) if !self.drain.stop.load(Ordering::Relaxed) => {
                    std::thread::sleep(PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Lets whoever waits for a free frame have one first.
    fn step_back(&self) {
        let core = self.drain.owed.core().pool.core();
        let begun = Instant::now();
        while core.hungry() > 0 && begun.elapsed() < YIELD {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{FileId, Fork, Lsn};
    use crate::record::{PartFlags, PartView};
    use crate::recovery::lists::Share;

    #[test]
    fn the_oldest_changes_come_first_in_steps_that_follow_the_files() {
        const PAGES: u32 = 8 * 20;
        let base = Lsn(1 << 20);
        let mut lists = PageLists::new(base, Share::default(), usize::MAX);
        let mut lsn = base;
        let mut add = |block: u32| {
            let page = PageId {
                file: FileId(7),
                fork: Fork::Main,
                block: BlockNumber(block),
            };
            lists.add(
                (lsn, 0),
                &PartView {
                    page,
                    flags: PartFlags::NONE,
                    op: 0,
                    prev_lsn: Lsn::ZERO,
                    data: &[7; 12],
                },
            );
            lsn = Lsn(lsn.0 + 8);
        };
        (0..PAGES).rev().for_each(&mut add);
        // The newest page of all, much changed.
        (0..HOT).for_each(|_| add(0));
        let blocks: Vec<u32> = order(&lists, |at| at == 3)
            .into_iter()
            .map(|at| lists.lists()[at as usize].key.block().0)
            .collect();
        let done = PAGES - 4;
        let mut expected = vec![0];
        let mut rest: Vec<u32> = (0..PAGES).rev().filter(|block| *block != done).collect();
        let step = rest.len() / STEPS;
        for step in rest.chunks_mut(step) {
            step.sort_unstable();
            expected.extend(step.iter().filter(|block| **block != 0));
        }
        assert_eq!(blocks, expected);
    }
}
