//! ALTER TABLE … ADD and DROP CONSTRAINT, TRUNCATE.

use std::sync::Arc;

use evenkeel_engine::heap::rows::RowBatch;
use evenkeel_engine::{FileId, TableLockMode, Transaction};

use super::create::second_primary_key;
use super::parameters::StorageParameters;
use super::parts::{TableParts, index_def};
use super::state::CatalogChange;
use super::system::{index_class_row, table_row};
use super::{
    Catalog, ConstraintKind, DdlLog, IndexInfo, NewConstraint, NewNotNull, NotNull, Oid,
    RelationStats, TableInfo,
};
use crate::error::{SqlError, SqlResult, SqlState};

impl Catalog {
    /// Adds PRIMARY KEY or UNIQUE to a table.
    ///
    /// # Errors
    /// 42P16, 42P07, 42703; 23502 and 23505 when the rows do not keep to it; the engine's.
    pub async fn add_constraint(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        table: Oid,
        constraint: &NewConstraint,
    ) -> SqlResult<Arc<TableInfo>> {
        let table = self
            .lock_table(txn, ddl, table, TableLockMode::AccessExclusive)
            .await?;
        if constraint.kind == ConstraintKind::Primary && table.primary_key().is_some() {
            return Err(second_primary_key(&table.name));
        }
        let mut parts = TableParts::of(&table);
        let constraints = std::slice::from_ref(constraint);
        let plans = self.constraint_plans(txn, ddl, &parts, constraints).await?;
        for plan in plans {
            if constraint.kind == ConstraintKind::Primary {
                let columns: Vec<usize> =
                    plan.columns.iter().filter_map(|key| key.column).collect();
                check_no_nulls(txn, &table, &columns)?;
                for &at in &columns {
                    let new = NewNotNull::default();
                    self.add_not_null(txn, ddl, &mut parts, at, &new).await?;
                }
            }
            self.add_index(txn, &mut parts, plan).await?;
        }
        self.finish(txn, ddl, parts)
    }

