//! Reading the log: in large pieces, record by record, until it ends.

use std::sync::Arc;

use evenkeel_io::{Disk, File, IoErrorKind, OpenOptions};

use crate::error::{StorageError, StorageResult};
use crate::ids::Lsn;
use crate::wal::record::{
    ALIGN, FieldReader, HEADER_LEN, MAX_RECORD, RecordFault, RecordKind, RecordView,
};
use crate::wal::segments::SegmentLayout;

/// Bytes read at once.
const PIECE: usize = 2 << 20;

/// Where and why the valid log ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogEnd {
    /// First position without a valid record.
    pub lsn: Lsn,
    /// What is there instead; `None`: the segment file is missing.
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
    /// Position of the buffer's first byte.
    buffer_start: u64,
    file: Option<(u64, Arc<dyn File>)>,
    end: Option<LogEnd>,
}

impl LogReader {
    /// A reader of the log from the record boundary `start` on, whose records have
    /// `incarnation` until a record announces the next one.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, layout: SegmentLayout, start: Lsn, incarnation: u64) -> Self {
        LogReader {
            disk,
            layout,
            incarnation,
            position: start,
            buffer: Vec::new(),
            buffer_start: start.0,
            file: None,
            end: None,
        }
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

    /// Where the log ended, once [`LogReader::next_record`] returned `None`.
    #[must_use]
    pub fn end(&self) -> Option<LogEnd> {
        self.end
    }

