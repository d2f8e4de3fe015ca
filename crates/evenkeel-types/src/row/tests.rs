use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::datum::{ArrayValue, Dimension};
use crate::numeric::Numeric;
use crate::testing::{any_datum, any_row, any_type};

#[test]
fn a_row_without_nulls_has_no_bitmap() {
    let layout = RowLayout::new(&[SqlType::Int4, SqlType::Text]);
    let mut row = Vec::new();
    layout
        .encode(&[Datum::Int4(7), "ab".into()], &mut row)
        .unwrap();
    assert_eq!(row, [2, 0, 7, 0, 0, 0, 2, 0, b'a', b'b']);
    layout
        .encode(&[Datum::Null, "ab".into()], &mut row)
        .unwrap();
    assert_eq!(row, [2, 0x80, 0, 0, 0, 0, 2, 0, 1, b'a', b'b']);
}

#[test]
fn columns_added_later_are_null() {
    let old = RowLayout::new(&[SqlType::Int4, SqlType::Text]);
    let new = RowLayout::new(&[SqlType::Int4, SqlType::Text, SqlType::Text, SqlType::Int8]);
    for first in [Datum::Int4(1), Datum::Null] {
        let mut row = Vec::new();
        old.encode(&[first.clone(), "x".into()], &mut row).unwrap();
        let expected = vec![first, "x".into(), Datum::Null, Datum::Null];
        assert_eq!(new.decode(&row).unwrap(), expected);
    }
}

#[test]
fn columns_added_later_have_the_value_kept_for_older_rows() {
    let old = RowLayout::new(&[SqlType::Int4]);
    let missing = |ty, value: Datum| PhysicalColumn {
        missing: stored(ty, &value).unwrap().map(Arc::from),
        ..PhysicalColumn::new(ty)
    };
    let new = RowLayout::of(&[
        PhysicalColumn::new(SqlType::Int4),
        missing(SqlType::Text, "new".into()),
        missing(SqlType::Int8, Datum::Int8(9)),
        missing(SqlType::Int8, Datum::Null),
    ]);
    let mut row = Vec::new();
    old.encode(&[Datum::Int4(1)], &mut row).unwrap();
    let expected = [Datum::Int4(1), "new".into(), Datum::Int8(9), Datum::Null];
    assert_eq!(new.decode(&row).unwrap(), expected);
    let written = [Datum::Int4(1), Datum::Null, Datum::Null, Datum::Int8(3)];
    new.encode(&written, &mut row).unwrap();
    assert_eq!(new.decode(&row).unwrap(), written);
}

#[test]
fn a_dropped_column_keeps_its_place_and_has_no_position() {
    let types = [
        SqlType::Text,
        SqlType::Int4,
        SqlType::Text,
        SqlType::Int8,
        SqlType::Text,
    ];
    let values: Vec<Datum> = vec![
        "a".into(),
        Datum::Int4(2),
        "ccc".into(),
        Datum::Int8(4),
        "ee".into(),
    ];
    let full = RowLayout::new(&types);
    for dropped in 0..32u32 {
        let gone = |at: usize| dropped & (1 << at) != 0;
        let columns: Vec<PhysicalColumn> = types
            .iter()
            .enumerate()
            .map(|(at, ty)| PhysicalColumn {
                ty: (!gone(at)).then_some(*ty),
                ..PhysicalColumn::new(*ty)
            })
            .collect();
        let layout = RowLayout::of(&columns);
        for null in [None, Some(0), Some(2), Some(4)] {
            let mut values = values.clone();
            if let Some(null) = null {
                values[null] = Datum::Null;
            }
            let left: Vec<Datum> = (0..5)
                .filter(|at| !gone(*at))
                .map(|at| values[at].clone())
                .collect();
            let mut row = Vec::new();
            full.encode(&values, &mut row).unwrap();
            assert_eq!(layout.decode(&row).unwrap(), left);
            layout.encode(&left, &mut row).unwrap();
            assert_eq!(layout.decode(&row).unwrap(), left);
            assert_eq!(layout.len(), left.len());
        }
    }
}

