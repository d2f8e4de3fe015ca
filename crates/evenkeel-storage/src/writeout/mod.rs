//! Writing pages home: the one writer behind both the cleaner and checkpoints, and the
//! double-write area. See this directory's README for the rules.

mod area;
mod batch;
mod cleaner;
mod format;
mod restore;
mod spacing;
mod staging;
mod writer;

pub use restore::RestoreStats;
pub use spacing::{Piece, WritePace};
pub use writer::{WriteOutStats, Writer, WriterOptions, WriterStats};

use crate::error::StorageResult;
use crate::ids::{Lsn, PageId};
use crate::page::PageBytes;
use crate::wal::FlushLatency;

/// What write-out needs of the log.
pub trait LogFlush: Send + Sync {
    /// Waits until the record that starts at `lsn` is durable.
    ///
    /// # Errors
    /// When the log cannot be written any more.
    fn flush(&self, lsn: Lsn) -> StorageResult<()>;
    /// Asks that everything inserted so far be made durable, without waiting.
    fn request_flush(&self) {}
    /// First position that is not durable yet.
    fn durable_lsn(&self) -> Lsn;
    /// Position at which the next record will be inserted, or before.
    fn insert_lsn(&self) -> Lsn;
    /// In a log with page images: a page whose LSN is not beyond this has none since the last
    /// redo point.
    fn images_below(&self) -> Option<Lsn> {
        None
    }
    /// Writes the image of a page that only hints changed; `None` when there is no room for it.
    /// What it says of the page is its LSN then.
    fn log_image(&self, page: PageId, bytes: &PageBytes) -> Option<Lsn> {
        let _ = (page, bytes);
        None
    }
    /// Where page writes are told of, so that their effect on flushes is seen.
    fn latency(&self) -> Option<&FlushLatency> {
        None
    }
}

#[cfg(test)]
mod tests;
