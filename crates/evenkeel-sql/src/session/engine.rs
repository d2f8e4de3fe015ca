//! The SQL layer over one instance: what all sessions share.

use std::collections::HashMap;
use std::sync::Arc;

use evenkeel_engine::Database;
use evenkeel_engine::memory::ServerMemory;
use evenkeel_exec::TempSpace;
use parking_lot::Mutex;

use super::Session;
use super::api::{SessionParams, SqlConfig};
use super::transaction::now_micros;
use crate::catalog::Oid;
use crate::databases::Databases;
use crate::deep::Planners;
use crate::error::{SqlResult, SqlState};
use crate::instance::{Instance, Notifications};
use crate::maintenance::{Autovacuum, AutovacuumConfig};
use crate::planner::cache::PlanCache;
use crate::search_path::SearchPath;
use crate::settings::Effective;

/// Inputs of binding a text besides the catalog.
#[derive(PartialEq, Eq, Hash)]
struct Environment {
    database: Oid,
    user: String,
    search_path: SearchPath,
    /// The settings that text forms depend on: constants are read when a statement is bound.
    types: String,
    planner: String,
}

/// The environments of sessions lately, with the numbers that stand for them. A number is never
/// used again for another environment, so forgetting one costs a few plans.
#[derive(Default)]
struct Environments {
    known: HashMap<Environment, Known>,
    next: u64,
    clock: u64,
}

struct Known {
    number: u64,
    used: u64,
}

/// Environments that are remembered.
const ENVIRONMENTS: usize = 1024;
/// The longest environment that is remembered, in bytes.
const ENVIRONMENT_BYTES_MAX: usize = 4 << 10;

impl Environments {
    fn number(&mut self, environment: Environment) -> u64 {
        self.clock += 1;
        if let Some(known) = self.known.get_mut(&environment) {
            known.used = self.clock;
            return known.number;
        }
        let number = self.next;
        self.next += 1;
        if environment.bytes() > ENVIRONMENT_BYTES_MAX {
            return number;
        }
        if self.known.len() >= ENVIRONMENTS {
            let mut ages: Vec<u64> = self.known.values().map(|known| known.used).collect();
            let (_, limit, _) = ages.select_nth_unstable(ENVIRONMENTS / 4);
            let limit = *limit;
            self.known.retain(|_, known| known.used > limit);
        }
        let used = self.clock;
        self.known.insert(environment, Known { number, used });
        number
    }
}

impl Environment {
    fn bytes(&self) -> usize {
        let path: usize = self.search_path.iter().map(String::len).sum();
        self.user.len() + path + self.types.len() + self.planner.len()
    }
}

/// The SQL layer over one instance and its databases.
pub struct SqlEngine {
    instance: Arc<Instance>,
    config: SqlConfig,
    cache: PlanCache,
    planners: Planners,
    environments: Mutex<Environments>,
    memory: Arc<ServerMemory>,
    autovacuum: Mutex<Option<Autovacuum>>,
}

impl SqlEngine {
    /// Opens the SQL layer: makes the catalog if the database is new.
    ///
    /// # Errors
    /// When the catalog cannot be read, made or understood.
    pub fn open(db: Database, config: SqlConfig) -> SqlResult<Arc<SqlEngine>> {
        let databases = Databases::open(&db)?;
        let store = db.store();
        TempSpace::remove_left_over(&**store.disk(), store.dir())?;
        let memory = ServerMemory::new(config.server_memory);
        let cache_bytes = PLAN_CACHE_BYTES.min(config.server_memory / 16);
        let cache = PlanCache::new(config.plan_cache_size, cache_bytes);
        let planners = Planners::new()?;
        let environments = Mutex::default();
        let pages = config.settings.loaded().count("max_notify_queue_pages");
        let notifications = Notifications::new(pages);
        let instance = Instance::new(db, databases, now_micros(), notifications);
        let instance = Arc::new(instance);
        let engine = Arc::new(SqlEngine {
            instance,
            config,
            cache,
            planners,
            environments,
            memory,
            autovacuum: Mutex::default(),
        });
        engine.remove_left_temporary()?;
        Ok(engine)
    }

