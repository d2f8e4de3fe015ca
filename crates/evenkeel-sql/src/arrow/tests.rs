use bytes::BytesMut;
use datafusion::arrow::array::{
    Array, Decimal128Array, DurationSecondArray, Int64Array, ListArray, StringViewArray,
    TimestampNanosecondArray, UInt64Array,
};
use datafusion::arrow::datatypes::Int64Type;

use super::*;
use crate::session::api::Format;
use crate::types::{Datum, TypeContext};

fn text(array: &dyn Array, row: usize) -> String {
    let ty = SqlType::from_arrow_type(array.data_type());
    let mut out = BytesMut::new();
    put_field(
        array,
        row,
        ty,
        Format::Text,
        &TypeContext::default(),
        &mut out,
    )
    .unwrap();
    String::from_utf8(out[4..].to_vec()).unwrap()
}

#[test]
fn a_field_remembers_its_type() {
    let modified = SqlType::Numeric(Some(NumericMod {
        precision: 50,
        scale: 2,
    }));
    let types = [
        modified,
        SqlType::Char(Some(3)),
        SqlType::Timestamptz(Some(3)),
        SqlType::Name,
    ];
    for ty in SqlType::all().iter().chain(&types) {
        assert_eq!(SqlType::from_arrow_field(&ty.arrow_field("c", true)), *ty);
    }
}

#[test]
fn metadata_that_disagrees_with_the_data_type_is_ignored() {
    let field = Field::new("c", DataType::Utf8, true).with_metadata(SqlType::Int4.arrow_metadata());
    assert_eq!(SqlType::from_arrow_field(&field), SqlType::Text);
}

#[test]
fn every_declared_numeric_has_a_decimal() {
    for (precision, scale, expected) in [
        (10, 2, DataType::Decimal128(10, 2)),
        (38, 38, DataType::Decimal128(38, 38)),
        (39, 0, DataType::Decimal256(39, 0)),
        (3, 5, DataType::Decimal128(5, 5)),
        (3, -2, DataType::Decimal128(5, 0)),
        (1000, 1000, DataType::Decimal256(76, 76)),
    ] {
        let ty = SqlType::Numeric(Some(NumericMod { precision, scale }));
        assert_eq!(ty.arrow_type(), expected);
    }
}

#[test]
fn results_of_any_arrow_type_print_as_postgres_prints_them() {
    assert_eq!(text(&Int64Array::from(vec![-5]), 0), "-5");
    assert_eq!(text(&UInt64Array::from(vec![7]), 0), "7");
    assert_eq!(text(&StringViewArray::from(vec!["a"]), 0), "a");
    let decimals = Decimal128Array::from(vec![1050])
        .with_precision_and_scale(6, 2)
        .unwrap();
    assert_eq!(text(&decimals, 0), "10.50");
    let instants = TimestampNanosecondArray::from(vec![1_500_000_000]);
    assert_eq!(text(&instants, 0), "1970-01-01 00:00:01.5");
    let duration = DurationSecondArray::from(vec![90_000]);
    assert_eq!(text(&duration, 0), "1 day 01:00:00");
    let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(1), None])]);
    assert_eq!(text(&list, 0), "{1,NULL}");
}

#[test]
fn scalars_round_trip() {
    let cx = TypeContext::default();
    for (ty, form) in [
        (SqlType::Bool, "t"),
        (SqlType::Int4, "-3"),
        (SqlType::Numeric(None), "12.5"),
        (
            SqlType::Numeric(Some(NumericMod {
                precision: 9,
                scale: 3,
            })),
            "12.500",
        ),
        (SqlType::Text, "x"),
        (SqlType::Uuid, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        (SqlType::Timestamptz(None), "2024-01-01 00:00:00+00"),
        (SqlType::Date, "2024-01-01"),
        (SqlType::Oid, "16384"),
    ] {
        let datum = Datum::parse_text(ty, form, &cx).unwrap();
        let scalar = scalar_from_datum(&datum, ty).unwrap();
        assert_eq!(scalar.data_type(), ty.arrow_type());
        assert_eq!(
            datum_from_scalar(&scalar, ty).unwrap().to_text(ty, &cx),
            form
        );
        let null = scalar_from_datum(&Datum::Null, ty).unwrap();
        assert!(null.is_null() && null.data_type() == ty.arrow_type());
    }
}
