//! The bytes of a heap page.
//!
//! ```text
//!  0  page header (storage)                     24 bytes
//! 24  heap word: prune xid (48) | page bits (16) 8 bytes
//! 32  line pointers, 4 bytes each, growing up to `lower`
//!     free space
//!     tuples, 8-byte aligned, growing down from the page's end to `upper`
//! ```
//! A line pointer is offset (15 bits) | state (2) | length (15). A tuple is a header of 28
//! bytes and the row. The two words at the header's start carry the hint bits and may change
//! under a share lock; everything else changes only under an exclusive lock.

use evenkeel_storage::BlockNumber;
use evenkeel_storage::page::{PAGE_SIZE, PageMut, PageRead};

use crate::types::{Tid, Xid};

/// The page header's `kind` of a heap page.
pub const HEAP_PAGE_KIND: u16 = 0x0101;

const HEAP_WORD: usize = 24;
/// Where line pointers begin.
pub const LINE_POINTERS: usize = 32;
/// Bytes of a line pointer.
pub const LINE_POINTER_SIZE: usize = 4;
/// Bytes of a tuple header.
pub const TUPLE_HEADER: usize = 28;
/// Bytes of an empty page that line pointers and tuples share.
pub const PAGE_CAPACITY: usize = PAGE_SIZE - LINE_POINTERS;
/// The largest row: one that fills a page of its own.
pub const MAX_ROW: usize = ((PAGE_SIZE - LINE_POINTERS - LINE_POINTER_SIZE) & !7) - TUPLE_HEADER;
/// The most line pointers a page can have: a bound for anything that is sized by them.
pub const MAX_SLOTS: u16 = ((PAGE_SIZE - LINE_POINTERS) / LINE_POINTER_SIZE) as u16;
/// The most tuples a page can hold.
pub const MAX_TUPLES: usize =
    (PAGE_SIZE - LINE_POINTERS) / (align8(TUPLE_HEADER) + LINE_POINTER_SIZE);

/// Heap word bit: every tuple of the page is visible to every snapshot.
pub const PAGE_ALL_VISIBLE: u16 = 1;

/// Hint (w0): the inserting transaction committed, durably.
pub const XMIN_COMMITTED: u16 = 1;
/// Hint (w0): the inserting transaction aborted.
pub const XMIN_ABORTED: u16 = 2;
/// (w0) The inserting transaction is older than every snapshot; its id means nothing any more.
pub const XMIN_FROZEN: u16 = 4;
/// Hint (w1): the deleting transaction committed, durably.
pub const XMAX_COMMITTED: u16 = 1;
/// Hint (w1): the deleting transaction aborted.
pub const XMAX_ABORTED: u16 = 2;
/// (w1) The change that xmax made took the row away or changed a unique key: it conflicts with
/// key-share locks.
pub const XMAX_KEYS: u16 = 4;

/// Tuple flag: no index entry points here; reached through the chain only.
pub const HEAP_ONLY: u16 = 1;
/// Tuple flag: the next version (ctid) is heap-only and on this page.
pub const HOT_UPDATED: u16 = 2;
/// Tuple flag: the command id is a number of the transaction's combo list, which holds both
/// the inserting and the deleting command.
pub const COMBO_CID: u16 = 4;

/// The mask part of the first header word, as it is ored in by a hint.
pub const fn mask_word(mask: u16) -> u64 {
    (mask as u64) << 48
}

/// `n` rounded up to a multiple of 8.
pub const fn align8(n: usize) -> usize {
    (n + 7) & !7
}

/// Space that a row of `row_len` bytes takes among the tuples.
pub const fn tuple_space(row_len: usize) -> usize {
    align8(TUPLE_HEADER + row_len)
}

/// The state of a line pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LpState {
    /// Free for the next tuple.
    Unused,
    /// Points at a tuple.
    Normal,
    /// Root of a HOT chain whose first versions are gone; the offset is the slot to go on at.
    Redirect,
    /// Its tuple is gone, index entries may still point here.
    Dead,
}

/// A line pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinePointer {
    /// Its state.
    pub state: LpState,
    /// Byte offset of the tuple, or the slot a redirect leads to.
    pub offset: u16,
    /// Bytes of the tuple (header and row).
    pub length: u16,
}

impl LinePointer {
    /// Free.
    pub const UNUSED: LinePointer = LinePointer {
        state: LpState::Unused,
        offset: 0,
        length: 0,
    };
    /// Dead.
    pub const DEAD: LinePointer = LinePointer {
        state: LpState::Dead,
        offset: 0,
        length: 0,
    };

    /// A redirect to `slot`.
    pub const fn redirect(slot: u16) -> LinePointer {
        LinePointer {
            state: LpState::Redirect,
            offset: slot,
            length: 0,
        }
    }

    /// A pointer at a tuple.
    pub const fn normal(offset: u16, length: u16) -> LinePointer {
        LinePointer {
            state: LpState::Normal,
            offset,
            length,
        }
    }

