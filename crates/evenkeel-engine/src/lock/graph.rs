//! The graph of waiting transactions.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::{LockKey, Mode, TxnNumber};
use crate::types::Xid;

/// What a transaction waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum WaitFor {
    Lock(LockKey, Mode),
    Xid(Xid),
}

/// What a transaction waits for, as `pg_stat_activity` shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitOn {
    /// A lock.
    Lock(LockKey),
    /// The end of a transaction.
    Transaction(Xid),
}

/// A transaction that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitInfo {
    /// Its number.
    pub transaction: u64,
    /// What it waits for.
    pub on: WaitOn,
}

/// Who waits for what: at most one thing each. Edges to other transactions are derived from
/// the lock table when a wait begins, so they cannot be stale (lock rule 4).
#[derive(Debug, Default)]
pub(super) struct WaitGraph {
    waits: Mutex<HashMap<TxnNumber, WaitFor>>,
}

/// A cycle that a wait would close, from the waiter on.
#[derive(Debug)]
pub(super) struct Cycle(pub(super) Vec<(TxnNumber, WaitFor)>);

impl WaitGraph {
    /// Enters a wait, or refuses it because it would close a cycle. `blockers` names the
    /// transactions that end a wait; it may take the lock table's mutexes.
    pub(super) fn begin(
        &self,
        txn: TxnNumber,
        wait: WaitFor,
        blockers: impl Fn(TxnNumber, &WaitFor) -> SmallVec<[TxnNumber; 4]>,
    ) -> Result<(), Cycle> {
        // Searching under the mutex: of the waits of a cycle the last one to begin sees all.
        let mut waits = self.waits.lock();
        waits.insert(txn, wait);
        let mut visited = HashSet::new();
        let mut path: Vec<(TxnNumber, SmallVec<[TxnNumber; 4]>)> =
            vec![(txn, blockers(txn, &wait))];
        while let Some((_, next)) = path.last_mut() {
            let Some(blocker) = next.pop() else {
                path.pop();
                continue;
            };
            if blocker == txn {
                let edges = path
                    .iter()
                    .filter_map(|(txn, _)| Some((*txn, *waits.get(txn)?)));
                let cycle = Cycle(edges.collect());
                waits.remove(&txn);
                return Err(cycle);
            }
            if visited.insert(blocker)
                && let Some(wait) = waits.get(&blocker)
            {
                let next = blockers(blocker, wait);
                path.push((blocker, next));
            }
        }
        Ok(())
    }

    /// Who waits, and for what.
    pub(super) fn list(&self) -> Vec<WaitInfo> {
        let waits = self.waits.lock();
        let info = |(txn, wait): (&TxnNumber, &WaitFor)| WaitInfo {
            transaction: txn.0,
            on: match wait {
                WaitFor::Lock(key, _) => WaitOn::Lock(*key),
                WaitFor::Xid(xid) => WaitOn::Transaction(*xid),
            },
        };
        waits.iter().map(info).collect()
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waits.lock().len()
    }

    /// Forgets a wait that has ended.
    pub(super) fn end(&self, txn: TxnNumber) {
        self.waits.lock().remove(&txn);
    }
}
