//! ALTER TABLE … ADD and DROP CONSTRAINT, TRUNCATE.

use std::sync::Arc;

use evenkeel_engine::heap::rows::RowBatch;
use evenkeel_engine::{FileId, TableLockMode, Transaction};

use super::create::second_primary_key;
use super::parameters::StorageParameters;
use super::state::CatalogChange;
use super::system::{TableParts, attribute_row, index_class_row, index_def, index_row, table_row};
use super::{
    Catalog, ConstraintKind, DdlLog, IndexInfo, NewConstraint, Oid, RelationStats, TableInfo,
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
                let columns: Vec<usize> = plan.columns.iter().map(|key| key.column).collect();
                check_no_nulls(txn, &table, &columns)?;
                self.set_not_null(txn, &mut parts, &columns).await?;
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
        if self.drop_check(txn, &mut parts, name).await? {
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

    /// Makes a column NOT NULL.
    ///
    /// # Errors
    /// 23502 if it has NULLs; the engine's.
    pub async fn set_column_not_null(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        table: Oid,
        at: usize,
    ) -> SqlResult<()> {
        let mode = TableLockMode::AccessExclusive;
        let table = self.lock_table(txn, ddl, table, mode).await?;
        let mut parts = TableParts::of(&table);
        check_no_nulls(txn, &table, &[at])?;
        self.set_not_null(txn, &mut parts, &[at]).await?;
        self.finish(txn, ddl, parts)?;
        Ok(())
    }

    async fn set_not_null(
        &self,
        txn: &mut Transaction,
        parts: &mut TableParts,
        columns: &[usize],
    ) -> SqlResult<()> {
        for &column in columns {
            let column = &mut parts.columns[column];
            if !column.not_null {
                column.not_null = true;
                self.tables.attribute.delete(txn, column.place).await?;
                let row = attribute_row(parts.oid, column);
                column.place = self.tables.attribute.insert(txn, &row).await?;
            }
        }
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
        parts.heap = txn.create_file()?;
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
        let counters = self.db.table_counters(u64::from(parts.oid));
        txn.on_commit(Box::new(move || counters.emptied()));
        self.finish(txn, ddl, parts)
    }

    /// The index with a new, empty tree.
    async fn renew_index(
        &self,
        txn: &mut Transaction,
        parts: &TableParts,
        index: &IndexInfo,
    ) -> SqlResult<IndexInfo> {
        let mut renewed = IndexInfo {
            file: txn.create_file()?,
            usable_after: None,
            ..index.clone()
        };
        let before = evenkeel_engine::table::Table::open(&self.db, parts.def(0))?;
        // The heap is new and empty: nothing was left out.
        let _ = before.build_index(txn, &index_def(&renewed))?;
        if index.usable_after.is_some() {
            self.tables.index.delete(txn, index.places[1]).await?;
            let row = index_row(&renewed);
            renewed.places[1] = self.tables.index.insert(txn, &row).await?;
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

/// 23502 if a row has NULL in one of the columns.
fn check_no_nulls(txn: &mut Transaction, table: &TableInfo, columns: &[usize]) -> SqlResult<()> {
    if columns.iter().all(|&column| table.columns[column].not_null) {
        return Ok(());
    }
    // The wait for the lock may have let others change the table since the statement began.
    txn.begin_statement()?;
    let mut scan = table.table.scan(&txn.snapshot()?);
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
                    return Err(error.table(&*table.name).column(&**name));
                }
            }
        }
    }
    Ok(())
}
