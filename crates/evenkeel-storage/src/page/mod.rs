//! The page: 8 KiB with a fixed header and a checksum. See the crate's README for the rules.
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 4 | checksum (CRC-32C of everything else, and of the page's identity) |
//! | 4 | 2 | flags, the owner's |
//! | 6 | 2 | kind, the owner's; 0 is a page never initialised |
//! | 8 | 8 | LSN of the last record that changed the page |
//! | 16 | 2 | lower: end of what grows upwards |
//! | 18 | 2 | upper: start of what grows downwards |
//! | 20 | 2 | special: start of the owner's area at the end |
//! | 22 | 2 | spare: the owner's (a heap page counts its unused line pointers there) |
//!
//! All numbers are little endian.

pub mod checksum;

use std::ops::Range;

use crate::ids::Lsn;

/// Bytes in a page.
pub const PAGE_SIZE: usize = 8192;
/// Bytes in the header at the start of every page.
pub const PAGE_HEADER_SIZE: usize = 24;

/// Offset of the checksum, a `u32`.
pub const CHECKSUM_OFFSET: usize = 0;
/// Offset of the flags, a `u16`.
pub const FLAGS_OFFSET: usize = 4;
/// Offset of the kind, a `u16`.
pub const KIND_OFFSET: usize = 6;
/// Offset of the LSN, a `u64`.
pub const LSN_OFFSET: usize = 8;
/// Offset of lower, a `u16`.
pub const LOWER_OFFSET: usize = 16;
/// Offset of upper, a `u16`.
pub const UPPER_OFFSET: usize = 18;
/// Offset of special, a `u16`.
pub const SPECIAL_OFFSET: usize = 20;

const _: () = assert!(PAGE_SIZE.is_power_of_two() && PAGE_SIZE - 1 <= u16::MAX as usize);

/// The bytes of one page.
pub type PageBytes = [u8; PAGE_SIZE];

/// Reading a page, whatever lock or memory it is seen through.
///
/// Offsets are the caller's to check when they come out of the page: one that does not leave
/// the value inside the page panics, as indexing a slice does.
pub trait PageRead {
    /// The byte at `offset`.
    fn u8_at(&self, offset: usize) -> u8;
    /// The little-endian number at `offset`.
    fn u16_at(&self, offset: usize) -> u16;
    /// The little-endian number at `offset`.
    fn u32_at(&self, offset: usize) -> u32;
    /// The little-endian number at `offset`. Aligned to 8 it may be a hint word: through a
    /// guard it is one relaxed atomic read.
    fn u64_at(&self, offset: usize) -> u64;
    /// The bytes in `range`, which must not contain a word that hints may change: under a share
    /// lock another thread may be setting one.
    fn slice(&self, range: Range<usize>) -> &[u8];

    /// LSN of the last record that changed the page; zero if none did.
    #[inline]
    fn lsn(&self) -> Lsn {
        Lsn(self.u64_at(LSN_OFFSET))
    }
    /// The kind of page, in the owner's numbering; zero if never initialised.
    #[inline]
    fn kind(&self) -> u16 {
        self.u16_at(KIND_OFFSET)
    }
    /// The owner's flags.
    #[inline]
    fn flags(&self) -> u16 {
        self.u16_at(FLAGS_OFFSET)
    }
    /// End of what grows upwards from the header.
    #[inline]
    fn lower(&self) -> u16 {
        self.u16_at(LOWER_OFFSET)
    }
    /// Start of what grows downwards from the special area.
    #[inline]
    fn upper(&self) -> u16 {
        self.u16_at(UPPER_OFFSET)
    }
    /// Start of the special area, which reaches to the end of the page.
    #[inline]
    fn special(&self) -> u16 {
        self.u16_at(SPECIAL_OFFSET)
    }
    /// Whether the page was never initialised (a block that only extension made).
    #[inline]
    fn is_new(&self) -> bool {
        self.upper() == 0
    }
}

#[inline]
fn read<const N: usize>(bytes: &PageBytes, offset: usize) -> [u8; N] {
    let mut value = [0; N];
    value.copy_from_slice(&bytes[offset..offset + N]);
    value
}

/// The fault of a page's header, if it has one: `lower`, `upper` and `special` are in this order
/// and within the page, whoever the owner is. So redo, images and masks may cut at them.
#[must_use]
pub fn header_fault(bytes: &PageBytes) -> Option<String> {
    let field = |offset| u16::from_le_bytes(read(bytes, offset));
    let (lower, upper, special) = (
        field(LOWER_OFFSET),
        field(UPPER_OFFSET),
        field(SPECIAL_OFFSET),
    );
    let ordered = lower <= upper && upper <= special && usize::from(special) <= PAGE_SIZE;
    (!ordered).then(|| format!("its header has lower {lower}, upper {upper}, special {special}"))
}

macro_rules! read_plain {
    () => {
        #[inline]
        fn u8_at(&self, offset: usize) -> u8 {
            self.bytes[offset]
        }
        #[inline]
        fn u16_at(&self, offset: usize) -> u16 {
            u16::from_le_bytes(read(&self.bytes, offset))
        }
        #[inline]
        fn u32_at(&self, offset: usize) -> u32 {
            u32::from_le_bytes(read(&self.bytes, offset))
        }
        #[inline]
        fn u64_at(&self, offset: usize) -> u64 {
            u64::from_le_bytes(read(&self.bytes, offset))
        }
        #[inline]
        fn slice(&self, range: Range<usize>) -> &[u8] {
            &self.bytes[range]
        }
    };
}

/// A page that can be changed: one under an exclusive lock, or in memory of its own.
#[derive(Debug)]
pub struct PageMut<'a> {
    bytes: &'a mut PageBytes,
}

