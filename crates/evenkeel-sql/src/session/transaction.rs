//! The transaction block: PostgreSQL's states, and what happens to the engine's transaction,
//! the catalog changes and the settings as the block moves between them.

use std::time::{SystemTime, UNIX_EPOCH};

use evenkeel_engine::memory::Reservation;
use evenkeel_engine::{Isolation, Transaction};
use evenkeel_planner::ast::{IsolationLevel, TransactionCommand, TransactionModes};

use super::Session;
use super::deferral::Deferral;
use crate::catalog::{DdlLog, DdlMark};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::channel_use::ChannelMark;
use crate::protocol::TransactionStatus;
use crate::settings::{SettingsMark, isolation_name};

fn isolation_of(level: IsolationLevel) -> Isolation {
    match level {
        IsolationLevel::ReadCommitted => Isolation::ReadCommitted,
        IsolationLevel::RepeatableRead => Isolation::RepeatableRead,
        IsolationLevel::Serializable => Isolation::Serializable,
    }
}

fn level_of(isolation: Isolation) -> IsolationLevel {
    match isolation {
        Isolation::ReadCommitted => IsolationLevel::ReadCommitted,
        Isolation::RepeatableRead => IsolationLevel::RepeatableRead,
        Isolation::Serializable => IsolationLevel::Serializable,
    }
}

/// Where the block stands (SESS-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Block {
    /// No transaction.
    Idle,
    /// A transaction that began by itself and ends with the statement, the query text or Sync.
    Implicit,
    /// Between BEGIN and COMMIT.
    Explicit,
    /// After an error in a block: nothing but its end, or ROLLBACK TO, is taken.
    Failed,
}

/// Bytes of a savepoint, here and in the engine, beside its names.
const SAVEPOINT_BYTES: usize = 2 * size_of::<Savepoint>() + 256;

struct Savepoint {
    name: String,
    ddl: DdlMark,
    settings: SettingsMark,
    /// How many row events there were.
    events: usize,
    deferral: Deferral,
    /// Its place among the transaction's advisory locks.
    advisory: usize,
    /// Its place among what is sent and asked of channels.
    channels: ChannelMark,
    _charge: Reservation,
}

/// A session's transaction.
pub struct TxState {
    /// The block's state.
    pub block: Block,
    /// The engine's transaction. A failed block without savepoints has none any more.
    pub txn: Option<Transaction>,
    /// Catalog changes of this transaction.
    pub ddl: DdlLog,
    /// Whether `ddl` was handed out in this transaction.
    pub ddl_used: bool,
    savepoints: Vec<Savepoint>,
    /// Which constraints are deferred.
    pub deferral: Deferral,
    /// `now()`: microseconds since 1970 UTC.
    pub started: i64,
    /// READ ONLY.
    pub read_only: bool,
    /// Isolation of this transaction.
    pub isolation: Isolation,
    /// Whether a statement has taken a snapshot: SET TRANSACTION comes too late then.
    pub used: bool,
}

impl TxState {
    /// No transaction.
    pub fn new() -> TxState {
        TxState {
            block: Block::Idle,
            txn: None,
            ddl: DdlLog::default(),
            ddl_used: false,
            savepoints: Vec::new(),
            deferral: Deferral::default(),
            started: 0,
            read_only: false,
            isolation: Isolation::ReadCommitted,
            used: false,
        }
    }

    /// How many savepoints there are.
    pub fn level(&self) -> usize {
        self.savepoints.len()
    }

    /// The state for ReadyForQuery.
    pub fn status(&self) -> TransactionStatus {
        match self.block {
            Block::Idle | Block::Implicit => TransactionStatus::Idle,
            Block::Explicit => TransactionStatus::InBlock,
            Block::Failed => TransactionStatus::Failed,
        }
    }

    /// The engine's transaction; 25P02 in a failed block.
    pub fn txn(&mut self) -> SqlResult<&mut Transaction> {
        self.txn.as_mut().ok_or_else(in_failed_block)
    }
}

/// 25P02.
pub fn in_failed_block() -> SqlError {
    SqlError::new(
        SqlState::IN_FAILED_SQL_TRANSACTION,
        "current transaction is aborted, commands ignored until end of transaction block",
    )
}

/// Microseconds since 1970 UTC.
pub fn now_micros() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

