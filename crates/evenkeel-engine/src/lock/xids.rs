//! The running transactions by id, and those who wait for their end.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::TxnNumber;
use crate::ticket::{TicketCell, WakeList};
use crate::types::Xid;

const SHARDS: u64 = 64;

/// Ids whose end is not published yet.
#[derive(Debug)]
pub(super) struct XidTable {
    shards: Box<[Mutex<HashMap<Xid, Running>>]>,
}

#[derive(Debug)]
struct Running {
    txn: TxnNumber,
    waiters: Vec<Arc<TicketCell>>,
}

impl XidTable {
    pub(super) fn new() -> XidTable {
        XidTable {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    fn shard(&self, xid: Xid) -> &Mutex<HashMap<Xid, Running>> {
        &self.shards[(xid.get() % SHARDS) as usize]
    }

    pub(super) fn start(&self, xid: Xid, txn: TxnNumber) {
        self.shard(xid).lock().insert(
            xid,
            Running {
                txn,
                waiters: Vec::new(),
            },
        );
    }

    /// The id has ended, visibly: wakes those who wait for it.
    pub(super) fn end(&self, xid: Xid, wakes: &mut WakeList) {
        let running = self.shard(xid).lock().remove(&xid);
        for cell in running.into_iter().flat_map(|running| running.waiters) {
            cell.complete(Ok(()), wakes);
        }
    }

    pub(super) fn owner(&self, xid: Xid) -> Option<TxnNumber> {
        self.shard(xid).lock().get(&xid).map(|running| running.txn)
    }

    /// A wait for the id's end; `None` if it has ended.
    pub(super) fn wait(&self, xid: Xid) -> Option<Arc<TicketCell>> {
        let mut shard = self.shard(xid).lock();
        let running = shard.get_mut(&xid)?;
        let cell = TicketCell::new();
        running.waiters.push(Arc::clone(&cell));
        Some(cell)
    }

    pub(super) fn leave(&self, xid: Xid, cell: &Arc<TicketCell>) {
        if let Some(running) = self.shard(xid).lock().get_mut(&xid) {
            running.waiters.retain(|other| !Arc::ptr_eq(other, cell));
        }
    }
}
