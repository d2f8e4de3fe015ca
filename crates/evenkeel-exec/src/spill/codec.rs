//! A row's bytes in a temporary file: its length, then a tag and the bytes of each value. The
//! same process reads them, so nothing here is a format; what is read is checked all the same.

use std::sync::Arc;

use evenkeel_types::enums::{EnumType, EnumValue};
use evenkeel_types::{
    ArrayValue, Datum, Dimension, Interval, Jsonb, Numeric, NumericSign, RecordValue, SqlState,
    SqlType, TimeTz, TupleId,
};

use crate::error::{ExecError, ExecResult};

/// Most arrays and rows within one another; a statement cannot nest them as deep.
const DEPTH: usize = 1000;
/// Bytes of a row's length.
pub(super) const LENGTH: usize = 4;

fn damaged() -> ExecError {
    ExecError::new(
        SqlState::DATA_CORRUPTED,
        "a damaged row in a temporary file",
    )
}

/// Appends a row.
pub(super) fn put_row(row: &[Datum], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; LENGTH]);
    for value in row {
        put(value, out);
    }
    let length = (out.len() - start - LENGTH) as u32;
    out[start..start + LENGTH].copy_from_slice(&length.to_le_bytes());
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn put_tagged(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    out.extend_from_slice(bytes);
}

fn put(value: &Datum, out: &mut Vec<u8>) {
    match value {
        Datum::Null => out.push(0),
        Datum::Bool(v) => put_tagged(1, &[u8::from(*v)], out),
        Datum::Int2(v) => put_tagged(2, &v.to_le_bytes(), out),
        Datum::Int4(v) => put_tagged(3, &v.to_le_bytes(), out),
        Datum::Int8(v) => put_tagged(4, &v.to_le_bytes(), out),
        Datum::Float4(v) => put_tagged(5, &v.to_le_bytes(), out),
        Datum::Float8(v) => put_tagged(6, &v.to_le_bytes(), out),
        Datum::Numeric(v) => {
            out.push(7);
            put_numeric(v, out);
        }
        Datum::Text(v) => {
            out.push(8);
            put_bytes(v.as_bytes(), out);
        }
        Datum::Char(v) => {
            out.push(19);
            put_bytes(v.as_bytes(), out);
        }
        Datum::Date(v) => put_tagged(9, &v.to_le_bytes(), out),
        Datum::Time(v) => put_tagged(10, &v.to_le_bytes(), out),
        Datum::Timetz(v) => {
            put_tagged(20, &v.micros.to_le_bytes(), out);
            out.extend_from_slice(&v.west.to_le_bytes());
        }
        Datum::Timestamp(v) => put_tagged(11, &v.to_le_bytes(), out),
        Datum::Timestamptz(v) => put_tagged(12, &v.to_le_bytes(), out),
        Datum::Interval(v) => {
            put_tagged(13, &v.months.to_le_bytes(), out);
            out.extend_from_slice(&v.days.to_le_bytes());
            out.extend_from_slice(&v.micros.to_le_bytes());
        }
        Datum::Uuid(v) => put_tagged(14, v, out),
        Datum::Tid(v) => {
            put_tagged(23, &v.block.to_le_bytes(), out);
            out.extend_from_slice(&v.slot.to_le_bytes());
        }
        Datum::Xid8(v) => put_tagged(24, &v.to_le_bytes(), out),
        Datum::Bytea(v) => {
            out.push(15);
            put_bytes(v, out);
        }
        Datum::Oid(v) => put_tagged(16, &v.to_le_bytes(), out),
        Datum::Array(v) => put_array(v, out),
        Datum::Record(v) => {
            out.push(18);
            out.extend_from_slice(&(v.fields().len() as u32).to_le_bytes());
            for (ty, field) in v.types().iter().zip(v.fields()) {
                let (oid, modifier) = type_words(*ty);
                out.extend_from_slice(&oid.to_le_bytes());
                out.extend_from_slice(&modifier.to_le_bytes());
                put(field, out);
            }
            out.extend_from_slice(&(v.names().len() as u32).to_le_bytes());
            for name in v.names().iter() {
                put_bytes(name.as_bytes(), out);
            }
        }
        Datum::Enum(v) => {
            put_tagged(22, &v.ty.number().to_le_bytes(), out);
            out.extend_from_slice(&v.position.to_le_bytes());
        }
        Datum::Jsonb(v) => {
            out.push(21);
            put_bytes(v.bytes(), out);
        }
    }
}

