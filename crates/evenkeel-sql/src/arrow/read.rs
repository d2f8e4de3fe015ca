//! Arrays to values and wire fields.

use bytes::{BufMut, BytesMut};
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal32Type, Decimal64Type, Decimal128Type,
    Decimal256Type, DurationMicrosecondType, Float16Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, IntervalDayTimeType, IntervalMonthDayNanoType, IntervalUnit,
    IntervalYearMonthType, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};

use crate::error::{SqlError, SqlResult, SqlState};
use crate::session::api::Format;
use crate::types::{
    Datum, Interval, MICROS_PER_DAY, Numeric, SqlType, TypeContext, put_integer, put_with_length,
    write_string,
};

fn value_of<T: ArrowPrimitiveType>(array: &dyn Array, row: usize) -> SqlResult<T::Native> {
    match array.as_primitive_opt::<T>() {
        Some(typed) if row < typed.len() => Ok(typed.value(row)),
        _ => Err(SqlError::internal(
            "an array is not of its type, or too short",
        )),
    }
}

fn str_of(array: &dyn Array, row: usize) -> SqlResult<&str> {
    let text = match array.data_type() {
        DataType::Utf8 => array.as_string_opt::<i32>().map(|a| a.value(row)),
        DataType::LargeUtf8 => array.as_string_opt::<i64>().map(|a| a.value(row)),
        DataType::Utf8View => array.as_string_view_opt().map(|a| a.value(row)),
        _ => None,
    };
    text.ok_or_else(|| SqlError::internal("an array is not of a string type"))
}

/// Arrays of type Null have no bitmap that says so.
fn is_null(array: &dyn Array, row: usize) -> bool {
    array.is_null(row) || array.data_type().is_null()
}

/// Appends a DataRow field (length, value) from an array whose type appears as `ty`.
pub fn put_field(
    array: &dyn Array,
    row: usize,
    ty: SqlType,
    format: Format,
    cx: &TypeContext,
    out: &mut BytesMut,
) -> SqlResult<()> {
    if is_null(array, row) {
        out.put_i32(-1);
        return Ok(());
    }
    match (array.data_type(), format) {
        (DataType::Int32, Format::Text) => {
            let value = i64::from(value_of::<Int32Type>(array, row)?);
            put_with_length(out, |out| put_integer(value, out));
        }
        (DataType::Int64, Format::Text) => {
            let value = value_of::<Int64Type>(array, row)?;
            put_with_length(out, |out| put_integer(value, out));
        }
        (DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, _) if ty.is_string() => {
            let text = str_of(array, row)?;
            put_with_length(out, |out| write_string(text, ty, out));
        }
        _ => datum_at(array, row, ty)?.put_field(ty, format, cx, out),
    }
    Ok(())
}

/// The value at a row of an array. Values come as the datum that `ty` has; when the array's type
/// is another, they are converted as far as no information is lost.
pub fn datum_at(array: &dyn Array, row: usize, ty: SqlType) -> SqlResult<Datum> {
    if row >= array.len() {
        return Err(SqlError::internal("a row lies beyond its array"));
    }
    if is_null(array, row) {
        return Ok(Datum::Null);
    }
    let value = natural(array, row)?;
    Ok(match (value, ty) {
        (Datum::Int2(v), SqlType::Int4) => Datum::Int4(i32::from(v)),
        (Datum::Int2(v), SqlType::Int8) => Datum::Int8(i64::from(v)),
        (Datum::Int4(v), SqlType::Int8) => Datum::Int8(i64::from(v)),
        (Datum::Oid(v), SqlType::Int8) => Datum::Int8(i64::from(v)),
        (Datum::Float4(v), SqlType::Float8) => Datum::Float8(f64::from(v)),
        (Datum::Timestamptz(v), SqlType::Timestamp(_)) => Datum::Timestamp(v),
        (value, _) => value,
    })
}

/// The value as its Arrow type says.
fn natural(array: &dyn Array, row: usize) -> SqlResult<Datum> {
    Ok(match array.data_type() {
        DataType::Boolean => Datum::Bool(array.as_boolean().value(row)),
        DataType::Int8 => Datum::Int2(i16::from(value_of::<Int8Type>(array, row)?)),
        DataType::Int16 => Datum::Int2(value_of::<Int16Type>(array, row)?),
        DataType::Int32 => Datum::Int4(value_of::<Int32Type>(array, row)?),
        DataType::Int64 => Datum::Int8(value_of::<Int64Type>(array, row)?),
        DataType::UInt8 => Datum::Int2(i16::from(value_of::<UInt8Type>(array, row)?)),
        DataType::UInt16 => Datum::Int4(i32::from(value_of::<UInt16Type>(array, row)?)),
        DataType::UInt32 => Datum::Oid(value_of::<UInt32Type>(array, row)?),
        DataType::UInt64 => {
            let value = value_of::<UInt64Type>(array, row)?;
            Datum::Int8(i64::try_from(value).map_err(|_| bigint_out_of_range())?)
        }
        DataType::Float16 => Datum::Float4(value_of::<Float16Type>(array, row)?.to_f32()),
        DataType::Float32 => Datum::Float4(value_of::<Float32Type>(array, row)?),
        DataType::Float64 => Datum::Float8(value_of::<Float64Type>(array, row)?),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            Datum::Text(str_of(array, row)?.to_owned())
        }
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => Datum::Numeric(decimal(array, row)?),
        DataType::FixedSizeBinary(_)
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView => binary(array, row),
        DataType::Interval(unit) => Datum::Interval(interval(array, row, *unit)?),
        DataType::Duration(_) => {
            let micros = as_type(array, row, &DataType::Duration(TimeUnit::Microsecond))?;
            let micros = value_of::<DurationMicrosecondType>(&micros, 0)?;
            let days = i32::try_from(micros / MICROS_PER_DAY).unwrap_or(i32::MAX);
            Datum::Interval(Interval {
                months: 0,
                days,
                micros: micros % MICROS_PER_DAY,
            })
        }
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
            Datum::Text(list_text(array, row)?)
        }
        DataType::Dictionary(_, values) => natural(&as_type(array, row, values)?, 0)?,
        _ => datetime(array, row)?,
    })
}

