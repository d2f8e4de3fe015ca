//! Sessions: what one client has open, from the first byte to the last.
//!
//! Entry points: [`SqlEngine::open`], [`SqlEngine::session`], then [`Session::simple`] with
//! [`Session::next_result`], or [`Session::prepare`] with [`Session::execute`] and
//! [`Session::sync`]. The rules are in the README beside this file.

mod alter;
mod alter_rows;
pub mod api;
mod backend_entry;
mod columns;
mod commands;
mod comment;
mod copy;
mod create_as;
mod cursors;
mod databases;
mod ddl;
mod deferral;
mod domains;
mod engine;
mod enums;
mod explain;
mod foreign_key_ddl;
mod foreign_keys;
mod in_the_way;
mod key_by_index;
mod like;
mod maintenance;
mod notify;
mod reindex;
mod rename;
mod retype;
mod run;
mod schemas;
mod sequence_options;
mod sequences;
mod set_schema;
mod simple;
mod statements;
mod temporary;
mod transaction;
mod type_texts;
mod unique_keys;
mod views;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel_engine::CancelFlag;
use evenkeel_engine::advisory::AdvisoryLocks;
use evenkeel_engine::memory::{Reservation, SessionMemory};

use crate::catalog::{Catalog, CatalogState};
use crate::databases::Seat;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::channel_use::ChannelUse;
use crate::exec::resources::Resources;
use crate::exec::{FailFlag, SessionSeed, StatementCx};
use crate::instance::Backend;
use crate::planner::cache::compiled_bytes;
use crate::planner::compile::Compiled;
use crate::protocol::{Format, Notice, Oid, TransactionStatus};
use crate::settings::{Effective, Settings};
use api::{Prepared, SessionParams};
use backend_entry::BackendEntry;
use copy::CopyIn;
use cursors::SqlCursor;
use notify::Listening;
use run::{Arguments, Source};
use temporary::Temporary;
use transaction::{Block, TxState, now_micros};

pub use crate::exec::{CopyChunk, CopyOutStream, RowStream};
pub use copy::CopyInStart;
pub use engine::SqlEngine;
pub use simple::SimpleQuery;

/// Result of a statement.
pub enum StatementResult {
    /// Rows; when they are drained, `tag` of the stream is the command tag.
    Rows(RowStream),
    /// Done; the command tag, complete (`INSERT 0 1`).
    Command(String),
    /// COPY FROM STDIN has begun: [`Session::copy_data`] takes its data.
    CopyIn(CopyInStart),
    /// COPY TO STDOUT has begun.
    CopyOut(CopyOutStream),
    /// An empty query.
    Empty,
}