    /// The offset and length of its tuple, when there is one and it lies within a page's tuple
    /// space.
    #[inline]
    pub fn extent(self) -> Option<(usize, usize)> {
        let (offset, length) = (self.tuple()?, usize::from(self.length));
        let inside = offset >= LINE_POINTERS
            && offset % 8 == 0
            && length >= TUPLE_HEADER
            && offset + length <= PAGE_SIZE;
        inside.then_some((offset, length))
    }

    /// The offset of its tuple, if it has one, and the space that this takes.
    pub(super) fn tuple_space(self) -> Option<(usize, usize)> {
        let (offset, length) = self.extent()?;
        Some((offset, align8(length)))
    }

    /// From its four bytes.
    pub const fn decode(raw: u32) -> LinePointer {
        let state = match (raw >> 15) & 3 {
            0 => LpState::Unused,
            1 => LpState::Normal,
            2 => LpState::Redirect,
            _ => LpState::Dead,
        };
        LinePointer {
            state,
            offset: (raw & 0x7fff) as u16,
            length: (raw >> 17) as u16,
        }
    }

    /// Its four bytes.
    pub const fn encode(self) -> u32 {
        let state = match self.state {
            LpState::Unused => 0u32,
            LpState::Normal => 1,
            LpState::Redirect => 2,
            LpState::Dead => 3,
        };
        (self.offset as u32 & 0x7fff) | state << 15 | (self.length as u32) << 17
    }

    /// The tuple's byte offset, if this points at one.
    pub const fn tuple(self) -> Option<usize> {
        match self.state {
            LpState::Normal => Some(self.offset as usize),
            _ => None,
        }
    }
}

/// A tuple header, read at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TupleHeader {
    /// The inserting transaction.
    pub xmin: Xid,
    /// Facts about it (`XMIN_*`).
    pub xmin_mask: u16,
    /// The deleting or updating transaction, or none.
    pub xmax: Xid,
    /// Facts about it (`XMAX_*`).
    pub xmax_mask: u16,
    /// The next version, or the tuple itself.
    pub ctid: Tid,
    /// `HEAP_ONLY`, `HOT_UPDATED`, `COMBO_CID`.
    pub flags: u16,
    /// The inserting command, or the deleting one when there is an xmax, or a combo number.
    pub cid: u32,
}

impl TupleHeader {
    /// Whether it is known that the inserting transaction is visible to all.
    pub fn frozen(&self) -> bool {
        self.xmin_mask & XMIN_FROZEN != 0
    }

    /// Whether this flag is set.
    pub fn is(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// The two header words.
    pub fn words(&self) -> (u64, u64) {
        (
            self.xmin.get() | mask_word(self.xmin_mask),
            self.xmax.get() | mask_word(self.xmax_mask),
        )
    }
}

/// Reading a heap page. Offsets that come from a page are checked before they are used.
pub trait HeapRead: PageRead {
    /// Whether the page has been laid out as a heap page.
    fn is_heap(&self) -> bool {
        self.kind() == HEAP_PAGE_KIND
    }

    /// Number of line pointers; 0 for a page that is not laid out.
    fn slots(&self) -> u16 {
        let lower = usize::from(self.lower()).min(PAGE_SIZE);
        (lower.saturating_sub(LINE_POINTERS) / LINE_POINTER_SIZE) as u16
    }

    /// Line pointer `slot` (from 1); `Unused` beyond the last.
    fn line_pointer(&self, slot: u16) -> LinePointer {
        if slot == 0 || slot > self.slots() {
            return LinePointer::UNUSED;
        }
        LinePointer::decode(self.u32_at(slot_offset(slot)))
    }

    /// The offset and length of the tuple at `slot`, when there is one and it lies within the
    /// page's tuple space.
    fn tuple_at(&self, slot: u16) -> Option<(usize, usize)> {
        self.line_pointer(slot).extent()
    }

    /// The header of the tuple at byte `offset` (from `tuple_at`).
    fn header(&self, offset: usize) -> TupleHeader {
        let w0 = self.u64_at(offset);
        let w1 = self.u64_at(offset + 8);
        TupleHeader {
            xmin: Xid::new(w0),
            xmin_mask: (w0 >> 48) as u16,
            xmax: Xid::new(w1),
            xmax_mask: (w1 >> 48) as u16,
            ctid: Tid::new(
                BlockNumber(self.u32_at(offset + 16)),
                self.u16_at(offset + 20),
            ),
            flags: self.u16_at(offset + 22),
            cid: self.u32_at(offset + 24),
        }
    }

    /// The flags of the tuple at `offset`.
    fn flags_of(&self, offset: usize) -> u16 {
        self.u16_at(offset + 22)
    }

    /// Whether the tuple at `offset` was deleted or updated by anybody.
    fn has_xmax(&self, offset: usize) -> bool {
        Xid::new(self.u64_at(offset + 8)).is_some()
    }

    /// The row of the tuple at `offset` with `length` bytes.
    fn row(&self, offset: usize, length: usize) -> &[u8] {
        self.slice(offset + TUPLE_HEADER..offset + length)
    }

