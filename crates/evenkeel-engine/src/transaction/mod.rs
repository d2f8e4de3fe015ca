//! One transaction of a session: its statements and command ids, locks, savepoints, files, and its
//! end.
//!
//! Entry points: [`Database::begin`], [`Transaction::begin_statement`], [`Transaction::commit`].
//! The state of all transactions is in [`crate::txn`], whose README has the rules.

mod counts;
mod doubts;
mod end;
mod file_copy;
mod levels;
#[cfg(test)]
mod log_tests;
mod savepoints;
#[cfg(test)]
mod tests;
mod waits;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_storage::{FileId, RedoHold};
use parking_lot::Mutex;

use self::counts::RowCounts;
use self::levels::{Level, MadeFile};
use crate::database::Database;
use crate::error::{EngineError, EngineResult};
use crate::sequence::Sequence;
use crate::stats::{RowChanges, TableCounters};
use crate::temp::WorkLimits;
use crate::ticket::CancelFlag;
use crate::txn::shared::{EndHook, TxnShared};
use crate::txn::system::TxnSystem;
use crate::txn::{OwnXids, Snapshot};
use crate::types::{CommandId, Isolation, Xid};

pub use self::doubts::Doubt;
pub use self::levels::Subtransaction;
pub use self::waits::{RowVersion, Waiter};

/// A running transaction. Dropped without [`Transaction::commit`], it rolls back.
///
/// Everything that may wait for another transaction is `async` and holds no page meanwhile.
pub struct Transaction {
    db: Database,
    shared: Arc<TxnShared>,
    isolation: Isolation,
    snapshot: Option<Snapshot>,
    command: CommandId,
    /// The current command id was put on a tuple.
    command_used: AtomicBool,
    levels: Vec<Level>,
    next_level: u64,
    files: Vec<MadeFile>,
    /// Files of rolled back subtransactions: dropped whatever becomes of the transaction, and
    /// named by its commit record so that a crash does not keep them.
    dead_files: Vec<MadeFile>,
    drops: Vec<FileId>,
    /// Ids of subtransactions that were rolled back, until a record says so.
    aborted: Vec<Xid>,
    /// Objects whose definitions others may have cached, and must read again.
    invalidations: Vec<u64>,
    hooks: Mutex<Hooks>,
    counts: RowCounts,
    /// Of the rows that the last operation has stored, until the caller takes them.
    doubts: Vec<Doubt>,
    touched: Touched,
    cancel: CancelFlag,
    work: WorkLimits,
    lock_timeout: Option<Duration>,
    deadlock_timeout: Duration,
    ended: bool,
}

/// Memory of sorts in a transaction of no session, in bytes.
const WORK_BYTES: usize = 64 << 20;

/// Kinds of files that a transaction has changed. One that has changed temporary ones alone has
/// nothing that a crash could lose: nobody waits for its commit to be durable.
#[derive(Clone, Copy, Debug, Default)]
struct Touched {
    temporary: bool,
    permanent: bool,
}

impl Touched {
    fn note(&mut self, file: FileId) {
        match file.is_temporary() {
            true => self.temporary = true,
            false => self.permanent = true,
        }
    }
}

#[derive(Default)]
struct Hooks {
    on_commit: Vec<EndHook>,
    /// In the order of the log.
    in_order: Option<EndHook>,
    on_abort: Vec<EndHook>,
}

fn check_supported(isolation: Isolation) -> EngineResult<()> {
    match isolation {
        Isolation::ReadCommitted | Isolation::RepeatableRead => Ok(()),
        Isolation::Serializable => Err(EngineError::Unsupported {
            what: "isolation level SERIALIZABLE",
        }),
    }
}

impl Database {
    /// Begins a transaction.
    ///
    /// # Errors
    /// 0A000 for SERIALIZABLE.
    pub fn begin(&self, isolation: Isolation) -> EngineResult<Transaction> {
        Transaction::new(self, isolation)
    }
}

/// A transaction's own id, which it gets on first use.
fn top_of(db: &Database, shared: &TxnShared) -> EngineResult<Xid> {
    let core = &db.system().core;
    shared.own().top_or(|| {
        let xid = core.assign_xid()?;
        core.locks.start_xid(xid, shared.locks());
        Ok(xid)
    })
}

