//! PostgreSQL's functions where DataFusion's differ or are missing, and the session's values
//! that they depend on.
//!
//! Entry points: [`register_all`], [`SessionVars`], [`with_session`], [`PgSemantics`]. The rules
//! are in the README beside this file.

mod aggregates;
mod arithmetic;
mod cast;
mod clock;
mod define;
mod evaluation;
mod floats;
mod info;
mod round;
mod semantics;
mod series;
mod strings;
#[cfg(test)]
mod tests;
mod uuids;
mod widened;

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::FunctionRegistry;

pub use define::{Body, Call, PgFunction, Result as FunctionResult};
pub use evaluation::{finish_expr, finish_plan};
pub use semantics::{PgSemantics, pg_semantics};
pub use series::GENERATE_SERIES;

use crate::catalog::CatalogState;
use crate::error::{SqlError, SqlResult};
use crate::instance::Instance;
use crate::session::setting_info::SettingInfo;
use crate::types::TypeContext;

/// What `version()` begins with, and the version that drivers look for in it.
pub const SERVER_VERSION: &str = "18.0";

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
}

/// What functions may know of the session that calls them.
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
    /// What text forms depend on.
    pub cx: TypeContext,
    /// Schemas that names are looked up in.
    pub search_path: Vec<String>,
    /// Settings.
    pub settings: Arc<dyn SettingsAccess>,
    /// The catalog as the transaction sees it.
    pub catalog: Arc<CatalogState>,
    /// What all sessions share; only tests go without.
    pub instance: Option<Arc<Instance>>,
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

/// Carries a session's values through DataFusion's configuration to wherever a plan runs.
#[derive(Debug, Clone)]
pub struct SessionVarsExtension(pub Arc<SessionVars>);

impl ConfigExtension for SessionVarsExtension {
    const PREFIX: &'static str = "evenkeel";
}

impl ExtensionOptions for SessionVarsExtension {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, _value: &str) -> DfResult<()> {
        Err(DataFusionError::Configuration(format!(
            "no configuration option evenkeel.{key}"
        )))
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        Vec::new()
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<SessionVars>>> = const { RefCell::new(None) };
}

/// Runs `f` with these values for the functions that it evaluates on this thread. They come
/// before those of a plan's configuration, which an expression kept from an earlier statement
/// would still have.
pub fn with_session<T>(vars: &Arc<SessionVars>, f: impl FnOnce() -> T) -> T {
    struct Restore(Option<Arc<SessionVars>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            let before = self.0.take();
            CURRENT.with_borrow_mut(|current| *current = before);
        }
    }
    let before = CURRENT.with_borrow_mut(|current| current.replace(Arc::clone(vars)));
    let _restore = Restore(before);
    f()
}

/// The values of the session on whose behalf a function runs.
///
/// # Errors
/// XX000 outside of any session.
pub fn session_vars(options: &ConfigOptions) -> SqlResult<Arc<SessionVars>> {
    let scoped = CURRENT.with_borrow(Clone::clone);
    scoped
        .or_else(|| {
            let extension = options.extensions.get::<SessionVarsExtension>();
            extension.map(|extension| Arc::clone(&extension.0))
        })
        .ok_or_else(|| SqlError::internal("a function that needs a session runs without one"))
}

/// Registers all functions of this module, in place of DataFusion's of the same names.
///
/// # Errors
/// When the registry takes no functions.
pub fn register_all(registry: &mut dyn FunctionRegistry) -> SqlResult<()> {
    let functions = [
        clock::functions(),
        info::functions(),
        strings::functions(),
        uuids::functions(),
    ];
    for function in functions.into_iter().flatten() {
        registry.register_udf(Arc::new(function.into()))?;
    }
    for function in round::functions() {
        registry.register_udf(Arc::new(function.into()))?;
    }
    registry.register_udf(Arc::new(series::GenerateSeries::new().into()))?;
    for function in aggregates::functions() {
        registry.register_udaf(Arc::new(function))?;
    }
    crate::pg_catalog::functions::register(registry)
}
