//! The row codec: the bytes that the heap keeps for a row.
//!
//! ```text
//! header u16: number of columns, top bit set when a NULL bitmap is there
//! slots:      one per column, at an offset that depends on the column alone;
//!             a value of fixed width, or the end (u16) of a value of variable length
//! bitmap:     a bit per column, set for NULL (only with a NULL in the row)
//! values:     those of variable length, one after the other
//! ```
//! Numbers are little endian. Any column is reached without looking at the others. A row that
//! has fewer columns than the layout was written before the others were added: they have the value
//! that the layout keeps for such rows, or are NULL. A dropped column keeps its slot, in which
//! nothing new is written.

mod arrays;

use std::sync::Arc;

use bytes::{BufMut, BytesMut};

use crate::context::TypeContext;
use crate::datum::Datum;
use crate::error::{SqlState, TypeError, TypeResult};
use crate::format::Format;
use crate::identity::SqlType;
use crate::interval::Interval;
use crate::json::Jsonb;
use crate::numeric;
use crate::padding::{missing_blanks, padded, without_blanks};
use crate::text::without_zero;
use crate::timetz::TimeTz;
use crate::wire::{put_integer, put_with_length, uuid_text, write_string};

const HEADER: usize = 2;
const HAS_NULLS: u16 = 0x8000;
/// Bytes of the slot of a column of variable length.
const END_SLOT: usize = 2;
/// Most columns of a table (PostgreSQL's limit).
pub const MAX_COLUMNS: usize = 1600;

/// The physical form of a column, as a table keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhysicalColumn {
    /// Type of its values; none of a column that was dropped.
    pub ty: Option<SqlType>,
    /// Bytes of its slot, or `None` for values of variable length.
    pub width: Option<usize>,
    /// The stored bytes of its value in rows that were written before it was added.
    pub missing: Option<Arc<[u8]>>,
}

impl PhysicalColumn {
    /// A column of a new table.
    pub fn new(ty: SqlType) -> PhysicalColumn {
        PhysicalColumn {
            ty: Some(ty),
            width: fixed_width(ty),
            missing: None,
        }
    }
}

/// A column that has values.
#[derive(Debug, Clone)]
struct Slot {
    ty: SqlType,
    /// Its number among all columns, from 0.
    number: usize,
    offset: usize,
    /// Width of the value, or `None` for a variable length.
    width: Option<usize>,
    /// Offset of the slot with the end of the variable value before this one.
    previous_end: Option<usize>,
    /// The value in rows that end before it.
    missing: Option<Arc<[u8]>>,
}

/// Where the columns of a table's rows are. Columns that were dropped have no position: `column`
/// counts the others, from 0.
#[derive(Debug, Clone)]
pub struct RowLayout {
    slots: Vec<Slot>,
    /// End of the slots of the first so many columns, dropped ones included.
    ends: Vec<usize>,
    /// Numbers of dropped columns of variable length, with the offsets of the ends of their values.
    holes: Vec<(usize, usize)>,
}

/// Bytes of a value of fixed width.
pub fn fixed_width(ty: SqlType) -> Option<usize> {
    Some(match ty {
        SqlType::Bool => 1,
        SqlType::Int2 => 2,
        SqlType::Int4 | SqlType::Float4 | SqlType::Date => 4,
        SqlType::Int8
        | SqlType::Float8
        | SqlType::Time(_)
        | SqlType::Timestamp(_)
        | SqlType::Timestamptz(_) => 8,
        SqlType::Timetz(_) => 12,
        SqlType::Interval(_) | SqlType::Uuid => 16,
        _ if ty.is_oid() => 4,
        _ => return None,
    })
}

/// XX001: a row that is not as it was written.
pub fn damaged(what: &str) -> TypeError {
    TypeError::new(SqlState::DATA_CORRUPTED, format!("damaged row: {what}"))
}

fn u16_at(row: &[u8], offset: usize) -> TypeResult<u16> {
    match row.get(offset..offset + 2) {
        Some(bytes) => Ok(u16::from_le_bytes([bytes[0], bytes[1]])),
        None => Err(damaged("it ends within a slot")),
    }
}

/// The bytes of a fixed slot as an array.
pub fn array<const N: usize>(bytes: &[u8]) -> TypeResult<[u8; N]> {
    bytes
        .try_into()
        .map_err(|_| damaged("a slot has the wrong width"))
}

/// The stored bytes of a string.
pub fn str_of(bytes: &[u8]) -> TypeResult<&str> {
    std::str::from_utf8(bytes).map_err(|_| damaged("a string is not UTF-8"))
}

impl RowLayout {
    /// The layout of a new table with columns of these types.
    pub fn new(types: &[SqlType]) -> RowLayout {
        let columns: Vec<PhysicalColumn> = types.iter().copied().map(PhysicalColumn::new).collect();
        RowLayout::of(&columns)
    }

