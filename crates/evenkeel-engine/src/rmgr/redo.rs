//! Redo: what a part of a log record does to its page. The way forward runs it too.

use evenkeel_storage::page::{PageMut, PageRead};
use evenkeel_storage::{ApplyContext, ApplyError};

use crate::{btree, heap, sequence, status, vm};

/// Clears what redo does not bring back: hint bits, and bytes between the ends of a page's
/// content, where what was removed may linger with its hints.
pub(crate) fn mask(page: &mut PageMut<'_>) {
    match page.kind() {
        heap::layout::HEAP_PAGE_KIND => heap::layout::mask_unlogged(page),
        btree::NODE_PAGE_KIND => btree::mask_hints(page),
        // Pages of other kinds have no hole: their content may lie where the others' free space is.
        _ => return,
    }
    let hole = usize::from(page.lower())..usize::from(page.upper());
    if let Some(free) = page.bytes_mut().get_mut(hole) {
        free.fill(0);
    }
}

/// Clears the hints that an image in the log must not hand on (BT-10).
pub(crate) fn strip(page: &mut PageMut<'_>) {
    if page.kind() == btree::NODE_PAGE_KIND {
        btree::mask_hints(page);
    }
}

/// Applies one part to its page. The operation's high byte names the module that owns the page.
pub(crate) fn apply(
    op: u16,
    page: &mut PageMut<'_>,
    data: &[u8],
    cx: &ApplyContext,
) -> Result<(), ApplyError> {
    match op >> 8 {
        0x01 => heap::redo::apply(op, page, data, cx),
        0x02 => vm::redo::apply(op, page, data, cx),
        0x03 => btree::redo::apply(op, page, data, cx),
        0x04 => status::apply(op, page, data, cx),
        0x05 => sequence::apply(op, page, data),
        _ => Err(ApplyError::new(format!("operation {op:#06x} is unknown"))),
    }
}
