//! From block number to frame: one array per fork, no hash table and no lock.

use std::sync::Arc;

use super::frame_state::{FrameState, Mode, PinRefused};
use super::latch::Latch;
use super::waiters::WaitTable;
use crate::ids::FrameId;
use crate::sync::{AtomicU32, Ordering, Parker};

const EMPTY: u32 = 0;
const LOADING: u32 = 1;
const LOADING_AWAITED: u32 = 2;
const FIRST_FRAME: u32 = 3;

/// Most frames an array entry can name.
pub(crate) const MAX_FRAMES: usize = (u32::MAX - FIRST_FRAME) as usize;

/// Where a block is: nowhere, being loaded, or in a frame.
pub(crate) struct Entry(AtomicU32);

/// The state of an array entry, as read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Empty,
    Loading,
    Frame(FrameId),
}

impl Place {
    #[inline]
    fn decode(value: u32) -> Place {
        match value {
            EMPTY => Place::Empty,
            LOADING | LOADING_AWAITED => Place::Loading,
            frame => Place::Frame(FrameId(frame - FIRST_FRAME)),
        }
    }
}

impl Entry {
    /// The models build entries alone; elsewhere an array of them is zeroed memory.
    #[cfg(loom)]
    #[allow(dead_code)]
    pub(crate) fn new() -> Self {
        Entry(AtomicU32::new(EMPTY))
    }

    #[inline]
    pub(crate) fn load(&self) -> Place {
        Place::decode(self.0.load(Ordering::Acquire))
    }

