//! NOT NULL constraints, and the names of constraints of every kind.

use std::collections::HashSet;
use std::sync::Arc;

use evenkeel_engine::Transaction;

use super::names::free_name_among;
use super::parts::TableParts;
use super::system::not_null_row;
use super::{Catalog, DdlLog, NOWHERE, NotNull, TableInfo};
use crate::error::{SqlError, SqlResult, SqlState};

/// A NOT NULL constraint to be made.
#[derive(Debug, Clone, Default)]
pub struct NewNotNull {
    /// Name, if it was given one.
    pub name: Option<String>,
    /// NOT VALID
    pub not_valid: bool,
}

impl TableInfo {
    /// The names of its constraints.
    pub fn constraint_names(&self) -> impl Iterator<Item = &Arc<str>> {
        let keys = self.constraints.iter().map(|constraint| &constraint.name);
        let checks = self.checks.iter().map(|check| &check.name);
        let columns = self.columns.iter();
        let not_nulls = columns.filter_map(|column| Some(&column.not_null.as_ref()?.name));
        let foreign = self.foreign_keys.iter().map(|key| &key.name);
        keys.chain(checks).chain(not_nulls).chain(foreign)
    }
}

impl TableParts {
    /// The names of its constraints.
    pub fn constraint_names(&self) -> impl Iterator<Item = &Arc<str>> {
        let keys = self.constraints.iter().map(|constraint| &constraint.name);
        let checks = self.checks.iter().map(|check| &check.name);
        let columns = self.columns.iter();
        let not_nulls = columns.filter_map(|column| Some(&column.not_null.as_ref()?.name));
        let foreign = self.foreign_keys.iter().map(|key| &key.name);
        keys.chain(checks).chain(not_nulls).chain(foreign)
    }
}

/// 42710 for a constraint of a table.
pub(super) fn constraint_exists(name: &str, table: &str) -> SqlError {
    let message = format!("constraint \"{name}\" for relation \"{table}\" already exists");
    SqlError::new(SqlState::DUPLICATE_OBJECT, message)
}

impl Catalog {
    /// The first name of PostgreSQL's that no constraint of the schema has.
    pub(super) fn free_constraint_name(
        &self,
        ddl: &DdlLog,
        parts: &TableParts,
        column: &str,
        label: &str,
    ) -> String {
        let state = self.view(ddl);
        let tables = state.tables();
        let others = tables.filter(|t| t.schema_oid == parts.schema_oid && t.oid != parts.oid);
        let taken: HashSet<&str> = others
            .flat_map(|table| table.constraint_names())
            .chain(parts.constraint_names())
            .chain(state.domain_constraint_names(parts.schema_oid))
            .map(|name| &**name)
            .collect();
        free_name_among(|name| taken.contains(name), &parts.name, column, label)
    }

    /// Makes a column NOT NULL, if it is not yet; its rows are not looked at.
    ///
    /// # Errors
    /// 42710 for a name that is taken; the engine's.
    pub(super) async fn add_not_null(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        parts: &mut TableParts,
        at: usize,
        new: &NewNotNull,
    ) -> SqlResult<()> {
        if parts.columns[at].not_null.is_some() {
            return Ok(());
        }
        let name = match &new.name {
            Some(name) if parts.constraint_names().any(|other| **other == **name) => {
                return Err(constraint_exists(name, &parts.name));
            }
            Some(name) => name.clone(),
            None => {
                let column = Arc::clone(&parts.columns[at].name);
                self.free_constraint_name(ddl, parts, &column, "not_null")
            }
        };
        let mut constraint = NotNull {
            oid: self.new_oid()?,
            name: name.into(),
            validated: !new.not_valid,
            place: NOWHERE,
        };
        self.put_not_null(txn, parts, at, &mut constraint).await?;
        parts.columns[at].not_null = Some(constraint);
        Ok(())
    }

    async fn put_not_null(
        &self,
        txn: &mut Transaction,
        parts: &TableParts,
        at: usize,
        constraint: &mut NotNull,
    ) -> SqlResult<()> {
        let row = not_null_row(parts.oid, parts.columns[at].attnum, constraint);
        constraint.place = self.tables.constraint.insert(txn, &row).await?;
        Ok(())
    }

    /// Gives a NOT NULL constraint another name, or the mark of a valid one.
    pub(super) async fn change_not_null(
        &self,
        txn: &mut Transaction,
        parts: &mut TableParts,
        at: usize,
        change: impl FnOnce(&mut NotNull),
    ) -> SqlResult<()> {
        let Some(mut constraint) = parts.columns[at].not_null.clone() else {
            return Err(SqlError::internal("a NOT NULL constraint is not there"));
        };
        self.tables.constraint.delete(txn, constraint.place).await?;
        change(&mut constraint);
        self.put_not_null(txn, parts, at, &mut constraint).await?;
        parts.columns[at].not_null = Some(constraint);
        Ok(())
    }

    /// Lets a column have NULLs.
    pub(super) async fn remove_not_null(
        &self,
        txn: &mut Transaction,
        parts: &mut TableParts,
        at: usize,
    ) -> SqlResult<()> {
        if let Some(constraint) = parts.columns[at].not_null.take() {
            self.tables.constraint.delete(txn, constraint.place).await?;
        }
        Ok(())
    }
}
