//! What recovery learns of transactions from the log.

use std::collections::{BTreeMap, HashMap, HashSet};

use evenkeel_storage::{ApplyError, FileId, Lsn, RecordKind, RecordView};

use super::record::{self, Ending};
use crate::status::{PageNumber, Stamp, StatusBits, StatusPageImage, place_of};
use crate::types::Xid;

/// Collected while the log is read; put into effect once the store is open.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    /// The highest id seen, plus one; zero if none was.
    next: u64,
    /// Outcomes by status page: at most two bits per id since the redo point.
    pages: BTreeMap<PageNumber, StatusPageImage>,
    /// When transactions committed, in log order, if that is tracked.
    stamps: Vec<Stamp>,
    track_stamps: bool,
    first: Option<Lsn>,
    created: HashMap<FileId, Xid>,
    committed_creators: HashSet<Xid>,
    to_drop: HashSet<FileId>,
}

/// What is left to do when the store is open.
pub(crate) struct Recovered {
    pub(crate) next: Xid,
    pub(crate) pages: BTreeMap<PageNumber, StatusPageImage>,
    pub(crate) stamps: Vec<Stamp>,
    /// Files of transactions that did not commit, and files that committed ones dropped.
    pub(crate) to_drop: Vec<FileId>,
}

impl Recovery {
    pub(crate) fn new(track_stamps: bool) -> Recovery {
        Recovery {
            track_stamps,
            ..Recovery::default()
        }
    }

    pub(crate) fn seen(&mut self, xid: Xid) {
        self.next = self.next.max(xid.get() + 1);
    }

    pub(crate) fn next_xid(&self) -> Xid {
        Xid::new(self.next.max(Xid::FIRST.get()))
    }

    pub(crate) fn redo_floor(&self) -> Option<Lsn> {
        self.first
    }

    pub(crate) fn file_created(&mut self, file: FileId, xid: Xid) {
        self.seen(xid);
        self.created.insert(file, xid);
    }

    pub(crate) fn file_dropped(&mut self, file: FileId) {
        self.created.remove(&file);
        self.to_drop.remove(&file);
    }

    pub(crate) fn replayed(&mut self, record: &RecordView<'_>) -> Result<(), ApplyError> {
        let xid = Xid::new(record.xid());
        if xid.is_normal() {
            self.seen(xid);
        }
        let bits = match record.kind() {
            record::COMMIT => StatusBits::Committed,
            record::ABORT => StatusBits::Aborted,
            RecordKind::PAGES => return Ok(()),
            kind => {
                let text = format!("record kind {} at {} is unknown", kind.0, record.lsn());
                return Err(ApplyError::new(text));
            }
        };
        let ending = Ending::decode(xid, record.payload())?;
        self.first.get_or_insert(record.lsn());
        self.decide(xid, bits, record.lsn());
        for xid in &ending.subxids {
            self.seen(*xid);
            self.decide(*xid, bits, record.lsn());
        }
        if bits == StatusBits::Committed {
            if self.track_stamps {
                let ids = [xid].into_iter().chain(ending.subxids.iter().copied());
                let stamps = ids.map(|xid| (xid, ending.time_micros, record.lsn()));
                self.stamps.extend(stamps);
            }
            self.committed_creators.insert(xid);
            self.to_drop.extend(ending.dropped);
        }
        Ok(())
    }

    fn decide(&mut self, xid: Xid, bits: StatusBits, lsn: Lsn) {
        let (page, place) = place_of(xid);
        self.pages.entry(page).or_default().set(place, bits, lsn);
    }

    /// Ends the collection. The redo floor stays until [`Recovery::applied`].
    pub(crate) fn take(&mut self) -> Recovered {
        let mut to_drop: Vec<FileId> = self.to_drop.drain().collect();
        let committed = std::mem::take(&mut self.committed_creators);
        let lost = self
            .created
            .drain()
            .filter(|(_, xid)| !committed.contains(xid));
        to_drop.extend(lost.map(|(file, _)| file));
        to_drop.sort_unstable_by_key(|file| file.0);
        to_drop.dedup();
        let pages = std::mem::take(&mut self.pages);
        Recovered {
            next: self.next_xid(),
            pages,
            stamps: std::mem::take(&mut self.stamps),
            to_drop,
        }
    }

    /// The status pages have it all.
    pub(crate) fn applied(&mut self) {
        self.first = None;
    }
}