#[test]
fn a_value_of_another_type_is_refused() {
    let layout = RowLayout::new(&[SqlType::Int4]);
    assert!(layout.encode(&[Datum::Int8(1)], &mut Vec::new()).is_err());
    assert!(layout.encode(&[], &mut Vec::new()).is_err());
}

#[test]
fn no_string_of_a_row_has_a_zero_byte() {
    let layout = RowLayout::new(&[SqlType::Text]);
    let error = layout.encode(&["a\0b".into()], &mut Vec::new());
    let error = error.unwrap_err();
    assert_eq!(error.sqlstate.as_str(), "22021");
    let message = "invalid byte sequence for encoding \"UTF8\": 0x00";
    assert_eq!(&*error.message, message);
}

#[test]
fn char_columns_are_stored_without_their_blanks() {
    let layout = RowLayout::new(&[SqlType::Char(Some(4))]);
    let mut row = Vec::new();
    let value = Datum::Char("a   ".to_owned());
    layout
        .encode(std::slice::from_ref(&value), &mut row)
        .unwrap();
    let stored = layout.stored(&row, 0).unwrap();
    assert_eq!(stored, Some(Stored::Plain(b"a")));
    let mut out = BytesMut::new();
    layout
        .put_field(&row, 0, Format::Text, &TypeContext::default(), &mut out)
        .unwrap();
    assert_eq!(&out[..], b"\0\0\0\x04a   ");
    assert_eq!(layout.get(&row, 0).unwrap(), value);
    let layout = RowLayout::new(&[SqlType::Char(None)]);
    layout
        .encode(std::slice::from_ref(&value), &mut row)
        .unwrap();
    assert_eq!(layout.get(&row, 0).unwrap(), value);
}

#[test]
fn damaged_numerics_are_errors() {
    let layout = RowLayout::new(&[SqlType::Numeric(None)]);
    let mut row = Vec::new();
    layout
        .encode(&[Datum::Numeric(Numeric::from(123))], &mut row)
        .unwrap();
    row[4] = 9;
    assert_eq!(
        layout.get(&row, 0).unwrap_err().sqlstate,
        SqlState::DATA_CORRUPTED
    );
}

