//! Records of the log by position, for who has seen that they are there.

use std::collections::HashMap;
use std::sync::Arc;

use evenkeel_io::{Disk, File};
use parking_lot::RwLock;

use crate::error::{StorageError, StorageResult};
use crate::ids::Lsn;
use crate::record::{PartView, RecordFault, RecordView};
use crate::wal::SegmentLayout;
use crate::wal::reader::open_segment;

/// Bytes of a read from a file, for a record of unknown length.
const PROBE: usize = 1024;

/// Segments that are open at once.
const MOST_FILES: usize = 16;

/// The log between the redo point and its end.
pub(super) struct Records {
    disk: Arc<dyn Disk>,
    layout: SegmentLayout,
    /// Position from which each incarnation's records lie, oldest first.
    incarnations: Vec<(Lsn, u64)>,
    files: RwLock<HashMap<u64, Arc<dyn File>>>,
}

impl Records {
    pub(super) fn new(
        disk: &Arc<dyn Disk>,
        layout: &SegmentLayout,
        incarnations: Vec<(Lsn, u64)>,
    ) -> Records {
        Records {
            disk: Arc::clone(disk),
            layout: layout.clone(),
            incarnations,
            files: RwLock::default(),
        }
    }

    /// The part at `offset` of the record at `lsn`, read into `scratch`.
    ///
    /// # Errors
    /// When the log cannot be read, or the record is not what it was.
    #[cold]
    pub(super) fn part<'a>(
        &self,
        lsn: Lsn,
        offset: usize,
        scratch: &'a mut Vec<u8>,
    ) -> StorageResult<PartView<'a>> {
        self.read(lsn, scratch)?;
        PartView::at(scratch, offset).ok_or_else(|| gone(lsn))
    }

    fn read(&self, lsn: Lsn, scratch: &mut Vec<u8>) -> StorageResult<()> {
        let at = self
            .incarnations
            .partition_point(|(start, _)| *start <= lsn);
        let incarnation = self.incarnations.get(at.saturating_sub(1));
        let incarnation = incarnation.map_or(0, |(_, incarnation)| *incarnation);
        scratch.clear();
        let mut want = PROBE;
        loop {
            let more = evenkeel_io::blocking(|| self.read_on(lsn, scratch, want))?;
            match RecordView::parse(scratch, lsn, incarnation).map(|_| ()) {
                Ok(()) => return Ok(()),
                Err(RecordFault::Short(need)) if more && need > scratch.len() => want = need,
                Err(_) => return Err(gone(lsn)),
            }
        }
    }

    /// Reads on to `want` bytes from `lsn`, over the borders of segments. Returns whether there
    /// was more.
    fn read_on(&self, lsn: Lsn, out: &mut Vec<u8>, want: usize) -> StorageResult<bool> {
        let before = out.len();
        while out.len() < want {
            let at = lsn.0 + out.len() as u64;
            let (segment, offset) = (at / self.layout.size, at % self.layout.size);
            let Some(file) = self.file(segment)? else {
                break;
            };
            let left = usize::try_from(self.layout.size - offset).unwrap_or(usize::MAX);
            let start = out.len();
            out.resize(start + left.min(want - start), 0);
            let got = file.read_at(&mut out[start..], offset)?;
            out.truncate(start + got);
            if got == 0 {
                break;
            }
        }
        Ok(out.len() > before)
    }

    fn file(&self, segment: u64) -> StorageResult<Option<Arc<dyn File>>> {
        if let Some(file) = self.files.read().get(&segment) {
            return Ok(Some(Arc::clone(file)));
        }
        let file = open_segment(self.disk.as_ref(), &self.layout, segment)?;
        if let Some(file) = &file {
            let mut files = self.files.write();
            if files.len() >= MOST_FILES {
                files.clear();
            }
            files.insert(segment, Arc::clone(file));
        }
        Ok(file)
    }
}

fn gone(lsn: Lsn) -> StorageError {
    StorageError::Redo {
        lsn,
        page: None,
        reason: "the record was valid a moment ago".into(),
    }
}
