//! Running one statement: finding its compiled form, its locks, its snapshot, its executor.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use evenkeel_engine::memory::Reservation;
use evenkeel_engine::{CancelFlag, TableLockMode, WaitPolicy};
use evenkeel_planner::ast::{Command, Statement};
use evenkeel_planner::parser::Measured;
use evenkeel_planner::plan::Plan;
use parking_lot::Mutex;

use super::api::Prepared;
use super::transaction::in_failed_block;
use super::{Block, Session, StatementResult, ends_failure};
use crate::catalog::CatalogState;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::result::tag;
use crate::exec::row::{self, Changed, PlanRows, RowSession};
use crate::exec::{RowStream, StatementCx};
use crate::parser::parse;
use crate::planner::cache::{CacheKey, compiled_bytes};
use crate::planner::compile::{self, Compiled, Kind};
use crate::planner::rows;
use crate::protocol::{Column, Format, Oid};
use crate::types::{Datum, SqlType, TypeContext, text_from_bytes};

/// Where a statement comes from.
pub(super) enum Source<'a> {
    /// A text of the simple protocol, literals and all.
    Simple(&'a str),
    /// A prepared statement.
    Prepared(&'a Arc<Prepared>),
}

/// Values for a statement's parameters.
pub(super) enum Arguments<'a> {
    /// None.
    None,
    /// From Bind.
    Wire {
        values: &'a [Option<Bytes>],
        formats: &'a [Format],
    },
    /// From EXECUTE.
    Data(Vec<Datum>),
}

pub(super) type Data = smallvec::SmallVec<[Datum; 8]>;

/// A statement of up to so many bytes is compiled in less time than it takes to have another
/// thread do it.
const SHORT_BYTES: usize = 1024;

/// Ends a statement that runs for too long; the timer ends with it.
pub(super) struct Timeout {
    timer: tokio::task::JoinHandle<()>,
    /// The flag to raise; taken when the statement has ended, so that a timer that fires at that
    /// moment does not end the next statement.
    armed: Arc<Mutex<Option<CancelFlag>>>,
}

impl Timeout {
    fn start(after: Duration, cancel: CancelFlag) -> Timeout {
        let armed = Arc::new(Mutex::new(Some(cancel)));
        let fires = Arc::clone(&armed);
        let timer = tokio::spawn(async move {
            tokio::time::sleep(after).await;
            if let Some(cancel) = &*fires.lock() {
                cancel.time_out();
            }
        });
        Timeout { timer, armed }
    }
}

impl Drop for Timeout {
    fn drop(&mut self) {
        *self.armed.lock() = None;
        self.timer.abort();
    }
}

impl Session {
    /// Runs a statement. The caller ends an implicit transaction.
    pub(super) async fn run(
        &mut self,
        source: Source<'_>,
        arguments: Arguments<'_>,
        formats: &[Format],
    ) -> SqlResult<StatementResult> {
        self.take_wishes()?;
        let timeout = self.start_timeout();
        let compiled = self.ready(&source).await?;
        if let Kind::Utility(_) | Kind::Define(_) = &compiled.kind {
            self.current_text = match source {
                Source::Simple(text) => Arc::from(text),
                Source::Prepared(prepared) => Arc::clone(&prepared.text),
            };
        }
        let data = self.argument_data(&compiled, arguments)?;
        let result = self.execute_compiled(&compiled, &data, formats).await?;
        // Rows that are still to flow hold a snapshot of their own; an idle block holds none.
        if !matches!(result, StatementResult::CopyIn(_))
            && let Ok(txn) = self.tx.txn()
        {
            txn.end_statement();
        }
        Ok(match result {
            StatementResult::Rows(rows) => StatementResult::Rows(rows.with_timeout(timeout)),
            StatementResult::CopyIn(start) => {
                self.time_copy(timeout);
                StatementResult::CopyIn(start)
            }
            StatementResult::CopyOut(out) => StatementResult::CopyOut(out.with_timeout(timeout)),
            done @ (StatementResult::Command(_) | StatementResult::Empty) => done,
        })
    }