impl PageRead for PageMut<'_> {
    read_plain!();
}

impl<'a> PageMut<'a> {
    /// A view of `bytes` as a page.
    #[inline]
    pub fn new(bytes: &'a mut PageBytes) -> Self {
        PageMut { bytes }
    }

    /// All bytes of the page.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &PageBytes {
        self.bytes
    }

    /// All bytes of the page, to change.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut PageBytes {
        self.bytes
    }

    /// The same page for a shorter time.
    #[inline]
    pub fn reborrow(&mut self) -> PageMut<'_> {
        PageMut { bytes: self.bytes }
    }

    /// Writes a byte.
    #[inline]
    pub fn put_u8(&mut self, offset: usize, value: u8) {
        self.bytes[offset] = value;
    }

    /// Writes a little-endian number.
    #[inline]
    pub fn put_u16(&mut self, offset: usize, value: u16) {
        self.put_bytes(offset, &value.to_le_bytes());
    }

    /// Writes a little-endian number.
    #[inline]
    pub fn put_u32(&mut self, offset: usize, value: u32) {
        self.put_bytes(offset, &value.to_le_bytes());
    }

    /// Writes a little-endian number.
    #[inline]
    pub fn put_u64(&mut self, offset: usize, value: u64) {
        self.put_bytes(offset, &value.to_le_bytes());
    }

    /// Writes bytes.
    #[inline]
    pub fn put_bytes(&mut self, offset: usize, value: &[u8]) {
        self.bytes[offset..offset + value.len()].copy_from_slice(value);
    }

    /// Makes every byte zero: a page never initialised.
    pub fn zero(&mut self) {
        self.bytes.fill(0);
    }

    /// Makes the page empty: zeroes it, sets the kind, and reserves `special_size` bytes at the
    /// end (rounded up to 8). The LSN becomes zero.
    pub fn init(&mut self, kind: u16, special_size: usize) {
        let special_size = special_size.next_multiple_of(8);
        assert!(
            special_size <= PAGE_SIZE - PAGE_HEADER_SIZE,
            "special area larger than a page"
        );
        self.zero();
        // PAGE_SIZE is 8192, so both casts keep their value.
        let special = (PAGE_SIZE - special_size) as u16;
        self.set_kind(kind);
        self.set_lower(PAGE_HEADER_SIZE as u16);
        self.set_upper(special);
        self.put_u16(SPECIAL_OFFSET, special);
    }

    /// Sets the LSN.
    #[inline]
    pub fn set_lsn(&mut self, lsn: Lsn) {
        self.put_u64(LSN_OFFSET, lsn.0);
    }

    /// Sets the kind.
    #[inline]
    pub fn set_kind(&mut self, kind: u16) {
        self.put_u16(KIND_OFFSET, kind);
    }

    /// Sets the flags.
    #[inline]
    pub fn set_flags(&mut self, flags: u16) {
        self.put_u16(FLAGS_OFFSET, flags);
    }

    /// Sets the end of what grows upwards.
    #[inline]
    pub fn set_lower(&mut self, lower: u16) {
        self.put_u16(LOWER_OFFSET, lower);
    }

    /// Sets the start of what grows downwards.
    #[inline]
    pub fn set_upper(&mut self, upper: u16) {
        self.put_u16(UPPER_OFFSET, upper);
    }
}