/// One client's state: transaction, settings, prepared statements by name.
///
/// The protocol's own named statements and portals are the server's.
pub struct Session {
    engine: Arc<SqlEngine>,
    /// Its place in its database.
    seat: Seat,
    /// The database's catalog.
    catalog: Arc<Catalog>,
    params: SessionParams,
    settings: Settings,
    effective: Effective,
    /// The settings' generation that `effective`, `seed` and `environment` were made from.
    seen: u64,
    seed: Arc<SessionSeed>,
    /// The plan cache's number for this session's search path, role and settings.
    environment: u64,
    tx: TxState,
    cancel: CancelFlag,
    /// Parse was the last call, so that Execute goes on with its statement.
    parsed: bool,
    failed: FailFlag,
    /// Whether a simple query of several statements is under way.
    in_batch: bool,
    statement_start: i64,
    notices: Vec<Notice>,
    reported_params: Vec<(&'static str, String)>,
    /// The settings' generation that `reported_params` is of.
    told_at: u64,
    backend_entry: BackendEntry,
    _listening: Listening,
    named_statements: HashMap<String, Arc<Prepared>>,
    cursors: HashMap<String, SqlCursor>,
    /// The COPY FROM STDIN whose data is coming.
    copy_in: Option<CopyIn>,
    /// The text of the statement under way, for PREPARE to take its part of.
    current_text: Arc<str>,
    /// The memory and spill files that the session may use.
    resources: Arc<Resources>,
    /// None before the first temporary relation.
    temporary: Option<Temporary>,
}

impl Session {
    fn new(engine: Arc<SqlEngine>, seat: Seat, params: SessionParams) -> SqlResult<Session> {
        let settings = Settings::new(
            &params.user,
            &engine.config().settings,
            &seat.info().settings,
            &params.settings,
        )?;
        let effective = Effective::of(&settings, &params.user, None)?;
        let catalog = engine.databases().catalog(seat.info().oid)?;
        let memory = engine.memory().session(engine.config().session_memory);
        let cancel = CancelFlag::default();
        let advisory = AdvisoryLocks::new(engine.database(), catalog.database_oid(), &memory);
        let backend_entry = BackendEntry::new(
            (&engine, seat.info()),
            &params,
            &settings,
            &cancel,
            advisory.number(),
        );
        let backend = backend_entry.backend();
        let queues = engine.instance().notifications();
        let listener = queues.listener(seat.info().oid, backend.pid);
        let listening = Listening::new(queues, &listener);
        let channels = ChannelUse::new(queues, listener, &memory);
        let resources = Arc::new(Resources::new(
            memory,
            engine.database(),
            Arc::clone(&catalog),
            (advisory, channels),
        ));
        resources.limit(effective.work_mem, effective.temp_file_limit);
        resources.synchronize_seqscans(effective.synchronize_seqscans);
        let seed = seed(&engine, backend, &settings, &effective, &resources, &cancel);
        let environment = engine.environment(seat.info().oid, &params.user, &effective);
        let reported_params = settings.reported();
        Ok(Session {
            seen: settings.generation(),
            told_at: settings.generation(),
            engine,
            seat,
            catalog,
            params,
            settings,
            effective,
            seed,
            environment,
            tx: TxState::new(),
            backend_entry,
            _listening: listening,
            cancel,
            parsed: false,
            failed: FailFlag::default(),
            in_batch: false,
            statement_start: 0,
            notices: Vec::new(),
            reported_params,
            named_statements: HashMap::new(),
            cursors: HashMap::new(),
            copy_in: None,
            current_text: Arc::from(""),
            resources,
            temporary: None,
        })
    }

    /// Parses and compiles one statement. `param_types` may be shorter than the statement's
    /// parameters, and 0 means "infer".
    ///
    /// # Errors
    /// Those that PostgreSQL reports at Parse: syntax, names, types; 25P02 in a failed block.
    pub async fn prepare(&mut self, sql: &str, param_types: &[Oid]) -> SqlResult<Arc<Prepared>> {
        self.begin_statement();
        self.parsed = true;
        let prepared = self.timed_prepare(sql, param_types).await;
        self.settle(prepared)
    }

    /// Runs a prepared statement. Formats follow PostgreSQL's rule (none: text; one: all).
    ///
    /// # Errors
    /// Any error fails the transaction, as PostgreSQL's do.
    pub async fn execute(
        &mut self,
        prepared: &Arc<Prepared>,
        params: &[Option<Bytes>],
        param_formats: &[Format],
        result_formats: &[Format],
    ) -> SqlResult<StatementResult> {
        if self.parsed {
            // Parse has begun the statement, and it may have been cancelled since.
            self.parsed = false;
            self.begin_call();
        } else {
            self.begin_statement();
        }
        self.backend_entry
            .runs(&prepared.text, self.statement_start);
        let arguments = Arguments::Wire {
            values: params,
            formats: param_formats,
        };
        let result = self
            .run(Source::Prepared(prepared), arguments, result_formats)
            .await;
        self.settle(result)
    }

    /// Sync: ends an implicit transaction (commits it, or rolls it back after an error).
    ///
    /// # Errors
    /// The commit's.
    pub async fn sync(&mut self) -> SqlResult<()> {
        self.note_stream_failure();
        self.take_wishes()?;
        if self.tx.block == Block::Implicit {
            self.commit().await?;
            self.refresh()?;
        }
        Ok(())
    }

    /// Tells the session that the statement failed outside of it (a protocol error).
    pub fn fail(&mut self) {
        self.in_batch = false;
        self.statement_failed();
    }