    /// Removes a constraint and its index. Columns of a primary key stay NOT NULL, as in
    /// PostgreSQL.
    ///
    /// # Errors
    /// 42704 if there is none of that name; the engine's.
    pub async fn drop_constraint(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        table: Oid,
        name: &str,
    ) -> SqlResult<Arc<TableInfo>> {
        let table = self
            .lock_table(txn, ddl, table, TableLockMode::AccessExclusive)
            .await?;
        let mut parts = TableParts::of(&table);
        if self.drop_check(txn, &mut parts, name).await?
            || self.drop_foreign_key(txn, &mut parts, name).await?
        {
            return self.finish(txn, ddl, parts);
        }
        let named = |constraint: &NotNull| &*constraint.name == name;
        let mut columns = table.columns.iter();
        let at = columns.position(|column| column.not_null.as_ref().is_some_and(named));
        if let Some(at) = at {
            refuse_nulls(&table, at)?;
            self.remove_not_null(txn, &mut parts, at).await?;
            return self.finish(txn, ddl, parts);
        }
        let constraint = table
            .constraints
            .iter()
            .find(|c| &*c.name == name)
            .ok_or_else(|| {
                SqlError::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!(
                        "constraint \"{name}\" of relation \"{}\" does not exist",
                        table.name
                    ),
                )
            })?;
        self.tables.constraint.delete(txn, constraint.place).await?;
        parts
            .constraints
            .retain(|other| other.oid != constraint.oid);
        self.remove_index(txn, &mut parts, constraint.index_oid)
            .await?;
        self.finish(txn, ddl, parts)
    }

    /// Changes the declared storage parameters.
    ///
    /// # Errors
    /// The engine's.
    pub async fn set_parameters(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        table: Oid,
        fillfactor: Option<u8>,
        parameters: StorageParameters,
    ) -> SqlResult<Arc<TableInfo>> {
        let table = self
            .lock_table(txn, ddl, table, TableLockMode::ShareUpdateExclusive)
            .await?;
        let mut parts = TableParts::of(&table);
        parts.parameters = Arc::new(parameters);
        parts.fillfactor = fillfactor;
        self.tables.class.delete(txn, parts.place).await?;
        parts.place = self.tables.class.insert(txn, &table_row(&parts)).await?;
        self.finish(txn, ddl, parts)
    }

    /// Makes a column NOT NULL. The caller has yet to look at its rows, or else it is NOT VALID.
    ///
    /// # Errors
    /// 42710; the engine's.
    pub async fn set_column_not_null(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        (table, at): (Oid, usize),
        new: &NewNotNull,
    ) -> SqlResult<()> {
        let mode = TableLockMode::AccessExclusive;
        let table = self.lock_table(txn, ddl, table, mode).await?;
        let mut parts = TableParts::of(&table);
        match &parts.columns[at].not_null {
            None => self.add_not_null(txn, ddl, &mut parts, at, new).await?,
            Some(_) => {
                let valid = |constraint: &mut NotNull| constraint.validated = true;
                self.change_not_null(txn, &mut parts, at, valid).await?;
            }
        }
        self.finish(txn, ddl, parts)?;
        Ok(())
    }

    /// Notes that all rows keep to a CHECK or NOT NULL constraint.
    ///
    /// # Errors
    /// 42P01 if the table has gone meanwhile; the engine's.
    pub async fn mark_validated(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        table: Oid,
        name: &str,
    ) -> SqlResult<()> {
        let mode = TableLockMode::AccessExclusive;
        let table = self.lock_table(txn, ddl, table, mode).await?;
        let mut parts = TableParts::of(&table);
        let mut checks = table.checks.iter().filter(|check| &*check.name == name);
        if let Some(check) = checks.next() {
            self.change_check(txn, &mut parts, check.oid, |check| check.validated = true)
                .await?;
        }
        let named = |constraint: &&NotNull| &*constraint.name == name;
        let columns = table.columns.iter();
        let at = columns.into_iter().position(|column| {
            let constraint = column.not_null.as_ref();
            constraint.filter(named).is_some()
        });
        if let Some(at) = at {
            let valid = |constraint: &mut NotNull| constraint.validated = true;
            self.change_not_null(txn, &mut parts, at, valid).await?;
        }
        self.finish(txn, ddl, parts)?;
        Ok(())
    }

    /// Lets a column have NULLs.
    ///
    /// # Errors
    /// 42P01 if the table has gone meanwhile; the engine's.
    pub async fn drop_not_null(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        table: Oid,
        at: usize,
    ) -> SqlResult<()> {
        let mode = TableLockMode::AccessExclusive;
        let table = self.lock_table(txn, ddl, table, mode).await?;
        let mut parts = TableParts::of(&table);
        self.remove_not_null(txn, &mut parts, at).await?;
        self.finish(txn, ddl, parts)?;
        Ok(())
    }

    /// Empties a table: new files take the place of the old ones, which go at commit.
    ///
    /// # Errors
    /// The engine's.
    pub async fn truncate(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        table: Oid,
    ) -> SqlResult<Arc<TableInfo>> {
        let table = self
            .lock_table(txn, ddl, table, TableLockMode::AccessExclusive)
            .await?;
        let mut parts = TableParts::of(&table);
        let old_files: Vec<FileId> = parts
            .indexes
            .iter()
            .map(|index| index.file)
            .chain([parts.heap])
            .collect();
        parts.heap = txn.create_file_like(parts.heap)?;
        self.tables.class.delete(txn, parts.place).await?;
        parts.stats = Arc::new(RelationStats {
            columns: parts.stats.columns.clone(),
            ..RelationStats::new(self.db.horizon().floor())
        });
        let row = table_row(&parts);
        parts.place = self.tables.class.insert(txn, &row).await?;
        let indexes = std::mem::take(&mut parts.indexes);
        for index in indexes {
            let index = self.renew_index(txn, &parts, &index).await?;
            parts.indexes.push(Arc::new(index));
        }
        for file in old_files {
            txn.drop_file(file)?;
        }
        // New ones are made with the new definition.
        self.remove_large(txn, &mut parts).await?;
        let counters = self.db.table_counters(parts.id);
        txn.on_commit(Box::new(move || counters.emptied()));
        self.finish(txn, ddl, parts)
    }

    /// The index with a new, empty tree.
    pub(super) async fn renew_index(
        &self,
        txn: &mut Transaction,
        parts: &TableParts,
        index: &IndexInfo,
    ) -> SqlResult<IndexInfo> {
        let mut renewed = IndexInfo {
            file: txn.create_file_like(parts.heap)?,
            usable_after: None,
            ..index.clone()
        };
        let before = evenkeel_engine::table::Table::open(&self.db, parts.def(0))?;
        // All rows of a new heap are this transaction's: no older snapshot sees any.
        let _ = before.build_index(txn, &index_def(&renewed))?;
        if index.usable_after.is_some() {
            self.put_index(txn, parts, &mut renewed).await?;
        }
        self.tables.class.delete(txn, index.places[0]).await?;
        let row = index_class_row(index.oid, &index.name, parts.schema_oid, renewed.file);
        renewed.places[0] = self.tables.class.insert(txn, &row).await?;
        Ok(renewed)
    }

    /// Deletes an index's rows and, at commit, its file.
    pub(super) async fn remove_index(
        &self,
        txn: &mut Transaction,
        parts: &mut TableParts,
        oid: Oid,
    ) -> SqlResult<()> {
        let Some(at) = parts.indexes.iter().position(|index| index.oid == oid) else {
            return Err(SqlError::internal("an index is not in its table"));
        };
        let index = parts.indexes.remove(at);
        self.tables.class.delete(txn, index.places[0]).await?;
        self.tables.index.delete(txn, index.places[1]).await?;
        txn.drop_file(index.file)?;
        Ok(())
    }

    /// Records that a table is gone.
    pub(super) fn forget(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        change: CatalogChange,
    ) -> SqlResult<()> {
        ddl.push(txn, &self.shared, change);
        txn.next_command()?;
        Ok(())
    }
}

