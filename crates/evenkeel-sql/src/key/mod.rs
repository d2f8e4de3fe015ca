//! The keys of one index, as the engine asks for them. Their bytes are those of
//! [`evenkeel_types::key`].

use std::sync::Arc;

use evenkeel_engine::table::{KeyExtractor, KeyKind};
pub use evenkeel_types::key::{KeyColumn, is_indexable, successor};
use evenkeel_types::row::RowLayout;

use crate::error::SqlResult;
use crate::types::Datum;

/// The keys of one index: takes them out of rows, and makes search keys from values.
#[derive(Debug, Clone)]
pub struct IndexKey {
    layout: Arc<RowLayout>,
    columns: Vec<KeyColumn>,
    nulls_not_distinct: bool,
}

impl IndexKey {
    /// Keys of `columns` of rows of `layout`.
    pub fn new(layout: Arc<RowLayout>, columns: Vec<KeyColumn>) -> IndexKey {
        IndexKey {
            layout,
            columns,
            nulls_not_distinct: false,
        }
    }

    /// Lets NULLs conflict with one another (`NULLS NOT DISTINCT`).
    #[must_use]
    pub fn nulls_not_distinct(mut self) -> IndexKey {
        self.nulls_not_distinct = true;
        self
    }

    /// The columns.
    pub fn columns(&self) -> &[KeyColumn] {
        &self.columns
    }

    /// Appends the key of values for the first columns, each of its column's type; returns
    /// whether one of them is NULL (which equals nothing).
    pub fn encode_prefix(&self, values: &[Datum], out: &mut Vec<u8>) -> SqlResult<bool> {
        let mut has_null = false;
        for (column, value) in self.columns.iter().zip(values) {
            has_null |= value.is_null();
            column.encode(value, out)?;
        }
        Ok(has_null)
    }

    /// Appends the key of a row; returns whether it has a NULL in it.
    pub fn encode_row(&self, row: &[u8], out: &mut Vec<u8>) -> SqlResult<bool> {
        let mut has_null = false;
        for column in &self.columns {
            let value = self.layout.get(row, column.column)?;
            has_null |= value.is_null();
            column.encode(&value, out)?;
        }
        Ok(has_null)
    }
}

impl KeyExtractor for IndexKey {
    fn same_key(&self, old: &[u8], new: &[u8]) -> bool {
        let stored = |row, column: &KeyColumn| self.layout.bytes(row, column.column);
        self.columns.iter().all(
            |column| matches!((stored(old, column), stored(new, column)), (Ok(a), Ok(b)) if a == b),
        )
    }

    fn key(&self, row: &[u8], out: &mut Vec<u8>) -> KeyKind {
        match self.encode_row(row, out) {
            Ok(true) if !self.nulls_not_distinct => KeyKind::HasNull,
            Ok(_) => KeyKind::Unique,
            // Only a damaged row has no key, for `RowLayout` makes none with a value that a key
            // cannot hold. It gets no index entry: whoever reads the row reports the damage, and
            // a check of the table reports the missing entry.
            Err(_) => {
                out.clear();
                KeyKind::Absent
            }
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
