use std::cmp::Ordering;

use proptest::prelude::*;

use super::*;
use crate::context::TypeContext;
use crate::datum::Dimension;
use crate::numeric::Numeric;
use crate::testing::{any_datum, any_type};

fn encoded(column: KeyColumn, value: &Datum) -> Vec<u8> {
    let mut key = Vec::new();
    column.encode(value, &mut key).unwrap();
    key
}

/// The order that `column` asks for.
fn expected(column: KeyColumn, a: &Datum, b: &Datum) -> Ordering {
    match (a.is_null(), b.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) if column.nulls_first => Ordering::Less,
        (true, false) => Ordering::Greater,
        (false, true) => expected(column, b, a).reverse(),
        (false, false) if column.descending => a.compare(b).reverse(),
        (false, false) => a.compare(b),
    }
}

fn any_column() -> impl Strategy<Value = KeyColumn> {
    (any_type(), any::<bool>(), any::<bool>()).prop_map(|(ty, descending, nulls_first)| KeyColumn {
        column: Some(0),
        ty,
        descending,
        nulls_first,
    })
}

fn any_column_and_values() -> impl Strategy<Value = (KeyColumn, Datum, Datum)> {
    any_column().prop_flat_map(|c| (Just(c), any_datum(c.ty), any_datum(c.ty)))
}

/// An array of up to two dimensions, among them equal ones of other shapes.
fn any_array(element: SqlType) -> impl Strategy<Value = Datum> {
    let values = proptest::collection::vec(any_datum(element), 4);
    (values, 0..5usize, -1..2i32, any::<bool>()).prop_map(|(values, length, lower, square)| {
        let one = |length: usize| Dimension {
            length: i32::try_from(length).unwrap(),
            lower,
        };
        let dimensions = match (square, length) {
            (true, _) => vec![one(2), one(2)],
            (false, length) => vec![one(length)],
        };
        let count = if square { 4 } else { length };
        let array = ArrayValue::new(&dimensions, values[..count].to_vec()).unwrap();
        Datum::Array(array.into())
    })
}

#[test]
fn arrays_are_ordered_by_elements_then_by_shape() {
    let column = KeyColumn::ascending(0, SqlType::array(&SqlType::Text));
    let cx = TypeContext::default();
    let ordered = [
        "{}",
        "{a}",
        "{a,b}",
        "[0:1]={a,c}",
        "{a,c}",
        "{a,c,a}",
        "{{a,c,a}}",
        "{{a},{c},{a}}",
        "{a,NULL}",
        "{ab}",
        "{NULL}",
    ];
    let parse = |text: &&str| Datum::parse_text(column.ty, text, &cx).unwrap();
    let keys: Vec<_> = ordered
        .iter()
        .map(|text| encoded(column, &parse(text)))
        .collect();
    assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
    let values: Vec<_> = ordered.iter().map(parse).collect();
    assert!(values.is_sorted_by(|a, b| a.compare(b) == Ordering::Less));
}

#[test]
fn special_numbers_are_in_postgres_order() {
    let column = KeyColumn::ascending(0, SqlType::Float8);
    let ordered = [
        f64::NEG_INFINITY,
        -1.5,
        -f64::MIN_POSITIVE,
        0.0,
        1e-300,
        2.0,
        f64::INFINITY,
    ];
    let keys: Vec<_> = ordered
        .iter()
        .map(|v| encoded(column, &Datum::Float8(*v)))
        .collect();
    assert!(keys.is_sorted_by(|a, b| a < b));
    let nan = encoded(column, &Datum::Float8(-f64::NAN));
    assert!(nan > keys[6]);
    assert_eq!(nan, encoded(column, &Datum::Float8(f64::NAN)));
    assert_eq!(encoded(column, &Datum::Float8(-0.0)), keys[3]);
}

