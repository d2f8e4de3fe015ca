//! Reading the log: in large pieces, record by record, until it ends.

mod ahead;
mod passage;
mod search;

use std::sync::Arc;

use evenkeel_io::{Disk, File, IoErrorKind, OpenOptions};

use crate::error::{StorageError, StorageResult};
use crate::gaps::Gaps;
use crate::ids::Lsn;
use crate::record::{Incarnation, RecordFault, RecordKind, RecordView};
use crate::wal::layout::SegmentLayout;
use ahead::ReadAhead;

/// Bytes read at once. Tests have many pieces in a short log.
const PIECE: usize = if cfg!(test) { 16 << 10 } else { 2 << 20 };

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
    /// Bytes at the buffer's beginning that mean nothing.
    begin: usize,
    /// A thread that reads ahead, for a caller that wants the log up to its end.
    ahead: Option<ReadAhead>,
    /// Bytes that are read before one is started; `None`: never.
    ahead_after: Option<usize>,
    file: Option<(u64, Arc<dyn File>)>,
    end: Option<LogEnd>,
    /// Where there is no log: passed over unread.
    gaps: Gaps,
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
            begin: 0,
            ahead: None,
            ahead_after: None,
            file: None,
            end: None,
            gaps: gaps.clone(),
        }
    }

    /// Has a thread read ahead, once the log has turned out to be longer than one piece.
    pub(crate) fn read_ahead(&mut self) {
        self.ahead_after = Some(PIECE);
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
        loop {
            let at = (self.position.0 - self.buffer_start) as usize;
            if self.filled >= at + need {
                return Ok(true);
            }
            if self.take_piece() {
                continue;
            }
            let from = self.buffer_start + self.filled as u64;
            let piece = to.saturating_sub(from).min(PIECE as u64) as usize;
            let want = piece.max(at + need - self.filled);
            if self.read_more(want)? == 0 {
                return Ok(false);
            }
        }
    }

    /// Appends the next piece that was read ahead to the buffer, if there is one.
    fn take_piece(&mut self) -> bool {
        let from = self.buffer_start + self.filled as u64;
        if self.ahead.is_none() && self.ahead_after == Some(0) {
            self.ahead = ReadAhead::start(&self.disk, &self.layout, from);
            self.ahead_after = None;
        }
        let piece = self.ahead.as_mut().and_then(|ahead| ahead.take(from));
        let Some(piece) = piece else {
            self.ahead = None;
            return false;
        };
        let len = piece.len();
        match piece.behind(&self.buffer[self.begin..self.filled]) {
            Ok((buffer, begin)) => {
                self.buffer_start += self.begin as u64;
                self.buffer_start -= begin as u64;
                self.filled = buffer.len();
                self.begin = begin;
                let used = std::mem::replace(&mut self.buffer, buffer);
                if let Some(ahead) = &self.ahead {
                    ahead.give_back(used);
                }
            }
            Err(piece) => {
                self.buffer.truncate(self.filled);
                self.buffer.extend_from_slice(piece.bytes());
                self.filled += len;
            }
        }
        true
    }

    /// Lets go of the first `at` bytes of the buffer.
    fn leave_behind(&mut self, at: usize) {
        self.buffer.copy_within(at..self.filled, 0);
        self.begin = 0;
        self.filled -= at;
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
        self.ahead_after = self.ahead_after.map(|left| left.saturating_sub(got));
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
