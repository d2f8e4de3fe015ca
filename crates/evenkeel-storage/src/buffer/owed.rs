//! Pages that the log has changes for which recovery has not made to them yet (BUF-22).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;

use crate::error::{StorageError, StorageResult};
use crate::ids::{FileId, Fork, Lsn, PageId};
use crate::page::PageBytes;

/// The content from which a page is brought up to date.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    /// A zeroed page: the first change initialises it, or carries its image.
    Zeroed,
    /// The page as its file has it.
    Read,
}

/// Redo of one page, as whoever loads the page asks for it.
pub(crate) trait PageRedo: Send + Sync {
    /// Where the page starts from; `None` when the log owes it nothing.
    fn start_of(&self, page: PageId) -> Option<Start>;

    /// Makes the changes that the page lacks. Returns the LSN of the first one if the page is to
    /// be written home. `read` is an error where `bytes` are not the page.
    ///
    /// # Errors
    /// Those for which the page is damaged, and those of reading the log. `bytes` are of no use
    /// then.
    fn complete(
        &self,
        page: PageId,
        bytes: &mut PageBytes,
        read: StorageResult<()>,
    ) -> StorageResult<Option<Lsn>>;

    /// The page is in the pool, complete, and marked dirty if it is to be written: nothing is owed
    /// to it any more. Never before that: the redo point would pass its changes.
    fn completed(&self, page: PageId);

    /// Sets the page aside because of `cause`, with what it is owed, if that is the page's own
    /// damage. Returns the error of whoever asked for the page.
    fn set_aside(&self, page: PageId, cause: StorageError) -> StorageError;

    /// A file is dropped, or the tail of one of its forks cut off: nothing is owed to that.
    fn forget(&self, file: FileId, tail: Option<(Fork, u32)>);

    /// LSN of the first change that is owed to any page.
    fn least(&self) -> Option<Lsn>;
}

/// Redo that pages still need, if any.
#[derive(Default)]
pub(crate) struct OwedPages {
    any: AtomicBool,
    redo: RwLock<Option<Arc<dyn PageRedo>>>,
}

impl OwedPages {
    /// The redo of pages, while any is owed something.
    #[inline]
    pub(crate) fn get(&self) -> Option<Arc<dyn PageRedo>> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        self.redo.read().clone()
    }

    /// From here on pages are loaded by way of `redo`. No page is in the pool yet.
    pub(crate) fn set(&self, redo: Arc<dyn PageRedo>) {
        *self.redo.write() = Some(redo);
        self.any.store(true, Ordering::Release);
    }

    /// Nothing is owed any more, or nobody will load a page again.
    pub(crate) fn clear(&self) {
        self.any.store(false, Ordering::Release);
        *self.redo.write() = None;
    }

    /// LSN of the first change that is owed to any page. To be read before the first-dirtied
    /// LSNs of frames: a page becomes dirty before it is no longer counted here.
    pub(crate) fn least(&self) -> Option<Lsn> {
        self.get()?.least()
    }

    /// See [`PageRedo::forget`].
    pub(crate) fn forget(&self, file: FileId, tail: Option<(Fork, u32)>) {
        if let Some(redo) = self.get() {
            redo.forget(file, tail);
        }
    }
}
