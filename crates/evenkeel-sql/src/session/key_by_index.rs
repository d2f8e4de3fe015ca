//! ALTER TABLE … ADD UNIQUE | PRIMARY KEY USING INDEX.

use evenkeel_engine::block_on;
use evenkeel_planner::ast::{Constraint, KeyConstraint};

use super::Session;
use super::ddl::refuse_attributes;
use crate::catalog::{ConstraintKind, IndexInfo, KeyByIndex, Relation, TableInfo};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::key::KeyColumn;

impl Session {
    /// Makes a constraint that an index of the table enforces, which gets the constraint's name.
    pub(super) async fn add_key_by_index(
        &mut self,
        table: &TableInfo,
        constraint: &Constraint,
        key: &KeyConstraint,
    ) -> SqlResult<()> {
        refuse_attributes(constraint, false)?;
        let wanted = key.index.as_ref().map_or("", |name| &name.text);
        let view = self.view();
        let Some(found) = view.find(Some(&table.schema), wanted, &[]) else {
            let message = format!("index \"{wanted}\" does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        };
        let Relation::Index(owner, index) = found else {
            let message = format!("\"{wanted}\" is not an index");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        };
        let prerequisite = |message: String| {
            let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
            Err(SqlError::new(state, message))
        };
        if index.constraint.is_some() {
            let rest = "is already associated with a constraint";
            return prerequisite(format!("index \"{wanted}\" {rest}"));
        }
        if owner.oid != table.oid {
            let rest = format!("does not belong to table \"{}\"", table.name);
            return prerequisite(format!("index \"{wanted}\" {rest}"));
        }
        check_index(&index)?;
        let kind = match key.primary {
            true => ConstraintKind::Primary,
            false => ConstraintKind::Unique,
        };
        if key.primary && index.nulls_not_distinct {
            let message = "primary keys cannot use NULLS NOT DISTINCT indexes";
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        let name = constraint.name.as_ref().map_or(wanted, |name| &name.text);
        if name != wanted {
            self.notice(
                "NOTICE",
                SqlState::SUCCESS,
                format!(
                    "ALTER TABLE / ADD CONSTRAINT USING INDEX will rename index \"{wanted}\" to \
                     \"{name}\""
                ),
            );
        }
        let (table, new) = (
            table.oid,
            KeyByIndex {
                index: index.oid,
                name: name.to_owned(),
                kind,
                deferrable: constraint.deferrable,
                deferred: constraint.deferred,
            },
        );
        self.off_runtime(move |catalog, txn, ddl| {
            block_on(catalog.add_key_by_index(txn, ddl, table, &new))
        })
        .await?;
        Ok(())
    }
}

/// 42809 for an index that says nothing of the columns that a constraint would.
fn check_index(index: &IndexInfo) -> SqlResult<()> {
    let name = &index.name;
    let plain = |(key, class): (&KeyColumn, &Option<_>)| {
        !key.descending && !key.nulls_first && class.is_none()
    };
    let mut columns = index.columns.iter().zip(&index.classes);
    let message = if !index.unique {
        format!("\"{name}\" is not a unique index")
    } else if !index.expressions.is_empty() {
        format!("index \"{name}\" contains expressions")
    } else if index.predicate.is_some() {
        format!("\"{name}\" is a partial index")
    } else if let Some(at) = columns.position(|column| !plain(column)) {
        let at = at + 1;
        format!("index \"{name}\" column number {at} does not have default sorting behavior")
    } else {
        return Ok(());
    };
    let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, message);
    Err(error.detail("Cannot create a primary key or unique constraint using such an index."))
}
