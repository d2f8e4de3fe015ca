//! Which pages are set aside as damaged: loading one is an error (BUF-17).

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;

use crate::error::{StorageError, StorageResult};
use crate::ids::{FileId, Fork, Lsn, PageId};

/// A page that is set aside.
#[derive(Clone, Debug)]
pub(crate) struct Damage {
    pub(crate) page: PageId,
    /// The LSN that it was found with; zero when it could not be read.
    pub(crate) lsn: Lsn,
    pub(crate) reason: Arc<str>,
    /// The file to be searched for the changes that the page lacks.
    pub(crate) side_file: PathBuf,
    /// Changes by records below are in the side file.
    pub(crate) upto: Lsn,
}

impl Damage {
    fn error(&self) -> StorageError {
        StorageError::PageSetAside {
            page: self.page,
            lsn: self.lsn,
            reason: Arc::clone(&self.reason),
            side_file: self.side_file.clone(),
        }
    }
}

struct Known {
    damage: Arc<Damage>,
    /// A side file is on disk.
    is_kept: bool,
    /// The page was made anew by the record there. The side file goes when the redo point has
    /// passed it.
    replaced: Option<Lsn>,
}

/// The pages set aside, as every load asks.
#[derive(Default)]
pub(crate) struct DamagedPages {
    /// Pages that are not replaced.
    count: AtomicUsize,
    pages: RwLock<HashMap<PageId, Known>>,
}

impl DamagedPages {
    /// An error if the page is set aside.
    #[inline]
    pub(crate) fn check(&self, page: PageId) -> StorageResult<()> {
        match self.get(page) {
            None => Ok(()),
            Some(damage) => Err(damage.error()),
        }
    }

    /// Why the page is set aside, if it is.
    #[inline]
    pub(crate) fn get(&self, page: PageId) -> Option<Arc<Damage>> {
        if self.is_empty() {
            return None;
        }
        let pages = self.pages.read();
        let known = pages.get(&page).filter(|known| known.replaced.is_none())?;
        Some(Arc::clone(&known.damage))
    }

    /// Whether no page is set aside.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many pages are set aside.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Every page that is set aside, in order.
    pub(crate) fn list(&self) -> Vec<Arc<Damage>> {
        let pages = self.pages.read();
        let known = pages.values().filter(|known| known.replaced.is_none());
        let mut list: Vec<_> = known.map(|known| Arc::clone(&known.damage)).collect();
        list.sort_unstable_by_key(|damage| damage.page);
        list
    }

    /// Sets a page aside, whose side file is on disk (`is_kept`) or still to be written.
    pub(crate) fn set(&self, damage: Damage, is_kept: bool) {
        let mut pages = self.pages.write();
        let old = pages.get(&damage.page);
        let known = Known {
            is_kept: is_kept || old.is_some_and(|old| old.is_kept),
            damage: Arc::new(damage),
            replaced: None,
        };
        let old = pages.insert(known.damage.page, known);
        if old.is_none_or(|old| old.replaced.is_some()) {
            self.count.fetch_add(1, Ordering::Release);
        }
    }

    /// The record at `lsn` made the page anew. If it was set aside, says whether with a side file
    /// on disk.
    pub(crate) fn replaced(&self, page: PageId, lsn: Lsn) -> Option<bool> {
        if self.is_empty() {
            return None;
        }
        let mut pages = self.pages.write();
        let known = pages.get_mut(&page)?;
        let was_set_aside = known.replaced.is_none().then_some(known.is_kept);
        if known.is_kept {
            known.replaced = Some(lsn);
        } else {
            pages.remove(&page);
        }
        if was_set_aside.is_some() {
            self.count.fetch_sub(1, Ordering::Release);
        }
        was_set_aside
    }

    /// Pages with a side file that records below `redo` have replaced.
    pub(crate) fn replaced_before(&self, redo: Lsn) -> Vec<PageId> {
        let pages = self.pages.read();
        let due = pages
            .iter()
            .filter(|(_, known)| known.replaced.is_some_and(|lsn| lsn < redo));
        due.map(|(page, _)| *page).collect()
    }

    /// Pages with a side file in a file, or in the part of a fork from block `from` on.
    pub(crate) fn kept_of(&self, file: FileId, tail: Option<(Fork, u32)>) -> Vec<PageId> {
        let pages = self.pages.read();
        let within = |page: &PageId| {
            let cut = |(fork, from): (Fork, u32)| page.fork == fork && page.block.0 >= from;
            page.file == file && tail.is_none_or(cut)
        };
        pages.keys().copied().filter(within).collect()
    }

    /// Forgets a page: its side file is gone.
    pub(crate) fn forget(&self, page: PageId) {
        let known = self.pages.write().remove(&page);
        if known.is_some_and(|known| known.replaced.is_none()) {
            self.count.fetch_sub(1, Ordering::Release);
        }
    }
}
