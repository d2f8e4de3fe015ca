//! ALTER TABLE … SET SCHEMA, ALTER SEQUENCE … SET SCHEMA.

use evenkeel_engine::{TableLockMode, WaitPolicy};
use evenkeel_planner::ast::{DropKind, SetSchema};

use super::Session;
use super::schemas::is_missing;
use crate::catalog::{Relation, SequenceInfo};
use crate::error::{SqlError, SqlResult, SqlState};

impl Session {
    pub(super) async fn set_schema(&mut self, set: &SetSchema) -> SqlResult<()> {
        let relation = match self.renamed_relation(&set.name) {
            Ok(relation) => relation,
            Err(error) if set.if_exists && is_missing(&error) => {
                let name = set.name.last();
                let message = format!("relation \"{name}\" does not exist, skipping");
                self.notice("NOTICE", SqlState::SUCCESS, message);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let wrong = |message: String| SqlError::new(SqlState::WRONG_OBJECT_TYPE, message);
        if set.kind == DropKind::Sequence && !matches!(relation, Relation::Sequence(_)) {
            return Err(wrong(format!("\"{}\" is not a sequence", set.name.last())));
        }
        if set.kind == DropKind::View && !matches!(relation, Relation::View(_)) {
            return Err(wrong(format!("\"{}\" is not a view", set.name.last())));
        }
        let to = set.to.text.as_str();
        match relation {
            Relation::Table(_) => {
                let mode = TableLockMode::AccessExclusive;
                let table = self
                    .locked_table(&set.name, mode, WaitPolicy::Block)
                    .await?;
                self.refuse_move(&table.schema, to)?;
                let (catalog, txn, ddl) = self.ddl_parts()?;
                catalog.move_table(txn, ddl, table.oid, to).await
            }
            Relation::Index(_, index) => {
                let message = format!("cannot change schema of index \"{}\"", index.name);
                Err(wrong(message).hint("Change the schema of the table instead."))
            }
            Relation::View(view) => {
                self.refuse_move(&view.schema, to)?;
                let (catalog, txn, ddl) = self.ddl_parts()?;
                catalog.move_view(txn, ddl, view.oid, to).await
            }
            Relation::Sequence(sequence) => {
                self.refuse_owned(&sequence)?;
                self.refuse_move(&sequence.schema, to)?;
                let (catalog, txn, ddl) = self.ddl_parts()?;
                catalog.move_sequence(txn, ddl, sequence.oid, to).await
            }
        }
    }

    /// 0A000 for a sequence that goes where its table goes.
    fn refuse_owned(&self, sequence: &SequenceInfo) -> SqlResult<()> {
        let Some((table, _)) = sequence.owner else {
            return Ok(());
        };
        let view = self.view();
        let table = view.table(table).map_or("", |table| &table.name);
        let message = "cannot move an owned sequence into another schema";
        let detail = format!(
            "Sequence \"{}\" is linked to table \"{table}\".",
            sequence.name
        );
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).detail(detail))
    }
}
