//! VACUUM, ANALYZE and CHECKPOINT.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_engine::vacuum::{CostBalance, CostLimits, IndexCleanup, VacuumOptions};
use evenkeel_engine::{TableLockMode, WaitPolicy, block_on};
use evenkeel_planner::ast::{Maintain, Name, QualifiedName};
use evenkeel_settings::{Unit, parse_size};

use super::{Session, SqlEngine, StatementResult};
use crate::catalog::{Oid, TableInfo};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::maintenance::analyze::{AnalyzeReport, AnalyzeRequest, analyze, analyze_in};
use crate::maintenance::vacuum::{VacuumReport, VacuumRequest, truncate_status, vacuum};
use crate::maintenance::{Request, report};
use crate::parser::options::VacuumFlags;

/// Range of BUFFER_USAGE_LIMIT in bytes; 0 is also allowed.
const USAGE_LIMITS: std::ops::RangeInclusive<u64> = (128 << 10)..=(16 << 30);

impl Session {
    /// Runs VACUUM: each table in a transaction of its own, off the runtime's threads.
    pub(super) async fn vacuum(&mut self, maintain: &Maintain) -> SqlResult<StatementResult> {
        let flags = &VacuumFlags::of(&maintain.options, true, &self.current_text)?;
        let tables = &maintain.tables;
        self.refuse_in_block("VACUUM")?;
        if flags.full {
            return Err(SqlError::unsupported("VACUUM FULL"));
        }
        if !flags.analyze && tables.iter().any(|(_, columns)| !columns.is_empty()) {
            let message = "ANALYZE option must be specified when a column list is provided";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let wanted = self.vacuum_request(flags)?;
        let targets = if flags.no_tables {
            Vec::new()
        } else {
            self.maintained(tables, "vacuum").await?
        };
        self.commit().await?;
        for (table, columns) in targets {
            if flags.verbose {
                let database = &self.seat.info().name;
                let message = format!("vacuuming \"{database}.{}.{}\"", table.schema, table.name);
                self.notice("INFO", SqlState::SUCCESS, message);
            }
            let (oid, mut wanted) = (table.oid, wanted.clone());
            wanted.truncate = flags
                .truncate
                .or_else(|| table.parameters.flag("vacuum_truncate"))
                .unwrap_or_else(|| self.settings.flag("vacuum_truncate"));
            let catalog = Arc::clone(&self.catalog);
            let done = self.off_thread(move |_| vacuum(&catalog, oid, &wanted));
            let Some(done) = done.await? else {
                self.skipped(&table, "vacuum");
                continue;
            };
            self.tell_vacuumed(flags, &done);
            if flags.analyze {
                self.analyze_alone(flags, &table, columns).await?;
            }
        }
        let cancel = self.cancel.clone();
        self.off_thread(move |engine| truncate_status(engine.databases(), &cancel))
            .await?;
        Ok(StatementResult::Command("VACUUM".into()))
    }

    /// Runs `work` on a thread that may wait. The future keeps nothing of the session.
    pub(super) fn off_thread<T, F>(
        &self,
        work: F,
    ) -> impl Future<Output = SqlResult<T>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce(&SqlEngine) -> SqlResult<T> + Send + 'static,
    {
        let engine = Arc::clone(&self.engine);
        let work = tokio::task::spawn_blocking(move || work(&engine));
        async move { work.await.map_err(|e| SqlError::internal(e.to_string()))? }
    }

    fn tell_vacuumed(&mut self, flags: &VacuumFlags, done: &VacuumReport) {
        if flags.verbose {
            let text = report::vacuumed(&self.seat.info().name, "finished vacuuming", done);
            self.notice("INFO", SqlState::SUCCESS, text);
        }
    }

    fn tell_analyzed(&mut self, flags: &VacuumFlags, done: &AnalyzeReport) {
        if flags.verbose {
            let name = format!("\"{}.{}\"", done.table.schema, done.table.name);
            self.notice("INFO", SqlState::SUCCESS, format!("analyzing {name}"));
            self.notice("INFO", SqlState::SUCCESS, report::analyzed(done));
        }
    }

    fn skipped(&mut self, table: &TableInfo, what: &str) {
        let message = match self.view().table(table.oid) {
            Some(_) => "lock not available",
            None => "relation no longer exists",
        };
        let message = format!("skipping {what} of \"{}\" --- {message}", table.name);
        self.warn(SqlState::LOCK_NOT_AVAILABLE, message);
    }

    fn request(&self, flags: &VacuumFlags) -> Request {
        Request {
            automatic: false,
            skip_locked: flags.skip_locked,
            pid: self.backend_entry.backend().pid,
            cancel: self.cancel.clone(),
            lock_timeout: self.effective.lock_timeout,
        }
    }

    fn usage_limit(&self, flags: &VacuumFlags) -> SqlResult<Option<u64>> {
        let text = match &flags.buffer_usage_limit {
            Some(text) => text.clone(),
            None => return Ok(Some(self.settings.bytes("vacuum_buffer_usage_limit"))),
        };
        let bytes = parse_size(&text, Unit::Kilobytes);
        let bytes = bytes.filter(|bytes| *bytes == 0 || USAGE_LIMITS.contains(bytes));
        bytes.map(Some).ok_or_else(|| {
            let message = "BUFFER_USAGE_LIMIT option must be 0 or between 128 kB and 16777216 kB";
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        })
    }

    fn cost(&self) -> Option<Arc<CostBalance>> {
        let number = |name| u32::try_from(self.settings.number(name)).unwrap_or(0);
        let delay = self.settings.real("vacuum_cost_delay");
        (delay > 0.0).then(|| {
            Arc::new(CostBalance::new(CostLimits {
                delay: Duration::from_secs_f64(delay / 1e3),
                limit: number("vacuum_cost_limit"),
                page_hit: number("vacuum_cost_page_hit"),
                page_miss: number("vacuum_cost_page_miss"),
                page_dirty: number("vacuum_cost_page_dirty"),
            }))
        })
    }

    fn vacuum_request(&self, flags: &VacuumFlags) -> SqlResult<VacuumRequest> {
        let age = |name| u64::try_from(self.settings.number(name)).unwrap_or(0);
        let memory = self.settings.bytes("maintenance_work_mem");
        Ok(VacuumRequest {
            options: VacuumOptions {
                freeze: flags.freeze,
                freeze_min_age: age("vacuum_freeze_min_age"),
                every_page: flags.every_page,
                index_cleanup: match flags.index_cleanup {
                    None => IndexCleanup::Auto,
                    Some(true) => IndexCleanup::On,
                    Some(false) => IndexCleanup::Off,
                },
                memory: usize::try_from(memory).unwrap_or(usize::MAX),
                buffer_usage_limit: self.usage_limit(flags)?,
                cost: self.cost(),
                ..VacuumOptions::default()
            },
            freeze_table_age: age("vacuum_freeze_table_age"),
            truncate: true,
            request: self.request(flags),
        })
    }

    fn analyze_request(
        &self,
        flags: &VacuumFlags,
        columns: Vec<String>,
    ) -> SqlResult<AnalyzeRequest> {
        let target = self.settings.number("default_statistics_target");
        Ok(AnalyzeRequest {
            target: usize::try_from(target).unwrap_or(1),
            columns,
            buffer_usage_limit: self.usage_limit(flags)?,
            cost: self.cost(),
            memory: Some(Arc::clone(&self.resources.memory)),
            request: self.request(flags),
        })
    }

    /// The tables named with their columns, or all that there are.
    async fn maintained(
        &mut self,
        named: &[(QualifiedName, Vec<Name>)],
        verb: &str,
    ) -> SqlResult<Vec<(Arc<TableInfo>, Vec<String>)>> {
        if named.is_empty() {
            let view = self.view();
            let own = |table: &&Arc<TableInfo>| self.refuse_foreign(table, verb).is_ok();
            let all = view.tables().filter(own);
            return Ok(all.map(|table| (Arc::clone(table), Vec::new())).collect());
        }
        let mut tables = Vec::with_capacity(named.len());
        for (name, columns) in named {
            let columns: Vec<String> = columns.iter().map(|c| c.text.clone()).collect();
            if let Some(view) = self.named_view(name)? {
                let message = format!(
                    "skipping \"{}\" --- cannot {verb} non-tables or special system tables",
                    view.name
                );
                self.warn(SqlState("01000"), message);
                continue;
            }
            let table = self.find_table(name)?;
            if self.refuse_foreign(&table, verb).is_err() {
                // As PostgreSQL, which says nothing.
                continue;
            }
            if let Some(column) = columns.iter().find(|name| table.column(name).is_none()) {
                let message = format!(
                    "column \"{column}\" of relation \"{}\" does not exist",
                    table.name
                );
                return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
            }
            tables.push((table, columns));
        }
        Ok(tables)
    }

    /// ANALYZE: within the transaction, if there is a block; else each table by itself.
    pub(super) async fn analyze(&mut self, maintain: &Maintain) -> SqlResult<StatementResult> {
        let flags = &VacuumFlags::of(&maintain.options, false, &self.current_text)?;
        let targets = self.maintained(&maintain.tables, "analyze").await?;
        let alone = self.refuse_in_block("ANALYZE").is_ok();
        if alone {
            self.commit().await?;
        }
        for (table, columns) in targets {
            if alone {
                self.analyze_alone(flags, &table, columns).await?;
            } else {
                self.analyze_here(flags, &table, columns).await?;
            }
        }
        Ok(StatementResult::Command("ANALYZE".into()))
    }

    async fn analyze_alone(
        &mut self,
        flags: &VacuumFlags,
        table: &TableInfo,
        columns: Vec<String>,
    ) -> SqlResult<()> {
        let wanted = self.analyze_request(flags, columns)?;
        let oid: Oid = table.oid;
        let catalog = Arc::clone(&self.catalog);
        let done = self.off_thread(move |_| analyze(&catalog, oid, &wanted));
        match done.await? {
            Some(done) => self.tell_analyzed(flags, &done),
            None => self.skipped(table, "analyze"),
        }
        Ok(())
    }

    /// As a part of the transaction block.
    async fn analyze_here(
        &mut self,
        flags: &VacuumFlags,
        table: &TableInfo,
        columns: Vec<String>,
    ) -> SqlResult<()> {
        let wanted = self.analyze_request(flags, columns)?;
        let oid = table.oid;
        let policy = if flags.skip_locked {
            WaitPolicy::SkipLocked
        } else {
            WaitPolicy::Block
        };
        let mode = TableLockMode::ShareUpdateExclusive;
        let txn = self.tx.txn()?;
        if !txn
            .lock_table(self.catalog.table_id(oid), mode, policy)
            .await?
        {
            self.skipped(table, "analyze");
            return Ok(());
        }
        let done = self
            .off_runtime(move |catalog, txn, ddl| {
                let lock = catalog.lock_table(txn, ddl, oid, mode);
                let table = block_on(lock)?;
                analyze_in(catalog, txn, ddl, table, &wanted)
            })
            .await?;
        self.tell_analyzed(flags, &done);
        Ok(())
    }

    /// CHECKPOINT.
    pub(super) async fn checkpoint(&mut self) -> SqlResult<StatementResult> {
        self.off_thread(|engine| Ok(engine.database().checkpoint()?))
            .await?;
        Ok(StatementResult::Command("CHECKPOINT".into()))
    }
}
