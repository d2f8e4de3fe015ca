//! Advisory locks of a session: they outlive its transactions, and are counted.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::database::Database;
use crate::error::EngineResult;
use crate::lock::{HeldLocks, LockKey, TableLockMode, WaitOptions, WaitPolicy};
use crate::memory::SessionMemory;
use crate::ticket::{CancelFlag, WakeList};
use crate::transaction::Transaction;

/// A number of the application's choice, of 64 bits or two of 32: two spaces of keys.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AdvisoryKey {
    /// One number.
    One(i64),
    /// Two numbers.
    Two(i32, i32),
}

impl AdvisoryKey {
    fn lock_key(self, database: u32) -> LockKey {
        match self {
            AdvisoryKey::One(key) => LockKey::Advisory(database, key.cast_unsigned(), false),
            AdvisoryKey::Two(first, second) => {
                let high = u64::from(first.cast_unsigned()) << 32;
                let key = high | u64::from(second.cast_unsigned());
                LockKey::Advisory(database, key, true)
            }
        }
    }
}

/// One advisory lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AdvisoryLock {
    /// Its key.
    pub key: AdvisoryKey,
    /// Whether others may share it.
    pub shared: bool,
}

impl AdvisoryLock {
    fn mode(self) -> TableLockMode {
        match self.shared {
            true => TableLockMode::Share,
            false => TableLockMode::Exclusive,
        }
    }
}

/// When an advisory lock ends by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdvisoryScope {
    /// With the session.
    Session,
    /// With the transaction, or with the savepoint that it is rolled back to.
    Transaction,
}

/// The limits of a wait for an advisory lock.
#[derive(Clone, Copy, Debug)]
pub struct AdvisoryWait<'a> {
    /// Ends it with 57014.
    pub cancel: &'a CancelFlag,
    /// Ends it with 55P03.
    pub lock_timeout: Option<Duration>,
    /// The search for a deadlock looks at it after this time.
    pub deadlock_timeout: Duration,
}

/// The advisory locks of one session. The lock table has each once; how often a session has it is
/// counted here.
pub struct AdvisoryLocks {
    db: Database,
    /// The number of the session's database: a key of another one is another lock.
    database: u32,
    owner: HeldLocks,
    booked: Mutex<Booked>,
}

#[derive(Default)]
struct Booked {
    /// Those of the session, as often as each was taken.
    session: HashMap<AdvisoryLock, u64>,
    /// Those of the transaction, each once, in the order in which they were taken first.
    transaction: Vec<AdvisoryLock>,
    in_transaction: HashSet<AdvisoryLock>,
    /// The transaction that waits on behalf of the session, and whether the graph of waits knows
    /// that the two are one.
    of: Option<(u64, bool)>,
}

impl Booked {
    fn is_held(&self, lock: AdvisoryLock) -> bool {
        self.in_transaction.contains(&lock) || self.session.contains_key(&lock)
    }
}

impl AdvisoryLocks {
    /// None yet, of a session in the database of this number.
    pub fn new(db: &Database, database: u32, memory: &Arc<SessionMemory>) -> AdvisoryLocks {
        let owner = db.system().core.locks.new_owner();
        owner.charge_to(memory);
        AdvisoryLocks {
            db: db.clone(),
            database,
            owner,
            booked: Mutex::default(),
        }
    }

    /// The number under which `pg_locks` shows them.
    pub fn number(&self) -> u64 {
        self.owner.number().0
    }

    /// A transaction of the session begins: a wait of either is one of both.
    pub fn begin(&self, txn: &Transaction) {
        let mut booked = self.booked.lock();
        booked.of = Some((txn.number(), false));
        if !booked.session.is_empty() {
            self.join(&mut booked);
        }
    }

    fn join(&self, booked: &mut Booked) {
        if let Some((number, joined)) = &mut booked.of
            && !std::mem::replace(joined, true)
        {
            self.db.system().core.locks.pair(&self.owner, *number);
        }
    }

    /// Takes a lock; false if it is not free and the policy is to skip.
    ///
    /// # Errors
    /// 40P01, 55P03, 57014, 53200.
    pub async fn lock(
        &self,
        lock: AdvisoryLock,
        scope: AdvisoryScope,
        policy: WaitPolicy,
        wait: AdvisoryWait<'_>,
    ) -> EngineResult<bool> {
        let held = {
            let mut booked = self.booked.lock();
            self.join(&mut booked);
            booked.is_held(lock)
        };
        if !held {
            let options = WaitOptions {
                cancel: wait.cancel,
                timeout: wait.lock_timeout,
                deadlock_timeout: wait.deadlock_timeout,
            };
            let (key, mode) = (lock.key.lock_key(self.database), lock.mode().into());
            let locks = &self.db.system().core.locks;
            if !locks
                .acquire(&self.owner, key, mode, policy, options)
                .await?
            {
                return Ok(false);
            }
        }
        let mut booked = self.booked.lock();
        match scope {
            AdvisoryScope::Transaction => {
                if booked.in_transaction.insert(lock) {
                    booked.transaction.push(lock);
                }
            }
            AdvisoryScope::Session => *booked.session.entry(lock).or_default() += 1,
        }
        Ok(true)
    }

    /// Gives a lock of the session up once; false if the session does not have it.
    pub fn unlock(&self, lock: AdvisoryLock) -> bool {
        let mut booked = self.booked.lock();
        let Some(count) = booked.session.get_mut(&lock) else {
            return false;
        };
        *count -= 1;
        if *count == 0 {
            booked.session.remove(&lock);
            self.release(&booked, &[lock]);
        }
        true
    }

    /// Gives all locks of the session up; those of its transaction stay.
    pub fn unlock_all(&self) {
        let mut booked = self.booked.lock();
        let all = std::mem::take(&mut booked.session);
        let all: Vec<AdvisoryLock> = all.into_keys().collect();
        self.release(&booked, &all);
    }

    /// A position in the order in which the transaction takes locks.
    pub fn mark(&self) -> usize {
        self.booked.lock().transaction.len()
    }

    /// Gives up the transaction's locks that were taken since `mark`.
    pub fn rollback_to(&self, mark: usize) {
        let mut booked = self.booked.lock();
        if booked.transaction.len() > mark {
            let late = booked.transaction.split_off(mark);
            for lock in &late {
                booked.in_transaction.remove(lock);
            }
            self.release(&booked, &late);
        }
    }

    /// The transaction has ended.
    pub fn end(&self) {
        self.rollback_to(0);
        let mut booked = self.booked.lock();
        if let Some((_, true)) = booked.of.take() {
            self.db.system().core.locks.part(&self.owner);
        }
    }

    /// Gives up those of `locks` that are held no more.
    fn release(&self, booked: &Booked, locks: &[AdvisoryLock]) {
        let gone = locks.iter().filter(|lock| !booked.is_held(**lock));
        let gone: HashSet<_> = gone
            .map(|lock| (lock.key.lock_key(self.database), lock.mode().into()))
            .collect();
        if gone.is_empty() {
            return;
        }
        let mut wakes = WakeList::default();
        self.db
            .system()
            .core
            .locks
            .release_these(&self.owner, &gone, &mut wakes);
        wakes.wake();
    }
}

impl Drop for AdvisoryLocks {
    fn drop(&mut self) {
        self.end();
        self.unlock_all();
    }
}
