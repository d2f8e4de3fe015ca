//! Passing over the log's gaps.

use super::{LogReader, announcement};
use crate::error::StorageResult;
use crate::gaps::Gap;
use crate::ids::Lsn;
use crate::record::{RecordFault, RecordKind, RecordView};

impl LogReader {
    /// Whether there may be records before `end`, which a reader of the same log has found to be
    /// its end.
    pub(crate) fn is_before(&mut self, end: Lsn) -> bool {
        // That one may have come to the end of a gap that nothing follows.
        self.pass_gap();
        self.position < end
    }

    /// Goes on behind the gap that the current position lies in. The segments of the gap are not
    /// read (GAP-3).
    pub(super) fn pass_gap(&mut self) {
        if let Some(gap) = self.gaps.at(self.position) {
            self.go_on_at(gap.end);
        }
    }

    fn go_on_at(&mut self, position: Lsn) {
        let at = (self.position.0 - self.buffer_start) as usize;
        self.leave_behind(at.min(self.filled));
        self.filled = 0;
        self.buffer_start = position.0;
        self.position = position;
    }

    /// Whether a valid record at the current position agrees with the gaps: it does not reach into
    /// one, and one that announces an incarnation says where the log before it ended, which behind
    /// a gap it must (GAP-2).
    pub(super) fn fits_gaps(
        &self,
        record: &RecordView<'_>,
    ) -> StorageResult<Result<(), Option<RecordFault>>> {
        let lsn = record.lsn();
        if self.gaps.begins_within(lsn, record.end()) {
            return Ok(Err(None));
        }
        let before = self.gaps.before(lsn);
        if record.kind() != RecordKind::INCARNATION {
            let fits = before.is_none();
            return Ok(fits.then_some(()).ok_or(Some(RecordFault::Structure)));
        }
        let old_end = announcement(record)?.old_end;
        let fits = old_end == before.map_or(lsn, |gap| gap.start);
        Ok(fits.then_some(()).ok_or(Some(RecordFault::Structure)))
    }

    /// Looks for a segment that begins with the announcement of an incarnation behind records that
    /// end at the current position, and passes the gap before it. The control file names the newest
    /// gaps only; an older one behind the redo point is known by this (GAP-6).
    ///
    /// # Errors
    /// When the directory cannot be listed, or a segment that exists cannot be read.
    pub(super) fn pass_announced_gap(&mut self) -> StorageResult<bool> {
        let end = self.position;
        if self.gaps.before(end).is_some() {
            return Ok(false);
        }
        let here = self.layout.segment_of(end);
        let segments = self.layout.list(self.disk.as_ref())?;
        for segment in segments.into_iter().filter(|segment| *segment > here) {
            let start = self.layout.start_of(segment);
            if self.announces(start, end)? {
                self.gaps.add(Gap {
                    start: end,
                    end: start,
                });
                self.pass_gap();
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the record at the start of a segment announces an incarnation behind a log that
    /// ended at `end`.
    fn announces(&mut self, start: Lsn, end: Lsn) -> StorageResult<bool> {
        /// More than the record takes.
        const HEAD: usize = 256;
        let Some(file) = self.segment_file(self.layout.segment_of(start))? else {
            return Ok(false);
        };
        let mut head = [0; HEAD];
        let got = file.read_at(&mut head, 0)?;
        let Ok(record) = RecordView::parse(&head[..got], start, self.incarnation) else {
            return Ok(false);
        };
        let announces = record.kind() == RecordKind::INCARNATION;
        Ok(announces && announcement(&record)?.old_end == end)
    }
}
