//! Taking, waiting for and giving up locks.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::graph::WaitGraph;
use super::table::{LockInfo, LockTable, Requested};
use super::timer::Timers;
use super::wait::WaitFor;
use super::xids::XidTable;
use super::{LockKey, Mode, ModeSet, TxnNumber, WaitPolicy};
use crate::error::{EngineError, EngineResult};
use crate::memory::{OutOfMemory, Reservation, SessionMemory};
use crate::ticket::{CancelFlag, TicketCell, WaitTicket, WakeList};
use crate::types::Xid;

/// All locks of a database, the ids of its running transactions, and the waits for both.
pub(crate) struct LockManager {
    locks: Arc<Locks>,
    timers: Timers,
    numbers: AtomicU64,
}

/// State that sessions share with the thread that searches for deadlocks.
struct Locks {
    table: LockTable,
    xids: XidTable,
    graph: WaitGraph,
}

impl Locks {
    fn search(&self, now: Instant) -> Option<Instant> {
        self.graph.search(now, &self.table, &self.xids)
    }
}

/// Conditions that end a wait before the lock is free or the transaction has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitOptions<'a> {
    pub(crate) cancel: &'a CancelFlag,
    /// The wait fails with 55P03 after this time.
    pub(crate) timeout: Option<Duration>,
    /// The search for a deadlock looks at the wait after this time.
    pub(crate) deadlock_timeout: Duration,
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
    /// Memory of the locks, charged to the session; `None` outside of one.
    memory: Option<Reservation>,
}

/// Memory of one lock: its entry in the table, with what a hash table keeps free, and in the
/// order of acquisition. Measured: 222 bytes a row.
const LOCK_BYTES: usize = 256;

