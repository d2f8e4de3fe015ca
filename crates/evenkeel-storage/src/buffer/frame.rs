//! A frame's header.

use std::cell::UnsafeCell;
use std::sync::Arc;

use super::dirtiness::Dirtiness;
use super::fork_pages::ForkPages;
use super::frame_state::FrameState;
use super::latch::Latch;
use crate::ids::{BlockNumber, PageId};

/// The pool's metadata of one frame; the page itself is in the arena.
#[repr(align(64))]
pub(crate) struct Frame {
    pub(crate) latch: Latch,
    pub(crate) dirtiness: Dirtiness,
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
            owner: UnsafeCell::new(None),
        }
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
        // SAFETY: the frame is not VALID, so nobody holds a pin and reads (contract).
        unsafe { self.owner.get().replace(owner) }
    }
}
