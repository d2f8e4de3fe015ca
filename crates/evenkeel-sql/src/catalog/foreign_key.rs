//! Foreign keys: making, changing, dropping them.

use std::sync::Arc;

use evenkeel_engine::{TableLockMode, Transaction};

use super::foreign_key_row::foreign_key_row;
use super::not_null::constraint_exists;
use super::parts::TableParts;
use super::{Catalog, DdlLog, ForeignKeyInfo, IndexInfo, Oid, TableInfo};
use crate::error::{SqlError, SqlResult};

/// A foreign key to be made, with all names resolved.
#[derive(Debug, Clone)]
pub struct NewForeignKey {
    /// Name, if it was given one.
    pub name: Option<String>,
    /// The rest; oid, name and place are yet to come.
    pub key: ForeignKeyInfo,
}

impl TableInfo {
    /// Positions of columns by their numbers; those that are not there are left out.
    pub fn positions(&self, attnums: &[i16]) -> Vec<usize> {
        let position = |attnum: &i16| self.columns.iter().position(|c| c.attnum == *attnum);
        attnums.iter().filter_map(position).collect()
    }

    /// The unique index whose columns are these, in any order; one that is deferrable only if there
    /// is no other.
    pub fn unique_index(&self, columns: &[usize]) -> Option<&Arc<IndexInfo>> {
        let fits = |index: &IndexInfo| {
            let same = index.columns.len() == columns.len();
            let mut parts = index.columns.iter();
            let on = |column: Option<usize>| column.is_some_and(|at| columns.contains(&at));
            let whole = index.unique && index.predicate.is_none();
            whole && same && parts.all(|part| on(part.column))
        };
        let mut indexes = self.indexes.iter().filter(|index| fits(index));
        let first = indexes.next()?;
        match first.deferrable {
            true => Some(indexes.find(|index| !index.deferrable).unwrap_or(first)),
            false => Some(first),
        }
    }
}

impl Catalog {
    /// Adds a foreign key to a table, whose rows the caller has yet to look at. Both tables are
    /// locked.
    ///
    /// # Errors
    /// 42710 for a name that is taken; the engine's.
    pub async fn add_foreign_key(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        table: Oid,
        new: NewForeignKey,
    ) -> SqlResult<Arc<ForeignKeyInfo>> {
        let mode = TableLockMode::ShareRowExclusive;
        let table = self.lock_table(txn, ddl, table, mode).await?;
        let mut parts = TableParts::of(&table);
        let name = self.foreign_key_name(ddl, &parts, &new)?;
        let mut key = ForeignKeyInfo {
            oid: self.new_oid()?,
            name: name.into(),
            ..new.key
        };
        let row = foreign_key_row(table.oid, &key);
        key.place = self.tables.foreign_key.insert(txn, &row).await?;
        let key = Arc::new(key);
        parts.foreign_keys.push(Arc::clone(&key));
        self.finish(txn, ddl, parts)?;
        Ok(key)
    }

    /// The name that was given, or PostgreSQL's: the table's, those of the columns, and `fkey`.
    fn foreign_key_name(
        &self,
        ddl: &DdlLog,
        parts: &TableParts,
        new: &NewForeignKey,
    ) -> SqlResult<String> {
        if let Some(name) = &new.name {
            return match parts.constraint_names().any(|other| **other == **name) {
                true => Err(constraint_exists(name, &parts.name)),
                false => Ok(name.clone()),
            };
        }
        let columns = new.key.columns.iter().filter_map(|attnum| {
            let mut columns = parts.columns.iter();
            Some(&*columns.find(|column| column.attnum == *attnum)?.name)
        });
        let columns = columns.collect::<Vec<&str>>().join("_");
        Ok(self.free_constraint_name(ddl, parts, &columns, "fkey"))
    }

    /// Puts another definition in the place of a foreign key's.
    ///
    /// # Errors
    /// The engine's.
    pub async fn change_foreign_key(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        table: Oid,
        mut changed: ForeignKeyInfo,
    ) -> SqlResult<()> {
        let mode = TableLockMode::ShareUpdateExclusive;
        let table = self.lock_table(txn, ddl, table, mode).await?;
        let mut parts = TableParts::of(&table);
        self.tables.foreign_key.delete(txn, changed.place).await?;
        let row = foreign_key_row(table.oid, &changed);
        changed.place = self.tables.foreign_key.insert(txn, &row).await?;
        let mut keys = parts.foreign_keys.iter_mut();
        match keys.find(|key| key.oid == changed.oid) {
            Some(key) => *key = Arc::new(changed),
            None => return Err(SqlError::internal("a foreign key is not in its table")),
        }
        self.finish(txn, ddl, parts)?;
        Ok(())
    }

    /// Gives the foreign key of this name another, if the table has it.
    pub(super) async fn rename_foreign_key(
        &self,
        txn: &mut Transaction,
        parts: &mut TableParts,
        (name, to): (&str, &str),
    ) -> SqlResult<bool> {
        let mut keys = parts.foreign_keys.iter();
        let Some(at) = keys.position(|key| &*key.name == name) else {
            return Ok(false);
        };
        if parts.constraint_names().any(|other| &**other == to) {
            return Err(constraint_exists(to, &parts.name));
        }
        let mut renamed = ForeignKeyInfo {
            name: to.into(),
            ..ForeignKeyInfo::clone(&parts.foreign_keys[at])
        };
        self.tables.foreign_key.delete(txn, renamed.place).await?;
        let row = foreign_key_row(parts.oid, &renamed);
        renamed.place = self.tables.foreign_key.insert(txn, &row).await?;
        parts.foreign_keys[at] = Arc::new(renamed);
        Ok(true)
    }

    /// Removes the foreign keys that a column is in.
    pub(super) async fn drop_foreign_keys_of(
        &self,
        txn: &mut Transaction,
        parts: &mut TableParts,
        attnum: i16,
    ) -> SqlResult<()> {
        let (over, others) = parts
            .foreign_keys
            .drain(..)
            .partition(|key| key.columns.contains(&attnum));
        parts.foreign_keys = others;
        for key in Vec::<Arc<ForeignKeyInfo>>::into_iter(over) {
            self.tables.foreign_key.delete(txn, key.place).await?;
        }
        Ok(())
    }

    /// Removes the foreign key of this name, if the table has it.
    pub(super) async fn drop_foreign_key(
        &self,
        txn: &mut Transaction,
        parts: &mut TableParts,
        name: &str,
    ) -> SqlResult<bool> {
        let mut keys = parts.foreign_keys.iter();
        let Some(at) = keys.position(|key| &*key.name == name) else {
            return Ok(false);
        };
        let key = parts.foreign_keys.remove(at);
        self.tables.foreign_key.delete(txn, key.place).await?;
        Ok(true)
    }
}
