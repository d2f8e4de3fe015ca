//! Rows by column name.

use super::relations::RelationDef;
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

/// A transaction's number, of which a column has the last 32 bits.
pub fn xid(value: u64) -> Datum {
    Datum::Oid(value as u32)
}

/// A flag.
pub fn flag(value: bool) -> Datum {
    Datum::Bool(value)
}

/// Rows of one relation. A column that a row does not name has the value that PostgreSQL gives
/// an absent thing: NULL, or zero, false and the empty string where it is NOT NULL (PGC-2).
pub struct Rows {
    def: &'static RelationDef,
    rows: Vec<Vec<Datum>>,
}

impl Rows {
    /// No rows.
    pub fn new(def: &'static RelationDef) -> Rows {
        Rows {
            def,
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// XX000 for a name that no column has.
    pub fn push(&mut self, cells: impl IntoIterator<Item = Cell>) -> SqlResult<()> {
        let mut row: Vec<Option<Datum>> = vec![None; self.def.columns.len()];
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
        let columns = self.def.columns.iter().zip(row);
        let values = columns.map(|(def, value)| match value {
            Some(value) => fitted(value, def.ty),
            None if def.not_null => absent(def.ty),
            None => Datum::Null,
        });
        self.rows.push(values.collect());
        Ok(())
    }

    /// The rows.
    pub fn finish(self) -> Vec<Vec<Datum>> {
        self.rows
    }
}

fn absent(ty: SqlType) -> Datum {
    match ty {
        SqlType::Bool => Datum::Bool(false),
        SqlType::Float4 => Datum::Float4(0.0),
        SqlType::Float8 => Datum::Float8(0.0),
        SqlType::Xid => Datum::Oid(0),
        _ if ty.is_oid() => Datum::Oid(0),
        SqlType::Int2 => Datum::Int2(0),
        SqlType::Int4 => Datum::Int4(0),
        SqlType::Int8 => Datum::Int8(0),
        SqlType::Array(..) => Datum::Text("{}".to_owned()),
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
