//! Pages that still need redo, and the redo of one page.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::apply::{Applied, Applier};
use super::lists::{Key, PageLists};
use super::parts::Item;
use super::progress::Progress;
use super::records::Records;
use crate::buffer::{PageRedo, Start};
use crate::core::Core;
use crate::error::{StorageError, StorageResult};
use crate::ids::{BlockNumber, FileId, Fork, Lsn, PageId};
use crate::mutant::Mutant;
use crate::page::{PageBytes, checksum};
use crate::quarantine::{EntryKind, damage};
use crate::record::PartView;

thread_local! {
    /// Room for a record that is not in memory in one piece.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Circumstances of a redo.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circumstances {
    /// End of the valid log.
    pub(super) end: Lsn,
    /// The log goes on behind its damage, so pages may well be newer than its end.
    pub(super) gave_up: bool,
    /// The page cache may know what the disk does not (REC-5).
    pub(super) rewrite: bool,
    /// LSN below which nothing may be forgotten although no list says so: other shares of the
    /// pages are still to come.
    pub(super) floor: Option<Lsn>,
}

/// The lists of changes, and which pages have got theirs.
pub(super) struct Owed {
    core: Arc<Core>,
    lists: PageLists,
    records: Arc<Records>,
    circumstances: Circumstances,
    done: Box<[AtomicBool]>,
    left: AtomicUsize,
    oldest: Mutex<Oldest>,
    /// The lists in the order of their pages, once a file or a tail of one is to be forgotten.
    in_order: OnceLock<Box<[u32]>>,
    /// Pages that a record has made anew after an earlier start had set them aside, with changes
    /// in their side files that no record has.
    replaced: HashSet<PageId>,
    progress: Arc<Progress>,
}

/// The lists in the order of their first records, and how far all of them are done.
struct Oldest {
    lists: Vec<u32>,
    at: usize,
}

