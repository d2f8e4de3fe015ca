//! The lists of changes, built beside the reading of the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

use super::lists::PageLists;
use crate::ids::{Lsn, PageId};
use crate::record::{PartFlags, PartView};

/// Bytes of parts that are handed over together, at least: they fit into the processor's cache.
const BATCH: usize = if cfg!(test) { 1 << 10 } else { 64 << 10 };
/// Batches that are on their way at most.
const DEPTH: usize = 8;
/// Parts in a log that is worth a thread.
const FEW_PARTS: usize = if cfg!(test) { 64 } else { 1 << 14 };

/// A part of a record, as the lists need it.
#[derive(Clone, Copy)]
struct Found {
    page: PageId,
    lsn: Lsn,
    prev_lsn: Lsn,
    offset: u32,
    len: u32,
    op: u16,
    flags: PartFlags,
}

#[derive(Default)]
struct Batch {
    parts: Vec<Found>,
    /// Theirs, one behind the other.
    bytes: Vec<u8>,
    /// From here on the lists keep everything.
    keeps_all: bool,
}

/// Adds parts to lists: itself at first, and for a long log by a thread, so that who reads the log
/// does not wait for the memory of the lists.
pub(super) struct ListBuilder {
    place: Place,
    batch: Batch,
    /// Parts so far, as long as there is no thread.
    count: usize,
    /// Pages in the lists.
    pages: Arc<AtomicUsize>,
}

enum Place {
    Here(Box<PageLists>),
    There(Worker),
    /// While it moves.
    Nowhere,
}

struct Worker {
    batches: SyncSender<Batch>,
    /// Empty ones come back.
    empty: Receiver<Batch>,
    thread: JoinHandle<PageLists>,
}

impl ListBuilder {
    pub(super) fn new(lists: PageLists) -> ListBuilder {
        ListBuilder {
            place: Place::Here(Box::new(lists)),
            batch: Batch::default(),
            count: 0,
            pages: Arc::default(),
        }
    }

    /// Adds a part, as [`PageLists::add`] does.
    #[inline]
    pub(super) fn add(&mut self, (lsn, offset): (Lsn, usize), part: &PartView<'_>) {
        if let Place::Here(lists) = &mut self.place {
            lists.add((lsn, offset), part);
            self.count += 1;
            if self.count >= FEW_PARTS {
                self.begin_thread();
            }
            return;
        }
        self.batch.parts.push(Found {
            page: part.page,
            lsn,
            prev_lsn: part.prev_lsn,
            // A record is not longer than a mebibyte.
            offset: offset as u32,
            len: part.data.len() as u32,
            op: part.op,
            flags: part.flags,
        });
        self.batch.bytes.extend_from_slice(part.data);
        // Parts may have no bytes.
        if self.batch.bytes.len() >= BATCH || self.batch.parts.len() >= BATCH / 16 {
            self.hand_over();
        }
    }

    /// Has the lists keep all changes that follow, those before an image as well.
    pub(super) fn keep_all(&mut self) {
        if let Place::Here(lists) = &mut self.place {
            lists.keeps_all = true;
        } else if !self.batch.keeps_all {
            self.hand_over();
        }
        self.batch.keeps_all = true;
    }

    /// Pages in the lists, about.
    pub(super) fn pages(&self) -> usize {
        match &self.place {
            Place::Here(lists) => lists.lists().len(),
            _ => self.pages.load(Ordering::Relaxed),
        }
    }

