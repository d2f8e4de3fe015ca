//! Running one statement: finding its compiled form, its locks, its snapshot, its executor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use datafusion::execution::session_state::SessionState;
use evenkeel_engine::{CancelFlag, TableLockMode, Transaction, WaitPolicy};

use super::api::{Format, Oid, Prepared};
use super::transaction::in_failed_block;
use super::{Block, Session, StatementResult, ends_failure};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::analytic::batches::BatchRows;
use crate::exec::analytic::bind::Binding;
use crate::exec::analytic::modify::{self as planned, ChangeCx};
use crate::exec::oltp::insert::Changed;
use crate::exec::oltp::select::{Select, Selected};
use crate::exec::oltp::{insert, modify, select};
use crate::exec::result::tag;
use crate::exec::{RowStream, StatementCx};
use crate::functions::SessionVarsExtension;
use crate::planner::binder::Binder;
use crate::planner::cache::{CacheKey, Cached};
use crate::planner::compile::{self, Compiled, Kind};
use crate::planner::lexer::{self, LiteralKind, Normalised};
use crate::planner::parse;
use crate::planner::query::QueryPlan;
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

/// Ends a statement that runs for too long; the timer ends with it.
pub(super) struct Timeout(tokio::task::JoinHandle<()>);

impl Timeout {
    fn start(after: Duration, cancel: CancelFlag, timed_out: Arc<AtomicBool>) -> Timeout {
        Timeout(tokio::spawn(async move {
            tokio::time::sleep(after).await;
            timed_out.store(true, Ordering::Relaxed);
            cancel.cancel();
        }))
    }
}

impl Drop for Timeout {
    fn drop(&mut self) {
        self.0.abort();
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
        let limit = self.effective.statement_timeout;
        if limit.is_some() || self.timed_out.load(Ordering::Relaxed) {
            // A flag of this statement's own, which the last one's timer does not raise.
            self.timed_out = Arc::default();
        }
        let timeout = limit
            .map(|after| Timeout::start(after, self.cancel.clone(), Arc::clone(&self.timed_out)));
        let (compiled, literals) = self.ready(&source).await?;
        if let Kind::Utility(_) = &compiled.kind {
            self.current_text = match source {
                Source::Simple(text) => Arc::from(text),
                Source::Prepared(prepared) => Arc::clone(&prepared.text),
            };
        }
        let data = match literals {
            Some(literals) => self.literal_data(&compiled, &literals)?,
            None => self.argument_data(&compiled, arguments)?,
        };
        let result = self.execute_compiled(&compiled, &data, formats).await?;
        // Rows that are still to flow hold a snapshot of their own; an idle block holds none.
        if !matches!(result, StatementResult::CopyIn(_))
            && let Ok(txn) = self.tx.txn()
        {
            txn.end_statement();
        }
        Ok(match result {
            StatementResult::Rows(rows) => StatementResult::Rows(rows.with_timeout(timeout)),
            StatementResult::CopyIn(sink) => StatementResult::CopyIn(sink.with_timeout(timeout)),
            StatementResult::CopyOut(out) => StatementResult::CopyOut(out.with_timeout(timeout)),
            done @ (StatementResult::Command(_) | StatementResult::Empty) => done,
        })
    }

    /// The compiled form of a statement, with its tables locked in a transaction; compiled anew
    /// as long as the catalog changes under it.
    pub(super) async fn ready(
        &mut self,
        source: &Source<'_>,
    ) -> SqlResult<(Arc<Compiled>, Option<Normalised>)> {
        loop {
            let (compiled, literals) = self.obtain(source)?;
            if self.tx.block == Block::Failed && !ends_failure(&compiled) {
                return Err(in_failed_block());
            }
            if matches!(compiled.kind, Kind::Transaction(_) | Kind::Empty) {
                return Ok((compiled, literals));
            }
            self.ensure_transaction()?;
            if compiled.tables.is_empty() {
                return Ok((compiled, literals));
            }
            let mode = match &compiled.kind {
                Kind::Insert(_) | Kind::Modify(_) | Kind::Change(_) => TableLockMode::RowExclusive,
                Kind::Select(select) if select.locking.is_some() => TableLockMode::RowShare,
                _ => TableLockMode::AccessShare,
            };
            let txn = self.tx.txn()?;
            for table in &compiled.tables {
                txn.lock_table(u64::from(table.oid), mode, WaitPolicy::Block)
                    .await?;
            }
            if self.view().version == compiled.version {
                return Ok((compiled, literals));
            }
        }
    }

    fn obtain(&mut self, source: &Source<'_>) -> SqlResult<(Arc<Compiled>, Option<Normalised>)> {
        match source {
            Source::Prepared(prepared) => {
                let version = self.view().version;
                if let Some(compiled) = prepared.current(version, self.environment) {
                    return Ok((compiled, None));
                }
                let compiled = self.obtain_text(&prepared.text, &prepared.given)?;
                prepared.renew(&compiled, self.environment)?;
                Ok((compiled, None))
            }
            Source::Simple(text) => {
                if let Some(found) = self.obtain_normalised(text) {
                    return Ok((found.0, Some(found.1)));
                }
                let text: Arc<str> = Arc::from(*text);
                Ok((self.obtain_text(&text, &Arc::from([]))?, None))
            }
        }
    }

