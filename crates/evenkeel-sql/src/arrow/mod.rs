//! Arrow and PostgreSQL's types: mapping, arrays to values and wire fields, values to arrays.
//!
//! | type | Arrow | why |
//! |---|---|---|
//! | `numeric(p,s)` | `Decimal128`, `Decimal256` beyond 38 digits | exact |
//! | `numeric` | `Decimal256(76, 20)` | a decimal needs a scale; what does not fit is an error |
//! | `uuid` | `FixedSizeBinary(16)` | same order, shorter than its text, never taken for text |
//! | `char(n)` | `Utf8` without trailing blanks | comparisons ignore them; output pads |
//! | `oid`, `reg*` | `UInt32` | |
//! | `timestamptz` | `Timestamp(µs, "UTC")` | an instant; the session's zone is a matter of text |
//!
//! What Arrow cannot express (char and its length, `name`, `oid` …) travels as field metadata.

mod build;
mod read;

use std::collections::HashMap;

use datafusion::arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};

pub use build::{ColumnBuilder, check_stored_numeric, datum_from_scalar, scalar_from_datum};
pub use read::{datum_at, put_field};

use crate::types::{NumericMod, SqlType};

/// Field metadata key: `oid:typmod`.
pub const TYPE_METADATA: &str = "evenkeel.type";
/// Precision of a `numeric` without one.
pub const NUMERIC_PRECISION: u8 = 76;
/// Scale of a `numeric` without one.
pub const NUMERIC_SCALE: i8 = 20;
/// Zone of Arrow's timestamps for `timestamptz`.
pub const UTC: &str = "UTC";

impl SqlType {
    /// The Arrow type of this type's columns.
    pub fn arrow_type(self) -> DataType {
        match self {
            SqlType::Bool => DataType::Boolean,
            SqlType::Int2 => DataType::Int16,
            SqlType::Int4 => DataType::Int32,
            SqlType::Int8 => DataType::Int64,
            SqlType::Float4 => DataType::Float32,
            SqlType::Float8 => DataType::Float64,
            SqlType::Numeric(modifier) => decimal_type(modifier),
            SqlType::Date => DataType::Date32,
            SqlType::Time => DataType::Time64(TimeUnit::Microsecond),
            SqlType::Timestamp(_) => DataType::Timestamp(TimeUnit::Microsecond, None),
            SqlType::Timestamptz(_) => DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
            SqlType::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            SqlType::Uuid => DataType::FixedSizeBinary(16),
            SqlType::Bytea => DataType::Binary,
            SqlType::Void => DataType::Null,
            _ if self.is_oid() => DataType::UInt32,
            _ => DataType::Utf8,
        }
    }

    /// A field of this type that remembers it.
    pub fn arrow_field(self, name: impl Into<String>, nullable: bool) -> Field {
        Field::new(name, self.arrow_type(), nullable).with_metadata(self.arrow_metadata())
    }

    /// The metadata of such a field.
    pub fn arrow_metadata(self) -> HashMap<String, String> {
        let identity = format!("{}:{}", self.oid(), self.typmod());
        HashMap::from([(TYPE_METADATA.to_owned(), identity)])
    }

    /// The type of a field. What its metadata says counts only while it agrees with the data
    /// type, for expressions may keep the metadata of what they were made from.
    pub fn from_arrow_field(field: &Field) -> SqlType {
        field
            .metadata()
            .get(TYPE_METADATA)
            .and_then(|identity| identity.split_once(':'))
            .and_then(|(oid, typmod)| Some((oid.parse().ok()?, typmod.parse().ok()?)))
            .and_then(|(oid, typmod)| SqlType::from_oid(oid, typmod))
            .filter(|ty| same_kind(&ty.arrow_type(), field.data_type()))
            .unwrap_or_else(|| SqlType::from_arrow_type(field.data_type()))
    }

    /// The type as which values of an Arrow type appear.
    pub fn from_arrow_type(data_type: &DataType) -> SqlType {
        match data_type {
            DataType::Boolean => SqlType::Bool,
            DataType::Int8 | DataType::Int16 | DataType::UInt8 => SqlType::Int2,
            DataType::Int32 | DataType::UInt16 => SqlType::Int4,
            // A 64-bit count is never beyond 63 bits in practice, and an error when it is.
            DataType::Int64 | DataType::UInt32 | DataType::UInt64 => SqlType::Int8,
            DataType::Float16 | DataType::Float32 => SqlType::Float4,
            DataType::Float64 => SqlType::Float8,
            DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..) => SqlType::Numeric(None),
            DataType::Date32 | DataType::Date64 => SqlType::Date,
            DataType::Time32(_) | DataType::Time64(_) => SqlType::Time,
            DataType::Timestamp(_, None) => SqlType::Timestamp(None),
            DataType::Timestamp(_, Some(_)) => SqlType::Timestamptz(None),
            DataType::Interval(_) | DataType::Duration(_) => SqlType::Interval,
            DataType::FixedSizeBinary(16) => SqlType::Uuid,
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => SqlType::Bytea,
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
                SqlType::TextArray
            }
            DataType::Dictionary(_, values) => SqlType::from_arrow_type(values),
            _ => SqlType::Text,
        }
    }
}

/// Whether values of `actual` are of the type whose Arrow type is `declared`.
fn same_kind(declared: &DataType, actual: &DataType) -> bool {
    let string =
        |t: &DataType| matches!(t, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    declared == actual || (string(declared) && string(actual))
}

fn decimal_type(modifier: Option<NumericMod>) -> DataType {
    let Some(NumericMod { precision, scale }) = modifier else {
        return DataType::Decimal256(NUMERIC_PRECISION, NUMERIC_SCALE);
    };
    // PostgreSQL allows a scale beyond the precision, and a negative one; Arrow wants digits
    // for every place.
    let scale = scale.max(0);
    let digits = i32::from(precision.max(scale.cast_unsigned()))
        + i32::from(modifier.map_or(0, |m| m.scale.min(0))).abs();
    match (u8::try_from(digits), i8::try_from(scale)) {
        (Ok(digits @ 0..=38), Ok(scale)) => DataType::Decimal128(digits, scale),
        (Ok(digits @ 39..=76), Ok(scale)) => DataType::Decimal256(digits, scale),
        _ => DataType::Decimal256(NUMERIC_PRECISION, i8::try_from(scale).unwrap_or(76).min(76)),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
