//! Resources of one session's statements: memory by PostgreSQL's `work_mem` and the session's
//! budget, and temporary files.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel_engine::advisory::{AdvisoryLocks, AdvisoryWait};
use evenkeel_engine::memory::SessionMemory;
use evenkeel_engine::temp::WorkLimits;
use evenkeel_engine::transaction::Waiter;
use evenkeel_engine::{CancelFlag, Database};
use evenkeel_engine::{EngineResult, Xid};
use evenkeel_exec::{RowEvents, TempSpace};
use evenkeel_expr::RandomState;
use parking_lot::Mutex;

use crate::catalog::Catalog;
use crate::exec::channel_use::ChannelUse;
use crate::exec::in_use::InUse;
use crate::exec::sequence_use::SequenceUse;
use crate::named_statements::NamedStatements;

/// Memory and temporary files of one session's statements.
pub struct Resources {
    /// The session's budget.
    pub memory: Arc<SessionMemory>,
    /// Its temporary files.
    pub temp: Arc<TempSpace>,
    /// The state of its random numbers.
    pub random: std::sync::Mutex<RandomState>,
    /// Waits for other transactions on behalf of the session's.
    waiter: Mutex<Option<Waiter>>,
    /// Its use of sequences.
    pub sequences: SequenceUse,
    /// The prepared statements that have names.
    pub named: Arc<NamedStatements>,
    /// Its advisory locks.
    pub advisory: AdvisoryLocks,
    /// Its use of channels.
    pub channels: ChannelUse,
    /// Limits of waits for advisory locks.
    waits: Mutex<(Option<Duration>, Duration)>,
    /// Tables of its open plans.
    pub in_use: Arc<InUse>,
    /// The changed rows that foreign keys have yet to look at.
    pub events: Arc<RowEvents>,
    work_mem: AtomicUsize,
    synchronize_seqscans: AtomicBool,
}

impl Resources {
    /// For a session with this budget.
    pub fn new(
        memory: Arc<SessionMemory>,
        db: &Database,
        catalog: Arc<Catalog>,
        (advisory, channels): (AdvisoryLocks, ChannelUse),
    ) -> Resources {
        let store = db.store();
        Resources {
            advisory,
            channels,
            waits: Mutex::default(),
            sequences: SequenceUse::new(catalog),
            named: Arc::default(),
            in_use: Arc::default(),
            events: Arc::new(RowEvents::new(&memory)),
            memory,
            waiter: Mutex::default(),
            temp: Arc::new(TempSpace::new(store)),
            random: std::sync::Mutex::default(),
            work_mem: AtomicUsize::new(usize::MAX),
            synchronize_seqscans: AtomicBool::new(true),
        }
    }

    /// Limits waits for advisory locks.
    pub fn limit_waits(&self, lock_timeout: Option<Duration>, deadlock_timeout: Duration) {
        *self.waits.lock() = (lock_timeout, deadlock_timeout);
    }

    /// The limits of a wait for an advisory lock.
    pub fn advisory_wait<'a>(&self, cancel: &'a CancelFlag) -> AdvisoryWait<'a> {
        let (lock_timeout, deadlock_timeout) = *self.waits.lock();
        AdvisoryWait {
            cancel,
            lock_timeout,
            deadlock_timeout,
        }
    }

    /// Bounds the session's plans by `work_mem` and `temp_file_limit`, in bytes.
    pub fn limit(&self, work_mem: u64, temp_file_limit: Option<u64>) {
        let work_mem = usize::try_from(work_mem).unwrap_or(usize::MAX);
        self.work_mem.store(work_mem, Ordering::Relaxed);
        self.temp.quota().set_limit(temp_file_limit);
    }

    /// A transaction has begun, or its limits have changed.
    pub fn set_waiter(&self, waiter: Waiter) {
        *self.waiter.lock() = Some(waiter);
    }

    /// Waits on this thread until a transaction has ended.
    ///
    /// # Errors
    /// 40P01, 55P03, 57014.
    pub fn wait_for_xid(&self, xid: Xid) -> EngineResult<()> {
        let waiter = self.waiter.lock().clone();
        evenkeel_io::blocking(|| match waiter {
            Some(waiter) => evenkeel_engine::block_on(waiter.wait_for_xid(xid)),
            None => Ok(()),
        })
    }

    /// The number of the session's transaction, which it gets if it has none; none outside of one.
    ///
    /// # Errors
    /// Those of [`Waiter::own_xid`].
    pub fn own_xid(&self) -> EngineResult<Option<Xid>> {
        let waiter = self.waiter.lock().clone();
        waiter.map_or(Ok(None), |waiter| waiter.own_xid())
    }

    /// The same, if it has one.
    pub fn own_xid_if_any(&self) -> Option<Xid> {
        let waiter = self.waiter.lock();
        waiter.as_ref().and_then(Waiter::own_xid_if_any)
    }

    /// The bounds of the sorts of commands, with `maintenance_work_mem` in bytes.
    pub fn work_limits(&self, maintenance_work_mem: u64) -> WorkLimits {
        WorkLimits {
            bytes: usize::try_from(maintenance_work_mem).unwrap_or(usize::MAX),
            memory: Arc::clone(&self.memory),
            files: Arc::clone(self.temp.quota()),
        }
    }

    /// Says whether scans of large tables begin where another one is.
    pub fn synchronize_seqscans(&self, synchronize: bool) {
        let now = &self.synchronize_seqscans;
        now.store(synchronize, Ordering::Relaxed);
    }

    /// Whether scans of large tables begin where another one is.
    pub fn are_seqscans_synchronized(&self) -> bool {
        self.synchronize_seqscans.load(Ordering::Relaxed)
    }

    /// `work_mem`, in bytes.
    pub fn work_mem(&self) -> usize {
        self.work_mem.load(Ordering::Relaxed)
    }
}
