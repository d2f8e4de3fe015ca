//! Sessions: what one client has open, from the first byte to the last.

pub mod api;

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use evenkeel_engine::Database;

use crate::error::{SqlError, SqlResult};
use api::{
    CancelHandle, Column, CopyFormat, Format, Notice, Oid, Prepared, SessionParams, SqlConfig,
    TransactionStatus,
};

/// The SQL layer over one database.
pub struct SqlEngine {
    db: Database,
    config: SqlConfig,
}

impl SqlEngine {
    /// Opens the SQL layer: makes the catalog if the database is new.
    pub fn open(db: Database, config: SqlConfig) -> SqlResult<Arc<SqlEngine>> {
        Ok(Arc::new(SqlEngine { db, config }))
    }

    /// The engine below.
    pub fn database(&self) -> &Database {
        &self.db
    }

    /// A session for one client. Fails when a startup setting is not valid.
    pub fn session(self: &Arc<Self>, params: SessionParams) -> SqlResult<Session> {
        Ok(Session { engine: Arc::clone(self), params })
    }
}

/// One client's state: transaction, settings, prepared statements of SQL's PREPARE.
///
/// The protocol's own named statements and portals are the server's.
pub struct Session {
    engine: Arc<SqlEngine>,
    params: SessionParams,
}

/// A simple-protocol query text under way: one result for each of its statements.
pub struct SimpleQuery {
    text: Arc<str>,
}

/// What a statement gives.
pub enum StatementResult {
    /// Rows; when they are drained, `tag` of the stream is the command tag.
    Rows(RowStream),
    /// Done; the command tag, complete (`INSERT 0 1`).
    Command(String),
    /// COPY FROM STDIN has begun.
    CopyIn(CopyInSink),
    /// COPY TO STDOUT has begun.
    CopyOut(CopyOutStream),
    /// An empty query.
    Empty,
}

/// Rows on their way to the client, encoded. Owns all it needs (no borrow of the session), so
/// a portal can keep it.
pub struct RowStream {
    columns: Arc<[Column]>,
}

impl RowStream {
    /// The columns, in order.
    pub fn columns(&self) -> &Arc<[Column]> {
        &self.columns
    }

    /// Up to `max_rows` DataRow bodies (fields with their lengths, without the field count);
    /// `None` when there are no more. Never an empty vector.
    pub async fn next_batch(&mut self, max_rows: usize) -> SqlResult<Option<Vec<BytesMut>>> {
        let _ = max_rows;
        Ok(None)
    }

    /// The command tag for the rows given out so far (`SELECT 5`).
    pub fn tag(&self) -> String {
        String::new()
    }
}

/// Takes the data of COPY FROM STDIN.
pub struct CopyInSink {
    columns: usize,
    format: CopyFormat,
}

impl CopyInSink {
    /// Number of columns, for CopyInResponse.
    pub fn column_count(&self) -> usize {
        self.columns
    }

    /// The format; both are text formats (code 0) for CopyInResponse.
    pub fn format(&self) -> CopyFormat {
        self.format
    }

    /// Takes a piece of the data, cut anywhere.
    pub async fn write(&mut self, session: &mut Session, data: &[u8]) -> SqlResult<()> {
        let _ = (session, data);
        Ok(())
    }

    /// CopyDone: the command tag.
    pub async fn finish(self, session: &mut Session) -> SqlResult<String> {
        let _ = session;
        Ok(String::new())
    }

    /// CopyFail with the client's message: the error to report.
    pub fn fail(self, session: &mut Session, message: &str) -> SqlError {
        let _ = session;
        SqlError::new(crate::SqlState::QUERY_CANCELED, message)
    }
}

/// Gives the data of COPY TO STDOUT.
pub struct CopyOutStream {
    columns: usize,
}

impl CopyOutStream {
    /// Number of columns, for CopyOutResponse.
    pub fn column_count(&self) -> usize {
        self.columns
    }

    /// The next CopyData contents, or `None` at the end.
    pub async fn next_chunk(&mut self) -> SqlResult<Option<Bytes>> {
        Ok(None)
    }

    /// The command tag (`COPY 5`).
    pub fn tag(&self) -> String {
        String::new()
    }
}

impl Session {
    /// Begins a simple-protocol query. Parsing errors come from `next_result`.
    pub fn simple(&mut self, sql: &str) -> SimpleQuery {
        SimpleQuery { text: Arc::from(sql) }
    }

    /// The next statement's result; `None` when the text is done (the implicit transaction is
    /// then ended). Drain a result before asking for the next one. After an error the rest of
    /// the text is dropped and the next call returns `None`.
    pub async fn next_result(
        &mut self,
        query: &mut SimpleQuery,
    ) -> SqlResult<Option<StatementResult>> {
        let _ = query;
        Ok(None)
    }

    /// Parses and compiles one statement. `param_types` may be shorter than the statement's
    /// parameters, and 0 means "infer".
    pub async fn prepare(&mut self, sql: &str, param_types: &[Oid]) -> SqlResult<Arc<Prepared>> {
        let _ = param_types;
        Ok(Arc::new(Prepared {
            text: Arc::from(sql),
            param_types: Vec::new(),
            columns: None,
            tag: "",
        }))
    }

    /// Runs a prepared statement. Formats follow PostgreSQL's rule (none: text; one: all).
    pub async fn execute(
        &mut self,
        prepared: &Arc<Prepared>,
        params: &[Option<Bytes>],
        param_formats: &[Format],
        result_formats: &[Format],
    ) -> SqlResult<StatementResult> {
        let _ = (prepared, params, param_formats, result_formats);
        Ok(StatementResult::Empty)
    }

    /// Sync: ends an implicit transaction (commits it, or rolls it back after an error).
    pub async fn sync(&mut self) -> SqlResult<()> {
        Ok(())
    }

    /// Tells the session that the statement failed outside of it (a protocol error).
    pub fn fail(&mut self) {}

    /// The state for ReadyForQuery.
    pub fn status(&self) -> TransactionStatus {
        TransactionStatus::Idle
    }

    /// For cancel requests.
    pub fn cancel_handle(&self) -> CancelHandle {
        CancelHandle { flag: evenkeel_engine::CancelFlag::default() }
    }

    /// The parameters to report at the start (`server_version`, …).
    pub fn initial_parameters(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Reported settings that changed since the last call.
    pub fn take_parameter_changes(&mut self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Notices since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        Vec::new()
    }
}
