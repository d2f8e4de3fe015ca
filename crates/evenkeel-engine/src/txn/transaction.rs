//! A transaction, in its session's hands.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_storage::FileId;
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::counts::Counted;
use super::own::OwnXids;
use super::shared::{EndHook, TxnShared};
use super::snapshot::Snapshot;
use super::subs::{Level, MadeFile, Marks, Subtransaction};
use super::system::TxnSystem;
use crate::database::Database;
use crate::error::{EngineError, EngineResult};
use crate::lock::{LockKey, LockMark, RowLockMode, TableLockMode, WaitOptions, WaitPolicy};
use crate::ticket::{CancelFlag, WakeList};
use crate::types::{CommandId, Isolation, Tid, Xid};

/// A running transaction. Dropped without [`Transaction::commit`], it rolls back.
///
/// Everything that may wait for another transaction is `async` and holds no page meanwhile.
pub struct Transaction {
    pub(super) db: Database,
    pub(super) shared: Arc<TxnShared>,
    isolation: Isolation,
    snapshot: Option<Snapshot>,
    command: CommandId,
    /// The current command id was put on a tuple.
    command_used: AtomicBool,
    levels: Vec<Level>,
    next_level: u64,
    pub(super) files: Vec<MadeFile>,
    /// Files of rolled back subtransactions: dropped whatever becomes of the transaction, and
    /// named by its commit record so that a crash does not keep them.
    pub(super) dead_files: Vec<MadeFile>,
    pub(super) drops: Vec<FileId>,
    pub(super) hooks: Mutex<Hooks>,
    pub(super) counts: SmallVec<[Counted; 2]>,
    cancel: CancelFlag,
    lock_timeout: Option<Duration>,
    pub(super) ended: bool,
}

#[derive(Default)]
pub(super) struct Hooks {
    pub(super) on_commit: Vec<EndHook>,
    pub(super) on_abort: Vec<EndHook>,
}

/// What becomes of the locks of a level that is rolled back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Locks {
    Release,
    Keep,
}

fn check_supported(isolation: Isolation) -> EngineResult<()> {
    match isolation {
        Isolation::ReadCommitted | Isolation::RepeatableRead => Ok(()),
        Isolation::Serializable => Err(EngineError::Unsupported {
            what: "isolation level SERIALIZABLE",
        }),
    }
}

impl Transaction {
    pub(crate) fn new(db: &Database, isolation: Isolation) -> EngineResult<Transaction> {
        check_supported(isolation)?;
        let locks = db.system().core.locks.new_owner();
        Ok(Transaction {
            db: db.clone(),
            shared: Arc::new(TxnShared::new(locks)),
            isolation,
            snapshot: None,
            command: CommandId::FIRST,
            command_used: AtomicBool::new(false),
            levels: Vec::new(),
            next_level: 1,
            files: Vec::new(),
            dead_files: Vec::new(),
            drops: Vec::new(),
            hooks: Mutex::default(),
            counts: SmallVec::new(),
            cancel: CancelFlag::new(),
            lock_timeout: db.config().lock_timeout,
            ended: false,
        })
    }

    pub(super) fn system(&self) -> &Arc<TxnSystem> {
        self.db.system()
    }

    /// The database.
    pub fn db(&self) -> &Database {
        &self.db
    }

    /// The isolation level.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Changes the isolation level, for the statements to come; locks and savepoints stay. To be
    /// called before the first statement: a snapshot that there is goes.
    ///
    /// # Errors
    /// As `Database::begin` for a level that there is not.
    pub fn set_isolation(&mut self, isolation: Isolation) -> EngineResult<()> {
        check_supported(isolation)?;
        self.isolation = isolation;
        self.snapshot = None;
        Ok(())
    }

    /// The number by which `pg_locks` knows this transaction.
    pub fn number(&self) -> u64 {
        self.shared.locks().number().0
    }

    /// The ids it has and will have, for whoever shows them.
    pub fn ids(&self) -> Arc<OwnXids> {
        Arc::clone(self.shared.own())
    }

    // --- snapshots and commands ---------------------------------------------------------

    /// Begins a statement: a new snapshot under READ COMMITTED, the first one under REPEATABLE
    /// READ; the transaction's own earlier changes become visible.
    pub fn begin_statement(&mut self) -> EngineResult<()> {
        if self.command_used.load(Ordering::Relaxed) {
            self.next_command()?;
        }
        if self.isolation == Isolation::RepeatableRead
            && let Some(snapshot) = &mut self.snapshot
        {
            *snapshot = snapshot.with_command(self.command);
            return Ok(());
        }
        let renewed = match &mut self.snapshot {
            Some(snapshot) => snapshot.renew(self.command),
            None => false,
        };
        if !renewed {
            self.snapshot = Some(Snapshot::take(
                self.db.system(),
                self.shared.own(),
                self.command,
            )?);
        }
        Ok(())
    }