    /// The timer of a statement that begins, if it may not take any time.
    pub(super) fn start_timeout(&mut self) -> Option<Timeout> {
        let limit = self.effective.statement_timeout;
        limit.map(|after| Timeout::start(after, self.cancel.clone()))
    }

    /// The compiled form of a statement, with its tables locked in a transaction; compiled anew
    /// as long as the catalog changes under it.
    pub(super) async fn ready(&mut self, source: &Source<'_>) -> SqlResult<Arc<Compiled>> {
        loop {
            let compiled = self.obtain(source).await?;
            if self.tx.block == Block::Failed && !ends_failure(&compiled) {
                return Err(in_failed_block());
            }
            if matches!(compiled.kind, Kind::Transaction(_) | Kind::Empty) {
                return Ok(compiled);
            }
            self.ensure_transaction()?;
            // Before a lock is waited for.
            self.check_read_only(&compiled)?;
            if compiled.tables.is_empty() {
                return Ok(compiled);
            }
            let txn = self.tx.txn()?;
            for table in &compiled.tables {
                let mode = lock_mode(&compiled.kind, table.oid);
                txn.lock_table(table.lock_id(), mode, WaitPolicy::Block)
                    .await?;
            }
            if self.version_of(&self.view()) == compiled.version {
                return Ok(compiled);
            }
        }
    }

