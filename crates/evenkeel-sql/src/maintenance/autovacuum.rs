//! Autovacuum: a launcher that looks at the tables now and then, and workers that do what is due.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use evenkeel_engine::stats::TableStatistics;
use evenkeel_engine::vacuum::{CostBalance, CostLimits, IndexCleanup, VacuumOptions};
use evenkeel_engine::{
    BackendType, CancelFlag, Database, Isolation, TableLockMode, WaitPolicy, block_on,
};
use evenkeel_settings::{Configuration, Loaded};
use parking_lot::{Condvar, Mutex, RwLock};

use super::Request;
use super::analyze::{AnalyzeRequest, analyze};
use super::vacuum::{VacuumRequest, truncate_status, vacuum};
use crate::catalog::{Catalog, RelationStats, StorageParameters, TableInfo, oid_of};
use crate::databases::Databases;
use crate::error::{SqlError, SqlResult, SqlState};

/// How often one looks whether a worker is in somebody's way.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Settings of autovacuum, with PostgreSQL's names and defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct AutovacuumConfig {
    /// `autovacuum`: whether it runs at all.
    pub enabled: bool,
    /// `autovacuum_naptime`: between two looks at the tables.
    pub naptime: Duration,
    /// `autovacuum_max_workers`.
    pub max_workers: usize,
    /// `autovacuum_vacuum_threshold`: dead rows.
    pub vacuum_threshold: f64,
    /// `autovacuum_vacuum_max_threshold`: dead rows that are enough whatever the size; -1: none.
    pub vacuum_max_threshold: f64,
    /// `autovacuum_vacuum_scale_factor`: dead rows as a share of all, added to the threshold.
    pub vacuum_scale_factor: f64,
    /// `autovacuum_vacuum_insert_threshold`: rows inserted; -1: never for inserts.
    pub insert_threshold: f64,
    /// `autovacuum_vacuum_insert_scale_factor`: as a share of the rows that are not frozen.
    pub insert_scale_factor: f64,
    /// `autovacuum_analyze_threshold`: rows changed.
    pub analyze_threshold: f64,
    /// `autovacuum_analyze_scale_factor`: as a share of all rows.
    pub analyze_scale_factor: f64,
    /// `autovacuum_freeze_max_age`: a table with older ids is frozen, whatever else holds.
    pub freeze_max_age: u64,
    /// `vacuum_freeze_min_age`.
    pub freeze_min_age: u64,
    /// `vacuum_freeze_table_age`.
    pub freeze_table_age: u64,
    /// `autovacuum_vacuum_cost_delay` and `autovacuum_vacuum_cost_limit`; all workers share it.
    pub cost: CostLimits,
    /// `maintenance_work_mem`, in bytes.
    pub memory: usize,
    /// `default_statistics_target`.
    pub statistics_target: usize,
}

impl Default for AutovacuumConfig {
    fn default() -> AutovacuumConfig {
        AutovacuumConfig::of(&Configuration::default().loaded())
    }
}

/// Maintenance that is due for a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Due {
    vacuum: bool,
    analyze: bool,
    /// The vacuum is due to the age of ids.
    freeze: bool,
}

impl AutovacuumConfig {
    /// The settings as they were loaded.
    pub fn of(loaded: &Loaded) -> AutovacuumConfig {
        let number = |name: &str| loaded.integer(name);
        let age = |name: &str| u64::try_from(number(name)).unwrap_or(0);
        let cost = |name: &str| u32::try_from(number(name)).unwrap_or(0);
        // Where autovacuum has no limit of its own, that of VACUUM holds.
        let limit = match number("autovacuum_vacuum_cost_limit") {
            ..=0 => cost("vacuum_cost_limit"),
            _ => cost("autovacuum_vacuum_cost_limit"),
        };
        AutovacuumConfig {
            enabled: loaded.is_on("autovacuum"),
            naptime: loaded.time("autovacuum_naptime"),
            max_workers: loaded.count("autovacuum_max_workers"),
            vacuum_threshold: loaded.real("autovacuum_vacuum_threshold"),
            vacuum_max_threshold: loaded.real("autovacuum_vacuum_max_threshold"),
            vacuum_scale_factor: loaded.real("autovacuum_vacuum_scale_factor"),
            insert_threshold: loaded.real("autovacuum_vacuum_insert_threshold"),
            insert_scale_factor: loaded.real("autovacuum_vacuum_insert_scale_factor"),
            analyze_threshold: loaded.real("autovacuum_analyze_threshold"),
            analyze_scale_factor: loaded.real("autovacuum_analyze_scale_factor"),
            freeze_max_age: age("autovacuum_freeze_max_age"),
            freeze_min_age: age("vacuum_freeze_min_age"),
            freeze_table_age: age("vacuum_freeze_table_age"),
            cost: CostLimits {
                delay: loaded.time("autovacuum_vacuum_cost_delay"),
                limit,
                page_hit: cost("vacuum_cost_page_hit"),
                page_miss: cost("vacuum_cost_page_miss"),
                page_dirty: cost("vacuum_cost_page_dirty"),
            },
            memory: usize::try_from(loaded.bytes("maintenance_work_mem")).unwrap_or(usize::MAX),
            statistics_target: loaded.count("default_statistics_target"),
        }
    }

