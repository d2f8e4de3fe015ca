//! The bytes of a tree's pages.
//!
//! ```text
//!    0  page header (storage)                          24 bytes
//!   24  line pointers, 4 bytes each, in key order, up to `lower`
//!       free space
//!       tuples, growing down from the special area to `upper`
//! 8168  special: left u32 | right u32 | level u16 | flags u16 | 4 unused | extra u64
//! ```
//! A line pointer is offset (16 bits) | length (15) | dead (1, a hint). A leaf tuple is tid
//! (block u32, slot u16) and key. A pivot tuple is child u32, info u16, key, and the tid when
//! info says so; a pivot without a tid sorts before every entry with its key. Slot 0 of a page
//! that has a right sibling is its high key, a pivot. The first pivot of an inner page stands
//! for minus infinity whatever it holds.

use std::ops::Range;

use evenkeel_storage::page::{PAGE_HEADER_SIZE, PAGE_SIZE, PageMut, PageRead};
use evenkeel_storage::{ApplyError, BlockNumber};
use smallvec::SmallVec;

use super::key::{Position, TidOrder, separator};
use super::search::narrow;
use crate::types::Tid;

/// Page kind of the meta page, block 0.
pub const META_PAGE_KIND: u16 = 0x0301;
/// Page kind of leaf and inner pages.
pub const NODE_PAGE_KIND: u16 = 0x0302;

/// The meta page; as a sibling or child it means "none".
pub(super) const META_BLOCK: BlockNumber = BlockNumber(0);
/// No sibling.
pub(super) const NO_BLOCK: BlockNumber = BlockNumber(0);

const LINE_POINTER_SIZE: usize = 4;
const SPECIAL_SIZE: usize = 24;
const SPECIAL: usize = PAGE_SIZE - SPECIAL_SIZE;
const LEFT: usize = SPECIAL;
const RIGHT: usize = SPECIAL + 4;
const LEVEL: usize = SPECIAL + 8;
const FLAGS: usize = SPECIAL + 10;
const EXTRA: usize = SPECIAL + 16;

/// A tuple, or a part's data that holds one, being put together.
pub(super) type TupleBuf = SmallVec<[u8; 128]>;

/// Bytes of a tuple before its key.
pub(super) const TUPLE_PREFIX: usize = 6;
const PIVOT_TID: usize = 6;
const PIVOT_HAS_TID: u16 = 1;
const DEAD_BIT: u32 = 1 << 31;

/// Bytes for line pointers and tuples in an empty page.
pub(super) const CAPACITY: usize = SPECIAL - PAGE_HEADER_SIZE;

/// Flags of a page, in its special area.
pub(super) mod flag {
    /// The root.
    pub const ROOT: u16 = 1;
    /// Its right sibling has no downlink yet.
    pub const INCOMPLETE_SPLIT: u16 = 2;
    /// An empty leaf without a downlink, still linked to its siblings. `extra` is the topmost
    /// page of the branch that goes with it.
    pub const HALF_DEAD: u16 = 4;
    /// Unlinked; `extra` is the stamp that says when it may be used again.
    pub const DELETED: u16 = 8;
    /// Every flag there is.
    pub const KNOWN: u16 = 15;
}

/// A defect found in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault(pub &'static str);

impl From<Fault> for ApplyError {
    fn from(fault: Fault) -> ApplyError {
        ApplyError(fault.0.to_owned())
    }
}

/// A separator: everything left of it is less, everything right of it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pivot<'p> {
    /// The page it leads to; meaningless in a high key.
    pub child: BlockNumber,
    /// Its key, which may be cut off behind the first byte that matters.
    pub key: &'p [u8],
    /// Its tid, or [`TidOrder::LEAST`].
    pub tid: TidOrder,
}