impl Owed {
    pub(super) fn new(
        core: &Arc<Core>,
        lists: PageLists,
        records: &Arc<Records>,
        circumstances: Circumstances,
        progress: &Arc<Progress>,
    ) -> StorageResult<Owed> {
        let count = lists.lists().len();
        let mut by_first: Vec<u32> = (0..count as u32).collect();
        by_first.sort_unstable_by_key(|at| lists.first(&lists.lists()[*at as usize]));
        let sum = lists
            .lists()
            .iter()
            .map(|list| u64::from(list.len()))
            .sum::<u64>();
        Progress::add(&progress.pages, count as u64);
        if core.config.redo_reads_ahead() {
            Progress::add(&progress.skip_rep, sum - count as u64);
        }
        let mut owed = Owed {
            core: Arc::clone(core),
            lists,
            records: Arc::clone(records),
            circumstances,
            done: (0..count).map(|_| AtomicBool::new(false)).collect(),
            left: AtomicUsize::new(count),
            oldest: Mutex::new(Oldest {
                lists: by_first,
                at: 0,
            }),
            in_order: OnceLock::new(),
            replaced: HashSet::new(),
            progress: Arc::clone(progress),
        };
        owed.meet_set_aside()?;
        Ok(owed)
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(super) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Pages that are still owed something.
    pub(super) fn left(&self) -> usize {
        self.left.load(Ordering::Acquire)
    }

    pub(super) fn is_done(&self, at: u32) -> bool {
        self.done[at as usize].load(Ordering::Acquire)
    }

    pub(super) fn lists(&self) -> &PageLists {
        &self.lists
    }

    /// Pages that earlier starts have set aside: a record that makes one anew ends that; what else
    /// the log has for one goes into its side file.
    fn meet_set_aside(&mut self) -> StorageResult<()> {
        for known in self.core.pool.damaged().list() {
            let Some(at) = self.lists.find(known.page) else {
                continue;
            };
            match self.last_whole(at)? {
                Some((_, lsn)) => {
                    let page = known.page;
                    let kept = self.core.pool.damaged().replaced(page, lsn);
                    tracing::info!(
                        "{page} is no longer damaged: the record at {lsn} has all of it"
                    );
                    if kept == Some(true) {
                        self.replaced.insert(page);
                    }
                }
                None => {
                    // The side file that an earlier start wrote has what is below.
                    let list = &self.lists.lists()[at];
                    let base = self.lists.base();
                    if self
                        .lists
                        .items(list)
                        .any(|item| item.entry.lsn(base) >= known.upto)
                    {
                        let mut damage = (*known).clone();
                        damage.upto = self.circumstances.end;
                        let parts = self.keep(at, damage, known.upto)?;
                        Progress::add(&self.progress.kept, parts);
                    }
                    self.mark_done(at);
                }
            }
        }
        Ok(())
    }

    /// Sets the page of a list aside, with its changes by records from `from` on.
    fn keep(&self, at: usize, damage: crate::buffer::Damage, from: Lsn) -> StorageResult<u64> {
        let list = &self.lists.lists()[at];
        let base = self.lists.base();
        let mut parts = 0;
        let quarantine = &self.core.quarantine;
        let mut scratch = SCRATCH.take();
        let set_aside = quarantine.set_aside(damage, |add| {
            let items = self.lists.items(list);
            for item in items.filter(|item| item.entry.lsn(base) >= from) {
                let lsn = item.entry.lsn(base);
                let part = self.part(item, &mut scratch)?;
                if !Applier::compares(&part) {
                    parts += 1;
                    add(lsn, &part)?;
                }
            }
            Ok(())
        });
        SCRATCH.set(scratch);
        set_aside.map(|()| parts)
    }

    /// The last change of a list that needs nothing of what the page held: its place in the list
    /// and its LSN.
    fn last_whole(&self, at: usize) -> StorageResult<Option<(usize, Lsn)>> {
        let list = &self.lists.lists()[at];
        if list.starts_whole && !self.lists.keeps_all {
            return Ok(Some((0, self.lists.first(list))));
        }
        if !self.lists.keeps_all {
            return Ok(None);
        }
        let base = self.lists.base();
        let mut scratch = Vec::new();
        let mut last = None;
        for (place, item) in self.lists.items(list).enumerate() {
            let part = self.part(item, &mut scratch)?;
            if part.flags.is_whole() {
                last = Some((place, item.entry.lsn(base)));
            }
        }
        Ok(last)
    }

    /// A change, which is read from the log where memory has not got it.
    #[inline]
    fn part<'a>(&self, item: Item<'a>, scratch: &'a mut Vec<u8>) -> StorageResult<PartView<'a>> {
        match item.part {
            Some(part) => Ok(part),
            None => {
                let lsn = item.entry.lsn(self.lists.base());
                self.records.part(lsn, item.entry.offset(), scratch)
            }
        }
    }

    /// Why a page that was found with this LSN proves that log was lost.
    fn lost_log(&self, found: Lsn) -> Option<String> {
        let end = self.circumstances.end;
        if found >= end && !found.is_zero() && !self.circumstances.gave_up {
            return Some(format!(
                "its LSN is {found}, and the log ends at {end}: log has been lost"
            ));
        }
        let gap = self.core.log.gaps().at(found)?;
        Some(gap.lost(found))
    }

    /// Applies a list's changes from the `skip`th on.
    fn apply_list(&self, at: usize, skip: usize, bytes: &mut PageBytes) -> StorageResult<Applied> {
        let list = &self.lists.lists()[at];
        let base = self.lists.base();
        let page = self.lists.page_id(list.key);
        let found = checksum::lsn_of(bytes);
        if let Some(reason) = self.lost_log(found) {
            return Err(StorageError::PageDamaged {
                page,
                lsn: found,
                reason,
            });
        }
        let mut applier = Applier::new(&*self.core.manager, page, bytes);
        let mut scratch = SCRATCH.take();
        let result = self.lists.items(list).skip(skip).try_for_each(|item| {
            let lsn = item.entry.lsn(base);
            if applier.has(lsn) {
                return Ok(());
            }
            let part = self.part(item, &mut scratch)?;
            applier.part(lsn, &part)?;
            if self.core.config.has(Mutant::BreakRedo(part.op)) && !Applier::compares(&part) {
                applier.break_page();
            }
            Ok(())
        });
        SCRATCH.set(scratch);
        result.map(|()| applier.done())
    }

    /// Changes that only the side file of a replaced page has.
    fn apply_kept(&self, page: PageId, bytes: &mut PageBytes) -> StorageResult<()> {
        self.core.quarantine.for_each_owed(page, |owed| {
            if owed.kind != EntryKind::Late {
                return Ok(());
            }
            let mut applier = Applier::new(&*self.core.manager, page, bytes);
            applier.late(owed.lsn, owed.op, owed.data)
        })
    }

    fn mark_done(&self, at: usize) {
        if !self.done[at].swap(true, Ordering::AcqRel) {
            Progress::add(&self.progress.pages_done, 1);
            self.left.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// For the mutant that has to show what may happen meanwhile: waits until the redo point has
    /// passed `lsn`, for a time.
    fn await_redo_point(&self, lsn: Lsn) {
        for _ in 0..1000 {
            if self.left() > 0 || self.core.control.redo() > lsn {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    fn count(&self, at: usize, applied: Applied) {
        let progress = &self.progress;
        let len = u64::from(self.lists.lists()[at].len());
        Progress::add(&progress.applied, applied.applied);
        Progress::add(&progress.compared, applied.compared);
        Progress::add(&progress.skip_init, applied.inits);
        Progress::add(&progress.skip_fpw, applied.images);
        Progress::add(&progress.skipped, len - applied.applied - applied.compared);
    }
}

impl PageRedo for Owed {
    fn start_of(&self, page: PageId) -> Option<Start> {
        let at = self.lists.find(page)?;
        if self.done[at].load(Ordering::Acquire) {
            return None;
        }
        Some(match self.lists.lists()[at].starts_whole {
            true => Start::Zeroed,
            false => Start::Read,
        })
    }

    fn complete(
        &self,
        page: PageId,
        bytes: &mut PageBytes,
        read: StorageResult<()>,
    ) -> StorageResult<Option<Lsn>> {
        let Some(at) = self.lists.find(page) else {
            return read.map(|()| None);
        };
        let applied = read
            .and_then(|()| self.apply_list(at, 0, bytes))
            .or_else(|error| {
                // A later record may have all of the page.
                match self.last_whole(at)? {
                    Some((place, _)) if place > 0 && error.damaged_page() == Some(page) => {
                        bytes.fill(0);
                        self.apply_list(at, place, bytes)
                    }
                    _ => Err(error),
                }
            })?;
        let mut first = self.lists.first(&self.lists.lists()[at]);
        let mut is_changed = applied.applied > 0 || self.circumstances.rewrite;
        if self.replaced.contains(&page) {
            self.apply_kept(page, bytes)?;
            // The side file stays until the page is durable with them.
            first = first.min(self.lists.base());
            is_changed = true;
        }
        self.count(at, applied);
        if self.core.config.has(Mutant::ForgetOwedEarly) {
            self.mark_done(at);
            self.await_redo_point(first);
        }
        Ok(is_changed.then_some(first))
    }

    fn completed(&self, page: PageId) {
        if let Some(at) = self.lists.find(page) {
            if self.core.config.has(Mutant::ForgetOwedEarly) {
                return;
            }
            self.mark_done(at);
        }
    }

    fn set_aside(&self, page: PageId, cause: StorageError) -> StorageError {
        let is_of_page =
            cause.damaged_page() == Some(page) || matches!(cause, StorageError::FileDamaged { .. });
        let at = self.lists.find(page).filter(|_| is_of_page);
        let Some(at) = at else {
            return cause;
        };
        tracing::error!("{cause}; {page} is set aside");
        let damage = damage(page, &cause, self.circumstances.end);
        match self.keep(at, damage, Lsn::ZERO) {
            Ok(_) => {
                Progress::add(&self.progress.set_aside, 1);
                self.mark_done(at);
                let pages = self.core.pool.damaged();
                pages.check(page).err().unwrap_or(cause)
            }
            Err(error) => error,
        }
    }

    fn forget(&self, file: FileId, tail: Option<(Fork, u32)>) {
        let lists = self.lists.lists();
        for (number, fork) in self.lists.forks_of(file) {
            let from = match tail {
                None => 0,
                Some((cut, from)) if cut == fork => from,
                Some(_) => continue,
            };
            let order = self.in_order.get_or_init(|| self.lists.in_order());
            let from = Key::new(number, BlockNumber(from));
            let start = order.partition_point(|at| lists[*at as usize].key < from);
            let of_fork = order[start..]
                .iter()
                .take_while(|at| lists[**at as usize].key.fork() == number);
            for at in of_fork {
                self.mark_done(*at as usize);
            }
        }
    }

    fn least(&self) -> Option<Lsn> {
        let mut oldest = self.oldest.lock();
        while let Some(at) = oldest.lists.get(oldest.at)
            && self.is_done(*at)
        {
            oldest.at += 1;
        }
        let at = oldest.lists.get(oldest.at);
        let least = at.map(|at| self.lists.first(&self.lists.lists()[*at as usize]));
        least.into_iter().chain(self.circumstances.floor).min()
    }
}