fn no_block(what: &str) -> SqlError {
    SqlError::new(
        SqlState::NO_ACTIVE_SQL_TRANSACTION,
        format!("{what} can only be used in transaction blocks"),
    )
}

/// Whether a command may run in a failed block.
pub fn ends_failure(command: &TransactionCommand) -> bool {
    matches!(
        command,
        TransactionCommand::Commit { .. }
            | TransactionCommand::Rollback { .. }
            | TransactionCommand::RollbackTo(_)
    )
}

impl Session {
    /// Begins a transaction unless there is one.
    pub(super) fn ensure_transaction(&mut self) -> SqlResult<()> {
        match self.tx.block {
            Block::Idle => {}
            Block::Failed => return Err(in_failed_block()),
            Block::Implicit | Block::Explicit => {
                self.limit_waits();
                return Ok(());
            }
        }
        self.tx.isolation = self.effective.isolation;
        self.tx.read_only = self.effective.read_only;
        self.tx.used = false;
        self.tx.started = self.statement_start;
        self.begin_engine()?;
        self.tx.block = Block::Implicit;
        self.settings.begin();
        Ok(())
    }

    fn begin_engine(&mut self) -> SqlResult<()> {
        let mut txn = self.engine.database().begin(self.tx.isolation)?;
        txn.set_cancel_flag(self.cancel.clone());
        txn.set_memory(&self.resources.memory);
        self.backend_entry.begins(self.tx.started, &txn);
        self.resources.advisory.begin(&txn);
        self.tx.txn = Some(txn);
        self.limit_waits();
        Ok(())
    }

    /// Applies the settings that limit waits for locks and the memory of sorts: they may change
    /// between the statements of a transaction.
    fn limit_waits(&mut self) {
        if let Some(txn) = &mut self.tx.txn {
            txn.set_lock_timeout(self.effective.lock_timeout);
            txn.set_deadlock_timeout(self.effective.deadlock_timeout);
            let work = self.effective.maintenance_work_mem;
            txn.set_work_limits(self.resources.work_limits(work));
            self.resources.set_waiter(txn.waiter());
        }
        let effective = &self.effective;
        self.resources
            .limit_waits(effective.lock_timeout, effective.deadlock_timeout);
    }

