//! The manifest: how long every fork is, and the LSN that every page had when it was last
//! written home. By it a file or a page that is missing, cut, zeroed or older than it was is told
//! from one that is sound, whatever kind of relation it belongs to.
//!
//! It is kept in memory and written with every checkpoint: a journal of what has changed since the
//! last one, begun anew when it has grown (`journal.rs`). The control block says which journal
//! counts and how much of it.

mod journal;
mod page_lsns;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_io::Disk;
use parking_lot::{Mutex, RwLock};

use super::sync_table::SyncTable;
use crate::error::{StorageError, StorageResult};
use crate::ids::{FileId, Fork, Lsn, PageId};
use journal::{Frames, Item, Journal};
use page_lsns::Changes;
pub(crate) use page_lsns::PageLsns;

pub use journal::ManifestPosition;

/// Files and forks that recovery knows to have been dropped or cut since the manifest was written.
pub(crate) struct Removed {
    /// Files that were dropped.
    pub(crate) files: Vec<FileId>,
    /// Forks that were cut, and the least length they were cut to.
    pub(crate) cuts: Vec<(FileId, Fork, u32)>,
}

/// The known lengths and page LSNs of all data files.
pub(crate) struct Manifest {
    forks: RwLock<HashMap<(FileId, Fork), Arc<PageLsns>>>,
    changes: Arc<Mutex<Changes>>,
    journal: Mutex<Journal>,
    /// Pages that are loaded are compared with what is known of them. Redo compares them with
    /// the log instead, which may be ahead of the disk.
    compares: AtomicBool,
    /// Why nothing, or nothing old, is known.
    fault: Mutex<Option<String>>,
}

impl Manifest {
    /// Nothing is known.
    pub(crate) fn new() -> Manifest {
        Manifest {
            forks: RwLock::default(),
            changes: Arc::default(),
            journal: Mutex::default(),
            compares: AtomicBool::new(true),
            fault: Mutex::default(),
        }
    }

    /// Takes over what the journal at `position` says, without what was removed since.
    ///
    /// A journal that is damaged is no reason to keep the database shut: nothing is known then,
    /// and that is said ([`Manifest::fault`]).
    pub(crate) fn load(
        &self,
        disk: &dyn Disk,
        dir: &Path,
        position: ManifestPosition,
        removed: &Removed,
    ) -> StorageResult<()> {
        if position.number == 0 {
            return Ok(());
        }
        let mut loaded = Loaded::default();
        match Journal::read(disk, dir, position, &mut |item| loaded.apply(item)) {
            Ok(journal) => *self.journal.lock() = journal,
            Err(StorageError::FileDamaged {
                path,
                offset,
                reason,
            }) => {
                let fault = format!(
                    "file damaged: {} at offset {offset}: {reason}; stale and missing pages \
                     cannot be told until they are written again",
                    path.display()
                );
                tracing::error!("{fault}");
                *self.fault.lock() = Some(fault);
                // Not over the one that is damaged.
                *self.journal.lock() = Journal::after(position.number);
                return Ok(());
            }
            Err(other) => return Err(other),
        }
        for file in &removed.files {
            for fork in Fork::ALL {
                loaded.forks.remove(&(*file, fork));
            }
            // The journal names it still.
            self.changes.lock().dropped.insert(*file);
        }
        let whole = loaded
            .forks
            .values()
            .map(page_lsns::Pages::journal_len)
            .sum();
        self.journal.lock().holds(whole);
        let mut forks = self.forks.write();
        for ((file, fork), pages) in loaded.forks {
            forks.insert(
                (file, fork),
                PageLsns::new(file, fork, pages, &self.changes),
            );
        }
        for (file, fork, blocks) in &removed.cuts {
            if let Some(known) = forks.get(&(*file, *fork)) {
                known.cut(*blocks);
            }
        }
        Ok(())
    }

    /// Gives up what an earlier process knew.
    pub(crate) fn give_up(&self, position: ManifestPosition) {
        *self.journal.lock() = Journal::after(position.number);
    }

    /// Why nothing is known of what earlier processes wrote, if that is so by damage.
    pub(crate) fn fault(&self) -> Option<String> {
        self.fault.lock().clone()
    }

    /// The known length and page LSNs of a fork. Nothing is kept of a temporary one.
    pub(crate) fn fork(&self, file: FileId, fork: Fork) -> Arc<PageLsns> {
        if file.is_temporary() {
            return PageLsns::unknown(file, fork);
        }
        if let Some(known) = self.forks.read().get(&(file, fork)) {
            return Arc::clone(known);
        }
        let mut forks = self.forks.write();
        let known = forks.entry((file, fork)).or_insert_with(|| {
            PageLsns::new(file, fork, page_lsns::Pages::default(), &self.changes)
        });
        Arc::clone(known)
    }