/// In the place of an oid: the modifier is the number of an enumerated type, or of the type of its
/// arrays.
const ENUM: u32 = 0;
const ENUM_ARRAY: u32 = 1;

/// A type in two words.
fn type_words(ty: SqlType) -> (u32, i32) {
    match ty {
        SqlType::Enum(of) => (ENUM, of.number().cast_signed()),
        SqlType::Array(SqlType::Enum(of), _) => (ENUM_ARRAY, of.number().cast_signed()),
        other => (other.oid(), other.typmod()),
    }
}

fn type_of(oid: u32, modifier: i32) -> Option<SqlType> {
    let defined = || EnumType::numbered(modifier.cast_unsigned());
    match oid {
        ENUM => defined().map(SqlType::Enum),
        ENUM_ARRAY => defined().and_then(|of| SqlType::Enum(of).array_of()),
        oid => SqlType::from_oid(oid, modifier),
    }
}

fn put_array(array: &ArrayValue, out: &mut Vec<u8>) {
    put_tagged(17, &[array.dimensions().len() as u8], out);
    for dimension in array.dimensions() {
        out.extend_from_slice(&dimension.length.to_le_bytes());
        out.extend_from_slice(&dimension.lower.to_le_bytes());
    }
    out.extend_from_slice(&(array.elements().len() as u32).to_le_bytes());
    for element in array.elements() {
        put(element, out);
    }
}

fn put_numeric(number: &Numeric, out: &mut Vec<u8>) {
    let sign = match number.sign() {
        NumericSign::NegativeInfinity => 0,
        NumericSign::Negative => 1,
        NumericSign::Positive => 2,
        NumericSign::PositiveInfinity => 3,
        NumericSign::NaN => 4,
    };
    out.push(sign);
    out.extend_from_slice(&number.weight().to_le_bytes());
    out.extend_from_slice(&number.dscale().to_le_bytes());
    out.extend_from_slice(&(number.digits().len() as u16).to_le_bytes());
    for digit in number.digits() {
        out.extend_from_slice(&digit.to_le_bytes());
    }
}

