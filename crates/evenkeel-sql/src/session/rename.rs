//! ALTER … RENAME.

use std::sync::Arc;

use evenkeel_engine::{TableLockMode, WaitPolicy};
use evenkeel_planner::ast::{DropKind, Name, QualifiedName, Rename, RenamedPart};

use super::Session;
use super::schemas::is_missing;
use crate::catalog::{NewText, Relation, TableInfo, TextOf, check_column_name};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parser::names::undefined_table;
use crate::planner::rows;

/// 42809: RENAME of a part that the relation does not have.
fn refused_part(name: &str, part: &RenamedPart, kind: &str) -> SqlError {
    let message = match part {
        RenamedPart::Column(_) => format!("cannot rename columns of relation \"{name}\""),
        _ => format!("\"{name}\" is not a table"),
    };
    let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, message);
    match part {
        RenamedPart::Column(_) => {
            error.detail(format!("This operation is not supported for {kind}."))
        }
        _ => error,
    }
}

impl Session {
    pub(super) async fn rename(&mut self, rename: &Rename) -> SqlResult<()> {
        let relation = match self.renamed_relation(&rename.name) {
            Ok(relation) => relation,
            Err(error) if rename.if_exists && is_missing(&error) => {
                let message = format!(
                    "relation \"{}\" does not exist, skipping",
                    rename.name.last()
                );
                self.notice("NOTICE", SqlState::SUCCESS, message);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let to = &rename.to.text;
        match (&relation, &rename.part) {
            (Relation::Table(_), RenamedPart::Column(column)) => {
                self.rename_column(&rename.name, column, to).await
            }
            (Relation::Table(table), RenamedPart::Constraint(name)) => {
                let (catalog, txn, ddl) = self.ddl_parts()?;
                let names = (name.text.as_str(), to.as_str());
                catalog
                    .rename_constraint(txn, ddl, table.oid, names)
                    .await?;
                Ok(())
            }
            (_, RenamedPart::Whole) => self.rename_relation(rename, &relation).await,
            (Relation::View(view), RenamedPart::Column(column)) => {
                self.rename_view_column(view, &column.text, to).await
            }
            (Relation::View(view), part) => Err(refused_part(&view.name, part, "views")),
            (Relation::Index(_, index), part) => Err(refused_part(&index.name, part, "indexes")),
            (Relation::Sequence(sequence), part) => {
                Err(refused_part(&sequence.name, part, "sequences"))
            }
        }
    }

    pub(super) fn renamed_relation(&self, name: &QualifiedName) -> SqlResult<Relation> {
        let (schema, last) = self.split_name(name)?;
        let path = &self.effective.search_path;
        match self.view().find(schema.as_deref(), &last, path) {
            Some(relation) => Ok(relation),
            // A catalog is refused, and anything else is not there.
            None => {
                self.find_table(name)?;
                Err(undefined_table(schema.as_deref(), &last))
            }
        }
    }

    async fn rename_relation(&mut self, rename: &Rename, relation: &Relation) -> SqlResult<()> {
        let to = &rename.to.text;
        if rename.kind == DropKind::Sequence && !matches!(relation, Relation::Sequence(_)) {
            let message = format!("\"{}\" is not a sequence", rename.name.last());
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        if rename.kind == DropKind::View && !matches!(relation, Relation::View(_)) {
            let message = format!("\"{}\" is not a view", rename.name.last());
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        if let Relation::Table(_) = relation {
            let mode = TableLockMode::AccessExclusive;
            let table = self
                .locked_table(&rename.name, mode, WaitPolicy::Block)
                .await?;
            let (catalog, txn, ddl) = self.ddl_parts()?;
            catalog.rename_table(txn, ddl, table.oid, to).await?;
            return Ok(());
        }
        let (catalog, txn, ddl) = self.ddl_parts()?;
        match relation {
            Relation::Index(table, index) => {
                let of = (table.oid, index.oid);
                catalog.rename_index(txn, ddl, of, to).await?;
            }
            Relation::Sequence(sequence) => {
                catalog.rename_sequence(txn, ddl, sequence.oid, to).await?;
            }
            Relation::View(view) => catalog.rename_view(txn, ddl, view.oid, to).await?,
            Relation::Table(_) => {}
        }
        Ok(())
    }

    async fn rename_column(
        &mut self,
        name: &QualifiedName,
        column: &Name,
        to: &str,
    ) -> SqlResult<()> {
        let mode = TableLockMode::AccessExclusive;
        let table = self.locked_table(name, mode, WaitPolicy::Block).await?;
        let Some(at) = table.column(&column.text) else {
            return Err(self.no_renamed_column(&column.text));
        };
        check_column_name(&table, to)?;
        let texts = self.renamed_texts(&table, at, to)?;
        let (catalog, txn, ddl) = self.ddl_parts()?;
        let of = (table.oid, at);
        catalog.rename_column(txn, ddl, of, to, texts).await?;
        Ok(())
    }

    fn no_renamed_column(&self, name: &str) -> SqlError {
        if crate::catalog::is_system_column(name) {
            let message = format!("cannot rename system column \"{name}\"");
            return SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
        }
        let message = format!("column \"{name}\" does not exist");
        SqlError::new(SqlState::UNDEFINED_COLUMN, message)
    }

    /// The expressions that mention a column, with its new name.
    fn renamed_texts(&self, table: &TableInfo, at: usize, to: &str) -> SqlResult<Vec<NewText>> {
        let cx = Arc::new(self.statement_cx(self.view()));
        let checks = table.checks.iter();
        let checks = checks.filter(|check| check.columns.contains(&at));
        let texts = checks.map(|check| {
            let text = rows::checks::renamed(&check.text, table, at, to, &cx)?;
            Ok((TextOf::Check(check.oid), text.text, text.pretty))
        });
        let generated = table.columns.iter().filter_map(|column| {
            let generated = column.generated.as_ref()?;
            let mentions = generated.columns.contains(&at);
            mentions.then_some((column.attnum, &generated.text))
        });
        let generated = generated.map(|(attnum, text)| {
            let (text, pretty) = rows::checks::renamed_generated(text, table, (at, to), &cx)?;
            Ok((TextOf::Generated(attnum), text, pretty))
        });
        texts.chain(generated).collect()
    }
}