    /// The layout of a table with these columns, dropped ones included.
    pub fn of(columns: &[PhysicalColumn]) -> RowLayout {
        let mut layout = RowLayout {
            slots: Vec::with_capacity(columns.len()),
            ends: vec![HEADER],
            holes: Vec::new(),
        };
        let (mut offset, mut previous_end) = (HEADER, None);
        for (number, column) in columns.iter().enumerate() {
            match column.ty {
                Some(ty) => layout.slots.push(Slot {
                    ty,
                    number,
                    offset,
                    width: column.width,
                    previous_end,
                    missing: column.missing.clone(),
                }),
                None if column.width.is_none() => layout.holes.push((number, offset)),
                None => {}
            }
            if column.width.is_none() {
                previous_end = Some(offset);
            }
            offset += column.width.unwrap_or(END_SLOT);
            layout.ends.push(offset);
        }
        layout
    }

    /// Number of columns that were not dropped.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is no column.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The type of a column.
    pub fn column_type(&self, column: usize) -> Option<SqlType> {
        self.slots.get(column).map(|slot| slot.ty)
    }

    /// Replaces `out` by the encoding of `values`, one per column, each of its column's type.
    pub fn encode(&self, values: &[Datum], out: &mut Vec<u8>) -> TypeResult<()> {
        if values.len() != self.slots.len() {
            return Err(TypeError::internal("a row has the wrong number of values"));
        }
        out.clear();
        let has_nulls = values.iter().any(Datum::is_null);
        let flag = if has_nulls { HAS_NULLS } else { 0 };
        let columns = self.ends.len() - 1;
        let count = u16::try_from(columns).unwrap_or(u16::MAX);
        let slots_end = self.ends[columns];
        out.resize(slots_end, 0);
        out[..HEADER].copy_from_slice(&(count | flag).to_le_bytes());
        if has_nulls {
            out.resize(slots_end + columns.div_ceil(8), 0);
            let nulls = self.slots.iter().zip(values);
            for (slot, _) in nulls.filter(|(_, value)| value.is_null()) {
                out[slots_end + slot.number / 8] |= 1 << (slot.number % 8);
            }
        }
        let values_start = out.len();
        let mut holes = self.holes.iter().peekable();
        for (slot, value) in self.slots.iter().zip(values) {
            while let Some((_, offset)) = holes.next_if(|(number, _)| *number < slot.number) {
                end_value(out, *offset, values_start)?;
            }
            if let Some(width) = slot.width {
                let place = out.get_mut(slot.offset..slot.offset + width);
                let outside = || TypeError::internal("a slot lies outside of its row");
                encode_fixed(slot.ty, value, place.ok_or_else(outside)?)?;
                continue;
            }
            encode_variable(slot.ty, value, out)?;
            end_value(out, slot.offset, values_start)?;
        }
        for (_, offset) in holes {
            end_value(out, *offset, values_start)?;
        }
        Ok(())
    }

    /// The stored bytes of a column; `None` for NULL.
    #[inline]
    pub fn bytes<'a>(&'a self, row: &'a [u8], column: usize) -> TypeResult<Option<&'a [u8]>> {
        let Some(slot) = self.slots.get(column) else {
            return Err(TypeError::internal("no such column in the row layout"));
        };
        let header = u16_at(row, 0)?;
        let count = usize::from(header & !HAS_NULLS);
        if slot.number >= count {
            return Ok(slot.missing.as_deref());
        }
        let Some(slots_end) = self.ends.get(count) else {
            return Err(damaged("it has more columns than its table"));
        };
        let mut values_start = *slots_end;
        if header & HAS_NULLS != 0 {
            let byte = row
                .get(values_start + slot.number / 8)
                .ok_or_else(|| damaged("no bitmap"))?;
            if byte & (1 << (slot.number % 8)) != 0 {
                return Ok(None);
            }
            values_start += count.div_ceil(8);
        }
        let range = match slot.width {
            Some(width) => slot.offset..slot.offset + width,
            None => {
                let start = slot
                    .previous_end
                    .map_or(Ok(0), |offset| u16_at(row, offset))?;
                let end = u16_at(row, slot.offset)?;
                values_start + usize::from(start)..values_start + usize::from(end)
            }
        };
        row.get(range)
            .map(Some)
            .ok_or_else(|| damaged("a value lies outside of it"))
    }

    /// Whether a column is NULL.
    pub fn is_null(&self, row: &[u8], column: usize) -> TypeResult<bool> {
        Ok(self.bytes(row, column)?.is_none())
    }

    /// One column's value.
    pub fn get(&self, row: &[u8], column: usize) -> TypeResult<Datum> {
        match self.bytes(row, column)? {
            None => Ok(Datum::Null),
            Some(bytes) => decode(self.slots[column].ty, bytes),
        }
    }

