//! A frame's header.

use std::cell::UnsafeCell;
use std::sync::Arc;

use super::dirtiness::Dirtiness;
use super::fork_pages::ForkPages;
use super::frame_state::FrameState;
use super::latch::Latch;
use crate::ids::{BlockNumber, PageId};
use crate::sync::{AtomicU32, Ordering};

/// Log about one page after which the next change carries the page as it was before. It bounds how
/// long redo of a page takes, however often the page changes: some thousand changes (STO-14).
pub(crate) const IMAGE_AFTER: u32 = 128 << 10;

/// The pool's metadata of one frame; the page itself is in the arena.
#[repr(align(64))]
pub(crate) struct Frame {
    pub(crate) latch: Latch,
    pub(crate) dirtiness: Dirtiness,
    /// Bytes of log that change the page, since it was loaded or the log last had all of it.
    /// Changed under the exclusive lock only.
    log_bytes: AtomicU32,
    /// The page in the frame. Written only by the frame's one owner while the frame is not VALID,
    /// read only by those who hold a pin (or are that owner).
    owner: UnsafeCell<Option<Owner>>,
}

/// The page a frame holds.
pub(crate) struct Owner {
    pub(crate) fork: Arc<ForkPages>,
    pub(crate) block: BlockNumber,
}

impl Owner {
    pub(crate) fn page_id(&self) -> PageId {
        self.fork.page_id(self.block)
    }
}

// SAFETY: `owner` is guarded by the frame word as its comment says; the rest is atomics.
unsafe impl Sync for Frame {}
// SAFETY: as above; nothing is bound to a thread.
unsafe impl Send for Frame {}

impl Frame {
    pub(crate) fn new() -> Self {
        Frame {
            latch: Latch::new(FrameState::FREE),
            dirtiness: Dirtiness::new(),
            log_bytes: AtomicU32::new(0),
            owner: UnsafeCell::new(None),
        }
    }

    /// Whether the log has so much about the page that redo of it would take long.
    #[inline]
    pub(crate) fn is_image_due(&self) -> bool {
        self.log_bytes.load(Ordering::Relaxed) >= IMAGE_AFTER
    }

    /// Counts log that changes the page; `is_whole`: it needs nothing of what the page held before.
    /// The caller holds the exclusive lock.
    #[inline]
    pub(crate) fn count_log(&self, bytes: u32, is_whole: bool) {
        let before = match is_whole {
            true => 0,
            false => self.log_bytes.load(Ordering::Relaxed),
        };
        let now = before.saturating_add(bytes);
        self.log_bytes.store(now, Ordering::Relaxed);
    }

    /// The page in the frame.
    ///
    /// # Safety
    /// The caller holds a pin for as long as it uses the answer, or owns the frame.
    pub(crate) unsafe fn owner(&self) -> Option<&Owner> {
        // SAFETY: with a pin, or as the owner, nobody writes the cell (contract).
        unsafe { (*self.owner.get()).as_ref() }
    }

    /// Sets or takes the page's identity.
    ///
    /// # Safety
    /// The caller is the frame's one owner: it took it from the free list, or evicted it.
    pub(crate) unsafe fn replace_owner(&self, owner: Option<Owner>) -> Option<Owner> {
        self.log_bytes.store(0, Ordering::Relaxed);
        // SAFETY: the frame is not VALID, so nobody holds a pin and reads (contract).
        unsafe { self.owner.get().replace(owner) }
    }
}
