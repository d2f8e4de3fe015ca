//! Transaction status, two bits per id, as pages of a series of files.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_storage::page::{PAGE_HEADER_SIZE, PageRead};
use evenkeel_storage::{Lsn, Store};

use super::series::{PageNumber, Series};
use super::{LAYOUT, OP_MERGE, OP_SET, StatusBits, StatusPageImage, place_of};
use crate::error::{EngineError, EngineResult};
use crate::types::Xid;

/// The status relations: read by anyone, changed by the one background thread.
pub(crate) struct StatusPages {
    pages: Series,
    /// Ids below have no status any more: every tuple of theirs was frozen or removed.
    oldest: AtomicU64,
    /// Files of ids below are known to be gone.
    dropped_below: AtomicU64,
}

/// The changes of one page.
pub(super) struct PageChanges {
    pub data: Vec<u8>,
    pub first: Lsn,
    pub last: Lsn,
}

impl PageChanges {
    /// None yet, from the record at `lsn` on.
    pub fn from(lsn: Lsn) -> PageChanges {
        PageChanges {
            data: Vec::new(),
            first: lsn,
            last: lsn,
        }
    }

    /// Adds what the record at `lsn` says; records come in log order.
    pub fn add(&mut self, data: &[u8], lsn: Lsn) {
        self.data.extend_from_slice(data);
        self.last = lsn;
    }
}

impl StatusPages {
    pub(crate) fn new(store: Arc<Store>, oldest: Xid) -> StatusPages {
        StatusPages {
            pages: Series::new(store, LAYOUT),
            oldest: AtomicU64::new(oldest.get()),
            dropped_below: AtomicU64::new(0),
        }
    }

    /// The first id that still has a status.
    pub(crate) fn oldest(&self) -> Xid {
        Xid::new(self.oldest.load(Ordering::Acquire))
    }

    /// The status of an id on its status page.
    ///
    /// # Errors
    /// If the page cannot be read, is damaged, or was dropped.
    pub(crate) fn get(&self, xid: Xid) -> EngineResult<StatusBits> {
        let bits = self.look(xid, false)?;
        Ok(bits.unwrap_or(StatusBits::Unknown))
    }

    /// The status of an id on its status page, if the page is in memory.
    ///
    /// # Errors
    /// If the page is damaged or was dropped.
    pub(crate) fn get_in_memory(&self, xid: Xid) -> EngineResult<Option<StatusBits>> {
        self.look(xid, true)
    }

    fn look(&self, xid: Xid, in_memory: bool) -> EngineResult<Option<StatusBits>> {
        let (page, place) = place_of(xid);
        let default = StatusBits::Unknown;
        let found = self.pages.look(page, in_memory, default, |pin| {
            let guard = pin.read();
            let bits = place.read(guard.u8_at(PAGE_HEADER_SIZE + place.byte()));
            bits.map_err(|bits| {
                let id = guard.page_id();
                EngineError::corrupted(format!("{id}: status {bits} of transaction {xid}"))
            })
        });
        // Last: whatever the page said is worth nothing if it was dropped meanwhile.
        if xid < self.oldest() {
            let text = format!("the status of transaction {xid} is no longer kept");
            return Err(EngineError::corrupted(text));
        }
        found
    }

    /// Asks for an id's page to be read in the background.
    pub(crate) fn fetch_later(&self, xid: Xid) {
        self.pages.fetch_later(place_of(xid).0);
    }

    /// Sets what commit and abort records say, in log order.
    pub(crate) fn set(
        &self,
        entries: impl Iterator<Item = (Xid, StatusBits, Lsn)>,
    ) -> EngineResult<()> {
        let mut pages: BTreeMap<PageNumber, PageChanges> = BTreeMap::new();
        for (xid, bits, lsn) in entries {
            let (page, place) = place_of(xid);
            let changes = pages.entry(page).or_insert_with(|| PageChanges::from(lsn));
            changes.add(&place.encode(bits), lsn);
        }
        for (page, changes) in pages {
            let span = (changes.first, changes.last);
            self.pages.change(page, OP_SET, &changes.data, span)?;
        }
        Ok(())
    }

    /// Sets what recovery collected for a page, unless it is one of a file that was dropped.
    pub(crate) fn merge(&self, page: PageNumber, image: &StatusPageImage) -> EngineResult<()> {
        let kept = self.oldest().get() / LAYOUT.file_xids();
        if LAYOUT.file_number(page) < kept {
            return Ok(());
        }
        let span = (image.first, image.last);
        self.pages.change(page, OP_MERGE, &image.bytes, span)
    }

    /// Whether a file has only ids below `limit`.
    pub(crate) fn reclaimable(&self, limit: Xid) -> bool {
        let kept = self.oldest().get() / LAYOUT.file_xids();
        limit.get() / LAYOUT.file_xids() > kept
    }

    /// Drops the files all of whose ids are below `limit`, which nothing refers to any more. None
    /// of them has committed behind `settled`.
    pub(crate) fn truncate(&self, limit: Xid, settled: Lsn) -> EngineResult<()> {
        self.oldest.fetch_max(limit.get(), Ordering::AcqRel);
        let limit = self.oldest().get();
        let due = limit / LAYOUT.file_xids();
        if self.dropped_below.load(Ordering::Acquire) / LAYOUT.file_xids() < due {
            self.pages.drop_below(limit, settled)?;
            self.dropped_below.fetch_max(limit, Ordering::AcqRel);
        }
        Ok(())
    }
}