    /// The next valid record; `None` at the end of the log.
    ///
    /// # Errors
    /// When a segment that exists cannot be read.
    pub fn next_record(&mut self) -> StorageResult<Option<RecordView<'_>>> {
        if self.end.is_some() {
            return Ok(None);
        }
        let lsn = self.position;
        let mut need = 8;
        loop {
            let have = self.fill(need)?;
            let at = (lsn.0 - self.buffer_start) as usize;
            let fault = match RecordView::parse(&self.buffer[at..], lsn, self.incarnation) {
                Ok(_) => break,
                Err(RecordFault::Short(more)) if have && more > need => {
                    need = more;
                    continue;
                }
                Err(RecordFault::Short(_)) => None,
                Err(fault) => Some(fault),
            };
            self.end = Some(LogEnd { lsn, fault });
            return Ok(None);
        }
        let at = (lsn.0 - self.buffer_start) as usize;
        let record = match RecordView::parse_unverified(&self.buffer[at..], lsn) {
            Ok(record) => record,
            Err(fault) => {
                self.end = Some(LogEnd {
                    lsn,
                    fault: Some(fault),
                });
                return Ok(None);
            }
        };
        self.position = record.end();
        if record.kind() == RecordKind::INCARNATION {
            self.incarnation =
                FieldReader::new(record.payload())
                    .u64()
                    .map_err(|error| StorageError::Redo {
                        lsn,
                        page: None,
                        reason: error.to_string(),
                    })?;
        }
        Ok(Some(record))
    }

    /// Has a good deal of the log behind the current position in memory, for who looks ahead.
    /// Returns whether there may be more of it.
    ///
    /// # Errors
    /// When a segment that exists cannot be read.
    pub fn read_on(&mut self) -> StorageResult<bool> {
        self.fill(PIECE / 2)
    }

    /// The record at `at`, if it is in memory: for who looks ahead in a log that was read
    /// before, since nothing of it is verified. `at` is the end of a record seen before, or the
    /// current position.
    #[must_use]
    pub fn peek(&self, at: Lsn) -> Option<RecordView<'_>> {
        let offset = at.0.checked_sub(self.buffer_start)?;
        let bytes = self.buffer.get(usize::try_from(offset).ok()?..)?;
        RecordView::parse_unverified(bytes, at).ok()
    }

    /// Makes `need` bytes from the current position available, if the log has them. Returns
    /// whether it does.
    fn fill(&mut self, need: usize) -> StorageResult<bool> {
        let mut at = (self.position.0 - self.buffer_start) as usize;
        if self.buffer.len() >= at + need {
            return Ok(true);
        }
        if at > self.buffer.len() {
            self.buffer.clear();
        } else {
            self.buffer.drain(..at);
        }
        self.buffer_start = self.position.0;
        at = self.buffer.len();
        while at < need {
            let want = PIECE.max(need - at);
            let got = self.read_more(want)?;
            if got == 0 {
                return Ok(false);
            }
            at = self.buffer.len();
        }
        Ok(true)
    }

    /// Appends up to `want` bytes, of one segment, to the buffer.
    fn read_more(&mut self, want: usize) -> StorageResult<usize> {
        let from = self.buffer_start + self.buffer.len() as u64;
        let segment = from / self.layout.size;
        let offset = from % self.layout.size;
        if self.file.as_ref().is_none_or(|(open, _)| *open != segment) {
            self.file = open_segment(self.disk.as_ref(), &self.layout, segment)?
                .map(|file| (segment, file));
        }
        let Some((_, file)) = &self.file else {
            return Ok(0);
        };
        let len = want.min((self.layout.size - offset) as usize);
        let start = self.buffer.len();
        self.buffer.resize(start + len, 0);
        let got = file.read_at(&mut self.buffer[start..], offset)?;
        self.buffer.truncate(start + got);
        Ok(got)
    }

    /// Looks behind the end for a record of the incarnation that ended there, within `reach`
    /// bytes, that says the log was durable beyond the end: `(its LSN, durable up to)`. Such a
    /// record proves damage: the log did not just end. The reader stays behind where it looked.
    ///
    /// # Errors
    /// When a segment that exists cannot be read.
    pub fn find_proof_of_damage(&mut self, reach: u64) -> StorageResult<Option<(Lsn, Lsn)>> {
        let end = self.position;
        let limit = end.0.saturating_add(reach);
        self.position.0 += ALIGN as u64;
        while self.position.0 < limit {
            if !self.fill(HEADER_LEN)? {
                if !self.go_to_next_segment()? {
                    break;
                }
                continue;
            }
            match self.next_candidate(end) {
                Some(lsn) => {
                    self.position = lsn;
                    if let Some(durable) = self.check_candidate()? {
                        return Ok((lsn.0 < limit).then_some((lsn, durable)));
                    }
                    self.position.0 += ALIGN as u64;
                }
                None => {
                    let rest = self.buffer.len() - self.buffer.len() % ALIGN;
                    let next = self.buffer_start + (rest - (HEADER_LEN - ALIGN)) as u64;
                    self.position = Lsn(next.max(self.position.0 + ALIGN as u64));
                }
            }
        }
        Ok(None)
    }

    /// First position in the buffer, from the current one on, whose header could be that of a
    /// record that claims durability beyond `end`. Nearly all positions are ruled out here.
    fn next_candidate(&self, end: Lsn) -> Option<Lsn> {
        let from = (self.position.0 - self.buffer_start) as usize;
        let offsets = (from..(self.buffer.len() + 1).saturating_sub(HEADER_LEN)).step_by(ALIGN);
        for at in offsets {
            let head = &self.buffer[at..at + HEADER_LEN];
            let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
            if !(HEADER_LEN..=MAX_RECORD).contains(&len) {
                continue;
            }
            let mut durable = [0; 8];
            durable.copy_from_slice(&head[16..24]);
            let durable = u64::from_le_bytes(durable);
            let lsn = self.buffer_start + at as u64;
            if durable > end.0 && durable <= lsn {
                return Some(Lsn(lsn));
            }
        }
        None
    }

    /// What the record at the current position says was durable, if there is a valid one.
    fn check_candidate(&mut self) -> StorageResult<Option<Lsn>> {
        let mut need = HEADER_LEN;
        loop {
            let have = self.fill(need)?;
            let at = (self.position.0 - self.buffer_start) as usize;
            match RecordView::parse(&self.buffer[at..], self.position, self.incarnation) {
                Ok(record) => return Ok(Some(record.durable())),
                Err(RecordFault::Short(more)) if have && more > need => need = more,
                Err(_) => return Ok(None),
            }
        }
    }

    /// Goes to the start of the next segment that exists; `false` when there is none.
    fn go_to_next_segment(&mut self) -> StorageResult<bool> {
        let segment = self.layout.segment_of(self.position);
        let next = self
            .layout
            .list(self.disk.as_ref())?
            .into_iter()
            .find(|&s| s > segment);
        let Some(next) = next else { return Ok(false) };
        self.position = self.layout.start_of(next);
        self.buffer.clear();
        self.buffer_start = self.position.0;
        Ok(true)
    }
}

fn open_segment(
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
