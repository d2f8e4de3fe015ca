//! The SQL layer over one database: what all sessions share.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionState;
use datafusion::prelude::SessionConfig;
use evenkeel_engine::Database;
use parking_lot::Mutex;

use super::Session;
use super::api::{SessionParams, SqlConfig};
use super::settings::Effective;
use super::transaction::now_micros;
use crate::catalog::Catalog;
use crate::error::SqlResult;
use crate::exec::analytic::pool::Pool;
use crate::functions::{self, PgSemantics};
use crate::instance::Instance;
use crate::maintenance::Autovacuum;
use crate::planner::cache::PlanCache;
use crate::planner::literals::PgLiterals;
use crate::planner::series::SeriesPlanner;

/// What binding a text depends on besides the catalog.
#[derive(PartialEq, Eq, Hash)]
struct Environment {
    user: String,
    search_path: Arc<[String]>,
    time_zone: String,
}

/// The SQL layer over one database.
pub struct SqlEngine {
    instance: Arc<Instance>,
    config: SqlConfig,
    catalog: Arc<Catalog>,
    /// Functions, rules and settings of DataFusion; cloned by sessions, never built anew.
    base: SessionState,
    cache: PlanCache,
    pool: Pool,
    environments: Mutex<HashMap<Environment, u64>>,
    autovacuum: Mutex<Option<Autovacuum>>,
}

impl SqlEngine {
    /// Opens the SQL layer: makes the catalog if the database is new.
    ///
    /// # Errors
    /// When the catalog cannot be read, made or understood.
    pub fn open(db: Database, config: SqlConfig) -> SqlResult<Arc<SqlEngine>> {
        let catalog = Catalog::open(&db)?;
        let base = base_state(&config)?;
        let cache = PlanCache::new(config.plan_cache_size);
        let pool = Pool::new(config.plan_threads)?;
        let environments = Mutex::default();
        let instance = Arc::new(Instance::new(db, now_micros()));
        Ok(Arc::new(SqlEngine {
            instance,
            config,
            catalog,
            base,
            cache,
            pool,
            environments,
            autovacuum: Mutex::default(),
        }))
    }

    /// The engine below.
    pub fn database(&self) -> &Database {
        self.instance.database()
    }

    /// Who is connected, and the server's counters.
    pub fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// The catalog.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Starts vacuuming and analyzing tables by itself, if that is on, until it is stopped or
    /// the engine goes.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start_autovacuum(self: &Arc<Self>) -> SqlResult<()> {
        let started = Autovacuum::start(self, &self.config.autovacuum)?;
        *self.autovacuum.lock() = Some(started);
        Ok(())
    }

    /// Ends autovacuum and waits for its workers.
    pub fn stop_autovacuum(&self) {
        let running = self.autovacuum.lock().take();
        drop(running);
    }

    /// Leaves what the next start can use; nobody may change anything afterwards.
    ///
    /// # Errors
    /// The engine's.
    pub fn close(&self) -> SqlResult<()> {
        self.catalog.keep_counts()
    }

    pub(crate) fn config(&self) -> &SqlConfig {
        &self.config
    }

    pub(crate) fn base(&self) -> &SessionState {
        &self.base
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(crate) fn cache(&self) -> &PlanCache {
        &self.cache
    }

    /// A session for one client.
    ///
    /// # Errors
    /// When a startup setting is not valid.
    pub fn session(self: &Arc<Self>, params: SessionParams) -> SqlResult<Session> {
        Session::new(Arc::clone(self), params)
    }

    /// The number that stands for these settings in cache keys.
    pub(crate) fn environment(&self, user: &str, effective: &Effective) -> u64 {
        let key = Environment {
            user: user.to_owned(),
            search_path: Arc::clone(&effective.search_path),
            time_zone: effective.time_zone.name().to_owned(),
        };
        let mut environments = self.environments.lock();
        let next = environments.len() as u64;
        *environments.entry(key).or_insert(next)
    }
}

fn base_state(config: &SqlConfig) -> SqlResult<SessionState> {
    let mut session = SessionConfig::new()
        .with_target_partitions(config.target_partitions.max(1))
        .with_information_schema(false);
    let options = session.options_mut();
    options.sql_parser.map_string_types_to_utf8view = false;
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.default_null_ordering = "nulls_max".into();
    options.execution.time_zone = Some("+00:00".into());
    options.optimizer.expand_views_at_output = false;
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_limit(config.work_memory, 1.0)
        .build_arc()?;
    let mut state = SessionStateBuilder::new()
        .with_config(session)
        .with_runtime_env(runtime)
        .with_default_features()
        .build();
    functions::register_all(&mut state)?;
    let mut planners = state.expr_planners().to_vec();
    planners.insert(0, Arc::new(PgLiterals));
    let builder = SessionStateBuilder::new_from_existing(state);
    let builder = builder.with_analyzer_rule(Arc::new(PgSemantics));
    let mut state = builder.with_expr_planners(planners).build();
    state.register_relation_planner(Arc::new(SeriesPlanner))?;
    Ok(state)
}
