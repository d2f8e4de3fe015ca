//! The output, send and receive functions of arrays.

use bytes::BufMut;
use smallvec::SmallVec;

use super::input::is_space;
use crate::context::TypeContext;
use crate::datum::{ArrayValue, Datum, Dimension, MAX_ARRAY_SIZE, MAX_DIMENSIONS, too_many};
use crate::error::{SqlState, TypeError, TypeResult};
use crate::identity::SqlType;
use crate::wire::put_integer;

/// The type of the elements; values of another type's array print as their text.
fn element_of(ty: SqlType) -> SqlType {
    ty.element().unwrap_or(SqlType::Unknown)
}

/// Appends the text form.
pub fn write<B: BufMut>(array: &ArrayValue, ty: SqlType, cx: &TypeContext, out: &mut B) {
    let element = element_of(ty);
    if ty.is_vector() {
        return write_vector(array, element, cx, out);
    }
    let dimensions = array.dimensions();
    if array.is_empty() {
        return out.put_slice(b"{}");
    }
    if dimensions.iter().any(|dimension| dimension.lower != 1) {
        for dimension in dimensions {
            out.put_u8(b'[');
            put_integer(i64::from(dimension.lower), out);
            out.put_u8(b':');
            put_integer(i64::from(dimension.upper()), out);
            out.put_u8(b']');
        }
        out.put_u8(b'=');
    }
    let mut text = Vec::new();
    out.put_bytes(b'{', dimensions.len());
    for (at, value) in array.elements().iter().enumerate() {
        if at > 0 {
            let ended = groups_ended(dimensions, at);
            out.put_bytes(b'}', ended);
            out.put_u8(b',');
            out.put_bytes(b'{', ended);
        }
        if value.is_null() {
            out.put_slice(b"NULL");
            continue;
        }
        text.clear();
        value.write_text(element, cx, &mut text);
        write_element(&text, out);
    }
    out.put_bytes(b'}', dimensions.len());
}

/// The text form of an `int2vector` or `oidvector`.
fn write_vector<B: BufMut>(array: &ArrayValue, element: SqlType, cx: &TypeContext, out: &mut B) {
    for (at, value) in array.elements().iter().enumerate() {
        if at > 0 {
            out.put_u8(b' ');
        }
        value.write_text(element, cx, out);
    }
}

/// How many dimensions' groups end before the element at this place.
fn groups_ended(dimensions: &[Dimension], at: usize) -> usize {
    let mut size = 1usize;
    let inner = dimensions.iter().skip(1).rev();
    let ends = inner.take_while(|dimension| {
        size = size.saturating_mul(usize::try_from(dimension.length).unwrap_or(1));
        at.is_multiple_of(size)
    });
    ends.count()
}

fn write_element<B: BufMut>(text: &[u8], out: &mut B) {
    let special = |byte: &u8| b"{},\"\\".contains(byte) || is_space(*byte);
    let quoted = text.is_empty() || text.eq_ignore_ascii_case(b"null") || text.iter().any(special);
    if !quoted {
        return out.put_slice(text);
    }
    out.put_u8(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.put_u8(b'\\');
        }
        out.put_u8(*byte);
    }
    out.put_u8(b'"');
}

/// Appends the binary form: dimensions, whether there are NULLs, the elements' type, each
/// dimension's length and lower bound, each element with its length.
pub fn write_binary<B: BufMut>(array: &ArrayValue, ty: SqlType, out: &mut B) {
    let element = element_of(ty);
    // A vector has a dimension even if it is empty.
    let empty = ty.is_vector() && array.is_empty();
    let dimensions = array.dimensions().len() + usize::from(empty);
    out.put_i32(i32::try_from(dimensions).unwrap_or(0));
    out.put_i32(i32::from(array.elements().iter().any(Datum::is_null)));
    out.put_u32(element.oid());
    if empty {
        out.put_i64(0);
    }
    for dimension in array.dimensions() {
        out.put_i32(dimension.length);
        out.put_i32(dimension.lower);
    }
    let mut bytes = Vec::new();
    for value in array.elements() {
        put_value(value, element, &mut bytes, out);
    }
}

