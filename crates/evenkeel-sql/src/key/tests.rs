use super::*;
use crate::types::SqlType;

#[test]
fn a_key_with_null_never_conflicts() {
    let layout = Arc::new(RowLayout::new(&[SqlType::Int4, SqlType::Text]));
    let columns = vec![
        KeyColumn::ascending(1, SqlType::Text),
        KeyColumn::ascending(0, SqlType::Int4),
    ];
    let index = IndexKey::new(Arc::clone(&layout), columns);
    let mut row = Vec::new();
    let mut key = Vec::new();
    layout
        .encode(&[Datum::Int4(1), Datum::Null], &mut row)
        .unwrap();
    assert_eq!(index.key(&row, &mut key).unwrap(), KeyKind::HasNull);
    layout
        .encode(&[Datum::Int4(1), "x".into()], &mut row)
        .unwrap();
    key.clear();
    assert_eq!(index.key(&row, &mut key).unwrap(), KeyKind::Unique);
    let mut prefix = Vec::new();
    assert!(!index.encode_prefix(&["x".into()], &mut prefix).unwrap());
    assert!(key.starts_with(&prefix));
    let relaxed = index.nulls_not_distinct();
    layout
        .encode(&[Datum::Int4(1), Datum::Null], &mut row)
        .unwrap();
    key.clear();
    assert_eq!(relaxed.key(&row, &mut key).unwrap(), KeyKind::Unique);
}

#[test]
fn a_damaged_row_has_no_key() {
    let layout = Arc::new(RowLayout::new(&[SqlType::Int4]));
    let index = IndexKey::new(layout, vec![KeyColumn::ascending(0, SqlType::Int4)]);
    let mut key = Vec::new();
    assert_eq!(index.key(&[1, 0, 7], &mut key).unwrap(), KeyKind::Absent);
    assert!(key.is_empty());
}
