//! Pins and guards: the only ways to a page's bytes.

use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::fork::ForkHandle;
use super::frame::Frame;
use super::frame_state::{Flag, Mode};
use crate::ids::{BlockNumber, Fork, FrameId, Lsn, PageId};
use crate::page::{PAGE_SIZE, PageBytes, PageMut, PageRead};

/// Keeps a page in its frame and means nothing else (BUF-2).
///
/// Not `Send`: neither pins nor guards live across an await or move to another thread.
pub struct Pin<'a> {
    fork: &'a ForkHandle,
    frame: &'a Frame,
    page: NonNull<PageBytes>,
    block: BlockNumber,
}

impl<'a> Pin<'a> {
    /// Wraps a pin that the caller has taken on the frame, whose page is `block` of `fork`.
    #[inline]
    pub(super) fn of(fork: &'a ForkHandle, id: FrameId, block: BlockNumber) -> Self {
        let core = fork.core();
        let pin = Pin {
            fork,
            frame: core.frame(id),
            page: core.arena().page(id),
            block,
        };
        debug_assert!(
            pin.has_its_page(),
            "another page is in the frame of {pin:?}"
        );
        pin
    }

    /// The page's block number.
    #[inline]
    #[must_use]
    pub fn block(&self) -> BlockNumber {
        self.block
    }

    /// The page's identity.
    #[must_use]
    pub fn page_id(&self) -> PageId {
        PageId {
            file: self.fork.file(),
            fork: self.fork.fork(),
            block: self.block,
        }
    }

    /// Takes the share lock. The thread must hold no lock on this page.
    #[inline]
    #[must_use]
    pub fn read(self) -> ReadGuard<'a> {
        self.frame
            .latch
            .lock(Mode::Share, &self.fork.core().waiters);
        ReadGuard {
            pin: ManuallyDrop::new(self),
        }
    }

    /// Takes the exclusive lock. The thread must hold no lock on this page.
    #[inline]
    #[must_use]
    pub fn write(self) -> WriteGuard<'a> {
        self.frame
            .latch
            .lock(Mode::Exclusive, &self.fork.core().waiters);
        WriteGuard {
            pin: ManuallyDrop::new(self),
        }
    }

    /// Takes the exclusive lock if that needs no waiting; otherwise gives the pin back.
    pub fn try_write(self) -> Result<WriteGuard<'a>, Pin<'a>> {
        if self.frame.latch.try_lock(Mode::Exclusive) {
            Ok(WriteGuard {
                pin: ManuallyDrop::new(self),
            })
        } else {
            Err(self)
        }
    }

    /// Takes the share lock if that needs no waiting; otherwise gives the pin back.
    pub fn try_read(self) -> Result<ReadGuard<'a>, Pin<'a>> {
        if self.frame.latch.try_lock(Mode::Share) {
            Ok(ReadGuard {
                pin: ManuallyDrop::new(self),
            })
        } else {
            Err(self)
        }
    }

    /// A share lock that is already held through this pin.
    #[inline]
    pub(super) fn already_shared(self) -> ReadGuard<'a> {
        ReadGuard {
            pin: ManuallyDrop::new(self),
        }
    }

    /// The pin of a guard whose own drop is skipped.
    #[inline]
    fn of_guard(&self) -> Pin<'a> {
        Pin {
            fork: self.fork,
            frame: self.frame,
            page: self.page,
            block: self.block,
        }
    }

    /// Whether the frame holds the page that it was pinned for (BUF-3).
    fn has_its_page(&self) -> bool {
        // SAFETY: pinned.
        let owner = unsafe { self.frame.owner() };
        owner.is_some_and(|owner| owner.page_id() == self.page_id())
    }

    #[inline]
    fn at(&self, offset: usize, len: usize) -> NonNull<u8> {
        assert!(
            offset <= PAGE_SIZE - len,
            "offset {offset} outside the page"
        );
        // SAFETY: within the page by the assertion.
        unsafe { self.page.cast::<u8>().add(offset) }
    }
}

impl Drop for Pin<'_> {
    #[inline]
    fn drop(&mut self) {
        self.frame.latch.unpin();
    }
}

impl std::fmt::Debug for Pin<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pin({}, {:?})", self.page_id(), self.frame.latch.load())
    }
}

