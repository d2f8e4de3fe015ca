//! Values to arrays and scalars.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder,
    Decimal256Builder, FixedSizeBinaryBuilder, Float32Builder, Float64Builder, Int16Builder,
    Int32Builder, Int64Builder, IntervalMonthDayNanoBuilder, NullBuilder, StringBuilder,
    Time64MicrosecondBuilder, TimestampMicrosecondBuilder, UInt32Builder,
};
use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNano, i256};
use datafusion::scalar::ScalarValue;

use super::UTC;
use super::read::datum_at;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::{Datum, Interval, Numeric, NumericMod, SqlType};

const UUID_BYTES: i32 = 16;
const NANOS_PER_MICRO: i64 = 1000;

/// Builds an array of the Arrow type of a [`SqlType`].
#[derive(Debug)]
#[allow(missing_docs)]
pub enum ColumnBuilder {
    Bool(BooleanBuilder),
    Int16(Int16Builder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    UInt32(UInt32Builder),
    Float32(Float32Builder),
    Float64(Float64Builder),
    Decimal128(Decimal128Builder, u8, i8),
    Decimal256(Decimal256Builder, u8, i8),
    Utf8(StringBuilder),
    Date(Date32Builder),
    Time(Time64MicrosecondBuilder),
    Timestamp(TimestampMicrosecondBuilder),
    Interval(IntervalMonthDayNanoBuilder),
    Uuid(FixedSizeBinaryBuilder),
    Bytea(BinaryBuilder),
    Null(NullBuilder),
}

impl ColumnBuilder {
    /// A builder for `ty` with room for `capacity` values.
    pub fn new(ty: SqlType, capacity: usize) -> ColumnBuilder {
        let data_type = ty.arrow_type();
        match data_type {
            DataType::Boolean => ColumnBuilder::Bool(BooleanBuilder::with_capacity(capacity)),
            DataType::Int16 => ColumnBuilder::Int16(Int16Builder::with_capacity(capacity)),
            DataType::Int32 => ColumnBuilder::Int32(Int32Builder::with_capacity(capacity)),
            DataType::Int64 => ColumnBuilder::Int64(Int64Builder::with_capacity(capacity)),
            DataType::UInt32 => ColumnBuilder::UInt32(UInt32Builder::with_capacity(capacity)),
            DataType::Float32 => ColumnBuilder::Float32(Float32Builder::with_capacity(capacity)),
            DataType::Float64 => ColumnBuilder::Float64(Float64Builder::with_capacity(capacity)),
            DataType::Decimal128(precision, scale) => {
                let builder = Decimal128Builder::with_capacity(capacity);
                ColumnBuilder::Decimal128(builder.with_data_type(data_type), precision, scale)
            }
            DataType::Decimal256(precision, scale) => {
                let builder = Decimal256Builder::with_capacity(capacity);
                ColumnBuilder::Decimal256(builder.with_data_type(data_type), precision, scale)
            }
            DataType::Date32 => ColumnBuilder::Date(Date32Builder::with_capacity(capacity)),
            DataType::Time64(_) => {
                ColumnBuilder::Time(Time64MicrosecondBuilder::with_capacity(capacity))
            }
            DataType::Timestamp(..) => ColumnBuilder::Timestamp(
                TimestampMicrosecondBuilder::with_capacity(capacity).with_data_type(data_type),
            ),
            DataType::Interval(_) => {
                ColumnBuilder::Interval(IntervalMonthDayNanoBuilder::with_capacity(capacity))
            }
            DataType::FixedSizeBinary(_) => {
                ColumnBuilder::Uuid(FixedSizeBinaryBuilder::with_capacity(capacity, UUID_BYTES))
            }
            DataType::Binary => {
                ColumnBuilder::Bytea(BinaryBuilder::with_capacity(capacity, capacity * 16))
            }
            DataType::Null => ColumnBuilder::Null(NullBuilder::new()),
            _ => ColumnBuilder::Utf8(StringBuilder::with_capacity(capacity, capacity * 16)),
        }
    }

    /// Appends NULL.
    pub fn append_null(&mut self) {
        match self {
            ColumnBuilder::Bool(b) => b.append_null(),
            ColumnBuilder::Int16(b) => b.append_null(),
            ColumnBuilder::Int32(b) => b.append_null(),
            ColumnBuilder::Int64(b) => b.append_null(),
            ColumnBuilder::UInt32(b) => b.append_null(),
            ColumnBuilder::Float32(b) => b.append_null(),
            ColumnBuilder::Float64(b) => b.append_null(),
            ColumnBuilder::Decimal128(b, ..) => b.append_null(),
            ColumnBuilder::Decimal256(b, ..) => b.append_null(),
            ColumnBuilder::Utf8(b) => b.append_null(),
            ColumnBuilder::Date(b) => b.append_null(),
            ColumnBuilder::Time(b) => b.append_null(),
            ColumnBuilder::Timestamp(b) => b.append_null(),
            ColumnBuilder::Interval(b) => b.append_null(),
            ColumnBuilder::Uuid(b) => b.append_null(),
            ColumnBuilder::Bytea(b) => b.append_null(),
            ColumnBuilder::Null(b) => b.append_null(),
        }
    }

