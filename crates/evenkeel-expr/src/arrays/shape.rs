//! Dimensions of arrays.

use std::fmt::Write as _;

use evenkeel_types::{Datum, Dimension, TypeResult};

use crate::call::Call;

/// `array_ndims(anyarray)`: NULL for the empty array.
pub fn ndims(call: &Call<'_>) -> TypeResult<Datum> {
    Ok(match call.array(0).dimensions().len() {
        0 => Datum::Null,
        dimensions => Datum::Int4(i32::try_from(dimensions).unwrap_or(i32::MAX)),
    })
}

/// `array_dims(anyarray)`: `[1:2][1:3]`
pub fn dims(call: &Call<'_>) -> TypeResult<Datum> {
    let mut out = String::new();
    for dimension in call.array(0).dimensions() {
        // Writing to a string cannot fail.
        let _ = write!(out, "[{}:{}]", dimension.lower, dimension.upper());
    }
    Ok(match out.is_empty() {
        true => Datum::Null,
        false => Datum::Text(out),
    })
}

/// The dimension that an argument names, from 1.
fn dimension(call: &Call<'_>) -> TypeResult<Option<Dimension>> {
    let number = usize::try_from(call.int4(1)?).unwrap_or(0);
    let dimensions = call.array(0).dimensions();
    Ok(number
        .checked_sub(1)
        .and_then(|at| dimensions.get(at))
        .copied())
}

/// `array_length(anyarray, integer)`
pub fn length(call: &Call<'_>) -> TypeResult<Datum> {
    Ok(dimension(call)?.map(|dimension| dimension.length).into())
}

/// `array_lower(anyarray, integer)`
pub fn lower(call: &Call<'_>) -> TypeResult<Datum> {
    Ok(dimension(call)?.map(|dimension| dimension.lower).into())
}

/// `array_upper(anyarray, integer)`
pub fn upper(call: &Call<'_>) -> TypeResult<Datum> {
    Ok(dimension(call)?.map(Dimension::upper).into())
}

/// `cardinality(anyarray)`
pub fn cardinality(call: &Call<'_>) -> TypeResult<Datum> {
    let elements = call.array(0).elements().len();
    Ok(Datum::Int4(i32::try_from(elements).unwrap_or(i32::MAX)))
}