    /// Runs a transaction command; its tag.
    pub(super) async fn transaction_command(
        &mut self,
        command: &TransactionCommand,
    ) -> SqlResult<&'static str> {
        if self.tx.block == Block::Failed && !ends_failure(command) {
            return Err(in_failed_block());
        }
        match command {
            TransactionCommand::Begin(modes) => self.begin_block(*modes)?,
            TransactionCommand::Commit { chain } => return self.commit_block(*chain).await,
            TransactionCommand::Rollback { chain } => self.rollback_block(*chain)?,
            TransactionCommand::Savepoint(name) => self.savepoint(name)?,
            TransactionCommand::Release(name) => self.release(name)?,
            TransactionCommand::RollbackTo(name) => self.rollback_to(name)?,
            TransactionCommand::SetTransaction(modes) => {
                if self.tx.block == Block::Explicit {
                    self.set_modes(*modes)?;
                } else {
                    self.warn(
                        SqlState::NO_ACTIVE_SQL_TRANSACTION,
                        "SET TRANSACTION can only be used in transaction blocks",
                    );
                }
            }
            TransactionCommand::SetSession(modes) => self.set_session_modes(*modes)?,
        }
        Ok(crate::planner::compile::transaction_tag(command))
    }

    fn begin_block(&mut self, modes: TransactionModes) -> SqlResult<()> {
        match self.tx.block {
            Block::Explicit => {
                self.warn(
                    SqlState::ACTIVE_SQL_TRANSACTION,
                    "there is already a transaction in progress",
                );
                return Ok(());
            }
            // Statements before it in the same query text become part of the block.
            Block::Implicit => {}
            Block::Idle | Block::Failed => self.ensure_transaction()?,
        }
        self.set_modes(modes)?;
        self.tx.block = Block::Explicit;
        Ok(())
    }

    fn set_modes(&mut self, modes: TransactionModes) -> SqlResult<()> {
        if let Some(read_only) = modes.read_only {
            if !read_only && self.tx.read_only && self.tx.used {
                return Err(SqlError::new(
                    SqlState::ACTIVE_SQL_TRANSACTION,
                    "transaction read-write mode must be set before any query",
                ));
            }
            self.tx.read_only = read_only;
        }
        if let Some(isolation) = modes.isolation.map(isolation_of)
            && isolation != self.tx.isolation
        {
            if self.tx.used {
                return Err(SqlError::new(
                    SqlState::ACTIVE_SQL_TRANSACTION,
                    "SET TRANSACTION ISOLATION LEVEL must be called before any query",
                ));
            }
            if self.tx.level() > 0 {
                return Err(SqlError::new(
                    SqlState::ACTIVE_SQL_TRANSACTION,
                    "SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction",
                ));
            }
            // In place: the transaction may hold locks already.
            self.tx.txn()?.set_isolation(isolation)?;
            self.tx.isolation = isolation;
        }
        Ok(())
    }

    fn set_session_modes(&mut self, modes: TransactionModes) -> SqlResult<()> {
        if let Some(isolation) = modes.isolation.map(isolation_of) {
            if isolation == Isolation::Serializable {
                return Err(SqlError::unsupported("isolation level SERIALIZABLE"));
            }
            let name = isolation_name(isolation);
            self.settings
                .set("default_transaction_isolation", Some(name), false)?;
        }
        if let Some(read_only) = modes.read_only {
            let value = if read_only { "on" } else { "off" };
            self.settings
                .set("default_transaction_read_only", Some(value), false)?;
        }
        Ok(())
    }

    async fn commit_block(&mut self, chain: bool) -> SqlResult<&'static str> {
        match self.tx.block {
            Block::Idle | Block::Implicit => {
                if chain {
                    return Err(no_block("COMMIT AND CHAIN"));
                }
                self.warn(
                    SqlState::NO_ACTIVE_SQL_TRANSACTION,
                    "there is no transaction in progress",
                );
                self.commit().await?;
                return Ok("COMMIT");
            }
            Block::Failed => {
                self.rollback_block(chain)?;
                return Ok("ROLLBACK");
            }
            Block::Explicit => {}
        }
        let modes = (self.tx.isolation, self.tx.read_only);
        self.commit().await?;
        if chain {
            self.chain(modes)?;
        }
        Ok("COMMIT")
    }

    fn rollback_block(&mut self, chain: bool) -> SqlResult<()> {
        if matches!(self.tx.block, Block::Idle | Block::Implicit) {
            if chain {
                return Err(no_block("ROLLBACK AND CHAIN"));
            }
            self.warn(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "there is no transaction in progress",
            );
        }
        let modes = (self.tx.isolation, self.tx.read_only);
        self.rollback();
        if chain {
            self.chain(modes)?;
        }
        Ok(())
    }

    fn chain(&mut self, (isolation, read_only): (Isolation, bool)) -> SqlResult<()> {
        self.ensure_transaction()?;
        let modes = TransactionModes {
            isolation: Some(level_of(isolation)),
            read_only: Some(read_only),
        };
        self.set_modes(modes)?;
        self.tx.block = Block::Explicit;
        Ok(())
    }

    fn savepoint(&mut self, name: &str) -> SqlResult<()> {
        if self.tx.block != Block::Explicit {
            return Err(no_block("SAVEPOINT"));
        }
        let charge = Reservation::of(&self.resources.memory, SAVEPOINT_BYTES + 2 * name.len())?;
        let ddl = self.tx.ddl.mark();
        let settings = self.settings.mark();
        self.tx.txn()?.savepoint(name);
        self.tx.savepoints.push(Savepoint {
            name: name.to_owned(),
            ddl,
            settings,
            events: self.resources.events.len(),
            deferral: self.tx.deferral.clone(),
            advisory: self.resources.advisory.mark(),
            channels: self.resources.channels.mark(),
            _charge: charge,
        });
        Ok(())
    }

    fn find_savepoint(&self, name: &str, what: &str) -> SqlResult<usize> {
        if matches!(self.tx.block, Block::Idle | Block::Implicit) {
            return Err(no_block(what));
        }
        let found = self
            .tx
            .savepoints
            .iter()
            .rposition(|savepoint| savepoint.name == name);
        found.ok_or_else(|| {
            SqlError::new(
                SqlState::INVALID_SAVEPOINT,
                format!("savepoint \"{name}\" does not exist"),
            )
        })
    }

    fn release(&mut self, name: &str) -> SqlResult<()> {
        let at = self.find_savepoint(name, "RELEASE SAVEPOINT")?;
        self.tx.txn()?.release(name)?;
        self.tx.savepoints.truncate(at);
        self.resources.events.release(at);
        Ok(())
    }

    fn rollback_to(&mut self, name: &str) -> SqlResult<()> {
        let at = self.find_savepoint(name, "ROLLBACK TO SAVEPOINT")?;
        self.tx.txn()?.rollback_to(name)?;
        self.tx.savepoints.truncate(at + 1);
        self.rollback_cursors(at);
        let savepoint = &self.tx.savepoints[at];
        self.tx.ddl.rollback_to(savepoint.ddl);
        let settings = savepoint.settings.clone();
        self.resources.events.rollback_to(savepoint.events, at + 1);
        self.tx.deferral = savepoint.deferral.clone();
        self.settings.rollback_to(&settings);
        self.resources.advisory.rollback_to(savepoint.advisory);
        self.resources.channels.rollback_to(savepoint.channels);
        self.tx.block = Block::Explicit;
        Ok(())
    }

    /// Commits what there is. On failure everything is rolled back.
    pub(super) async fn commit(&mut self) -> SqlResult<()> {
        if let Err(error) = self.deferred_events().await {
            self.rollback();
            return Err(error);
        }
        if !self.cursors.is_empty()
            && let Err(error) = self.hold_cursors().await
        {
            self.rollback();
            return Err(error);
        }
        if let Err(error) = self.on_commit_actions().await {
            self.rollback();
            return Err(error);
        }
        let Some(mut txn) = self.tx.txn.take() else {
            self.end(false);
            return Ok(());
        };
        // A number is acknowledged by the commit, so the log must have it by then (SEQ-2).
        if self.resources.sequences.take_logged()
            && let Err(error) = txn.must_last()
        {
            txn.rollback();
            self.end(false);
            return Err(error.into());
        }
        if let Err(error) = self.resources.channels.commit_with(&mut txn) {
            txn.rollback();
            self.end(false);
            return Err(error);
        }
        let outcome = txn.commit(self.effective.durability).await;
        self.end(outcome.is_ok());
        Ok(outcome?)
    }

    /// Rolls back what there is.
    pub(super) fn rollback(&mut self) {
        if let Some(txn) = self.tx.txn.take() {
            txn.rollback();
        }
        self.end(false);
    }

    fn end(&mut self, committed: bool) {
        self.tx.block = Block::Idle;
        self.backend_entry.ends();
        self.resources.advisory.end();
        self.resources.channels.end();
        // Committed catalog changes were published with the commit (CAT-3).
        if std::mem::take(&mut self.tx.ddl_used) {
            self.tx.ddl = DdlLog::default();
        }
        self.tx.savepoints.clear();
        self.tx.deferral = Deferral::default();
        self.resources.events.clear();
        self.end_cursors(committed);
        self.settings.end(committed);
    }

    /// A statement failed: the block fails, an implicit transaction ends. With savepoints the
    /// innermost one's work is undone at once, so that its locks are free.
    pub(super) fn statement_failed(&mut self) {
        self.copy_in = None;
        match self.tx.block {
            Block::Idle => {}
            Block::Implicit => self.rollback(),
            Block::Explicit | Block::Failed => {
                self.tx.block = Block::Failed;
                let undone = match (self.tx.savepoints.last(), &mut self.tx.txn) {
                    (Some(savepoint), Some(txn)) => {
                        let undone = txn.rollback_to(&savepoint.name).is_ok();
                        self.resources.advisory.rollback_to(savepoint.advisory);
                        undone
                    }
                    _ => false,
                };
                if !undone && let Some(txn) = self.tx.txn.take() {
                    txn.rollback();
                    self.resources.advisory.end();
                }
            }
        }
    }

    /// Refuses what may not run in a block (VACUUM).
    pub(super) fn refuse_in_block(&self, what: &str) -> SqlResult<()> {
        if self.tx.block == Block::Explicit || self.in_batch {
            return Err(SqlError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                format!("{what} cannot run inside a transaction block"),
            ));
        }
        Ok(())
    }
}
