//! Applying the log's changes to one page.

use crate::error::{ApplyError, StorageError, StorageResult};
use crate::ids::{Lsn, PageId};
use crate::page::{CHECKSUM_OFFSET, PAGE_HEADER_SIZE, PageBuf, PageBytes, PageMut, PageRead};
use crate::record::{PartFlags, PartView, image};
use crate::resource_manager::{ApplyContext, ResourceManager, apply_part};

/// Counts of what was done to a page.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Applied {
    pub(super) applied: u64,
    pub(super) compared: u64,
    /// Changes that initialised the page.
    pub(super) inits: u64,
    /// Images that replaced it.
    pub(super) images: u64,
}

/// A page to which changes are applied, in the order of the log.
pub(crate) struct Applier<'a> {
    manager: &'a dyn ResourceManager,
    page_id: PageId,
    page: PageMut<'a>,
    done: Applied,
}

impl<'a> Applier<'a> {
    pub(crate) fn new(
        manager: &'a dyn ResourceManager,
        page_id: PageId,
        bytes: &'a mut PageBytes,
    ) -> Applier<'a> {
        Applier {
            manager,
            page_id,
            page: PageMut::new(bytes),
            done: Applied::default(),
        }
    }

    /// Whether the page has the change of the record at `lsn`.
    #[inline]
    pub(crate) fn has(&self, lsn: Lsn) -> bool {
        self.page.lsn() >= lsn
    }

    pub(super) fn done(self) -> Applied {
        self.done
    }

    /// Whether a part changes nothing, and has the page to be compared with.
    pub(crate) fn compares(part: &PartView<'_>) -> bool {
        part.flags.contains(PartFlags::COMPARE)
    }

    fn failed(&self, lsn: Lsn, error: &ApplyError) -> StorageError {
        StorageError::Redo {
            lsn,
            page: Some(self.page_id),
            reason: error.to_string(),
        }
    }

    /// Applies a part, which the page does not have.
    ///
    /// # Errors
    /// When the page is not the one that the part was made on, or does not fit it.
    pub(crate) fn part(&mut self, lsn: Lsn, part: &PartView<'_>) -> StorageResult<()> {
        if Self::compares(part) {
            return self.compare(part);
        }
        let found = self.page.lsn();
        if !part.flags.is_whole() && found != part.prev_lsn {
            return Err(StorageError::LostWrite {
                page: self.page_id,
                record: lsn,
                expected: part.prev_lsn,
                found,
            });
        }
        let cx = ApplyContext {
            lsn,
            page_id: self.page_id,
        };
        let before = if part.flags.contains(PartFlags::BEFORE) {
            image::restore(part.data, self.page.bytes_mut())
        } else {
            Ok(part.data)
        };
        before
            .and_then(|data| {
                apply_part(self.manager, part.op, part.flags, &mut self.page, data, &cx)
            })
            .map_err(|error| self.failed(lsn, &error))?;
        self.done.applied += 1;
        match part.flags.contains(PartFlags::INIT) {
            true => self.done.inits += 1,
            false if part.flags.is_whole() => self.done.images += 1,
            false => {}
        }
        Ok(())
    }

    /// For the mutant that does to a page what its change did not. The byte lies behind the header
    /// of every kind of page, and is no hint.
    pub(crate) fn break_page(&mut self) {
        self.page.bytes_mut()[PAGE_HEADER_SIZE + 1] ^= 0x40;
    }

    /// Applies a change that is no part of a record, and leaves the page its LSN.
    pub(super) fn late(&mut self, lsn: Lsn, op: u16, data: &[u8]) -> StorageResult<()> {
        let cx = ApplyContext {
            lsn,
            page_id: self.page_id,
        };
        let applied = self.manager.apply(op, &mut self.page, data, &cx);
        applied.map_err(|error| self.failed(lsn, &error))
    }

    /// Compares the page with what the change before had made of it. A page that came from the
    /// disk may be ahead.
    fn compare(&mut self, part: &PartView<'_>) -> StorageResult<()> {
        let lsn = part.prev_lsn;
        if self.page.lsn() > lsn {
            return Ok(());
        }
        let mut found = PageBuf::zeroed();
        found.bytes_mut().copy_from_slice(self.page.bytes_mut());
        let mut expected = PageBuf::zeroed();
        image::restore(part.data, expected.bytes_mut())
            .map_err(|error| self.failed(lsn, &error))?;
        for page in [&mut found, &mut expected] {
            self.manager.mask(&mut page.page_mut());
            page.page_mut().put_u32(CHECKSUM_OFFSET, 0);
        }
        let bytes = expected.bytes().iter().zip(found.bytes());
        match bytes.enumerate().find(|(_, (a, b))| a != b) {
            None => {
                self.done.compared += 1;
                Ok(())
            }
            Some((offset, (expected, found))) => Err(StorageError::Inconsistent {
                page: self.page_id,
                lsn,
                offset,
                expected: *expected,
                found: *found,
            }),
        }
    }
}