    /// Pins the frame the block is in: look up, pin, look again (BUF-3).
    #[inline]
    pub(crate) fn pin<'f>(
        &self,
        latch_of: impl FnOnce(FrameId) -> &'f Latch,
    ) -> Result<FrameId, PinRefused> {
        self.pin_by(latch_of, FrameState::pinned)
    }

    /// As [`Entry::pin`], without making the page hotter: for who has a ring.
    #[inline]
    pub(crate) fn pin_quietly<'f>(
        &self,
        latch_of: impl FnOnce(FrameId) -> &'f Latch,
    ) -> Result<FrameId, PinRefused> {
        self.pin_by(latch_of, FrameState::pinned_quietly)
    }

    #[inline]
    fn pin_by<'f>(
        &self,
        latch_of: impl FnOnce(FrameId) -> &'f Latch,
        transition: impl Fn(FrameState) -> Result<FrameState, PinRefused>,
    ) -> Result<FrameId, PinRefused> {
        let Place::Frame(id) = self.load() else {
            return Err(PinRefused::NotValid);
        };
        let latch = latch_of(id);
        latch.update(transition)?;
        // Between look-up and pin the frame may have got another page; with the pin it cannot.
        if self.load() == Place::Frame(id) {
            return Ok(id);
        }
        latch.unpin();
        Err(PinRefused::NotValid)
    }

    /// As [`Entry::pin`], taking the share lock in the same step if it is free; says whether it
    /// was.
    #[inline]
    pub(crate) fn pin_and_share<'f>(
        &self,
        latch_of: impl FnOnce(FrameId) -> &'f Latch,
        table: &WaitTable,
    ) -> Result<(FrameId, bool), PinRefused> {
        let Place::Frame(id) = self.load() else {
            return Err(PinRefused::NotValid);
        };
        let latch = latch_of(id);
        let shared = latch.pin_and_share()?;
        if self.load() == Place::Frame(id) {
            return Ok((id, shared));
        }
        if shared {
            latch.unlock_and_unpin(Mode::Share, table);
        } else {
            latch.unpin();
        }
        Err(PinRefused::NotValid)
    }

    /// Wins the right to load the block. Sequentially consistent, as is the check for a cut or
    /// dropped fork that must follow it (BUF-9).
    pub(crate) fn begin_load(&self) -> bool {
        self.0
            .compare_exchange(EMPTY, LOADING, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
    }

    /// The page is in the frame: shows it to everybody. The caller has a pin on it afterwards.
    ///
    /// Never without that pin: an evictor could win the frame before the entry names it, and the
    /// entry would then name a frame that another page gets (BUF-3).
    pub(crate) fn show(&self, latch: &Latch, word: FrameState, frame: FrameId, table: &WaitTable) {
        latch.publish(word);
        self.end_load(Some(frame), table);
    }

    /// Ends the loading: with the page in a frame, or (`None`) without.
    pub(crate) fn end_load(&self, frame: Option<FrameId>, table: &WaitTable) {
        let value = frame.map_or(EMPTY, |frame| frame.0 + FIRST_FRAME);
        if self.0.swap(value, Ordering::AcqRel) == LOADING_AWAITED {
            let woken = table.queue(self.key()).take_all(self.key());
            for waiter in woken {
                waiter.wake();
            }
        }
    }

    /// Waits until the block is not being loaded.
    pub(crate) fn wait_loaded(&self, table: &WaitTable) {
        let waiter = Arc::new(Parker::new());
        loop {
            let mut queue = table.queue(self.key());
            // Announced under the mutex that the loader takes after it has seen the value.
            let step = self.0.compare_exchange(
                LOADING,
                LOADING_AWAITED,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            if !matches!(step, Ok(_) | Err(LOADING_AWAITED)) {
                return;
            }
            queue.push_back(self.key(), Mode::Share, &waiter);
            drop(queue);
            waiter.park();
        }
    }

    /// Empties the entry of a frame that the caller has just evicted.
    pub(crate) fn clear(&self) {
        self.0.store(EMPTY, Ordering::Release);
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

#[cfg(not(all(test, loom)))]
pub(crate) use array::ForkArray;

#[cfg(not(all(test, loom)))]
mod array {
    use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
    use std::ptr::{self, NonNull};
    use std::sync::atomic::{AtomicPtr, Ordering};

    use super::{EMPTY, Entry};
    use crate::ids::BlockNumber;

    /// Entries of the first bucket; each further one has twice as many as the one before.
    const FIRST: u64 = 64;
    const FIRST_LOG: u32 = FIRST.trailing_zeros();
    /// Buckets that hold every 32-bit block number.
    const BUCKETS: usize = 33 - FIRST_LOG as usize;

    const _: () = assert!(FIRST << (BUCKETS - 1) >= 1 << 32);
    const _: () = assert!(EMPTY == 0, "fresh buckets are zeroed memory");

    /// A fork's entries, by block. Buckets come when a block in them is first asked for and go
    /// with the fork; they are zeroed memory, of which the system provides only pages touched.
    pub(crate) struct ForkArray {
        buckets: [AtomicPtr<Entry>; BUCKETS],
    }

    #[inline]
    fn locate(block: BlockNumber) -> (usize, usize) {
        let shifted = u64::from(block.0) + FIRST;
        let bucket = shifted.ilog2() - FIRST_LOG;
        // Below 2^32 + 64, so it fits a usize on every supported (64-bit) target.
        (bucket as usize, (shifted - (FIRST << bucket)) as usize)
    }

    fn bucket_layout(bucket: usize) -> Layout {
        Layout::array::<Entry>((FIRST as usize) << bucket).expect("a bucket is below 2^35 bytes")
    }

    impl ForkArray {
        pub(crate) fn new() -> Self {
            ForkArray {
                buckets: [const { AtomicPtr::new(ptr::null_mut()) }; BUCKETS],
            }
        }

        /// The block's entry, if its bucket exists.
        #[inline]
        pub(crate) fn get(&self, block: BlockNumber) -> Option<&Entry> {
            let (bucket, index) = locate(block);
            let start = self.buckets[bucket].load(Ordering::Acquire);
            if start.is_null() {
                return None;
            }
            // SAFETY: a non-null bucket has FIRST << bucket initialised entries, `index` is
            // below that by `locate`, and it lives as long as `self`.
            Some(unsafe { &*start.add(index) })
        }

        /// The block's entry; its bucket is made if need be.
        pub(crate) fn get_or_grow(&self, block: BlockNumber) -> &Entry {
            if let Some(entry) = self.get(block) {
                return entry;
            }
            let (bucket, index) = locate(block);
            let layout = bucket_layout(bucket);
            // SAFETY: the layout's size is not zero. Zeroed memory is an array of empty entries.
            let fresh = unsafe { alloc_zeroed(layout) }.cast::<Entry>();
            let Some(fresh) = NonNull::new(fresh) else {
                handle_alloc_error(layout)
            };
            let won = self.buckets[bucket].compare_exchange(
                ptr::null_mut(),
                fresh.as_ptr(),
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            let start = match won {
                Ok(_) => fresh.as_ptr(),
                Err(theirs) => {
                    // SAFETY: allocated above with this layout and never shared.
                    unsafe { dealloc(fresh.as_ptr().cast(), layout) };
                    theirs
                }
            };
            // SAFETY: as in `get`.
            unsafe { &*start.add(index) }
        }

        /// Calls `visit` for every entry of the blocks from `first` to before `end`.
        pub(crate) fn for_each(&self, first: u32, end: u32, mut visit: impl FnMut(u32, &Entry)) {
            let mut block = first;
            while block < end {
                let (bucket, index) = locate(BlockNumber(block));
                let left = (FIRST << bucket) - index as u64;
                let stop = u64::from(end).min(u64::from(block) + left);
                // `stop` is at most `end`, a u32.
                let stop = stop as u32;
                if !self.buckets[bucket].load(Ordering::Acquire).is_null() {
                    for block in block..stop {
                        if let Some(entry) = self.get(BlockNumber(block)) {
                            visit(block, entry);
                        }
                    }
                }
                block = stop;
            }
        }
    }

    impl Drop for ForkArray {
        fn drop(&mut self) {
            for (bucket, start) in self.buckets.iter_mut().enumerate() {
                let start = *start.get_mut();
                if !start.is_null() {
                    // SAFETY: allocated in `get_or_grow` with this layout; `&mut self` shows
                    // that nobody refers to an entry.
                    unsafe { dealloc(start.cast(), bucket_layout(bucket)) };
                }
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn every_block_has_a_place_of_its_own() {
            assert_eq!(locate(BlockNumber(0)), (0, 0));
            assert_eq!(locate(BlockNumber(63)), (0, 63));
            assert_eq!(locate(BlockNumber(64)), (1, 0));
            assert_eq!(locate(BlockNumber(191)), (1, 127));
            assert_eq!(locate(BlockNumber(192)), (2, 0));
            let (bucket, index) = locate(BlockNumber(u32::MAX));
            assert!(bucket < BUCKETS && (index as u64) < FIRST << bucket);
        }

        #[test]
        fn buckets_come_only_when_asked_for() {
            let array = ForkArray::new();
            assert!(array.get(BlockNumber(1000)).is_none());
            assert!(array.get_or_grow(BlockNumber(1000)).begin_load());
            assert!(array.get(BlockNumber(1000)).is_some());
            assert!(array.get(BlockNumber(0)).is_none());
            let mut seen = Vec::new();
            array.for_each(900, 1100, |block, entry| {
                if entry.load() == super::super::Place::Loading {
                    seen.push(block);
                }
            });
            assert_eq!(seen, [1000]);
        }
    }
}
