//! Pages that are set aside as damaged: what can be done about them.

use crate::buffer::ForkHandle;
use crate::error::{StorageError, StorageResult};
use crate::ids::{Lsn, PageId};
use crate::page::PageBuf;
use crate::page::checksum::{self, Verdict};
use crate::quarantine::{self, DamagedPage, EntryKind, Kept, Owed};
use crate::record::PartFlags;
use crate::resource_manager::ApplyContext;
use crate::retry;
use crate::store::Store;

fn not_damaged(page: PageId) -> StorageError {
    StorageError::Config(format!("{page} is not damaged"))
}

impl Store {
    /// The pages that are set aside as damaged, in order.
    #[must_use]
    pub fn damaged_pages(&self) -> Vec<DamagedPage> {
        let damaged = self.core.pool.damaged().list();
        damaged.iter().map(|damage| (&**damage).into()).collect()
    }

    /// Makes a page that cannot be loaded a page of zeroes, durably and under a log record. Its
    /// content is lost, save for changes without a part ([`Store::apply_late`]) that were kept for
    /// it.
    ///
    /// # Errors
    /// [`StorageError::Config`] when the page can be loaded; no room in the log; a page that
    /// does not exist.
    pub fn zero_damaged_page(&self, page: PageId) -> StorageResult<Lsn> {
        self.replace_damaged(page, "zeroed", |_| Ok(()))
    }

    /// Takes a page that is set aside as the disk has it, durably and under a log record, and
    /// forgets the changes that it lacks, save for those without a part.
    ///
    /// # Errors
    /// [`StorageError::PageDamaged`] and [`StorageError::PageRead`] when the disk does not have
    /// it whole; as [`Store::zero_damaged_page`].
    pub fn discard_damage(&self, page: PageId) -> StorageResult<Lsn> {
        let fork = self.core.pool.fork(page.file, page.fork)?;
        self.replace_damaged(page, "taken as the disk has it", |image| {
            let bytes = image.bytes_mut();
            fork.files().read(page.block, bytes)?;
            match checksum::verify(bytes, page) {
                Verdict::Damaged { stored, computed } => {
                    Err(checksum::damaged(bytes, page, stored, computed))
                }
                Verdict::Valid | Verdict::Zero => Ok(()),
            }
        })
    }

    pub(super) fn replace_damaged(
        &self,
        page: PageId,
        what: &str,
        fill: impl FnOnce(&mut PageBuf) -> StorageResult<()>,
    ) -> StorageResult<Lsn> {
        let fork = self.core.pool.fork(page.file, page.fork)?;
        self.admit()?;
        // A page that is owed changes is brought up to date, or set aside, by this: redo must not
        // want the side files while they are held still.
        drop(fork.pin(page.block));
        // Nothing is kept for the page between reading what was and making the page anew.
        let _still = self.core.quarantine.still();
        let cause = match fork.pin(page.block).map(drop) {
            Err(error) if error.damaged_page() == Some(page) => error,
            Err(error) => return Err(error),
            Ok(()) => return Err(not_damaged(page)),
        };
        let pages = self.core.pool.damaged();
        let was_set_aside = pages.get(page).is_some();
        if !was_set_aside {
            // So that nobody loads it meanwhile, should a read succeed after all.
            pages.set(quarantine::damage(page, &cause, Lsn::ZERO), false);
        }
        let replaced = self.replace_set_aside(&fork, page, fill);
        match &replaced {
            Ok(lsn) => tracing::warn!("damaged page {page} was {what} by command, LSN {lsn}"),
            Err(_) if !was_set_aside => pages.forget(page),
            Err(_) => {}
        }
        replaced
    }

    fn replace_set_aside(
        &self,
        fork: &ForkHandle,
        page: PageId,
        fill: impl FnOnce(&mut PageBuf) -> StorageResult<()>,
    ) -> StorageResult<Lsn> {
        // A load that began before it was set aside comes to its end.
        while !fork.is_missing(page.block) {
            if fork.pin_resident(page.block).is_some() {
                return Err(not_damaged(page));
            }
            std::thread::yield_now();
        }
        let mut image = PageBuf::zeroed();
        fill(&mut image)?;
        self.apply_kept(page, &mut image)?;
        let hold = self.hold_redo_here();
        let lsn = self.core.log.append_image(page, image.bytes());
        self.core.log.flush(lsn)?;
        image.page_mut().set_lsn(lsn);
        let mut guard = fork.pin_image(page.block, image.bytes())?.write();
        guard.mark_dirty(hold.lsn());
        drop(guard);
        // Only now: whoever loaded it meanwhile would have had what the disk has.
        self.core.pool.damaged().replaced(page, lsn);
        Ok(lsn)
    }

    /// Changes without a part are never outdated, and nothing else has them any more.
    fn apply_kept(&self, page: PageId, image: &mut PageBuf) -> StorageResult<()> {
        let applied = self.core.quarantine.for_each_owed(page, |owed| {
            if owed.kind != EntryKind::Late {
                return Ok(());
            }
            let cx = ApplyContext {
                lsn: owed.lsn,
                page_id: page,
            };
            let mut target = image.page_mut();
            let applied = self
                .core
                .manager
                .apply(owed.op, &mut target, owed.data, &cx);
            applied.map_err(|error| StorageError::Redo {
                lsn: owed.lsn,
                page: Some(page),
                reason: error.to_string(),
            })
        });
        match applied {
            Err(StorageError::FileDamaged { path, reason, .. }) => {
                tracing::warn!("{}: {reason}; its changes are lost", path.display());
                Ok(())
            }
            other => other,
        }
    }

    /// Keeps, for a page that could not be loaded because of `cause`, what [`Store::apply_late`]
    /// would have applied to it; it is durable when this returns. The page is set aside.
    /// `false`: the page can be loaded again, so it is to be tried there.
    ///
    /// # Errors
    /// `cause`, if that is not one page's damage; when the side file cannot be written.
    pub fn keep_late(
        &self,
        page: PageId,
        cause: StorageError,
        (first, last): (Lsn, Lsn),
        op: u16,
        data: &[u8],
    ) -> StorageResult<bool> {
        let unread = |error: &StorageError| matches!(error, StorageError::PageRead { .. });
        if unread(&cause) {
            // The fault may pass; a page that is set aside stays so.
            let fork = self.core.pool.fork(page.file, page.fork)?;
            if retry::attempts(unread, || fork.pin(page.block).map(drop)).is_ok() {
                return Ok(false);
            }
        }
        let of_page = cause.damaged_page() == Some(page);
        if !(of_page || matches!(cause, StorageError::FileDamaged { .. })) {
            return Err(cause);
        }
        let owed = Owed {
            kind: EntryKind::Late,
            lsn: last,
            prev_lsn: first,
            op,
            flags: PartFlags::NONE,
            data,
        };
        Ok(self.core.quarantine.keep_late(page, &cause, &owed)? == Kept::Yes)
    }
}