impl<'p> Pivot<'p> {
    /// Reads a pivot tuple.
    pub fn decode(tuple: &'p [u8]) -> Result<Pivot<'p>, Fault> {
        const SHORT: Fault = Fault("pivot tuple too short");
        let (child, rest) = tuple.split_first_chunk::<4>().ok_or(SHORT)?;
        let (info, rest) = rest.split_first_chunk::<2>().ok_or(SHORT)?;
        let child = BlockNumber(u32::from_le_bytes(*child));
        match u16::from_le_bytes(*info) {
            0 => Ok(Pivot {
                child,
                key: rest,
                tid: TidOrder::LEAST,
            }),
            PIVOT_HAS_TID => {
                let (key, tid) = rest.split_last_chunk::<PIVOT_TID>().ok_or(SHORT)?;
                Ok(Pivot {
                    child,
                    key,
                    tid: decode_tid(*tid),
                })
            }
            _ => Err(Fault("pivot tuple of an unknown form")),
        }
    }

    /// Appends the pivot as a tuple.
    pub fn encode(&self, out: &mut TupleBuf) {
        out.extend_from_slice(&self.child.0.to_le_bytes());
        if self.tid == TidOrder::LEAST {
            out.extend_from_slice(&0u16.to_le_bytes());
            out.extend_from_slice(self.key);
        } else {
            out.extend_from_slice(&PIVOT_HAS_TID.to_le_bytes());
            out.extend_from_slice(self.key);
            out.extend_from_slice(&encode_tid(self.tid));
        }
    }

    /// Bytes of the tuple.
    pub fn tuple_len(&self) -> usize {
        let tid = if self.tid == TidOrder::LEAST {
            0
        } else {
            PIVOT_TID
        };
        TUPLE_PREFIX + self.key.len() + tid
    }

    /// The place of the separator among the entries.
    pub fn position(&self) -> Position<'p> {
        Position::new(self.key, self.tid)
    }

    /// The pivot of the same place that leads to `child`.
    pub fn leading_to(&self, child: BlockNumber) -> Pivot<'p> {
        Pivot { child, ..*self }
    }

    /// The shortest separator of two leaf tuples that are neighbours.
    pub fn between(left: &[u8], right: &'p [u8]) -> Result<Pivot<'p>, Fault> {
        let (left, right) = (Entry::decode(left)?, Entry::decode(right)?);
        Ok(match separator(left.key, right.key) {
            Some(key) => Pivot {
                child: NO_BLOCK,
                key,
                tid: TidOrder::LEAST,
            },
            None => Pivot {
                child: NO_BLOCK,
                key: right.key,
                tid: right.tid,
            },
        })
    }

    /// The first pivot of an inner page: minus infinity.
    pub fn least(child: BlockNumber) -> Pivot<'static> {
        Pivot {
            child,
            key: &[],
            tid: TidOrder::LEAST,
        }
    }
}

fn decode_tid(raw: [u8; 6]) -> TidOrder {
    let block = u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]);
    let slot = u16::from_le_bytes([raw[4], raw[5]]);
    TidOrder::of(Tid::new(BlockNumber(block), slot))
}

fn encode_tid(tid: TidOrder) -> [u8; 6] {
    let tid = tid.tid();
    let (block, slot) = (tid.block.0.to_le_bytes(), tid.slot.to_le_bytes());
    [block[0], block[1], block[2], block[3], slot[0], slot[1]]
}

/// An entry of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry<'p> {
    /// The key, whole.
    pub key: &'p [u8],
    /// The row version it leads to.
    pub tid: TidOrder,
}

impl<'p> Entry<'p> {
    #[inline]
    fn decode(tuple: &'p [u8]) -> Result<Entry<'p>, Fault> {
        let (tid, key) = tuple
            .split_first_chunk::<TUPLE_PREFIX>()
            .ok_or(Fault("leaf tuple too short"))?;
        Ok(Entry {
            key,
            tid: decode_tid(*tid),
        })
    }

    /// Appends the entry as a tuple.
    pub fn encode(&self, out: &mut TupleBuf) {
        out.extend_from_slice(&encode_tid(self.tid));
        out.extend_from_slice(self.key);
    }

    /// Its place.
    pub fn position(&self) -> Position<'p> {
        Position::new(self.key, self.tid)
    }
}

