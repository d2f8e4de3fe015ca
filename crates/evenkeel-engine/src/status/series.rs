//! A relation as a series of files of fixed size: ids lead to pages, whole files are dropped.

use std::collections::HashMap;
use std::sync::Arc;

use evenkeel_storage::buffer::{ForkHandle, Pin};
use evenkeel_storage::{BlockNumber, FileId, Fork, Lsn, PageId, RemovalLsn, StorageResult, Store};
use parking_lot::RwLock;

use crate::error::EngineResult;

/// How a series counts: which files under `status/` are its own, and what fits into one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// The number of its first file.
    pub first_file: u64,
    /// Numbers of files it may use.
    pub files: u64,
    /// Blocks of a file.
    pub file_blocks: u64,
    /// Ids of a page.
    pub page_xids: u64,
}

/// A page of a series, counted through all its files.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct PageNumber(pub(super) u64);

impl Layout {
    /// Ids of a file.
    pub const fn file_xids(&self) -> u64 {
        self.page_xids * self.file_blocks
    }

    /// The file that a page is in, counted from the series' first.
    pub const fn file_number(&self, page: PageNumber) -> u64 {
        page.0 / self.file_blocks
    }

    /// The page's block in its file.
    pub const fn block(&self, page: PageNumber) -> BlockNumber {
        BlockNumber((page.0 % self.file_blocks) as u32)
    }

    /// The id of file `number` of the series.
    pub const fn file(&self, number: u64) -> FileId {
        FileId::status(self.first_file + number)
    }

    /// Which of the series' files this is, if it is one.
    fn number_of(&self, file: FileId) -> Option<u64> {
        let number = file.number().checked_sub(self.first_file)?;
        (file.is_status() && number < self.files).then_some(number)
    }
}

/// The pages of a series: read by anyone, changed by the one background thread.
pub(super) struct Series {
    store: Arc<Store>,
    layout: Layout,
    forks: RwLock<HashMap<u64, Arc<ForkHandle>>>,
}

impl Series {
    pub fn new(store: Arc<Store>, layout: Layout) -> Series {
        Series {
            store,
            layout,
            forks: RwLock::default(),
        }
    }

    fn fork(&self, page: PageNumber) -> StorageResult<Arc<ForkHandle>> {
        let number = self.layout.file_number(page);
        if let Some(fork) = self.forks.read().get(&number) {
            return Ok(Arc::clone(fork));
        }
        let mut forks = self.forks.write();
        if let Some(fork) = forks.get(&number) {
            return Ok(Arc::clone(fork));
        }
        let file = self.layout.file(number);
        let fork = self.store.pool().fork(file, Fork::Main)?;
        forks.insert(number, Arc::clone(&fork));
        Ok(fork)
    }

    /// Shows a page to `look`: `default` if there is none, and none if `in_memory` and it is
    /// not there.
    pub fn look<T>(
        &self,
        page: PageNumber,
        in_memory: bool,
        default: T,
        look: impl FnOnce(Pin<'_>) -> EngineResult<T>,
    ) -> EngineResult<Option<T>> {
        if in_memory
            && !self
                .forks
                .read()
                .contains_key(&self.layout.file_number(page))
        {
            return Ok(None);
        }
        let fork = self.fork(page)?;
        let block = self.layout.block(page);
        if block.0 >= fork.len() {
            return Ok(Some(default));
        }
        let pin = if in_memory {
            match fork.pin_resident(block) {
                Some(pin) => pin,
                None => return Ok(None),
            }
        } else {
            fork.pin(block)?
        };
        look(pin).map(Some)
    }

    /// Asks for a page to be read in the background, if its file is open.
    pub fn fetch_later(&self, page: PageNumber) {
        if let Some(fork) = self.forks.read().get(&self.layout.file_number(page)) {
            let block = self.layout.block(page).0;
            fork.prefetch(block..block + 1);
        }
    }

    /// Changes a page as the records from the first to the last of `records` say. The caller
    /// keeps the redo point below the first meanwhile. For a damaged page the change is kept
    /// beside it, and who asks for the page gets an error.
    pub fn change(
        &self,
        page: PageNumber,
        op: u16,
        data: &[u8],
        records: (Lsn, Lsn),
    ) -> EngineResult<()> {
        let fork = self.fork(page)?;
        let block = self.layout.block(page);
        loop {
            let loaded = fork
                .ensure_len(block.0 + 1)
                .and_then(|()| fork.write(block));
            match loaded {
                Ok(mut guard) => {
                    self.store.apply_late(records, &mut guard, op, data)?;
                    return Ok(());
                }
                Err(cause) => {
                    let id = PageId {
                        file: fork.file(),
                        fork: fork.fork(),
                        block,
                    };
                    if self.store.keep_late(id, cause, records, op, data)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Drops the files all of whose ids are below `limit`. They are found by listing: a crash
    /// or a recovery may have left any of them. No such id has committed behind `settled`.
    pub fn drop_below(&self, limit: u64, settled: Lsn) -> EngineResult<()> {
        let first_kept = limit / self.layout.file_xids();
        for file in self.store.pool().files().list()? {
            let number = self.layout.number_of(file);
            if let Some(number) = number.filter(|number| *number < first_kept) {
                self.forks.write().remove(&number);
                self.store.drop_file(file, RemovalLsn::Commit(settled))?;
            }
        }
        Ok(())
    }
}
