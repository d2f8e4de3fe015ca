//! COPY's binary format: a signature, flags and an extension; then tuples, each with the number of
//! its fields and every field with its length; then -1 in place of a number of fields.

use bytes::{BufMut, BytesMut};

use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::{Datum, SqlType};

const SIGNATURE: [u8; 11] = *b"PGCOPY\n\xff\r\n\0";
/// Bit of the flags: the tuples have oids, as those of old servers.
const WITH_OIDS: u32 = 1 << 16;
/// Bits of the flags that a reader must understand.
const CRITICAL: u32 = 0xffff_0000;

/// The fields of a tuple; `None` for NULL.
pub(super) type BinaryFields<'a> = smallvec::SmallVec<[Option<&'a [u8]>; 8]>;

/// Something that the data begins with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// The header, of so many bytes.
    Header(usize),
    /// A tuple, of so many bytes.
    Tuple(usize),
    /// The end of the tuples.
    End(usize),
    /// Its end is not there yet.
    Incomplete,
}

fn bad(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message.into())
}

fn int4(data: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = data.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*number), rest))
}

/// The header that `data` begins with.
///
/// # Errors
/// 22P04 for what is none, as soon as that can be seen.
pub(super) fn header(data: &[u8]) -> SqlResult<Item> {
    let begun = data.len().min(SIGNATURE.len());
    if data[..begun] != SIGNATURE[..begun] {
        return Err(bad("COPY file signature not recognized"));
    }
    let Some((flags, rest)) = data.get(SIGNATURE.len()..).and_then(int4) else {
        return Ok(Item::Incomplete);
    };
    if flags & WITH_OIDS != 0 {
        return Err(bad("invalid COPY file header (WITH OIDS)"));
    }
    if flags & CRITICAL != 0 {
        return Err(bad("unrecognized critical flags in COPY file header"));
    }
    let Some((length, rest)) = int4(rest) else {
        return Ok(Item::Incomplete);
    };
    let length = i32::from_be_bytes(length.to_be_bytes());
    let length =
        usize::try_from(length).map_err(|_| bad("invalid COPY file header (missing length)"))?;
    Ok(match rest.get(length..) {
        Some(after) => Item::Header(data.len() - after.len()),
        None => Item::Incomplete,
    })
}

/// The error of data that ends within the header.
pub(super) fn short_header(data: &[u8]) -> SqlError {
    let missing = match data.len() {
        0..11 => return bad("COPY file signature not recognized"),
        11..15 => "missing flags",
        15..19 => "missing length",
        _ => "wrong length",
    };
    bad(format!("invalid COPY file header ({missing})"))
}

/// The error of data that ends within a tuple.
pub(super) fn short_tuple() -> SqlError {
    bad("unexpected EOF in COPY data")
}

/// The tuple of so many columns that `data` begins with; its fields are appended.
///
/// # Errors
/// 22P04
pub(super) fn tuple<'a>(
    data: &'a [u8],
    columns: usize,
    fields: &mut BinaryFields<'a>,
) -> SqlResult<Item> {
    fields.clear();
    let Some((count, mut rest)) = data.split_first_chunk::<2>() else {
        return Ok(Item::Incomplete);
    };
    let count = i16::from_be_bytes(*count);
    if count == -1 {
        return Ok(Item::End(2));
    }
    if usize::try_from(count) != Ok(columns) {
        let message = format!("row field count is {count}, expected {columns}");
        return Err(bad(message));
    }
    for _ in 0..columns {
        let Some((length, after)) = int4(rest) else {
            return Ok(Item::Incomplete);
        };
        let length = i32::from_be_bytes(length.to_be_bytes());
        if length == -1 {
            fields.push(None);
            rest = after;
            continue;
        }
        let length = usize::try_from(length).map_err(|_| bad("invalid field size"))?;
        let Some((field, after)) = after.split_at_checked(length) else {
            return Ok(Item::Incomplete);
        };
        fields.push(Some(field));
        rest = after;
    }
    Ok(Item::Tuple(data.len() - rest.len()))
}

/// Appends a header without flags and extension.
pub(super) fn write_header(out: &mut BytesMut) {
    out.put_slice(&SIGNATURE);
    out.put_u64(0);
}

/// Appends a tuple.
///
/// # Errors
/// 54000 for a field beyond the format's lengths.
pub(super) fn write_tuple(row: &[Datum], types: &[SqlType], out: &mut BytesMut) -> SqlResult<()> {
    out.put_u16(u16::try_from(row.len()).unwrap_or(u16::MAX));
    for (value, ty) in row.iter().zip(types) {
        if value.is_null() {
            out.put_i32(-1);
            continue;
        }
        let before = out.len();
        out.put_i32(0);
        value.write_binary(*ty, out);
        let length = i32::try_from(out.len() - before - 4).map_err(|_| {
            SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                "a field of COPY data is too long",
            )
        })?;
        out[before..before + 4].copy_from_slice(&length.to_be_bytes());
    }
    Ok(())
}

/// Appends the end of the tuples.
pub(super) fn write_end(out: &mut BytesMut) {
    out.put_i16(-1);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> BytesMut {
        let mut out = BytesMut::new();
        write_header(&mut out);
        let row = [Datum::Int4(7), Datum::Null, "é".into()];
        let types = [SqlType::Int4, SqlType::Int8, SqlType::Text];
        write_tuple(&row, &types, &mut out).unwrap();
        write_end(&mut out);
        out
    }

    #[test]
    fn what_is_written_is_read_back_wherever_the_data_is_cut() {
        let data = written();
        let Item::Header(at) = header(&data).unwrap() else {
            panic!("no header");
        };
        assert_eq!(at, 19);
        for end in 0..at {
            assert_eq!(header(&data[..end]).unwrap(), Item::Incomplete, "{end}");
        }
        let mut fields = BinaryFields::new();
        let length = data.len() - at - 2;
        for end in 0..length {
            let cut = tuple(&data[at..at + end], 3, &mut fields).unwrap();
            assert_eq!(cut, Item::Incomplete, "{end}");
        }
        assert_eq!(
            tuple(&data[at..], 3, &mut fields).unwrap(),
            Item::Tuple(length)
        );
        let wanted = [Some(&[0, 0, 0, 7][..]), None, Some("é".as_bytes())];
        assert_eq!(fields.as_slice(), wanted);
        let end = tuple(&data[at + length..], 3, &mut fields).unwrap();
        assert_eq!(end, Item::End(2));
    }

    #[test]
    fn data_of_another_form_is_refused_before_its_end_is_there() {
        let message = |item: SqlResult<Item>| item.unwrap_err().message.to_string();
        assert_eq!(
            message(header(b"1\t")),
            "COPY file signature not recognized"
        );
        let mut flagged = SIGNATURE.to_vec();
        flagged.extend([0, 2, 0, 0]);
        assert_eq!(
            message(header(&flagged)),
            "unrecognized critical flags in COPY file header"
        );
        let mut fields = BinaryFields::new();
        assert_eq!(
            message(tuple(&[0, 2], 3, &mut fields)),
            "row field count is 2, expected 3"
        );
        let negative: &[u8] = &[0, 1, 0xff, 0xff, 0xff, 0xfe];
        assert_eq!(
            message(tuple(negative, 1, &mut BinaryFields::new())),
            "invalid field size"
        );
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(data: Vec<u8>, columns in 0_usize..4) {
            let _ = header(&data);
            let _ = tuple(&data, columns, &mut BinaryFields::new());
        }
    }
}
