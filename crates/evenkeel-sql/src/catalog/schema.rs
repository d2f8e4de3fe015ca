//! Schemas: CREATE, ALTER … RENAME, DROP, and the lock under which a relation gets into one.

use std::sync::Arc;

use evenkeel_engine::{FileId, TableLockMode, Transaction, WaitPolicy};

use super::state::{CatalogChange, builtin};
use super::system::schema_row;
use super::{
    Catalog, CatalogState, DdlLog, INFORMATION_SCHEMA_OID, Oid, PG_CATALOG_OID, SchemaInfo,
    SequenceInfo, TableInfo, ViewInfo,
};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::search_path::is_temporary;

/// Names of schemas are claimed as if `pg_namespace` were their schema.
const NAMESPACE_CLASS: Oid = 2615;

/// The lock of a schema: in the space of table locks, beyond all oids and below the names.
fn schema_lock(database: Oid, oid: Oid) -> u64 {
    1 << 62 | u64::from(database) << 32 | u64::from(oid)
}

/// 3F000
fn undefined_schema(name: &str) -> SqlError {
    let message = format!("schema \"{name}\" does not exist");
    SqlError::new(SqlState::INVALID_SCHEMA_NAME, message)
}

/// 42939 for a name that only the system's schemas may have.
fn refuse_reserved(name: &str) -> SqlResult<()> {
    if !name.starts_with("pg_") {
        return Ok(());
    }
    let message = format!("unacceptable schema name \"{name}\"");
    let error = SqlError::new(SqlState::RESERVED_NAME, message);
    Err(error.detail("The prefix \"pg_\" is reserved for system schemas."))
}

fn schema_exists(name: &str) -> SqlError {
    let message = format!("schema \"{name}\" already exists");
    SqlError::new(SqlState::DUPLICATE_SCHEMA, message)
}

impl CatalogState {
    /// Whether there is any relation or type in a schema.
    pub fn has_content(&self, schema: Oid) -> bool {
        let mut tables = self.tables_in(schema);
        tables.next().is_some()
            || self.types_in(schema).next().is_some()
            || self.sequences_in(schema).next().is_some()
            || self.views_in(schema).next().is_some()
    }

    /// The tables of a schema, by oid.
    pub fn tables_in(&self, schema: Oid) -> impl Iterator<Item = &Arc<TableInfo>> {
        self.tables()
            .filter(move |table| table.schema_oid == schema)
    }

    /// The sequences of a schema, by oid.
    pub fn sequences_in(&self, schema: Oid) -> impl Iterator<Item = &Arc<SequenceInfo>> {
        self.sequences()
            .filter(move |sequence| sequence.schema_oid == schema)
    }

    /// The views of a schema, by oid.
    pub fn views_in(&self, schema: Oid) -> impl Iterator<Item = &Arc<ViewInfo>> {
        self.views().filter(move |view| view.schema_oid == schema)
    }
}

