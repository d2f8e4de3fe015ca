//! Changing pages: one log record and the pages it changes, as one step.

use std::cell::Cell;
use std::ops::Range;

use smallvec::SmallVec;

use crate::buffer::WriteGuard;
use crate::core::Core;
use crate::error::StorageResult;
use crate::ids::{Lsn, PageId};
use crate::invariant;
use crate::mutant::Mutant;
use crate::page::{PAGE_SIZE, PageBytes, PageMut, PageRead};
use crate::record::{FLAG_NOTIFY, PART_LEN, PartFlags, RecordBuilder, RecordKind, RemovalLsn};
use crate::resource_manager::{ApplyContext, apply_part};
use crate::wal::usage;

thread_local! {
    /// Keeps the record buffer's capacity from one change of a thread to the next.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Scratch buffers that grew beyond this are not kept.
const KEEP_SCRATCH: usize = 64 << 10;
/// Bytes of an image in a record at most: its own header is shorter than that of a part.
const MOST_IMAGE: usize = PAGE_SIZE + PART_LEN;

/// A page that is locked exclusively and can be changed under log. It hides the guard's own
/// lifetime, so that guards of different forks fit into one change.
trait ChangeTarget {
    fn page_id(&self) -> PageId;
    fn page_lsn(&self) -> Lsn;
    fn bytes(&self) -> &PageBytes;
    fn mark_dirty(&mut self, position: Lsn);
    fn is_image_due(&self) -> bool;
    fn count_log(&self, bytes: u32, is_whole: bool);
    fn page_mut(&mut self) -> PageMut<'_>;
}

impl ChangeTarget for WriteGuard<'_> {
    #[inline]
    fn page_id(&self) -> PageId {
        WriteGuard::page_id(self)
    }
    #[inline]
    fn page_lsn(&self) -> Lsn {
        self.lsn()
    }
    #[inline]
    fn bytes(&self) -> &PageBytes {
        WriteGuard::bytes(self)
    }
    #[inline]
    fn mark_dirty(&mut self, position: Lsn) {
        WriteGuard::mark_dirty(self, position);
    }
    #[inline]
    fn is_image_due(&self) -> bool {
        WriteGuard::is_image_due(self)
    }
    #[inline]
    fn count_log(&self, bytes: u32, is_whole: bool) {
        WriteGuard::count_log(self, bytes, is_whole);
    }
    #[inline]
    fn page_mut(&mut self) -> PageMut<'_> {
        WriteGuard::page_mut(self)
    }
}

struct Target<'a> {
    page: &'a mut (dyn ChangeTarget + 'a),
    op: u16,
    flags: PartFlags,
    data: Range<usize>,
}

impl Target<'_> {
    fn is_made_anew(&self) -> bool {
        self.flags.contains(PartFlags::INIT)
    }

    /// Whether the log has much about the page, and nothing of which all of it can be made again.
    fn is_image_due(&self) -> bool {
        !self.is_made_anew() && self.page.is_image_due()
    }

    /// Counts the part's log; `with_image`: it carries the page as it was before.
    #[inline]
    fn count_log(&self, with_image: bool) {
        // A record is not longer than a mebibyte.
        let bytes = (PART_LEN + self.data.len()) as u32;
        self.page
            .count_log(bytes, with_image || self.is_made_anew());
    }

    /// Changes the page as the record at `lsn` says.
    ///
    /// # Errors
    /// [`StorageError::Internal`](crate::StorageError::Internal), and the instance is poisoned.
    #[inline]
    fn apply(&mut self, core: &Core, data: &[u8], lsn: Lsn) -> StorageResult<()> {
        let cx = ApplyContext {
            lsn,
            page_id: self.page.page_id(),
        };
        let mut page = self.page.page_mut();
        // Redo passes over a page whose LSN is not below the record's: the change would be lost.
        invariant!(
            core.poison,
            page.lsn() < lsn,
            "the record at {lsn} changes {}, which has LSN {}",
            cx.page_id,
            page.lsn()
        );
        let manager = core.manager.as_ref();
        apply_part(manager, self.op, self.flags, &mut page, data, &cx)
            .map_err(|error| core.apply_failed(self.op, &cx, &error))
    }
}

