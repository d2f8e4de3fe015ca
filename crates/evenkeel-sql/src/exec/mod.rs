//! Running statements. Entry points: `row` for plans, `copy`, and the results.

pub mod channel_use;
pub mod copy;
pub mod in_use;
pub mod resources;
pub mod result;
pub mod row;
pub mod sequence_use;

use std::sync::{Arc, OnceLock};

use evenkeel_engine::CancelFlag;
use evenkeel_planner::planning::PlannerSettings;

use crate::catalog::CatalogState;
use crate::exec::resources::Resources;
use crate::functions::{SessionVars, SettingsAccess};
use crate::instance::Instance;
use crate::search_path::SearchPath;
use crate::settings::SettingsView;
use crate::types::TypeContext;

pub use result::{CopyChunk, CopyOutStream, FailFlag, RowBuffer, RowStream};

/// Session state that a statement reads; owned, so that a portal can outlive the call that made it.
pub struct StatementCx {
    /// Settings that text forms depend on.
    pub types: TypeContext,
    /// `now()`: microseconds since 1970 UTC.
    pub transaction_start: i64,
    /// `statement_timestamp()`.
    pub statement_start: i64,
    /// The catalog as the statement's transaction sees it.
    pub view: Arc<CatalogState>,
    /// Source of the state that the session's functions read.
    pub seed: Arc<SessionSeed>,
    vars: OnceLock<Arc<SessionVars>>,
}

/// The parts of `SessionVars` that change rarely.
pub struct SessionSeed {
    /// `current_user`.
    pub user: String,
    /// `current_database()`.
    pub database: String,
    /// `pg_backend_pid()`.
    pub pid: i32,
    /// The schemas that unqualified names are looked up in.
    pub search_path: SearchPath,
    /// The settings, for `current_setting()`.
    pub settings: Arc<SettingsView>,
    /// Settings of the cost model and the plan choice.
    pub planner: PlannerSettings,
    /// The session's memory budget and temporary files.
    pub resources: Arc<Resources>,
    /// Raised when the session's statement is to end.
    pub cancel: CancelFlag,
    /// State shared by all sessions.
    pub instance: Arc<Instance>,
}

impl StatementCx {
    /// For a statement that begins now.
    pub fn new(
        types: TypeContext,
        transaction_start: i64,
        statement_start: i64,
        view: Arc<CatalogState>,
        seed: Arc<SessionSeed>,
    ) -> StatementCx {
        let vars = OnceLock::new();
        StatementCx {
            types,
            transaction_start,
            statement_start,
            view,
            seed,
            vars,
        }
    }

    /// Session state that functions read; built at the first call.
    pub fn vars(&self) -> &Arc<SessionVars> {
        self.vars.get_or_init(|| {
            Arc::new(SessionVars {
                user: self.seed.user.clone(),
                database: self.seed.database.clone(),
                backend_pid: self.seed.pid,
                transaction_ts: self.transaction_start,
                statement_ts: self.statement_start,
                cx: self.types.clone(),
                search_path: self.seed.search_path.clone(),
                settings: Arc::clone(&self.seed.settings) as Arc<dyn SettingsAccess>,
                catalog: Arc::clone(&self.view),
                instance: Some(Arc::clone(&self.seed.instance)),
                memory: Arc::clone(&self.seed.resources.memory),
                named: Arc::clone(&self.seed.resources.named),
                cancel: self.seed.cancel.clone(),
            })
        })
    }
}