/// Reads the values of a row's bytes, without its length.
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, length: usize) -> ExecResult<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(damaged)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> ExecResult<[u8; N]> {
        self.bytes(N)?.try_into().map_err(|_| damaged())
    }

    fn long(&mut self) -> ExecResult<&'a [u8]> {
        let length = u32::from_le_bytes(self.array()?);
        self.bytes(length as usize)
    }

    /// The next value.
    pub fn value(&mut self) -> ExecResult<Datum> {
        self.nested(0)
    }

    /// Values, each of a byte at least, so that a damaged count allocates nothing.
    fn values(&mut self, count: usize, depth: usize) -> ExecResult<Vec<Datum>> {
        if count > self.0.len() {
            return Err(damaged());
        }
        (0..count).map(|_| self.nested(depth + 1)).collect()
    }

    fn array_value(&mut self, depth: usize) -> ExecResult<Datum> {
        let [dimensions] = self.array()?;
        let mut shape = Vec::new();
        for _ in 0..dimensions {
            shape.push(Dimension {
                length: i32::from_le_bytes(self.array()?),
                lower: i32::from_le_bytes(self.array()?),
            });
        }
        let count = u32::from_le_bytes(self.array()?);
        let elements = self.values(count as usize, depth)?;
        Ok(Datum::Array(Arc::new(ArrayValue::new(&shape, elements)?)))
    }

    fn record(&mut self, depth: usize) -> ExecResult<Datum> {
        let count = u32::from_le_bytes(self.array()?) as usize;
        if count > self.0.len() {
            return Err(damaged());
        }
        let (mut types, mut fields) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let oid = u32::from_le_bytes(self.array()?);
            let modifier = i32::from_le_bytes(self.array()?);
            types.push(type_of(oid, modifier).ok_or_else(damaged)?);
            fields.push(self.nested(depth + 1)?);
        }
        let names = u32::from_le_bytes(self.array()?);
        let names: ExecResult<Vec<Arc<str>>> =
            (0..names).map(|_| Ok(self.string()?.into())).collect();
        let record = RecordValue::new(types.into(), fields.into()).named(names?.into());
        Ok(Datum::Record(Arc::new(record)))
    }

    fn nested(&mut self, depth: usize) -> ExecResult<Datum> {
        let [tag] = self.array()?;
        Ok(match tag {
            0 => Datum::Null,
            1 => Datum::Bool(self.array::<1>()? != [0]),
            2 => Datum::Int2(i16::from_le_bytes(self.array()?)),
            3 => Datum::Int4(i32::from_le_bytes(self.array()?)),
            4 => Datum::Int8(i64::from_le_bytes(self.array()?)),
            5 => Datum::Float4(f32::from_le_bytes(self.array()?)),
            6 => Datum::Float8(f64::from_le_bytes(self.array()?)),
            7 => Datum::Numeric(self.numeric()?),
            8 => Datum::Text(self.string()?),
            9 => Datum::Date(i32::from_le_bytes(self.array()?)),
            10 => Datum::Time(i64::from_le_bytes(self.array()?)),
            11 => Datum::Timestamp(i64::from_le_bytes(self.array()?)),
            12 => Datum::Timestamptz(i64::from_le_bytes(self.array()?)),
            13 => Datum::Interval(Interval {
                months: i32::from_le_bytes(self.array()?),
                days: i32::from_le_bytes(self.array()?),
                micros: i64::from_le_bytes(self.array()?),
            }),
            14 => Datum::Uuid(self.array()?),
            15 => Datum::Bytea(self.long()?.to_vec()),
            16 => Datum::Oid(u32::from_le_bytes(self.array()?)),
            17 if depth < DEPTH => self.array_value(depth)?,
            18 if depth < DEPTH => self.record(depth)?,
            19 => Datum::Char(self.string()?),
            20 => Datum::Timetz(TimeTz {
                micros: i64::from_le_bytes(self.array()?),
                west: i32::from_le_bytes(self.array()?),
            }),
            22 => {
                let number = u32::from_le_bytes(self.array()?);
                Datum::Enum(EnumValue {
                    ty: EnumType::numbered(number).ok_or_else(damaged)?,
                    position: i64::from_le_bytes(self.array()?),
                })
            }
            23 => Datum::Tid(TupleId {
                block: u32::from_le_bytes(self.array()?),
                slot: u16::from_le_bytes(self.array()?),
            }),
            24 => Datum::Xid8(u64::from_le_bytes(self.array()?)),
            21 => Datum::Jsonb(Jsonb::from_bytes(self.long()?.into())),
            _ => return Err(damaged()),
        })
    }

    fn string(&mut self) -> ExecResult<String> {
        let text = std::str::from_utf8(self.long()?).map_err(|_| damaged())?;
        Ok(text.to_owned())
    }

    fn numeric(&mut self) -> ExecResult<Numeric> {
        let [sign] = self.array()?;
        let sign = match sign {
            0 => NumericSign::NegativeInfinity,
            1 => NumericSign::Negative,
            2 => NumericSign::Positive,
            3 => NumericSign::PositiveInfinity,
            4 => NumericSign::NaN,
            _ => return Err(damaged()),
        };
        let weight = i16::from_le_bytes(self.array()?);
        let dscale = u16::from_le_bytes(self.array()?);
        let count = usize::from(u16::from_le_bytes(self.array()?));
        let digits = self.bytes(count * 2)?.chunks_exact(2);
        let digits = digits.map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        Numeric::from_parts(sign, weight, dscale, digits.collect()).ok_or_else(damaged)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_row_is_read_as_it_was_written(
            (_, row) in evenkeel_types::testing::any_row()
        ) {
            let mut bytes = Vec::new();
            put_row(&row, &mut bytes);
            let mut reader = Reader(&bytes[LENGTH..]);
            for value in &row {
                let read = reader.value().unwrap();
                prop_assert!(read.compare(value).is_eq() && read.is_null() == value.is_null());
                prop_assert_eq!(format!("{:?}", read), format!("{:?}", value));
            }
            prop_assert!(reader.0.is_empty());
        }

        #[test]
        fn bytes_that_are_no_row_are_refused(
            bytes in proptest::collection::vec(any::<u8>(), 0..64)
        ) {
            let mut reader = Reader(&bytes);
            while reader.value().is_ok() {}
        }
    }
}
