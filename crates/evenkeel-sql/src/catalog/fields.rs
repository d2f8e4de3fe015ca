//! The values of catalog rows.

use std::sync::Arc;

use evenkeel_engine::{FileId, Xid};

use super::Oid;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::{ArrayValue, Datum};

pub(crate) fn damaged(table: &str) -> SqlError {
    SqlError::new(
        SqlState::DATA_CORRUPTED,
        format!("a row of {table} makes no sense"),
    )
}

/// Takes the values of a catalog row one by one.
pub(crate) struct Fields {
    pub values: std::vec::IntoIter<Datum>,
    table: &'static str,
}

impl Fields {
    pub fn new(values: Vec<Datum>, table: &'static str) -> Fields {
        Fields {
            values: values.into_iter(),
            table,
        }
    }

    pub fn oid(&mut self) -> SqlResult<Oid> {
        match self.values.next() {
            Some(Datum::Oid(v)) => Ok(v),
            _ => Err(damaged(self.table)),
        }
    }

    pub fn text(&mut self) -> SqlResult<String> {
        match self.values.next() {
            Some(Datum::Text(v)) => Ok(v),
            _ => Err(damaged(self.table)),
        }
    }

    pub fn text_or_null(&mut self) -> SqlResult<Option<String>> {
        match self.values.next() {
            Some(Datum::Text(v)) => Ok(Some(v)),
            Some(Datum::Null) => Ok(None),
            _ => Err(damaged(self.table)),
        }
    }

    pub fn bool(&mut self) -> SqlResult<bool> {
        match self.values.next() {
            Some(Datum::Bool(v)) => Ok(v),
            _ => Err(damaged(self.table)),
        }
    }

    /// False in a row that was written before it had this column.
    pub fn bool_or_false(&mut self) -> SqlResult<bool> {
        match self.values.next() {
            Some(Datum::Bool(v)) => Ok(v),
            Some(Datum::Null) => Ok(false),
            _ => Err(damaged(self.table)),
        }
    }

    /// A count; `missing` in a row that was written before it had this column.
    pub fn count_or(&mut self, missing: usize) -> SqlResult<usize> {
        match self.values.next() {
            Some(Datum::Int4(v)) => usize::try_from(v).map_err(|_| damaged(self.table)),
            Some(Datum::Null) => Ok(missing),
            _ => Err(damaged(self.table)),
        }
    }

    pub fn bytes_or_null(&mut self) -> SqlResult<Option<Vec<u8>>> {
        match self.values.next() {
            Some(Datum::Bytea(v)) => Ok(Some(v)),
            Some(Datum::Null) => Ok(None),
            _ => Err(damaged(self.table)),
        }
    }

    pub fn int4(&mut self) -> SqlResult<i32> {
        match self.values.next() {
            Some(Datum::Int4(v)) => Ok(v),
            _ => Err(damaged(self.table)),
        }
    }

    pub fn int8(&mut self) -> SqlResult<i64> {
        match self.values.next() {
            Some(Datum::Int8(v)) => Ok(v),
            _ => Err(damaged(self.table)),
        }
    }

    pub fn float4(&mut self) -> SqlResult<f32> {
        match self.values.next() {
            Some(Datum::Float4(v)) => Ok(v),
            _ => Err(damaged(self.table)),
        }
    }

    pub fn file(&mut self) -> SqlResult<FileId> {
        match self.values.next() {
            Some(Datum::Int8(v)) => Ok(FileId(v.cast_unsigned())),
            _ => Err(damaged(self.table)),
        }
    }

    pub fn xid_or_null(&mut self) -> SqlResult<Option<Xid>> {
        match self.values.next() {
            Some(Datum::Int8(v)) => Ok(Some(Xid::new(v.cast_unsigned()))),
            Some(Datum::Null) => Ok(None),
            _ => Err(damaged(self.table)),
        }
    }

    /// Numbers of columns.
    pub fn numbers(&mut self) -> SqlResult<Vec<usize>> {
        let numbers = self.vector()?.into_iter();
        Ok(numbers.map(|number| number as usize).collect())
    }

    /// The elements of an array of texts.
    pub fn texts(&mut self) -> SqlResult<Vec<String>> {
        match self.values.as_slice() {
            [Datum::Null, ..] => Err(damaged(self.table)),
            _ => self.texts_or_none(),
        }
    }

    /// The same; none of an array that is NULL, as in a row that was written before it had this
    /// column.
    pub fn texts_or_none(&mut self) -> SqlResult<Vec<String>> {
        let array = match self.values.next() {
            Some(Datum::Array(array)) => array,
            Some(Datum::Null) => return Ok(Vec::new()),
            _ => return Err(damaged(self.table)),
        };
        let text = |element: &Datum| match element {
            Datum::Text(text) => Some(text.clone()),
            _ => None,
        };
        let texts: Option<Vec<String>> = array.elements().iter().map(text).collect();
        texts.ok_or_else(|| damaged(self.table))
    }

    /// The numbers of an `int2vector`.
    pub fn vector(&mut self) -> SqlResult<Vec<u32>> {
        let Some(Datum::Array(vector)) = self.values.next() else {
            return Err(damaged(self.table));
        };
        let number = |element: &Datum| match element {
            Datum::Int2(number) => u32::try_from(*number).ok(),
            _ => None,
        };
        let numbers: Option<Vec<u32>> = vector.elements().iter().map(number).collect();
        numbers.ok_or_else(|| damaged(self.table))
    }
}

pub(super) fn vector(numbers: impl Iterator<Item = usize>) -> Datum {
    let words: Vec<String> = numbers.map(|n| n.to_string()).collect();
    Datum::Text(words.join(" "))
}

/// An array of texts.
pub(super) fn texts<'a>(texts: impl Iterator<Item = &'a str>) -> Datum {
    let elements = texts.map(Datum::from).collect();
    Datum::Array(Arc::new(ArrayValue::of_elements(elements)))
}
