//! Verification of a table: page layouts, HOT chains, the visibility map, and agreement of heap
//! and indexes.

mod indexes;
mod large;
mod report;

use evenkeel_storage::BlockNumber;
use evenkeel_storage::page::PageRead;

use self::indexes::RowKeys;
use self::large::LargeNames;
pub use self::report::{CheckReport, CheckStep};
use super::Table;
use crate::error::{EngineError, EngineResult};
use crate::heap::check::check_layout;
use crate::heap::layout::*;
use crate::heap::prune::{xmax_hint, xmin_hint};
use crate::txn::Horizon;
use crate::txn::XidAtHorizon;
use crate::types::Tid;
use crate::vm::{ALL_FROZEN, ALL_VISIBLE, BLOCKS_PER_PAGE};

/// Findings on the heap's pages that are compared with other files in the end.
struct Noted {
    keys: RowKeys,
    large: LargeNames,
}

impl Table {
    /// Verifies the table. Meant for one that nobody changes meanwhile; damage that an
    /// operation would fail on is a problem in the report.
    ///
    /// # Errors
    /// Failures that keep the check itself from going on.
    pub fn check(&self) -> EngineResult<CheckReport> {
        self.check_telling(&mut |_| {})
    }

    /// As [`Table::check`]; `progress` is told of each block of the heap and the indexes.
    ///
    /// # Errors
    /// As [`Table::check`].
    pub fn check_telling(
        &self,
        progress: &mut dyn FnMut(CheckStep<'_>),
    ) -> EngineResult<CheckReport> {
        let mut report = CheckReport {
            blocks: self.blocks(),
            ..CheckReport::default()
        };
        let horizon = self.db.horizon();
        let mut noted = Noted {
            keys: RowKeys::new(self),
            large: LargeNames::new(self),
        };
        for block in 0..report.blocks {
            progress(CheckStep {
                index: None,
                blocks_done: block,
                blocks: report.blocks,
            });
            match self.check_block(BlockNumber(block), &horizon, &mut report, &mut noted) {
                Err(error @ EngineError::Storage(_)) => report.add(error.to_string()),
                other => other?,
            }
            noted.keys.enter(self, &mut report)?;
        }
        match self.check_map_end(&mut report) {
            Err(error @ EngineError::Storage(_)) => report.add(error.to_string()),
            other => other?,
        }
        self.check_indexes(noted.keys, &mut report, progress)?;
        if let Some(large) = &self.large {
            report.include(large.chunks.check_telling(progress)?);
            match noted.large.compare(self, &horizon, &mut report) {
                Err(error @ EngineError::Storage(_)) => report.add(error.to_string()),
                other => other?,
            }
        }
        Ok(report)
    }

    /// Verifies that the map knows nothing of blocks behind the heap's end: whoever shortens a
    /// heap clears its map first.
    fn check_map_end(&self, report: &mut CheckReport) -> EngineResult<()> {
        let end = self.blocks();
        let mut bits = Vec::new();
        for page in end / BLOCKS_PER_PAGE..self.vm.pages() {
            let first = end.max(page.saturating_mul(BLOCKS_PER_PAGE));
            let behind = page.saturating_add(1).saturating_mul(BLOCKS_PER_PAGE);
            self.vm.bits_of(first..behind, &mut bits)?;
            if let Some(at) = bits.iter().rposition(|bits| *bits != 0) {
                report.add(format!(
                    "file {} has {end} blocks, but had block {} when its visibility map was written",
                    self.def.heap,
                    first + at as u32
                ));
            }
        }
        Ok(())
    }

    fn place(&self, block: BlockNumber, slot: u16) -> String {
        format!("file {} block {block} slot {slot}", self.def.heap)
    }

    fn check_block(
        &self,
        block: BlockNumber,
        horizon: &Horizon,
        report: &mut CheckReport,
        noted: &mut Noted,
    ) -> EngineResult<()> {
        let bits = self.vm.bits(block)?;
        let _frames = self.reserve_for_reading();
        let guard = self.heap().read(block)?;
        if !guard.is_heap() {
            if !guard.is_new() || bits != 0 {
                report.add(format!(
                    "file {} block {block} is no heap page",
                    self.def.heap
                ));
            }
            return Ok(());
        }
        if let Err(problem) = check_layout(&guard) {
            report.add(format!("file {} block {block}: {problem}", self.def.heap));
            return Ok(());
        }
        if bits & ALL_VISIBLE != 0 && !guard.all_visible() {
            report.add(format!(
                "file {} block {block}: map says all-visible, the page does not",
                self.def.heap
            ));
        }
        let frozen = bits & ALL_FROZEN != 0;
        for slot in 1..=guard.slots() {
            if let Some((offset, _)) = guard.tuple_at(slot) {
                report.tuples += 1;
                let header = guard.header(offset);
                if let Some(problem) = self.check_tuple(&guard, slot, &header, horizon, frozen)? {
                    report.add(format!("{}: {problem}", self.place(block, slot)));
                }
            }
            let tid = Tid::new(block, slot);
            noted.large.note(self, &guard, tid, horizon)?;
            self.check_chain(&guard, tid, horizon, report, &mut noted.keys)?;
        }
        Ok(())
    }

    fn check_tuple(
        &self,
        page: &impl PageRead,
        slot: u16,
        header: &TupleHeader,
        horizon: &Horizon,
        frozen: bool,
    ) -> EngineResult<Option<String>> {
        let next = self.db.next_xid();
        for (what, xid) in [("xmin", header.xmin), ("xmax", header.xmax)] {
            if xid.is_some() && xid >= next {
                return Ok(Some(format!("{what} {xid} is not given out yet")));
            }
        }
        if !header.xmin.is_some() {
            return Ok(Some("no xmin".into()));
        }
        if page.all_visible() {
            let mut fate = self.fates(horizon);
            let seen = header.frozen()
                || fate(header.xmin, xmin_hint(header))? == XidAtHorizon::CommittedForAll;
            let kept = !header.xmax.is_some()
                || fate(header.xmax, xmax_hint(header))? == XidAtHorizon::Aborted;
            if !seen || !kept {
                return Ok(Some("not visible to all on an all-visible page".into()));
            }
        }
        if frozen && (!header.frozen() || header.xmax.is_some()) {
            return Ok(Some("not frozen on an all-frozen page".into()));
        }
        if header.is(HOT_UPDATED) {
            let target = page
                .tuple_at(header.ctid.slot)
                .map(|(offset, _)| page.header(offset));
            let linked =
                target.is_some_and(|target| target.xmin != header.xmax || target.is(HEAP_ONLY));
            let mut fate = self.fates(horizon);
            let matters = fate(header.xmax, xmax_hint(header))? != XidAtHorizon::Aborted;
            if matters && (!linked || header.ctid.slot == slot) {
                return Ok(Some(format!(
                    "HOT chain broken towards slot {}",
                    header.ctid.slot
                )));
            }
        }
        Ok(None)
    }

    /// Verifies that a slot leads somewhere, and notes the keys of the chain that starts there.
    fn check_chain(
        &self,
        page: &impl PageRead,
        tid: Tid,
        horizon: &Horizon,
        report: &mut CheckReport,
        keys: &mut RowKeys,
    ) -> EngineResult<()> {
        let lp = page.line_pointer(tid.slot);
        let root = match lp.state {
            LpState::Unused | LpState::Dead => false,
            LpState::Redirect => {
                let heap_only = page
                    .tuple_at(lp.offset)
                    .is_some_and(|(offset, _)| page.header(offset).is(HEAP_ONLY));
                if !heap_only {
                    let place = self.place(tid.block, tid.slot);
                    report.add(format!(
                        "{place}: redirect to slot {} leads nowhere",
                        lp.offset
                    ));
                }
                heap_only
            }
            LpState::Normal => page
                .tuple_at(tid.slot)
                .is_some_and(|(offset, _)| !page.header(offset).is(HEAP_ONLY)),
        };
        if root {
            keys.note(self, page, tid, horizon)?;
        }
        Ok(())
    }
}