fn bigint_out_of_range() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "bigint out of range")
}

/// One value cast to another Arrow type.
fn as_type(array: &dyn Array, row: usize, to: &DataType) -> SqlResult<ArrayRef> {
    cast(&array.slice(row, 1), to).map_err(|e| SqlError::internal(e.to_string()))
}

fn datetime(array: &dyn Array, row: usize) -> SqlResult<Datum> {
    Ok(match array.data_type() {
        DataType::Date32 => Datum::Date(value_of::<Date32Type>(array, row)?),
        DataType::Time64(TimeUnit::Microsecond) => {
            Datum::Time(value_of::<Time64MicrosecondType>(array, row)?)
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let micros = value_of::<TimestampMicrosecondType>(array, row)?;
            if zone.is_some() {
                Datum::Timestamptz(micros)
            } else {
                Datum::Timestamp(micros)
            }
        }
        DataType::Timestamp(_, zone) => {
            let micros = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
            datetime(&as_type(array, row, &micros)?, 0)?
        }
        DataType::Time32(_) | DataType::Time64(_) => datetime(
            &as_type(array, row, &DataType::Time64(TimeUnit::Microsecond))?,
            0,
        )?,
        DataType::Date64 => datetime(&as_type(array, row, &DataType::Date32)?, 0)?,
        other => {
            return Err(SqlError::unsupported(format!(
                "a result of Arrow type {other}"
            )));
        }
    })
}

fn decimal(array: &dyn Array, row: usize) -> SqlResult<Numeric> {
    Ok(match array.data_type() {
        DataType::Decimal32(_, scale) => {
            Numeric::from_i128(i128::from(value_of::<Decimal32Type>(array, row)?), *scale)
        }
        DataType::Decimal64(_, scale) => {
            Numeric::from_i128(i128::from(value_of::<Decimal64Type>(array, row)?), *scale)
        }
        DataType::Decimal128(_, scale) => {
            Numeric::from_i128(value_of::<Decimal128Type>(array, row)?, *scale)
        }
        DataType::Decimal256(_, scale) => {
            let value = Numeric::from_i256(value_of::<Decimal256Type>(array, row)?, *scale);
            // The scale of a `numeric` without one is ours, not the value's.
            if *scale == super::NUMERIC_SCALE {
                value.without_trailing_zeros()
            } else {
                value
            }
        }
        _ => return Err(SqlError::internal("an array is not of a decimal type")),
    })
}

fn binary(array: &dyn Array, row: usize) -> Datum {
    let bytes: &[u8] = match array.data_type() {
        DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().value(row),
        DataType::LargeBinary => array.as_binary::<i64>().value(row),
        DataType::BinaryView => array.as_binary_view().value(row),
        _ => array.as_binary::<i32>().value(row),
    };
    match (array.data_type(), bytes.try_into()) {
        (DataType::FixedSizeBinary(_), Ok(uuid)) => Datum::Uuid(uuid),
        _ => Datum::Bytea(bytes.to_vec()),
    }
}

fn interval(array: &dyn Array, row: usize, unit: IntervalUnit) -> SqlResult<Interval> {
    Ok(match unit {
        IntervalUnit::YearMonth => {
            let months = value_of::<IntervalYearMonthType>(array, row)?;
            Interval {
                months,
                days: 0,
                micros: 0,
            }
        }
        IntervalUnit::DayTime => {
            let value = value_of::<IntervalDayTimeType>(array, row)?;
            let micros = i64::from(value.milliseconds) * 1000;
            Interval {
                months: 0,
                days: value.days,
                micros,
            }
        }
        IntervalUnit::MonthDayNano => {
            let value = value_of::<IntervalMonthDayNanoType>(array, row)?;
            let micros = value.nanoseconds / 1000;
            Interval {
                months: value.months,
                days: value.days,
                micros,
            }
        }
    })
}

/// `{a,b,NULL}`, items quoted where PostgreSQL quotes them.
fn list_text(array: &dyn Array, row: usize) -> SqlResult<String> {
    let items = match array.data_type() {
        DataType::List(_) => array.as_list::<i32>().value(row),
        DataType::LargeList(_) => array.as_list::<i64>().value(row),
        _ => array.as_fixed_size_list().value(row),
    };
    let ty = SqlType::from_arrow_type(items.data_type());
    let mut text = String::from("{");
    for item in 0..items.len() {
        if item > 0 {
            text.push(',');
        }
        match datum_at(&items, item, ty)? {
            Datum::Null => text.push_str("NULL"),
            value => push_list_item(&mut text, &value.to_text(ty, &TypeContext::default()), ty),
        }
    }
    text.push('}');
    Ok(text)
}

fn push_list_item(text: &mut String, item: &str, ty: SqlType) {
    let special = |c: char| matches!(c, '{' | '}' | ',' | '"' | '\\') || c.is_whitespace();
    let nested = ty == SqlType::TextArray;
    if nested || !(item.is_empty() || item.eq_ignore_ascii_case("null") || item.contains(special)) {
        return text.push_str(item);
    }
    text.push('"');
    for c in item.chars() {
        if matches!(c, '"' | '\\') {
            text.push('\\');
        }
        text.push(c);
    }
    text.push('"');
}
