//! Rebuilding a damaged page from what else there is of it.

use std::sync::Arc;

use crate::buffer::ForkHandle;
use crate::error::{StorageError, StorageResult};
use crate::ids::{Lsn, PageId};
use crate::page::PageBuf;
use crate::page::checksum::{self, Verdict};
use crate::quarantine::EntryKind;
use crate::record::{PartFlags, PartView};
use crate::recovery::Applier;
use crate::store::Store;
use crate::wal::reader::LogReader;
use crate::writeout;

/// A part of a record, kept.
struct Part {
    lsn: Lsn,
    prev_lsn: Lsn,
    op: u16,
    flags: PartFlags,
    data: Vec<u8>,
}

impl Part {
    fn view(&self, page: PageId) -> PartView<'_> {
        PartView {
            page,
            flags: self.flags,
            op: self.op,
            prev_lsn: self.prev_lsn,
            data: &self.data,
        }
    }
}

/// The changes of a page that are known, oldest first: from the last one on that needs nothing of
/// what the page held. So they take little memory (STO-14).
#[derive(Default)]
struct Parts(Vec<Part>);

impl Parts {
    fn add(&mut self, lsn: Lsn, part: &PartView<'_>) {
        let is_known = self.0.last().is_some_and(|last| last.lsn >= lsn);
        if is_known || Applier::compares(part) {
            return;
        }
        if part.flags.is_whole() {
            self.0.clear();
        }
        self.0.push(Part {
            lsn,
            prev_lsn: part.prev_lsn,
            op: part.op,
            flags: part.flags,
            data: part.data.to_vec(),
        });
    }

    /// LSN of the last one, or zero.
    fn last(&self) -> Lsn {
        self.0.last().map_or(Lsn::ZERO, |part| part.lsn)
    }

    fn starts_whole(&self) -> bool {
        self.0.first().is_some_and(|first| first.flags.is_whole())
    }
}

impl Store {
    /// Makes a page that cannot be loaded again from what else there is of it, durably and under a
    /// log record: from the log, its side file, the images of the double-write area and what the
    /// disk has, each taken only if its checksum is right and every change follows on the one
    /// before. The result is the page with all its changes, or nothing is done: it is never older
    /// than it was when it was last written home, nor than the last change that the log has.
    ///
    /// # Errors
    /// [`StorageError::CannotRebuild`] says why not, for each of them; [`StorageError::Config`]
    /// when the page can be loaded; no room in the log; a page that does not exist.
    pub fn rebuild_damaged_page(&self, page: PageId) -> StorageResult<Lsn> {
        let fork = self.core.pool.fork(page.file, page.fork)?;
        // One that is owed changes gets them, or a side file with them, before the log is read.
        drop(fork.pin(page.block));
        let logged = self.logged_parts(page)?;
        self.replace_damaged(page, "rebuilt", |image| {
            *image = self.rebuild(&fork, page, &logged)?;
            Ok(())
        })
    }

    /// The changes of a page since the redo point. Nobody makes more: it cannot be loaded.
    fn logged_parts(&self, page: PageId) -> StorageResult<Parts> {
        self.core.log.flush_all()?;
        let end = self.core.log.durable_lsn();
        let (hold, control) = loop {
            let hold = self.hold_redo(self.control().redo);
            // The redo point may have moved before it was held.
            let control = self.control();
            if control.redo == hold.lsn() {
                break (hold, control);
            }
        };
        let layout = self.core.log.segments().layout().clone();
        let start = (control.redo, control.incarnation);
        let (disk, gaps) = (Arc::clone(&self.core.disk), self.core.log.gaps());
        let mut reader = LogReader::new(disk, layout, start, gaps);
        reader.read_ahead();
        let mut parts = Parts::default();
        while reader.is_before(end) {
            let Some(record) = reader.next_record()? else {
                break;
            };
            for part in record.parts().filter(|part| part.page == page) {
                parts.add(record.lsn(), &part);
            }
        }
        drop(hold);
        Ok(parts)
    }

    /// The page, with all its changes.
    fn rebuild(&self, fork: &ForkHandle, page: PageId, logged: &Parts) -> StorageResult<PageBuf> {
        let mut reasons = Vec::new();
        let mut parts = Parts::default();
        let kept = self.core.quarantine.for_each_owed(page, |owed| {
            if owed.kind == EntryKind::Part {
                let view = PartView {
                    page,
                    flags: owed.flags,
                    op: owed.op,
                    prev_lsn: owed.prev_lsn,
                    data: owed.data,
                };
                parts.add(owed.lsn, &view);
            }
            Ok(())
        });
        if let Err(error) = kept {
            reasons.push(format!("its side file: {error}"));
        }
        for part in &logged.0 {
            parts.add(part.lsn, &part.view(page));
        }
        let written = self.core.pool.files().manifest().last_written(page);
        let wanted = parts.last().max(written);
        if wanted.is_zero() {
            reasons.push("there is no record of what it was".into());
        } else {
            for (from, base) in self.bases(fork, page, &parts, &mut reasons)? {
                match self.complete(page, base, &parts, wanted) {
                    Ok(whole) => {
                        tracing::info!("{page} is rebuilt from {from}");
                        return Ok(whole);
                    }
                    Err(reason) => reasons.push(format!("{from}: {reason}")),
                }
            }
        }
        let reason = reasons.join("; ");
        Err(StorageError::CannotRebuild { page, reason })
    }

    /// Whole pages that the changes may lead on from, with where they come from, best first.
    fn bases(
        &self,
        fork: &ForkHandle,
        page: PageId,
        parts: &Parts,
        reasons: &mut Vec<String>,
    ) -> StorageResult<Vec<(String, PageBuf)>> {
        let mut bases = Vec::new();
        if parts.starts_whole() {
            bases.push(("the log".to_owned(), PageBuf::zeroed()));
        }
        for image in writeout::images_of(&*self.core.disk, &self.core.dir, page)? {
            bases.push(("the double-write area".to_owned(), image));
        }
        let mut home = PageBuf::zeroed();
        let read = fork.files().read(page.block, home.bytes_mut());
        let from = "the disk";
        match read.map(|()| checksum::verify(home.bytes(), page)) {
            Err(error) => reasons.push(format!("{from}: {error}")),
            Ok(Verdict::Damaged { .. }) => reasons.push(format!("{from}: its checksum is wrong")),
            Ok(Verdict::Valid | Verdict::Zero) => bases.push((from.to_owned(), home)),
        }
        Ok(bases)
    }

    /// The page that the changes make of `base`, which is to have those up to `wanted`.
    fn complete(
        &self,
        page: PageId,
        base: PageBuf,
        parts: &Parts,
        wanted: Lsn,
    ) -> Result<PageBuf, String> {
        let mut whole = base;
        let found = checksum::lsn_of(whole.bytes());
        let log = &self.core.log;
        if let Some(gap) = log.gaps().at(found) {
            return Err(gap.lost(found));
        }
        if found >= log.insert_lsn() {
            return Err(format!("its LSN is {found}, behind the end of the log"));
        }
        let mut applier = Applier::new(&*self.core.manager, page, whole.bytes_mut());
        for part in &parts.0 {
            if !applier.has(part.lsn) {
                let applied = applier.part(part.lsn, &part.view(page));
                applied.map_err(|error| error.to_string())?;
            }
        }
        let has = checksum::lsn_of(whole.bytes());
        if has < wanted {
            return Err(format!(
                "it has changes up to {has}, and lacks some up to {wanted}"
            ));
        }
        Ok(whole)
    }
}