    /// The lists, with every part that was added.
    pub(super) fn finish(mut self) -> PageLists {
        self.hand_over();
        match self.place {
            Place::Here(lists) => *lists,
            Place::There(worker) => {
                drop(worker.batches);
                match worker.thread.join() {
                    Ok(lists) => lists,
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            Place::Nowhere => unreachable!("the lists are here or there"),
        }
    }

    #[cold]
    fn begin_thread(&mut self) {
        // Where there is no thread to be had the lists stay.
        self.count = 0;
        let Place::Here(lists) = std::mem::replace(&mut self.place, Place::Nowhere) else {
            return;
        };
        let (batches, received) = sync_channel(DEPTH);
        let (returned, empty) = channel();
        let pages = Arc::clone(&self.pages);
        // Handed over by a channel, so that they are not lost with a thread that does not start.
        let (give, take) = sync_channel::<Box<PageLists>>(1);
        let run = move || {
            let lists = take.recv().expect("handed over before the first batch");
            build(*lists, &received, &returned, &pages)
        };
        self.place = match Builder::new().name("redo lists".into()).spawn(run) {
            Ok(thread) => {
                give.send(lists).expect("the thread waits for it");
                Place::There(Worker {
                    batches,
                    empty,
                    thread,
                })
            }
            Err(_) => Place::Here(lists),
        };
    }

    fn hand_over(&mut self) {
        let Place::There(worker) = &mut self.place else {
            return;
        };
        let next = worker.empty.try_recv().unwrap_or_default();
        let keeps_all = self.batch.keeps_all;
        let full = std::mem::replace(&mut self.batch, Batch { keeps_all, ..next });
        // A thread that has panicked is met in the end.
        let _ = worker.batches.send(full);
    }
}

fn build(
    mut lists: PageLists,
    batches: &Receiver<Batch>,
    empty: &Sender<Batch>,
    pages: &AtomicUsize,
) -> PageLists {
    for mut batch in batches {
        lists.keeps_all |= batch.keeps_all;
        let mut rest = &batch.bytes[..];
        lists.add_all(batch.parts.drain(..).map(|found| {
            let (data, others) = rest.split_at(found.len as usize);
            rest = others;
            let part = PartView {
                page: found.page,
                flags: found.flags,
                op: found.op,
                prev_lsn: found.prev_lsn,
                data,
            };
            (found.lsn, found.offset as usize, part)
        }));
        pages.store(lists.lists().len(), Ordering::Relaxed);
        batch.bytes.clear();
        // The last ones are not asked for any more.
        let _ = empty.send(batch);
    }
    lists
}

#[cfg(test)]
mod tests {
    use super::super::lists::Share;
    use super::*;
    use crate::ids::{BlockNumber, FileId, Fork};

    #[test]
    fn lists_are_the_same_whoever_builds_them() {
        for count in [
            0,
            1,
            FEW_PARTS as u64 - 1,
            FEW_PARTS as u64 + 1,
            20 * BATCH as u64 + 7,
        ] {
            let base = Lsn(1 << 20);
            let new = || PageLists::new(base, Share::default(), usize::MAX);
            let (mut here, mut builder) = (new(), ListBuilder::new(new()));
            for n in 0..count {
                if n == count / 2 {
                    here.keeps_all = true;
                    builder.keep_all();
                }
                let page = PageId {
                    file: FileId(n % 3),
                    fork: Fork::Main,
                    block: BlockNumber((n % 1001) as u32),
                };
                let flags = match n % 7 {
                    0 => PartFlags::INIT,
                    _ => PartFlags::NONE,
                };
                let part = PartView {
                    page,
                    flags,
                    op: n as u16,
                    prev_lsn: Lsn(n),
                    data: &vec![n as u8; 1 + n as usize % 50],
                };
                let at = (Lsn(base.0 + 8 * n), n as usize % 100);
                here.add(at, &part);
                builder.add(at, &part);
            }
            let there = builder.finish();
            let all = |lists: &PageLists| {
                let all = lists.lists().iter().map(|list| {
                    let items: Vec<_> = lists.items(list).collect();
                    format!("{:?} {} {items:?}", list.key, list.starts_whole)
                });
                all.collect::<Vec<_>>()
            };
            assert!(all(&here) == all(&there), "{count}");
            assert_eq!(there.keeps_all, here.keeps_all);
        }
    }
}
