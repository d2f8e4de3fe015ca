//! The state of transactions as recovery learns it from the log.

use std::collections::{BTreeMap, HashMap};

use evenkeel_storage::{ApplyError, FileId, Lsn, RecordKind, RecordView};

use super::record::{self, Ending};
use super::running::Running;
use crate::status::{PageNumber, Stamp, StatusBits, StatusPageImage, place_of};
use crate::types::Xid;

/// Collected while the log is read; put into effect once the store is open.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    /// The highest id seen, plus one; zero if none was.
    next: u64,
    /// The newest commit seen.
    newest_commit: Lsn,
    /// Every id below was decided, as the log has announced.
    floor: Xid,
    /// The first id whose status is kept, as far as the log has announced.
    oldest_status: Xid,
    /// Outcomes by status page: at most two bits per id since the redo point.
    pages: BTreeMap<PageNumber, StatusPageImage>,
    first: Option<Lsn>,
    created: HashMap<FileId, Xid>,
    /// Files to be dropped, each with the commit that says so.
    to_drop: HashMap<FileId, Lsn>,
}

/// When the transactions committed that a record commits, if it is one that does.
///
/// # Errors
/// When its payload is damaged.
pub(crate) fn stamps_of(record: &RecordView<'_>) -> Result<Vec<Stamp>, ApplyError> {
    if record.kind() != record::COMMIT {
        return Ok(Vec::new());
    }
    let xid = Xid::new(record.xid());
    let ending = Ending::decode(xid, record.payload())?;
    let ids = std::iter::once(xid).chain(ending.subxids);
    Ok(ids
        .map(|xid| (xid, ending.time_micros, record.lsn()))
        .collect())
}

/// Work that is left to do when the store is open.
pub(crate) struct Recovered {
    pub(crate) next: Xid,
    pub(crate) pages: BTreeMap<PageNumber, StatusPageImage>,
    /// The newest commit.
    pub(crate) newest_commit: Lsn,
    /// The first id whose status is kept, as far as the log has announced.
    pub(crate) oldest_status: Xid,
    /// Files of transactions that did not commit, and files that committed ones dropped, with
    /// that commit.
    pub(crate) to_drop: BTreeMap<FileId, Lsn>,
}

impl Recovery {
    pub(crate) fn seen(&mut self, xid: Xid) {
        self.next = self.next.max(xid.get() + 1);
    }

