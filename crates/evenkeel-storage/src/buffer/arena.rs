//! The memory of the frames: one aligned mapping.

use std::ops::Range;
use std::ptr::{self, NonNull};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::error::{StorageError, StorageResult};
use crate::ids::FrameId;
use crate::page::{PAGE_SIZE, PageBytes};

/// Alignment of the arena: a huge page.
const HUGE_PAGE: usize = 2 << 20;

/// Page-sized pieces of one mapping, zeroed at first. The frame words, not the arena, determine
/// which thread may touch which piece.
pub(crate) struct Arena {
    mapping: NonNull<u8>,
    mapping_len: usize,
    pages: NonNull<u8>,
    frames: usize,
}

// SAFETY: the arena only hands out pointers; each user states why it may use one.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps memory for `frames` pages.
    pub(crate) fn new(frames: usize) -> StorageResult<Self> {
        let too_large =
            || StorageError::Config(format!("shared_buffers: cannot map {frames} pages"));
        let bytes = frames.checked_mul(PAGE_SIZE).ok_or_else(too_large)?;
        // A small pool (tests) needs no alignment beyond the system's page.
        let slack = if bytes >= HUGE_PAGE { HUGE_PAGE } else { 0 };
        let mapping_len = bytes.checked_add(slack).ok_or_else(too_large)?;
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a fresh anonymous mapping at an address of the system's choice.
        let mapping = unsafe { mmap_anonymous(ptr::null_mut(), mapping_len, prot, flags) };
        let mapping = mapping.ok().and_then(|at| NonNull::new(at.cast::<u8>()));
        let mapping = mapping.ok_or_else(too_large)?;
        let shift = if slack == 0 {
            0
        } else {
            mapping.addr().get().wrapping_neg() % HUGE_PAGE
        };
        // SAFETY: `shift` is below HUGE_PAGE, which the mapping has beyond `bytes`.
        let pages = unsafe { mapping.add(shift) };
        if slack != 0 {
            // SAFETY: the range is inside the mapping. Advice: a refusal changes nothing.
            let _ = unsafe { madvise(pages.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        }
        Ok(Arena {
            mapping,
            mapping_len,
            pages,
            frames,
        })
    }

    /// Start of a frame's page: valid for [`PAGE_SIZE`] bytes, aligned to 4 KiB, initialised.
    #[inline]
    pub(crate) fn page(&self, frame: FrameId) -> NonNull<PageBytes> {
        let index = frame.0 as usize;
        assert!(index < self.frames, "frame number out of range");
        // SAFETY: the mapping holds `frames` pages from `pages` on.
        unsafe { self.pages.add(index * PAGE_SIZE).cast() }
    }

    /// Has the system provide the memory of these frames, as a write to each would, and changes
    /// nothing in it: other threads may be using it.
    ///
    /// # Errors
    /// When the system cannot.
    pub(crate) fn touch(&self, frames: Range<usize>) -> Result<(), Errno> {
        assert!(frames.end <= self.frames, "frame number out of range");
        // SAFETY: the range is inside the mapping.
        let start = unsafe { self.pages.add(frames.start * PAGE_SIZE) };
        let len = frames.len() * PAGE_SIZE;
        // SAFETY: the range is mapped for as long as the arena lives; the content stays.
        unsafe { madvise(start.as_ptr().cast(), len, Advice::LinuxPopulateWrite) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; frames and guards that point here keep the
        // arena alive.
        let _ = unsafe { munmap(self.mapping.as_ptr().cast(), self.mapping_len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_aligned_apart_and_zero() {
        for frames in [16, 300] {
            let arena = Arena::new(frames).expect("a small mapping");
            let last = FrameId(u32::try_from(frames - 1).expect("small"));
            let (first, last) = (arena.page(FrameId(0)), arena.page(last));
            assert_eq!(first.addr().get() % 4096, 0);
            assert_eq!(
                last.addr().get() - first.addr().get(),
                (frames - 1) * PAGE_SIZE
            );
            // SAFETY: a fresh arena that only this test uses.
            assert!(unsafe { last.as_ref() }.iter().all(|byte| *byte == 0));
        }
    }
}
