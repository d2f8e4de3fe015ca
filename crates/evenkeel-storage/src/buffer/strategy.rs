//! Rings: a bound on the frames that one bulk operation takes from the pool.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::pool_core::{PoolCore, Reuse};
use crate::error::StorageResult;
use crate::ids::{FrameId, PageId};
use crate::page::PAGE_SIZE;
use crate::stats::IoContext;

/// Bytes of a ring for bulk reads, at first: several combined reads ahead, and not much of a cache.
pub(super) const BULK_READ: u64 = 2 << 20;
/// Bytes of a ring for bulk writes.
pub(super) const BULK_WRITE: u64 = 16 << 20;
/// A ring takes at most this part of the pool.
const POOL_SHARE: usize = 8;
/// Frames filled before the cleaner is told of them, if that is not more than three quarters of
/// the ring: one flush of the log for so many.
const OFFER: usize = 192;
/// Entries looked at, in vain, before a ring is taken to be unwritten all round.
const LOOK: usize = 16;
/// How often and how long a full ring of unwritten pages waits for the cleaner.
const WAITS: u32 = 50;
const WAIT: Duration = Duration::from_millis(2);

/// How a page is to be brought in: `None` for a place in the pool like any other's, or the ring
/// of the bulk operation that asks.
pub type Strategy<'a> = Option<&'a Arc<BufferAccessStrategy>>;

/// The frames of one bulk operation, used again in turn. Its threads share it.
///
/// A page that others have used is theirs from then on and leaves the ring. One that is not
/// written yet is passed over: who fills pages never writes them (BUF-10), but hands them
/// to the cleaner by the hundred, long before the ring comes round to them. Only hints that are
/// not written by then are given up: the next visitor finds them again.
pub struct BufferAccessStrategy {
    context: IoContext,
    /// Frames that it may hold now.
    limit: AtomicUsize,
    /// Frames that it may come to hold.
    most: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The ring's pages, the one to be replaced next in front.
    frames: VecDeque<(PageId, FrameId)>,
    /// Filled since the cleaner was last told, oldest first.
    fresh: Vec<(PageId, FrameId)>,
}

/// Result of a ring's search for a frame to load a page into.
enum Found {
    /// A frame of its own, emptied.
    Frame(FrameId),
    /// Room for one more frame.
    Room,
    /// Only pages that the cleaner has not written yet.
    Unwritten,
}

impl BufferAccessStrategy {
    /// A ring of `bytes`, if that is not too much for the pool.
    pub(super) fn new(
        core: &PoolCore,
        bytes: u64,
        context: IoContext,
    ) -> Arc<BufferAccessStrategy> {
        let wanted = usize::try_from(bytes / PAGE_SIZE as u64).unwrap_or(usize::MAX);
        let most = (core.frame_count() / POOL_SHARE).max(1);
        Arc::new(BufferAccessStrategy {
            context,
            limit: AtomicUsize::new(wanted.clamp(1, most)),
            most,
            state: Mutex::default(),
        })
    }

    /// The most frames it holds.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Has the ring of a scan whose reads wait for the device hold twice as many frames, but not
    /// more than `frames` or its share of the pool. The ring of a load or a vacuum keeps its size.
    pub(super) fn widen(&self, frames: usize) {
        if !self.changes() {
            let wider = (self.frames() * 2).min(frames).min(self.most);
            self.limit.fetch_max(wider, Ordering::Relaxed);
        }
    }

    /// Under which context its reads and hits are counted.
    #[must_use]
    pub fn context(&self) -> IoContext {
        self.context
    }

    /// Whether who uses it changes pages; hints are not meant.
    fn changes(&self) -> bool {
        self.context != IoContext::BulkRead
    }

    /// A frame for the next page. The caller may hold pins, also of pages in the ring.
    pub(super) fn take(&self, core: &PoolCore) -> StorageResult<FrameId> {
        let mut waits = 0;
        loop {
            match self.find(core) {
                Found::Frame(id) => return Ok(id),
                Found::Room => return core.take_frame(),
                // A scan does not wait: other threads dirtied these pages and keep the frames.
                Found::Unwritten if self.changes() && waits < WAITS => {
                    waits += 1;
                    core.poison.check()?;
                    core.await_cleaning(WAIT);
                }
                Found::Unwritten => {
                    // The cleaner is stuck or the pages are locked: do not hang on them.
                    self.state.lock().frames.pop_front();
                    return core.take_frame();
                }
            }
        }
    }

    /// As [`BufferAccessStrategy::take`] for reading ahead: without waiting.
    pub(super) fn try_take(&self, core: &PoolCore) -> Option<FrameId> {
        match self.find(core) {
            Found::Frame(id) => Some(id),
            Found::Room => core.try_take_frame(),
            Found::Unwritten => None,
        }
    }

    fn find(&self, core: &PoolCore) -> Found {
        let mut state = self.state.lock();
        if state.frames.len() < self.frames() {
            return Found::Room;
        }
        let mut unwritten: Vec<(PageId, FrameId)> = Vec::new();
        let mut found = Found::Unwritten;
        for _ in 0..state.frames.len().min(LOOK) {
            let Some((page, id)) = state.frames.pop_front() else {
                break;
            };
            match core.reuse(page, id, self.context) {
                Reuse::Emptied => {
                    found = Found::Frame(id);
                    break;
                }
                Reuse::Left => {
                    found = Found::Room;
                    break;
                }
                Reuse::Unwritten => unwritten.push((page, id)),
                Reuse::Pinned => {}
            }
            state.frames.push_back((page, id));
        }
        drop(state);
        // Once more, should they have been forgotten; their log was asked for the first time.
        core.offer(&unwritten, false);
        found
    }

    /// The frame that was taken holds `page` now.
    pub(super) fn filled(&self, core: &PoolCore, page: PageId, id: FrameId) {
        let offered: Vec<_> = {
            let mut state = self.state.lock();
            state.frames.push_back((page, id));
            state.fresh.push((page, id));
            let enough = (self.frames() / 4 * 3).clamp(1, OFFER);
            if state.fresh.len() <= enough {
                return;
            }
            // The newest is still being filled.
            let keep = state.fresh.len() - 1;
            state.fresh.drain(..keep).collect()
        };
        core.offer(&offered, self.changes());
    }
}

impl std::fmt::Debug for BufferAccessStrategy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "BufferAccessStrategy({:?}, {} frames)",
            self.context,
            self.frames()
        )
    }
}
