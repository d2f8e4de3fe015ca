//! Rows by column name, to record batches.

use datafusion::arrow::array::RecordBatch;

use super::relations::RelationDef;
use crate::arrow::ColumnBuilder;
use crate::error::{SqlError, SqlResult};
use crate::types::{Datum, SqlType};

/// A value under its column's name.
pub type Cell = (&'static str, Datum);

/// Text.
pub fn text(value: impl Into<String>) -> Datum {
    Datum::Text(value.into())
}

/// Text, or NULL.
pub fn maybe_text(value: Option<impl Into<String>>) -> Datum {
    value.map_or(Datum::Null, text)
}

/// A number, of whichever width the column has.
pub fn number(value: impl TryInto<i64>) -> Datum {
    Datum::Int8(value.try_into().unwrap_or(i64::MAX))
}

/// An oid.
pub fn oid(value: u32) -> Datum {
    Datum::Oid(value)
}

/// A flag.
pub fn flag(value: bool) -> Datum {
    Datum::Bool(value)
}

/// Rows of one relation. A column that a row does not name has the value that PostgreSQL gives
/// an absent thing: NULL, or zero, false and the empty string where it is NOT NULL (rule 2).
pub struct Rows {
    def: &'static RelationDef,
    columns: Vec<ColumnBuilder>,
}

impl Rows {
    /// No rows.
    pub fn new(def: &'static RelationDef) -> Rows {
        let columns = def
            .columns
            .iter()
            .map(|c| ColumnBuilder::new(c.ty, 0))
            .collect();
        Rows { def, columns }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// XX000 for a name that no column has, or a value that is not of its column's type.
    pub fn push(&mut self, cells: impl IntoIterator<Item = Cell>) -> SqlResult<()> {
        let mut row: Vec<Option<Datum>> = vec![None; self.columns.len()];
        for (name, value) in cells {
            let slot = self.def.position(name).and_then(|at| row.get_mut(at));
            let Some(slot) = slot else {
                return Err(SqlError::internal(format!(
                    "no column {}.{name}",
                    self.def.name
                )));
            };
            *slot = Some(value);
        }
        for ((builder, def), value) in self.columns.iter_mut().zip(&self.def.columns).zip(row) {
            let value = value.unwrap_or_else(|| {
                if def.not_null {
                    absent(def.ty)
                } else {
                    Datum::Null
                }
            });
            builder.append(&fitted(value, def.ty))?;
        }
        Ok(())
    }

    /// The batch.
    ///
    /// # Errors
    /// XX000 when the columns do not fit the relation.
    pub fn finish(mut self) -> SqlResult<RecordBatch> {
        let arrays = self.columns.iter_mut().map(ColumnBuilder::finish).collect();
        let batch = RecordBatch::try_new(self.def.arrow.clone(), arrays);
        batch.map_err(|error| SqlError::internal(error.to_string()))
    }
}

fn absent(ty: SqlType) -> Datum {
    match ty {
        SqlType::Bool => Datum::Bool(false),
        SqlType::Float4 => Datum::Float4(0.0),
        SqlType::Float8 => Datum::Float8(0.0),
        _ if ty.is_oid() => Datum::Oid(0),
        SqlType::Int2 | SqlType::Int4 | SqlType::Int8 => Datum::Int8(0),
        SqlType::TextArray => Datum::Text("{}".to_owned()),
        _ => Datum::Text(String::new()),
    }
}

/// The value as the column's type has it; numbers come as [`Datum::Int8`].
fn fitted(value: Datum, ty: SqlType) -> Datum {
    match (value, ty) {
        (Datum::Int8(n), SqlType::Int2) => Datum::Int2(i16::try_from(n).unwrap_or(i16::MAX)),
        (Datum::Int8(n), SqlType::Int4) => Datum::Int4(i32::try_from(n).unwrap_or(i32::MAX)),
        (Datum::Int8(n), ty) if ty.is_oid() => Datum::Oid(u32::try_from(n).unwrap_or(0)),
        (value, _) => value,
    }
}
