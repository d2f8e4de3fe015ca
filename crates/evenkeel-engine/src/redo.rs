//! Redo: what a part of a log record does to its page. The way forward runs it too.

use evenkeel_storage::page::PageMut;
use evenkeel_storage::{ApplyContext, ApplyError};

use crate::{btree, heap, status, vm};

/// Applies one part to its page. The operation's high byte says whose it is.
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
        _ => Err(ApplyError::new(format!("operation {op:#06x} is unknown"))),
    }
}