    /// Ends a statement: under READ COMMITTED its snapshot holds back removal no longer.
    pub fn end_statement(&mut self) {
        if self.isolation == Isolation::ReadCommitted {
            self.snapshot = None;
        }
    }

    /// The current statement's snapshot; the first call begins a statement if none has begun.
    pub fn snapshot(&mut self) -> EngineResult<Snapshot> {
        if self.snapshot.is_none() {
            self.begin_statement()?;
        }
        match &self.snapshot {
            Some(snapshot) => Ok(snapshot.clone()),
            None => Err(EngineError::TransactionAborted),
        }
    }

    /// The command id to put on tuples now.
    pub fn command(&self) -> CommandId {
        self.command_used.store(true, Ordering::Relaxed);
        self.command
    }

    /// Goes on to the next command id.
    pub fn next_command(&mut self) -> EngineResult<CommandId> {
        let Some(next) = self.command.0.checked_add(1) else {
            let what = "cannot have more than 2^32-2 commands in a transaction".into();
            return Err(EngineError::LimitExceeded { what });
        };
        self.command = CommandId(next);
        self.command_used.store(false, Ordering::Relaxed);
        Ok(self.command)
    }

    /// A combo command id, for a tuple this transaction made at `cmin` and deletes at `cmax`.
    pub fn combo(&self, cmin: CommandId, cmax: CommandId) -> CommandId {
        self.shared.own().make_combo(cmin, cmax)
    }

    /// The (cmin, cmax) that a combo id of this transaction stands for.
    pub fn resolve_combo(&self, number: CommandId) -> EngineResult<(CommandId, CommandId)> {
        let unknown =
            || EngineError::corrupted(format!("combo command id {} is unknown", number.0));
        self.shared.own().combo(number).ok_or_else(unknown)
    }

    // --- ids ------------------------------------------------------------------------------

    /// The id for changes made now: the transaction's, or the current subtransaction's.
    /// Assigned on first use.
    ///
    /// # Errors
    /// If ids are used up, or the window's spill file cannot grow.
    pub fn xid(&mut self) -> EngineResult<Xid> {
        let current = match self.levels.last() {
            Some(level) => level.xid,
            None => self.shared.own().top(),
        };
        match current {
            Some(xid) => Ok(xid),
            None => self.assign_xid(),
        }
    }

    #[cold]
    fn assign_xid(&mut self) -> EngineResult<Xid> {
        let core = &self.db.system().core;
        let own = self.shared.own();
        if own.top().is_none() {
            let xid = core.assign_xid()?;
            core.locks.start_xid(xid, self.shared.locks());
            own.set_top(xid);
        }
        let Some(level) = self.levels.last_mut() else {
            return own.top().ok_or(EngineError::TransactionAborted);
        };
        // A released inner level's id lives and dies with this level: it will do.
        let xid = match own.first_sub_from(level.marks.subs) {
            Some(xid) => xid,
            None => {
                let xid = core.assign_xid()?;
                core.locks.start_xid(xid, self.shared.locks());
                own.push_sub(xid);
                xid
            }
        };
        level.xid = Some(xid);
        Ok(xid)
    }

    /// The transaction's id, if it has one.
    pub fn xid_if_any(&self) -> Option<Xid> {
        self.shared.own().top()
    }

    /// Whether the id is this transaction's and was not rolled back.
    pub fn owns(&self, xid: Xid) -> bool {
        self.shared.own().contains(xid)
    }

    // --- locks and waits --------------------------------------------------------------------

    /// Lets other threads cancel what this transaction does.
    pub fn cancel_flag(&self) -> &CancelFlag {
        &self.cancel
    }

    /// Uses the session's flag from now on.
    pub fn set_cancel_flag(&mut self, cancel: CancelFlag) {
        self.cancel = cancel;
    }

    /// Fails with 57014 if the transaction was cancelled.
    pub fn check_cancel(&self) -> EngineResult<()> {
        self.cancel.check()
    }

    /// How long a lock wait may last; `None` waits for ever.
    pub fn set_lock_timeout(&mut self, timeout: Option<Duration>) {
        self.lock_timeout = timeout;
    }