    /// The LSN that a page had when it was last written home, or zero.
    pub(crate) fn last_written(&self, page: PageId) -> Lsn {
        let forks = self.forks.read();
        let known = forks.get(&(page.file, page.fork));
        known.map_or(Lsn::ZERO, |known| known.get(page.block))
    }

    /// Length in blocks of a fork that is known, or 0.
    pub(crate) fn len_of(&self, file: FileId, fork: Fork) -> u32 {
        let forks = self.forks.read();
        forks.get(&(file, fork)).map_or(0, |known| known.len())
    }

    /// Files whose main fork has blocks.
    pub(crate) fn files(&self) -> Vec<FileId> {
        let forks = self.forks.read();
        let main = forks
            .iter()
            .filter(|((_, fork), known)| *fork == Fork::Main && known.len() > 0);
        main.map(|((file, _), _)| *file).collect()
    }

    /// Forgets a file that is dropped.
    pub(crate) fn forget(&self, file: FileId) {
        if file.is_temporary() {
            return;
        }
        let mut forks = self.forks.write();
        for fork in Fork::ALL {
            if let Some(known) = forks.remove(&(file, fork)) {
                known.forget();
            }
        }
        self.changes.lock().dropped.insert(file);
    }

    /// Whether pages that are loaded are to be compared with what is known.
    pub(crate) fn compares(&self) -> bool {
        self.compares.load(Ordering::Relaxed)
    }

    /// Says whether pages that are loaded are to be compared with what is known.
    pub(crate) fn compare(&self, compares: bool) {
        self.compares.store(compares, Ordering::Relaxed);
    }

    /// Writes what has changed. To be called before the data files are synced: what is known by
    /// now has been counted in the sync table, so that sync makes it durable. [`Manifest::sync`]
    /// comes after it, and only then does the position count.
    ///
    /// On a full disk nothing is known until the next time, which begins anew: what would be left
    /// might name blocks that were cut off.
    pub(crate) fn write(&self, sync: &SyncTable, dir: &Path) -> StorageResult<ManifestPosition> {
        let mut journal = self.journal.lock();
        let changes = std::mem::take(&mut *self.changes.lock());
        let written = if journal.is_due_anew() {
            let mut all: BTreeMap<_, _> = BTreeMap::new();
            all.extend(
                self.forks
                    .read()
                    .iter()
                    .map(|(key, known)| (*key, Arc::clone(known))),
            );
            journal.begin_anew(sync, dir, &mut |frames| {
                all.values().try_for_each(|known| known.write_all(frames))
            })
        } else if changes.dropped.is_empty() && changes.forks.is_empty() {
            Ok(())
        } else {
            let appended = journal.append(&mut |frames| write_changes(&changes, frames));
            appended.map_err(StorageError::from)
        };
        match written {
            Ok(()) => {
                *self.fault.lock() = None;
                Ok(journal.position())
            }
            Err(error) => {
                journal.break_off();
                match error {
                    StorageError::DiskFull(_) => {
                        tracing::warn!(
                            "{error}; until the next checkpoint a crash leaves stale and missing \
                             pages unnoticed"
                        );
                        Ok(journal.position())
                    }
                    other => Err(other),
                }
            }
        }
    }

    /// Makes durable what was written. A failed sync poisons the instance.
    pub(crate) fn sync(&self, sync: &SyncTable, dir: &Path) -> StorageResult<()> {
        self.journal.lock().sync(sync, dir)
    }
}

fn write_changes(changes: &Changes, frames: &mut Frames<'_>) -> evenkeel_io::IoResult<()> {
    for file in &changes.dropped {
        frames.put(Item::Drop(*file))?;
    }
    changes
        .forks
        .iter()
        .try_for_each(|known| known.write_changes(frames))
}

/// The state that a journal describes, built up as it is read.
#[derive(Default)]
struct Loaded {
    forks: BTreeMap<(FileId, Fork), page_lsns::Pages>,
    at: Option<(FileId, Fork)>,
}

impl Loaded {
    /// `None` for what no writer of a journal would have written.
    fn apply(&mut self, item: Item) -> Option<()> {
        match item {
            Item::Drop(file) => {
                for fork in Fork::ALL {
                    self.forks.remove(&(file, fork));
                }
                self.at = None;
            }
            Item::Fork {
                file,
                fork,
                least,
                len,
            } => {
                let pages = self.forks.entry((file, fork)).or_default();
                pages.cut(least);
                pages.grow(len);
                self.at = Some((file, fork));
            }
            Item::Page { block, lsn } => {
                let pages = self.forks.get_mut(&self.at?)?;
                if block >= pages.len() {
                    return None;
                }
                pages.set(block, lsn);
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
