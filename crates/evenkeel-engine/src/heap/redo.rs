//! Redo of heap parts: the only code that changes a heap page, going forward and in recovery.
//!
//! Every function here is a function of the page's bytes and the part's data alone (heap rules
//! 1 and 2), and checks both before it changes anything.

use evenkeel_storage::page::{PAGE_SIZE, PageMut, PageRead};
use evenkeel_storage::{ApplyContext, ApplyError};

use super::check::check_bounds;
use super::compact::{compact, spaces};
use super::layout::*;
use super::ops::*;
use crate::types::{Tid, Xid};

impl From<Short> for ApplyError {
    fn from(_: Short) -> Self {
        ApplyError::new("heap part ends too early")
    }
}

/// Applies one heap part to its page.
pub fn apply(
    op: u16,
    page: &mut PageMut<'_>,
    data: &[u8],
    cx: &ApplyContext,
) -> Result<(), ApplyError> {
    let sound = cfg!(debug_assertions) && (page.is_new() || is_bounded(page));
    let applied = apply_part(op, page, data, cx);
    debug_assert!(
        applied.is_err() || !sound || is_bounded(page),
        "heap operation {op:#06x} spoiled block {}: {:?}",
        cx.page_id.block,
        check_bounds(page)
    );
    applied
}

/// Whether a page is one that redo may change (HEAP-15).
fn is_bounded(page: &PageMut<'_>) -> bool {
    page.is_heap() && check_bounds(page).is_ok()
}

fn apply_part(
    op: u16,
    page: &mut PageMut<'_>,
    data: &[u8],
    cx: &ApplyContext,
) -> Result<(), ApplyError> {
    match op {
        OP_INSERT => insert(page, &Insert::decode(data)?, cx),
        OP_MULTI_INSERT => multi_insert(page, data, cx),
        OP_MODIFY => modify(page, &Modify::decode(data)?),
        OP_UPDATE => update(page, &Update::decode(data)?, cx),
        OP_PRUNE => prune(page, &Prune::decode(data)?, cx),
        _ => Err(ApplyError::new(format!("unknown heap operation {op:#06x}"))),
    }
}

fn refuse<T>(what: impl Into<String>) -> Result<T, ApplyError> {
    Err(ApplyError::new(what))
}

/// Lays the page out if the part says so, and verifies that it is a heap page.
fn prepare(page: &mut PageMut<'_>, bits: u16) -> Result<(), ApplyError> {
    if bits & INIT_PAGE != 0 {
        init(page);
    }
    if !page.is_heap() {
        return refuse(format!("page kind {:#06x} is not a heap page", page.kind()));
    }
    let (lower, upper) = (usize::from(page.lower()), usize::from(page.upper()));
    if lower < LINE_POINTERS || lower % LINE_POINTER_SIZE != 0 || lower > upper {
        return refuse(format!("heap page bounds {lower} and {upper}"));
    }
    if upper > PAGE_SIZE || upper % 8 != 0 {
        return refuse(format!("heap page upper bound {upper}"));
    }
    Ok(())
}

/// Applies the page bits that go with a change.
fn note(page: &mut PageMut<'_>, bits: u16, xid: Xid) {
    if bits & (CLEAR_VISIBLE | SET_VISIBLE) != 0 {
        let set = if bits & SET_VISIBLE != 0 {
            PAGE_ALL_VISIBLE
        } else {
            0
        };
        let clear = if bits & CLEAR_VISIBLE != 0 {
            PAGE_ALL_VISIBLE
        } else {
            0
        };
        set_heap_bits(page, set, clear);
    }
    if bits & NOTE_PRUNABLE != 0 {
        note_prunable(page, xid);
    }
}