    /// The state that ReadyForQuery tells.
    pub fn status(&self) -> TransactionStatus {
        self.tx.status()
    }

    /// From here on the session waits for its client; the state for ReadyForQuery.
    pub fn wait_for_client(&mut self) -> TransactionStatus {
        self.parsed = false;
        let status = self.tx.status();
        self.backend_entry.waits(status);
        status
    }

    /// How long the session may wait for its client as it stands, and the error that ends it
    /// then.
    pub fn idle_limit(&self) -> Option<(Duration, SqlError)> {
        let (limit, sqlstate, what) = match self.tx.status() {
            TransactionStatus::Idle => (
                self.effective.idle?,
                SqlState::IDLE_SESSION_TIMEOUT,
                "idle-session",
            ),
            TransactionStatus::InBlock | TransactionStatus::Failed => (
                self.effective.idle_in_block?,
                SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
                "idle-in-transaction",
            ),
        };
        let message = format!("terminating connection due to {what} timeout");
        Some((limit, SqlError::new(sqlstate, message)))
    }

    /// The session as others see it: its process number, and the way to cancel or end it.
    pub fn backend(&self) -> &Arc<Backend> {
        self.backend_entry.backend()
    }

    /// The session's memory, for what its connection holds.
    pub fn memory(&self) -> &Arc<SessionMemory> {
        &self.resources.memory
    }

    /// The parameters to report at the start (`server_version`, …).
    pub fn initial_parameters(&self) -> Vec<(&'static str, String)> {
        self.settings.reported()
    }

    /// Reported settings that changed since the last call.
    pub fn take_parameter_changes(&mut self) -> Vec<(&'static str, String)> {
        if self.told_at == self.settings.generation() {
            return Vec::new();
        }
        self.told_at = self.settings.generation();
        let now = self.settings.reported();
        let changed = now
            .iter()
            .zip(&self.reported_params)
            .filter(|(now, before)| now != before);
        let changed = changed.map(|(now, _)| now.clone()).collect();
        self.reported_params = now;
        changed
    }

    /// Notices since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    fn notice(&mut self, severity: &'static str, sqlstate: SqlState, message: impl Into<String>) {
        self.notices.push(Notice {
            severity,
            sqlstate,
            message: message.into(),
            detail: None,
        });
    }

    fn notice_with_detail(
        &mut self,
        severity: &'static str,
        sqlstate: SqlState,
        message: String,
        detail: String,
    ) {
        self.notices.push(Notice {
            severity,
            sqlstate,
            message,
            detail: Some(detail),
        });
    }

    fn warn(&mut self, sqlstate: SqlState, message: impl Into<String>) {
        self.notice("WARNING", sqlstate, message);
    }

    /// A call of the client begins, with a statement of its own: a cancel request that came too
    /// late for the last one is dropped.
    fn begin_statement(&mut self) {
        self.begin_call();
        self.cancel.reset();
        self.parsed = false;
    }

    /// A call of the client begins.
    fn begin_call(&mut self) {
        self.note_stream_failure();
        if self.copy_in.is_some() {
            // The data of a COPY has not ended.
            self.statement_failed();
        }
        self.statement_start = now_micros();
        self.settings.follow_configuration();
        if let Err(error) = self.refresh() {
            tracing::warn!("a session keeps its settings: {}", error.message);
        }
    }

    /// A result that failed after its statement returned fails the transaction.
    fn note_stream_failure(&mut self) {
        if self.failed.take() {
            self.statement_failed();
        }
    }

    /// Fails the transaction if a call failed.
    fn settle<T>(&mut self, result: SqlResult<T>) -> SqlResult<T> {
        result.inspect_err(|_| self.statement_failed())
    }

    /// The catalog as this transaction sees it.
    fn view(&self) -> Arc<CatalogState> {
        self.catalog.view(&self.tx.ddl)
    }

    /// The version of the session's part of the catalog, under which plans are kept.
    fn version_of(&self, view: &CatalogState) -> u64 {
        view.version_seen(self.effective.search_path.temporary())
    }