/// One log record under construction, with the pages it will change.
///
/// Pages are changed only by [`MiniTransaction::commit`], which runs the same function on them that
/// recovery will (STO-1). The guards stay borrowed until then, so nothing else changes
/// the page in between, and no page can be in a record twice.
#[must_use = "a change does nothing until it is committed"]
pub struct MiniTransaction<'a> {
    core: &'a Core,
    record: RecordBuilder,
    targets: SmallVec<[Target<'a>; 4]>,
}

impl<'a> MiniTransaction<'a> {
    pub(super) fn new(core: &'a Core, xid: u64) -> Self {
        let record = RecordBuilder::new(SCRATCH.take(), xid);
        MiniTransaction {
            core,
            record,
            targets: SmallVec::new(),
        }
    }

    /// Says which commits' effects the record takes from snapshots that do not see them. At most
    /// once, before the parts.
    pub fn removes(&mut self, removal: RemovalLsn) -> &mut Self {
        self.record.removal(removal);
        self
    }

    /// Adds a change of the guarded page: on commit, `manager.apply(op, page, data)`. With
    /// [`PartFlags::INIT`] the page is zeroed first.
    pub fn part(
        &mut self,
        guard: &'a mut WriteGuard<'_>,
        op: u16,
        flags: PartFlags,
        data: &[u8],
    ) -> &mut Self {
        self.target(guard, op, flags, data)
    }

    /// Adds a change of the guarded page to exactly `image`. The hole between the page's
    /// `lower` and `upper` is not logged if it is zero.
    pub fn image(&mut self, guard: &'a mut WriteGuard<'_>, image: &PageBytes) -> &mut Self {
        let mut data = Vec::new();
        self.core.log.encode_image(image, &mut data);
        self.target(guard, 0, PartFlags::IMAGE | PartFlags::INIT, &data)
    }

