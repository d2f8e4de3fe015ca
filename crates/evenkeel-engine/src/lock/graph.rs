//! The waiting transactions, and when to look whether they wait for each other.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use super::TxnNumber;
use super::deadlock::{Cycle, Search};
use super::table::LockTable;
use super::wait::{WaitFor, WaitInfo, WaitOn};
use super::xids::XidTable;
use crate::error::EngineError;
use crate::ticket::{TicketCell, WakeList};

/// The waits of all transactions, at most one each. Edges between transactions are derived from
/// the lock table when a search runs, so they cannot be stale (LOCK-4).
#[derive(Debug, Default)]
pub(super) struct WaitGraph {
    waits: Mutex<Waits>,
    deadlocks: AtomicU64,
}

#[derive(Debug, Default)]
struct Waits {
    by_txn: HashMap<TxnNumber, Wait>,
    /// Waits that no search has looked at yet, by the end of their `deadlock_timeout`.
    due: BTreeSet<(Instant, TxnNumber)>,
    /// Owners of one session: the session waits for one of them at a time.
    partners: HashMap<TxnNumber, TxnNumber>,
    /// When the timer runs the next search, at the latest.
    scheduled: Option<Instant>,
}

/// One wait.
#[derive(Debug)]
struct Wait {
    on: WaitFor,
    cell: Arc<TicketCell>,
    due: Instant,
}

impl WaitGraph {
    /// Enters a wait. Returns when to run a search if none is scheduled before the wait is due.
    pub(super) fn begin(
        &self,
        txn: TxnNumber,
        on: WaitFor,
        cell: &Arc<TicketCell>,
        due: Instant,
    ) -> Option<Instant> {
        let mut waits = self.waits.lock();
        let cell = Arc::clone(cell);
        waits.by_txn.insert(txn, Wait { on, cell, due });
        waits.due.insert((due, txn));
        if waits.scheduled.is_some_and(|at| at <= due) {
            return None;
        }
        waits.scheduled = Some(due);
        Some(due)
    }

    /// Two owners are of one session: a wait of either is one of both.
    pub(super) fn join(&self, one: TxnNumber, other: TxnNumber) {
        let mut waits = self.waits.lock();
        waits.partners.insert(one, other);
        waits.partners.insert(other, one);
    }

    /// An owner is alone again.
    pub(super) fn part(&self, one: TxnNumber) {
        let mut waits = self.waits.lock();
        if let Some(other) = waits.partners.remove(&one) {
            waits.partners.remove(&other);
        }
    }

    /// Forgets a wait that has ended.
    pub(super) fn end(&self, txn: TxnNumber) {
        let mut waits = self.waits.lock();
        if let Some(wait) = waits.by_txn.remove(&txn) {
            waits.due.remove(&(wait.due, txn));
        }
    }

    /// Searches for cycles through the waits that are due at `now`, and ends the oldest due wait
    /// of each cycle with 40P01. Returns when the next search is to run.
    ///
    /// The mutex is held throughout: no wait begins meanwhile, and a transaction that waits
    /// releases nothing, so all edges of a cycle found exist at the same time.
    pub(super) fn search(
        &self,
        now: Instant,
        table: &LockTable,
        xids: &XidTable,
    ) -> Option<Instant> {
        let mut wakes = WakeList::default();
        let mut waits = self.waits.lock();
        let later = waits.due.split_off(&(now, TxnNumber(u64::MAX)));
        let due = std::mem::replace(&mut waits.due, later);
        if waits.by_txn.len() > 1 {
            // The session of one that an earlier search ended may not have run since: it waits for
            // nobody, and another victim would be one too many.
            let wait_of = |txn: TxnNumber| {
                let wait = waits.by_txn.get(&txn)?;
                (!wait.cell.has_ended()).then_some(wait.on)
            };
            let partner_of = |txn: TxnNumber| waits.partners.get(&txn).copied();
            let mut search = Search::new((wait_of, partner_of), table, xids);
            let starts: Vec<TxnNumber> = due.iter().map(|(_, txn)| *txn).collect();
            search.explore(&starts);
            for txn in starts {
                let Some(cycle) = search.cycle_through(txn) else {
                    continue;
                };
                search.remove(txn);
                let Some(wait) = waits.by_txn.get(&txn) else {
                    continue;
                };
                let detail = describe(&cycle);
                let error = EngineError::Deadlock { detail };
                self.deadlocks.fetch_add(1, Ordering::Relaxed);
                if !wait.cell.complete(Err(error), &mut wakes) {
                    // Granted or cancelled meanwhile, which has broken the cycle already.
                    self.deadlocks.fetch_sub(1, Ordering::Relaxed);
                }
            }
        }
        let next = waits.due.first().map(|(at, _)| *at);
        waits.scheduled = next;
        drop(waits);
        wakes.wake();
        next
    }

    /// Deadlocks found so far.
    pub(super) fn deadlocks(&self) -> u64 {
        self.deadlocks.load(Ordering::Relaxed)
    }

    /// The waiting transactions and what they wait for.
    pub(super) fn list(&self) -> Vec<WaitInfo> {
        let waits = self.waits.lock();
        let info = |(txn, wait): (&TxnNumber, &Wait)| WaitInfo {
            transaction: txn.0,
            on: match wait.on {
                WaitFor::Lock(key, _) => WaitOn::Lock(key),
                WaitFor::Xid(xid) => WaitOn::Transaction(xid),
            },
        };
        waits.by_txn.iter().map(info).collect()
    }

    /// How many transactions wait.
    pub(super) fn len(&self) -> usize {
        self.waits.lock().by_txn.len()
    }
}

fn describe(cycle: &Cycle) -> String {
    let edges = cycle.0.iter().enumerate().map(|(at, (txn, wait))| {
        let (blocker, _) = cycle.0[(at + 1) % cycle.0.len()];
        let what = match wait {
            WaitFor::Lock(key, mode) => format!("{} on {key}", mode.name(key)),
            WaitFor::Xid(xid) => format!("ShareLock on transaction {xid}"),
        };
        format!(
            "transaction #{} waits for {what}; blocked by #{}",
            txn.0, blocker.0
        )
    });
    edges.collect::<Vec<_>>().join("; ")
}