    /// Session state for a statement that begins now.
    fn statement_cx(&self, view: Arc<CatalogState>) -> StatementCx {
        let started = if self.tx.txn.is_some() {
            self.tx.started
        } else {
            self.statement_start
        };
        let types = self.effective.type_context(started);
        self.resources.sequences.set_read_only(self.tx.read_only);
        StatementCx::new(
            types,
            started,
            self.statement_start,
            view,
            Arc::clone(&self.seed),
        )
    }

    /// Puts the settings into force that functions of the last statement asked for.
    fn take_wishes(&mut self) -> SqlResult<()> {
        for wish in self.seed.settings.take_wishes() {
            self.settings
                .set(&wish.name, Some(&wish.value), wish.local)?;
        }
        self.refresh()
    }

    /// Works out anew what follows from the settings, if they changed.
    fn refresh(&mut self) -> SqlResult<()> {
        if self.seen == self.settings.generation() {
            return Ok(());
        }
        let temporary = self.temporary.as_ref().map(Temporary::schema);
        self.effective = Effective::of(&self.settings, &self.params.user, temporary)?;
        self.backend_entry.call_itself(&self.settings);
        let effective = &self.effective;
        self.resources
            .limit(effective.work_mem, effective.temp_file_limit);
        self.resources
            .synchronize_seqscans(effective.synchronize_seqscans);
        self.renew_seed();
        self.seen = self.settings.generation();
        Ok(())
    }

    /// Makes what statements see of the session from the effective settings.
    fn renew_seed(&mut self) {
        self.seed = seed(
            &self.engine,
            self.backend_entry.backend(),
            &self.settings,
            &self.effective,
            &self.resources,
            &self.cancel,
        );
        let database = self.seat.info().oid;
        let user = &self.params.user;
        self.environment = self.engine.environment(database, user, &self.effective);
    }

    /// Charges what parsing and planning a text takes, until it is planned.
    fn charge_planning(&self, text: &str) -> SqlResult<Option<Reservation>> {
        let bytes = crate::planner::cache::planning_bytes(text);
        if bytes == 0 {
            return Ok(None);
        }
        Ok(Some(Reservation::of(&self.resources.memory, bytes)?))
    }

    /// As `prepare_text`, of a statement that begins with Parse.
    async fn timed_prepare(&mut self, sql: &str, param_types: &[Oid]) -> SqlResult<Arc<Prepared>> {
        let _timeout = self.start_timeout();
        self.prepare_text(sql, param_types).await
    }

    async fn prepare_text(&mut self, sql: &str, param_types: &[Oid]) -> SqlResult<Arc<Prepared>> {
        self.refresh()?;
        let text: Arc<str> = sql.into();
        let text = match self.split(&text).await?.as_slice() {
            [] => Arc::from(""),
            [whole] if *whole == (0..text.len()) => text,
            [range] => Arc::from(&text[range.clone()]),
            _ => {
                return Err(SqlError::syntax(
                    "cannot insert multiple commands into a prepared statement",
                ));
            }
        };
        let given: Arc<[Oid]> = param_types.into();
        let compiled = self.obtain_text(&text, &given).await?;
        let memory = Reservation::of(&self.resources.memory, compiled_bytes(&text))?;
        Ok(Arc::new(Prepared::new(
            text,
            given,
            compiled,
            self.environment,
            memory,
        )))
    }
}

fn seed(
    engine: &SqlEngine,
    backend: &Backend,
    settings: &Settings,
    effective: &Effective,
    resources: &Arc<Resources>,
    cancel: &CancelFlag,
) -> Arc<SessionSeed> {
    Arc::new(SessionSeed {
        user: backend.user.clone(),
        database: backend.database.clone(),
        pid: backend.pid,
        search_path: effective.search_path.clone(),
        planner: effective.planner.clone(),
        settings: Arc::new(settings.view()),
        resources: Arc::clone(resources),
        cancel: cancel.clone(),
        instance: Arc::clone(engine.instance()),
    })
}

/// Whether a compiled statement only ends a failed block.
fn ends_failure(compiled: &Compiled) -> bool {
    use crate::planner::compile::Kind;
    match &compiled.kind {
        Kind::Transaction(command) => transaction::ends_failure(command),
        Kind::Empty => true,
        _ => false,
    }
}