    /// The id of a transaction whose end may make tuples of this page removable, or none.
    fn prune_xid(&self) -> Xid {
        if self.is_heap() {
            Xid::new(self.u64_at(HEAP_WORD))
        } else {
            Xid::NONE
        }
    }

    /// The heap word's page bits.
    fn heap_bits(&self) -> u16 {
        (self.u64_at(HEAP_WORD) >> 48) as u16
    }

    /// Whether every tuple is visible to every snapshot.
    fn all_visible(&self) -> bool {
        self.is_heap() && self.heap_bits() & PAGE_ALL_VISIBLE != 0
    }

    /// Contiguous free bytes between line pointers and tuples; a page that is not laid out yet
    /// has all of them.
    fn gap(&self) -> usize {
        if !self.is_heap() {
            return PAGE_CAPACITY;
        }
        usize::from(self.upper()).saturating_sub(usize::from(self.lower()))
    }

    /// The slot the next tuple would take: the first unused one, or one more.
    fn next_slot(&self) -> u16 {
        let slots = self.slots();
        if slots == 0 || !self.has_unused() {
            return slots + 1;
        }
        (1..=slots)
            .find(|&slot| self.line_pointer(slot).state == LpState::Unused)
            .unwrap_or(slots + 1)
    }

    /// Whether some line pointer below the last may be unused (kept in the page's `spare`).
    fn has_unused(&self) -> bool {
        self.u16_at(SPARE) != 0
    }

    /// Whether a row of `row_len` bytes fits without pruning.
    fn fits(&self, row_len: usize) -> bool {
        let pointer = if self.is_heap() && self.next_slot() <= self.slots() {
            0
        } else {
            LINE_POINTER_SIZE
        };
        self.gap() >= tuple_space(row_len) + pointer
    }
}

/// The page header's spare word: the number of unused line pointers.
pub const SPARE: usize = 22;

impl<P: PageRead + ?Sized> HeapRead for P {}

/// The byte offset of line pointer `slot` (from 1).
pub const fn slot_offset(slot: u16) -> usize {
    LINE_POINTERS + (slot as usize - 1) * LINE_POINTER_SIZE
}

/// Lays out an empty heap page.
pub fn init(page: &mut PageMut<'_>) {
    page.init(HEAP_PAGE_KIND, 0);
    page.set_lower(LINE_POINTERS as u16);
    page.put_u64(HEAP_WORD, 0);
}

/// Writes line pointer `slot`.
pub fn put_line_pointer(page: &mut PageMut<'_>, slot: u16, lp: LinePointer) {
    page.put_u32(slot_offset(slot), lp.encode());
}

/// Writes a tuple header at `offset`.
pub fn put_header(page: &mut PageMut<'_>, offset: usize, header: &TupleHeader) {
    let (w0, w1) = header.words();
    page.put_u64(offset, w0);
    page.put_u64(offset + 8, w1);
    page.put_u32(offset + 16, header.ctid.block.0);
    page.put_u16(offset + 20, header.ctid.slot);
    page.put_u16(offset + 22, header.flags);
    page.put_u32(offset + 24, header.cid);
}

/// Notes that the end of `xid` may make tuples removable; the oldest such id is kept.
pub fn note_prunable(page: &mut PageMut<'_>, xid: Xid) {
    let word = page.u64_at(HEAP_WORD);
    let old = Xid::new(word);
    if !old.is_some() || xid < old {
        page.put_u64(HEAP_WORD, word & mask_word(u16::MAX) | xid.get());
    }
}

/// Sets the prune xid.
pub fn set_prune_xid(page: &mut PageMut<'_>, xid: Xid) {
    let word = page.u64_at(HEAP_WORD);
    page.put_u64(HEAP_WORD, word & mask_word(u16::MAX) | xid.get());
}

/// Sets or clears page bits.
pub fn set_heap_bits(page: &mut PageMut<'_>, set: u16, clear: u16) {
    let word = page.u64_at(HEAP_WORD);
    page.put_u64(HEAP_WORD, word & !mask_word(clear) | mask_word(set));
}

/// Clears what is not logged, hint bits and whatever lies in the free space: two pages that are
/// the same to the log are the same bytes then.
pub fn mask_unlogged(page: &mut PageMut<'_>) {
    for slot in 1..=page.slots() {
        if let Some((offset, _)) = page.tuple_at(slot) {
            let (w0, w1) = (page.u64_at(offset), page.u64_at(offset + 8));
            page.put_u64(offset, w0 & !mask_word(XMIN_COMMITTED | XMIN_ABORTED));
            page.put_u64(offset + 8, w1 & !mask_word(XMAX_COMMITTED | XMAX_ABORTED));
        }
    }
    let hole = usize::from(page.lower())..usize::from(page.upper()).min(PAGE_SIZE);
    if let Some(hole) = page.bytes_mut().get_mut(hole) {
        hole.fill(0);
    }
}
