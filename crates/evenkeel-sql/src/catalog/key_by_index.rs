//! Constraints that an index which is there enforces.

use std::sync::Arc;

use evenkeel_engine::{TableLockMode, Transaction};

use super::alter::check_no_nulls;
use super::create::second_primary_key;
use super::parts::TableParts;
use super::system::{constraint_row, index_class_row, index_row};
use super::{
    Catalog, ConstraintInfo, ConstraintKind, DdlLog, IndexInfo, NOWHERE, NewNotNull, Oid, TableInfo,
};
use crate::error::{SqlError, SqlResult, SqlState};

/// A constraint by an index that is fit for it.
#[derive(Debug, Clone)]
pub struct KeyByIndex {
    /// Oid of the index.
    pub index: Oid,
    /// The constraint's name, and the index's from then on.
    pub name: String,
    /// Its kind.
    pub kind: ConstraintKind,
    /// `DEFERRABLE`
    pub deferrable: bool,
    /// `INITIALLY DEFERRED`
    pub deferred: bool,
}

impl Catalog {
    /// Makes an index that of a constraint.
    ///
    /// # Errors
    /// 42P16, 42P07; 23502 when a column of a primary key has NULLs; the engine's.
    pub async fn add_key_by_index(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        table: Oid,
        new: &KeyByIndex,
    ) -> SqlResult<Arc<TableInfo>> {
        let mode = TableLockMode::AccessExclusive;
        let table = self.lock_table(txn, ddl, table, mode).await?;
        let primary = new.kind == ConstraintKind::Primary;
        if primary && table.primary_key().is_some() {
            return Err(second_primary_key(&table.name));
        }
        let mut parts = TableParts::of(&table);
        let at = parts
            .indexes
            .iter()
            .position(|known| known.oid == new.index);
        let at = at.ok_or_else(|| {
            let message = format!("index \"{}\" does not exist", new.name);
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        })?;
        let old = Arc::clone(&parts.indexes[at]);
        let columns: Vec<usize> = old.columns.iter().filter_map(|key| key.column).collect();
        if primary {
            check_no_nulls(txn, &table, &columns)?;
            for &column in &columns {
                let not_null = NewNotNull::default();
                self.add_not_null(txn, ddl, &mut parts, column, &not_null)
                    .await?;
            }
        }
        if *old.name != *new.name {
            self.claim_name(txn, ddl, parts.schema_oid, &new.name, false)
                .await?;
        }
        let mut constraint = ConstraintInfo {
            oid: self.new_oid()?,
            name: new.name.as_str().into(),
            kind: new.kind,
            columns,
            index_oid: old.oid,
            deferrable: new.deferrable,
            deferred: new.deferred,
            place: NOWHERE,
        };
        let mut index = IndexInfo {
            name: Arc::clone(&constraint.name),
            primary,
            deferrable: new.deferrable,
            constraint: Some(constraint.oid),
            ..IndexInfo::clone(&old)
        };
        self.tables.class.delete(txn, old.places[0]).await?;
        self.tables.index.delete(txn, old.places[1]).await?;
        let row = index_class_row(index.oid, &index.name, parts.schema_oid, index.file);
        index.places[0] = self.tables.class.insert(txn, &row).await?;
        let row = index_row(&index, &parts.columns);
        index.places[1] = self.tables.index.insert(txn, &row).await?;
        let row = constraint_row(parts.oid, &constraint, &parts.columns);
        constraint.place = self.tables.constraint.insert(txn, &row).await?;
        parts.constraints.push(Arc::new(constraint));
        parts.indexes[at] = Arc::new(index);
        self.finish(txn, ddl, parts)
    }
}
