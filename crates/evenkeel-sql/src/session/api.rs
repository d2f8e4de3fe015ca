//! The values by which a server begins sessions and keeps their statements.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use evenkeel_engine::memory::Reservation;
use evenkeel_settings::Configuration;
use parking_lot::Mutex;

use crate::error::{SqlError, SqlResult, SqlState};
use crate::instance::Client;
use crate::planner::compile::Compiled;
use crate::protocol::{Column, Oid};

/// The parameters of a client's start-up message.
#[derive(Debug, Clone, Default)]
pub struct SessionParams {
    /// The role.
    pub user: String,
    /// The database; without a name, `postgres`.
    pub database: String,
    /// Settings from the startup message (`application_name`, `client_encoding`, `options`).
    pub settings: Vec<(String, String)>,
    /// The key by which the client cancels its statements from another connection.
    pub cancel_key: Option<Bytes>,
    /// Where the client is.
    pub client: Client,
}

/// Limits of the SQL layer.
#[derive(Debug, Clone)]
pub struct SqlConfig {
    /// Compiled statements kept by the engine.
    pub plan_cache_size: usize,
    /// Memory that all sessions together may use, in bytes.
    pub server_memory: usize,
    /// Memory that one session may use, in bytes.
    pub session_memory: usize,
    /// Settings of the server, which every session starts with and follows.
    pub settings: Arc<Configuration>,
}

impl Default for SqlConfig {
    fn default() -> SqlConfig {
        SqlConfig {
            plan_cache_size: 1024,
            server_memory: usize::MAX,
            session_memory: usize::MAX,
            settings: Arc::default(),
        }
    }
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
    /// How often it has run.
    pub(crate) runs: Arc<AtomicU64>,
    /// Charged to the session that prepared it.
    _memory: Reservation,
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
        memory: Reservation,
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
            runs: Arc::default(),
            _memory: memory,
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