    /// The compiled form of a text with its literals as parameters, if it is of the compiled
    /// kind.
    fn obtain_normalised(&mut self, text: &str) -> Option<(Arc<Compiled>, Normalised)> {
        let normalised = lexer::normalise(text)?;
        let params = normalised
            .kinds
            .iter()
            .map(|kind| literal_type(*kind).map_or(0, SqlType::oid));
        let params: Arc<[u32]> = params.collect();
        let text = Arc::from(normalised.text.as_str());
        let key = CacheKey {
            text,
            params,
            environment: self.environment,
        };
        let view = self.view();
        let shared = self.tx.ddl.is_empty();
        if shared {
            match self.engine.cache().get(&key, view.version) {
                Some(Cached::Ready(compiled)) => return Some((compiled, normalised)),
                Some(Cached::NotNormalisable) => return None,
                None => {}
            }
        }
        let types: Vec<_> = normalised
            .kinds
            .iter()
            .map(|kind| literal_type(*kind))
            .collect();
        let compiled = self
            .compile_text(&normalised.text, &types, true)
            .ok()
            .flatten();
        let compiled = compiled.filter(|compiled| compiled.kind.is_compiled() && compiled.keep);
        let cached = match &compiled {
            Some(compiled) => Cached::Ready(Arc::clone(compiled)),
            None => Cached::NotNormalisable,
        };
        if shared {
            self.engine.cache().put(key, view.version, cached);
        }
        compiled.map(|compiled| (compiled, normalised))
    }

    /// The compiled form of a text, from the cache or anew.
    pub(super) fn obtain_text(
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
        let version = self.view().version;
        if shared && let Some(Cached::Ready(compiled)) = self.engine.cache().get(&key, version) {
            return Ok(compiled);
        }
        let types = given
            .iter()
            .map(|oid| given_type(*oid))
            .collect::<SqlResult<Vec<_>>>()?;
        let compiled = self.compile_text(text, &types, false)?;
        let compiled = compiled.ok_or_else(|| SqlError::internal("a statement did not compile"))?;
        if shared && compiled.keep && compiled.version == version {
            self.engine
                .cache()
                .put(key, version, Cached::Ready(Arc::clone(&compiled)));
        }
        Ok(compiled)
    }

    fn compile_text(
        &mut self,
        text: &str,
        types: &[Option<SqlType>],
        compiled_only: bool,
    ) -> SqlResult<Option<Arc<Compiled>>> {
        if text.is_empty() {
            return Ok(Some(Arc::new(Compiled::empty())));
        }
        let parsed = parse::parse(text)?;
        if self.tx.block == Block::Failed && !parse::ends_failure(&parsed) {
            return Err(in_failed_block());
        }
        let view = self.view();
        let cx = self.statement_cx(Arc::clone(&view));
        let count = lexer::parameter_count(text);
        let bind = || Binder::new(self.engine.base(), &view, cx.vars(), types, count);
        let compiled = compile::compile(parsed, bind, compiled_only)
            .map_err(|error| lexer::locate(error, text))?;
        let Some(mut compiled) = compiled else {
            return Ok(None);
        };
        compiled.version = view.version;
        self.complete_columns(&mut compiled)?;
        Ok(Some(Arc::new(compiled)))
    }

    pub(super) fn literal_data(
        &self,
        compiled: &Compiled,
        literals: &Normalised,
    ) -> SqlResult<Data> {
        let cx = self.type_context();
        let types = compiled.param_types.iter();
        let values = types
            .zip(&literals.values)
            .map(|(ty, text)| Datum::parse_text(*ty, text, &cx));
        values.collect()
    }

    fn type_context(&self) -> TypeContext {
        let time_zone = self.effective.time_zone.clone();
        let started = if self.tx.txn.is_some() {
            self.tx.started
        } else {
            self.statement_start
        };
        TypeContext {
            time_zone,
            now_micros: started,
        }
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
        if self.tx.read_only && compiled.kind.writes() {
            return Err(SqlError::new(
                SqlState::READ_ONLY_SQL_TRANSACTION,
                format!(
                    "cannot execute {} in a read-only transaction",
                    compiled.kind.tag()
                ),
            ));
        }
        match &compiled.kind {
            Kind::Utility(utility) => return self.utility(utility, formats).await,
            Kind::Command(statement) => return self.command(statement, formats).await,
            _ => {}
        }
        let cx = self.statement_cx(self.view());
        self.tx.used = true;
        self.tx.txn()?.begin_statement()?;
        match &compiled.kind {
            Kind::Select(select) => self.select(select, data, cx, formats).await,
            Kind::Query(plan) => self.query(plan, compiled, data, cx, formats).await,
            Kind::Insert(plan) => {
                let changed = insert::run(plan, data, &cx, formats, self.tx.txn()?).await?;
                Ok(changed_result(compiled, changed))
            }
            Kind::Modify(plan) => {
                let changed = modify::run(plan, data, &cx, formats, self.tx.txn()?).await?;
                Ok(changed_result(compiled, changed))
            }
            Kind::Change(change) => {
                let cx = Arc::new(cx);
                self.set_vars(&cx);
                let cancel = self.cancel.clone();
                let engine = Arc::clone(&self.engine);
                let (state, txn) = self.state_and_txn()?;
                let run = ChangeCx {
                    cx,
                    params: data,
                    param_types: &compiled.param_types,
                    state,
                    pool: engine.pool(),
                    cancel,
                    formats,
                };
                let changed = planned::run(change, &run, txn).await?;
                Ok(changed_result(compiled, changed))
            }
            _ => Err(SqlError::internal(
                "a kind of statement without an executor",
            )),
        }
    }