#[test]
fn char_keys_ignore_blanks_at_the_end() {
    let column = KeyColumn::ascending(0, SqlType::Char(Some(5)));
    let key = |text: &str| encoded(column, &Datum::Char(text.to_owned()));
    assert_eq!(key("ab"), key("ab   "));
    let text = KeyColumn::ascending(0, SqlType::Text);
    assert_ne!(encoded(text, &"ab".into()), encoded(text, &"ab ".into()));
}

#[test]
fn equal_numerics_of_other_scale_have_one_key() {
    let column = KeyColumn::ascending(0, SqlType::Numeric(None));
    let key = |text| encoded(column, &Datum::Numeric(Numeric::parse(text).unwrap()));
    assert_eq!(key("1.50"), key("1.5"));
    assert_eq!(key("0.00"), key("0"));
}

#[test]
fn successor_is_above_every_key_with_the_prefix() {
    let mut key = vec![1, 2, 255];
    assert!(successor(&mut key));
    assert_eq!(key, [1, 3]);
    assert!(!successor(&mut vec![255, 255]));
}

proptest! {
    #[test]
    fn key_order_of_arrays_is_their_order(
        (ty, a, b) in prop_oneof![Just(&SqlType::Int2), Just(&SqlType::Bool), Just(&SqlType::Text)]
            .prop_flat_map(|ty| (Just(ty), any_array(*ty), any_array(*ty))),
    ) {
        let column = KeyColumn::ascending(0, SqlType::array(ty));
        let (first, second) = (encoded(column, &a), encoded(column, &b));
        prop_assert_eq!(first.cmp(&second), a.compare(&b));
        prop_assert!(first == second || !second.starts_with(&first));
    }

    #[test]
    fn key_order_is_value_order(
        (column, a, b) in any_column_and_values(),
    ) {
        let order = encoded(column, &a).cmp(&encoded(column, &b));
        prop_assert_eq!(order, expected(column, &a, &b), "{:?} {:?}", a, b);
    }

    #[test]
    fn no_key_is_a_prefix_of_another(
        (column, a, b) in any_column_and_values(),
    ) {
        let (a_key, b_key) = (encoded(column, &a), encoded(column, &b));
        prop_assert!(a_key == b_key || !b_key.starts_with(&a_key));
    }

    #[test]
    fn columns_order_one_after_the_other(
        (columns, a, b) in proptest::collection::vec(any_column(), 1..4).prop_flat_map(|columns| {
            let a: Vec<_> = columns.iter().map(|c| any_datum(c.ty)).collect();
            let b: Vec<_> = columns.iter().map(|c| any_datum(c.ty)).collect();
            (Just(columns), a, b)
        }),
    ) {
        let key = |values: &[Datum]| {
            let mut key = Vec::new();
            for (column, value) in columns.iter().zip(values) {
                column.encode(value, &mut key).unwrap();
            }
            key
        };
        let order = columns
            .iter()
            .zip(a.iter().zip(&b))
            .map(|(c, (a, b))| expected(*c, a, b))
            .find(|o| o.is_ne())
            .unwrap_or(Ordering::Equal);
        prop_assert_eq!(key(&a).cmp(&key(&b)), order);
    }
}

proptest! {
    #[test]
    fn a_key_gives_back_the_values_of_types_that_are_readable(
        (column, first, second) in any_column_and_values()
    ) {
        if is_readable(column.ty) {
            let mut key = encoded(column, &first);
            column.encode(&second, &mut key).unwrap();
            let mut rest = key.as_slice();
            prop_assert_eq!(column.decode(&mut rest).unwrap(), first);
            prop_assert_eq!(column.decode(&mut rest).unwrap(), second);
            prop_assert!(rest.is_empty());
        }
    }

    #[test]
    fn bytes_that_are_no_key_are_refused(
        (column, value, _) in any_column_and_values(),
        cut in 0..6usize,
        noise in proptest::collection::vec(any::<u8>(), 0..12),
    ) {
        let key = encoded(column, &value);
        let cut = &key[..key.len().saturating_sub(cut)];
        let _ = column.decode(&mut &*cut);
        let _ = column.decode(&mut noise.as_slice());
    }
}
