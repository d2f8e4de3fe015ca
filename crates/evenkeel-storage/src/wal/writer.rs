//! Writes the log's bytes to segment files, in whole blocks from aligned staging memory.

use std::sync::Arc;

use evenkeel_io::{AlignedBuf, File};

use crate::error::StorageResult;
use crate::ids::Lsn;
use crate::wal::layout::BLOCK;
use crate::wal::segments::Segments;

/// Most bytes written and synced at once, so that a commit behind a lot of log waits for no more
/// than this.
pub(crate) const CHUNK: usize = 1 << 20;

/// Staged bytes and the segment they go to. The staging memory starts with the part of the last
/// block that is already on disk, which is written again with what follows it.
pub(crate) struct LogWriter {
    segments: Arc<Segments>,
    staging: AlignedBuf,
    /// Position of the first staged byte; a multiple of [`BLOCK`].
    base: u64,
    staged: usize,
    file: Option<(u64, Arc<dyn File>)>,
    fsync: bool,
}

impl LogWriter {
    /// A writer that goes on at `at`. The bytes before `at` in its block are read from disk.
    pub(crate) fn new(segments: Arc<Segments>, at: Lsn, fsync: bool) -> StorageResult<LogWriter> {
        let base = at.0 & !(BLOCK as u64 - 1);
        let mut writer = LogWriter {
            segments,
            staging: AlignedBuf::zeroed(CHUNK + BLOCK),
            base,
            staged: (at.0 - base) as usize,
            file: None,
            fsync,
        };
        if writer.staged > 0 {
            let (file, offset) = writer.file_at(base)?;
            file.read_exact_at(&mut writer.staging[..BLOCK], offset)?;
        }
        Ok(writer)
    }

    /// Position behind the last staged byte.
    pub(crate) fn position(&self) -> Lsn {
        Lsn(self.base + self.staged as u64)
    }

    /// Bytes that can be staged before [`LogWriter::write_out`]. Filling all of it ends at a
    /// block boundary.
    pub(crate) fn room(&self) -> usize {
        let size = self.segments.layout().size;
        let in_segment = size - (self.base & (size - 1));
        (self.staging.len() as u64).min(in_segment) as usize - self.staged
    }

    /// The next `len` bytes of staging memory, to be filled by the caller.
    pub(crate) fn stage(&mut self, len: usize) -> &mut [u8] {
        let start = self.staged;
        self.staged += len;
        &mut self.staging[start..start + len]
    }

    fn file_at(&mut self, at: u64) -> StorageResult<(Arc<dyn File>, u64)> {
        let size = self.segments.layout().size;
        let segment = at / size;
        if let Some((open, file)) = &self.file
            && *open == segment
        {
            return Ok((Arc::clone(file), at % size));
        }
        let file = self.segments.open_for_writing(segment)?;
        self.file = Some((segment, Arc::clone(&file)));
        Ok((file, at % size))
    }

    /// Writes and syncs zeros behind the position, to the end of its block, where no record is to
    /// be found any more.
    pub(crate) fn seal(&mut self) -> StorageResult<()> {
        if self.staged > 0 {
            return self.write_out();
        }
        self.staging[..BLOCK].fill(0);
        let (file, offset) = self.file_at(self.base)?;
        file.write_all_at(&self.staging[..BLOCK], offset)?;
        if self.fsync {
            file.sync_data()?;
        }
        Ok(())
    }

    /// Writes and syncs what is staged. The rest of the last block is written as zeros, so the
    /// log's end is recognised there.
    pub(crate) fn write_out(&mut self) -> StorageResult<()> {
        let blocks = self.staged.next_multiple_of(BLOCK);
        self.staging[self.staged..blocks].fill(0);
        let (file, offset) = self.file_at(self.base)?;
        file.write_all_at(&self.staging[..blocks], offset)?;
        if self.fsync {
            file.sync_data()?;
        }
        let whole = self.staged & !(BLOCK - 1);
        self.staging.copy_within(whole..blocks, 0);
        self.base += whole as u64;
        self.staged -= whole;
        Ok(())
    }
}
