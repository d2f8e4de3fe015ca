//! Buffers that an operation owns while it is in flight.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::any::Any;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// Alignment in bytes of buffers, offsets and lengths for direct I/O.
pub const IO_ALIGN: usize = 4096;

/// An owned, zero-initialised buffer whose address is a multiple of [`IO_ALIGN`].
pub struct AlignedBuf {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the buffer owns its memory; nothing else refers to it.
unsafe impl Send for AlignedBuf {}
// SAFETY: shared access only reads.
unsafe impl Sync for AlignedBuf {}

impl AlignedBuf {
    /// A zeroed buffer of `len` bytes. `len` may be zero; it need not be a multiple of
    /// [`IO_ALIGN`], though direct I/O requires that.
    ///
    /// # Panics
    /// When `len` exceeds what an allocation may have (`isize::MAX`).
    pub fn zeroed(len: usize) -> Self {
        if len == 0 {
            return Self {
                start: NonNull::dangling(),
                len,
            };
        }
        let layout = Self::layout(len);
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        match NonNull::new(start) {
            Some(start) => Self { start, len },
            None => handle_alloc_error(layout),
        }
    }

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, IO_ALIGN).expect("buffer length within isize::MAX")
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if self.len != 0 {
            // SAFETY: allocated in `zeroed` with this very layout and not freed since.
            unsafe { dealloc(self.start.as_ptr(), Self::layout(self.len)) }
        }
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start` is valid and initialised for `len` bytes, borrowed with `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`; `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuf({} bytes)", self.len)
    }
}

/// The buffer of an operation in flight: either owned, or lent out of an arena that a keep-alive
/// owner holds in place.
pub struct IoBuf {
    memory: Memory,
}

enum Memory {
    Owned(AlignedBuf),
    Lent {
        start: NonNull<u8>,
        len: usize,
        _owner: Arc<dyn Any + Send + Sync>,
    },
}

// SAFETY: owned memory is Send; lent memory is exclusively this buffer's by the contract of
// `IoBuf::lend`, and its owner is Send.
unsafe impl Send for IoBuf {}

impl IoBuf {
    /// An owned, zeroed buffer.
    pub fn zeroed(len: usize) -> Self {
        AlignedBuf::zeroed(len).into()
    }

    /// Lends `len` bytes at `start` to an operation.
    ///
    /// # Safety
    /// The memory must be initialised, stay valid for as long as `owner` is kept, and until this
    /// buffer is dropped nothing else may access it except through this buffer.
    pub unsafe fn lend(start: NonNull<u8>, len: usize, owner: Arc<dyn Any + Send + Sync>) -> Self {
        Self {
            memory: Memory::Lent {
                start,
                len,
                _owner: owner,
            },
        }
    }

    /// The owned buffer back, or `None` if the memory is an arena's.
    pub fn into_owned(self) -> Option<AlignedBuf> {
        match self.memory {
            Memory::Owned(buf) => Some(buf),
            Memory::Lent { .. } => None,
        }
    }
}

impl From<AlignedBuf> for IoBuf {
    fn from(buf: AlignedBuf) -> Self {
        Self {
            memory: Memory::Owned(buf),
        }
    }
}

impl Deref for IoBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.memory {
            Memory::Owned(buf) => buf,
            // SAFETY: valid, initialised and ours alone by the contract of `lend`.
            Memory::Lent { start, len, .. } => unsafe {
                std::slice::from_raw_parts(start.as_ptr(), *len)
            },
        }
    }
}

impl DerefMut for IoBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Owned(buf) => buf,
            // SAFETY: as for `deref`; `&mut self` makes the access exclusive.
            Memory::Lent { start, len, .. } => unsafe {
                std::slice::from_raw_parts_mut(start.as_ptr(), *len)
            },
        }
    }
}

impl fmt::Debug for IoBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.memory {
            Memory::Owned(_) => "owned",
            Memory::Lent { .. } => "lent",
        };
        write!(f, "IoBuf({kind}, {} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_zero() {
        for len in [0, 1, 512, 8192, 1 << 15] {
            let buf = AlignedBuf::zeroed(len);
            assert_eq!(buf.len(), len);
            assert!(len == 0 || buf.as_ptr().addr().is_multiple_of(IO_ALIGN));
            assert!(buf.iter().all(|&b| b == 0));
        }
    }

    #[test]
    fn a_lent_buffer_keeps_its_owner() {
        struct Arena(AlignedBuf);
        let mut memory = AlignedBuf::zeroed(2 * IO_ALIGN);
        let start = NonNull::from(&mut memory[IO_ALIGN..]).cast::<u8>();
        let arena = Arc::new(Arena(memory));
        let weak = Arc::downgrade(&arena);
        // SAFETY: the arena's heap memory does not move and only the buffer uses its second half.
        let mut buf = unsafe { IoBuf::lend(start, IO_ALIGN, arena) };
        buf[7] = 9;
        assert_eq!(
            weak.upgrade().map(|arena| arena.0.len()),
            Some(2 * IO_ALIGN)
        );
        assert_eq!(buf[7], 9);
        assert!(buf.into_owned().is_none());
        assert!(weak.upgrade().is_none());
    }

    #[test]
    fn an_owned_buffer_comes_back() {
        let mut buf = IoBuf::zeroed(16);
        buf[3] = 1;
        let back = buf.into_owned().map(|b| b[3]);
        assert_eq!(back, Some(1));
    }
}