/// The content of a page's special area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeHeader {
    /// Left sibling.
    pub left: BlockNumber,
    /// Right sibling.
    pub right: BlockNumber,
    /// Height above the leaves.
    pub level: u16,
    /// [`flag`]s.
    pub flags: u16,
    /// The vacuum during which the page was last split; or what the flags say.
    pub extra: u64,
}

impl NodeHeader {
    /// Whether searches pass the page by, to the right.
    pub fn is_ignored(&self) -> bool {
        self.flags & (flag::HALF_DEAD | flag::DELETED) != 0
    }

    /// Whether this flag is set.
    pub fn is(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Whether there is no right sibling.
    pub fn is_rightmost(&self) -> bool {
        self.right == NO_BLOCK
    }
}

/// A leaf or inner page, its header checked.
pub(super) struct Node<'p, P: PageRead + ?Sized> {
    page: &'p P,
    slots: u16,
    tuples_from: usize,
    /// The special area.
    pub header: NodeHeader,
}

impl<'p, P: PageRead + ?Sized> Node<'p, P> {
    /// Reads the page's header.
    #[inline]
    pub fn of(page: &'p P) -> Result<Node<'p, P>, Fault> {
        if page.kind() != NODE_PAGE_KIND {
            return Err(Fault("not a page of a tree"));
        }
        let (lower, upper) = (usize::from(page.lower()), usize::from(page.upper()));
        let ordered = PAGE_HEADER_SIZE <= lower && lower <= upper && upper <= SPECIAL;
        if !ordered || usize::from(page.special()) != SPECIAL {
            return Err(Fault("page header out of range"));
        }
        let header = NodeHeader {
            left: BlockNumber(page.u32_at(LEFT)),
            right: BlockNumber(page.u32_at(RIGHT)),
            level: page.u16_at(LEVEL),
            flags: page.u16_at(FLAGS),
            extra: page.u64_at(EXTRA),
        };
        let slots = ((lower - PAGE_HEADER_SIZE) / LINE_POINTER_SIZE) as u16;
        if slots < header_slots(&header) {
            return Err(Fault("high key missing"));
        }
        Ok(Node {
            page,
            slots,
            tuples_from: upper,
            header,
        })
    }

    /// Whether it is a leaf.
    #[inline]
    pub fn is_leaf(&self) -> bool {
        self.header.level == 0
    }

    /// The first slot of an entry or downlink.
    #[inline]
    pub fn first(&self) -> u16 {
        header_slots(&self.header)
    }

    /// One behind the last slot.
    #[inline]
    pub fn end(&self) -> u16 {
        self.slots
    }

    /// Number of entries or downlinks.
    pub fn len(&self) -> usize {
        usize::from(self.slots - self.first())
    }

    /// Whether a tuple of this length fits.
    #[inline]
    pub fn fits(&self, tuple_len: usize) -> bool {
        let slots = usize::from(self.slots) + 1;
        word_end(PAGE_HEADER_SIZE + slots * LINE_POINTER_SIZE) + tuple_len <= self.tuples_from
    }

    #[inline]
    fn line_pointer(&self, slot: u16) -> u32 {
        // In the words of eight bytes that hints are set in: accesses to one place that may meet
        // must be of one size.
        let offset = line_pointer_offset(slot);
        let word = offset & !7;
        (self.page.u64_at(word) >> (8 * (offset - word))) as u32
    }

    /// The bytes of the tuple at `slot`.
    #[inline]
    pub fn tuple(&self, slot: u16) -> Result<&'p [u8], Fault> {
        if slot >= self.slots {
            return Err(Fault("slot beyond the last"));
        }
        let range = tuple_range(self.line_pointer(slot));
        if range.start < self.tuples_from || range.end > SPECIAL {
            return Err(Fault("line pointer out of range"));
        }
        Ok(self.page.slice(range))
    }

    /// Verifies that no two tuples overlap.
    pub fn check_spans(&self) -> Result<(), Fault> {
        let mut spans: Vec<Range<usize>> = (0..self.slots)
            .map(|slot| tuple_range(self.line_pointer(slot)))
            .collect();
        spans.sort_unstable_by_key(|span| span.start);
        if spans.windows(2).any(|pair| pair[0].end > pair[1].start) {
            return Err(Fault("tuples overlap"));
        }
        Ok(())
    }