impl Catalog {
    /// The schema that a new object goes into.
    pub(super) fn schema_for_create(&self, ddl: &DdlLog, schema: &str) -> SqlResult<Oid> {
        let oid = self.view(ddl).schema_oid(schema);
        let oid = oid.ok_or_else(|| undefined_schema(schema))?;
        if oid == PG_CATALOG_OID || oid == INFORMATION_SCHEMA_OID {
            let message = format!("permission denied to create in schema \"{schema}\"");
            let error = SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message);
            return Err(error.detail("System catalog modifications are currently disallowed."));
        }
        Ok(oid)
    }

    /// Keeps a schema from being dropped until the transaction ends (CAT-14).
    pub(super) async fn keep_schema(
        &self,
        txn: &Transaction,
        ddl: &DdlLog,
        oid: Oid,
    ) -> SqlResult<()> {
        self.lock_schema(txn, ddl, oid, TableLockMode::AccessShare)
            .await
            .map(drop)
    }

    /// Locks a schema and answers its definition as of then; 3F000 if it is gone.
    pub async fn lock_schema(
        &self,
        txn: &Transaction,
        ddl: &DdlLog,
        oid: Oid,
        mode: TableLockMode,
    ) -> SqlResult<Arc<SchemaInfo>> {
        let lock = schema_lock(self.database_oid(), oid);
        txn.lock_table(lock, mode, WaitPolicy::Block).await?;
        let view = self.view(ddl);
        let schema = view.schema(oid).cloned();
        schema.ok_or_else(|| {
            let message = format!("schema with OID {oid} does not exist");
            SqlError::new(SqlState::INVALID_SCHEMA_NAME, message)
        })
    }

    async fn claim_schema_name(&self, txn: &Transaction, name: &str) -> SqlResult<()> {
        let lock = self.name_lock(NAMESPACE_CLASS, name);
        txn.lock_table(lock, TableLockMode::Exclusive, WaitPolicy::Block)
            .await?;
        Ok(())
    }

    /// Creates a schema; false if it is there and IF NOT EXISTS was said.
    ///
    /// # Errors
    /// 42939, 42P06, and the engine's.
    pub async fn create_schema(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        name: &str,
        if_not_exists: bool,
    ) -> SqlResult<bool> {
        refuse_reserved(name)?;
        self.claim_schema_name(txn, name).await?;
        if self.view(ddl).schema_oid(name).is_some() {
            return match if_not_exists {
                true => Ok(false),
                false => Err(schema_exists(name)),
            };
        }
        let oid = self.new_oid()?;
        self.put_schema(txn, ddl, oid, name).await?;
        Ok(true)
    }

    /// Creates a session's temporary schema. Its name is that session's alone.
    ///
    /// # Errors
    /// The engine's.
    pub async fn create_temporary_schema(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        name: &str,
    ) -> SqlResult<()> {
        let oid = self.new_oid()?;
        self.put_schema(txn, ddl, oid, name).await
    }

    /// The file of a new relation in a schema: gone with the process if that is a temporary one.
    pub(super) fn new_file(&self, txn: &mut Transaction, schema: &str) -> SqlResult<FileId> {
        Ok(match is_temporary(schema) {
            true => txn.create_temporary_file()?,
            false => txn.create_file()?,
        })
    }

    async fn put_schema(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        oid: Oid,
        name: &str,
    ) -> SqlResult<()> {
        let row = schema_row(oid, Some(name));
        let place = Some(self.tables.namespace.insert(txn, &row).await?);
        let name = name.into();
        let schema = Arc::new(SchemaInfo { oid, name, place });
        self.forget(txn, ddl, CatalogChange::PutSchema(schema))
    }

    /// Gives a schema another name.
    ///
    /// # Errors
    /// 3F000 if it is not there, 42939, 42P06, and the engine's.
    pub async fn rename_schema(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        name: &str,
        to: &str,
    ) -> SqlResult<()> {
        let oid = self.view(ddl).schema_oid(name);
        let oid = oid.ok_or_else(|| undefined_schema(name))?;
        let mode = TableLockMode::AccessExclusive;
        let old = self.lock_schema(txn, ddl, oid, mode).await?;
        self.claim_schema_name(txn, to).await?;
        if self.view(ddl).schema_oid(to).is_some() {
            return Err(schema_exists(to));
        }
        refuse_reserved(to)?;
        if oid == PG_CATALOG_OID || oid == INFORMATION_SCHEMA_OID {
            let message = format!("permission denied: \"{name}\" is a system schema");
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        if let Some(place) = old.place {
            self.tables.namespace.delete(txn, place).await?;
        }
        self.put_schema(txn, ddl, oid, to).await
    }

    /// Drops a schema, which the caller has locked exclusively and emptied.
    ///
    /// # Errors
    /// The engine's.
    pub async fn drop_schema(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        schema: &SchemaInfo,
    ) -> SqlResult<()> {
        if let Some(place) = schema.place {
            self.tables.namespace.delete(txn, place).await?;
        }
        if builtin().iter().any(|known| known.oid == schema.oid) {
            let row = schema_row(schema.oid, None);
            self.tables.namespace.insert(txn, &row).await?;
        }
        self.forget(txn, ddl, CatalogChange::DropSchema(schema.oid))
    }
}
