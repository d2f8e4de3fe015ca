//! CHECK constraints.

use std::sync::Arc;

use evenkeel_engine::{TableLockMode, Transaction};

use super::NOWHERE;
use super::names::free_name_among;
use super::system::{TableParts, check_row};
use super::{Catalog, CheckInfo, DdlLog, Oid, TableInfo};
use crate::error::{SqlError, SqlResult, SqlState};

/// A CHECK constraint to be made.
#[derive(Debug, Clone)]
pub struct NewCheck {
    /// Name, if it was given one.
    pub name: Option<String>,
    /// The condition, as SQL text with every cast.
    pub text: String,
    /// The same with the parentheses that are needed.
    pub pretty: String,
    /// Positions of the columns that it mentions, from 0.
    pub columns: Vec<usize>,
}

impl Catalog {
    /// Adds CHECK constraints to the parts of a table; the rows of the table are not looked at.
    pub(super) async fn add_checks(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        parts: &mut TableParts,
        checks: &[NewCheck],
    ) -> SqlResult<()> {
        for new in checks {
            let name = self.check_name(ddl, parts, new)?;
            let mut check = CheckInfo {
                oid: self.new_oid()?,
                name: name.into(),
                text: new.text.as_str().into(),
                pretty: new.pretty.as_str().into(),
                columns: new.columns.clone(),
                place: NOWHERE,
            };
            let row = check_row(parts.oid, &check);
            check.place = self.tables.check.insert(txn, &row).await?;
            parts.checks.push(Arc::new(check));
        }
        parts.checks.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(())
    }

    /// The name that was given, or PostgreSQL's: the table's, that of the column if the condition
    /// mentions only one, and `check`.
    fn check_name(&self, ddl: &DdlLog, parts: &TableParts, new: &NewCheck) -> SqlResult<String> {
        let taken = |name: &str| {
            let keys = parts.constraints.iter().map(|constraint| &constraint.name);
            let checks = parts.checks.iter().map(|check| &check.name);
            keys.chain(checks).any(|other| **other == *name)
        };
        if let Some(name) = &new.name {
            if taken(name) {
                // Within CREATE TABLE both are new.
                let new = self.view(ddl).table(parts.oid).is_none();
                let message = match new {
                    true => format!("check constraint \"{name}\" already exists"),
                    false => format!(
                        "constraint \"{name}\" for relation \"{}\" already exists",
                        parts.name
                    ),
                };
                return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
            }
            return Ok(name.clone());
        }
        let column = match new.columns.as_slice() {
            [column] => parts.columns.get(*column).map_or("", |column| &column.name),
            _ => "",
        };
        // PostgreSQL makes names that no constraint of the schema has.
        let state = self.view(ddl);
        let elsewhere = |name: &str| {
            let tables = state.tables().filter(|t| t.schema_oid == parts.schema_oid);
            tables.into_iter().any(|table| {
                let keys = table.constraints.iter().map(|constraint| &constraint.name);
                let mut names = keys.chain(table.checks.iter().map(|check| &check.name));
                names.any(|other| **other == *name)
            })
        };
        let used = |name: &str| taken(name) || elsewhere(name);
        Ok(free_name_among(used, &parts.name, column, "check"))
    }

    /// Adds a CHECK constraint to a table, whose rows the caller has yet to look at.
    ///
    /// # Errors
    /// 42710 for a name that is taken; the engine's.
    pub async fn add_check(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        table: Oid,
        new: &NewCheck,
    ) -> SqlResult<Arc<TableInfo>> {
        let table = self
            .lock_table(txn, ddl, table, TableLockMode::AccessExclusive)
            .await?;
        let mut parts = TableParts::of(&table);
        self.add_checks(txn, ddl, &mut parts, std::slice::from_ref(new))
            .await?;
        self.finish(txn, ddl, parts)
    }

    /// Removes the CHECK constraint of this name, if the table has it.
    pub(super) async fn drop_check(
        &self,
        txn: &mut Transaction,
        parts: &mut TableParts,
        name: &str,
    ) -> SqlResult<bool> {
        let Some(at) = parts.checks.iter().position(|check| &*check.name == name) else {
            return Ok(false);
        };
        let check = parts.checks.remove(at);
        self.tables.check.delete(txn, check.place).await?;
        Ok(true)
    }
}
