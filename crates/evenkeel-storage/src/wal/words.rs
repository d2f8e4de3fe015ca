//! The memory of the log's ring: words that a protocol hands from one owner to the next.
//!
//! Built with `--cfg loom` the same protocol is checked access by access: loom reports a word that
//! is read or written by a thread to which the protocol has not handed it.

#[cfg(not(all(test, loom)))]
mod imp {
    use std::cell::UnsafeCell;

    use crate::sync::AtomicU64;

    /// `8 * n` bytes, addressed by offset modulo their number.
    pub(crate) struct Words(Box<[UnsafeCell<u64>]>);

    // SAFETY: the cells are reached only through the unsafe functions, whose callers own the
    // range, and through atomic marks.
    unsafe impl Send for Words {}
    // SAFETY: as above.
    unsafe impl Sync for Words {}

    impl Words {
        /// `n` words of zeroes; a power of two.
        pub(crate) fn new(n: usize) -> Words {
            Words((0..n).map(|_| UnsafeCell::new(0)).collect())
        }

        fn len(&self) -> usize {
            self.0.len() * 8
        }

        /// The word at byte `at`, as completion mark of the record that begins there.
        pub(crate) fn mark(&self, at: u64) -> &AtomicU64 {
            let index = (at as usize & (self.len() - 1)) / 8;
            // SAFETY: the cell is 8 bytes, aligned and lives as long as `self`. Plain accesses to
            // it (copying and zeroing) are ordered against these by the protocol: copying in never
            // touches a mark, draining comes after the walk's acquire load of it.
            unsafe { AtomicU64::from_ptr(self.0[index].get()) }
        }

        /// The one or two contiguous pieces of `len` bytes at `at`: where the first begins, and
        /// its length; the second begins at 0.
        fn pieces(&self, at: u64, len: usize) -> (usize, usize) {
            let start = at as usize & (self.len() - 1);
            (start, len.min(self.len() - start))
        }

        fn base(&self) -> *mut u8 {
            UnsafeCell::raw_get(self.0.as_ptr()).cast::<u8>()
        }

        /// # Safety
        /// The caller owns the range, which is not longer than the memory.
        pub(crate) unsafe fn copy_in(&self, at: u64, bytes: &[u8]) {
            let (start, first) = self.pieces(at, bytes.len());
            let base = self.base();
            // SAFETY: both pieces lie inside the memory; the caller owns them.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), base.add(start), first);
                let rest = bytes.len() - first;
                std::ptr::copy_nonoverlapping(bytes.as_ptr().add(first), base, rest);
            }
        }

        /// # Safety
        /// The range is complete and not yet released, and not longer than the memory.
        pub(crate) unsafe fn copy_out(&self, at: u64, out: &mut [u8]) {
            let (start, first) = self.pieces(at, out.len());
            let base = self.base();
            // SAFETY: both pieces lie inside the memory; nobody writes to complete bytes.
            unsafe {
                std::ptr::copy_nonoverlapping(base.add(start), out.as_mut_ptr(), first);
                let rest = out.len() - first;
                std::ptr::copy_nonoverlapping(base, out.as_mut_ptr().add(first), rest);
            }
        }

        /// # Safety
        /// As [`Words::copy_out`], and nobody reads the range any more.
        pub(crate) unsafe fn zero(&self, at: u64, len: usize) {
            let (start, first) = self.pieces(at, len);
            let base = self.base();
            // SAFETY: both pieces lie inside the memory and belong to the draining thread.
            unsafe {
                std::ptr::write_bytes(base.add(start), 0, first);
                std::ptr::write_bytes(base, 0, len - first);
            }
        }
    }
}

#[cfg(all(test, loom))]
mod imp {
    use loom::cell::UnsafeCell;

    use crate::sync::{AtomicU64, Ordering};

    /// Each word twice, since loom tells plain from atomic memory: as a mark, and as bytes.
    pub(crate) struct Words(Box<[(AtomicU64, UnsafeCell<u64>)]>);

    // SAFETY: loom checks every access.
    unsafe impl Send for Words {}
    // SAFETY: as above.
    unsafe impl Sync for Words {}

    impl Words {
        pub(crate) fn new(n: usize) -> Words {
            let word = |_| (AtomicU64::new(0), UnsafeCell::new(0));
            Words((0..n).map(word).collect())
        }

        fn word(&self, at: u64) -> &(AtomicU64, UnsafeCell<u64>) {
            &self.0[(at / 8) as usize % self.0.len()]
        }

        pub(crate) fn mark(&self, at: u64) -> &AtomicU64 {
            &self.word(at).0
        }

        pub(crate) unsafe fn copy_in(&self, at: u64, bytes: &[u8]) {
            for (i, chunk) in bytes.chunks(8).enumerate() {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                let cell = &self.word(at + 8 * i as u64).1;
                cell.with_mut(|cell| unsafe { *cell = u64::from_le_bytes(word) });
            }
        }

        pub(crate) unsafe fn copy_out(&self, at: u64, out: &mut [u8]) {
            for (i, chunk) in out.chunks_mut(8).enumerate() {
                let (mark, cell) = self.word(at + 8 * i as u64);
                let bytes = cell.with(|cell| unsafe { *cell });
                // Not a step of its own: a plain read of memory that is owned.
                let word = bytes | unsafe { mark.unsync_load() };
                chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
            }
        }

        pub(crate) unsafe fn zero(&self, at: u64, len: usize) {
            for i in 0..len as u64 / 8 {
                let (mark, cell) = self.word(at + 8 * i);
                cell.with_mut(|cell| unsafe { *cell = 0 });
                mark.store(0, Ordering::Relaxed);
            }
        }
    }
}

pub(crate) use imp::Words;
