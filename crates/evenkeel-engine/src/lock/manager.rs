//! Taking, waiting for and giving up locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use smallvec::{SmallVec, smallvec};

use super::graph::{Cycle, WaitFor, WaitGraph};
use super::table::{LockInfo, LockTable, Requested};
use super::timer::Timers;
use super::xids::XidTable;
use super::{LockKey, Mode, ModeSet, TxnNumber, WaitPolicy};
use crate::error::{EngineError, EngineResult};
use crate::ticket::{CancelFlag, TicketCell, WaitTicket, WakeList};
use crate::types::Xid;

/// All locks of a database, the ids of its running transactions, and the waits for both.
pub(crate) struct LockManager {
    table: LockTable,
    xids: XidTable,
    graph: WaitGraph,
    timers: Timers,
    deadlocks: AtomicU64,
    numbers: AtomicU64,
}

/// What ends a wait besides its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitOptions<'a> {
    pub(crate) cancel: &'a CancelFlag,
    pub(crate) timeout: Option<Duration>,
}

/// A transaction as the lock manager knows it: its number, and what it holds.
#[derive(Debug)]
pub(crate) struct HeldLocks {
    number: TxnNumber,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// In the order of acquisition; a subtransaction's are behind its mark.
    acquired: Vec<(LockKey, Mode)>,
    /// Table modes held or implied: most requests of a transaction repeat one of these.
    tables: SmallVec<[(u64, ModeSet); 4]>,
}

/// A position in the order of acquisition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockMark(usize);

impl HeldLocks {
    pub(crate) fn number(&self) -> TxnNumber {
        self.number
    }

    pub(crate) fn mark(&self) -> LockMark {
        LockMark(self.held.lock().acquired.len())
    }

    fn add(&self, key: LockKey, mode: Mode) {
        let mut held = self.held.lock();
        held.acquired.push((key, mode));
        held.cover(&key, mode);
    }

    fn covers(&self, key: &LockKey, mode: Mode) -> bool {
        let LockKey::Table(id) = key else {
            return false;
        };
        let held = self.held.lock();
        held.tables
            .iter()
            .any(|(table, modes)| table == id && modes.contains(mode))
    }
}

impl Held {
    fn cover(&mut self, key: &LockKey, mode: Mode) {
        let LockKey::Table(id) = key else { return };
        let implied = mode.implied(key);
        match self.tables.iter_mut().find(|(table, _)| table == id) {
            Some((_, modes)) => modes.0 |= implied.0,
            None => self.tables.push((*id, implied)),
        }
    }
}

impl LockManager {
    pub(crate) fn new() -> LockManager {
        LockManager {
            table: LockTable::new(),
            xids: XidTable::new(),
            graph: WaitGraph::default(),
            timers: Timers::default(),
            deadlocks: AtomicU64::new(0),
            numbers: AtomicU64::new(1),
        }
    }

    /// A new transaction that holds nothing.
    pub(crate) fn new_owner(&self) -> HeldLocks {
        let number = TxnNumber(self.numbers.fetch_add(1, Ordering::Relaxed));
        HeldLocks {
            number,
            held: Mutex::default(),
        }
    }

    /// Deadlocks found so far.
    pub(crate) fn deadlocks(&self) -> u64 {
        self.deadlocks.load(Ordering::Relaxed)
    }

    /// Transactions that wait now.
    pub(crate) fn waits(&self) -> usize {
        self.graph.len()
    }

    /// Who waits, and for what.
    pub(crate) fn waiting(&self) -> Vec<super::WaitInfo> {
        self.graph.list()
    }

    /// All locks and waits.
    pub(crate) fn list(&self) -> Vec<LockInfo> {
        self.table.list()
    }

    /// Takes the lock if that needs no waiting.
    pub(crate) fn try_acquire(&self, owner: &HeldLocks, key: LockKey, mode: Mode) -> bool {
        match self.table.request(owner.number, key, mode, false) {
            Requested::Granted { new } => {
                if new {
                    owner.add(key, mode);
                }
                true
            }
            Requested::Busy | Requested::Queued(_) => false,
        }
    }

    /// Whether taking the lock would need waiting.
    pub(crate) fn conflicts(&self, owner: &HeldLocks, key: &LockKey, mode: Mode) -> bool {
        self.table.conflicts(owner.number, key, mode)
    }

    /// Takes the lock, waiting as `policy` says; `false` if it is to be skipped.
    pub(crate) async fn acquire(
        &self,
        owner: &HeldLocks,
        key: LockKey,
        mode: Mode,
        policy: WaitPolicy,
        options: WaitOptions<'_>,
    ) -> EngineResult<bool> {
        if owner.covers(&key, mode) {
            return Ok(true);
        }
        let wait = policy == WaitPolicy::Block;
        match self.table.request(owner.number, key, mode, wait) {
            Requested::Granted { new } => {
                if new {
                    owner.add(key, mode);
                }
                Ok(true)
            }
            Requested::Busy => not_available(policy, || key.to_string()),
            Requested::Queued(cell) => {
                let queued = Queued {
                    manager: self,
                    owner,
                    key,
                    mode,
                    cell,
                };
                self.begin_wait(owner.number, WaitFor::Lock(key, mode))?;
                self.wait(&queued.cell, options, || key.to_string()).await?;
                Ok(true)
            }
        }
    }

