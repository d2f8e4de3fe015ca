//! CREATE TABLE AS and SELECT INTO.

use std::sync::Arc;

use evenkeel_planner::ast::{self, Define};
use evenkeel_planner::plan::OutputColumn;

use super::Session;
use super::cursors::Within;
use super::ddl::set_options;
use crate::catalog::{CreateTable, NewColumn, StorageParameters};
use crate::deep::Deep;
use crate::error::{SqlError, SqlResult, SqlState};

const COMMAND: &str = "CREATE TABLE AS";

impl Session {
    /// Runs CREATE TABLE AS; the command tag.
    pub(super) async fn create_table_as(
        &mut self,
        define: &Arc<Deep<Define>>,
    ) -> SqlResult<String> {
        let Define::CreateTableAs(create) = &***define else {
            return Err(SqlError::internal("a definition without a query"));
        };
        if let Some(clause) = create.unbuilt {
            return Err(SqlError::unsupported(clause));
        }
        let text = self.current_text.clone();
        let within = Within::Query(Arc::clone(define));
        let (query, _) = self.planned(&text, within, Some(COMMAND)).await?;
        let persistence = create.persistence;
        let (schema, name) = self.new_name(&create.name, persistence, "TABLE").await?;
        self.check_on_commit(&schema, create.on_commit)?;
        let (mut fillfactor, mut parameters) = (None, StorageParameters::default());
        set_options(&create.options, &mut fillfactor, &mut parameters)?;
        let new = CreateTable {
            schema: schema.clone(),
            name: name.clone(),
            columns: new_columns(&query.plan.columns, &create.columns)?,
            constraints: Vec::new(),
            checks: Vec::new(),
            fillfactor,
            parameters,
            if_not_exists: create.if_not_exists,
        };
        let (catalog, txn, ddl) = self.ddl_parts()?;
        let Some(made) = catalog.create_table(txn, ddl, &new).await? else {
            let message = format!("relation \"{name}\" already exists, skipping");
            self.notice("NOTICE", SqlState::DUPLICATE_TABLE, message);
            return Ok(COMMAND.to_owned());
        };
        self.note_on_commit(made.oid, create.on_commit);
        if !create.with_data {
            return Ok(COMMAND.to_owned());
        }
        let within = Within::Insert(Arc::clone(define), Arc::new((schema, name)));
        let (query, cx) = self.planned(&text, within, None).await?;
        let changed = self.change_rows(&query.plan, &[], cx, &[]).await?;
        Ok(format!("SELECT {}", changed.count))
    }
}

/// The columns of the table: those of the query, by the names that were given.
fn new_columns(columns: &[OutputColumn], names: &[ast::Name]) -> SqlResult<Vec<NewColumn>> {
    if names.len() > columns.len() {
        let message = "too many column names were specified";
        return Err(SqlError::syntax(message));
    }
    let columns = columns.iter().enumerate().map(|(at, column)| {
        let name = names.get(at).map(|name| name.text.clone());
        NewColumn::plain(
            name.unwrap_or_else(|| column.name.to_string()),
            column.declared,
        )
    });
    Ok(columns.collect())
}
