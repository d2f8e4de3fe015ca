//! Rows with values that are compressed or kept outside.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::datum::Datum;

/// Values that are kept outside, by id.
type Outside = BTreeMap<u64, Vec<u8>>;

const MOST: usize = 8124;
const LONGEST_KEY: usize = 2704;

fn settled(mut row: LargeRow, outside: &mut Outside) -> TypeResult<Vec<u8>> {
    while let Some(at) = row.next_to_move(MOST, LONGEST_KEY)? {
        let id = outside.len() as u64 + 1;
        outside.insert(id, row.to_move(&at).to_vec());
        row.moved(&at, id);
    }
    let mut bytes = Vec::new();
    row.finish(&mut bytes)?;
    Ok(bytes)
}

fn encoded(layout: &RowLayout, values: &[Datum], outside: &mut Outside) -> Vec<u8> {
    let mut bytes = Vec::new();
    match layout.encode_row(values, None, &[], &mut bytes).unwrap() {
        Some(row) => settled(row, outside).unwrap(),
        None => bytes,
    }
}

fn decoded(layout: &RowLayout, row: &[u8], outside: &Outside) -> Vec<Datum> {
    let value = |column| match layout.read(row, column).unwrap() {
        Ok(value) => value,
        Err(external) => {
            let kept = &outside[&external.id];
            assert_eq!(kept.len(), external.stored as usize);
            let bytes = match external.compressed {
                true => decompressed(kept, external.raw).unwrap(),
                false => kept.clone(),
            };
            assert_eq!(bytes.len(), external.raw as usize);
            layout.whole(column, bytes).unwrap()
        }
    };
    (0..layout.len()).map(value).collect()
}

/// Text that does not compress.
fn noise(seed: u64, length: usize) -> String {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'!' + (state % 90) as u8)
    };
    (0..length).map(|_| next()).collect()
}

fn texts(columns: usize) -> RowLayout {
    RowLayout::new(&vec![SqlType::Text; columns])
}

#[test]
fn the_longest_values_are_compressed_then_moved_out() {
    let layout = texts(3);
    let mut outside = Outside::new();
    // Compressing one is enough.
    let values = [
        "x".repeat(100_000).into(),
        noise(1, 500).into(),
        "short".into(),
    ];
    let row = encoded(&layout, &values, &mut outside);
    assert!(row.len() < ROW_TARGET && outside.is_empty());
    let stored = layout.stored(&row, 0).unwrap();
    assert!(matches!(
        stored,
        Some(Stored::Compressed { raw: 100_000, .. })
    ));
    assert_eq!(decoded(&layout, &row, &outside), values);
    // The longest goes; the others stay.
    let values = [
        noise(1, 5000).into(),
        noise(2, 20_000).into(),
        noise(3, 300).into(),
    ];
    let row = encoded(&layout, &values, &mut outside);
    assert_eq!(outside.len(), 2);
    let stored = layout.stored(&row, 2).unwrap();
    assert!(matches!(stored, Some(Stored::Plain(bytes)) if bytes.len() == 300));
    assert_eq!(decoded(&layout, &row, &outside), values);
}

#[test]
fn values_of_indexes_stay_within_the_row_while_it_fits_a_page() {
    let layout = texts(5);
    let values: Vec<Datum> = (0..5).map(|n| noise(n + 1, 2000).into()).collect();
    let mut bytes = Vec::new();
    let row = layout.encode_row(&values, None, &[0, 4], &mut bytes);
    let mut outside = Outside::new();
    let row = settled(row.unwrap().unwrap(), &mut outside).unwrap();
    assert!(row.len() <= MOST);
    for column in [0, 4] {
        let stored = layout.stored(&row, column).unwrap();
        assert!(matches!(stored, Some(Stored::Plain(_))), "{column}");
    }
    assert_eq!(decoded(&layout, &row, &outside), values);
}