    fn wait_options(&self) -> WaitOptions<'_> {
        WaitOptions {
            cancel: &self.cancel,
            timeout: self.lock_timeout,
        }
    }

    /// Takes a lock, held to the end of the transaction or its subtransaction. Answers `false`
    /// if it is not free and the policy is to skip.
    ///
    /// # Errors
    /// 40P01, 55P03, 57014, or that the instance is poisoned.
    pub async fn lock_table(
        &self,
        table: u64,
        mode: TableLockMode,
        policy: WaitPolicy,
    ) -> EngineResult<bool> {
        let locks = &self.system().core.locks;
        let key = LockKey::Table(table);
        locks
            .acquire(
                self.shared.locks(),
                key,
                mode.into(),
                policy,
                self.wait_options(),
            )
            .await
    }

    /// Takes a row lock; see [`Transaction::lock_table`]. No page may be locked.
    pub async fn lock_row(
        &self,
        file: FileId,
        tid: Tid,
        mode: RowLockMode,
        policy: WaitPolicy,
    ) -> EngineResult<bool> {
        let locks = &self.system().core.locks;
        let key = LockKey::Row(file, tid);
        locks
            .acquire(
                self.shared.locks(),
                key,
                mode.into(),
                policy,
                self.wait_options(),
            )
            .await
    }

    /// Takes an advisory lock; see [`Transaction::lock_table`].
    pub async fn lock_advisory(
        &self,
        key: u64,
        mode: TableLockMode,
        policy: WaitPolicy,
    ) -> EngineResult<bool> {
        let locks = &self.system().core.locks;
        let key = LockKey::Advisory(key);
        locks
            .acquire(
                self.shared.locks(),
                key,
                mode.into(),
                policy,
                self.wait_options(),
            )
            .await
    }

    /// Takes the row lock if it is free; never waits, so the row's page may be locked.
    pub fn row_try(&self, file: FileId, tid: Tid, mode: RowLockMode) -> bool {
        let locks = &self.system().core.locks;
        locks.try_acquire(self.shared.locks(), LockKey::Row(file, tid), mode.into())
    }

    /// Whether another transaction's lock on the row, or an earlier request for one, conflicts
    /// with `mode`. One load when nobody has locked rows. To be asked under the page's
    /// exclusive lock, before the row is changed.
    pub fn row_conflict(&self, file: FileId, tid: Tid, mode: RowLockMode) -> bool {
        let locks = &self.system().core.locks;
        locks.conflicts(self.shared.locks(), &LockKey::Row(file, tid), mode.into())
    }

    /// A position in the order in which this transaction takes locks.
    pub(crate) fn locks_mark(&self) -> LockMark {
        self.shared.locks().mark()
    }

    /// Gives up the locks taken since `mark`.
    pub(crate) fn release_locks_to(&self, mark: LockMark) {
        let locks = &self.system().core.locks;
        let mut wakes = WakeList::default();
        locks.release_to(self.shared.locks(), mark, &mut wakes);
        wakes.wake();
    }

    /// Waits until `xid` is committed or aborted, visibly. `false` if it is still running and
    /// the policy is to skip.
    ///
    /// # Errors
    /// 40P01, 55P03, 57014, or that the instance is poisoned.
    pub async fn wait_for_xid(&self, xid: Xid, policy: WaitPolicy) -> EngineResult<bool> {
        let system = self.system();
        let owner = self.shared.locks();
        let options = self.wait_options();
        let ended = system
            .core
            .locks
            .wait_for_xid(owner, xid, policy, options)
            .await?;
        // In a poisoned instance ids end without being decided.
        system.store.poison().check()?;
        Ok(ended)
    }

    // --- savepoints and subtransactions ------------------------------------------------------

    fn push_level(&mut self, name: Option<String>) -> u64 {
        let id = self.next_level;
        self.next_level += 1;
        let hooks = self.hooks.get_mut();
        let marks = Marks {
            subs: self.shared.own().sub_count(),
            locks: self.shared.locks().mark(),
            files: self.files.len(),
            drops: self.drops.len(),
            on_commit: hooks.on_commit.len(),
            on_abort: hooks.on_abort.len(),
        };
        self.levels.push(Level {
            id,
            name,
            xid: None,
            marks,
        });
        id
    }

    /// Begins an internal subtransaction.
    pub fn begin_sub(&mut self) -> Subtransaction {
        Subtransaction(self.push_level(None))
    }

    /// Ends a subtransaction, and those begun inside it: their changes are the level's below.
    #[expect(clippy::needless_pass_by_value, reason = "ending it uses it up")]
    pub fn commit_sub(&mut self, sub: Subtransaction) {
        if let Some(at) = self.levels.iter().position(|level| level.id == sub.0) {
            self.levels.truncate(at);
            self.counts_merged(at);
        }
    }

    /// Rolls a subtransaction back, and those begun inside it.
    #[expect(clippy::needless_pass_by_value, reason = "ending it uses it up")]
    pub fn abort_sub(&mut self, sub: Subtransaction) {
        if let Some(at) = self.levels.iter().position(|level| level.id == sub.0) {
            self.abort_levels(at, Locks::Release);
        }
    }

    /// As [`Transaction::abort_sub`], but its locks become the level's below: for who does the
    /// same work again, and would have to wait for them anew.
    #[expect(clippy::needless_pass_by_value, reason = "ending it uses it up")]
    pub fn abort_sub_keeping_locks(&mut self, sub: Subtransaction) {
        if let Some(at) = self.levels.iter().position(|level| level.id == sub.0) {
            self.abort_levels(at, Locks::Keep);
        }
    }

    /// Sets a savepoint. One of the same name is hidden until this one is released.
    pub fn savepoint(&mut self, name: &str) {
        self.push_level(Some(name.to_owned()));
    }

    fn find_savepoint(&self, name: &str) -> EngineResult<usize> {
        let named = |level: &Level| level.name.as_deref() == Some(name);
        let unknown = || EngineError::NoSuchSavepoint {
            name: name.to_owned(),
        };
        self.levels.iter().rposition(named).ok_or_else(unknown)
    }

    /// Rolls back to a savepoint, which stays.
    pub fn rollback_to(&mut self, name: &str) -> EngineResult<()> {
        let at = self.find_savepoint(name)?;
        self.abort_levels(at, Locks::Release);
        self.push_level(Some(name.to_owned()));
        Ok(())
    }

    /// Forgets a savepoint and those set after it; their changes stay.
    pub fn release(&mut self, name: &str) -> EngineResult<()> {
        let at = self.find_savepoint(name)?;
        self.levels.truncate(at);
        self.counts_merged(at);
        Ok(())
    }

    /// How many savepoints and subtransactions are open.
    pub fn depth(&self) -> usize {
        self.levels.len()
    }

    fn abort_levels(&mut self, at: usize, locks: Locks) {
        let marks = self.levels[at].marks;
        self.levels.truncate(at);
        self.counts_rolled_back(at);
        let system = Arc::clone(self.db.system());
        let core = &system.core;
        let aborted = self.shared.own().cut_subs(marks.subs);
        aborted.iter().for_each(|xid| core.window.abort(*xid));
        let hooks = self.hooks.get_mut();
        hooks.on_commit.truncate(marks.on_commit);
        hooks
            .on_abort
            .drain(marks.on_abort..)
            .for_each(|hook| hook());
        self.drops.truncate(marks.drops);
        self.dead_files.extend(self.files.drain(marks.files..));
        let mut wakes = WakeList::default();
        aborted
            .iter()
            .for_each(|xid| core.locks.end_xid(*xid, &mut wakes));
        if locks == Locks::Release {
            core.locks
                .release_to(self.shared.locks(), marks.locks, &mut wakes);
        }
        wakes.wake();
        // Changes made from here on are told from those rolled back.
        if self.command_used.load(Ordering::Relaxed) {
            // At the last command id there is nothing to go on to; the next statement says so.
            let _ = self.next_command();
        }
    }

    // --- files and hooks --------------------------------------------------------------------

    /// Creates a file; it is removed if the transaction does not commit.
    ///
    /// # Errors
    /// A full disk, or other failures of the disk.
    pub fn create_file(&mut self) -> EngineResult<FileId> {
        let xid = self.top_xid()?;
        let (file, hold) = self.system().store.create_file(xid.get())?;
        self.files.push(MadeFile { file, hold });
        Ok(file)
    }

    /// Creates a file under a number of the caller's choice, below
    /// [`FIRST_FREE_FILE`](evenkeel_storage::store::FIRST_FREE_FILE) and never used before.
    ///
    /// # Errors
    /// As [`Transaction::create_file`].
    pub fn create_file_as(&mut self, file: FileId) -> EngineResult<()> {
        let xid = self.top_xid()?;
        let hold = self.system().store.create_file_as(file, xid.get())?;
        self.files.push(MadeFile { file, hold });
        Ok(())
    }

    fn top_xid(&mut self) -> EngineResult<Xid> {
        self.xid()?;
        self.xid_if_any().ok_or(EngineError::TransactionAborted)
    }

    /// Drops a file when the transaction has committed.
    pub fn drop_file(&mut self, file: FileId) -> EngineResult<()> {
        self.xid()?;
        self.drops.push(file);
        Ok(())
    }

    /// Runs `hook` when the commit is published, before its locks go. The hook may run on any
    /// thread; it must not block or call into the engine.
    pub fn on_commit(&mut self, hook: EndHook) {
        self.hooks.get_mut().on_commit.push(hook);
    }

    /// Runs `hook` when the transaction, or the current subtransaction, rolls back.
    pub fn on_abort(&mut self, hook: EndHook) {
        self.hooks.get_mut().on_abort.push(hook);
    }

    pub(super) fn drop_snapshot(&mut self) {
        self.snapshot = None;
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if !self.ended {
            self.abort();
        }
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction")
            .field("number", &self.number())
            .field("xid", &self.xid_if_any())
            .field("isolation", &self.isolation)
            .field("command", &self.command)
            .field("depth", &self.levels.len())
            .finish_non_exhaustive()
    }
}