/// The lock of a row that somebody has locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RowObject {
    /// Nobody has.
    None,
    /// The transaction holds it, under this key.
    Held(LockKey),
    /// Others hold modes that conflict.
    Contended,
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

    /// Charges the locks to a session from now on.
    pub(crate) fn charge_to(&self, memory: &Arc<SessionMemory>) {
        self.held.lock().memory = Some(Reservation::new(memory));
    }

    /// Makes room for one more lock. The room is for the next lock that is granted, whether that
    /// is at once or after a wait.
    fn make_room(&self) -> Result<(), OutOfMemory> {
        let mut held = self.held.lock();
        let bytes = (held.acquired.len() + 1) * LOCK_BYTES;
        match &mut held.memory {
            Some(memory) => memory.resize(bytes),
            None => Ok(()),
        }
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
        let locks = Arc::new(Locks {
            table: LockTable::new(),
            xids: XidTable::new(),
            graph: WaitGraph::default(),
        });
        let searched = Arc::clone(&locks);
        LockManager {
            locks,
            timers: Timers::new(Box::new(move |now| searched.search(now))),
            numbers: AtomicU64::new(1),
        }
    }

    /// Starts the thread that ends waits.
    pub(crate) fn start(&self) -> std::io::Result<()> {
        self.timers.start()
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
        self.locks.graph.deadlocks()
    }

    /// Transactions that wait now.
    pub(crate) fn waits(&self) -> usize {
        self.locks.graph.len()
    }

    /// The waiting transactions, each with the lock or transaction it waits for.
    pub(crate) fn waiting(&self) -> Vec<super::WaitInfo> {
        self.locks.graph.list()
    }

    /// All locks and waits.
    pub(crate) fn list(&self) -> Vec<LockInfo> {
        self.locks.table.list()
    }

    /// Takes the lock if that needs no waiting, and no memory that the owner may not have:
    /// [`LockManager::acquire`] then says so. The key that it has.
    pub(crate) fn try_acquire(
        &self,
        owner: &HeldLocks,
        key: LockKey,
        mode: Mode,
    ) -> Option<LockKey> {
        owner.make_room().ok()?;
        match self.locks.table.request(owner.number, key, mode, false) {
            (key, Requested::Granted { new }) => {
                if new {
                    owner.add(key, mode);
                }
                Some(key)
            }
            (_, Requested::Busy | Requested::Queued(_)) => None,
        }
    }

    /// Takes the lock of a row if somebody has locked the row: who changes a row that others have
    /// locked is one of them (LOCK-9).
    pub(crate) fn join(
        &self,
        owner: &HeldLocks,
        key: &LockKey,
        mode: Mode,
    ) -> EngineResult<RowObject> {
        let Some((key, requested)) = self.locks.table.join(owner.number, key, mode) else {
            return Ok(RowObject::None);
        };
        let Requested::Granted { new } = requested else {
            return Ok(RowObject::Contended);
        };
        if new {
            let room = owner.make_room();
            owner.add(key, mode);
            room?;
        }
        Ok(RowObject::Held(key))
    }

    /// Makes a version known as one of a row that the owner has locked under `root`; see
    /// [`LockTable::add_alias`].
    pub(crate) fn add_alias(&self, root: &LockKey, new: LockKey, only: Option<LockKey>) -> bool {
        self.locks.table.add_alias(root, new, only)
    }

    /// Whether taking the lock would need waiting.
    pub(crate) fn conflicts(&self, owner: &HeldLocks, key: &LockKey, mode: Mode) -> bool {
        self.locks.table.conflicts(owner.number, key, mode)
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
        owner.make_room()?;
        let wait = policy == WaitPolicy::Block;
        match self.locks.table.request(owner.number, key, mode, wait) {
            (key, Requested::Granted { new }) => {
                if new {
                    owner.add(key, mode);
                }
                Ok(true)
            }
            (key, Requested::Busy) => not_available(policy, || key.to_string()),
            (key, Requested::Queued(cell)) => {
                let queued = Queued {
                    manager: self,
                    owner,
                    key,
                    mode,
                    cell,
                };
                let on = WaitFor::Lock(key, mode);
                self.wait(owner.number, on, &queued.cell, options).await?;
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
            let running = self.locks.xids.owner(xid).is_some();
            return if running {
                not_available(policy, what)
            } else {
                Ok(true)
            };
        }
        let Some(cell) = self.locks.xids.wait(xid) else {
            return Ok(true);
        };
        let waiting = XidWait {
            manager: self,
            owner,
            xid,
            cell,
        };
        let on = WaitFor::Xid(xid);
        self.wait(owner.number, on, &waiting.cell, options).await?;
        Ok(true)
    }

    async fn wait(
        &self,
        txn: TxnNumber,
        on: WaitFor,
        cell: &Arc<TicketCell>,
        options: WaitOptions<'_>,
    ) -> EngineResult<()> {
        let now = Instant::now();
        let due = now + options.deadlock_timeout;
        if let Some(at) = self.locks.graph.begin(txn, on, cell, due) {
            self.timers.search_at(at);
        }
        if let Some(timeout) = options.timeout {
            self.timers.expire_at(now + timeout, cell);
        }
        WaitTicket::cancellable(Arc::clone(cell), options.cancel).await
    }

    /// Registers a running id, so that others can wait for it.
    pub(crate) fn start_xid(&self, xid: Xid, owner: &HeldLocks) {
        self.locks.xids.start(xid, owner.number);
    }

    /// The id has ended: its status is visible to all.
    pub(crate) fn end_xid(&self, xid: Xid, wakes: &mut WakeList) {
        self.locks.xids.end(xid, wakes);
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
            let bytes = held.acquired.len() * LOCK_BYTES;
            if let Some(memory) = &mut held.memory {
                // Fewer locks than before need no more memory.
                let _ = memory.resize(bytes);
            }
            released
        };
        for (key, mode) in released.iter().rev() {
            self.locks.table.release(owner.number, key, *mode, wakes);
        }
    }

    /// Gives up the locks acquired behind `mark` that `wanted` names.
    pub(crate) fn release_some(
        &self,
        owner: &HeldLocks,
        mark: LockMark,
        wanted: impl Fn(&LockKey) -> bool,
        wakes: &mut WakeList,
    ) {
        let mut held = owner.held.lock();
        if held.acquired.len() <= mark.0 {
            return;
        }
        if !held.acquired[mark.0..].iter().any(|(key, _)| wanted(key)) {
            return;
        }
        let late = held.acquired.split_off(mark.0);
        let (given, kept): (Vec<_>, Vec<_>) = late.into_iter().partition(|(key, _)| wanted(key));
        held.acquired.extend(kept);
        drop(held);
        for (key, mode) in &given {
            self.locks.table.release(owner.number, key, *mode, wakes);
        }
    }

    /// Gives up some locks.
    pub(crate) fn release_these(
        &self,
        owner: &HeldLocks,
        gone: &HashSet<(LockKey, Mode)>,
        wakes: &mut WakeList,
    ) {
        owner
            .held
            .lock()
            .acquired
            .retain(|held| !gone.contains(held));
        for (key, mode) in gone {
            self.locks.table.release(owner.number, key, *mode, wakes);
        }
    }

    /// Lets a wait of either owner count as one of both, as they belong to one session.
    pub(crate) fn pair(&self, owner: &HeldLocks, transaction: u64) {
        self.locks.graph.join(owner.number, TxnNumber(transaction));
    }

    /// Ends what [`LockManager::pair`] began.
    pub(crate) fn part(&self, owner: &HeldLocks) {
        self.locks.graph.part(owner.number);
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

/// A place in a lock's queue. Dropped, also when the wait is abandoned midway, it leaves the
/// queue, or books the lock to its owner if it was granted (LOCK-5).
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
        self.manager.locks.graph.end(self.owner.number);
        if self.cell.is_granted() {
            // It has left the queue already.
            self.owner.add(self.key, self.mode);
            return;
        }
        self.manager
            .locks
            .table
            .leave(&self.key, &self.cell, &mut wakes);
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
        self.manager.locks.graph.end(self.owner.number);
        self.manager.locks.xids.leave(self.xid, &self.cell);
    }
}
