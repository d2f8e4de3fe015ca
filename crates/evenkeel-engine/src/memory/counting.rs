//! An allocator that knows how much memory the process has from it: the last line of the budget,
//! which sees what accounting misses. A program chooses it as its global allocator and hands
//! [`in_use`] to [`super::set_gauge`].

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, Ordering};

/// A thread adds to the total when it has counted so much, in either direction.
const COUNTED_AT_ONCE: usize = 64 << 10;

static TOTAL: AtomicIsize = AtomicIsize::new(0);

thread_local! {
    /// Neither needs a destructor nor allocates: it can be used by the allocator itself, and while
    /// a thread ends.
    static COUNTED: Cell<isize> = const { Cell::new(0) };
}

/// An allocator that counts what it takes from another, by default the system's.
#[derive(Debug, Clone, Copy, Default)]
pub struct CountingAllocator<A = System>(pub A);

/// Bytes allocated and not freed, give or take what threads have not added yet.
#[must_use]
pub fn in_use() -> usize {
    usize::try_from(TOTAL.load(Ordering::Relaxed)).unwrap_or(0)
}

#[inline]
fn count(bytes: isize) {
    COUNTED.with(|counted| {
        let sum = counted.get().wrapping_add(bytes);
        if sum.unsigned_abs() < COUNTED_AT_ONCE {
            counted.set(sum);
        } else {
            counted.set(0);
            TOTAL.fetch_add(sum, Ordering::Relaxed);
        }
    });
}

/// A layout's size is at most `isize::MAX`.
fn size(bytes: usize) -> isize {
    bytes.cast_signed()
}

// SAFETY: every call is passed on to the other allocator as it is; counting neither allocates nor
// unwinds.
unsafe impl<A: GlobalAlloc> GlobalAlloc for CountingAllocator<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises about `layout` are those that the allocator asks for.
        let memory = unsafe { self.0.alloc(layout) };
        if !memory.is_null() {
            count(size(layout.size()));
        }
        memory
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        let memory = unsafe { self.0.alloc_zeroed(layout) };
        if !memory.is_null() {
            count(size(layout.size()));
        }
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-size(layout.size()));
        // SAFETY: `memory` is from this allocator with this layout, and so from the other.
        unsafe { self.0.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as in `dealloc`; the caller promises that `new_size` is valid.
        let new = unsafe { self.0.realloc(memory, layout, new_size) };
        if !new.is_null() {
            count(size(new_size) - size(layout.size()));
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allocated_and_freed_is_counted() {
        let layout = Layout::from_size_align(8 << 20, 4096).unwrap();
        let before = TOTAL.load(Ordering::Relaxed);
        // SAFETY: the layout is not empty, and what is freed was allocated with it.
        unsafe {
            let memory = CountingAllocator(System).alloc(layout);
            assert!(!memory.is_null());
            assert!(TOTAL.load(Ordering::Relaxed) >= before + size(8 << 20) - size(1 << 20));
            let larger = CountingAllocator(System).realloc(memory, layout, 16 << 20);
            assert!(!larger.is_null());
            assert!(TOTAL.load(Ordering::Relaxed) >= before + size(15 << 20));
            let layout = Layout::from_size_align(16 << 20, 4096).unwrap();
            CountingAllocator(System).dealloc(larger, layout);
        }
        assert!(TOTAL.load(Ordering::Relaxed) <= before + size(1 << 20));
    }
}