/// Appends a value with its length, -1 for NULL.
pub fn put_value<B: BufMut>(value: &Datum, ty: SqlType, scratch: &mut Vec<u8>, out: &mut B) {
    if value.is_null() {
        return out.put_i32(-1);
    }
    scratch.clear();
    value.write_binary(ty, scratch);
    out.put_i32(i32::try_from(scratch.len()).unwrap_or(i32::MAX));
    out.put_slice(scratch);
}

/// Reads big-endian numbers and runs of bytes, and knows what is missing.
struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> TypeResult<&'a [u8]> {
        if length > self.bytes.len() {
            return Err(TypeError::new(
                SqlState::PROTOCOL_VIOLATION,
                "insufficient data left in message",
            ));
        }
        let (taken, rest) = self.bytes.split_at(length);
        self.bytes = rest;
        Ok(taken)
    }

    fn int(&mut self) -> TypeResult<i32> {
        let bytes = self.take(4)?;
        Ok(bytes
            .iter()
            .fold(0u32, |n, byte| n << 8 | u32::from(*byte))
            .cast_signed())
    }

    /// The lengths and lower bounds, and how many elements they make.
    fn dimensions(
        &mut self,
        depth: usize,
    ) -> TypeResult<(SmallVec<[Dimension; MAX_DIMENSIONS]>, usize)> {
        let mut dimensions: SmallVec<[Dimension; MAX_DIMENSIONS]> = SmallVec::new();
        let mut expected = 1usize;
        for _ in 0..depth {
            let dimension = Dimension {
                length: self.int()?,
                lower: self.int()?,
            };
            let length = usize::try_from(dimension.length).map_err(|_| too_many())?;
            expected = expected
                .checked_mul(length)
                .filter(|expected| *expected <= MAX_ARRAY_SIZE)
                .ok_or_else(too_many)?;
            dimensions.push(dimension);
        }
        if depth == 0 {
            expected = 0;
        }
        Ok((dimensions, expected))
    }
}

fn bad(message: impl Into<String>) -> TypeError {
    TypeError::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
}

/// The receive function of an array of `element`.
///
/// # Errors
/// 22P03, 08P01, 42804, 54000, and those of the elements' receive function.
pub fn parse_binary(element: SqlType, bytes: &[u8]) -> TypeResult<Datum> {
    let mut reader = Reader { bytes };
    let count = reader.int()?;
    let depth = usize::try_from(count)
        .map_err(|_| bad(format!("invalid number of dimensions: {count}")))?;
    if depth > MAX_DIMENSIONS {
        return Err(TypeError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!(
                "number of array dimensions ({depth}) exceeds the maximum allowed \
                 ({MAX_DIMENSIONS})"
            ),
        ));
    }
    if !matches!(reader.int()?, 0 | 1) {
        return Err(bad("invalid array flags"));
    }
    let sent = reader.int()?.cast_unsigned();
    if sent != element.oid() {
        let named = |oid| SqlType::from_oid(oid, -1).map_or("???", SqlType::base_name);
        return Err(TypeError::new(
            SqlState::DATATYPE_MISMATCH,
            format!(
                "binary data has array element type {sent} ({}) instead of expected {} ({})",
                named(sent),
                element.oid(),
                element.base_name()
            ),
        ));
    }
    let (dimensions, expected) = reader.dimensions(depth)?;
    // Each element has a length of four bytes: no more are read than were sent.
    let mut elements = Vec::with_capacity(expected.min(reader.bytes.len() / 4));
    for at in 0..expected {
        elements.push(match reader.int()? {
            -1 => Datum::Null,
            length => {
                let length = usize::try_from(length)
                    .ok()
                    .filter(|length| *length <= reader.bytes.len())
                    .ok_or_else(|| bad("insufficient data left in message"))?;
                let value = Datum::parse_binary(element, reader.take(length)?);
                value.map_err(|error| match error.sqlstate {
                    SqlState::INVALID_BINARY_REPRESENTATION => bad(format!(
                        "improper binary format in array element {}",
                        at + 1
                    )),
                    _ => error,
                })?
            }
        });
    }
    if !reader.bytes.is_empty() {
        let name = element.array_of().map_or("anyarray", SqlType::base_name);
        return Err(bad(format!("incorrect binary data format for type {name}")));
    }
    Ok(Datum::Array(ArrayValue::new(&dimensions, elements)?.into()))
}
