//! Prepared statements by name: SQL and the protocol share the names, as PostgreSQL's do.

use std::sync::Arc;

use super::Session;
use super::api::Prepared;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::named_statements::NamedStatement;

impl Session {
    /// The prepared statement of a name.
    pub fn named_statement(&self, name: &str) -> Option<&Arc<Prepared>> {
        self.named_statements.get(name)
    }

    /// Refuses a name that a prepared statement has.
    ///
    /// # Errors
    /// 42P05
    pub fn check_statement_name(&self, name: &str) -> SqlResult<()> {
        match self.named_statement(name) {
            None => Ok(()),
            Some(_) => Err(SqlError::new(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            )),
        }
    }

    /// Names a statement that the protocol has prepared.
    pub fn name_statement(&mut self, name: String, prepared: Arc<Prepared>) {
        let text = Arc::clone(&prepared.text);
        self.keep_statement(name, prepared, text, false);
    }

    pub(super) fn keep_statement(
        &mut self,
        name: String,
        prepared: Arc<Prepared>,
        statement: Arc<str>,
        from_sql: bool,
    ) {
        let columns = prepared.columns.as_ref();
        let results = columns.map(|all| all.iter().map(|column| column.type_oid).collect());
        let shown = NamedStatement {
            statement,
            since: self.statement_start,
            parameters: prepared.param_types.clone(),
            results,
            from_sql,
            runs: Arc::clone(&prepared.runs),
        };
        self.resources.named.put(name.clone(), shown);
        self.named_statements.insert(name, prepared);
    }

    /// Forgets a prepared statement, if there is one of that name.
    pub fn forget_statement(&mut self, name: &str) {
        if self.named_statements.remove(name).is_some() {
            self.resources.named.remove(name);
        }
    }

    pub(super) fn forget_statements(&mut self) {
        self.named_statements.clear();
        self.resources.named.clear();
    }

    /// As [`Session::named_statement`].
    ///
    /// # Errors
    /// 26000
    pub(super) fn sql_statement(&self, name: &str) -> SqlResult<Arc<Prepared>> {
        self.named_statement(name).cloned().ok_or_else(|| {
            SqlError::new(
                SqlState::INVALID_SQL_STATEMENT_NAME,
                format!("prepared statement \"{name}\" does not exist"),
            )
        })
    }
}
