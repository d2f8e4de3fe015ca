//! The interface of the log that the buffer pool and write-out use.

use crate::error::StorageResult;
use crate::gaps::Gaps;
use crate::ids::{Lsn, PageId};
use crate::page::PageBytes;
use crate::wal::latency::FlushLatency;

/// The interface of the log that the buffer pool and write-out use.
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
    /// Where there is no log.
    fn gaps(&self) -> &Gaps;
    /// In a log with page images: a page whose LSN is not beyond this has none since the last
    /// redo point.
    fn images_below(&self) -> Option<Lsn> {
        None
    }
    /// Writes the image of a page that only hints changed; `None` when there is no room for it.
    /// The returned LSN becomes the page's.
    fn log_image(&self, page: PageId, bytes: &PageBytes) -> Option<Lsn> {
        let _ = (page, bytes);
        None
    }
    /// Where page writes are told of, so that their effect on flushes is seen.
    fn latency(&self) -> Option<&FlushLatency> {
        None
    }
}