/// Takes space for a tuple at `slot`, which is unused or the next one; returns its offset.
fn place(page: &mut PageMut<'_>, slot: u16, row_len: usize) -> Result<usize, ApplyError> {
    let slots = page.slots();
    let appended = slot == slots + 1;
    if slot == 0 || slot > slots + 1 || slot > MAX_SLOTS {
        return refuse(format!("slot {slot} of {slots}"));
    }
    if !appended && page.line_pointer(slot).state != LpState::Unused {
        return refuse(format!("slot {slot} is in use"));
    }
    let (mut lower, upper) = (usize::from(page.lower()), usize::from(page.upper()));
    if appended {
        lower += LINE_POINTER_SIZE;
    }
    if row_len > MAX_ROW || lower + tuple_space(row_len) > upper {
        return refuse(format!("no room for a row of {row_len} bytes"));
    }
    let offset = upper - tuple_space(row_len);
    // The last bytes may be padding, and what lies there may have had hints, which redo does
    // not know.
    page.put_u64(upper - 8, 0);
    page.set_lower(lower as u16);
    page.set_upper(offset as u16);
    if !appended {
        let unused = page.u16_at(SPARE);
        page.put_u16(SPARE, unused.saturating_sub(1));
    }
    let length = (TUPLE_HEADER + row_len) as u16;
    put_line_pointer(page, slot, LinePointer::normal(offset as u16, length));
    Ok(offset)
}

fn put_row(page: &mut PageMut<'_>, offset: usize, row: &[u8]) {
    let start = offset + TUPLE_HEADER;
    page.bytes_mut()[start..start + row.len()].copy_from_slice(row);
}

/// The header of a tuple that was just inserted at `slot` of the page `cx` names.
fn fresh(xmin: Xid, xmin_mask: u16, cid: u32, slot: u16, cx: &ApplyContext) -> TupleHeader {
    TupleHeader {
        xmin,
        xmin_mask,
        xmax: Xid::NONE,
        xmax_mask: 0,
        ctid: Tid::new(cx.page_id.block, slot),
        flags: 0,
        cid,
    }
}

fn insert(page: &mut PageMut<'_>, op: &Insert<'_>, cx: &ApplyContext) -> Result<(), ApplyError> {
    prepare(page, op.bits)?;
    let offset = place(page, op.slot, op.row.len())?;
    put_header(
        page,
        offset,
        &fresh(op.xmin, op.xmin_mask, op.cid, op.slot, cx),
    );
    put_row(page, offset, op.row);
    note(page, op.bits, op.xmin);
    Ok(())
}

fn multi_insert(page: &mut PageMut<'_>, data: &[u8], cx: &ApplyContext) -> Result<(), ApplyError> {
    let mut r = Reader::new(data);
    let w0 = r.u64()?;
    let (cid, count, bits) = (r.u32()?, r.u16()?, r.u16()?);
    let xmin = Xid::new(w0);
    prepare(page, bits)?;
    for _ in 0..count {
        let (slot, length) = (r.u16()?, r.u16()?);
        let row = r.bytes(usize::from(length))?;
        let offset = place(page, slot, row.len())?;
        put_header(page, offset, &fresh(xmin, (w0 >> 48) as u16, cid, slot, cx));
        put_row(page, offset, row);
    }
    note(page, bits, xmin);
    Ok(())
}

/// The tuple at `slot`, or an error that names it.
fn tuple(page: &PageMut<'_>, slot: u16) -> Result<(usize, usize), ApplyError> {
    match page.tuple_at(slot) {
        Some(found) => Ok(found),
        None => refuse(format!("slot {slot} has no tuple")),
    }
}

/// Writes the deleter's half of a tuple header.
fn put_xmax(page: &mut PageMut<'_>, offset: usize, w1: u64, cid: u32, ctid: Tid, flags: u16) {
    page.put_u64(offset + 8, w1);
    page.put_u32(offset + 16, ctid.block.0);
    page.put_u16(offset + 20, ctid.slot);
    page.put_u16(offset + 22, flags);
    page.put_u32(offset + 24, cid);
}

fn combo_flag(bits: u16) -> u16 {
    if bits & OLD_COMBO != 0 { COMBO_CID } else { 0 }
}

fn modify(page: &mut PageMut<'_>, op: &Modify) -> Result<(), ApplyError> {
    prepare(page, 0)?;
    let (offset, _) = tuple(page, op.slot)?;
    let flags = page.u16_at(offset + 22) & HEAP_ONLY | combo_flag(op.bits);
    let w1 = op.xmax.get() | mask_word(op.xmax_mask);
    put_xmax(page, offset, w1, op.cid, op.ctid, flags);
    note(page, op.bits, op.xmax);
    Ok(())
}