    /// Appends a value of the builder's type. A `numeric` that no decimal of the column's
    /// precision and scale equals is 22003.
    pub fn append(&mut self, value: &Datum) -> SqlResult<()> {
        match (self, value) {
            (builder, Datum::Null) => builder.append_null(),
            (ColumnBuilder::Bool(b), Datum::Bool(v)) => b.append_value(*v),
            (ColumnBuilder::Int16(b), Datum::Int2(v)) => b.append_value(*v),
            (ColumnBuilder::Int32(b), Datum::Int4(v)) => b.append_value(*v),
            (ColumnBuilder::Int64(b), Datum::Int8(v)) => b.append_value(*v),
            (ColumnBuilder::UInt32(b), Datum::Oid(v)) => b.append_value(*v),
            (ColumnBuilder::Float32(b), Datum::Float4(v)) => b.append_value(*v),
            (ColumnBuilder::Float64(b), Datum::Float8(v)) => b.append_value(*v),
            (ColumnBuilder::Decimal128(b, precision, scale), Datum::Numeric(v)) => {
                b.append_value(decimal_128(v, *precision, *scale).ok_or_else(|| no_decimal(v))?);
            }
            (ColumnBuilder::Decimal256(b, precision, scale), Datum::Numeric(v)) => {
                b.append_value(decimal_256(v, *precision, *scale).ok_or_else(|| no_decimal(v))?);
            }
            (ColumnBuilder::Utf8(b), Datum::Text(v)) => b.append_value(v),
            (ColumnBuilder::Date(b), Datum::Date(v)) => b.append_value(*v),
            (ColumnBuilder::Time(b), Datum::Time(v)) => b.append_value(*v),
            (ColumnBuilder::Timestamp(b), Datum::Timestamp(v) | Datum::Timestamptz(v)) => {
                b.append_value(*v);
            }
            (ColumnBuilder::Interval(b), Datum::Interval(v)) => {
                b.append_value(arrow_interval(*v)?);
            }
            (ColumnBuilder::Uuid(b), Datum::Uuid(v)) => {
                b.append_value(v)
                    .map_err(|e| SqlError::internal(e.to_string()))?;
            }
            (ColumnBuilder::Bytea(b), Datum::Bytea(v)) => b.append_value(v),
            _ => return Err(SqlError::internal("a value is not of its column's type")),
        }
        Ok(())
    }

    /// The array; the builder starts anew.
    pub fn finish(&mut self) -> ArrayRef {
        match self {
            ColumnBuilder::Bool(b) => Arc::new(b.finish()),
            ColumnBuilder::Int16(b) => Arc::new(b.finish()),
            ColumnBuilder::Int32(b) => Arc::new(b.finish()),
            ColumnBuilder::Int64(b) => Arc::new(b.finish()),
            ColumnBuilder::UInt32(b) => Arc::new(b.finish()),
            ColumnBuilder::Float32(b) => Arc::new(b.finish()),
            ColumnBuilder::Float64(b) => Arc::new(b.finish()),
            ColumnBuilder::Decimal128(b, ..) => Arc::new(b.finish()),
            ColumnBuilder::Decimal256(b, ..) => Arc::new(b.finish()),
            ColumnBuilder::Utf8(b) => Arc::new(b.finish()),
            ColumnBuilder::Date(b) => Arc::new(b.finish()),
            ColumnBuilder::Time(b) => Arc::new(b.finish()),
            ColumnBuilder::Timestamp(b) => Arc::new(b.finish()),
            ColumnBuilder::Interval(b) => Arc::new(b.finish()),
            ColumnBuilder::Uuid(b) => Arc::new(b.finish()),
            ColumnBuilder::Bytea(b) => Arc::new(b.finish()),
            ColumnBuilder::Null(b) => Arc::new(b.finish()),
        }
    }
}

fn decimal_128(value: &Numeric, precision: u8, scale: i8) -> Option<i128> {
    let bound = 10u128.checked_pow(u32::from(precision));
    let fits = |magnitude: u128| bound.is_none_or(|bound| magnitude < bound);
    let unscaled = value.to_i128(scale)?;
    fits(unscaled.unsigned_abs()).then_some(unscaled)
}

fn decimal_256(value: &Numeric, precision: u8, scale: i8) -> Option<i256> {
    let unscaled = value.to_i256(scale)?;
    let digits = unscaled.to_string().trim_start_matches('-').len();
    (digits <= usize::from(precision)).then_some(unscaled)
}

/// Refuses a `numeric` that no plan could read from a column with this modifier: 0A000 for NaN
/// and the infinities, which no decimal stands for, otherwise 22003.
pub fn check_stored_numeric(value: &Numeric, modifier: Option<NumericMod>) -> SqlResult<()> {
    if !value.is_finite() {
        return Err(SqlError::unsupported(format!(
            "the numeric value {value} in a column"
        )));
    }
    // 56 digits before the point and 20 behind it, in groups of four.
    let before = i64::from(value.weight()) + 1;
    let behind = value.digits().len() as i64 - before;
    if modifier.is_none() && before <= 14 && behind <= 5 {
        return Ok(());
    }
    let fits = match SqlType::Numeric(modifier).arrow_type() {
        DataType::Decimal128(precision, scale) => decimal_128(value, precision, scale).is_some(),
        DataType::Decimal256(precision, scale) => decimal_256(value, precision, scale).is_some(),
        _ => false,
    };
    if fits {
        return Ok(());
    }
    let error = SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("numeric value {value} is out of range for a column"),
    );
    Err(match modifier {
        None => error.detail(
            "A numeric without precision has at most 56 digits before the decimal point and 20 \
             behind it.",
        ),
        Some(_) => error.detail("A numeric column has at most 76 digits."),
    })
}