    /// Waits for the id's end as `policy` says; `false` if it is to be skipped.
    pub(crate) async fn wait_for_xid(
        &self,
        owner: &HeldLocks,
        xid: Xid,
        policy: WaitPolicy,
        options: WaitOptions<'_>,
    ) -> EngineResult<bool> {
        let what = || format!("transaction {xid}");
        if policy != WaitPolicy::Block {
            let running = self.xids.owner(xid).is_some();
            return if running {
                not_available(policy, what)
            } else {
                Ok(true)
            };
        }
        let Some(cell) = self.xids.wait(xid) else {
            return Ok(true);
        };
        let waiting = XidWait {
            manager: self,
            owner,
            xid,
            cell,
        };
        self.begin_wait(owner.number, WaitFor::Xid(xid))?;
        self.wait(&waiting.cell, options, what).await?;
        Ok(true)
    }

    fn begin_wait(&self, txn: TxnNumber, wait: WaitFor) -> EngineResult<()> {
        let blockers = |txn: TxnNumber, wait: &WaitFor| match wait {
            WaitFor::Lock(key, _) => self.table.blockers(txn, key),
            WaitFor::Xid(xid) => self
                .xids
                .owner(*xid)
                .map_or(smallvec![], |txn| smallvec![txn]),
        };
        self.graph.begin(txn, wait, blockers).map_err(|cycle| {
            self.deadlocks.fetch_add(1, Ordering::Relaxed);
            EngineError::Deadlock {
                detail: describe(&cycle),
            }
        })
    }

    async fn wait(
        &self,
        cell: &Arc<TicketCell>,
        options: WaitOptions<'_>,
        what: impl Fn() -> String,
    ) -> EngineResult<()> {
        if let Some(timeout) = options.timeout {
            let what = what();
            let expire = move |cell: &TicketCell| {
                cell.complete_now(Err(EngineError::LockNotAvailable { what }));
            };
            self.timers
                .add(Instant::now() + timeout, cell, Box::new(expire));
        }
        WaitTicket::cancellable(Arc::clone(cell), options.cancel).await
    }

    /// Registers a running id, so that others can wait for it.
    pub(crate) fn start_xid(&self, xid: Xid, owner: &HeldLocks) {
        self.xids.start(xid, owner.number);
    }

    /// The id has ended: its status is visible to all.
    pub(crate) fn end_xid(&self, xid: Xid, wakes: &mut WakeList) {
        self.xids.end(xid, wakes);
    }

    /// Gives up everything acquired behind `mark`, as when a subtransaction rolls back.
    pub(crate) fn release_to(&self, owner: &HeldLocks, mark: LockMark, wakes: &mut WakeList) {
        let released = {
            let mut held = owner.held.lock();
            if held.acquired.len() <= mark.0 {
                return;
            }
            let released = held.acquired.split_off(mark.0);
            held.tables.clear();
            for at in 0..held.acquired.len() {
                let (key, mode) = held.acquired[at];
                held.cover(&key, mode);
            }
            released
        };
        for (key, mode) in released.iter().rev() {
            self.table.release(owner.number, key, *mode, wakes);
        }
    }

    /// Gives up everything.
    pub(crate) fn release_all(&self, owner: &HeldLocks, wakes: &mut WakeList) {
        self.release_to(owner, LockMark(0), wakes);
    }
}

fn not_available(policy: WaitPolicy, what: impl Fn() -> String) -> EngineResult<bool> {
    match policy {
        WaitPolicy::SkipLocked => Ok(false),
        WaitPolicy::Block | WaitPolicy::NoWait => {
            Err(EngineError::LockNotAvailable { what: what() })
        }
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

/// A place in a lock's queue. Dropped, also when the wait is abandoned midway, it leaves the
/// queue, or books the lock to its owner if it was granted (lock rule 5).
struct Queued<'a> {
    manager: &'a LockManager,
    owner: &'a HeldLocks,
    key: LockKey,
    mode: Mode,
    cell: Arc<TicketCell>,
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        let mut wakes = WakeList::default();
        self.manager.graph.end(self.owner.number);
        self.manager.table.leave(&self.key, &self.cell, &mut wakes);
        if self.cell.is_granted() {
            self.owner.add(self.key, self.mode);
        }
        wakes.wake();
    }
}

/// A wait for a transaction's end.
struct XidWait<'a> {
    manager: &'a LockManager,
    owner: &'a HeldLocks,
    xid: Xid,
    cell: Arc<TicketCell>,
}

impl Drop for XidWait<'_> {
    fn drop(&mut self) {
        self.manager.graph.end(self.owner.number);
        self.manager.xids.leave(self.xid, &self.cell);
    }
}
