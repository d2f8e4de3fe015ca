//! Reading heap pages: whole pages for scans, HOT chains for fetches.

use evenkeel_storage::BlockNumber;
use evenkeel_storage::buffer::ReadGuard;
use evenkeel_storage::page::PageRead;

use super::layout::*;
use super::rows::RowBatch;
use super::visibility::VisibilityChecker;
use crate::error::EngineResult;
use crate::types::{Tid, Xid};

/// Wants all of a row, for [`read_page`].
pub fn whole(row: &[u8]) -> Option<usize> {
    Some(row.len())
}

/// Appends the rows of a page that the snapshot sees, as far as `wanted` says: how many of a row's
/// first bytes, or nothing of it. It is asked under the page lock. Returns how many rows the
/// snapshot sees.
///
/// # Errors
/// When a transaction's status has to be read and cannot be.
pub fn read_page(
    guard: &mut ReadGuard<'_>,
    block: BlockNumber,
    checker: &mut VisibilityChecker<'_>,
    wanted: &mut impl FnMut(&[u8]) -> Option<usize>,
    out: &mut RowBatch,
) -> EngineResult<u64> {
    if !guard.is_heap() {
        return Ok(0);
    }
    let all_visible = guard.all_visible();
    let mut seen = 0;
    for slot in 1..=guard.slots() {
        let Some((offset, length)) = guard.tuple_at(slot) else {
            continue;
        };
        if all_visible || checker.sees(offset, &guard.header(offset))? {
            seen += 1;
            let row = guard.row(offset, length);
            if let Some(row) = wanted(row).and_then(|bytes| row.get(..bytes)) {
                out.push(Tid::new(block, slot), row);
            }
        }
    }
    checker.apply_hints(guard);
    Ok(seen)
}

/// Where a walk of a HOT chain begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// At a tid from an index: a redirect or the chain's root. A heap-only tuple there means
    /// that the slot was given away since the index entry was read.
    Index,
    /// At a tid of a certain version.
    Version,
}

/// The tuples of the HOT chain that starts at a slot, in order.
pub struct Chain<'a, P: ?Sized> {
    page: &'a P,
    block: BlockNumber,
    next: Option<(u16, Option<Xid>)>,
    first_is_root: bool,
    left: u16,
}

/// One tuple of a chain.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Its slot.
    pub slot: u16,
    /// Its byte offset.
    pub offset: usize,
    /// Its length in bytes, header included.
    pub length: usize,
    /// Its header.
    pub header: TupleHeader,
}

/// The chain at `slot`.
pub fn chain<P: PageRead + ?Sized>(
    page: &P,
    block: BlockNumber,
    slot: u16,
    entry: Entry,
) -> Chain<'_, P> {
    let (start, root) = match page.is_heap().then(|| page.line_pointer(slot)) {
        Some(LinePointer {
            state: LpState::Normal,
            ..
        }) => (Some(slot), entry == Entry::Index),
        Some(LinePointer {
            state: LpState::Redirect,
            offset,
            ..
        }) => (Some(offset), false),
        _ => (None, false),
    };
    Chain {
        page,
        block,
        next: start.map(|slot| (slot, None)),
        first_is_root: root,
        left: page.slots(),
    }
}

impl<P: PageRead + ?Sized> Iterator for Chain<'_, P> {
    type Item = Link;

    fn next(&mut self) -> Option<Link> {
        let (slot, expected) = self.next.take()?;
        // A damaged chain may lead in a circle.
        self.left = self.left.checked_sub(1)?;
        let (offset, length) = self.page.tuple_at(slot)?;
        let header = self.page.header(offset);
        let linked = match expected {
            Some(xmax) => header.is(HEAP_ONLY) && header.xmin == xmax,
            None => !self.first_is_root || !header.is(HEAP_ONLY),
        };
        if !linked {
            return None;
        }
        if header.is(HOT_UPDATED) && header.ctid.block == self.block && header.ctid.slot != slot {
            self.next = Some((header.ctid.slot, Some(header.xmax)));
        }
        Some(Link {
            slot,
            offset,
            length,
            header,
        })
    }
}

/// The version of the chain at `tid` that the snapshot sees.
///
/// # Errors
/// When a transaction's status has to be read and cannot be.
pub fn find_visible(
    guard: &mut ReadGuard<'_>,
    tid: Tid,
    entry: Entry,
    checker: &mut VisibilityChecker<'_>,
) -> EngineResult<Option<Link>> {
    let all_visible = guard.all_visible();
    let mut found = None;
    for link in chain(guard, tid.block, tid.slot, entry) {
        if all_visible || checker.sees(link.offset, &link.header)? {
            found = Some(link);
            break;
        }
    }
    checker.apply_hints(guard);
    Ok(found)
}