    fn check_read_only(&self, compiled: &Compiled) -> SqlResult<()> {
        if self.tx.read_only && compiled.kind.writes() && !self.writes_temporary(compiled) {
            let what = compiled.kind.tag();
            let message = format!("cannot execute {what} in a read-only transaction");
            return Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message));
        }
        Ok(())
    }

    /// Whether all that a statement changes or locks are rows of temporary tables.
    fn writes_temporary(&self, compiled: &Compiled) -> bool {
        match &compiled.kind {
            Kind::RowChange(..) => {
                let mut tables = compiled.tables.iter();
                tables.all(|table| {
                    let mode = lock_mode(&compiled.kind, table.oid);
                    mode == TableLockMode::AccessShare || table.is_temporary()
                })
            }
            Kind::Utility(command) => match &***command {
                Command::Copy(copy) => self.fills_temporary(copy),
                _ => false,
            },
            _ => false,
        }
    }

    async fn obtain(&mut self, source: &Source<'_>) -> SqlResult<Arc<Compiled>> {
        match source {
            Source::Prepared(prepared) => {
                prepared.runs.fetch_add(1, Ordering::Relaxed);
                let version = self.version_of(&self.view());
                if let Some(compiled) = prepared.current(version, self.environment) {
                    return Ok(compiled);
                }
                let compiled = self.obtain_text(&prepared.text, &prepared.given).await?;
                prepared.renew(&compiled, self.environment)?;
                Ok(compiled)
            }
            Source::Simple(text) => self.obtain_text(&Arc::from(*text), &Arc::from([])).await,
        }
    }

    /// The compiled form of a text, from the cache or anew.
    pub(super) async fn obtain_text(
        &mut self,
        text: &Arc<str>,
        given: &Arc<[Oid]>,
    ) -> SqlResult<Arc<Compiled>> {
        let key = CacheKey {
            text: Arc::clone(text),
            params: Arc::clone(given),
            environment: self.environment,
        };
        let shared = self.tx.ddl.is_empty();
        let version = self.version_of(&self.view());
        if shared && let Some(compiled) = self.engine.cache().get(&key, version) {
            return Ok(compiled);
        }
        let state = self.view();
        let types = given
            .iter()
            .map(|oid| given_type(&state, *oid))
            .collect::<SqlResult<Vec<_>>>()?;
        let compiled = self.compile_text(text, types).await?;
        if shared && compiled.keep && compiled.version == version {
            let bytes = compiled_bytes(text);
            let kept = Arc::clone(&compiled);
            self.engine.cache().put(key, version, kept, bytes);
        }
        Ok(compiled)
    }

    async fn compile_text(
        &mut self,
        text: &Arc<str>,
        types: Vec<Option<SqlType>>,
    ) -> SqlResult<Arc<Compiled>> {
        if text.is_empty() {
            return Ok(Arc::new(Compiled::empty()));
        }
        let view = self.view();
        let version = self.version_of(&view);
        let measured = match text.len() <= SHORT_BYTES {
            true => Some(parse::measure(Arc::clone(text))?),
            false => None,
        };
        let here = measured.as_ref().is_some_and(|m| m.shape().is_small());
        let compilation = Compilation {
            text: Arc::clone(text),
            measured,
            types,
            cx: Arc::new(self.statement_cx(view)),
            in_failed_block: self.tx.block == Block::Failed,
            _planning: self.charge_planning(text)?,
        };
        let mut compiled = match here {
            true => row::ends_its_statement(|| compilation.run(true))?,
            false => {
                let planners = self.engine.planners();
                planners
                    .run(&self.cancel, move || compilation.run(false))
                    .await?
            }
        };
        compiled.version = version;
        self.complete_columns(&mut compiled)?;
        Ok(Arc::new(compiled))
    }

    fn type_context(&self) -> TypeContext {
        let started = if self.tx.txn.is_some() {
            self.tx.started
        } else {
            self.statement_start
        };
        self.effective.type_context(started)
    }

    fn argument_data(&self, compiled: &Compiled, arguments: Arguments<'_>) -> SqlResult<Data> {
        let types = &compiled.param_types;
        let (values, formats) = match arguments {
            Arguments::None => (&[] as &[Option<Bytes>], &[] as &[Format]),
            Arguments::Wire { values, formats } => (values, formats),
            Arguments::Data(data) => return Ok(data.into()),
        };
        if values.len() != types.len() {
            if values.is_empty() {
                return Err(SqlError::new(
                    SqlState::UNDEFINED_PARAMETER,
                    "there is no parameter $1",
                ));
            }
            return Err(SqlError::new(
                SqlState::PROTOCOL_VIOLATION,
                format!(
                    "bind message supplies {} parameters, but prepared statement requires {}",
                    values.len(),
                    types.len()
                ),
            ));
        }
        let cx = self.type_context();
        let mut data = Data::with_capacity(values.len());
        for (number, (value, ty)) in values.iter().zip(types).enumerate() {
            data.push(match value {
                None => Datum::Null,
                Some(bytes) => match Format::of(formats, number) {
                    Format::Text if ty.has_names() => {
                        let cx = Arc::new(self.statement_cx(self.view()));
                        RowSession::new(cx).oid_named(text_from_bytes(bytes)?, *ty)?
                    }
                    Format::Text => Datum::parse_text(*ty, text_from_bytes(bytes)?, &cx)?,
                    Format::Binary => Datum::parse_binary(*ty, bytes)?,
                },
            });
        }
        Ok(data)
    }

    /// Runs a compiled statement in the transaction that `ready` left.
    pub(super) async fn execute_compiled(
        &mut self,
        compiled: &Arc<Compiled>,
        data: &[Datum],
        formats: &[Format],
    ) -> SqlResult<StatementResult> {
        match &compiled.kind {
            Kind::Empty => return Ok(StatementResult::Empty),
            Kind::Transaction(command) => {
                let tag = self.transaction_command(command).await?;
                self.refresh()?;
                return Ok(StatementResult::Command(tag.to_owned()));
            }
            _ => {}
        }
        self.check_read_only(compiled)?;
        match &compiled.kind {
            Kind::Utility(command) => return self.utility(command, formats).await,
            Kind::Define(define) => return self.define(define).await,
            _ => {}
        }
        let cx = self.statement_cx(self.view());
        self.tx.used = true;
        self.tx.txn()?.begin_statement()?;
        match &compiled.kind {
            Kind::Rows(plan) => {
                let rows = self.start_rows(plan, data, cx)?;
                let columns = compiled.columns.clone().unwrap_or_default();
                Ok(self.streamed(columns, rows, formats))
            }
            Kind::RowChange(plan, _) => {
                let events = self.resources.events.len();
                let changed = self.change_rows(plan, data, cx, formats).await?;
                self.statement_events(events).await?;
                Ok(changed_result(compiled, changed))
            }
            _ => Err(SqlError::internal(
                "a kind of statement without an executor",
            )),
        }
    }

    fn streamed(
        &self,
        columns: Arc<[Column]>,
        rows: PlanRows,
        formats: &[Format],
    ) -> StatementResult {
        let failed = self.failed.clone();
        let stream = RowStream::query(columns, rows, formats, "SELECT", failed);
        StatementResult::Rows(stream)
    }

    /// Runs a plan that changes or locks rows.
    pub(super) async fn change_rows(
        &mut self,
        plan: &Arc<Plan>,
        data: &[Datum],
        cx: StatementCx,
        formats: &[Format],
    ) -> SqlResult<Changed> {
        let at = (self.tx.txn()?.snapshot()?, self.cancel.clone());
        let (cx, params) = (Arc::new(cx), data.to_vec());
        row::change::run(plan, params, &cx, at, formats, &mut self.tx.txn).await
    }

    /// Starts a plan at the current statement's snapshot.
    pub(super) fn start_rows(
        &mut self,
        plan: &Arc<Plan>,
        data: &[Datum],
        cx: StatementCx,
    ) -> SqlResult<PlanRows> {
        let snapshot = self.tx.txn()?.snapshot()?;
        let cancel = self.cancel.clone();
        row::start(plan, data.to_vec(), &Arc::new(cx), snapshot, cancel)
    }
}