/// Reads through a lock that lets others set hints: aligned words are relaxed atomic reads, an
/// unaligned one cannot be a hint word and is read as bytes.
macro_rules! read_shared {
    ($name:ident, $int:ty, $atomic:ty) => {
        #[inline]
        fn $name(&self, offset: usize) -> $int {
            const SIZE: usize = size_of::<$int>();
            if offset.is_multiple_of(SIZE) {
                let at = self.pin().at(offset, SIZE);
                // SAFETY: inside the page, aligned since the page is, valid under the lock, and
                // whatever changes it under this lock does so atomically.
                let value = unsafe { <$atomic>::from_ptr(at.as_ptr().cast()) };
                <$int>::from_le(value.load(Ordering::Relaxed))
            } else {
                let mut bytes = [0; SIZE];
                bytes.copy_from_slice(self.slice(offset..offset + SIZE));
                <$int>::from_le_bytes(bytes)
            }
        }
    };
}

macro_rules! page_read_shared {
    ($guard:ident) => {
        impl PageRead for $guard<'_> {
            read_shared!(u8_at, u8, AtomicU8);
            read_shared!(u16_at, u16, AtomicU16);
            read_shared!(u32_at, u32, AtomicU32);
            read_shared!(u64_at, u64, AtomicU64);

            #[inline]
            fn slice(&self, range: Range<usize>) -> &[u8] {
                assert!(
                    range.start <= range.end && range.end <= PAGE_SIZE,
                    "outside the page"
                );
                let at = self.pin().at(range.start, 0);
                // SAFETY: inside the page; under this lock only hint words change, and the
                // range holds none by the contract of `PageRead::slice`.
                unsafe { std::slice::from_raw_parts(at.as_ptr(), range.len()) }
            }
        }
    };
}

/// A page under the share lock.
#[derive(Debug)]
pub struct ReadGuard<'a> {
    /// Dropped with the lock, in one step.
    pin: ManuallyDrop<Pin<'a>>,
}

page_read_shared!(ReadGuard);

impl<'a> ReadGuard<'a> {
    #[inline]
    fn pin(&self) -> &Pin<'a> {
        &self.pin
    }

    /// The page's block number.
    #[inline]
    #[must_use]
    pub fn block(&self) -> BlockNumber {
        self.pin.block
    }

    /// The page's identity.
    #[must_use]
    pub fn page_id(&self) -> PageId {
        self.pin.page_id()
    }

    /// Gives the lock back and keeps the pin.
    #[inline]
    #[must_use = "dropping the guard gives back lock and pin in one step"]
    pub fn unlock(self) -> Pin<'a> {
        let this = ManuallyDrop::new(self);
        this.pin
            .frame
            .latch
            .unlock(Mode::Share, &this.pin.fork.core().waiters);
        this.pin.of_guard()
    }

    /// Gives lock and pin back, in one step; the same as dropping the guard.
    #[inline]
    pub fn unpin(self) {
        drop(self);
    }

    /// The right to set hints, if nobody else has it now and no write-out is copying the page.
    /// Never waits (BUF-6). Ask once per visit of a page.
    #[inline]
    pub fn try_hint(&mut self) -> Option<HintGuard<'_>> {
        if self.pin.frame.latch.try_upgrade() {
            Some(HintGuard {
                pin: &self.pin,
                dirtied: false,
            })
        } else {
            None
        }
    }
}

impl Drop for ReadGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.pin
            .frame
            .latch
            .unlock_and_unpin(Mode::Share, &self.pin.fork.core().waiters);
    }
}

/// The right to set hints on a page: its lock is share-exclusive until this is dropped.
pub struct HintGuard<'g> {
    pin: &'g Pin<'g>,
    dirtied: bool,
}

page_read_shared!(HintGuard);

impl<'g> HintGuard<'g> {
    #[inline]
    fn pin(&self) -> &Pin<'g> {
        self.pin
    }

    /// Sets `bits` in the little-endian word at `offset`, a multiple of 8, and marks the page as
    /// changed by hints if they were not all set.
    ///
    /// # Panics
    /// When `offset` is not a multiple of 8 or outside the page.
    #[inline]
    pub fn or_u64(&mut self, offset: usize, bits: u64) {
        assert!(offset.is_multiple_of(8), "hint words are aligned");
        let at = self.pin.at(offset, 8);
        // SAFETY: inside the page and aligned; others only read it, atomically.
        let word = unsafe { AtomicU64::from_ptr(at.as_ptr().cast()) };
        // Share-exclusive makes this the only writer, so a load and a store do.
        let old = word.load(Ordering::Relaxed);
        let new = old | bits.to_le();
        if new != old {
            word.store(new, Ordering::Relaxed);
            self.dirtied = true;
        }
    }
}