fn update(page: &mut PageMut<'_>, op: &Update<'_>, cx: &ApplyContext) -> Result<(), ApplyError> {
    prepare(page, 0)?;
    let (old, old_length) = tuple(page, op.old_slot)?;
    let old_row = old_length - TUPLE_HEADER;
    let (prefix, suffix) = (usize::from(op.prefix), usize::from(op.suffix));
    if prefix + suffix > old_row || op.new_slot == op.old_slot {
        return refuse(format!("update of slot {} has a wrong shape", op.old_slot));
    }
    let new = place(page, op.new_slot, prefix + op.middle.len() + suffix)?;
    let bytes = page.bytes_mut();
    let (from, to) = (old + TUPLE_HEADER, new + TUPLE_HEADER);
    bytes.copy_within(from..from + prefix, to);
    bytes[to + prefix..to + prefix + op.middle.len()].copy_from_slice(op.middle);
    let tail = from + old_row - suffix;
    bytes.copy_within(tail..tail + suffix, to + prefix + op.middle.len());

    let hot = op.bits & HOT != 0;
    let mut header = fresh(op.xid, 0, op.new_cid, op.new_slot, cx);
    header.flags = if hot { HEAP_ONLY } else { 0 };
    put_header(page, new, &header);
    let mut flags = page.u16_at(old + 22) & HEAP_ONLY | combo_flag(op.bits);
    if hot {
        flags |= HOT_UPDATED;
    }
    let w1 = op.xid.get() | mask_word(op.xmax_mask);
    put_xmax(page, old, w1, op.old_cid, header.ctid, flags);
    note(page, op.bits | NOTE_PRUNABLE, op.xid);
    Ok(())
}

fn prune(page: &mut PageMut<'_>, op: &Prune, cx: &ApplyContext) -> Result<(), ApplyError> {
    prepare(page, 0)?;
    let slots = page.slots();
    let targets = op.redirect.iter().map(|pair| pair.1);
    let changed = op.redirect.iter().map(|pair| pair.0);
    let given_up = changed
        .chain(op.dead.iter().copied())
        .chain(op.unused.iter().copied());
    let mut named = given_up.clone().chain(targets);
    if let Some(slot) = named.find(|&slot| slot == 0 || slot > slots) {
        return refuse(format!("prune of slot {slot} of {slots}"));
    }
    for run in &op.freeze {
        for slot in run.slots() {
            freeze(page, Tid::new(cx.page_id.block, slot), run.what)?;
        }
    }
    let freed = spaces(page, given_up);
    for &(slot, target) in &op.redirect {
        put_line_pointer(page, slot, LinePointer::redirect(target));
    }
    for &slot in &op.dead {
        put_line_pointer(page, slot, LinePointer::DEAD);
    }
    for &slot in &op.unused {
        put_line_pointer(page, slot, LinePointer::UNUSED);
    }
    if !op.unused.is_empty() {
        trim(page);
    }
    if op.bits & COMPACT != 0 {
        compact(page, freed)?;
    }
    note(page, op.bits & !NOTE_PRUNABLE, Xid::NONE);
    set_prune_xid(page, op.prune_xid);
    Ok(())
}

fn freeze(page: &mut PageMut<'_>, tid: Tid, what: u16) -> Result<(), ApplyError> {
    let (offset, _) = tuple(page, tid.slot)?;
    if what & FREEZE_XMIN != 0 {
        let w0 = page.u64_at(offset);
        page.put_u64(offset, w0 | mask_word(XMIN_FROZEN));
    }
    if what & CLEAR_XMAX != 0 {
        let flags = page.u16_at(offset + 22) & HEAP_ONLY;
        let cid = page.u32_at(offset + 24);
        put_xmax(page, offset, 0, cid, tid, flags);
    }
    Ok(())
}

/// Cuts unused line pointers off the end and counts those that remain.
fn trim(page: &mut PageMut<'_>) {
    let mut last = page.slots();
    while last > 0 && page.line_pointer(last).state == LpState::Unused {
        last -= 1;
    }
    page.set_lower((LINE_POINTERS + usize::from(last) * LINE_POINTER_SIZE) as u16);
    let unused = (1..=last)
        .filter(|&slot| page.line_pointer(slot).state == LpState::Unused)
        .count();
    page.put_u16(SPARE, unused as u16);
}