proptest! {
    #[test]
    fn rows_round_trip((types, values) in any_row()) {
        let layout = RowLayout::new(&types);
        let mut row = Vec::new();
        layout.encode(&values, &mut row).unwrap();
        for (column, value) in values.iter().enumerate() {
            let stored = layout.get(&row, column).unwrap();
            prop_assert!(stored.compare(value).is_eq(), "{:?} != {:?}", stored, value);
            prop_assert_eq!(layout.is_null(&row, column).unwrap(), value.is_null());
        }
    }

    #[test]
    fn a_simple_row_reads_into_values_as_any_row_does(
        (types, values) in any_row(), (_, before) in any_row(), same in any::<bool>(),
    ) {
        let layout = RowLayout::new(&types);
        let mut row = Vec::new();
        layout.encode(&values, &mut row).unwrap();
        if layout.is_simple(&row) {
            for column in 0..types.len() {
                let expected = layout.get(&row, column).unwrap();
                let before = if same { values.get(column) } else { before.get(column) };
                let mut read = before.cloned().unwrap_or(Datum::Null);
                layout.read_simple(&row, column, &mut read).unwrap();
                prop_assert_eq!(format!("{:?}", read), format!("{:?}", expected));
            }
        } else {
            prop_assert!(values.iter().any(Datum::is_null) || row.len() > ROW_TARGET);
        }
        for cut in 0..row.len() {
            // No read leaves a cut row, and none panics.
            for column in 0..types.len() {
                if layout.is_simple(&row[..cut]) {
                    let _ = layout.read_simple(&row[..cut], column, &mut Datum::Null);
                }
            }
        }
    }

    #[test]
    fn fields_come_out_of_rows_as_out_of_values((types, values) in any_row()) {
        let layout = RowLayout::new(&types);
        let cx = TypeContext::default();
        let mut row = Vec::new();
        layout.encode(&values, &mut row).unwrap();
        for format in [Format::Text, Format::Binary] {
            for (column, value) in values.iter().enumerate() {
                let (mut from_row, mut from_value) = (BytesMut::new(), BytesMut::new());
                layout.put_field(&row, column, format, &cx, &mut from_row).unwrap();
                value.put_field(types[column], format, &cx, &mut from_value);
                prop_assert_eq!(from_row, from_value);
            }
        }
    }

    #[test]
    fn damaged_rows_are_errors_not_panics(
        bytes in proptest::collection::vec(any::<u8>(), 0..64),
        types in proptest::collection::vec(any_type(), 1..8),
    ) {
        let layout = RowLayout::new(&types);
        let _ = layout.decode(&bytes);
    }

    #[test]
    fn one_column_of_each_type_round_trips(
        (ty, value) in any_type().prop_flat_map(|ty| (Just(ty), any_datum(ty))),
    ) {
        let layout = RowLayout::new(&[ty]);
        let mut row = Vec::new();
        layout.encode(std::slice::from_ref(&value), &mut row).unwrap();
        prop_assert!(layout.get(&row, 0).unwrap().compare(&value).is_eq());
    }
}

fn an_array(dimensions: &[(i32, i32)], elements: Vec<Datum>) -> Datum {
    let dimensions: Vec<Dimension> = dimensions
        .iter()
        .map(|(length, lower)| Dimension {
            length: *length,
            lower: *lower,
        })
        .collect();
    Datum::Array(Arc::new(ArrayValue::new(&dimensions, elements).unwrap()))
}

#[test]
fn arrays_round_trip() {
    let (int, text) = (SqlType::Int4.array_of(), SqlType::Text.array_of());
    let types = [int.unwrap(), SqlType::Int8, text.unwrap()];
    let layout = RowLayout::new(&types);
    let numbers = an_array(
        &[(2, 1), (2, -3)],
        vec![Datum::Int4(1), Datum::Null, Datum::Int4(-3), Datum::Int4(4)],
    );
    let words = an_array(&[(3, 1)], vec!["a,b".into(), Datum::Null, "".into()]);
    let empty = an_array(&[], Vec::new());
    for row in [
        vec![numbers, Datum::Int8(7), words],
        vec![empty.clone(), Datum::Null, empty],
        vec![Datum::Null, Datum::Int8(1), Datum::Null],
    ] {
        let mut bytes = Vec::new();
        layout.encode(&row, &mut bytes).unwrap();
        assert_eq!(layout.decode(&bytes).unwrap(), row);
    }
}

#[test]
fn damaged_arrays_are_errors() {
    let ty = SqlType::Text.array_of().unwrap();
    let layout = RowLayout::new(&[ty]);
    let value = an_array(&[(2, 1)], vec!["abc".into(), Datum::Null]);
    let mut row = Vec::new();
    layout
        .encode(std::slice::from_ref(&value), &mut row)
        .unwrap();
    let Some(Stored::Plain(bytes)) = layout.stored(&row, 0).unwrap() else {
        panic!("no array");
    };
    let bytes = bytes.to_vec();
    for cut in 0..bytes.len() {
        assert!(decode(ty, &bytes[..cut]).is_err(), "{cut}");
    }
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            // An error, or another array.
            let _ = decode(ty, &damaged);
        }
    }
    let huge = [&[2][..], &[0xff, 0xff, 0xff, 0x7f, 1, 0, 0, 0].repeat(2)].concat();
    assert!(decode(ty, &huge).is_err());
}