    /// Decides which maintenance is due from a table's counters, statistics and storage parameters.
    fn due(
        &self,
        counted: &TableStatistics,
        known: &RelationStats,
        age: u64,
        declared: &StorageParameters,
    ) -> Due {
        let number = |name: &str, default: f64| {
            declared
                .real(&format!("autovacuum_{name}"))
                .unwrap_or(default)
        };
        let rows = f64::from(known.reltuples.max(0.0));
        let unfrozen = if known.relpages > 0 {
            let frozen = f64::from(known.relallfrozen) / f64::from(known.relpages);
            1.0 - frozen.clamp(0.0, 1.0)
        } else {
            1.0
        };
        let dead = number("vacuum_threshold", self.vacuum_threshold)
            + number("vacuum_scale_factor", self.vacuum_scale_factor) * rows;
        let most = number("vacuum_max_threshold", self.vacuum_max_threshold);
        let dead = if most >= 0.0 { dead.min(most) } else { dead };
        let insert_base = number("vacuum_insert_threshold", self.insert_threshold);
        let inserted = insert_base
            + number("vacuum_insert_scale_factor", self.insert_scale_factor) * rows * unfrozen;
        let changed = number("analyze_threshold", self.analyze_threshold)
            + number("analyze_scale_factor", self.analyze_scale_factor) * rows;
        let max_age = declared.int("autovacuum_freeze_max_age");
        let max_age = max_age.map_or(self.freeze_max_age, i64::cast_unsigned);
        let freeze = age > max_age.min(self.freeze_max_age);
        let enabled = declared.flag("autovacuum_enabled").unwrap_or(true);
        let by_inserts = insert_base >= 0.0 && counted.n_ins_since_vacuum as f64 > inserted;
        Due {
            vacuum: freeze || (enabled && (counted.n_dead_tup as f64 > dead || by_inserts)),
            analyze: enabled && counted.n_mod_since_analyze as f64 > changed,
            freeze,
        }
    }

    fn cost_for(&self, declared: &StorageParameters) -> Option<CostLimits> {
        let delay = declared.real("autovacuum_vacuum_cost_delay");
        let delay = delay.filter(|delay| *delay >= 0.0);
        let limit = declared.int("autovacuum_vacuum_cost_limit");
        let limit = limit.and_then(|limit| u32::try_from(limit).ok());
        if delay.is_none() && limit.is_none() {
            return None;
        }
        Some(CostLimits {
            delay: delay.map_or(self.cost.delay, |ms| Duration::from_secs_f64(ms / 1e3)),
            limit: limit.filter(|limit| *limit > 0).unwrap_or(self.cost.limit),
            ..self.cost
        })
    }
}

#[derive(Default)]
struct State {
    stopping: bool,
    /// Tables that workers have in hand, by their numbers for locks and counters.
    active: HashMap<u64, Task>,
    workers: Vec<JoinHandle<()>>,
}

/// A table in a worker's hands.
struct Task {
    cancel: CancelFlag,
    /// It ends when somebody waits for the table.
    gives_way: bool,
}

impl State {
    /// Ends what somebody waits for.
    fn give_way(&self, db: &Database) {
        for (id, task) in &self.active {
            if task.gives_way && db.table_waited_for(*id) {
                task.cancel.cancel();
            }
        }
    }
}

struct Shared {
    databases: Weak<Databases>,
    config: RwLock<Arc<AutovacuumConfig>>,
    state: Mutex<State>,
    /// Told when it is to stop, and when a worker takes a table in hand.
    wake: Condvar,
    cost: Arc<CostBalance>,
    next_pid: AtomicI32,
}

impl Shared {
    fn config(&self) -> Arc<AutovacuumConfig> {
        Arc::clone(&self.config.read())
    }
}

/// The launcher and its workers. Dropped, they stop.
pub struct Autovacuum {
    shared: Arc<Shared>,
    launcher: Option<JoinHandle<()>>,
}

