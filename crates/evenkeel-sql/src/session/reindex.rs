//! REINDEX.

use std::sync::Arc;

use evenkeel_engine::{Durability, Isolation, block_on};
use evenkeel_planner::ast::{QualifiedName, Reindex, ReindexTarget};

use super::schemas::undefined_schema;
use super::{Session, StatementResult};
use crate::catalog::{DdlLog, Oid, Relation, TableInfo};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parser::options;

impl Session {
    /// Runs REINDEX: of a table or an index as a part of the transaction, of more with each table
    /// in a transaction of its own.
    pub(super) async fn reindex(&mut self, reindex: &Reindex) -> SqlResult<StatementResult> {
        let verbose = self.reindex_options(reindex)?;
        match &reindex.target {
            ReindexTarget::Index(name) => match self.reindexed(name)? {
                Relation::Index(table, index) => {
                    self.reindex_here(&table, Some(index.oid), verbose).await?;
                }
                other => return Err(wrong_object(&other, "an index")),
            },
            ReindexTarget::Table(name) => match self.reindexed(name)? {
                Relation::Table(table) => self.reindex_here(&table, None, verbose).await?,
                other => return Err(wrong_object(&other, "a table or materialized view")),
            },
            ReindexTarget::Schema(name) => {
                self.refuse_in_block("REINDEX SCHEMA")?;
                let oid = self.view().schema_oid(&name.text);
                let oid = oid.ok_or_else(|| undefined_schema(&name.text))?;
                self.reindex_each(&|table| table.schema_oid == oid, verbose)
                    .await?;
            }
            ReindexTarget::System => return Err(SqlError::unsupported("REINDEX SYSTEM")),
            ReindexTarget::Database(name) => {
                self.refuse_in_block("REINDEX DATABASE")?;
                if name
                    .as_ref()
                    .is_some_and(|name| name.text != *self.seat.info().name)
                {
                    let message = "can only reindex the currently open database";
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                self.reindex_each(&|_| true, verbose).await?;
            }
        }
        Ok(StatementResult::Command("REINDEX".into()))
    }

    /// Whether VERBOSE was said.
    fn reindex_options(&self, reindex: &Reindex) -> SqlResult<bool> {
        let (mut verbose, mut concurrently) = (false, reindex.concurrently);
        for option in &reindex.options {
            match option.name.as_str() {
                "verbose" => verbose = options::flag(option)?,
                "concurrently" => concurrently = options::flag(option)?,
                "tablespace" => {
                    if options::required(option)? != "pg_default" {
                        return Err(SqlError::unsupported("TABLESPACE"));
                    }
                }
                name => {
                    let message = format!("unrecognized REINDEX option \"{name}\"");
                    let error = SqlError::syntax(message);
                    return Err(options::placed(error, option, &self.current_text));
                }
            }
        }
        match concurrently {
            true => Err(SqlError::unsupported("REINDEX CONCURRENTLY")),
            false => Ok(verbose),
        }
    }

    fn reindexed(&self, name: &QualifiedName) -> SqlResult<Relation> {
        let (schema, name) = self.split_name(name)?;
        let path = &self.effective.search_path;
        let found = self.view().find(schema.as_deref(), &name, path);
        found.map_or_else(
            || {
                self.refuse_missing_schema(schema.as_deref())?;
                let message = match &schema {
                    Some(schema) => format!("relation \"{schema}.{name}\" does not exist"),
                    None => format!("relation \"{name}\" does not exist"),
                };
                Err(SqlError::new(SqlState::UNDEFINED_TABLE, message))
            },
            Ok,
        )
    }

    async fn reindex_here(
        &mut self,
        table: &TableInfo,
        only: Option<Oid>,
        verbose: bool,
    ) -> SqlResult<()> {
        self.refuse_foreign(table, "reindex")?;
        self.tx.used = true;
        self.tx.txn()?.begin_statement()?;
        let oid = table.oid;
        let done = self
            .off_runtime(move |catalog, txn, ddl| block_on(catalog.reindex(txn, ddl, oid, only)))
            .await?;
        if done.is_empty() {
            let message = format!("table \"{}\" has no indexes to reindex", table.name);
            self.notice("NOTICE", SqlState::SUCCESS, message);
        }
        self.tell_reindexed(&done, verbose);
        Ok(())
    }

    /// Each of the tables in a transaction of its own; one that has gone meanwhile is left out.
    async fn reindex_each(
        &mut self,
        wanted: &(dyn Fn(&TableInfo) -> bool + Sync),
        verbose: bool,
    ) -> SqlResult<()> {
        let view = self.view();
        let own = |table: &&Arc<TableInfo>| self.refuse_foreign(table, "reindex").is_ok();
        let tables = view.tables().filter(own).filter(|table| wanted(table));
        let tables: Vec<Arc<TableInfo>> = tables.cloned().collect();
        self.commit().await?;
        for table in tables {
            let oid = table.oid;
            let cancel = self.cancel.clone();
            let lock_timeout = self.effective.lock_timeout;
            let memory = self.effective.maintenance_work_mem;
            let limits = self.resources.work_limits(memory);
            let catalog = Arc::clone(&self.catalog);
            let done = self.off_thread(move |_| {
                let mut txn = catalog.database().begin(Isolation::ReadCommitted)?;
                txn.set_cancel_flag(cancel);
                txn.set_lock_timeout(lock_timeout);
                txn.set_work_limits(limits);
                txn.begin_statement()?;
                let ddl = DdlLog::default();
                let done = block_on(catalog.reindex(&mut txn, &ddl, oid, None))?;
                block_on(txn.commit(Durability::Sync))?;
                Ok(done)
            });
            let done = match done.await {
                Err(error) if error.sqlstate == SqlState::UNDEFINED_TABLE => continue,
                done => done?,
            };
            self.tell_reindexed(&done, verbose);
            if verbose && !done.is_empty() {
                let message = format!("table \"{}.{}\" was reindexed", table.schema, table.name);
                self.notice("INFO", SqlState::SUCCESS, message);
            }
        }
        Ok(())
    }

    fn tell_reindexed(&mut self, indexes: &[Arc<str>], verbose: bool) {
        for name in indexes.iter().filter(|_| verbose) {
            let message = format!("index \"{name}\" was reindexed");
            self.notice("INFO", SqlState::SUCCESS, message);
        }
    }
}

/// 42809
fn wrong_object(found: &Relation, wanted: &str) -> SqlError {
    let message = format!("\"{}\" is not {wanted}", found.name());
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
}