/// A page in memory of its own, for tools and tests; on the heap, aligned for direct I/O.
#[derive(Clone)]
pub struct PageBuf {
    bytes: Box<Aligned>,
}

#[derive(Clone)]
#[repr(C, align(4096))]
struct Aligned(PageBytes);

impl std::ops::Deref for Aligned {
    type Target = PageBytes;
    fn deref(&self) -> &PageBytes {
        &self.0
    }
}

impl PageRead for PageBuf {
    read_plain!();
}

impl PageBuf {
    /// A page of zeroes.
    #[must_use]
    pub fn zeroed() -> Self {
        PageBuf {
            bytes: Box::new(Aligned([0; PAGE_SIZE])),
        }
    }

    /// The page, to change.
    pub fn page_mut(&mut self) -> PageMut<'_> {
        PageMut::new(&mut self.bytes.0)
    }

    /// All bytes.
    #[must_use]
    pub fn bytes(&self) -> &PageBytes {
        &self.bytes.0
    }

    /// All bytes, to change.
    pub fn bytes_mut(&mut self) -> &mut PageBytes {
        &mut self.bytes.0
    }
}

impl std::fmt::Debug for PageBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageBuf")
            .field("lsn", &self.lsn())
            .field("kind", &self.kind())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_fields_lie_where_the_format_says() {
        let mut page = PageBuf::zeroed();
        let mut view = page.page_mut();
        assert!(view.is_new());
        view.init(0x0102, 13);
        view.set_flags(0x0304);
        view.set_lsn(Lsn(0x1122_3344_5566_7788));
        view.set_lower(0x1000);
        view.set_upper(0x1800);
        let header = &page.bytes()[..PAGE_HEADER_SIZE];
        let expected: [u8; PAGE_HEADER_SIZE] = [
            0, 0, 0, 0, 0x04, 0x03, 0x02, 0x01, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
            0x00, 0x10, 0x00, 0x18, 0xF0, 0x1F, 0, 0,
        ];
        assert_eq!(header, expected);
        assert_eq!(page.special(), 8192 - 16);
        assert!(!page.is_new());
    }

    #[test]
    fn a_header_out_of_order_is_a_fault() {
        let mut page = PageBuf::zeroed();
        assert_eq!(header_fault(page.bytes()), None);
        page.page_mut().init(1, 16);
        assert_eq!(header_fault(page.bytes()), None);
        for (offset, value) in [
            (LOWER_OFFSET, 8177),
            (UPPER_OFFSET, 8177),
            (UPPER_OFFSET, 23),
            (SPECIAL_OFFSET, 8193),
            (SPECIAL_OFFSET, 24),
        ] {
            let mut page = page.clone();
            page.page_mut().put_u16(offset, value);
            assert!(header_fault(page.bytes()).is_some(), "{value} at {offset}");
        }
    }

    #[test]
    fn numbers_round_trip_at_any_offset() {
        let mut page = PageBuf::zeroed();
        let mut view = page.page_mut();
        view.put_u64(8191 - 8, u64::MAX - 5);
        view.put_u32(101, 0xDEAD_BEEF);
        view.put_u16(77, 0xABCD);
        view.put_u8(8191, 9);
        assert_eq!(view.u64_at(8183), u64::MAX - 5);
        assert_eq!(view.u32_at(101), 0xDEAD_BEEF);
        assert_eq!(view.u16_at(77), 0xABCD);
        assert_eq!(view.slice(8191..8192), [9]);
    }

    #[test]
    fn init_forgets_what_was_there() {
        let mut page = PageBuf::zeroed();
        page.bytes_mut().fill(0xFF);
        page.page_mut().init(3, 0);
        assert_eq!(page.lsn(), Lsn::ZERO);
        assert_eq!(
            (page.lower(), page.upper(), page.special()),
            (24, 8192, 8192)
        );
        assert!(page.slice(24..8192).iter().all(|b| *b == 0));
    }
}
