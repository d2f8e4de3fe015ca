//! Reading the log: in large pieces, record by record, until it ends.

mod kept;
mod passage;
mod search;

use std::sync::Arc;

use evenkeel_io::{Disk, File, IoErrorKind, OpenOptions};

use crate::error::{StorageError, StorageResult};
use crate::gaps::Gaps;
use crate::ids::Lsn;
use crate::record::{Incarnation, RecordFault, RecordKind, RecordView};
use crate::wal::layout::SegmentLayout;
pub(crate) use kept::KeptLog;

/// Bytes read at once.
const PIECE: usize = 2 << 20;

/// Where and why the valid log ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogEnd {
    /// First position without a valid record.
    pub lsn: Lsn,
    /// The fault found there; `None`: not all of it is in segment files, or it reaches into a gap.
    pub fault: Option<RecordFault>,
}

/// Reads records from a position on. The record at hand borrows the reader.
pub struct LogReader {
    disk: Arc<dyn Disk>,
    layout: SegmentLayout,
    incarnation: u64,
    /// Position of the next record.
    position: Lsn,
    buffer: Vec<u8>,
    /// Bytes of the buffer that are of the log.
    filled: usize,
    /// Position of the buffer's first byte.
    buffer_start: u64,
    file: Option<(u64, Arc<dyn File>)>,
    end: Option<LogEnd>,
    /// Where there is no log: passed over unread.
    gaps: Gaps,
    /// Log that was read, for a caller that reads the records again.
    kept: Option<KeptLog>,
}

impl LogReader {
    /// A reader of the log from the record boundary `start` on, whose records have
    /// `incarnation` until a record announces the next one. `gaps` are passed over.
    #[must_use]
    pub fn new(
        disk: Arc<dyn Disk>,
        layout: SegmentLayout,
        (start, incarnation): (Lsn, u64),
        gaps: &Gaps,
    ) -> Self {
        LogReader {
            disk,
            layout,
            incarnation,
            position: start,
            buffer: Vec::new(),
            filled: 0,
            buffer_start: start.0,
            file: None,
            end: None,
            gaps: gaps.clone(),
            kept: None,
        }
    }

    /// Keeps what is read from here on in memory, up to about `most` bytes.
    pub(crate) fn keep(&mut self, most: usize) {
        self.kept = Some(KeptLog::new(most));
    }

    /// Takes the log that was kept, with the rest of the bytes in memory.
    pub(crate) fn take_kept(&mut self) -> Option<KeptLog> {
        let at = (self.position.0 - self.buffer_start) as usize;
        self.leave_behind(at.min(self.filled));
        self.buffer_start = self.position.0;
        self.kept.take()
    }

    /// Another reader of the same log, from the current position on.
    #[must_use]
    pub fn clone_at_position(&self) -> LogReader {
        let (disk, layout) = (Arc::clone(&self.disk), self.layout.clone());
        let start = (self.position, self.incarnation);
        LogReader::new(disk, layout, start, &self.gaps)
    }

    /// Incarnation of the records at the current position.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Position of the next record.
    #[must_use]
    pub fn position(&self) -> Lsn {
        self.position
    }

    /// The gaps of the log, those included that this reader has learned of from the log.
    #[must_use]
    pub fn gaps(&self) -> &Gaps {
        &self.gaps
    }

    /// Where the log ended, once [`LogReader::next_record`] returned `None`.
    #[must_use]
    pub fn end(&self) -> Option<LogEnd> {
        self.end
    }

