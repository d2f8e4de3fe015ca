//! REINDEX: trees made anew from the rows.

use std::sync::Arc;

use evenkeel_engine::table::Table;
use evenkeel_engine::{EngineError, TableLockMode, Transaction};

use super::parts::{TableParts, index_def};
use super::system::index_class_row;
use super::{Catalog, DdlLog, IndexInfo, Oid};
use crate::error::SqlResult;

impl Catalog {
    /// Fills new files with the trees of a table's indexes, or of one of them; the old files go at
    /// commit. The names of these indexes.
    ///
    /// # Errors
    /// 42P01 if the table has gone meanwhile; 23505 for rows with one key; the engine's.
    pub async fn reindex(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        table: Oid,
        only: Option<Oid>,
    ) -> SqlResult<Vec<Arc<str>>> {
        // Readers hold no lock of an index.
        let mode = TableLockMode::AccessExclusive;
        let table = self.lock_table(txn, ddl, table, mode).await?;
        let mut parts = TableParts::of(&table);
        let mut names = Vec::new();
        for at in 0..parts.indexes.len() {
            let index = Arc::clone(&parts.indexes[at]);
            if only.is_none_or(|oid| oid == index.oid) {
                names.push(Arc::clone(&index.name));
                let made = self.index_anew(txn, &parts, &index).await?;
                parts.indexes[at] = Arc::new(made);
            }
        }
        if !names.is_empty() {
            self.finish(txn, ddl, parts)?;
        }
        Ok(names)
    }

    /// The index with a tree of the table's rows in a file of its own.
    async fn index_anew(
        &self,
        txn: &mut Transaction,
        parts: &TableParts,
        index: &IndexInfo,
    ) -> SqlResult<IndexInfo> {
        let mut made = IndexInfo {
            file: txn.create_file_like(parts.heap)?,
            ..index.clone()
        };
        let table = Table::open(&self.db, parts.def(0))?;
        let built = match table.build_index(txn, &index_def(&made)) {
            Err(EngineError::DuplicateRows { index: name, row }) => {
                let error = EngineError::DuplicateRows {
                    index: name,
                    row: Arc::clone(&row),
                };
                return Err(index.duplicated(parts, &row, error.into())?);
            }
            built => built?,
        };
        made.usable_after = match built.broken_chains {
            true => Some(txn.xid()?),
            false => None,
        };
        if made.usable_after != index.usable_after {
            self.put_index(txn, parts, &mut made).await?;
        }
        self.tables.class.delete(txn, index.places[0]).await?;
        let row = index_class_row(index.oid, &index.name, parts.schema_oid, made.file);
        made.places[0] = self.tables.class.insert(txn, &row).await?;
        txn.drop_file(index.file)?;
        Ok(made)
    }
}
