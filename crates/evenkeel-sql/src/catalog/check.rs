//! CHECK constraints.

use std::sync::Arc;

use evenkeel_engine::{TableLockMode, Transaction};

use super::NOWHERE;
use super::not_null::constraint_exists;
use super::parts::TableParts;
use super::system::check_row;
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
    /// NOT VALID
    pub not_valid: bool,
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
                validated: !new.not_valid,
                place: NOWHERE,
            };
            let row = check_row(parts.oid, &check, &parts.columns);
            check.place = self.tables.check.insert(txn, &row).await?;
            parts.checks.push(Arc::new(check));
        }
        parts.checks.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(())
    }

    /// The name that was given, or PostgreSQL's: the table's, that of the column if the condition
    /// mentions only one, and `check`.
    fn check_name(&self, ddl: &DdlLog, parts: &TableParts, new: &NewCheck) -> SqlResult<String> {
        if let Some(name) = &new.name {
            if parts.constraint_names().any(|other| **other == **name) {
                // Within CREATE TABLE both are new.
                let new = self.view(ddl).table(parts.oid).is_none();
                return Err(match new {
                    true => {
                        let message = format!("check constraint \"{name}\" already exists");
                        SqlError::new(SqlState::DUPLICATE_OBJECT, message)
                    }
                    false => constraint_exists(name, &parts.name),
                });
            }
            return Ok(name.clone());
        }
        let column = match new.columns.as_slice() {
            [column] => parts.columns.get(*column).map_or("", |column| &column.name),
            _ => "",
        };
        Ok(self.free_constraint_name(ddl, parts, column, "check"))
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
