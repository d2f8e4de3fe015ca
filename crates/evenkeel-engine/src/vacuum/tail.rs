//! Cutting empty pages off a heap's end.

use evenkeel_storage::{BlockNumber, Fork};

use crate::error::EngineResult;
use crate::heap::layout::HeapRead;
use crate::table::Table;
use crate::table::pages::map_part;
use crate::ticket::CancelFlag;
use crate::types::Xid;
use crate::vm::{ALL_FROZEN, ALL_VISIBLE};

/// Blocks between two looks at the cancel flag.
const STEP: u32 = 32;

/// Cuts empty pages off the end and answers how many. Their map bits are cleared first: the
/// blocks' numbers will be used again. The caller holds the table exclusively.
pub(crate) fn truncate(table: &Table, cancel: Option<&CancelFlag>) -> EngineResult<u32> {
    let blocks = table.blocks();
    let mut keep = blocks;
    while keep > 0 {
        if let Some(flag) = cancel.filter(|_| keep.is_multiple_of(STEP)) {
            flag.check()?;
        }
        if holds_something(table, BlockNumber(keep - 1))? {
            break;
        }
        keep -= 1;
    }
    if keep == blocks {
        return Ok(0);
    }
    for block in (keep..blocks).map(BlockNumber) {
        if table.vm().bits(block)? != 0 {
            table.store().admit()?;
            let mut map = table.vm().pin(block)?.write();
            let mut change = table.store().change(Xid::NONE.get());
            map_part(&mut change, &mut map, block, 0, ALL_VISIBLE | ALL_FROZEN);
            change.commit();
        }
    }
    table.space().fsm().record_range(keep..blocks, 0)?;
    table.store().truncate(table.def().heap, Fork::Main, keep)?;
    table.space().truncated(keep);
    Ok(blocks - keep)
}

fn holds_something(table: &Table, block: BlockNumber) -> EngineResult<bool> {
    let guard = table.heap().read(block)?;
    Ok(guard.is_heap() && guard.slots() > 0)
}