impl Drop for HintGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.pin
            .frame
            .latch
            .end_upgrade(self.dirtied, &self.pin.fork.core().waiters);
    }
}

/// A page under the exclusive lock. Its content changes only through a log record
/// ([`MiniTransaction`](crate::store::MiniTransaction)), save for advice
/// ([`WriteGuard::unlogged`]).
#[derive(Debug)]
pub struct WriteGuard<'a> {
    /// Dropped with the lock, in one step.
    pin: ManuallyDrop<Pin<'a>>,
}

impl PageRead for WriteGuard<'_> {
    #[inline]
    fn u8_at(&self, offset: usize) -> u8 {
        self.bytes()[offset]
    }
    #[inline]
    fn u16_at(&self, offset: usize) -> u16 {
        u16::from_le_bytes(self.array(offset))
    }
    #[inline]
    fn u32_at(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.array(offset))
    }
    #[inline]
    fn u64_at(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.array(offset))
    }
    #[inline]
    fn slice(&self, range: Range<usize>) -> &[u8] {
        &self.bytes()[range]
    }
}

impl<'a> WriteGuard<'a> {
    /// All bytes of the page.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &PageBytes {
        // SAFETY: the exclusive lock keeps everybody else out while `self` is borrowed.
        unsafe { self.pin.page.as_ref() }
    }

    #[inline]
    fn array<const N: usize>(&self, offset: usize) -> [u8; N] {
        let mut value = [0; N];
        value.copy_from_slice(&self.bytes()[offset..offset + N]);
        value
    }

    /// The page's block number.
    #[inline]
    #[must_use]
    pub fn block(&self) -> BlockNumber {
        self.pin.block
    }

    /// The page's identity.
    #[must_use]
    pub fn page_id(&self) -> PageId {
        self.pin.page_id()
    }

    /// Gives the lock back and keeps the pin.
    #[must_use = "dropping the guard gives back lock and pin in one step"]
    pub fn unlock(self) -> Pin<'a> {
        let this = ManuallyDrop::new(self);
        this.pin
            .frame
            .latch
            .unlock(Mode::Exclusive, &this.pin.fork.core().waiters);
        this.pin.of_guard()
    }

    /// Gives lock and pin back; the same as dropping the guard.
    pub fn unpin(self) {
        drop(self);
    }

    /// Turns the exclusive lock into the share lock without letting another writer in between.
    #[must_use]
    pub fn downgrade(self) -> ReadGuard<'a> {
        let this = ManuallyDrop::new(self);
        this.pin
            .frame
            .latch
            .downgrade(&this.pin.fork.core().waiters);
        this.pin.of_guard().already_shared()
    }

    /// The page, to change under a log record. Call [`WriteGuard::mark_dirty`] before the record
    /// is reserved.
    #[inline]
    pub(crate) fn page_mut(&mut self) -> PageMut<'_> {
        // SAFETY: the exclusive lock keeps everybody else out while `self` is borrowed.
        PageMut::new(unsafe { self.pin.page.as_mut() })
    }

    /// The page, to change without a log record: content that is only advice and may be lost or
    /// outdated, the free-space map's.
    ///
    /// # Panics
    /// When the page is of another fork.
    pub fn unlogged(&mut self) -> PageMut<'_> {
        assert!(
            self.pin.fork.fork() == Fork::Fsm,
            "only free-space maps are advice"
        );
        let _ = self
            .pin
            .frame
            .latch
            .try_update(|word| Some(word.with(Flag::HINT_DIRTY)));
        self.page_mut()
    }

    /// Marks the page dirty before the record of the change is reserved. `position` is the log's
    /// insert position read before: every change since the page was last copied for writing is
    /// at or after it (BUF-7).
    #[inline]
    pub(crate) fn mark_dirty(&mut self, position: Lsn) {
        let frame = self.pin.frame;
        frame.dirtiness.mark(&frame.latch, position);
    }

    /// See [`Frame::is_image_due`].
    #[inline]
    pub(crate) fn is_image_due(&self) -> bool {
        self.pin.frame.is_image_due()
    }

    /// See [`Frame::count_log`].
    #[inline]
    pub(crate) fn count_log(&self, bytes: u32, is_whole: bool) {
        self.pin.frame.count_log(bytes, is_whole);
    }
}

impl Drop for WriteGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.pin
            .frame
            .latch
            .unlock_and_unpin(Mode::Exclusive, &self.pin.fork.core().waiters);
    }
}
