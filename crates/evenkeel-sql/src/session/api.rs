//! The plain values that cross the boundary to the server.

use std::sync::Arc;

use parking_lot::Mutex;

use super::setting_info::ServerSetting;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::instance::Client;
use crate::maintenance::AutovacuumConfig;
use crate::planner::compile::Compiled;

/// PostgreSQL's object id.
pub type Oid = u32;

/// The format of one value on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Code 0.
    #[default]
    Text,
    /// Code 1.
    Binary,
}

impl Format {
    /// The format for a wire code; `None` for a code that does not exist.
    pub fn from_code(code: i16) -> Option<Format> {
        match code {
            0 => Some(Format::Text),
            1 => Some(Format::Binary),
            _ => None,
        }
    }

    /// The wire code.
    pub fn code(self) -> i16 {
        match self {
            Format::Text => 0,
            Format::Binary => 1,
        }
    }

    /// The format of item `index` under PostgreSQL's rule: no codes mean text for all, one
    /// code is meant for all.
    pub fn of(formats: &[Format], index: usize) -> Format {
        match formats {
            [] => Format::Text,
            [all] => *all,
            each => each.get(index).copied().unwrap_or_default(),
        }
    }
}

/// A result column as RowDescription gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The name.
    pub name: String,
    /// Type oid.
    pub type_oid: Oid,
    /// Type modifier, -1 for none.
    pub typmod: i32,
    /// `typlen`: bytes, or -1 for a type of variable length.
    pub len: i16,
    /// The table the column comes from, or 0.
    pub table_oid: Oid,
    /// The column's number in that table, or 0.
    pub attnum: i16,
}

/// What a client said at its start.
#[derive(Debug, Clone, Default)]
pub struct SessionParams {
    /// The role.
    pub user: String,
    /// The database; a server has one, under any name.
    pub database: String,
    /// Settings from the startup message (`application_name`, `client_encoding`, `options`).
    pub settings: Vec<(String, String)>,
    /// The number shown as `pg_backend_pid()`.
    pub pid: i32,
    /// Where the client is.
    pub client: Client,
}

/// Limits of the SQL layer.
#[derive(Debug, Clone)]
pub struct SqlConfig {
    /// Compiled statements kept by the engine.
    pub plan_cache_size: usize,
    /// Memory one analytic statement may use, in bytes.
    pub work_memory: usize,
    /// Partitions of an analytic plan.
    pub target_partitions: usize,
    /// Threads that analytic plans run on.
    pub plan_threads: usize,
    /// Settings of the server, which every session starts with.
    pub settings: Arc<[ServerSetting]>,
    /// When tables are vacuumed and analyzed by themselves.
    pub autovacuum: AutovacuumConfig,
}

impl Default for SqlConfig {
    fn default() -> SqlConfig {
        SqlConfig {
            plan_cache_size: 1024,
            work_memory: 256 << 20,
            target_partitions: 1,
            plan_threads: std::thread::available_parallelism().map_or(1, usize::from),
            settings: Arc::default(),
            autovacuum: AutovacuumConfig::default(),
        }
    }
}

/// The state that ReadyForQuery reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionStatus {
    /// `I`: no transaction block.
    Idle,
    /// `T`: in a block.
    InBlock,
    /// `E`: in a failed block.
    Failed,
}

impl TransactionStatus {
    /// The byte of ReadyForQuery.
    pub fn as_byte(self) -> u8 {
        match self {
            TransactionStatus::Idle => b'I',
            TransactionStatus::InBlock => b'T',
            TransactionStatus::Failed => b'E',
        }
    }
}

/// A notice or warning for the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// `NOTICE`, `WARNING`, `INFO`.
    pub severity: &'static str,
    /// The code.
    pub sqlstate: SqlState,
    /// The text.
    pub message: String,
}

/// The format of a COPY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyFormat {
    /// Tab-separated with backslash escapes.
    Text,
    /// Comma-separated values.
    Csv,
}

/// A statement made ready. Cheap to share; stays valid over catalog changes (it is compiled
/// anew when they concern it).
#[derive(Debug)]
pub struct Prepared {
    /// The text it came from.
    pub(crate) text: Arc<str>,
    /// The parameter types that the client gave.
    pub(crate) given: Arc<[Oid]>,
    /// Type oids of `$1`, `$2`, ….
    pub param_types: Vec<Oid>,
    /// The result columns; `None` for a statement without rows.
    pub columns: Option<Arc<[Column]>>,
    /// The command, as in a command tag (`SELECT`, `INSERT`, `BEGIN`); empty for an empty
    /// query.
    pub tag: &'static str,
    latest: Mutex<Latest>,
}

/// The compiled form used last, and what it was compiled under.
#[derive(Debug, Clone)]
struct Latest {
    compiled: Arc<Compiled>,
    environment: u64,
}

impl Prepared {
    pub(crate) fn new(
        text: Arc<str>,
        given: Arc<[Oid]>,
        compiled: Arc<Compiled>,
        environment: u64,
    ) -> Prepared {
        Prepared {
            text,
            given,
            param_types: compiled.param_types.iter().map(|ty| ty.oid()).collect(),
            columns: compiled.columns.clone(),
            tag: compiled.kind.tag(),
            latest: Mutex::new(Latest {
                compiled,
                environment,
            }),
        }
    }

    /// The compiled form, if it was compiled under this catalog version and environment.
    pub(crate) fn current(&self, version: u64, environment: u64) -> Option<Arc<Compiled>> {
        let latest = self.latest.lock();
        let fits = latest.compiled.keep
            && latest.compiled.version == version
            && latest.environment == environment;
        fits.then(|| Arc::clone(&latest.compiled))
    }

    /// Keeps a newer compiled form. Its columns are those of the first one: 0A000 otherwise.
    pub(crate) fn renew(&self, compiled: &Arc<Compiled>, environment: u64) -> SqlResult<()> {
        let same = match (&self.columns, &compiled.columns) {
            (None, None) => true,
            (Some(old), Some(new)) => {
                old.len() == new.len()
                    && old
                        .iter()
                        .zip(new.iter())
                        .all(|(a, b)| a.type_oid == b.type_oid)
            }
            _ => false,
        };
        if !same {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cached plan must not change result type",
            ));
        }
        *self.latest.lock() = Latest {
            compiled: Arc::clone(compiled),
            environment,
        };
        Ok(())
    }
}

/// Cancels whatever a session is doing; from any thread.
#[derive(Clone)]
pub struct CancelHandle {
    pub(crate) flag: evenkeel_engine::CancelFlag,
}

impl CancelHandle {
    /// Asks the running statement to end with 57014. Does nothing to an idle session.
    pub fn cancel(&self) {
        self.flag.cancel();
    }
}
