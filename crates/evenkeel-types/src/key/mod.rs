//! The index key codec: bytes whose order under `memcmp` is the order of the values.
//!
//! Each column is a marker (NULL or not) and the value's bytes; no value's bytes are a prefix
//! of another's, so columns simply follow one another, and the key of the first n columns is a
//! prefix of every key that begins with those values. A descending column has its value bytes
//! inverted.

use crate::datum::{ArrayValue, Datum};
use crate::enums::EnumValue;
use crate::error::{SqlState, TypeError, TypeResult};
use crate::identity::SqlType;
use crate::json;
use crate::numeric;
use crate::padding::without_blanks;
use crate::system_columns::TupleId;
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

impl KeyColumn {
    /// Takes the column's value from the beginning of the rest of a key.
    ///
    /// # Errors
    /// XX001 for bytes that are no value of it; XX000 for a type that is not [`is_readable`].
    pub fn decode(&self, key: &mut &[u8]) -> TypeResult<Datum> {
        let mut reader = KeyReader {
            rest: key,
            mask: if self.descending { u8::MAX } else { 0 },
        };
        let [marker] = reader.raw()?;
        let value = match marker {
            NULL_FIRST | NULL_LAST => Datum::Null,
            VALUE => reader.value(self.ty)?,
            _ => return Err(damaged_key()),
        };
        *key = reader.rest;
        Ok(value)
    }
}

fn damaged_key() -> TypeError {
    TypeError::new(
        SqlState::DATA_CORRUPTED,
        "a key of an index has bytes that are no value",
    )
}

/// Reads values from a key, whose bytes are changed by the mask where the column descends.
struct KeyReader<'a> {
    rest: &'a [u8],
    mask: u8,
}

impl KeyReader<'_> {
    fn raw<const N: usize>(&mut self) -> TypeResult<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or_else(damaged_key)?;
        self.rest = rest;
        Ok(*bytes)
    }

    fn bytes<const N: usize>(&mut self) -> TypeResult<[u8; N]> {
        Ok(self.raw()?.map(|byte: u8| byte ^ self.mask))
    }

    fn int4(&mut self) -> TypeResult<i32> {
        Ok((u32::from_be_bytes(self.bytes()?) ^ 1 << 31).cast_signed())
    }

    fn int8(&mut self) -> TypeResult<i64> {
        Ok((u64::from_be_bytes(self.bytes()?) ^ 1 << 63).cast_signed())
    }

    fn string(&mut self) -> TypeResult<String> {
        let end = STRING_END ^ self.mask;
        let length = self.rest.iter().position(|byte| *byte == end);
        let (text, rest) = self.rest.split_at(length.ok_or_else(damaged_key)?);
        self.rest = &rest[1..];
        let text = text.iter().map(|byte| byte ^ self.mask).collect();
        String::from_utf8(text).map_err(|_| damaged_key())
    }

    fn bytea(&mut self) -> TypeResult<Vec<u8>> {
        let mut value = Vec::new();
        loop {
            match self.bytes()? {
                [0] => match self.bytes()? {
                    [0] => return Ok(value),
                    [ZERO_ESCAPE] => value.push(0),
                    _ => return Err(damaged_key()),
                },
                [byte] => value.push(byte),
            }
        }
    }

    fn value(&mut self, ty: SqlType) -> TypeResult<Datum> {
        Ok(match ty {
            SqlType::Bool => match self.bytes()? {
                [0] => Datum::Bool(false),
                [1] => Datum::Bool(true),
                _ => return Err(damaged_key()),
            },
            SqlType::Int2 => {
                let bits = u16::from_be_bytes(self.bytes()?) ^ 1 << 15;
                Datum::Int2(bits.cast_signed())
            }
            SqlType::Int4 => Datum::Int4(self.int4()?),
            SqlType::Date => Datum::Date(self.int4()?),
            SqlType::Int8 => Datum::Int8(self.int8()?),
            SqlType::Time(_) => Datum::Time(self.int8()?),
            SqlType::Timestamp(_) => Datum::Timestamp(self.int8()?),
            SqlType::Timestamptz(_) => Datum::Timestamptz(self.int8()?),
            SqlType::Xid8 => Datum::Xid8(u64::from_be_bytes(self.bytes()?)),
            SqlType::Uuid => Datum::Uuid(self.bytes()?),
            SqlType::Tid => Datum::Tid(TupleId {
                block: u32::from_be_bytes(self.bytes()?),
                slot: u16::from_be_bytes(self.bytes()?),
            }),
            SqlType::Enum(ty) => Datum::Enum(EnumValue {
                ty,
                position: self.int8()?,
            }),
            SqlType::Text | SqlType::Varchar(_) | SqlType::Name => Datum::Text(self.string()?),
            SqlType::Bytea => Datum::Bytea(self.bytea()?),
            ty if ty.is_oid() => Datum::Oid(u32::from_be_bytes(self.bytes()?)),
            ty => {
                let what = format!("a key of type {} is not read", ty.base_name());
                return Err(TypeError::internal(what));
            }
        })
    }
}

/// Whether a value is had back from its key as it was. Not so where values that are equal are not
/// the same: numbers with another scale, zeros with another sign, intervals in other parts.
pub fn is_readable(ty: SqlType) -> bool {
    match ty {
        SqlType::Bool
        | SqlType::Int2
        | SqlType::Int4
        | SqlType::Int8
        | SqlType::Date
        | SqlType::Time(_)
        | SqlType::Timestamp(_)
        | SqlType::Timestamptz(_)
        | SqlType::Xid8
        | SqlType::Uuid
        | SqlType::Tid
        | SqlType::Enum(_)
        | SqlType::Text
        | SqlType::Varchar(_)
        | SqlType::Name
        | SqlType::Bytea => true,
        ty => ty.is_oid(),
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