    /// The entry at `slot` of a leaf.
    #[inline]
    pub fn entry(&self, slot: u16) -> Result<Entry<'p>, Fault> {
        Entry::decode(self.tuple(slot)?)
    }

    /// The downlink at `slot` of an inner page.
    #[inline]
    pub fn pivot(&self, slot: u16) -> Result<Pivot<'p>, Fault> {
        Pivot::decode(self.tuple(slot)?)
    }

    /// Whether the entry at `slot` is known to lead to nothing any snapshot can see.
    #[inline]
    pub fn is_dead(&self, slot: u16) -> bool {
        slot < self.slots && self.line_pointer(slot) & DEAD_BIT != 0
    }

    /// The upper bound of the page's entries, if it has a right sibling.
    #[inline]
    pub fn high_key(&self) -> Result<Option<Pivot<'p>>, Fault> {
        if self.header.is_rightmost() {
            Ok(None)
        } else {
            self.pivot(0).map(Some)
        }
    }

    /// Whether `position` lies on a page further right.
    #[inline]
    pub fn is_beyond(&self, position: &Position<'_>) -> Result<bool, Fault> {
        if self.header.is_ignored() {
            return Ok(true);
        }
        Ok(match self.high_key()? {
            Some(high) => position.compare(high.key, high.tid).is_ge(),
            None => false,
        })
    }

    /// The first slot of a leaf whose entry is not less than `position`.
    #[inline]
    pub fn lower_bound(&self, position: &Position<'_>) -> Result<u16, Fault> {
        let range = narrow(position, self.first()..self.slots, |slot| {
            self.entry(slot).map(|entry| entry.key)
        })?;
        let (mut low, mut high) = (range.start, range.end);
        while low < high {
            let middle = low + (high - low) / 2;
            let entry = self.entry(middle)?;
            if position.compare(entry.key, entry.tid).is_gt() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// The slot of the downlink whose page covers `position`: the last that is not greater.
    #[inline]
    pub fn downlink_for(&self, position: &Position<'_>) -> Result<u16, Fault> {
        if self.slots <= self.first() {
            return Err(Fault("inner page without downlinks"));
        }
        let range = narrow(position, self.first() + 1..self.slots, |slot| {
            self.pivot(slot).map(|pivot| pivot.key)
        })?;
        let (mut low, mut high) = (range.start, range.end);
        while low < high {
            let middle = low + (high - low) / 2;
            let pivot = self.pivot(middle)?;
            if position.compare(pivot.key, pivot.tid).is_ge() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low - 1)
    }

    /// The slot of the downlink to `child`.
    pub fn downlink_to(&self, child: BlockNumber) -> Result<Option<u16>, Fault> {
        for slot in self.first()..self.slots {
            if self.pivot(slot)?.child == child {
                return Ok(Some(slot));
            }
        }
        Ok(None)
    }
}

fn header_slots(header: &NodeHeader) -> u16 {
    u16::from(!header.is_rightmost())
}

#[inline]
fn line_pointer_offset(slot: u16) -> usize {
    PAGE_HEADER_SIZE + usize::from(slot) * LINE_POINTER_SIZE
}

#[inline]
fn tuple_range(line_pointer: u32) -> Range<usize> {
    let start = (line_pointer & 0xffff) as usize;
    start..start + (line_pointer >> 16 & 0x7fff) as usize
}

/// Hints change line pointers in words of eight bytes, so no tuple shares a word with them.
#[inline]
const fn word_end(offset: usize) -> usize {
    (offset + 7) & !7
}

/// Where the hint that marks `slot` dead goes: offset of the word and bits to set.
pub(super) fn dead_hint(slot: u16) -> (usize, u64) {
    let offset = line_pointer_offset(slot);
    let word = offset & !7;
    (word, u64::from(DEAD_BIT) << (8 * (offset - word)))
}

/// Clears the hints of a page, for comparing it with another copy.
pub fn mask_hints(page: &mut PageMut<'_>) {
    let Ok(slots) = Node::of(&*page).map(|node| node.end()) else {
        return;
    };
    for slot in 0..slots {
        let offset = line_pointer_offset(slot);
        let value = page.u32_at(offset) & !DEAD_BIT;
        page.put_u32(offset, value);
    }
}

/// Lays out an empty page.
pub(super) fn init_node(page: &mut PageMut<'_>, header: &NodeHeader) {
    page.init(NODE_PAGE_KIND, SPECIAL_SIZE);
    put_header(page, header);
}

/// Writes the special area.
pub(super) fn put_header(page: &mut PageMut<'_>, header: &NodeHeader) {
    page.put_u32(LEFT, header.left.0);
    page.put_u32(RIGHT, header.right.0);
    page.put_u16(LEVEL, header.level);
    page.put_u16(FLAGS, header.flags);
    page.put_u64(EXTRA, header.extra);
}

/// Puts `tuple` at `slot`, moving later slots up. The page's header has been checked by
/// [`Node::of`] and `slot` is at most its `end`.
pub(super) fn put_tuple(page: &mut PageMut<'_>, slot: u16, tuple: &[u8]) -> Result<(), Fault> {
    let (lower, upper) = (usize::from(page.lower()), usize::from(page.upper()));
    let at = line_pointer_offset(slot);
    if at > lower || word_end(lower + LINE_POINTER_SIZE) + tuple.len() > upper {
        return Err(Fault("tuple does not fit"));
    }
    if tuple.len() < TUPLE_PREFIX {
        return Err(Fault("tuple too short"));
    }
    let start = upper - tuple.len();
    page.put_bytes(start, tuple);
    page.bytes_mut()
        .copy_within(at..lower, at + LINE_POINTER_SIZE);
    page.put_u32(at, start as u32 | (tuple.len() as u32) << 16);
    page.set_lower((lower + LINE_POINTER_SIZE) as u16);
    page.set_upper(start as u16);
    Ok(())
}

/// Appends `tuple` behind the last slot.
pub(super) fn push_tuple(page: &mut PageMut<'_>, tuple: &[u8]) -> Result<(), Fault> {
    let slots = usize::from(page.lower()).saturating_sub(PAGE_HEADER_SIZE) / LINE_POINTER_SIZE;
    put_tuple(page, slots as u16, tuple)
}

/// Bytes a tuple takes, its line pointer included.
pub(super) const fn footprint(tuple_len: usize) -> usize {
    tuple_len + LINE_POINTER_SIZE
}

/// Whether tuples with these footprints in all fit into an empty page.
pub(super) const fn fits_empty(footprint: usize) -> bool {
    footprint + LINE_POINTER_SIZE <= CAPACITY
}

/// The meta page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meta {
    /// The root's block.
    pub root: BlockNumber,
    /// The root's level.
    pub level: u16,
}

const META_MAGIC: u32 = 0x6574_6b65;
const META_VERSION: u32 = 1;

impl Meta {
    /// Reads a meta page.
    pub fn read(page: &(impl PageRead + ?Sized)) -> Result<Meta, Fault> {
        if page.kind() != META_PAGE_KIND || page.u32_at(24) != META_MAGIC {
            return Err(Fault("not the meta page of a tree"));
        }
        if page.u32_at(28) != META_VERSION {
            return Err(Fault("tree of an unknown version"));
        }
        let (root, level) = (page.u32_at(32), page.u32_at(36));
        if root == 0 || level > u32::from(u16::MAX) {
            return Err(Fault("meta page out of range"));
        }
        Ok(Meta {
            root: BlockNumber(root),
            level: level as u16,
        })
    }

    /// Writes the meta page, laying it out.
    pub fn write(self, page: &mut PageMut<'_>) {
        if page.kind() != META_PAGE_KIND {
            page.init(META_PAGE_KIND, 0);
        }
        page.put_u32(24, META_MAGIC);
        page.put_u32(28, META_VERSION);
        page.put_u32(32, self.root.0);
        page.put_u32(36, u32::from(self.level));
        page.set_lower(40);
    }
}