#[test]
fn a_new_version_keeps_tagged_values_as_they_are() {
    let layout = RowLayout::new(&[SqlType::Int4, SqlType::Text, SqlType::Bytea, SqlType::Text]);
    let mut outside = Outside::new();
    let values = [
        Datum::Int4(1),
        noise(5, 30_000).into(),
        Datum::Bytea(vec![7; 9000]),
        Datum::Null,
    ];
    let old = encoded(&layout, &values, &mut outside);
    assert_eq!(outside.len(), 1);
    let kept = Kept {
        row: &old,
        assigned: &[0, 3],
    };
    // The values of columns that are kept are not looked at.
    let new = [Datum::Int4(2), Datum::Null, Datum::Null, "new".into()];
    let mut bytes = Vec::new();
    let row = layout
        .encode_row(&new, Some(kept), &[], &mut bytes)
        .unwrap();
    let row = settled(row.unwrap(), &mut outside).unwrap();
    assert_eq!(outside.len(), 1, "a value that is kept was moved again");
    let [_, body, raw, _] = values;
    let expected = [Datum::Int4(2), body, raw, "new".into()];
    assert_eq!(decoded(&layout, &row, &outside), expected);
}

#[test]
fn values_of_dropped_columns_are_named_too() {
    let columns = [
        PhysicalColumn::new(SqlType::Text),
        PhysicalColumn::new(SqlType::Text),
    ];
    let layout = RowLayout::of(&columns);
    let mut outside = Outside::new();
    let values = [noise(1, 9000).into(), noise(2, 9000).into()];
    let row = encoded(&layout, &values, &mut outside);
    let mut dropped = columns;
    dropped[0].ty = None;
    let after = RowLayout::of(&dropped);
    let mut named = Vec::new();
    after.each_external(&row, &mut |external| named.push(external.id));
    named.sort_unstable();
    assert_eq!(named, [1, 2]);
    assert_eq!(decoded(&after, &row, &outside), values[1..]);
    let mut bytes = Vec::new();
    let kept = Kept {
        row: &row,
        assigned: &[],
    };
    let new = after.encode_row(&[Datum::Null], Some(kept), &[], &mut bytes);
    let new = settled(new.unwrap().unwrap(), &mut outside).unwrap();
    assert_eq!(decoded(&after, &new, &outside), values[1..]);
    let mut named = 0;
    after.each_external(&new, &mut |_| named += 1);
    assert_eq!(named, 1);
}

#[test]
fn damaged_tags_are_errors() {
    let layout = texts(2);
    let mut outside = Outside::new();
    let values = [noise(1, 9000).into(), "y".repeat(9000).into()];
    let row = encoded(&layout, &values, &mut outside);
    for at in 0..row.len() {
        for bit in 0..8 {
            let mut damaged = row.clone();
            damaged[at] ^= 1 << bit;
            // An error, or another row; never a panic, nor memory for what is not there.
            for column in 0..2 {
                let _ = layout.read(&damaged, column);
            }
            layout.each_external(&damaged, &mut |_| {});
        }
    }
    assert!(decompressed(&[0x1f, 1, 1, 0, 0xff], u32::MAX).is_err());
}

proptest! {
    #[test]
    fn long_rows_round_trip(
        columns in proptest::collection::vec(
            (prop_oneof![Just(None), (0usize..12_000).prop_map(Some)], any::<bool>(), any::<u64>()),
            1..12,
        ),
    ) {
        let value = |(length, even, seed): &(Option<usize>, bool, u64)| match length {
            None => Datum::Null,
            Some(length) if *even => "e".repeat(*length).into(),
            Some(length) => noise(*seed, *length).into(),
        };
        let values: Vec<Datum> = columns.iter().map(value).collect();
        let layout = texts(values.len());
        let mut outside = Outside::new();
        let row = encoded(&layout, &values, &mut outside);
        prop_assert!(row.len() <= MOST);
        prop_assert_eq!(decoded(&layout, &row, &outside), values);
        let mut named = Vec::new();
        layout.each_external(&row, &mut |external| named.push(external.id));
        named.sort_unstable();
        let ids: Vec<u64> = outside.keys().copied().collect();
        prop_assert_eq!(named, ids);
    }
}
