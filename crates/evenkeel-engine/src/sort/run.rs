//! Sorted entries in a temporary file.

use std::path::PathBuf;
use std::sync::Arc;

use evenkeel_io::{Disk, File, OpenOptions};
use evenkeel_storage::BlockNumber;
use evenkeel_storage::store::Store;

use super::{SortedEntry, TEMPORARY_PREFIX, io};
use crate::error::{EngineError, EngineResult};
use crate::temp::TempQuota;
use crate::types::Tid;

/// Bytes read from a run, or written to it, at once.
const CHUNK: usize = 64 << 10;
/// Bytes of an entry in a run besides its key.
const ENTRY_HEADER: usize = 9;

/// Writes a run.
pub(super) struct RunWriter {
    run: Run,
    buffer: Vec<u8>,
}

impl RunWriter {
    pub fn create(store: &Store, files: &Arc<TempQuota>) -> EngineResult<RunWriter> {
        let disk = store.disk();
        let path = store
            .dir()
            .join(format!("{TEMPORARY_PREFIX}{:016x}", disk.random_u64()));
        let options = OpenOptions {
            read: true,
            write: true,
            create_new: true,
            ..OpenOptions::default()
        };
        let file = store.open_temporary(&path, options)?;
        let run = Run {
            disk: Arc::clone(disk),
            files: Arc::clone(files),
            path,
            file,
            length: 0,
            offset: 0,
            buffer: Vec::new(),
            at: 0,
        };
        Ok(RunWriter {
            run,
            buffer: Vec::with_capacity(CHUNK + (8 << 10)),
        })
    }

    pub fn put(&mut self, key: &[u8], tid: Tid, tag: u8) -> EngineResult<()> {
        self.buffer
            .extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.buffer.extend_from_slice(&tid.block.0.to_le_bytes());
        self.buffer.extend_from_slice(&tid.slot.to_le_bytes());
        self.buffer.push(tag);
        self.buffer.extend_from_slice(key);
        if self.buffer.len() >= CHUNK {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> EngineResult<()> {
        let (run, bytes) = (&mut self.run, self.buffer.len() as u64);
        run.files.take(bytes)?;
        let written = run.file.write_all_at(&self.buffer, run.length);
        // Given back with the run, written or not.
        run.length += bytes;
        written.map_err(io)?;
        self.buffer.clear();
        Ok(())
    }

    pub fn finish(mut self) -> EngineResult<Run> {
        self.flush()?;
        Ok(self.run)
    }
}

/// A sorted run in a temporary file, removed when this is dropped.
pub(super) struct Run {
    disk: Arc<dyn Disk>,
    files: Arc<TempQuota>,
    path: PathBuf,
    file: Arc<dyn File>,
    length: u64,
    offset: u64,
    buffer: Vec<u8>,
    at: usize,
}

impl Run {
    /// Reads the next entry into `entry`; false behind the last.
    pub fn next(&mut self, entry: &mut SortedEntry) -> EngineResult<bool> {
        if !self.want(ENTRY_HEADER)? {
            return Ok(false);
        }
        let head = &self.buffer[self.at..self.at + ENTRY_HEADER];
        let length = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let block = u32::from_le_bytes([head[2], head[3], head[4], head[5]]);
        let slot = u16::from_le_bytes([head[6], head[7]]);
        let tag = head[8];
        if !self.want(ENTRY_HEADER + length)? {
            let what = format!("{} ends within an entry", self.path.display());
            return Err(EngineError::corrupted(what));
        }
        let start = self.at + ENTRY_HEADER;
        entry.key.clear();
        entry
            .key
            .extend_from_slice(&self.buffer[start..start + length]);
        entry.tid = Tid::new(BlockNumber(block), slot);
        entry.tag = tag;
        self.at = start + length;
        Ok(true)
    }

    /// Makes sure of `n` bytes in the buffer; false when the run ends before.
    fn want(&mut self, n: usize) -> EngineResult<bool> {
        if self.buffer.len() - self.at >= n {
            return Ok(true);
        }
        self.buffer.drain(..self.at);
        self.at = 0;
        let left = self.length - self.offset;
        let more = (CHUNK.max(n) as u64).min(left) as usize;
        let start = self.buffer.len();
        self.buffer.resize(start + more, 0);
        self.file
            .read_exact_at(&mut self.buffer[start..], self.offset)
            .map_err(io)?;
        self.offset += more as u64;
        Ok(self.buffer.len() >= n)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.files.give_back(self.length);
        if let Err(error) = self.disk.remove(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "temporary file stays");
        }
    }
}
