//! Where tables keep values that are too large for a row: PostgreSQL's TOAST tables.

use std::sync::Arc;

use evenkeel_engine::table::Table;
use evenkeel_engine::{Transaction, block_on};
use evenkeel_types::row::{ROW_TARGET, Storage, fixed_width};

use super::parts::TableParts;
use super::{Catalog, ColumnInfo, LargeInfo, NOWHERE};
use crate::error::SqlResult;
use crate::types::SqlType;

/// Bytes of a character of a string at most.
const CHARACTER_BYTES: usize = 4;

/// Bytes that a column's value has at most, if there is a bound worth the name.
fn most_bytes(ty: SqlType) -> Option<usize> {
    match ty {
        SqlType::Char(Some(length)) | SqlType::Varchar(Some(length)) => {
            usize::try_from(length).ok()?.checked_mul(CHARACTER_BYTES)
        }
        // No more than a byte a digit.
        SqlType::Numeric(Some(_)) => Some(1000),
        _ if Storage::of(ty) == Storage::Plain => Some(fixed_width(ty).unwrap_or(64)),
        _ => None,
    }
}

/// Whether a row of these columns may be longer than rows should be (PostgreSQL's
/// `needs_toast_table`).
fn may_be_long(columns: &[ColumnInfo]) -> bool {
    let mut most = 0usize;
    let mut bounded = columns.iter().all(|column| match most_bytes(column.ty) {
        Some(bytes) => {
            most = most.saturating_add(bytes);
            true
        }
        None => false,
    });
    bounded &= most <= ROW_TARGET;
    let movable = |column: &ColumnInfo| Storage::of(column.ty) != Storage::Plain;
    !bounded && columns.iter().any(movable)
}

impl Catalog {
    /// A place for the large values of a table of this definition, if it may have such: new files,
    /// which no row of the catalog names yet.
    pub(super) fn new_large(
        &self,
        txn: &mut Transaction,
        parts: &TableParts,
    ) -> SqlResult<Option<LargeInfo>> {
        if !may_be_long(&parts.columns) {
            return Ok(None);
        }
        let (oid, index_oid) = (self.new_oid()?, self.new_oid()?);
        let (heap, tree) = Table::create_large(txn, parts.heap)?;
        let (db, id) = (self.db.clone(), self.table_id(oid));
        txn.on_abort(Box::new(move || db.forget_table_statistics(id)));
        Ok(Some(LargeInfo {
            oid,
            index_oid,
            heap,
            tree,
            place: NOWHERE,
        }))
    }

    /// Names a table's place of large values in the catalog.
    pub(super) fn put_large(
        &self,
        txn: &mut Transaction,
        parts: &mut TableParts,
        mut large: LargeInfo,
    ) -> SqlResult<()> {
        // Nothing is waited for: that table has no index.
        large.place = block_on(self.tables.large.insert(txn, &large.row(parts.oid)))?;
        parts.large = Some(Arc::new(large));
        Ok(())
    }

    /// Drops a table's place of large values; its files go at commit.
    pub(super) async fn remove_large(
        &self,
        txn: &mut Transaction,
        parts: &mut TableParts,
    ) -> SqlResult<()> {
        let Some(large) = parts.large.take() else {
            return Ok(());
        };
        self.tables.large.delete(txn, large.place).await?;
        txn.drop_file(large.heap)?;
        txn.drop_file(large.tree)?;
        let (db, id) = (self.db.clone(), self.table_id(large.oid));
        txn.on_commit(Box::new(move || db.forget_table_statistics(id)));
        Ok(())
    }
}