    async fn select(
        &mut self,
        plan: &Arc<Select>,
        data: &[Datum],
        cx: StatementCx,
        formats: &[Format],
    ) -> SqlResult<StatementResult> {
        let columns = Arc::clone(&plan.columns);
        if plan.locking.is_some() {
            let rows = select::run_locking(plan, data, &cx, formats, self.tx.txn()?).await?;
            return Ok(StatementResult::Rows(RowStream::ready(
                columns, rows, "SELECT",
            )));
        }
        let cancel = self.cancel.clone();
        let snapshot = self.tx.txn()?.snapshot()?;
        Ok(StatementResult::Rows(
            match select::run(plan, data, cx, formats, &snapshot, &cancel)? {
                Selected::Rows(rows) => RowStream::ready(columns, rows, "SELECT"),
                Selected::Cursor(cursor) => RowStream::cursor(columns, cursor, self.failed.clone()),
            },
        ))
    }

    async fn query(
        &mut self,
        plan: &QueryPlan,
        compiled: &Compiled,
        data: &[Datum],
        cx: StatementCx,
        formats: &[Format],
    ) -> SqlResult<StatementResult> {
        let rows = self
            .start_plan(plan, &compiled.param_types, data, cx)
            .await?;
        let columns = Arc::clone(&plan.columns);
        let failed = self.failed.clone();
        let stream = RowStream::batches(columns, rows, formats, "SELECT", failed);
        Ok(StatementResult::Rows(stream))
    }

    /// Starts a plan at the current statement's snapshot.
    pub(super) async fn start_plan(
        &mut self,
        plan: &QueryPlan,
        types: &[SqlType],
        data: &[Datum],
        cx: StatementCx,
    ) -> SqlResult<BatchRows> {
        let cx = Arc::new(cx);
        self.set_vars(&cx);
        let cancel = self.cancel.clone();
        let (state, txn) = self.state_and_txn()?;
        let binding = Binding::new(txn.snapshot()?, Arc::clone(&cx), cancel, data, types)?;
        let stream = binding.start(&plan.plan, state).await?;
        let stream = self.engine.pool().run(stream);
        Ok(BatchRows::new(stream, Arc::clone(&plan.types), cx))
    }

    /// Gives DataFusion's functions this statement's values.
    pub(super) fn set_vars(&mut self, cx: &StatementCx) {
        let state = self.state.get_or_insert_with(|| self.engine.base().clone());
        let extension = SessionVarsExtension(Arc::clone(cx.vars()));
        state
            .config_mut()
            .options_mut()
            .extensions
            .insert(extension);
        // Expressions are given the options that were there when execution was last marked.
        state.mark_start_execution();
    }

    /// What plans run with; `set_vars` comes first.
    pub(super) fn state_and_txn(&mut self) -> SqlResult<(&SessionState, &mut Transaction)> {
        let state = self.state.get_or_insert_with(|| self.engine.base().clone());
        let txn = self.tx.txn.as_mut().ok_or_else(in_failed_block)?;
        Ok((state, txn))
    }
}

fn changed_result(compiled: &Compiled, changed: Changed) -> StatementResult {
    let verb = compiled.kind.tag();
    match &compiled.columns {
        Some(columns) => {
            StatementResult::Rows(RowStream::ready(Arc::clone(columns), changed.rows, verb))
        }
        None => StatementResult::Command(tag(verb, changed.count)),
    }
}

/// The type of a literal's parameter; a string's shows from its place.
fn literal_type(kind: LiteralKind) -> Option<SqlType> {
    match kind {
        LiteralKind::Int4 => Some(SqlType::Int4),
        LiteralKind::Int8 => Some(SqlType::Int8),
        LiteralKind::Numeric => Some(SqlType::Numeric(None)),
        LiteralKind::Unknown => None,
    }
}

/// The type for an oid that a client gave; 0 and `unknown` leave it to the statement.
fn given_type(oid: Oid) -> SqlResult<Option<SqlType>> {
    if oid == 0 || oid == SqlType::Unknown.oid() {
        return Ok(None);
    }
    match SqlType::from_oid(oid, -1) {
        Some(ty) => Ok(Some(ty)),
        None => Err(SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("type with OID {oid} does not exist"),
        )),
    }
}
