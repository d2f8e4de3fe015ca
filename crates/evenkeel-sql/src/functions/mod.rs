//! The session's values that functions depend on, and the functions about the session itself.
//!
//! Entry points: [`SessionVars`], [`about`]. The rules are in the README beside this file.

mod info;

use evenkeel_settings::Configuration;
use std::fmt;
use std::sync::Arc;

use evenkeel_engine::CancelFlag;
use evenkeel_engine::memory::SessionMemory;

pub use info::about;

use crate::catalog::CatalogState;
use crate::error::SqlResult;
use crate::instance::Instance;
use crate::named_statements::NamedStatements;
use crate::search_path::SearchPath;
use crate::types::TypeContext;

/// One row of `pg_settings`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of pg_settings")]
pub struct SettingInfo {
    pub name: &'static str,
    pub setting: String,
    pub unit: Option<&'static str>,
    pub category: &'static str,
    pub short_desc: String,
    pub context: &'static str,
    pub vartype: &'static str,
    pub source: &'static str,
    pub min_val: Option<String>,
    pub max_val: Option<String>,
    pub enumvals: Option<&'static [&'static str]>,
    pub boot_val: String,
    pub reset_val: String,
    /// `sourcefile` and `sourceline`.
    pub source_place: Option<(String, u32)>,
    pub pending_restart: bool,
}

/// The settings of a session, for `current_setting` and `set_config`.
pub trait SettingsAccess: Send + Sync {
    /// A setting's value; `None` if there is no such setting.
    fn get(&self, name: &str) -> Option<String>;

    /// Sets a setting for the session or, with `local`, the transaction; answers what it is
    /// then.
    ///
    /// # Errors
    /// 42704, 22023, 55P02, as SET.
    fn set(&self, name: &str, value: &str, local: bool) -> SqlResult<String>;

    /// All settings by name, with their values.
    fn all(&self) -> Vec<(String, String)>;

    /// The rows of `pg_settings`, by name.
    fn describe(&self) -> Vec<SettingInfo> {
        Vec::new()
    }

    /// The server's configuration, if there is a server.
    fn configuration(&self) -> Option<Arc<Configuration>> {
        None
    }
}

/// Session state that functions read.
#[derive(Clone)]
pub struct SessionVars {
    /// `current_user`
    pub user: String,
    /// `current_database()`
    pub database: String,
    /// `pg_backend_pid()`
    pub backend_pid: i32,
    /// `now()`: start of the transaction, microseconds since 1970 UTC.
    pub transaction_ts: i64,
    /// `statement_timestamp()`: start of the statement, the same way.
    pub statement_ts: i64,
    /// Settings that text forms depend on.
    pub cx: TypeContext,
    /// Schemas that names are looked up in.
    pub search_path: SearchPath,
    /// Settings.
    pub settings: Arc<dyn SettingsAccess>,
    /// The catalog as the transaction sees it.
    pub catalog: Arc<CatalogState>,
    /// State shared by all sessions; `None` only in tests.
    pub instance: Option<Arc<Instance>>,
    /// The session's memory budget.
    pub memory: Arc<SessionMemory>,
    /// The session's prepared statements that have names.
    pub named: Arc<NamedStatements>,
    /// Raised when the statement is to end.
    pub cancel: CancelFlag,
}

impl fmt::Debug for SessionVars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionVars")
            .field("user", &self.user)
            .field("database", &self.database)
            .field("backend_pid", &self.backend_pid)
            .field("catalog", &self.catalog.version)
            .finish_non_exhaustive()
    }
}