    /// The next valid record; `None` at the end of the log.
    ///
    /// # Errors
    /// When a segment that exists cannot be read, and [`StorageError::UnknownRecord`] for a valid
    /// record that this program does not know (WAL-16).
    pub fn next_record(&mut self) -> StorageResult<Option<RecordView<'_>>> {
        if self.end.is_some() {
            return Ok(None);
        }
        self.pass_gap();
        let mut found = self.find_record()?;
        if found.is_err() && self.pass_announced_gap()? {
            found = self.find_record()?;
        }
        let lsn = self.position;
        let shape = match found {
            Ok(shape) => shape,
            Err(fault) => {
                self.end = Some(LogEnd { lsn, fault });
                return Ok(None);
            }
        };
        let at = (lsn.0 - self.buffer_start) as usize;
        let record = RecordView::of_shape(&self.buffer[at..], lsn, shape);
        if record.kind() == RecordKind::INCARNATION {
            self.incarnation = announcement(&record)?.incarnation;
        }
        self.position = record.end();
        Ok(Some(record))
    }

    /// The shape of the valid record at the current position, or why there is none; no fault: not
    /// all of it is there.
    fn find_record(&mut self) -> StorageResult<Result<(usize, usize), Option<RecordFault>>> {
        let lsn = self.position;
        let mut need = 8;
        loop {
            let have = self.fill(need)?;
            let at = (lsn.0 - self.buffer_start) as usize;
            let bytes = &self.buffer[at..self.filled];
            match RecordView::parse(bytes, lsn, self.incarnation) {
                Ok(record) => {
                    let fits = self.fits_gaps(&record)?;
                    return Ok(fits.map(|()| record.shape()));
                }
                Err(RecordFault::Short(more)) if have && more > need => need = more,
                Err(RecordFault::Short(_)) => return Ok(Err(None)),
                Err(RecordFault::Unknown(unknown)) => {
                    let what = unknown.to_string();
                    return Err(StorageError::UnknownRecord { lsn, what });
                }
                Err(fault) => return Ok(Err(Some(fault))),
            }
        }
    }

    /// Makes `need` bytes from the current position available, if the log has them. Returns
    /// whether it does.
    fn fill(&mut self, need: usize) -> StorageResult<bool> {
        self.fill_within(need, u64::MAX)
    }

    /// As [`LogReader::fill`], reading beyond `to` only what is needed.
    fn fill_within(&mut self, need: usize, to: u64) -> StorageResult<bool> {
        let at = (self.position.0 - self.buffer_start) as usize;
        if self.filled >= at + need {
            return Ok(true);
        }
        self.leave_behind(at.min(self.filled));
        self.buffer_start = self.position.0;
        while self.filled < need {
            let from = self.buffer_start + self.filled as u64;
            let piece = to.saturating_sub(from).min(PIECE as u64) as usize;
            let want = piece.max(need - self.filled);
            if self.read_more(want)? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Lets go of the first `at` bytes of the buffer, whole records, or keeps them.
    fn leave_behind(&mut self, at: usize) {
        let left = self.filled - at;
        let is_kept = self
            .kept
            .as_ref()
            .is_some_and(|kept| at > 0 && kept.has_room(at));
        if is_kept {
            // Zeroed by the system as it is filled.
            let mut next = vec![0; left + PIECE];
            next[..left].copy_from_slice(&self.buffer[at..self.filled]);
            let mut piece = std::mem::replace(&mut self.buffer, next);
            piece.truncate(at);
            if let Some(kept) = &mut self.kept {
                kept.push(Lsn(self.buffer_start), piece);
            }
        } else {
            if at > 0
                && let Some(kept) = &mut self.kept
            {
                kept.close();
            }
            self.buffer.copy_within(at..self.filled, 0);
        }
        self.filled = left;
    }

    /// The file of a segment, kept open until another one is asked for.
    fn segment_file(&mut self, segment: u64) -> StorageResult<Option<Arc<dyn File>>> {
        if self.file.as_ref().is_none_or(|(open, _)| *open != segment) {
            self.file = open_segment(self.disk.as_ref(), &self.layout, segment)?
                .map(|file| (segment, file));
        }
        Ok(self.file.as_ref().map(|(_, file)| Arc::clone(file)))
    }

    /// Appends up to `want` bytes, of one segment, to the buffer.
    fn read_more(&mut self, want: usize) -> StorageResult<usize> {
        let from = self.buffer_start + self.filled as u64;
        let segment = from / self.layout.size;
        let offset = from % self.layout.size;
        let Some(file) = self.segment_file(segment)? else {
            return Ok(0);
        };
        let len = want.min((self.layout.size - offset) as usize);
        let end = self.filled + len;
        if self.buffer.len() < end {
            self.buffer.resize(end, 0);
        }
        let got = file.read_at(&mut self.buffer[self.filled..end], offset)?;
        self.filled += got;
        Ok(got)
    }
}

/// The content of an `INCARNATION` record.
fn announcement(record: &RecordView<'_>) -> StorageResult<Incarnation> {
    Incarnation::decode(record.payload()).map_err(|error| StorageError::UnknownRecord {
        lsn: record.lsn(),
        what: format!("announcement of an incarnation ({error})"),
    })
}

pub(crate) fn open_segment(
    disk: &dyn Disk,
    layout: &SegmentLayout,
    segment: u64,
) -> StorageResult<Option<Arc<dyn File>>> {
    match disk.open(&layout.path(segment), OpenOptions::read_only()) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == IoErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Reads bytes of the log as they are, without looking at records.
///
/// # Errors
/// When they are not all there.
pub fn read_raw(
    disk: &dyn Disk,
    layout: &SegmentLayout,
    at: Lsn,
    mut out: &mut [u8],
) -> StorageResult<()> {
    let mut at = at.0;
    while !out.is_empty() {
        let offset = at % layout.size;
        let now = out.len().min((layout.size - offset) as usize);
        let file = disk.open(&layout.path(at / layout.size), OpenOptions::read_only())?;
        let (head, rest) = out.split_at_mut(now);
        file.read_exact_at(head, offset)?;
        out = rest;
        at += now as u64;
    }
    Ok(())
}
