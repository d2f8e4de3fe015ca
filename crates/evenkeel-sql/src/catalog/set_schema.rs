//! ALTER … SET SCHEMA.

use std::sync::Arc;

use evenkeel_engine::{TableLockMode, Transaction};

use super::parts::TableParts;
use super::system::{index_class_row, table_row};
use super::{Catalog, DdlLog, IndexInfo, Oid};
use crate::error::{SqlError, SqlResult, SqlState};

impl Catalog {
    /// Moves a table with its indexes, constraints and own sequences into another schema.
    ///
    /// # Errors
    /// 3F000, 42501; 42P07 if a name is taken there; 42P01 if the table has gone meanwhile; the
    /// engine's.
    pub async fn move_table(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        table: Oid,
        to: &str,
    ) -> SqlResult<()> {
        let mode = TableLockMode::AccessExclusive;
        let table = self.lock_table(txn, ddl, table, mode).await?;
        let schema = self.schema_for_create(ddl, to)?;
        if schema == table.schema_oid {
            return Ok(());
        }
        let mut parts = TableParts::of(&table);
        self.claim_name_there(txn, ddl, (schema, to), &parts.name)
            .await?;
        parts.schema = to.into();
        parts.schema_oid = schema;
        self.tables.class.delete(txn, parts.place).await?;
        parts.place = self.tables.class.insert(txn, &table_row(&parts)).await?;
        for index in &mut parts.indexes {
            self.claim_name_there(txn, ddl, (schema, to), &index.name)
                .await?;
            let mut moved = IndexInfo::clone(index);
            self.tables.class.delete(txn, moved.places[0]).await?;
            let row = index_class_row(moved.oid, &moved.name, schema, moved.file);
            moved.places[0] = self.tables.class.insert(txn, &row).await?;
            *index = Arc::new(moved);
        }
        let table = self.finish(txn, ddl, parts)?;
        let view = self.view(ddl);
        let own = view.sequences_of(table.oid).map(|sequence| sequence.oid);
        let own: Vec<Oid> = own.collect();
        for sequence in own {
            self.move_sequence(txn, ddl, sequence, to).await?;
        }
        Ok(())
    }

    /// Moves a sequence into another schema.
    ///
    /// # Errors
    /// 3F000, 42501; 42P07 if its name is taken there; 42P01 if it has gone meanwhile; the
    /// engine's.
    pub async fn move_sequence(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        sequence: Oid,
        to: &str,
    ) -> SqlResult<()> {
        let old = self.locked_sequence(txn, ddl, sequence).await?;
        let schema = self.schema_for_create(ddl, to)?;
        if schema == old.schema_oid {
            return Ok(());
        }
        self.claim_name_there(txn, ddl, (schema, to), &old.name)
            .await?;
        self.replace_sequence(txn, ddl, &old, |new| {
            new.schema = to.into();
            new.schema_oid = schema;
        })
        .await
    }

    /// Moves a view into another schema.
    ///
    /// # Errors
    /// As [`Catalog::move_sequence`].
    pub async fn move_view(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        view: Oid,
        to: &str,
    ) -> SqlResult<()> {
        let old = self.locked_view(txn, ddl, view).await?;
        let schema = self.schema_for_create(ddl, to)?;
        if schema == old.schema_oid {
            return Ok(());
        }
        self.claim_name_there(txn, ddl, (schema, to), &old.name)
            .await?;
        self.change_view(txn, ddl, view, |new| {
            new.schema = to.into();
            new.schema_oid = schema;
            Ok(())
        })
        .await
    }

    /// Reserves a relation's name in the schema that it goes into.
    async fn claim_name_there(
        &self,
        txn: &Transaction,
        ddl: &DdlLog,
        (schema, to): (Oid, &str),
        name: &str,
    ) -> SqlResult<()> {
        if self.claim_name(txn, ddl, schema, name, true).await? {
            return Ok(());
        }
        let message = format!("relation \"{name}\" already exists in schema \"{to}\"");
        Err(SqlError::new(SqlState::DUPLICATE_TABLE, message))
    }
}
