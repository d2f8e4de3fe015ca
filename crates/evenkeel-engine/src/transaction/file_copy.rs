//! Copies of files, page by page, for a database made from another.

use std::sync::Arc;

use evenkeel_storage::buffer::{BufferAccessStrategy, ForkHandle};
use evenkeel_storage::page::PageRead;
use evenkeel_storage::{BlockNumber, FileId, Fork};

use super::Transaction;
use crate::error::EngineResult;

/// The most blocks by which a copy grows at once.
const GROWTH: u32 = 64;

impl Transaction {
    /// Makes a file with the pages of another, which nobody changes meanwhile; like every file that
    /// a transaction makes, it is removed if that does not commit. The log has an image of each
    /// page. The map of free space is not copied: it is advice, and grows anew. That of visibility
    /// is, as a page says the same as its map.
    ///
    /// # Errors
    /// A full disk, a damaged page, 57014, other failures of storage.
    pub fn copy_file(&mut self, from: FileId) -> EngineResult<FileId> {
        let to = self.create_file()?;
        for fork in [Fork::Main, Fork::Vm] {
            let pool = self.system().store.pool();
            let (from, to) = (pool.fork(from, fork)?, pool.fork(to, fork)?);
            self.copy_pages(&from, &to)?;
        }
        Ok(to)
    }

    fn copy_pages(&mut self, from: &Arc<ForkHandle>, to: &Arc<ForkHandle>) -> EngineResult<()> {
        let xid = self.top_xid()?;
        let store = &self.system().store;
        let (reads, writes) = (
            BufferAccessStrategy::bulk_read(store.pool()),
            BufferAccessStrategy::bulk_write(store.pool()),
        );
        for block in 0..from.len() {
            self.check_cancel()?;
            let block = BlockNumber(block);
            if to.len() <= block.0 {
                to.extend(GROWTH.min(from.len() - block.0))?;
            }
            store.admit()?;
            let source = from.pin_with(block, Some(&reads))?;
            let page = source.write();
            if page.is_new() {
                // The file was made longer, and nothing has used the page yet.
                continue;
            }
            let copy = to.pin_new_with(block, Some(&writes))?;
            let mut copy = copy.write();
            let mut change = store.change(xid.get());
            change.image(&mut copy, page.bytes());
            change.commit();
        }
        Ok(())
    }
}
