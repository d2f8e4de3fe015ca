//! The series of status files.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_storage::buffer::ForkHandle;
use evenkeel_storage::page::{PAGE_HEADER_SIZE, PageRead};
use evenkeel_storage::{FileId, Fork, Lsn, PartFlags, StorageResult, Store};
use parking_lot::RwLock;

use super::{FILE_XIDS, OP_MERGE, OP_SET, StatusBits, StatusPageImage, StatusPageNumber};
use crate::error::{EngineError, EngineResult};
use crate::types::Xid;

/// The status relations: read by anyone, changed by the one background thread.
pub(crate) struct StatusPages {
    store: Arc<Store>,
    forks: RwLock<HashMap<u64, Arc<ForkHandle>>>,
    /// Ids below have no status any more: every tuple of theirs was frozen or removed.
    oldest: AtomicU64,
}

/// The changes of one page.
struct PageChanges {
    data: Vec<u8>,
    first: Lsn,
    last: Lsn,
}

impl StatusPages {
    pub(crate) fn new(store: Arc<Store>, oldest: Xid) -> StatusPages {
        StatusPages {
            store,
            forks: RwLock::default(),
            oldest: AtomicU64::new(oldest.get()),
        }
    }

    /// The first id that still has a status.
    pub(crate) fn oldest(&self) -> Xid {
        Xid::new(self.oldest.load(Ordering::Acquire))
    }

    fn fork(&self, page: StatusPageNumber) -> StorageResult<Arc<ForkHandle>> {
        let number = page.file_number();
        if let Some(fork) = self.forks.read().get(&number) {
            return Ok(Arc::clone(fork));
        }
        let mut forks = self.forks.write();
        if let Some(fork) = forks.get(&number) {
            return Ok(Arc::clone(fork));
        }
        let fork = self.store.pool().fork(page.file(), Fork::Main)?;
        forks.insert(number, Arc::clone(&fork));
        Ok(fork)
    }

    /// What the pages say of an id.
    ///
    /// # Errors
    /// If the page cannot be read, is damaged, or was dropped.
    pub(crate) fn get(&self, xid: Xid) -> EngineResult<StatusBits> {
        if xid < self.oldest() {
            let text = format!("the status of transaction {xid} is no longer kept");
            return Err(EngineError::corrupted(text));
        }
        let (page, place) = StatusPageNumber::of(xid);
        let fork = self.fork(page)?;
        if page.block().0 >= fork.len() {
            return Ok(StatusBits::Unknown);
        }
        let guard = fork.read(page.block())?;
        place
            .read(guard.u8_at(PAGE_HEADER_SIZE + place.byte()))
            .map_err(|bits| {
                let id = guard.page_id();
                EngineError::corrupted(format!("{id}: status {bits} of transaction {xid}"))
            })
    }

    /// Sets what commit and abort records say, in log order.
    pub(crate) fn set(
        &self,
        entries: impl Iterator<Item = (Xid, StatusBits, Lsn)>,
    ) -> EngineResult<()> {
        let mut pages: BTreeMap<StatusPageNumber, PageChanges> = BTreeMap::new();
        for (xid, bits, lsn) in entries {
            let (page, place) = StatusPageNumber::of(xid);
            let changes = pages.entry(page).or_insert_with(|| PageChanges {
                data: Vec::new(),
                first: lsn,
                last: lsn,
            });
            changes.data.extend_from_slice(&place.encode(bits));
            changes.last = lsn;
        }
        for (page, changes) in pages {
            self.change(page, OP_SET, &changes.data, changes.first, changes.last)?;
        }
        Ok(())
    }

    /// Sets what recovery collected for a page.
    pub(crate) fn merge(
        &self,
        page: StatusPageNumber,
        image: &StatusPageImage,
    ) -> EngineResult<()> {
        self.change(page, OP_MERGE, &image.bytes, image.first, image.last)
    }

    /// Changes a page as records between `first` and `last` say. The caller keeps the redo
    /// point below `first` meanwhile.
    fn change(
        &self,
        page: StatusPageNumber,
        op: u16,
        data: &[u8],
        first: Lsn,
        last: Lsn,
    ) -> EngineResult<()> {
        let fork = self.fork(page)?;
        fork.ensure_len(page.block().0 + 1)?;
        let mut guard = fork.write(page.block())?;
        // Dirty since the first record, and of the last one's LSN.
        self.store
            .apply_late(first, &mut guard, OP_SET, PartFlags::NONE, &[])?;
        self.store
            .apply_late(last, &mut guard, op, PartFlags::NONE, data)?;
        Ok(())
    }

    /// Drops the files all of whose ids are below `limit`, which nothing refers to any more.
    pub(crate) fn truncate(&self, limit: Xid) -> EngineResult<()> {
        let old = self.oldest.fetch_max(limit.get(), Ordering::AcqRel);
        for number in old / FILE_XIDS..limit.get() / FILE_XIDS {
            self.forks.write().remove(&number);
            self.store.drop_file(FileId::status(number))?;
        }
        Ok(())
    }
}
