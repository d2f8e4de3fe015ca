//! The keys of one index, as the engine asks for them. Their bytes are those of
//! [`evenkeel_types::key`].

use std::sync::Arc;

use evenkeel_engine::table::{KeyExtractor, KeyKind, LONGEST_KEY};
pub use evenkeel_types::key::{KeyColumn, is_indexable, successor};
use evenkeel_types::row::{External, RowLayout, Stored};

use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::Datum;

/// Bytes that stand for a key that is too long for an index.
const TOO_LONG: usize = u16::MAX as usize;

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
    ///
    /// # Errors
    /// 54000 for a row with a value that is kept outside of it: it is in no index.
    pub fn encode_row(&self, row: &[u8], out: &mut Vec<u8>) -> SqlResult<bool> {
        self.try_row(row, out)?.map_err(|external| {
            let message = format!("a value of {} bytes is too long for a key", external.raw);
            SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
        })
    }

    /// As [`IndexKey::encode_row`]; the value that is kept outside of the row, if there is one.
    fn try_row(&self, row: &[u8], out: &mut Vec<u8>) -> SqlResult<Result<bool, External>> {
        let mut has_null = false;
        for column in &self.columns {
            let value = match self.layout.read(row, column.column)? {
                Ok(value) => value,
                Err(external) => return Ok(Err(external)),
            };
            has_null |= value.is_null();
            column.encode(&value, out)?;
        }
        Ok(Ok(has_null))
    }
}

impl KeyExtractor for IndexKey {
    fn same_key(&self, old: &[u8], new: &[u8]) -> bool {
        let stored = |row, column: &KeyColumn| self.layout.stored(row, column.column);
        let mut compressed = false;
        let same = self.columns.iter().all(|column| {
            let (Ok(a), Ok(b)) = (stored(old, column), stored(new, column)) else {
                return false;
            };
            // The row around a value decides whether it is compressed.
            let other_form = a != b
                && [a, b]
                    .iter()
                    .any(|value| matches!(value, Some(Stored::Compressed { .. })));
            compressed |= other_form;
            a == b || other_form
        });
        let (mut a, mut b) = (Vec::new(), Vec::new());
        same && (!compressed || (self.key(old, &mut a) == self.key(new, &mut b) && a == b))
    }

    fn key(&self, row: &[u8], out: &mut Vec<u8>) -> KeyKind {
        match self.try_row(row, out) {
            Ok(Ok(true)) if !self.nulls_not_distinct => KeyKind::HasNull,
            Ok(Ok(_)) => KeyKind::Unique,
            // A key that no index takes: the engine refuses it, as it does any that long.
            Ok(Err(external)) => {
                out.resize(
                    LONGEST_KEY
                        .saturating_add(external.raw as usize)
                        .min(TOO_LONG),
                    0,
                );
                KeyKind::Unique
            }
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
