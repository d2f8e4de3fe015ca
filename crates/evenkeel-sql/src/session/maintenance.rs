//! VACUUM, ANALYZE and CHECKPOINT.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::ObjectName;
use evenkeel_engine::vacuum::VacuumOptions;
use evenkeel_engine::{TableLockMode, WaitPolicy};

use super::{Session, StatementResult};
use crate::catalog::TableInfo;
use crate::error::{SqlError, SqlResult};
use crate::planner::utility::VacuumFlags;

impl Session {
    /// Runs VACUUM: each table in a transaction of its own, off the runtime's threads.
    pub(super) async fn vacuum(
        &mut self,
        flags: VacuumFlags,
        names: &[ObjectName],
    ) -> SqlResult<StatementResult> {
        self.refuse_in_block("VACUUM")?;
        if flags.full {
            return Err(SqlError::unsupported("VACUUM FULL"));
        }
        let tables = self.maintained(names).await?;
        self.commit().await?;
        for table in tables {
            self.ensure_transaction()?;
            let id = u64::from(table.oid);
            let mode = TableLockMode::ShareUpdateExclusive;
            self.tx
                .txn()?
                .lock_table(id, mode, WaitPolicy::Block)
                .await?;
            let Some(current) = self.view().table(table.oid).cloned() else {
                continue;
            };
            let freeze = flags.freeze;
            let cancel = self.cancel.clone();
            let work = tokio::task::spawn_blocking(move || {
                let cancel = Some(cancel);
                let options = VacuumOptions {
                    freeze,
                    cancel,
                    ..VacuumOptions::default()
                };
                current.table.vacuum(&options, &mut |_| {})
            });
            let stats = work
                .await
                .map_err(|e| SqlError::internal(e.to_string()))??;
            if flags.verbose {
                let message = format!("finished vacuuming \"{}\": {stats:?}", table.name);
                self.notice("INFO", crate::SqlState::SUCCESS, message);
            }
            self.commit().await?;
        }
        Ok(StatementResult::Command("VACUUM".into()))
    }

    /// The tables named, or all that there are.
    async fn maintained(&mut self, names: &[ObjectName]) -> SqlResult<Vec<Arc<TableInfo>>> {
        if names.is_empty() {
            return Ok(self.view().tables().cloned().collect());
        }
        let mut tables = Vec::with_capacity(names.len());
        for name in names {
            let mode = TableLockMode::AccessShare;
            tables.push(self.locked_table(name, mode, WaitPolicy::Block).await?);
        }
        Ok(tables)
    }

    /// ANALYZE: plans use no statistics, so there is nothing to gather; the names are checked.
    pub(super) async fn analyze(&mut self, names: &[ObjectName]) -> SqlResult<StatementResult> {
        self.maintained(names).await?;
        Ok(StatementResult::Command("ANALYZE".into()))
    }

    /// CHECKPOINT.
    pub(super) async fn checkpoint(&mut self) -> SqlResult<StatementResult> {
        let db = self.engine.database().clone();
        let work = tokio::task::spawn_blocking(move || db.checkpoint());
        work.await
            .map_err(|e| SqlError::internal(e.to_string()))??;
        Ok(StatementResult::Command("CHECKPOINT".into()))
    }
}
