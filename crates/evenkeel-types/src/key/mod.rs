//! The index key codec: bytes whose order under `memcmp` is the order of the values.
//!
//! Each column is a marker (NULL or not) and the value's bytes; no value's bytes are a prefix
//! of another's, so columns simply follow one another, and the key of the first n columns is a
//! prefix of every key that begins with those values. A descending column has its value bytes
//! inverted.

use crate::datum::{ArrayValue, Datum};
use crate::error::{TypeError, TypeResult};
use crate::identity::SqlType;
use crate::json;
use crate::numeric;
use crate::padding::without_blanks;
use crate::text::without_zero;

const NULL_FIRST: u8 = 0x01;
const VALUE: u8 = 0x02;
const NULL_LAST: u8 = 0x03;
/// Ends an array's elements; below the marker of each.
const ARRAY_END: u8 = 0x00;
/// Ends a string; no stored string contains it.
const STRING_END: u8 = 0x00;
/// In a `bytea` a zero byte is followed by this, so that zero-zero is its end.
const ZERO_ESCAPE: u8 = 0xff;

/// One column of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyColumn {
    /// Position of the column in the table's rows, from 0; none for an expression.
    pub column: Option<usize>,
    /// Its type.
    pub ty: SqlType,
    /// `DESC`
    pub descending: bool,
    /// `NULLS FIRST`; the default is last for ascending and first for descending columns.
    pub nulls_first: bool,
}

impl KeyColumn {
    /// An ascending column with NULLs last.
    pub fn ascending(column: usize, ty: SqlType) -> KeyColumn {
        KeyColumn {
            column: Some(column),
            ty,
            descending: false,
            nulls_first: false,
        }
    }

    /// Appends the column's part of a key. `value` is of the column's type, or NULL.
    pub fn encode(&self, value: &Datum, out: &mut Vec<u8>) -> TypeResult<()> {
        if value.is_null() {
            out.push(if self.nulls_first {
                NULL_FIRST
            } else {
                NULL_LAST
            });
            return Ok(());
        }
        out.push(VALUE);
        let start = out.len();
        encode_value(value, self.ty, out)?;
        if self.descending {
            out[start..].iter_mut().for_each(|byte| *byte = !*byte);
        }
        Ok(())
    }
}

/// Whether an index can have a column of this type.
pub fn is_indexable(ty: SqlType) -> bool {
    match ty {
        SqlType::Array(element, _) => is_indexable(*element),
        // PostgreSQL does not order numbers of 32 bits: they come round again.
        SqlType::Int2Vector | SqlType::OidVector | SqlType::Json | SqlType::Xid | SqlType::Cid => {
            false
        }
        _ => ty.is_storable(),
    }
}

fn encode_value(value: &Datum, ty: SqlType, out: &mut Vec<u8>) -> TypeResult<()> {
    match value {
        Datum::Bool(v) => out.push(u8::from(*v)),
        Datum::Int2(v) => out.extend_from_slice(&(v.cast_unsigned() ^ 1 << 15).to_be_bytes()),
        Datum::Int4(v) | Datum::Date(v) => {
            out.extend_from_slice(&(v.cast_unsigned() ^ 1 << 31).to_be_bytes());
        }
        Datum::Int8(v) | Datum::Time(v) | Datum::Timestamp(v) | Datum::Timestamptz(v) => {
            out.extend_from_slice(&(v.cast_unsigned() ^ 1 << 63).to_be_bytes());
        }
        Datum::Timetz(v) => {
            out.extend_from_slice(&(v.utc_micros().cast_unsigned() ^ 1 << 63).to_be_bytes());
            out.extend_from_slice(&(v.west.cast_unsigned() ^ 1 << 31).to_be_bytes());
        }
        // Equal intervals have one length, whatever their parts.
        Datum::Interval(v) => {
            let length = v.comparison_micros().cast_unsigned() ^ 1 << 127;
            out.extend_from_slice(&length.to_be_bytes());
        }
        Datum::Oid(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Float4(v) => out.extend_from_slice(&ordered_bits(f64::from(*v)).to_be_bytes()),
        Datum::Float8(v) => out.extend_from_slice(&ordered_bits(*v).to_be_bytes()),
        Datum::Numeric(v) => numeric::encode_key(v, out),
        Datum::Tid(v) => {
            out.extend_from_slice(&v.block.to_be_bytes());
            out.extend_from_slice(&v.slot.to_be_bytes());
        }
        Datum::Xid8(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Uuid(v) => out.extend_from_slice(v),
        Datum::Enum(v) => {
            out.extend_from_slice(&(v.position.cast_unsigned() ^ 1 << 63).to_be_bytes());
        }
        Datum::Text(v) => encode_string(v, out)?,
        Datum::Char(v) => encode_string(without_blanks(v), out)?,
        Datum::Bytea(v) => {
            for byte in v {
                out.push(*byte);
                if *byte == 0 {
                    out.push(ZERO_ESCAPE);
                }
            }
            out.extend_from_slice(&[0, 0]);
        }
        Datum::Jsonb(v) => json::encode_key(v.root(), out),
        Datum::Array(v) => encode_array(v, ty.element().unwrap_or(ty), out)?,
        Datum::Record(_) | Datum::Null => {
            return Err(TypeError::unsupported(format!(
                "an index on type {}",
                ty.base_name()
            )));
        }
    }
    Ok(())
}

/// Arrays are ordered by their elements, NULLs last, then by their number, then by dimensions.
fn encode_array(array: &ArrayValue, element: SqlType, out: &mut Vec<u8>) -> TypeResult<()> {
    for value in array.elements() {
        if value.is_null() {
            out.push(NULL_LAST);
        } else {
            out.push(VALUE);
            encode_value(value, element, out)?;
        }
    }
    out.push(ARRAY_END);
    let dimensions = array.dimensions();
    // At most 6 of them.
    out.push(dimensions.len() as u8);
    let lengths = dimensions.iter().map(|dimension| dimension.length);
    let lowers = dimensions.iter().map(|dimension| dimension.lower);
    for number in lengths.chain(lowers) {
        out.extend_from_slice(&(number.cast_unsigned() ^ 1 << 31).to_be_bytes());
    }
    Ok(())
}

fn encode_string(text: &str, out: &mut Vec<u8>) -> TypeResult<()> {
    out.extend_from_slice(without_zero(text)?.as_bytes());
    out.push(STRING_END);
    Ok(())
}

/// Bits whose order as an integer is that of the numbers: -0 is 0, NaN the greatest.
fn ordered_bits(value: f64) -> u64 {
    let bits = if value.is_nan() {
        f64::NAN.to_bits() & !(1 << 63)
    } else if value == 0.0 {
        0
    } else {
        value.to_bits()
    };
    if bits >> 63 == 1 {
        !bits
    } else {
        bits | 1 << 63
    }
}

/// Changes `key` into the least byte string above every key that has it as a prefix; false when
/// there is none.
pub fn successor(key: &mut Vec<u8>) -> bool {
    while let Some(last) = key.pop() {
        if last != u8::MAX {
            key.push(last + 1);
            return true;
        }
    }
    false
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