impl Autovacuum {
    /// Starts the launcher, which launches nothing while autovacuum is off.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(databases: &Arc<Databases>, config: &AutovacuumConfig) -> SqlResult<Autovacuum> {
        let shared = Arc::new(Shared {
            databases: Arc::downgrade(databases),
            config: RwLock::new(Arc::new(config.clone())),
            state: Mutex::default(),
            wake: Condvar::new(),
            cost: Arc::new(CostBalance::new(config.cost)),
            // Above the numbers of sessions, which begin at 1.
            next_pid: AtomicI32::new(i32::MAX / 2),
        });
        let mut autovacuum = Autovacuum {
            shared: Arc::clone(&shared),
            launcher: None,
        };
        autovacuum.launcher = Some(spawn("autovacuum launcher", move || launch(&shared))?);
        Ok(autovacuum)
    }

    /// Goes on by other settings; workers finish the tables that they have in hand by the old ones,
    /// but for the cost limit.
    pub fn reconfigure(&self, config: &AutovacuumConfig) {
        *self.shared.config.write() = Arc::new(config.clone());
        self.shared.cost.set(config.cost);
        self.shared.wake.notify_all();
    }

    /// Stops the launcher and cancels the workers, and waits for them.
    pub fn stop(&mut self) {
        {
            let mut state = self.shared.state.lock();
            state.stopping = true;
            state.active.values().for_each(|task| task.cancel.cancel());
        }
        self.shared.wake.notify_all();
        let shared = Arc::clone(&self.shared);
        let workers = || std::mem::take(&mut shared.state.lock().workers);
        // The launcher first: it may start one more before it sees that it is to stop.
        self.launcher.take().into_iter().for_each(join);
        workers().into_iter().for_each(join);
    }
}

/// Waits for a thread. None of them owns the autovacuum, so none waits for itself.
fn join(thread: JoinHandle<()>) {
    // A panic there has been reported by the panic hook.
    let _ = thread.join();
}