    /// All columns.
    pub fn decode(&self, row: &[u8]) -> TypeResult<Vec<Datum>> {
        (0..self.len())
            .map(|column| self.get(row, column))
            .collect()
    }

    /// Appends a DataRow field (length, value) for a column, straight from the row's bytes.
    pub fn put_field(
        &self,
        row: &[u8],
        column: usize,
        format: Format,
        cx: &TypeContext,
        out: &mut BytesMut,
    ) -> TypeResult<()> {
        let Some(bytes) = self.bytes(row, column)? else {
            out.put_i32(-1);
            return Ok(());
        };
        let ty = self.slots[column].ty;
        match (ty, format) {
            (SqlType::Int4, Format::Text) => {
                let value = i32::from_le_bytes(array(bytes)?);
                put_with_length(out, |out| put_integer(i64::from(value), out));
            }
            (SqlType::Int8, Format::Text) => {
                let value = i64::from_le_bytes(array(bytes)?);
                put_with_length(out, |out| put_integer(value, out));
            }
            (SqlType::Uuid, Format::Text) => {
                let text = uuid_text(&array(bytes)?);
                out.put_i32(36);
                out.put_slice(&text);
            }
            (SqlType::Char(Some(length)), _) => {
                let text = str_of(bytes)?;
                let blanks = missing_blanks(text, length);
                put_with_length(out, |out| {
                    out.put_slice(text.as_bytes());
                    out.put_bytes(b' ', blanks);
                });
            }
            _ if ty.is_string() => {
                let text = str_of(bytes)?;
                put_with_length(out, |out| write_string(text, ty, out));
            }
            _ => decode(ty, bytes)?.put_field(ty, format, cx, out),
        }
        Ok(())
    }
}

/// Notes in the slot at `offset` that a value of variable length ends here.
fn end_value(out: &mut [u8], offset: usize, values_start: usize) -> TypeResult<()> {
    let end = u16::try_from(out.len() - values_start).map_err(|_| too_large(out.len()))?;
    let place = out.get_mut(offset..offset + END_SLOT);
    let outside = || TypeError::internal("a slot lies outside of its row");
    place
        .ok_or_else(outside)?
        .copy_from_slice(&end.to_le_bytes());
    Ok(())
}

/// The bytes of a value as a row stores them; `None` for NULL.
///
/// # Errors
/// XX000 for a value that is not of the type.
pub fn stored(ty: SqlType, value: &Datum) -> TypeResult<Option<Vec<u8>>> {
    if value.is_null() {
        return Ok(None);
    }
    let mut bytes = vec![0; fixed_width(ty).unwrap_or(0)];
    if bytes.is_empty() {
        encode_variable(ty, value, &mut bytes)?;
    } else {
        encode_fixed(ty, value, &mut bytes)?;
    }
    Ok(Some(bytes))
}

fn too_large(size: usize) -> TypeError {
    let message = format!("row is too big: size {size}, maximum size {}", u16::MAX);
    TypeError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
}

fn wrong_type(ty: SqlType) -> TypeError {
    TypeError::internal(format!(
        "a value for a column of type {} is of another",
        ty.name()
    ))
}

/// Writes a value to the place of its type's width.
fn encode_fixed(ty: SqlType, value: &Datum, to: &mut [u8]) -> TypeResult<()> {
    match (ty, value) {
        (_, Datum::Null) => {}
        (SqlType::Bool, Datum::Bool(v)) => to[0] = u8::from(*v),
        (SqlType::Int2, Datum::Int2(v)) => to.copy_from_slice(&v.to_le_bytes()),
        (SqlType::Int4, Datum::Int4(v)) | (SqlType::Date, Datum::Date(v)) => {
            to.copy_from_slice(&v.to_le_bytes());
        }
        (SqlType::Int8, Datum::Int8(v))
        | (SqlType::Time(_), Datum::Time(v))
        | (SqlType::Timestamp(_), Datum::Timestamp(v))
        | (SqlType::Timestamptz(_), Datum::Timestamptz(v)) => {
            to.copy_from_slice(&v.to_le_bytes());
        }
        (SqlType::Float4, Datum::Float4(v)) => to.copy_from_slice(&v.to_le_bytes()),
        (SqlType::Float8, Datum::Float8(v)) => to.copy_from_slice(&v.to_le_bytes()),
        (SqlType::Uuid, Datum::Uuid(v)) => to.copy_from_slice(v),
        (SqlType::Timetz(_), Datum::Timetz(v)) => {
            to[..8].copy_from_slice(&v.micros.to_le_bytes());
            to[8..].copy_from_slice(&v.west.to_le_bytes());
        }
        (SqlType::Interval(_), Datum::Interval(v)) => {
            to[..8].copy_from_slice(&v.micros.to_le_bytes());
            to[8..12].copy_from_slice(&v.days.to_le_bytes());
            to[12..].copy_from_slice(&v.months.to_le_bytes());
        }
        (ty, Datum::Oid(v)) if ty.is_oid() => to.copy_from_slice(&v.to_le_bytes()),
        (ty, _) => return Err(wrong_type(ty)),
    }
    Ok(())
}

