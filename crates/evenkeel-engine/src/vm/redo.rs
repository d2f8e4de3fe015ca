//! Redo of visibility-map parts.

use evenkeel_storage::page::{PageMut, PageRead};
use evenkeel_storage::{ApplyContext, ApplyError};

use super::{BLOCKS_PER_PAGE, MAP_START, VM_PAGE_KIND};

/// Bits of one heap block set and cleared.
pub const OP_CHANGE: u16 = 0x0201;
/// Bytes of the data of [`OP_CHANGE`].
pub const CHANGE_LEN: usize = 6;

/// Data of [`OP_CHANGE`]: position of the heap block in the map page, bits to set, bits to
/// clear.
pub fn encode(index: u32, set: u8, clear: u8) -> [u8; CHANGE_LEN] {
    let [a, b, c, d] = index.to_le_bytes();
    [a, b, c, d, set, clear]
}

/// Applies one part to its page. A page of zeroes is laid out first.
pub fn apply(
    op: u16,
    page: &mut PageMut<'_>,
    data: &[u8],
    _cx: &ApplyContext,
) -> Result<(), ApplyError> {
    if op != OP_CHANGE {
        return Err(ApplyError::new(format!("unknown map operation {op:#06x}")));
    }
    let [a, b, c, d, set, clear] = *data else {
        return Err(ApplyError::new(format!("map part of {} bytes", data.len())));
    };
    let index = u32::from_le_bytes([a, b, c, d]);
    if index >= BLOCKS_PER_PAGE || (set | clear) & !3 != 0 {
        return Err(ApplyError::new(format!(
            "map position {index}, bits {set} and {clear}"
        )));
    }
    if page.is_new() {
        page.init(VM_PAGE_KIND, 0);
    }
    if page.kind() != VM_PAGE_KIND {
        return Err(ApplyError::new(format!(
            "page kind {:#06x} is not a map",
            page.kind()
        )));
    }
    let (offset, shift) = (MAP_START + index as usize / 4, index % 4 * 2);
    let old = page.u8_at(offset);
    page.put_u8(offset, old & !(clear << shift) | set << shift);
    Ok(())
}