    fn target(
        &mut self,
        page: &'a mut (dyn ChangeTarget + 'a),
        op: u16,
        flags: PartFlags,
        data: &[u8],
    ) -> &mut Self {
        let data = self
            .record
            .part(page.page_id(), flags, op, page.page_lsn(), data);
        self.targets.push(Target {
            page,
            op,
            flags,
            data,
        });
        self
    }

    /// Sets the record's kind and the bytes behind its parts. At most once, after the parts.
    pub fn payload(&mut self, kind: RecordKind, bytes: &[u8]) -> &mut Self {
        self.record.payload(kind, bytes);
        self
    }

    /// Asks that [`completed`](crate::ResourceManager::completed) be told of this record.
    pub fn notify(&mut self) -> &mut Self {
        self.record.add_flags(FLAG_NOTIFY);
        self
    }

    /// Sets bits of the manager's own (within
    /// [`CLIENT_FLAGS`](crate::record::CLIENT_FLAGS)) in the record's flags.
    pub fn flags(&mut self, flags: u8) -> &mut Self {
        self.record.add_flags(flags & crate::record::CLIENT_FLAGS);
        self
    }

    /// Length of the record so far, in bytes; to be kept below
    /// [`StorageConfig::max_record`](crate::StorageConfig::max_record).
    #[must_use]
    pub fn len(&self) -> usize {
        self.record.len()
    }

    /// Whether nothing was added yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.record.is_empty()
    }

    /// Writes the record into the log's ring and changes the pages. Returns the record's LSN.
    ///
    /// This cannot fail: after a failure the instance is poisoned, nothing that follows becomes
    /// durable, and waiting for this LSN says so.
    pub fn commit(self) -> Lsn {
        self.commit_with(|_| {})
    }

    /// [`MiniTransaction::commit`], running `before_complete` with the record's LSN between
    /// reservation and completion: no one is told of this record, or of any later one, before it
    /// returns.
    /// It must not wait or write log.
    pub fn commit_with(mut self, before_complete: impl FnOnce(Lsn)) -> Lsn {
        let log = &self.core.log;
        if self.is_temporary() {
            return self.commit_temporary();
        }
        // Before the reservation, so that a checkpoint whose target lies behind this record
        // sees the page (STO-2).
        let position = log.insert_lsn();
        for target in &mut self.targets {
            target.page.mark_dirty(position);
        }
        let protects = log.has_images() && !self.core.config.has(Mutant::SkipImage);
        let lsn = if protects || self.targets.iter().any(Target::is_image_due) {
            self.append_with_images(protects, before_complete)
        } else {
            let lsn = log.append(&mut self.record, before_complete);
            self.targets
                .iter()
                .for_each(|target| target.count_log(false));
            lsn
        };
        for target in &mut self.targets {
            let data = &self.record.bytes()[target.data.clone()];
            // An error has poisoned the instance: whoever waits for the record finds it.
            let _ = target.apply(self.core, data, lsn);
        }
        if log.has_results() {
            for target in &self.targets {
                log.append_result(target.page.page_id(), target.page.bytes());
            }
        }
        if self.record.flags() & FLAG_NOTIFY != 0 {
            log.advance_completed();
        }
        lsn
    }

    /// Whether the pages are those of temporary files. A record that has other parts, or none, is
    /// logged.
    #[inline]
    fn is_temporary(&self) -> bool {
        let first = self.targets.first();
        first.is_some_and(|target| target.page.page_id().file.is_temporary())
    }

    /// Changes temporary pages, of which the log has nothing (STO-15). Their LSNs only order the
    /// changes of a page: each is beyond the one before it, and not before the log's end.
    fn commit_temporary(mut self) -> Lsn {
        let temporary = |target: &Target<'_>| target.page.page_id().file.is_temporary();
        if !self.targets.iter().all(temporary) {
            let what = "a change of both temporary and permanent pages";
            self.core.poison.set(what.to_owned());
        }
        let newest = self.targets.iter().map(|target| target.page.page_lsn());
        let newest = newest.max().unwrap_or_default();
        let lsn = self.core.log.insert_lsn().max(Lsn(newest.0 + 1));
        for target in &mut self.targets {
            target.page.mark_dirty(Lsn::MAX);
            let data = &self.record.bytes()[target.data.clone()];
            // An error has poisoned the instance, as that of a logged change does.
            let _ = target.apply(self.core, data, lsn);
        }
        lsn
    }

    /// Appends the record with an image of every page that is due for one (STO-14) and, where
    /// images protect pages, of every page that the log has none of since the last redo point.
    /// Which that is, is certain only once the record has its place; when another was announced
    /// meanwhile the images are chosen again (WAL-12).
    #[inline(never)]
    fn append_with_images(&mut self, protects: bool, before_complete: impl FnOnce(Lsn)) -> Lsn {
        let log = &self.core.log;
        let mut before_complete = before_complete;
        // A page is encoded once: it does not change before the record has its place.
        let mut encoded: SmallVec<[Option<Vec<u8>>; 4]> = SmallVec::new();
        encoded.resize(self.targets.len(), None);
        let mut buffer = Vec::new();
        loop {
            let cycle = log.cycle();
            let wanted = self.images_due(protects.then_some(cycle.redo));
            for at in &wanted {
                encoded[*at].get_or_insert_with(|| {
                    let mut image = Vec::new();
                    log.encode_image(self.targets[*at].page.bytes(), &mut image);
                    image
                });
            }
            let appended = if wanted.is_empty() {
                log.append_in(&mut self.record, cycle, before_complete)
            } else {
                let images = wanted.iter().filter_map(|at| {
                    let image = encoded[*at].as_deref()?;
                    Some((self.targets[*at].data.start, image))
                });
                let mut record = self.record.with_images(buffer, images);
                let appended = log.append_in(&mut record, cycle, before_complete);
                buffer = record.into_buffer();
                appended
            };
            match appended {
                Ok(lsn) => {
                    usage::made_images(wanted.len());
                    for (at, target) in self.targets.iter().enumerate() {
                        target.count_log(wanted.contains(&at));
                    }
                    return lsn;
                }
                Err(again) => before_complete = again,
            }
        }
    }

    /// The targets whose pages the record is to carry: those changed for the first time since
    /// `redo`, where images protect pages, and those that the log has much about, as far as the
    /// record has room for them.
    fn images_due(&self, redo: Option<Lsn>) -> SmallVec<[usize; 4]> {
        let mut room = self.core.log.max_record().saturating_sub(self.len());
        let mut wanted: SmallVec<[usize; 4]> = SmallVec::new();
        for (at, target) in self.targets.iter().enumerate() {
            let is_first = redo.is_some_and(|redo| target.page.page_lsn() <= redo);
            let protects = is_first && !target.is_made_anew();
            if protects || (target.is_image_due() && room >= MOST_IMAGE) {
                room = room.saturating_sub(MOST_IMAGE);
                wanted.push(at);
            }
        }
        wanted
    }
}

impl Drop for MiniTransaction<'_> {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.record).into_buffer();
        if buffer.capacity() <= KEEP_SCRATCH {
            SCRATCH.set(buffer);
        }
    }
}
