//! How far back the log is needed for a frame: the LSNs of its oldest unwritten changes.

use super::frame_state::{Flag, FrameState};
use super::latch::Latch;
use crate::ids::Lsn;
use crate::sync::{AtomicU64, Ordering};

/// The two LSNs that hold the redo point back for one frame.
///
/// A change announces itself here before its record's place in the log is taken (BUF-7);
/// a write-out moves its LSN from the one field to the other. Both steps of a write-out run
/// under the pool's `transitions` mutex, as does the scan for the least LSN, so that no LSN is
/// between the two fields while the scan passes (BUF-8).
pub(crate) struct Dirtiness {
    /// Lower bound of the LSNs of the changes that no write-out has copied. Valid only while
    /// the frame is DIRTY; set before that flag, under the exclusive lock.
    first_dirtied: AtomicU64,
    /// The same for the changes in the copy on its way home. Valid only while WRITING.
    writing: AtomicU64,
}

impl Dirtiness {
    pub(crate) fn new() -> Dirtiness {
        Dirtiness {
            first_dirtied: AtomicU64::new(0),
            writing: AtomicU64::new(0),
        }
    }

    /// Marks the frame DIRTY by a change whose record will lie at or behind `position`. The
    /// caller holds the exclusive lock, or share-exclusive when the change is an image of hints.
    #[inline]
    pub(crate) fn mark(&self, latch: &Latch, position: Lsn) {
        debug_assert!(
            latch.load().has_one_holder(),
            "a frame dirtied without its lock: {:?}",
            latch.load()
        );
        // No write-out can begin under the caller's lock, so the flag is not cleared meanwhile.
        if !latch.load().has(Flag::DIRTY) {
            self.first_dirtied.store(position.0, Ordering::Release);
            let _ = latch.try_update(|word| Some(word.with(Flag::DIRTY)));
        } else if position < self.first_dirtied() {
            // A part applied after its record (status pages) may be the older change.
            self.first_dirtied.store(position.0, Ordering::Release);
        }
    }

    /// The word by which the loader of a page shows it, with its pin: DIRTY from the start if redo
    /// has changed it, by changes from `first` on. The frame is the caller's alone.
    pub(crate) fn loaded(&self, first: Option<Lsn>) -> FrameState {
        let Some(first) = first else {
            return FrameState::loaded(1);
        };
        self.first_dirtied.store(first.0, Ordering::Release);
        FrameState::loaded(1).with(Flag::DIRTY)
    }

    /// Turns DIRTY into WRITING, with `lsn` as what the copy holds the redo point at. The caller
    /// holds share-exclusive and the pool's `transitions`.
    pub(crate) fn begin_write(&self, latch: &Latch, lsn: Lsn) -> Option<FrameState> {
        debug_assert!(
            latch.load().has_one_holder(),
            "a write-out of a page that may be changing: {:?}",
            latch.load()
        );
        self.writing.store(lsn.0, Ordering::Release);
        latch.try_update(FrameState::write_begun)
    }

    /// Marks a clean page WRITING that is written once more: its copy has no change that the
    /// home does not have. Locks as for [`Dirtiness::begin_write`].
    pub(crate) fn begin_rewrite(&self, latch: &Latch) -> Option<FrameState> {
        debug_assert!(
            latch.load().has_one_holder(),
            "a write-out of a page that may be changing: {:?}",
            latch.load()
        );
        self.writing.store(Lsn::MAX.0, Ordering::Release);
        latch.try_update(FrameState::rewrite_begun)
    }

    /// Ends a write-out after its home write has completed and been counted. The caller holds
    /// the pool's `transitions`. `None` when no write-out was under way.
    pub(crate) fn end_write(latch: &Latch) -> Option<FrameState> {
        latch.try_update(FrameState::write_ended)
    }

    /// LSN of the oldest change that no write-out has copied; valid only while DIRTY.
    pub(crate) fn first_dirtied(&self) -> Lsn {
        Lsn(self.first_dirtied.load(Ordering::Acquire))
    }

    /// Lower bound of the LSNs of the changes that are not home, `Lsn::MAX` if there are none. To
    /// be exact the caller holds the pool's `transitions`.
    pub(crate) fn oldest_unwritten(&self, latch: &Latch) -> Lsn {
        let word = latch.load();
        let mut least = Lsn::MAX;
        if word.has(Flag::DIRTY) {
            least = least.min(self.first_dirtied());
        }
        if word.has(Flag::WRITING) {
            least = least.min(Lsn(self.writing.load(Ordering::Acquire)));
        }
        least
    }
}
