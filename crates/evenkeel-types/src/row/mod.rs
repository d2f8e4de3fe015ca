//! The row codec: the bytes that the heap keeps for a row.
//!
//! ```text
//! header u16: number of columns, top bit set when a NULL bitmap is there, the next one when a
//!             bitmap of tagged values is
//! slots:      one per column, at an offset that depends on the column alone;
//!             a value of fixed width, or the end (u16) of a value of variable length
//! bitmap:     a bit per column, set for NULL (only with a NULL in the row)
//! bitmap:     a bit per column, set for a tagged value (only with one in the row)
//! values:     those of variable length, one after the other
//! ```
//! Numbers are little endian. Any column is reached without looking at the others. A row that
//! has fewer columns than the layout was written before the others were added: they have the value
//! that the layout keeps for such rows, or are NULL. A dropped column keeps its slot, in which
//! nothing new is written.

mod arrays;
mod large;
mod tagged;

use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use smallvec::SmallVec;

use crate::context::TypeContext;
use crate::datum::Datum;
use crate::enums::EnumValue;
use crate::error::{SqlState, TypeError, TypeResult};
use crate::format::Format;
use crate::identity::SqlType;
use crate::interval::Interval;
use crate::json::Jsonb;
use crate::numeric;
use crate::padding::{missing_blanks, padded, without_blanks};
use crate::system_columns::TupleId;
use crate::text::without_zero;
use crate::timetz::TimeTz;
use crate::wire::{put_integer, put_with_length, uuid_text, write_string};

use self::large::Piece;
pub use self::large::{LargeRow, ROW_TARGET, Storage, ToMove};
pub use self::tagged::{EXTERNAL_BYTES, External, MAX_VALUE, Stored, decompressed};

const HEADER: usize = 2;
const HAS_NULLS: u16 = 0x8000;
const HAS_TAGS: u16 = 0x4000;
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
    /// Numbers and slots' offsets of all columns of variable length, dropped ones included.
    variable: Vec<(usize, usize)>,
    /// Numbers of dropped columns of variable length, with the offsets of the ends of their values.
    holes: Vec<(usize, usize)>,
}