impl Drop for Autovacuum {
    fn drop(&mut self) {
        self.stop();
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> SqlResult<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(work)
        .map_err(|error| SqlError::internal(error.to_string()))
}

/// The launcher's life.
fn launch(shared: &Arc<Shared>) {
    while nap(shared) {
        let Some(databases) = shared.databases.upgrade() else {
            return;
        };
        let config = shared.config();
        if !config.enabled {
            continue;
        }
        let queue = what_is_due(&databases, &config);
        if queue.is_empty() {
            continue;
        }
        let queue = Arc::new(Mutex::new(queue));
        let mut state = shared.state.lock();
        let free = config.max_workers.saturating_sub(state.workers.len());
        for _ in 0..free.min(queue.lock().len()) {
            let (shared, queue) = (Arc::clone(shared), Arc::clone(&queue));
            match spawn("autovacuum worker", move || work(&shared, &queue)) {
                Ok(worker) => state.workers.push(worker),
                Err(error) => tracing::warn!("no autovacuum worker: {}", error.message),
            }
        }
    }
}

/// Waits for the next round, and meanwhile makes the workers give way. False when it is to stop.
fn nap(shared: &Shared) -> bool {
    let begun = Instant::now();
    let mut state = shared.state.lock();
    while !state.stopping {
        // It may be given another length meanwhile.
        let left = shared.config().naptime.saturating_sub(begun.elapsed());
        if left.is_zero() {
            break;
        }
        if state.active.is_empty() {
            shared.wake.wait_for(&mut state, left);
        } else {
            shared.wake.wait_for(&mut state, left.min(LOOK_EVERY));
            if let Some(databases) = shared.databases.upgrade() {
                state.give_way(databases.database());
            }
        }
    }
    state.workers.retain(|worker| !worker.is_finished());
    !state.stopping
}

type Queue = Mutex<VecDeque<(Arc<Catalog>, u64)>>;

/// The tables of all databases that something is due for: those with old ids first.
fn what_is_due(databases: &Databases, config: &AutovacuumConfig) -> VecDeque<(Arc<Catalog>, u64)> {
    let mut found = VecDeque::new();
    match databases.catalogs() {
        Ok(catalogs) => {
            for catalog in catalogs {
                due_in(&catalog, config, &mut found);
            }
        }
        Err(error) => tracing::warn!("autovacuum: {}", error.message),
    }
    found
}

fn due_in(
    catalog: &Arc<Catalog>,
    config: &AutovacuumConfig,
    found: &mut VecDeque<(Arc<Catalog>, u64)>,
) {
    let state = catalog.current();
    // A session's temporary tables are vacuumed by that session alone.
    for table in state.tables().filter(|table| !table.is_temporary()) {
        let id = table.lock_id();
        let due = due_for(catalog, config, id);
        if due.freeze {
            found.push_front((Arc::clone(catalog), id));
        } else if due != Due::default() {
            found.push_back((Arc::clone(catalog), id));
        }
    }
    for (_, table) in catalog.system_tables() {
        let id = table.def().id;
        if due_for(catalog, config, id).vacuum {
            found.push_back((Arc::clone(catalog), id));
        }
    }
}

/// The table under this number, unless it is one of the catalog's own.
fn users_table(catalog: &Catalog, id: u64) -> Option<Arc<TableInfo>> {
    catalog.current().table(oid_of(id)).cloned()
}

fn due_for(catalog: &Catalog, config: &AutovacuumConfig, id: u64) -> Due {
    let db = catalog.database();
    let counted = db.table_statistics(id);
    match users_table(catalog, id) {
        Some(table) => {
            let age = db.next_xid().get().saturating_sub(table.stats.relfrozenxid);
            config.due(&counted, &table.stats, age, &table.parameters)
        }
        None => {
            // A table of the catalog: of what it has, only the counts are known.
            let known = RelationStats {
                reltuples: counted.n_live_tup as f32,
                ..RelationStats::default()
            };
            config.due(&counted, &known, 0, &StorageParameters::default())
        }
    }
}

/// A worker's life: it does what is in the queue.
fn work(shared: &Shared, queue: &Queue) {
    let _who = BackendType::AutovacuumWorker.enter();
    let Some(databases) = shared.databases.upgrade() else {
        return;
    };
    let pid = shared.next_pid.fetch_add(1, Ordering::Relaxed);
    loop {
        let next = queue.lock().pop_front();
        let Some((catalog, id)) = next else { break };
        let cancel = CancelFlag::new();
        let gives_way = !due_for(&catalog, &shared.config(), id).freeze;
        {
            let mut state = shared.state.lock();
            if state.stopping {
                return;
            }
            if state.active.contains_key(&id) {
                continue;
            }
            let cancel = cancel.clone();
            state.active.insert(id, Task { cancel, gives_way });
        }
        shared.wake.notify_all();
        let done = maintain(shared, (&databases, &catalog), id, pid, &cancel);
        shared.state.lock().active.remove(&id);
        if let Err(error) = done {
            tell_failure(&catalog, id, &error);
        }
    }
    if let Err(error) = truncate_status(&databases, &CancelFlag::new()) {
        tracing::warn!("transaction status was not truncated: {}", error.message);
    }
}

fn tell_failure(catalog: &Catalog, id: u64, error: &SqlError) {
    let table = users_table(catalog, id);
    let name = table.as_ref().map_or("a catalog", |table| &table.name);
    if error.sqlstate == SqlState::QUERY_CANCELED {
        tracing::info!("canceling autovacuum task: table \"{name}\"");
    } else {
        tracing::warn!("automatic vacuum of table \"{name}\": {}", error.message);
    }
}

/// Does what is still due for a table.
fn maintain(
    shared: &Shared,
    (databases, catalog): (&Databases, &Catalog),
    id: u64,
    pid: i32,
    cancel: &CancelFlag,
) -> SqlResult<()> {
    let config = &*shared.config();
    let due = due_for(catalog, config, id);
    let request = Request {
        automatic: true,
        // A table that somebody has locked is left for the next round, unless ids get old.
        skip_locked: !due.freeze,
        pid,
        cancel: cancel.clone(),
        lock_timeout: None,
    };
    let Some(table) = users_table(catalog, id) else {
        return if due.vacuum {
            vacuum_catalog(shared, (databases, catalog), id, &request)
        } else {
            Ok(())
        };
    };
    let own = config.cost_for(&table.parameters);
    let cost = own.map_or_else(
        || Arc::clone(&shared.cost),
        |limits| Arc::new(CostBalance::new(limits)),
    );
    let declared = |name: &str, default: u64| {
        let value = table.parameters.int(name);
        value.map_or(default, i64::cast_unsigned)
    };
    if due.vacuum {
        let wanted = VacuumRequest {
            options: VacuumOptions {
                freeze_min_age: declared("autovacuum_freeze_min_age", config.freeze_min_age),
                aggressive: due.freeze,
                index_cleanup: IndexCleanup::Auto,
                memory: config.memory,
                cost: Some(Arc::clone(&cost)),
                ..VacuumOptions::default()
            },
            freeze_table_age: declared("autovacuum_freeze_table_age", config.freeze_table_age),
            truncate: table.parameters.flag("vacuum_truncate").unwrap_or(true),
            request: request.clone(),
        };
        if let Some(report) = vacuum(catalog, table.oid, &wanted)? {
            let what = "automatic vacuum of table";
            let database = databases.name_of(catalog.database_oid());
            let text = super::report::vacuumed(&database, what, &report);
            tracing::debug!("{text}");
        }
    }
    if due.analyze {
        let wanted = AnalyzeRequest {
            target: config.statistics_target,
            columns: Vec::new(),
            buffer_usage_limit: None,
            cost: Some(cost),
            memory: None,
            request,
        };
        if let Some(report) = analyze(catalog, table.oid, &wanted)? {
            let text = super::report::analyzed(&report);
            tracing::debug!("automatic analyze of table {text}");
        }
    }
    Ok(())
}

/// Vacuums one of the tables that hold the catalog.
fn vacuum_catalog(
    shared: &Shared,
    (databases, catalog): (&Databases, &Catalog),
    id: u64,
    request: &Request,
) -> SqlResult<()> {
    let mut tables = catalog.system_tables();
    let Some((_, table)) = tables.find(|(_, table)| table.def().id == id) else {
        return Ok(());
    };
    let started = Instant::now();
    let db = catalog.database();
    let txn = db.begin(Isolation::ReadCommitted)?;
    let mode = TableLockMode::ShareUpdateExclusive;
    if !block_on(txn.lock_table(id, mode, WaitPolicy::SkipLocked))? {
        return Ok(());
    }
    if !databases.is_there(catalog.database_oid()) {
        return Ok(());
    }
    let options = VacuumOptions {
        pid: request.pid,
        cost: Some(Arc::clone(&shared.cost)),
        cancel: Some(request.cancel.clone()),
        ..VacuumOptions::default()
    };
    let stats = table.vacuum(&options, &mut |_| {})?;
    db.table_counters(id)
        .vacuumed(&evenkeel_engine::stats::Maintained {
            live: None,
            dead: stats.tuples_recently_dead,
            automatic: true,
            at: super::now_micros(),
            took: started.elapsed(),
        });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(
        counted: &TableStatistics,
        known: &RelationStats,
        age: u64,
        set: &[(&str, &str)],
    ) -> Due {
        let mut declared = StorageParameters::default();
        set.iter()
            .for_each(|(name, value)| declared.set(name, value).unwrap());
        AutovacuumConfig::default().due(counted, known, age, &declared)
    }

    #[test]
    fn thresholds_are_postgresqls() {
        let known = RelationStats {
            relpages: 100,
            reltuples: 10_000.0,
            ..RelationStats::default()
        };
        let dead = |n| TableStatistics {
            n_dead_tup: n,
            ..TableStatistics::default()
        };
        assert!(!due(&dead(2_050), &known, 0, &[]).vacuum);
        assert!(due(&dead(2_051), &known, 0, &[]).vacuum);
        let own = [
            ("autovacuum_vacuum_threshold", "10"),
            ("autovacuum_vacuum_scale_factor", "0"),
        ];
        assert!(!due(&dead(10), &known, 0, &own).vacuum);
        assert!(due(&dead(11), &known, 0, &own).vacuum);
        let large = RelationStats {
            reltuples: 2e9,
            ..known.clone()
        };
        assert!(due(&dead(100_000_001), &large, 0, &[]).vacuum);
        assert!(
            !due(
                &dead(100_000_001),
                &large,
                0,
                &[("autovacuum_vacuum_max_threshold", "-1")]
            )
            .vacuum
        );
        let off = [("autovacuum_enabled", "false")];
        assert_eq!(due(&dead(1 << 40), &known, 0, &off), Due::default());
        // Old ids are frozen all the same.
        assert!(due(&dead(0), &known, 200_000_001, &off).freeze);
        let early = [("autovacuum_freeze_max_age", "100000")];
        assert!(due(&dead(0), &known, 100_001, &early).vacuum);
    }

    #[test]
    fn inserts_count_against_what_is_not_frozen() {
        let inserted = TableStatistics {
            n_ins_since_vacuum: 2_001,
            n_mod_since_analyze: 1_051,
            ..TableStatistics::default()
        };
        let mut known = RelationStats {
            relpages: 100,
            relallfrozen: 50,
            reltuples: 10_000.0,
            ..RelationStats::default()
        };
        let found = due(&inserted, &known, 0, &[]);
        assert!(found.vacuum && found.analyze);
        known.relallfrozen = 0;
        assert!(!due(&inserted, &known, 0, &[]).vacuum);
        let never = [("autovacuum_vacuum_insert_threshold", "-1")];
        known.relallfrozen = 100;
        assert!(!due(&inserted, &known, 0, &never).vacuum);
    }
}
