//! Cutting empty pages off a heap's end.

use evenkeel_storage::page::PageRead;
use evenkeel_storage::{BlockNumber, Fork, Lsn, RemovalLsn};

use crate::error::EngineResult;
use crate::heap::layout::HeapRead;
use crate::table::Table;
use crate::table::pages::map_part;
use crate::ticket::CancelFlag;
use crate::types::Xid;
use crate::vm::{ALL_FROZEN, ALL_VISIBLE};

/// Blocks between two looks at the cancel flag.
const STEP: u32 = 32;

impl Table {
    /// Cuts empty pages off the heap's end, and that of its large values, and answers how many of
    /// the first. The caller holds the table exclusively.
    ///
    /// # Errors
    /// `Cancelled`; damage; storage failures.
    pub fn truncate_tail(&self, cancel: Option<&CancelFlag>) -> EngineResult<u32> {
        if let Some(large) = self.large() {
            large.truncate_tail(cancel)?;
        }
        let blocks = self.blocks();
        let (mut keep, mut newest) = (blocks, Lsn::ZERO);
        while keep > 0 {
            if let Some(flag) = cancel.filter(|_| keep.is_multiple_of(STEP)) {
                flag.check()?;
            }
            let Some(lsn) = empty_as_of(self, BlockNumber(keep - 1))? else {
                break;
            };
            newest = newest.max(lsn);
            keep -= 1;
        }
        if keep == blocks {
            return Ok(0);
        }
        self.clear_map(keep..blocks)?;
        self.space().fsm().record_range(keep..blocks, 0)?;
        // Rows were removed by commits before the pages' records, and by none beyond the bound.
        let removal = newest.min(self.db().system().core.removal_bound());
        let removal = RemovalLsn::Commit(removal);
        self.store()
            .truncate(self.def().heap, Fork::Main, keep, removal)?;
        self.space().truncated(keep);
        Ok(blocks - keep)
    }

    /// Clears the map bits of blocks that are about to be cut off: their numbers will be used again
    /// (VAC-6).
    pub(crate) fn clear_map(&self, blocks: std::ops::Range<u32>) -> EngineResult<()> {
        for block in blocks.map(BlockNumber) {
            if self.vm().bits(block)? != 0 {
                self.store().admit()?;
                let mut map = self.vm().pin(block)?.write();
                let mut change = self.store().change(Xid::NONE.get());
                map_part(&mut change, &mut map, block, 0, ALL_VISIBLE | ALL_FROZEN);
                change.commit();
            }
        }
        Ok(())
    }
}

/// The LSN of a page without rows; none for one that holds something.
fn empty_as_of(table: &Table, block: BlockNumber) -> EngineResult<Option<Lsn>> {
    let guard = table.heap().read(block)?;
    let is_empty = !guard.is_heap() || guard.slots() == 0;
    Ok(is_empty.then(|| guard.lsn()))
}
