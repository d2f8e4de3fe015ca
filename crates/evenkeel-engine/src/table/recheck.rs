//! Unique keys of deferrable indexes, looked at when they have to hold.

use super::{KeyKind, Table};
use crate::btree::{InsertOutcome, Liveness, TreeReader};
use crate::error::EngineResult;
use crate::heap::layout::HeapRead;
use crate::heap::read::{Entry, chain};
use crate::lock::WaitPolicy;
use crate::transaction::{Doubt, Transaction};
use crate::types::Tid;

impl Table {
    /// Whether a row that this transaction has stored shares a unique key with another live row:
    /// its bytes if so. Waits for transactions on whose end that depends (TAB-18).
    ///
    /// # Errors
    /// Those of waiting; damage; storage failures.
    pub async fn recheck_unique(
        &self,
        txn: &mut Transaction,
        doubt: Doubt,
    ) -> EngineResult<Option<Vec<u8>>> {
        txn.xid()?;
        let mut key = Vec::new();
        loop {
            // Deleted or moved since, it is no matter of this entry any more.
            let Some(row) = self.live_version(txn, doubt.tid)? else {
                return Ok(None);
            };
            key.clear();
            if self.def.indexes[doubt.index].key.key(&row, &mut key)? != KeyKind::Unique {
                return Ok(None);
            }
            let found = {
                let txn = &*txn;
                let mut resolve = |other: Tid| self.liveness(txn, other);
                let own = Some(doubt.tid);
                let tree = &self.indexes[doubt.index];
                tree.find_conflict(TreeReader::of_writer(), &key, own, &mut resolve)?
            };
            match found {
                Some(InsertOutcome::MustWait(xid)) => {
                    txn.wait_for_xid(xid, WaitPolicy::Block).await?;
                }
                Some(_) => return Ok(Some(row)),
                None => return Ok(None),
            }
        }
    }

    /// The version of the chain at `tid`, which this transaction has begun, that is there now.
    fn live_version(&self, txn: &Transaction, tid: Tid) -> EngineResult<Option<Vec<u8>>> {
        let _frames = self.reserve_for_reading();
        self.retry(|| {
            let guard = self.heap().read(tid.block)?;
            for link in chain(&guard, tid.block, tid.slot, Entry::Index) {
                if self.version_liveness(txn, &link)? != Liveness::Dead {
                    return Ok(Some(guard.row(link.offset, link.length).to_vec()));
                }
            }
            Ok(None)
        })
    }
}
