//! Commit timestamps (`track_commit_timestamp`): eight bytes per id, as pages of a series of
//! files beside those of transaction status, and with the same fate.
//!
//! | page offset | content |
//! | --- | --- |
//! | 0 | the page header, kind [`STAMP_PAGE`] |
//! | 24 | 1,020 times, microseconds since the Unix epoch, little endian; 0: not known |
//!
//! Commit records carry the time whether or not it is tracked, so nothing of this is logged of
//! its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_storage::page::{PAGE_HEADER_SIZE, PageMut, PageRead};
use evenkeel_storage::{ApplyError, Lsn, Store};

use super::pages::PageChanges;
use super::series::{Layout, PageNumber, Series};
use crate::error::EngineResult;
use crate::types::Xid;

/// Kind of a page of commit timestamps.
pub const STAMP_PAGE: u16 = 0x0402;
/// Sets the times of listed places: a list of place (`u16`) and time (`u64`).
pub(crate) const OP_STAMP: u16 = 0x0403;

const PAGE_BYTES: usize = 8160;
const STAMP: usize = size_of::<u64>();
const ENTRY: usize = size_of::<u16>() + STAMP;
const LAYOUT: Layout = Layout {
    first_file: 1 << 48,
    files: 1 << 48,
    file_blocks: 512,
    page_xids: (PAGE_BYTES / STAMP) as u64,
};

/// A committed id, when it committed, and the LSN of the record that says so.
pub(crate) type Stamp = (Xid, u64, Lsn);

/// The relation of commit timestamps.
pub(crate) struct CommitStamps {
    pages: Series,
    /// Ids below have none any more.
    oldest: AtomicU64,
    dropped_below: AtomicU64,
}

fn place_of(xid: Xid) -> (PageNumber, u16) {
    let place = (xid.get() % LAYOUT.page_xids) as u16;
    (PageNumber(xid.get() / LAYOUT.page_xids), place)
}

impl CommitStamps {
    pub(crate) fn new(store: Arc<Store>, oldest: Xid) -> CommitStamps {
        CommitStamps {
            pages: Series::new(store, LAYOUT),
            oldest: AtomicU64::new(oldest.get()),
            dropped_below: AtomicU64::new(0),
        }
    }

    fn oldest(&self) -> u64 {
        self.oldest.load(Ordering::Acquire)
    }

    /// When an id committed, if that was noted and is still kept.
    ///
    /// # Errors
    /// If its page cannot be read.
    pub(crate) fn get(&self, xid: Xid) -> EngineResult<Option<u64>> {
        let (page, place) = place_of(xid);
        let found = self.pages.look(page, false, 0, |pin| {
            let at = PAGE_HEADER_SIZE + usize::from(place) * STAMP;
            Ok(pin.read().u64_at(at))
        });
        if xid.get() < self.oldest() {
            return Ok(None);
        }
        Ok(found?.filter(|micros| *micros != 0))
    }

    /// Notes commits, in log order. Those whose files are gone are left out.
    pub(crate) fn set(&self, stamps: impl Iterator<Item = Stamp>) -> EngineResult<()> {
        let kept = self.oldest() / LAYOUT.file_xids();
        let mut pages: BTreeMap<PageNumber, PageChanges> = BTreeMap::new();
        for (xid, micros, lsn) in stamps {
            let (page, place) = place_of(xid);
            if LAYOUT.file_number(page) < kept {
                continue;
            }
            let mut entry = [0; ENTRY];
            entry[..2].copy_from_slice(&place.to_le_bytes());
            entry[2..].copy_from_slice(&micros.to_le_bytes());
            let changes = pages.entry(page).or_insert_with(|| PageChanges::from(lsn));
            changes.add(&entry, lsn);
        }
        for (page, changes) in pages {
            let span = (changes.first, changes.last);
            self.pages.change(page, OP_STAMP, &changes.data, span)?;
        }
        Ok(())
    }

    /// Drops the files all of whose ids are below `limit`; none has committed behind `settled`.
    pub(crate) fn truncate(&self, limit: Xid, settled: Lsn) -> EngineResult<()> {
        self.oldest.fetch_max(limit.get(), Ordering::AcqRel);
        let limit = self.oldest();
        let due = limit / LAYOUT.file_xids();
        if self.dropped_below.load(Ordering::Acquire) / LAYOUT.file_xids() < due {
            self.pages.drop_below(limit, settled)?;
            self.dropped_below.fetch_max(limit, Ordering::AcqRel);
        }
        Ok(())
    }
}

/// Applies [`OP_STAMP`]. The same times may be set again.
pub(crate) fn apply(page: &mut PageMut<'_>, data: &[u8]) -> Result<(), ApplyError> {
    if page.kind() == 0 {
        page.init(STAMP_PAGE, 0);
        page.set_lower((PAGE_HEADER_SIZE + PAGE_BYTES) as u16);
    }
    if page.kind() != STAMP_PAGE {
        let text = format!("page kind {:#06x} has no commit timestamps", page.kind());
        return Err(ApplyError::new(text));
    }
    let (entries, []) = data.as_chunks::<ENTRY>() else {
        let text = format!("commit timestamps of {} bytes", data.len());
        return Err(ApplyError::new(text));
    };
    for [a, b, micros @ ..] in entries {
        let place = u16::from_le_bytes([*a, *b]);
        if u64::from(place) >= LAYOUT.page_xids {
            return Err(ApplyError::new("commit timestamp's place out of range"));
        }
        let at = PAGE_HEADER_SIZE + usize::from(place) * STAMP;
        page.put_u64(at, u64::from_le_bytes(*micros));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_storage::page::PageBuf;

    #[test]
    fn times_are_read_where_they_were_set_and_nonsense_is_refused() {
        let mut page = PageBuf::zeroed();
        let mut data = 1019_u16.to_le_bytes().to_vec();
        data.extend_from_slice(&77_u64.to_le_bytes());
        for _ in 0..2 {
            apply(&mut page.page_mut(), &data).unwrap();
        }
        assert_eq!(page.u64_at(PAGE_HEADER_SIZE + 1019 * STAMP), 77);
        assert_eq!(page.u64_at(PAGE_HEADER_SIZE), 0);
        data[..2].copy_from_slice(&1020_u16.to_le_bytes());
        assert!(apply(&mut page.page_mut(), &data).is_err());
        assert!(apply(&mut page.page_mut(), &data[1..]).is_err());
        let mut status = PageBuf::zeroed();
        status.page_mut().init(super::super::STATUS_PAGE, 0);
        assert!(apply(&mut status.page_mut(), &[]).is_err());
    }
}
