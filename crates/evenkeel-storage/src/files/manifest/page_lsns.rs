//! The manifest's data of one fork: its length and the LSNs of its pages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use evenkeel_io::IoResult;
use parking_lot::Mutex;

use super::journal::{Frames, Item};
use crate::ids::{BlockNumber, FileId, Fork, Lsn};

/// Blocks of which the LSNs lie together.
const CHUNK: u32 = 512;

/// A fork's length, and the LSNs of its pages as they were last written home; zero for a page
/// that never was, or whose changes are not logged.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub(super) struct Pages {
    len: u32,
    /// By chunk, each as long as it has to be.
    chunks: BTreeMap<u32, Vec<u64>>,
}

impl Pages {
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn get(&self, block: u32) -> Lsn {
        let chunk = self.chunks.get(&(block / CHUNK));
        let lsn = chunk.and_then(|chunk| chunk.get((block % CHUNK) as usize));
        Lsn(lsn.copied().unwrap_or_default())
    }

    pub(super) fn set(&mut self, block: u32, lsn: Lsn) {
        let chunk = self.chunks.entry(block / CHUNK).or_default();
        let at = (block % CHUNK) as usize;
        if chunk.len() <= at {
            chunk.resize(at + 1, 0);
        }
        chunk[at] = lsn.0;
    }

    pub(super) fn grow(&mut self, len: u32) {
        self.len = self.len.max(len);
    }

    /// About how many bytes a journal takes for it.
    pub(super) fn journal_len(&self) -> u64 {
        const FORK: usize = 40;
        let chunks = self.chunks.values().map(|chunk| chunk.len() * 8);
        (FORK + chunks.sum::<usize>()) as u64
    }

    pub(super) fn cut(&mut self, len: u32) {
        if len >= self.len {
            return;
        }
        self.len = len;
        self.chunks.split_off(&len.div_ceil(CHUNK));
        if let Some(last) = self.chunks.get_mut(&(len / CHUNK)) {
            last.truncate((len % CHUNK) as usize);
        }
    }
}

/// Files dropped and forks changed since the journal was last written.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) dropped: BTreeSet<FileId>,
    /// Each once: `PageLsns` keeps count.
    pub(super) forks: Vec<Arc<PageLsns>>,
}

impl Changes {
    fn add(&mut self, fork: Arc<PageLsns>) {
        self.forks.push(fork);
    }
}

/// One fork, as it is now and as the journal has it.
pub(crate) struct PageLsns {
    file: FileId,
    fork: Fork,
    myself: Weak<PageLsns>,
    changes: Arc<Mutex<Changes>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pages: Pages,
    /// Blocks written since the journal was.
    written: BTreeSet<u32>,
    /// The least length since then.
    least: u32,
    /// In the list of what has changed.
    listed: bool,
    /// Dropped: what is still written to it is of no interest.
    dropped: bool,
}

impl PageLsns {
    pub(super) fn new(
        file: FileId,
        fork: Fork,
        pages: Pages,
        changes: &Arc<Mutex<Changes>>,
    ) -> Arc<PageLsns> {
        Arc::new_cyclic(|myself| PageLsns {
            file,
            fork,
            myself: Weak::clone(myself),
            changes: Arc::clone(changes),
            state: Mutex::new(State {
                least: pages.len(),
                pages,
                ..State::default()
            }),
        })
    }

    /// Of a fork of which nothing is to be kept.
    pub(super) fn unknown(file: FileId, fork: Fork) -> Arc<PageLsns> {
        let unknown = PageLsns::new(file, fork, Pages::default(), &Arc::default());
        unknown.forget();
        unknown
    }

    /// Length in blocks.
    pub(crate) fn len(&self) -> u32 {
        self.state.lock().pages.len()
    }

    /// The LSN that a page had when it was last written home.
    pub(crate) fn get(&self, block: BlockNumber) -> Lsn {
        self.state.lock().pages.get(block.0)
    }

    /// Notes pages that have been written home, after that has been counted in the sync table
    /// and before their frames are clean.
    pub(crate) fn wrote(&self, written: impl Iterator<Item = (BlockNumber, Lsn)>) {
        let mut state = self.state.lock();
        if state.dropped {
            return;
        }
        let mut changed = false;
        for (block, lsn) in written {
            // The fork may have been cut since.
            if lsn != state.pages.get(block.0) && block.0 < state.pages.len() {
                state.pages.set(block.0, lsn);
                state.written.insert(block.0);
                changed = true;
            }
        }
        if changed {
            self.list(&mut state);
        }
    }

    /// The fork now has `len` blocks at least, which has been counted in the sync table.
    pub(crate) fn grow(&self, len: u32) {
        let mut state = self.state.lock();
        if len > state.pages.len() && !state.dropped {
            state.pages.grow(len);
            self.list(&mut state);
        }
    }

    /// The fork is cut to `len` blocks; what was beyond is forgotten.
    pub(crate) fn cut(&self, len: u32) {
        let mut state = self.state.lock();
        if len < state.pages.len() {
            state.pages.cut(len);
            state.least = state.least.min(len);
            state.written.split_off(&len);
            self.list(&mut state);
        }
    }

    pub(super) fn forget(&self) {
        *self.state.lock() = State {
            dropped: true,
            ..State::default()
        };
    }

    fn list(&self, state: &mut State) {
        if !state.listed
            && let Some(this) = self.myself.upgrade()
        {
            state.listed = true;
            self.changes.lock().add(this);
        }
    }

    /// Writes what has changed since this or [`PageLsns::write_all`] was called. No write is
    /// done under the lock, which whoever loads a page takes.
    pub(super) fn write_changes(&self, frames: &mut Frames<'_>) -> IoResult<()> {
        let (fork, pages) = {
            let mut state = self.state.lock();
            state.listed = false;
            if state.dropped {
                return Ok(());
            }
            let len = state.pages.len();
            let least = std::mem::replace(&mut state.least, len);
            let written = std::mem::take(&mut state.written);
            let page = |block| Item::Page {
                block,
                lsn: state.pages.get(block),
            };
            let pages: Vec<Item> = written.into_iter().map(page).collect();
            (self.item(&state, least), pages)
        };
        frames.put(fork)?;
        pages.into_iter().try_for_each(|page| frames.put(page))
    }

    /// Writes everything. A concurrent change is in the next changes, if not in this.
    pub(super) fn write_all(&self, frames: &mut Frames<'_>) -> IoResult<()> {
        let (fork, len) = {
            let mut state = self.state.lock();
            // The fork may be listed again, even if an earlier list still has it.
            state.listed = false;
            state.least = state.pages.len();
            state.written.clear();
            if state.dropped || state.pages.len() == 0 {
                return Ok(());
            }
            (self.item(&state, 0), state.pages.len())
        };
        frames.put(fork)?;
        let mut next = 0;
        while let Some((chunk, lsns)) = self.chunk_from(next) {
            let first = chunk * CHUNK;
            for (block, lsn) in (first..len).zip(lsns) {
                if lsn != 0 {
                    let lsn = Lsn(lsn);
                    frames.put(Item::Page { block, lsn })?;
                }
            }
            next = chunk + 1;
        }
        Ok(())
    }

    fn chunk_from(&self, next: u32) -> Option<(u32, Vec<u64>)> {
        let state = self.state.lock();
        let (chunk, lsns) = state.pages.chunks.range(next..).next()?;
        Some((*chunk, lsns.clone()))
    }

    fn item(&self, state: &State, least: u32) -> Item {
        Item::Fork {
            file: self.file,
            fork: self.fork,
            least,
            len: state.pages.len(),
        }
    }
}
