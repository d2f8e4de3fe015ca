//! The changes a tree makes to its pages: how each is written into a part, and how a part is
//! applied. The way forward and recovery both go through [`apply`]; nothing else changes a page.

use evenkeel_storage::page::{PageMut, PageRead};
use evenkeel_storage::wal::record::FieldReader;
use evenkeel_storage::{ApplyContext, ApplyError, BlockNumber};

use super::page::{self, Entry, Fault, Meta, Node, NodeHeader, Pivot, TupleBuf, flag};

/// Numbers of the operations.
pub mod op {
    /// Sets the root; lays the page out when it starts from zeroes.
    pub const META: u16 = 0x0301;
    /// A whole page: header and tuples.
    pub const NODE: u16 = 0x0302;
    /// One more tuple.
    pub const INSERT: u16 = 0x0303;
    /// The left half of a split: what stays, a new high key, a new right sibling.
    pub const SPLIT_LEFT: u16 = 0x0304;
    /// A new left sibling.
    pub const SET_LEFT: u16 = 0x0305;
    /// A new right sibling.
    pub const SET_RIGHT: u16 = 0x0306;
    /// Flags no longer set.
    pub const CLEAR_FLAGS: u16 = 0x0307;
    /// Some tuples less.
    pub const DELETE_ITEMS: u16 = 0x0308;
    /// A downlink less; its key range goes to the next one.
    pub const REMOVE_DOWNLINK: u16 = 0x0309;
    /// The page has no downlink any more.
    pub const HALF_DEAD: u16 = 0x030A;
    /// The page is not linked to any more.
    pub const UNLINK: u16 = 0x030B;
}

/// Applies one part.
///
/// # Errors
/// When the data is malformed or does not fit the page; the page may then be half changed.
pub fn apply(
    op: u16,
    page: &mut PageMut<'_>,
    data: &[u8],
    cx: &ApplyContext,
) -> Result<(), ApplyError> {
    let sound =
        cfg!(debug_assertions) && (matches!(op, op::NODE | op::META) || check_layout(page).is_ok());
    let applied = apply_part(op, page, data);
    debug_assert!(
        applied.is_err() || !sound || check_layout(page).is_ok(),
        "tree operation {op:#06x} spoiled block {}: {:?}",
        cx.page_id.block,
        check_layout(page)
    );
    applied
}

/// Verifies the structure of a page, which redo keeps whatever a part says: every tuple can be
/// read, and none overlap.
fn check_layout(page: &PageMut<'_>) -> Result<(), ApplyError> {
    if page.kind() == page::META_PAGE_KIND {
        Meta::read(page)?;
        return Ok(());
    }
    check_node(page)?;
    Node::of(page)?.check_spans()?;
    Ok(())
}

pub(super) fn apply_part(op: u16, page: &mut PageMut<'_>, data: &[u8]) -> Result<(), ApplyError> {
    match op {
        op::META => apply_meta(page, data),
        op::NODE => apply_node(page, data),
        op::INSERT => apply_insert(page, data),
        op::SPLIT_LEFT => apply_split_left(page, data),
        op::SET_LEFT => change_header(page, data, |header, data| {
            header.left = BlockNumber(data.u32()?);
            Ok(())
        }),
        op::SET_RIGHT => change_header(page, data, |header, data| {
            if header.is_rightmost() {
                return Err(Fault("page without a high key given a right sibling").into());
            }
            header.right = sibling(data.u32()?)?;
            Ok(())
        }),
        op::CLEAR_FLAGS => change_header(page, data, |header, data| {
            header.flags &= !data.u16()?;
            Ok(())
        }),
        op::DELETE_ITEMS => apply_delete_items(page, data),
        op::REMOVE_DOWNLINK => apply_remove_downlink(page, data),
        op::HALF_DEAD => change_header(page, data, |header, data| {
            if header.level != 0 || header.is(flag::ROOT | flag::INCOMPLETE_SPLIT) {
                return Err(Fault("page cannot become half-dead").into());
            }
            header.flags |= flag::HALF_DEAD;
            header.extra = u64::from(data.u32()?);
            Ok(())
        }),
        op::UNLINK => change_header(page, data, |header, data| {
            header.flags = header.flags & !flag::HALF_DEAD | flag::DELETED;
            header.extra = data.u64()?;
            Ok(())
        }),
        _ => Err(ApplyError(format!("unknown tree operation {op:#06x}"))),
    }
}