/// Refuses to let a column have NULLs that is an identity or in a primary key.
///
/// # Errors
/// 42601, 42P16
pub fn refuse_nulls(table: &TableInfo, at: usize) -> SqlResult<()> {
    let column = &table.columns[at];
    if column.identity.is_some() {
        let message = format!(
            "column \"{}\" of relation \"{}\" is an identity column",
            column.name, table.name
        );
        return Err(SqlError::syntax(message));
    }
    let primary = table.primary_key();
    let in_key = primary.is_some_and(|key| key.columns.iter().any(|part| part.column == Some(at)));
    if in_key {
        let message = format!("column \"{}\" is in a primary key", column.name);
        return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
    }
    Ok(())
}

/// 23502 if a row has NULL in one of the columns.
pub(super) fn check_no_nulls(
    txn: &mut Transaction,
    table: &TableInfo,
    columns: &[usize],
) -> SqlResult<()> {
    let known = |&column: &usize| {
        let not_null = table.columns[column].not_null.as_ref();
        not_null.is_some_and(|constraint| constraint.validated)
    };
    if columns.iter().all(known) {
        return Ok(());
    }
    // The wait for the lock may have let others change the table since the statement began.
    let mut scan = table.table.scan(&txn.latest_snapshot()?);
    let mut batch = RowBatch::new();
    while scan.next_page(&mut batch)? {
        for (_, row) in batch.iter() {
            for &column in columns {
                if table.layout.is_null(row, column)? {
                    let name = &table.columns[column].name;
                    let message = format!(
                        "column \"{name}\" of relation \"{}\" contains null values",
                        table.name
                    );
                    let error = SqlError::new(SqlState::NOT_NULL_VIOLATION, message);
                    return Err(error.table(&*table.schema, &*table.name).column(&**name));
                }
            }
        }
    }
    Ok(())
}