fn encode_variable(ty: SqlType, value: &Datum, out: &mut Vec<u8>) -> TypeResult<()> {
    match (ty, value) {
        (_, Datum::Null) => {}
        (SqlType::Numeric(_), Datum::Numeric(v)) => numeric::encode(v, out),
        (SqlType::Bytea, Datum::Bytea(v)) => out.extend_from_slice(v),
        (SqlType::Jsonb, Datum::Jsonb(v)) => out.extend_from_slice(v.bytes()),
        (SqlType::Numeric(_) | SqlType::Bytea | SqlType::Jsonb, _) => return Err(wrong_type(ty)),
        (SqlType::Array(element), Datum::Array(v)) => arrays::encode(*element, v, out)?,
        (_, Datum::Array(_)) if ty.is_vector() => {
            value.write_text(ty, &TypeContext::default(), out);
        }
        // The type's length says how many blanks there were.
        (SqlType::Char(Some(_)), Datum::Char(v)) => {
            out.extend_from_slice(without_zero(without_blanks(v))?.as_bytes());
        }
        (SqlType::Char(None), Datum::Char(v)) => {
            out.extend_from_slice(without_zero(v)?.as_bytes());
        }
        (SqlType::Char(_), _) => return Err(wrong_type(ty)),
        // A row cannot hold a text with a zero byte, so a key for it is refused too.
        (_, Datum::Text(v)) => out.extend_from_slice(without_zero(v)?.as_bytes()),
        _ => return Err(wrong_type(ty)),
    }
    Ok(())
}

/// The value of a column of type `ty` from its stored bytes; XX001 for bytes that are none.
pub fn decode(ty: SqlType, bytes: &[u8]) -> TypeResult<Datum> {
    Ok(match ty {
        SqlType::Bool => Datum::Bool(array::<1>(bytes)?[0] != 0),
        SqlType::Int2 => Datum::Int2(i16::from_le_bytes(array(bytes)?)),
        SqlType::Int4 => Datum::Int4(i32::from_le_bytes(array(bytes)?)),
        SqlType::Int8 => Datum::Int8(i64::from_le_bytes(array(bytes)?)),
        SqlType::Float4 => Datum::Float4(f32::from_le_bytes(array(bytes)?)),
        SqlType::Float8 => Datum::Float8(f64::from_le_bytes(array(bytes)?)),
        SqlType::Date => Datum::Date(i32::from_le_bytes(array(bytes)?)),
        SqlType::Time(_) => Datum::Time(i64::from_le_bytes(array(bytes)?)),
        SqlType::Timestamp(_) => Datum::Timestamp(i64::from_le_bytes(array(bytes)?)),
        SqlType::Timestamptz(_) => Datum::Timestamptz(i64::from_le_bytes(array(bytes)?)),
        SqlType::Uuid => Datum::Uuid(array(bytes)?),
        SqlType::Timetz(_) => {
            let all: [u8; 12] = array(bytes)?;
            Datum::Timetz(TimeTz {
                micros: i64::from_le_bytes(array(&all[..8])?),
                west: i32::from_le_bytes(array(&all[8..])?),
            })
        }
        SqlType::Interval(_) => {
            let all: [u8; 16] = array(bytes)?;
            Datum::Interval(Interval {
                micros: i64::from_le_bytes(array(&all[..8])?),
                days: i32::from_le_bytes(array(&all[8..12])?),
                months: i32::from_le_bytes(array(&all[12..])?),
            })
        }
        SqlType::Numeric(_) => {
            Datum::Numeric(numeric::decode(bytes).ok_or_else(|| damaged("a bad numeric"))?)
        }
        SqlType::Bytea => Datum::Bytea(bytes.to_vec()),
        SqlType::Jsonb => Datum::Jsonb(Jsonb::from_bytes(bytes.into())),
        SqlType::Char(Some(length)) => Datum::Char(padded(str_of(bytes)?, length)),
        SqlType::Char(None) => Datum::Char(str_of(bytes)?.to_owned()),
        SqlType::Array(element) => arrays::decode(*element, bytes)?,
        _ if ty.is_oid() => Datum::Oid(u32::from_le_bytes(array(bytes)?)),
        _ if ty.is_vector() => Datum::parse_text(ty, str_of(bytes)?, &TypeContext::default())
            .map_err(|_| damaged("a bad vector"))?,
        _ => Datum::Text(str_of(bytes)?.to_owned()),
    })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