/// A text to compile, with all that takes.
struct Compilation {
    text: Arc<str>,
    /// A long text is measured where it is planned.
    measured: Option<Measured<Arc<str>>>,
    types: Vec<Option<SqlType>>,
    cx: Arc<StatementCx>,
    in_failed_block: bool,
    /// Held while it is planned, also by a session that has given it up.
    _planning: Option<Reservation>,
}

impl Compilation {
    /// On a thread that is `shared` with other sessions, or on a planning thread.
    fn run(mut self, shared: bool) -> SqlResult<Compiled> {
        let measured = match self.measured.take() {
            Some(measured) => measured,
            None => parse::measure(Arc::clone(&self.text))?,
        };
        let Some(statement) = parse::parse_measured(measured)? else {
            return Ok(Compiled::empty());
        };
        if self.in_failed_block && !parse::ends_failure(&statement) {
            return Err(in_failed_block());
        }
        match statement {
            Statement::Command(command) => compile::command(*command, &self.text),
            Statement::Query(mut query) if query.has_into() => {
                let (name, persistence) = query.take_into().ok_or_else(no_target)?;
                Ok(compile::select_into(name, persistence, query))
            }
            statement => {
                let planned =
                    rows::plan(&self.text, &statement, &self.cx, &self.types, false, shared)?;
                Ok(Compiled::from(planned))
            }
        }
    }
}

fn no_target() -> SqlError {
    SqlError::internal("SELECT INTO without a table")
}

/// How a statement locks a table.
pub(super) fn lock_mode(kind: &Kind, table: Oid) -> TableLockMode {
    match kind {
        Kind::Rows(plan) | Kind::RowChange(plan, _) => plan_lock_mode(plan, table),
        _ => TableLockMode::AccessShare,
    }
}

/// How a plan locks a table.
pub(super) fn plan_lock_mode(plan: &Plan, table: Oid) -> TableLockMode {
    if plan.changed.contains(&table) {
        TableLockMode::RowExclusive
    } else if plan.locked.contains(&table) {
        TableLockMode::RowShare
    } else {
        TableLockMode::AccessShare
    }
}

fn changed_result(compiled: &Compiled, changed: Changed) -> StatementResult {
    let verb = compiled.kind.tag();
    match &compiled.columns {
        Some(columns) => {
            StatementResult::Rows(RowStream::buffered(Arc::clone(columns), changed.rows, verb))
        }
        None => StatementResult::Command(tag(verb, changed.count)),
    }
}

/// The type for an oid that a client gave; 0 and `unknown` leave it to the statement.
fn given_type(state: &CatalogState, oid: Oid) -> SqlResult<Option<SqlType>> {
    if oid == 0 || oid == SqlType::Unknown.oid() {
        return Ok(None);
    }
    match state.column_type(oid, -1) {
        Some(ty) => Ok(Some(ty)),
        None => Err(SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("type with OID {oid} does not exist"),
        )),
    }
}
