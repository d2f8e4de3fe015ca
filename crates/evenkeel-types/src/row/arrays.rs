//! An array within a row.
//!
//! ```text
//! u8:         number of dimensions, 0 for the empty array, which has nothing else
//! dimensions: length and lower bound of each (i32)
//! bitmap:     a bit per element, set for NULL
//! elements:   those that are not NULL, row by row; of variable length behind their length (u32)
//! ```

use std::sync::Arc;

use super::{array, damaged, encode_fixed, encode_variable, fixed_width};
use crate::datum::{ArrayValue, Datum, Dimension};
use crate::error::TypeResult;
use crate::identity::SqlType;

const LENGTH: usize = 4;

pub(super) fn encode(element: SqlType, value: &ArrayValue, out: &mut Vec<u8>) -> TypeResult<()> {
    let dimensions = value.dimensions();
    // There are six at most.
    out.push(dimensions.len() as u8);
    for dimension in dimensions {
        out.extend_from_slice(&dimension.length.to_le_bytes());
        out.extend_from_slice(&dimension.lower.to_le_bytes());
    }
    let elements = value.elements();
    let bitmap = out.len();
    out.resize(bitmap + elements.len().div_ceil(8), 0);
    for (at, element) in elements.iter().enumerate() {
        if element.is_null() {
            out[bitmap + at / 8] |= 1 << (at % 8);
        }
    }
    for value in elements.iter().filter(|value| !value.is_null()) {
        let start = out.len();
        if let Some(width) = fixed_width(element) {
            out.resize(start + width, 0);
            encode_fixed(element, value, &mut out[start..])?;
            continue;
        }
        out.resize(start + LENGTH, 0);
        encode_variable(element, value, out)?;
        // A longer value is refused with its row.
        let length = u32::try_from(out.len() - start - LENGTH).unwrap_or(u32::MAX);
        out[start..start + LENGTH].copy_from_slice(&length.to_le_bytes());
    }
    Ok(())
}

/// The array of these bytes; XX001 for bytes that are none. Nothing is allocated beyond what they
/// can hold.
pub(super) fn decode(element: SqlType, bytes: &[u8]) -> TypeResult<Datum> {
    let mut rest = bytes;
    let [count] = array(take(&mut rest, 1)?)?;
    let mut dimensions = Vec::new();
    for _ in 0..count {
        let length = i32::from_le_bytes(array(take(&mut rest, LENGTH)?)?);
        let lower = i32::from_le_bytes(array(take(&mut rest, LENGTH)?)?);
        dimensions.push(Dimension { length, lower });
    }
    let mut lengths = dimensions.iter().map(|dimension| dimension.length);
    let total = match count {
        0 => Some(0),
        _ => lengths.try_fold(1usize, |total, length| {
            total.checked_mul(usize::try_from(length).ok()?)
        }),
    };
    // Even NULLs take a bit each.
    let total = total.filter(|total| total.div_ceil(8) <= rest.len());
    let total = total.ok_or_else(|| damaged("an array that it cannot hold"))?;
    let bitmap = take(&mut rest, total.div_ceil(8))?;
    let mut elements = Vec::with_capacity(total);
    for at in 0..total {
        if bitmap[at / 8] & (1 << (at % 8)) != 0 {
            elements.push(Datum::Null);
            continue;
        }
        let length = match fixed_width(element) {
            Some(width) => width,
            None => u32::from_le_bytes(array(take(&mut rest, LENGTH)?)?) as usize,
        };
        elements.push(super::decode(element, take(&mut rest, length)?)?);
    }
    if !rest.is_empty() {
        return Err(damaged("bytes behind an array"));
    }
    let value = ArrayValue::new(&dimensions, elements);
    value
        .map(|value| Datum::Array(Arc::new(value)))
        .map_err(|_| damaged("a bad array"))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> TypeResult<&'a [u8]> {
    let split = rest.split_at_checked(length);
    let (taken, left) = split.ok_or_else(|| damaged("an array that ends too early"))?;
    *rest = left;
    Ok(taken)
}
