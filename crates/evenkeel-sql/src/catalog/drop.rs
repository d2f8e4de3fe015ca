//! DROP TABLE, DROP INDEX, DROP EXTENSION.

use evenkeel_engine::{TableLockMode, Transaction};

use super::parts::TableParts;
use super::state::{CatalogChange, Relation};
use super::{Catalog, DdlLog, Oid};
use crate::error::{SqlError, SqlResult, SqlState};

impl Catalog {
    /// Drops a table with its indexes and constraints; their files go at commit.
    ///
    /// # Errors
    /// 42P01 if it has gone meanwhile; the engine's.
    pub async fn drop_table(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        table: Oid,
    ) -> SqlResult<()> {
        let table = self
            .lock_table(txn, ddl, table, TableLockMode::AccessExclusive)
            .await?;
        let mut parts = TableParts::of(&table);
        for constraint in std::mem::take(&mut parts.constraints) {
            self.tables.constraint.delete(txn, constraint.place).await?;
        }
        for check in std::mem::take(&mut parts.checks) {
            self.tables.check.delete(txn, check.place).await?;
        }
        for key in std::mem::take(&mut parts.foreign_keys) {
            self.tables.foreign_key.delete(txn, key.place).await?;
        }
        while let Some(index) = parts.indexes.last() {
            let oid = index.oid;
            self.remove_index(txn, &mut parts, oid).await?;
        }
        for at in 0..parts.columns.len() {
            self.remove_not_null(txn, &mut parts, at).await?;
            let place = parts.columns[at].place;
            self.tables.attribute.delete(txn, place).await?;
        }
        for column in &parts.dropped {
            self.tables.attribute.delete(txn, column.place).await?;
        }
        for column in parts.stats.columns.iter().flatten() {
            self.tables.statistic.delete(txn, column.place).await?;
        }
        self.tables.class.delete(txn, parts.place).await?;
        txn.drop_file(parts.heap)?;
        self.remove_large(txn, &mut parts).await?;
        let (db, id) = (self.db.clone(), parts.id);
        txn.on_commit(Box::new(move || db.forget_table_statistics(id)));
        self.forget(txn, ddl, CatalogChange::DropTable(table.oid))
    }

    /// Drops an index.
    ///
    /// # Errors
    /// 2BP01 for the index of a constraint; 42704 if it has gone meanwhile; the engine's.
    pub async fn drop_index(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        index: Oid,
    ) -> SqlResult<()> {
        let gone = || {
            let message = format!("index with OID {index} does not exist");
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        };
        let owner = match self.view(ddl).relation(index) {
            Some(Relation::Index(table, _)) => table.oid,
            _ => return Err(gone()),
        };
        let table = self
            .lock_table(txn, ddl, owner, TableLockMode::AccessExclusive)
            .await?;
        let found = table
            .indexes
            .iter()
            .find(|i| i.oid == index)
            .ok_or_else(gone)?;
        if let Some(constraint) = found.constraint {
            let name = table.constraints.iter().find(|c| c.oid == constraint);
            let name = name.map_or(&*found.name, |c| &*c.name);
            let message = format!(
                "cannot drop index {} because constraint {name} on table {} requires it",
                found.name, table.name
            );
            let hint = format!(
                "You can drop constraint {name} on table {} instead.",
                table.name
            );
            let error = SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message);
            return Err(error.hint(hint));
        }
        let mut parts = TableParts::of(&table);
        self.remove_index(txn, &mut parts, index).await?;
        self.finish(txn, ddl, parts)?;
        Ok(())
    }

    /// Removes an extension; false if there is none of that name.
    ///
    /// # Errors
    /// The engine's.
    pub async fn drop_extension(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        name: &str,
    ) -> SqlResult<bool> {
        let Some(extension) = self.view(ddl).extension(name).cloned() else {
            return Ok(false);
        };
        self.tables.extension.delete(txn, extension.place).await?;
        self.forget(txn, ddl, CatalogChange::DropExtension(extension.oid))?;
        Ok(true)
    }
}