impl Transaction {
    fn new(db: &Database, isolation: Isolation) -> EngineResult<Transaction> {
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
            aborted: Vec::new(),
            invalidations: Vec::new(),
            hooks: Mutex::default(),
            counts: RowCounts::default(),
            doubts: Vec::new(),
            touched: Touched::default(),
            cancel: CancelFlag::new(),
            work: WorkLimits::unlimited(WORK_BYTES),
            lock_timeout: db.config().lock_timeout,
            deadlock_timeout: db.config().deadlock_timeout,
            ended: false,
        })
    }

    fn system(&self) -> &Arc<TxnSystem> {
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

    /// A snapshot of what is committed now and of the transaction's own changes, whatever its
    /// isolation level; the statement's stays as it is. For work under a lock that keeps all others
    /// from the rows.
    ///
    /// # Errors
    /// As [`Transaction::snapshot`].
    pub fn latest_snapshot(&mut self) -> EngineResult<Snapshot> {
        if self.command_used.load(Ordering::Relaxed) {
            self.next_command()?;
        }
        Snapshot::take(self.db.system(), self.shared.own(), self.command)
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
        let top = self.assign_top()?;
        let own = self.shared.own();
        let Some(level) = self.levels.last_mut() else {
            return Ok(top);
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

    /// The transaction's own id, whatever subtransaction it is in.
    fn assign_top(&self) -> EngineResult<Xid> {
        top_of(&self.db, &self.shared)
    }

    /// The transaction's id, if it has one.
    pub fn xid_if_any(&self) -> Option<Xid> {
        self.shared.own().top()
    }

    /// Whether the id is this transaction's and was not rolled back.
    pub fn owns(&self, xid: Xid) -> bool {
        self.shared.own().contains(xid)
    }

    // --- files and hooks --------------------------------------------------------------------

    /// Creates a file; it is removed if the transaction does not commit.
    ///
    /// # Errors
    /// A full disk, or other failures of the disk.
    pub fn create_file(&mut self) -> EngineResult<FileId> {
        let xid = self.top_xid()?;
        self.system().core.drops.await_room();
        let (file, hold) = self.system().store.create_file(xid.get())?;
        self.add_file(file, Some(hold));
        Ok(file)
    }

    /// Creates a file that is gone with the process; it is removed if the transaction does not
    /// commit. Changes of it are not logged, and a commit of these alone is not waited for.
    ///
    /// # Errors
    /// As [`Transaction::create_file`].
    pub fn create_temporary_file(&mut self) -> EngineResult<FileId> {
        self.xid()?;
        self.system().core.drops.await_room();
        let file = self.system().store.create_temporary_file()?;
        self.add_file(file, None);
        Ok(file)
    }

    /// Creates a file that lasts as `other` does.
    ///
    /// # Errors
    /// As [`Transaction::create_file`].
    pub fn create_file_like(&mut self, other: FileId) -> EngineResult<FileId> {
        match other.is_temporary() {
            true => self.create_temporary_file(),
            false => self.create_file(),
        }
    }

    fn add_file(&mut self, file: FileId, hold: Option<RedoHold>) {
        self.touched.note(file);
        self.files.push(MadeFile { file, hold });
    }

    /// Makes a sequence in `file`, which the transaction has made and whose first number is
    /// `start`. It goes with the transaction if that does not commit; its numbers do not.
    ///
    /// # Errors
    /// Storage failures.
    pub fn create_sequence(&mut self, file: FileId, start: i64) -> EngineResult<()> {
        let xid = self.top_xid()?;
        let store = Arc::clone(&self.system().store);
        let sequence = Sequence::create(store, file, xid.get(), start)?;
        self.db.add_sequence(file, sequence);
        let db = self.db.clone();
        self.on_abort(Box::new(move || db.forget_sequence(file)));
        Ok(())
    }

    /// Drops a sequence's file when the transaction commits. Until it ends nobody gets numbers
    /// of it.
    ///
    /// # Errors
    /// As [`Transaction::drop_file`].
    pub fn drop_sequence(&mut self, file: FileId) -> EngineResult<()> {
        let sequence = self.db.sequence(file)?;
        self.drop_file(file)?;
        if let Some(sequence) = sequence {
            sequence.close(Some(self.xid()?));
            self.on_abort(Box::new(move || sequence.close(None)));
        }
        let db = self.db.clone();
        self.on_commit(Box::new(move || db.forget_sequence(file)));
        Ok(())
    }

    /// Creates a file under a number of the caller's choice, below
    /// [`FIRST_FREE_FILE`](evenkeel_storage::store::FIRST_FREE_FILE) and never used before.
    ///
    /// # Errors
    /// As [`Transaction::create_file`].
    pub fn create_file_as(&mut self, file: FileId) -> EngineResult<()> {
        let xid = self.top_xid()?;
        let hold = self.system().store.create_file_as(file, xid.get())?;
        self.add_file(file, Some(hold));
        Ok(())
    }

    /// Whether the current subtransaction made the file, itself or by one inside it that ended
    /// well: if the file stays, so does what is done to it now.
    pub fn made_here(&self, file: FileId) -> bool {
        let before = self.levels.last().map_or(0, |level| level.marks.files);
        let mut made = self.files.iter().skip(before);
        made.any(|made| made.file == file)
    }

    fn top_xid(&mut self) -> EngineResult<Xid> {
        self.xid()?;
        self.xid_if_any().ok_or(EngineError::TransactionAborted)
    }

    /// Drops a file when the transaction has committed.
    pub fn drop_file(&mut self, file: FileId) -> EngineResult<()> {
        self.xid()?;
        self.system().core.drops.await_room();
        self.touched.note(file);
        self.drops.push(file);
        Ok(())
    }

    /// The commit is to be durable, whatever has been changed.
    ///
    /// # Errors
    /// As [`Transaction::xid`].
    pub fn must_last(&mut self) -> EngineResult<()> {
        self.xid()?;
        self.touched.permanent = true;
        Ok(())
    }

    /// Has the commit record say that the definition of `object` changes, for those who have it
    /// cached beside another copy of this database.
    ///
    /// # Errors
    /// As [`Transaction::xid`].
    pub fn invalidate(&mut self, object: u64) -> EngineResult<()> {
        self.xid()?;
        self.invalidations.push(object);
        Ok(())
    }

    /// Runs `hook` when the commit is published, before its locks go. The hook may run on any
    /// thread; it must not block or call into the engine.
    pub fn on_commit(&mut self, hook: EndHook) {
        self.hooks.get_mut().on_commit.push(hook);
    }

    /// Runs `hook` when the commit is published, ahead of those of [`Transaction::on_commit`], and
    /// before any hook of this kind of a later commit: those of neighbours in the log never change
    /// places. It is the whole transaction's, of which a savepoint undoes nothing, and the last one
    /// given counts.
    ///
    /// It runs under the publisher's lock, so it must do no more than store something in memory: no
    /// system call, and no lock that is ever held over one.
    pub fn on_publish(&mut self, hook: EndHook) {
        self.hooks.get_mut().in_order = Some(hook);
    }

    /// Runs `hook` when the transaction, or the current subtransaction, rolls back.
    pub fn on_abort(&mut self, hook: EndHook) {
        self.hooks.get_mut().on_abort.push(hook);
    }

    // --- counts ------------------------------------------------------------------------------

    /// Notes changes of the rows of a table whose heap is `heap`.
    pub(crate) fn count(
        &mut self,
        (table, heap): (&Arc<TableCounters>, FileId),
        changes: &RowChanges,
    ) {
        self.touched.note(heap);
        let depth = self.depth();
        self.counts.add(table, depth, changes);
    }

    /// Rows of a table that this transaction has inserted, updated and deleted so far: its
    /// counters get them when it ends.
    pub fn rows_changed(&self, table: u64) -> (u64, u64, u64) {
        let sum = self.counts.of(&self.db.table_counters(table));
        (sum.inserted, sum.updated, sum.deleted)
    }

    fn drop_snapshot(&mut self) {
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