fn no_decimal(value: &Numeric) -> SqlError {
    SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("numeric value {value} is beyond what expressions can compute with"),
    )
}

fn arrow_interval(value: Interval) -> SqlResult<IntervalMonthDayNano> {
    let nanos = value
        .micros
        .checked_mul(NANOS_PER_MICRO)
        .ok_or_else(|| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range"))?;
    Ok(IntervalMonthDayNano::new(value.months, value.days, nanos))
}

/// The value as a scalar of `ty`'s Arrow type, for expressions.
pub fn scalar_from_datum(value: &Datum, ty: SqlType) -> SqlResult<ScalarValue> {
    Ok(match (value, ty) {
        (Datum::Bool(v), _) => ScalarValue::Boolean(Some(*v)),
        (Datum::Int2(v), _) => ScalarValue::Int16(Some(*v)),
        (Datum::Int4(v), _) => ScalarValue::Int32(Some(*v)),
        (Datum::Int8(v), _) => ScalarValue::Int64(Some(*v)),
        (Datum::Oid(v), _) => ScalarValue::UInt32(Some(*v)),
        (Datum::Float4(v), _) => ScalarValue::Float32(Some(*v)),
        (Datum::Float8(v), _) => ScalarValue::Float64(Some(*v)),
        (Datum::Text(v), _) => ScalarValue::Utf8(Some(v.clone())),
        (Datum::Date(v), _) => ScalarValue::Date32(Some(*v)),
        (Datum::Time(v), _) => ScalarValue::Time64Microsecond(Some(*v)),
        (Datum::Timestamp(v), _) => ScalarValue::TimestampMicrosecond(Some(*v), None),
        (Datum::Timestamptz(v), _) => ScalarValue::TimestampMicrosecond(Some(*v), Some(UTC.into())),
        (Datum::Uuid(v), _) => ScalarValue::FixedSizeBinary(UUID_BYTES, Some(v.to_vec())),
        (Datum::Bytea(v), _) => ScalarValue::Binary(Some(v.clone())),
        (Datum::Null, _) => ScalarValue::try_from(&ty.arrow_type())
            .map_err(|e| SqlError::internal(e.to_string()))?,
        (Datum::Numeric(_) | Datum::Interval(_), _) => {
            let mut builder = ColumnBuilder::new(ty, 1);
            builder.append(value)?;
            let array = builder.finish();
            ScalarValue::try_from_array(&array, 0).map_err(|e| SqlError::internal(e.to_string()))?
        }
    })
}

/// The value of a scalar, as [`datum_at`] reads it from an array.
pub fn datum_from_scalar(scalar: &ScalarValue, ty: SqlType) -> SqlResult<Datum> {
    match scalar {
        _ if scalar.is_null() => Ok(Datum::Null),
        ScalarValue::Boolean(Some(v)) => Ok(Datum::Bool(*v)),
        ScalarValue::Int16(Some(v)) => Ok(Datum::Int2(*v)),
        ScalarValue::Int32(Some(v)) => Ok(Datum::Int4(*v)),
        ScalarValue::Int64(Some(v)) => Ok(Datum::Int8(*v)),
        ScalarValue::Float64(Some(v)) => Ok(Datum::Float8(*v)),
        ScalarValue::Utf8(Some(v)) => Ok(Datum::Text(v.clone())),
        other => {
            let array = other
                .to_array()
                .map_err(|e| SqlError::internal(e.to_string()))?;
            datum_at(&array as &dyn Array, 0, ty)
        }
    }
}