fn sibling(block: u32) -> Result<BlockNumber, ApplyError> {
    if block == 0 {
        Err(Fault("sibling is the meta page").into())
    } else {
        Ok(BlockNumber(block))
    }
}

fn finished(data: &FieldReader<'_>) -> Result<(), ApplyError> {
    if data.rest().is_empty() {
        Ok(())
    } else {
        Err(Fault("bytes left over").into())
    }
}

fn change_header(
    page: &mut PageMut<'_>,
    data: &[u8],
    change: impl FnOnce(&mut NodeHeader, &mut FieldReader<'_>) -> Result<(), ApplyError>,
) -> Result<(), ApplyError> {
    let mut header = Node::of(&*page)?.header;
    let mut data = FieldReader::new(data);
    change(&mut header, &mut data)?;
    finished(&data)?;
    page::put_header(page, &header);
    Ok(())
}

/// Data of [`op::META`].
pub(super) fn encode_meta(meta: Meta) -> [u8; 6] {
    let (root, level) = (meta.root.0.to_le_bytes(), meta.level.to_le_bytes());
    [root[0], root[1], root[2], root[3], level[0], level[1]]
}

fn apply_meta(page: &mut PageMut<'_>, data: &[u8]) -> Result<(), ApplyError> {
    let mut data = FieldReader::new(data);
    let meta = Meta {
        root: sibling(data.u32()?)?,
        level: data.u16()?,
    };
    finished(&data)?;
    if !page.is_new() {
        Meta::read(&*page)?;
    }
    meta.write(page);
    Ok(())
}

/// Data of [`op::NODE`].
pub(super) struct NodeContent {
    data: Vec<u8>,
    tuples: u16,
}

const NODE_COUNT_AT: usize = 20;

impl NodeContent {
    /// A page without tuples.
    pub fn new(header: &NodeHeader) -> NodeContent {
        let mut data = Vec::with_capacity(512);
        data.extend_from_slice(&header.left.0.to_le_bytes());
        data.extend_from_slice(&header.right.0.to_le_bytes());
        data.extend_from_slice(&header.level.to_le_bytes());
        data.extend_from_slice(&header.flags.to_le_bytes());
        data.extend_from_slice(&header.extra.to_le_bytes());
        data.extend_from_slice(&0u16.to_le_bytes());
        NodeContent { data, tuples: 0 }
    }

    /// Adds a tuple behind the others.
    pub fn push(&mut self, tuple: &[u8]) {
        self.data
            .extend_from_slice(&(tuple.len() as u16).to_le_bytes());
        self.data.extend_from_slice(tuple);
        self.tuples += 1;
        self.data[NODE_COUNT_AT..NODE_COUNT_AT + 2].copy_from_slice(&self.tuples.to_le_bytes());
    }

    /// Adds tuples behind the others, of which there are `count`, each with its length before it.
    pub fn push_all(&mut self, tuples: &[u8], count: usize) {
        self.data.extend_from_slice(tuples);
        self.tuples += count as u16;
        self.data[NODE_COUNT_AT..NODE_COUNT_AT + 2].copy_from_slice(&self.tuples.to_le_bytes());
    }

    /// Adds a pivot behind the others.
    pub fn push_pivot(&mut self, pivot: &Pivot<'_>) {
        let mut tuple = TupleBuf::new();
        pivot.encode(&mut tuple);
        self.push(&tuple);
    }

    /// The data of the part.
    pub fn data(&self) -> &[u8] {
        &self.data
    }
}

fn apply_node(page: &mut PageMut<'_>, data: &[u8]) -> Result<(), ApplyError> {
    let mut data = FieldReader::new(data);
    let header = NodeHeader {
        left: BlockNumber(data.u32()?),
        right: BlockNumber(data.u32()?),
        level: data.u16()?,
        flags: data.u16()?,
        extra: data.u64()?,
    };
    if header.flags & !flag::KNOWN != 0 {
        return Err(Fault("unknown page flags").into());
    }
    let lsn = page.lsn();
    page::init_node(page, &header);
    page.set_lsn(lsn);
    for _ in 0..data.u16()? {
        let len = usize::from(data.u16()?);
        page::push_tuple(page, data.take(len)?)?;
    }
    finished(&data)?;
    check_node(page)
}

/// Verifies that every tuple of a page just put together can be read.
pub(crate) fn check_node(page: &PageMut<'_>) -> Result<(), ApplyError> {
    let node = Node::of(page)?;
    node.high_key()?;
    for slot in node.first()..node.end() {
        if node.is_leaf() {
            node.entry(slot)?;
        } else {
            node.pivot(slot)?;
        }
    }
    Ok(())
}

/// Data of [`op::INSERT`]: a tuple with the slot it goes to in front.
pub(super) struct InsertData {
    data: TupleBuf,
}

impl InsertData {
    /// Of an entry.
    pub fn entry(entry: &Entry<'_>) -> InsertData {
        let mut data = TupleBuf::from_slice(&[0, 0]);
        entry.encode(&mut data);
        InsertData { data }
    }

    /// Of a downlink.
    pub fn pivot(pivot: &Pivot<'_>) -> InsertData {
        let mut data = TupleBuf::from_slice(&[0, 0]);
        pivot.encode(&mut data);
        InsertData { data }
    }

    /// The tuple.
    pub fn tuple(&self) -> &[u8] {
        &self.data[2..]
    }

    /// The data of the part that puts the tuple at `slot`.
    pub fn at(&mut self, slot: u16) -> &[u8] {
        self.data[..2].copy_from_slice(&slot.to_le_bytes());
        &self.data
    }
}

fn apply_insert(page: &mut PageMut<'_>, data: &[u8]) -> Result<(), ApplyError> {
    let mut data = FieldReader::new(data);
    let slot = data.u16()?;
    let node = Node::of(&*page)?;
    // The first downlink of an inner page is minus infinity: nothing goes before it.
    let first = node.first() + u16::from(!node.is_leaf());
    if slot < first || slot > node.end() {
        return Err(ApplyError(format!(
            "insert at slot {slot} of {}",
            node.end()
        )));
    }
    let leaf = node.is_leaf();
    page::put_tuple(page, slot, data.rest())?;
    if !leaf {
        Node::of(&*page)?.pivot(slot)?;
    }
    Ok(())
}

/// Data of [`op::SPLIT_LEFT`]. Slots are those before the split.
pub(super) struct SplitLeft<'a> {
    /// The first slot that goes to the right half.
    pub first_right: u16,
    /// The tuple whose insertion made the split necessary and the slot it comes before, if it
    /// goes to the left half.
    pub inserted: Option<(u16, &'a [u8])>,
    /// The new right sibling.
    pub right: BlockNumber,
    /// The page's `extra` from now on.
    pub extra: u64,
    /// The new high key, a pivot tuple.
    pub high_key: &'a [u8],
}

const NO_SLOT: u16 = u16::MAX;

impl<'a> SplitLeft<'a> {
    /// The data of the part.
    pub fn encode(&self) -> Vec<u8> {
        let (slot, tuple) = self.inserted.unwrap_or((NO_SLOT, &[]));
        let mut out = Vec::with_capacity(24 + tuple.len() + self.high_key.len());
        out.extend_from_slice(&self.first_right.to_le_bytes());
        out.extend_from_slice(&self.right.0.to_le_bytes());
        out.extend_from_slice(&self.extra.to_le_bytes());
        out.extend_from_slice(&slot.to_le_bytes());
        out.extend_from_slice(&(tuple.len() as u16).to_le_bytes());
        out.extend_from_slice(tuple);
        out.extend_from_slice(self.high_key);
        out
    }

    fn decode(data: &'a [u8]) -> Result<SplitLeft<'a>, ApplyError> {
        let mut data = FieldReader::new(data);
        let first_right = data.u16()?;
        let right = sibling(data.u32()?)?;
        let extra = data.u64()?;
        let slot = data.u16()?;
        let len = usize::from(data.u16()?);
        let tuple = data.take(len)?;
        let inserted = (slot != NO_SLOT).then_some((slot, tuple));
        Ok(SplitLeft {
            first_right,
            inserted,
            right,
            extra,
            high_key: data.rest(),
        })
    }
}

fn apply_split_left(page: &mut PageMut<'_>, data: &[u8]) -> Result<(), ApplyError> {
    let split = SplitLeft::decode(data)?;
    let mut old = *page.bytes();
    let old = PageMut::new(&mut old);
    let node = Node::of(&old)?;
    let stays = node.first()..split.first_right;
    if stays.start > stays.end || stays.end > node.end() {
        return Err(Fault("split point out of range").into());
    }
    let slot = split.inserted.map_or(stays.start, |(slot, _)| slot);
    if slot < stays.start || slot > stays.end {
        return Err(Fault("inserted slot out of range").into());
    }
    let flags = node.header.flags | flag::INCOMPLETE_SPLIT;
    let header = NodeHeader {
        right: split.right,
        flags,
        extra: split.extra,
        ..node.header
    };
    rebuild(page, &old, &header);
    page::push_tuple(page, split.high_key)?;
    for at in stays.clone() {
        if let Some((slot, tuple)) = split.inserted
            && slot == at
        {
            page::push_tuple(page, tuple)?;
        }
        page::push_tuple(page, node.tuple(at)?)?;
    }
    if let Some((slot, tuple)) = split.inserted
        && slot == stays.end
    {
        page::push_tuple(page, tuple)?;
    }
    check_node(page)
}

/// Empties the page, keeping its LSN.
fn rebuild(page: &mut PageMut<'_>, old: &PageMut<'_>, header: &NodeHeader) {
    page::init_node(page, header);
    page.set_lsn(old.lsn());
}

/// Data of [`op::DELETE_ITEMS`]: the slots, ascending.
pub(super) fn encode_slots(slots: &[u16]) -> Vec<u8> {
    slots.iter().flat_map(|slot| slot.to_le_bytes()).collect()
}

fn apply_delete_items(page: &mut PageMut<'_>, data: &[u8]) -> Result<(), ApplyError> {
    let mut old = *page.bytes();
    let old = PageMut::new(&mut old);
    let node = Node::of(&old)?;
    if !node.is_leaf() {
        return Err(Fault("entries deleted from an inner page").into());
    }
    let mut data = FieldReader::new(data);
    rebuild(page, &old, &node.header);
    let mut kept_from = 0;
    while !data.rest().is_empty() {
        let slot = data.u16()?;
        if slot < kept_from.max(node.first()) || slot >= node.end() {
            return Err(Fault("deleted slots out of order").into());
        }
        for kept in kept_from..slot {
            page::push_tuple(page, node.tuple(kept)?)?;
        }
        kept_from = slot + 1;
    }
    for kept in kept_from..node.end() {
        page::push_tuple(page, node.tuple(kept)?)?;
    }
    Ok(())
}

/// Data of [`op::REMOVE_DOWNLINK`].
pub(super) struct RemoveDownlink {
    /// Slot of the downlink to `child`.
    pub slot: u16,
    /// The page that loses its downlink.
    pub child: BlockNumber,
    /// Its right sibling, which the next downlink leads to.
    pub next: BlockNumber,
}

impl RemoveDownlink {
    /// The data of the part.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(10);
        out.extend_from_slice(&self.slot.to_le_bytes());
        out.extend_from_slice(&self.child.0.to_le_bytes());
        out.extend_from_slice(&self.next.0.to_le_bytes());
        out
    }
}

/// The separator of the removed child stays and leads to the next page, whose own goes.
fn apply_remove_downlink(page: &mut PageMut<'_>, data: &[u8]) -> Result<(), ApplyError> {
    let mut data = FieldReader::new(data);
    let slot = data.u16()?;
    let (child, next) = (BlockNumber(data.u32()?), BlockNumber(data.u32()?));
    finished(&data)?;
    let mut old = *page.bytes();
    let old = PageMut::new(&mut old);
    let node = Node::of(&old)?;
    let inside = !node.is_leaf() && slot >= node.first() && slot < node.end();
    if !inside || node.pivot(slot)?.child != child || node.pivot(slot + 1)?.child != next {
        return Err(Fault("downlink to be removed not found").into());
    }
    rebuild(page, &old, &node.header);
    for at in (0..node.end()).filter(|&at| at != slot + 1) {
        page::push_tuple(page, node.tuple(at)?)?;
        if at == slot {
            // The child is the tuple's first field, and the tuple the one pushed last.
            let tuple_at = usize::from(page.upper());
            page.put_u32(tuple_at, next.0);
        }
    }
    check_node(page)
}
