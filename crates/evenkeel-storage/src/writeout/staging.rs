//! The memory that pages are copied into before they are written.

use std::any::Any;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use evenkeel_io::{AlignedBuf, IoBuf};

use crate::page::{PAGE_SIZE, PageBytes};

/// Aligned memory for one batch: a header page for the double-write area, then the images.
/// Shared by all pages written, so it costs nothing per session.
pub(super) struct Staging {
    start: NonNull<u8>,
    images: usize,
    memory: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the memory is this value's own, save for what `lend` has lent out, which the borrow of
// `IoBuf::lend`'s contract governs.
unsafe impl Send for Staging {}

impl Staging {
    /// Room for `images` pages and the header.
    pub(super) fn new(images: usize) -> Self {
        let mut memory = AlignedBuf::zeroed((images + 1) * PAGE_SIZE);
        let start = NonNull::from(&mut memory[..]).cast::<u8>();
        Staging {
            start,
            images,
            memory: Arc::new(memory),
        }
    }

    /// How many images fit.
    pub(super) fn capacity(&self) -> usize {
        self.images
    }

    /// The header and the first `images` images. Nothing is lent out.
    pub(super) fn header_and_images(&self, images: usize) -> &[u8] {
        assert!(
            images <= self.images,
            "more images than the staging memory has"
        );
        // SAFETY: within the memory, initialised; `&self` while nothing is lent (contract).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), (images + 1) * PAGE_SIZE) }
    }

    pub(super) fn header_mut(&mut self) -> &mut PageBytes {
        // SAFETY: the first page of the memory; `&mut self` while nothing is lent (contract).
        unsafe { self.start.cast::<PageBytes>().as_mut() }
    }

    /// An image to copy a page into. Nothing is lent out.
    pub(super) fn image_mut(&mut self, image: usize) -> &mut PageBytes {
        assert!(image < self.images, "no such image");
        // SAFETY: page `image + 1` of the memory; `&mut self` while nothing is lent (contract).
        unsafe {
            self.start
                .add((image + 1) * PAGE_SIZE)
                .cast::<PageBytes>()
                .as_mut()
        }
    }

    /// Lends adjacent images to a write.
    ///
    /// # Safety
    /// Until the buffer is dropped none of these images is used otherwise, through any method.
    pub(super) unsafe fn lend(&self, images: Range<usize>) -> IoBuf {
        assert!(
            images.start < images.end && images.end <= self.images,
            "no such images"
        );
        // SAFETY: within the memory, which `memory` keeps in place; exclusive by the contract.
        unsafe {
            let start = self.start.add((images.start + 1) * PAGE_SIZE);
            IoBuf::lend(start, images.len() * PAGE_SIZE, Arc::clone(&self.memory))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes and their buffers may outlive each other's borrows; run under Miri as well.
    #[test]
    fn lent_images_are_those_that_were_copied() {
        let mut staging = Staging::new(3);
        staging.header_mut().fill(9);
        for image in 0..staging.capacity() {
            staging.image_mut(image).fill(image as u8 + 1);
        }
        assert_eq!(staging.header_and_images(2)[2 * PAGE_SIZE], 2);
        // SAFETY: the two ranges do not overlap, and nothing else is used meanwhile.
        let (first, rest) = unsafe { (staging.lend(0..1), staging.lend(1..3)) };
        let writer = std::thread::spawn(move || rest.iter().map(|byte| u64::from(*byte)).sum());
        assert_eq!(
            (first.len(), first[0], first[PAGE_SIZE - 1]),
            (PAGE_SIZE, 1, 1)
        );
        let sum: u64 = writer.join().expect("no panic");
        assert_eq!(sum, 5 * PAGE_SIZE as u64);
        drop(first);
        staging.image_mut(0).fill(7);
        assert_eq!(staging.header_and_images(1)[PAGE_SIZE], 7);
    }
}