    /// The engine below.
    pub fn database(&self) -> &Database {
        self.instance.database()
    }

    /// The connected sessions, and the server's counters.
    pub fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// Its databases.
    pub fn databases(&self) -> &Arc<Databases> {
        self.instance.databases()
    }

    /// Starts vacuuming and analyzing tables by itself, if that is on, until it is stopped or
    /// the engine goes.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start_autovacuum(self: &Arc<Self>) -> SqlResult<()> {
        let settings = &self.config.settings;
        let config = AutovacuumConfig::of(&settings.loaded());
        *self.autovacuum.lock() = Some(Autovacuum::start(self.databases(), &config)?);
        let engine = Arc::downgrade(self);
        settings.on_load(move |loaded| {
            if let Some(engine) = engine.upgrade()
                && let Some(running) = &*engine.autovacuum.lock()
            {
                running.reconfigure(&AutovacuumConfig::of(loaded));
            }
        });
        Ok(())
    }

    /// Ends autovacuum and waits for its workers.
    pub fn stop_autovacuum(&self) {
        let running = self.autovacuum.lock().take();
        drop(running);
    }

    /// Leaves what the next start can use; nobody may change anything afterwards. On a full disk
    /// there may be no room for the counts, which are estimates.
    ///
    /// # Errors
    /// The engine's.
    pub fn close(&self) -> SqlResult<()> {
        self.database().store().prepare_shutdown();
        for catalog in self.databases().catalogs()? {
            match catalog.keep_counts() {
                Err(error) if error.sqlstate == SqlState::DISK_FULL => {
                    tracing::warn!("the counts of rows are not kept: {error}");
                }
                kept => kept?,
            }
        }
        Ok(())
    }

    pub(crate) fn config(&self) -> &SqlConfig {
        &self.config
    }

    /// Memory budget of all sessions.
    pub fn memory(&self) -> &Arc<ServerMemory> {
        &self.memory
    }

    pub(crate) fn planners(&self) -> &Planners {
        &self.planners
    }

    pub(crate) fn cache(&self) -> &PlanCache {
        &self.cache
    }

    /// A session for one client.
    ///
    /// # Errors
    /// 3D000, 55000 and 55006 when there is no getting into the database; when a startup setting is
    /// not valid.
    pub fn session(self: &Arc<Self>, params: SessionParams) -> SqlResult<Session> {
        let name = match params.database.as_str() {
            "" => FIRST_DATABASE,
            name => name,
        };
        let seat = self.databases().enter(name)?;
        Session::new(Arc::clone(self), seat, params)
    }

    /// The number that stands for these settings in cache keys.
    pub(crate) fn environment(&self, database: Oid, user: &str, effective: &Effective) -> u64 {
        let key = Environment {
            database,
            user: user.to_owned(),
            search_path: effective.search_path.clone(),
            types: format!("{:?}", effective.type_context(0)),
            planner: format!("{:?}", effective.planner),
        };
        self.environments.lock().number(key)
    }
}

/// The database of those who name none.
const FIRST_DATABASE: &str = "postgres";

/// Memory of the plan cache at most, and at most a sixteenth of the server's.
const PLAN_CACHE_BYTES: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(user: &str) -> Environment {
        Environment {
            database: 5,
            user: user.to_owned(),
            search_path: SearchPath::new(vec!["public".to_owned()], None),
            types: "UTC".to_owned(),
            planner: String::new(),
        }
    }

    #[test]
    fn environments_are_bounded_and_their_numbers_are_not_used_again() {
        let mut environments = Environments::default();
        let first = environments.number(environment("me"));
        let mut last = first;
        for user in 0..10_000 {
            let number = environments.number(environment(&user.to_string()));
            assert!(number > last, "{number}");
            last = number;
            // One that is in use stays known.
            assert_eq!(environments.number(environment("me")), first);
        }
        assert!(environments.known.len() <= ENVIRONMENTS);
        assert!(environments.number(environment("0")) > last);
        let long = "x".repeat(ENVIRONMENT_BYTES_MAX);
        let known = environments.known.len();
        environments.number(environment(&long));
        assert_eq!(environments.known.len(), known);
    }
}