    /// A commit lies at `lsn`.
    pub(crate) fn committed(&mut self, lsn: Lsn) {
        self.newest_commit = self.newest_commit.max(lsn);
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
            record::RUNNING => {
                self.announced(&Running::decode(record.payload())?);
                return Ok(());
            }
            record::LOCKS => return record::decode_locks(record.payload()).map(|_| ()),
            kind => {
                let text = format!("record kind {} at {} is unknown", kind.0, record.lsn());
                return Err(ApplyError::new(text));
            }
        };
        let ending = Ending::decode(xid, record.payload())?;
        if bits == StatusBits::Committed && xid < self.floor {
            // Aborted by default is what is below the announced floor, and nothing else is.
            let text = format!(
                "transaction {xid} commits at {} though all below {} were announced as decided",
                record.lsn(),
                self.floor
            );
            return Err(ApplyError::new(text));
        }
        self.floor = self.floor.max(ending.floor);
        self.first.get_or_insert(record.lsn());
        self.decide(xid, bits, record.lsn());
        for xid in &ending.subxids {
            self.seen(*xid);
            self.decide(*xid, bits, record.lsn());
        }
        for xid in &ending.aborted {
            self.seen(*xid);
            self.decide(*xid, StatusBits::Aborted, record.lsn());
        }
        if bits == StatusBits::Committed {
            self.committed(record.lsn());
            let dropped = ending.dropped.into_iter();
            self.to_drop
                .extend(dropped.map(|file| (file, record.lsn())));
        }
        Ok(())
    }

    /// The log has announced the state of all transactions.
    fn announced(&mut self, running: &Running) {
        self.next = self.next.max(running.next.get());
        self.floor = self.floor.max(running.floor);
        self.oldest_status = self.oldest_status.max(running.oldest_status);
        self.committed(running.newest_commit);
    }

    fn decide(&mut self, xid: Xid, bits: StatusBits, lsn: Lsn) {
        let (page, place) = place_of(xid);
        self.pages.entry(page).or_default().set(place, bits, lsn);
    }

    /// Ends the collection. The redo floor stays until [`Recovery::applied`].
    pub(crate) fn take(&mut self) -> Recovered {
        let mut to_drop: BTreeMap<FileId, Lsn> = self.to_drop.drain().collect();
        let pages = std::mem::take(&mut self.pages);
        // A file that is named here was open at the redo point or made behind it, so its maker's
        // commit, if there is one, lies behind it, too.
        let has_committed = |xid: Xid| {
            let (page, place) = place_of(xid);
            pages
                .get(&page)
                .is_some_and(|page| page.has_committed(place))
        };
        let lost = self.created.drain();
        for (file, _) in lost.filter(|(_, xid)| !has_committed(*xid)) {
            to_drop.entry(file).or_insert(Lsn::ZERO);
        }
        Recovered {
            next: self.next_xid(),
            pages,
            newest_commit: self.newest_commit,
            oldest_status: self.oldest_status,
            to_drop,
        }
    }

    /// The status pages have it all.
    pub(crate) fn applied(&mut self) {
        self.first = None;
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_storage::record::{RecordBuilder, completion_mark};

    use super::*;

    fn replay(
        recovery: &mut Recovery,
        lsn: u64,
        kind: RecordKind,
        xid: u64,
        payload: &[u8],
    ) -> Result<(), ApplyError> {
        let mut record = RecordBuilder::new(Vec::new(), xid);
        record.payload(kind, payload);
        let crc = record.seal(Lsn::ZERO);
        let len = record.len();
        let mut bytes = record.into_buffer();
        let mark = completion_mark(Lsn(lsn), 1, len as u32, crc);
        bytes[..8].copy_from_slice(&mark.to_le_bytes());
        recovery.replayed(&RecordView::parse(&bytes, Lsn(lsn), 1).unwrap())
    }

    fn ending(xid: u64, floor: u64) -> Vec<u8> {
        let ending = Ending {
            floor: Xid::new(floor),
            ..Ending::default()
        };
        ending.encode(Xid::new(xid))
    }

    /// TXN-13: an id is aborted by default below the announced floor, so none commits there.
    #[test]
    fn a_commit_below_the_announced_floor_is_refused() {
        let running = Running {
            next: Xid::new(30),
            floor: Xid::new(20),
            ..Running::default()
        };
        let running = &running.encode()[0];
        let mut recovery = Recovery::default();
        replay(&mut recovery, 800, record::COMMIT, 9, &ending(9, 5)).unwrap();
        replay(&mut recovery, 880, record::COMMIT, 7, &ending(7, 5)).unwrap();
        // A transaction that rolled back is decided before its record is made.
        replay(&mut recovery, 960, record::RUNNING, 0, running).unwrap();
        replay(&mut recovery, 1040, record::ABORT, 8, &ending(8, 6)).unwrap();
        replay(&mut recovery, 1120, record::COMMIT, 25, &ending(25, 20)).unwrap();
        let error = replay(&mut recovery, 1200, record::COMMIT, 19, &ending(19, 19));
        assert!(error.unwrap_err().to_string().contains("all below 20"));
        let recovered = recovery.take();
        assert_eq!(
            (recovered.next, recovered.newest_commit),
            (Xid::new(30), Lsn(1120))
        );
    }

    /// TXN-14: a commit takes two bits, and the file of one that did not commit is found.
    #[test]
    fn analysis_keeps_two_bits_of_a_transaction() {
        const COUNT: u64 = 300_000;
        let mut recovery = Recovery::default();
        for xid in 3..COUNT {
            if xid.is_multiple_of(10_000) {
                recovery.file_created(FileId(xid), Xid::new(xid));
            }
            let kind = match xid.is_multiple_of(20_000) {
                true => record::ABORT,
                false => record::COMMIT,
            };
            replay(&mut recovery, xid * 80, kind, xid, &ending(xid, xid)).unwrap();
        }
        let ids_of_a_page = 4 * crate::status::PAGE_BYTES;
        assert_eq!(
            recovery.pages.len(),
            (COUNT as usize).div_ceil(ids_of_a_page)
        );
        assert_eq!(recovery.to_drop.len(), 0);
        let recovered = recovery.take();
        let lost: Vec<u64> = recovered.to_drop.keys().map(|file| file.0).collect();
        assert_eq!(lost, (1..15).map(|n| n * 20_000).collect::<Vec<_>>());
    }
}