/// Bytes of a value of fixed width.
pub fn fixed_width(ty: SqlType) -> Option<usize> {
    Some(match ty {
        SqlType::Bool => 1,
        SqlType::Int2 => 2,
        SqlType::Int4 | SqlType::Float4 | SqlType::Date | SqlType::Xid | SqlType::Cid => 4,
        SqlType::Int8
        | SqlType::Float8
        | SqlType::Time(_)
        | SqlType::Timestamp(_)
        | SqlType::Timestamptz(_)
        | SqlType::Xid8
        | SqlType::Enum(_) => 8,
        SqlType::Tid => 6,
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
            variable: Vec::new(),
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
                layout.variable.push((number, offset));
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
    /// Nothing is compressed.
    ///
    /// # Errors
    /// 54000 for a row that is too long.
    pub fn encode(&self, values: &[Datum], out: &mut Vec<u8>) -> TypeResult<()> {
        match self.encode_row(values, None, &[], out)? {
            Some(large) => large.finish(out),
            None => Ok(()),
        }
    }

    /// As [`RowLayout::encode`], for a row that may be long, or keeps values of another version:
    /// then the answer is what is to be settled before it has bytes. `indexed`: the columns in keys
    /// of indexes.
    ///
    /// # Errors
    /// XX000 for values that are not the columns'; 22021.
    pub fn encode_row(
        &self,
        values: &[Datum],
        old: Option<Kept<'_>>,
        indexed: &[usize],
        out: &mut Vec<u8>,
    ) -> TypeResult<Option<LargeRow>> {
        if values.len() != self.slots.len() {
            return Err(TypeError::internal("a row has the wrong number of values"));
        }
        let kept = old.map_or_else(|| Ok(SmallVec::new()), |old| self.kept(&old))?;
        let is_kept = |column| kept.iter().any(|(at, _)| *at == column);
        let nulls = self.slots.iter().zip(values).enumerate();
        let is_null =
            |(column, (_, value)): &(usize, (_, &Datum))| value.is_null() && !is_kept(*column);
        out.clear();
        let has_nulls = nulls.clone().any(|value| is_null(&value));
        let flag = if has_nulls { HAS_NULLS } else { 0 };
        let columns = self.ends.len() - 1;
        let count = u16::try_from(columns).unwrap_or(u16::MAX);
        let slots_end = self.ends[columns];
        out.resize(slots_end, 0);
        out[..HEADER].copy_from_slice(&(count | flag).to_le_bytes());
        if has_nulls {
            out.resize(slots_end + columns.div_ceil(8), 0);
            for (_, (slot, _)) in nulls.filter(is_null) {
                out[slots_end + slot.number / 8] |= 1 << (slot.number % 8);
            }
        }
        let values_start = out.len();
        let mut ends: SmallVec<[End; 8]> = SmallVec::new();
        let mut holes = self.holes.iter().peekable();
        for (column, (slot, value)) in self.slots.iter().zip(values).enumerate() {
            while let Some(hole) = holes.next_if(|(number, _)| *number < slot.number) {
                ends.push(End::of_hole(*hole, out.len()));
            }
            if let Some(width) = slot.width {
                let place = out.get_mut(slot.offset..slot.offset + width);
                let outside = || TypeError::internal("a slot lies outside of its row");
                encode_fixed(slot.ty, value, place.ok_or_else(outside)?)?;
                continue;
            }
            if !is_kept(column) {
                encode_variable(slot.ty, value, out)?;
            }
            ends.push(End {
                column,
                number: slot.number,
                slot: slot.offset,
                storage: Storage::of(slot.ty),
                end: out.len(),
            });
        }
        ends.extend(holes.map(|hole| End::of_hole(*hole, out.len())));
        if kept.is_empty() && out.len() <= ROW_TARGET {
            for end in &ends {
                put_end(out, end.slot, end.end - values_start)?;
            }
            return Ok(None);
        }
        let bytes = std::mem::take(out);
        let start = (slots_end, values_start);
        Ok(Some(large_row(
            bytes,
            start,
            columns,
            (&ends, &kept),
            indexed,
        )))
    }

    /// The tagged values that a new version keeps of the old one.
    fn kept<'r>(&'r self, old: &Kept<'r>) -> TypeResult<KeptValues<'r>> {
        let mut kept = SmallVec::new();
        if u16_at(old.row, 0)? & HAS_TAGS == 0 {
            return Ok(kept);
        }
        for column in (0..self.len()).filter(|column| !old.assigned.contains(column)) {
            match self.stored(old.row, column)? {
                None | Some(Stored::Plain(_)) => {}
                Some(tagged) => kept.push((column, tagged)),
            }
        }
        Ok(kept)
    }

    /// The stored form of a column; `None` for NULL.
    #[inline]
    pub fn stored<'a>(&'a self, row: &'a [u8], column: usize) -> TypeResult<Option<Stored<'a>>> {
        let Some(slot) = self.slots.get(column) else {
            return Err(TypeError::internal("no such column in the row layout"));
        };
        let header = u16_at(row, 0)?;
        let count = usize::from(header & !(HAS_NULLS | HAS_TAGS));
        if slot.number >= count {
            return Ok(slot.missing.as_deref().map(Stored::Plain));
        }
        let Some(slots_end) = self.ends.get(count) else {
            return Err(damaged("it has more columns than its table"));
        };
        let mut values_start = *slots_end;
        if header & HAS_NULLS != 0 {
            if is_set(row, values_start, slot.number)? {
                return Ok(None);
            }
            values_start += count.div_ceil(8);
        }
        let Some(width) = slot.width else {
            let mut tagged = false;
            if header & HAS_TAGS != 0 {
                tagged = is_set(row, values_start, slot.number)?;
                values_start += count.div_ceil(8);
            }
            let bytes = variable(row, values_start, (slot.previous_end, slot.offset))?;
            let plain = (!tagged).then_some(Stored::Plain(bytes));
            return plain
                .map_or_else(|| Stored::from_tagged(bytes), Ok)
                .map(Some);
        };
        let bytes = row.get(slot.offset..slot.offset + width);
        let bytes = bytes.ok_or_else(|| damaged("a value lies outside of it"))?;
        Ok(Some(Stored::Plain(bytes)))
    }

    /// Calls `found` for each value that is kept outside of the row, those of dropped columns
    /// included. A damaged row names none.
    pub fn each_external(&self, row: &[u8], found: &mut dyn FnMut(External)) {
        if u16_at(row, 0).is_ok_and(|header| header & HAS_TAGS != 0) {
            let _ = self.try_each_external(row, found);
        }
    }

    fn try_each_external(&self, row: &[u8], found: &mut dyn FnMut(External)) -> TypeResult<()> {
        let header = u16_at(row, 0)?;
        let count = usize::from(header & !(HAS_NULLS | HAS_TAGS));
        let slots_end = self.ends.get(count);
        let mut tags = *slots_end.ok_or_else(|| damaged("it has more columns than its table"))?;
        if header & HAS_NULLS != 0 {
            tags += count.div_ceil(8);
        }
        let values_start = tags + count.div_ceil(8);
        let mut previous = None;
        for &(number, offset) in self
            .variable
            .iter()
            .take_while(|(number, _)| *number < count)
        {
            if is_set(row, tags, number)? {
                let bytes = variable(row, values_start, (previous, offset))?;
                if let Stored::External(external) = Stored::from_tagged(bytes)? {
                    found(external);
                }
            }
            previous = Some(offset);
        }
        Ok(())
    }

    /// Whether a column is NULL.
    pub fn is_null(&self, row: &[u8], column: usize) -> TypeResult<bool> {
        Ok(self.stored(row, column)?.is_none())
    }

    /// One column's value.
    ///
    /// # Errors
    /// 54000 for a value that is not in the row: no key has such, and [`RowLayout::read`] says
    /// where it is.
    pub fn get(&self, row: &[u8], column: usize) -> TypeResult<Datum> {
        match self.read(row, column)? {
            Ok(value) => Ok(value),
            Err(external) => {
                let message = format!("a value of {} bytes is too long for a key", external.raw);
                let state = SqlState::PROGRAM_LIMIT_EXCEEDED;
                Err(TypeError::new(state, message))
            }
        }
    }

    /// One column's value, or where it is.
    ///
    /// # Errors
    /// XX001 for a damaged row.
    #[inline]
    pub fn read(&self, row: &[u8], column: usize) -> TypeResult<Result<Datum, External>> {
        Ok(Ok(match self.stored(row, column)? {
            None => Datum::Null,
            Some(Stored::Plain(bytes)) => decode(self.slots[column].ty, bytes)?,
            Some(Stored::Compressed { raw, block }) => {
                self.whole(column, decompressed(block, raw)?)?
            }
            Some(Stored::External(external)) => return Ok(Err(external)),
        }))
    }

    /// Whether a row has all columns, each at its place and with its value in the row as it is:
    /// none is NULL, compressed, kept outside, or was added later.
    #[inline]
    pub fn is_simple(&self, row: &[u8]) -> bool {
        let columns = self.ends.len() - 1;
        row.len() >= self.ends[columns]
            && usize::from(u16::from_le_bytes([row[0], row[1]])) == columns
    }

    /// Where the slots of a row with all columns end.
    pub fn slots_end(&self) -> usize {
        self.ends[self.ends.len() - 1]
    }

    /// Offset, width and type of a column of fixed width, in a row that [`RowLayout::is_simple`].
    pub fn fixed_slot(&self, column: usize) -> Option<(usize, usize, SqlType)> {
        let slot = self.slots.get(column)?;
        Some((slot.offset, slot.width?, slot.ty))
    }

    /// As [`RowLayout::read`], for a row that [`RowLayout::is_simple`], into a value that is
    /// overwritten in place: one of the same type gives its memory to the new one.
    ///
    /// # Errors
    /// XX001 for a damaged row.
    #[inline]
    pub fn read_simple(&self, row: &[u8], column: usize, out: &mut Datum) -> TypeResult<()> {
        let Some(slot) = self.slots.get(column) else {
            return Err(TypeError::internal("no such column in the row layout"));
        };
        let bytes = match slot.width {
            Some(width) => row
                .get(slot.offset..slot.offset + width)
                .ok_or_else(|| damaged("a value lies outside of it"))?,
            None => {
                let values_start = self.ends[self.ends.len() - 1];
                variable(row, values_start, (slot.previous_end, slot.offset))?
            }
        };
        decode_into(slot.ty, bytes, out)
    }

    /// A column's value from all of its bytes.
    ///
    /// # Errors
    /// XX001 for bytes that are none.
    pub fn whole(&self, column: usize, bytes: Vec<u8>) -> TypeResult<Datum> {
        let slot = self.slots.get(column);
        let ty = slot.ok_or_else(|| TypeError::internal("no such column in the row layout"))?;
        Ok(match ty.ty {
            SqlType::Bytea => Datum::Bytea(bytes),
            SqlType::Text | SqlType::Varchar(_) => {
                let text = String::from_utf8(bytes);
                Datum::Text(text.map_err(|_| damaged("a string is not UTF-8"))?)
            }
            ty => decode(ty, &bytes)?,
        })
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
        let Some(stored) = self.stored(row, column)? else {
            out.put_i32(-1);
            return Ok(());
        };
        let ty = self.slots[column].ty;
        let Stored::Plain(bytes) = stored else {
            self.get(row, column)?.put_field(ty, format, cx, out);
            return Ok(());
        };
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

/// Values that a new version of a row keeps.
#[derive(Debug, Clone, Copy)]
pub struct Kept<'a> {
    /// The old version, of the same layout.
    pub row: &'a [u8],
    /// The columns that get new values.
    pub assigned: &'a [usize],
}

/// Tagged values, by column.
type KeptValues<'a> = SmallVec<[(usize, Stored<'a>); 2]>;

/// The end of a value of variable length in a row that is encoded.
struct End {
    column: usize,
    number: usize,
    slot: usize,
    storage: Storage,
    end: usize,
}

impl End {
    /// Of a dropped column, which has no position.
    fn of_hole((number, slot): (usize, usize), end: usize) -> End {
        End {
            column: usize::MAX,
            number,
            slot,
            storage: Storage::Plain,
            end,
        }
    }
}

/// A row with the values that end there.
fn large_row(
    mut bytes: Vec<u8>,
    (slots_end, values_start): (usize, usize),
    columns: usize,
    (ends, kept): (&[End], &[(usize, Stored<'_>)]),
    indexed: &[usize],
) -> LargeRow {
    let mut start = values_start;
    let mut pieces: SmallVec<[Piece; 4]> = SmallVec::new();
    for end in ends {
        let mut piece = Piece::plain(end, start, indexed);
        if let Some((_, stored)) = kept.iter().find(|(column, _)| *column == end.column) {
            piece.kept(*stored, &mut bytes);
        }
        pieces.push(piece);
        start = end.end;
    }
    LargeRow::new(bytes, (slots_end, values_start), columns, pieces)
}

/// The bit of a column in the bitmap at `start`.
fn is_set(row: &[u8], start: usize, number: usize) -> TypeResult<bool> {
    let byte = row.get(start + number / 8);
    let byte = byte.ok_or_else(|| damaged("no bitmap"))?;
    Ok(byte & (1 << (number % 8)) != 0)
}

/// The bytes between the ends that these slots have, the first of which is none of the first value.
fn variable(row: &[u8], start: usize, (from, to): (Option<usize>, usize)) -> TypeResult<&[u8]> {
    let from = from.map_or(Ok(0), |offset| u16_at(row, offset))?;
    let to = u16_at(row, to)?;
    row.get(start + usize::from(from)..start + usize::from(to))
        .ok_or_else(|| damaged("a value lies outside of it"))
}

/// Notes in a slot where its value of variable length ends.
fn put_end(out: &mut [u8], slot: usize, end: usize) -> TypeResult<()> {
    let end = u16::try_from(end).map_err(|_| too_large(out.len()))?;
    let place = out.get_mut(slot..slot + END_SLOT);
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
        (SqlType::Tid, Datum::Tid(v)) => {
            to[..4].copy_from_slice(&v.block.to_le_bytes());
            to[4..].copy_from_slice(&v.slot.to_le_bytes());
        }
        (SqlType::Xid8, Datum::Xid8(v)) => to.copy_from_slice(&v.to_le_bytes()),
        (SqlType::Xid | SqlType::Cid, Datum::Oid(v)) => to.copy_from_slice(&v.to_le_bytes()),
        (SqlType::Enum(_), Datum::Enum(v)) => to.copy_from_slice(&v.position.to_le_bytes()),
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
        (SqlType::Array(element, _), Datum::Array(v)) => arrays::encode(*element, v, out)?,
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
        SqlType::Tid => {
            let all: [u8; 6] = array(bytes)?;
            Datum::Tid(TupleId {
                block: u32::from_le_bytes(array(&all[..4])?),
                slot: u16::from_le_bytes(array(&all[4..])?),
            })
        }
        SqlType::Xid8 => Datum::Xid8(u64::from_le_bytes(array(bytes)?)),
        SqlType::Xid | SqlType::Cid => Datum::Oid(u32::from_le_bytes(array(bytes)?)),
        SqlType::Enum(ty) => Datum::Enum(EnumValue {
            ty,
            position: i64::from_le_bytes(array(bytes)?),
        }),
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
        SqlType::Array(element, _) => arrays::decode(*element, bytes)?,
        _ if ty.is_oid() => Datum::Oid(u32::from_le_bytes(array(bytes)?)),
        _ if ty.is_vector() => Datum::parse_text(ty, str_of(bytes)?, &TypeContext::default())
            .map_err(|_| damaged("a bad vector"))?,
        _ => Datum::Text(str_of(bytes)?.to_owned()),
    })
}

/// As [`decode`], over another value: one of the same type is overwritten where it is, without
/// being dropped, and a string keeps its memory unless most of that would be of no use.
#[inline]
fn decode_into(ty: SqlType, bytes: &[u8], out: &mut Datum) -> TypeResult<()> {
    macro_rules! set {
        ($variant:ident, $value:expr) => {{
            let value = $value;
            match out {
                Datum::$variant(place) => *place = value,
                _ => *out = Datum::$variant(value),
            }
        }};
    }
    match ty {
        SqlType::Int2 => set!(Int2, i16::from_le_bytes(array(bytes)?)),
        SqlType::Int4 => set!(Int4, i32::from_le_bytes(array(bytes)?)),
        SqlType::Int8 => set!(Int8, i64::from_le_bytes(array(bytes)?)),
        SqlType::Float8 => set!(Float8, f64::from_le_bytes(array(bytes)?)),
        SqlType::Date => set!(Date, i32::from_le_bytes(array(bytes)?)),
        SqlType::Timestamp(_) => set!(Timestamp, i64::from_le_bytes(array(bytes)?)),
        SqlType::Timestamptz(_) => set!(Timestamptz, i64::from_le_bytes(array(bytes)?)),
        SqlType::Text | SqlType::Varchar(_) => match out {
            Datum::Text(place) => replace_string(place, str_of(bytes)?, 0),
            _ => *out = decode(ty, bytes)?,
        },
        SqlType::Char(length) => match out {
            Datum::Char(place) => {
                let text = str_of(bytes)?;
                let blanks = length.map_or(0, |length| missing_blanks(text, length));
                replace_string(place, text, blanks);
            }
            _ => *out = decode(ty, bytes)?,
        },
        _ => *out = decode(ty, bytes)?,
    }
    Ok(())
}

/// A string that is read into a longer one's memory leaves no more than this unused.
const UNUSED: usize = 256;

const BLANKS: &str = "                                ";

fn replace_string(place: &mut String, text: &str, blanks: usize) {
    if place.capacity() > text.len() + blanks + UNUSED {
        *place = String::with_capacity(text.len() + blanks);
    }
    place.clear();
    place.push_str(text);
    for blanks in (1..=blanks)
        .step_by(BLANKS.len())
        .map(|first| blanks + 1 - first)
    {
        place.push_str(&BLANKS[..blanks.min(BLANKS.len())]);
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

#[cfg(test)]
#[path = "large_tests.rs"]
mod large_tests;
