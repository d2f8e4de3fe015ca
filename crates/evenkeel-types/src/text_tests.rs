use proptest::prelude::*;

use super::*;
use crate::identity::NumericMod;

fn round_trip(ty: SqlType, text: &str) -> TypeResult<String> {
    let cx = TypeContext::default();
    Ok(Datum::parse_text(ty, text, &cx)?.to_text(ty, &cx))
}

#[test]
fn text_forms_are_those_of_postgres() {
    let numeric = SqlType::Numeric(Some(NumericMod {
        precision: 8,
        scale: 2,
    }));
    for (ty, text, expected) in [
        (SqlType::Bool, "yes", "t"),
        (SqlType::Bool, " FALSE ", "f"),
        (SqlType::Bool, "of", "f"),
        (SqlType::Int2, "-32768", "-32768"),
        (SqlType::Int4, " +42 ", "42"),
        (
            SqlType::Int8,
            "-9223372036854775808",
            "-9223372036854775808",
        ),
        (SqlType::Float8, "1e15", "1e+15"),
        (SqlType::Float8, "123456789012345", "123456789012345"),
        (SqlType::Float8, "0.1", "0.1"),
        (SqlType::Float8, "0.0001", "0.0001"),
        (SqlType::Float8, "0.00001", "1e-05"),
        (SqlType::Float8, "-1.5e-300", "-1.5e-300"),
        (SqlType::Float8, "-0", "-0"),
        (SqlType::Float8, "infinity", "Infinity"),
        (SqlType::Float8, "nan", "NaN"),
        (SqlType::Float8, "100", "100"),
        (SqlType::Float4, "1000000", "1e+06"),
        (SqlType::Float4, "123456", "123456"),
        (SqlType::Float4, "0.1", "0.1"),
        (SqlType::Float4, "3.4028235e38", "3.4028235e+38"),
        (numeric, "1.005", "1.01"),
        (numeric, "7", "7.00"),
        (SqlType::Varchar(Some(3)), "ab   ", "ab "),
        (SqlType::Char(Some(5)), "ab", "ab   "),
        (SqlType::Char(Some(2)), "ab   ", "ab"),
        (SqlType::Char(Some(4)), "äö", "äö  "),
        (
            SqlType::Uuid,
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        ),
        (
            SqlType::Uuid,
            "{a0eebc999c0b4ef8bb6d6bb9bd380a11}",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        ),
        (SqlType::Bytea, "\\xDEADbeef", "\\xdeadbeef"),
        (SqlType::Bytea, "a\\\\b\\001", "\\x615c6201"),
        (SqlType::Time(None), "4:05:06.5", "04:05:06.5"),
        (
            SqlType::Timestamp(Some(0)),
            "2024-01-01 00:00:00.5",
            "2024-01-01 00:00:01",
        ),
        (SqlType::Oid, "-1", "4294967295"),
        (SqlType::Int2Vector, " 1  2 ", "1 2"),
    ] {
        assert_eq!(
            round_trip(ty, text).unwrap(),
            expected,
            "{text} as {}",
            ty.name()
        );
    }
}

#[test]
fn bad_text_gives_postgres_errors() {
    for (ty, texts, state, message) in [
        (
            SqlType::Int4,
            "abc||2.5|1 2",
            "22P02",
            "invalid input syntax for type integer: \"@\"",
        ),
        (
            SqlType::Int4,
            "2147483648",
            "22003",
            "value \"@\" is out of range for type integer",
        ),
        (
            SqlType::Int2,
            "40000",
            "22003",
            "value \"@\" is out of range for type smallint",
        ),
        (
            SqlType::Bool,
            "maybe|o",
            "22P02",
            "invalid input syntax for type boolean: \"@\"",
        ),
        (
            SqlType::Float8,
            "1e400|1e-400",
            "22003",
            "\"@\" is out of range for type double precision",
        ),
        (
            SqlType::Float4,
            "x",
            "22P02",
            "invalid input syntax for type real: \"@\"",
        ),
        (
            SqlType::Uuid,
            "a0ee",
            "22P02",
            "invalid input syntax for type uuid: \"@\"",
        ),
        (
            SqlType::Varchar(Some(2)),
            "abc",
            "22001",
            "value too long for type character varying(2)",
        ),
        (
            SqlType::Char(Some(2)),
            "abc",
            "22001",
            "value too long for type character(2)",
        ),
        (
            SqlType::Date,
            "x",
            "22007",
            "invalid input syntax for type date: \"@\"",
        ),
    ] {
        for text in texts.split('|') {
            let error = round_trip(ty, text).unwrap_err();
            assert_eq!(error.sqlstate.as_str(), state, "{text}");
            assert_eq!(*error.message, *message.replace('@', text));
        }
    }
}

#[test]
fn char_values_have_the_blanks_of_their_length() {
    let cx = TypeContext::default();
    let padded = |text: &str| Datum::Char(text.to_owned());
    for (length, text, held) in [
        (Some(5), "ab  ", "ab   "),
        (Some(2), "ab   ", "ab"),
        (Some(3), "\u{e4}", "\u{e4}  "),
        (None, "ab ", "ab "),
    ] {
        let ty = SqlType::Char(length);
        let datum = Datum::parse_text(ty, text, &cx).unwrap();
        assert_eq!(datum, padded(held));
        let same = padded("ab ").cast_explicit(SqlType::Char(None), ty, &cx);
        assert!(same.unwrap().equals(&padded("ab")));
    }
    assert!(!padded("a ").identical(&padded("a")));
    let text = padded("a b  ").cast_assign(SqlType::Char(None), SqlType::Text, &cx);
    assert_eq!(text.unwrap(), Datum::from("a b"));
}

#[test]
fn settings_change_text_forms_as_in_postgres() {
    let cx = TypeContext {
        extra_float_digits: 0,
        bytea_output: ByteaOutput::Escape,
        ..TypeContext::default()
    };
    for (ty, text, expected) in [
        (SqlType::Float8, "0.1234567890123456", "0.123456789012346"),
        (SqlType::Float8, "1e15", "1e+15"),
        (SqlType::Float8, "123456789012345", "123456789012345"),
        (SqlType::Float8, "100000", "100000"),
        (SqlType::Float4, "1.23456789", "1.23457"),
        (SqlType::Bytea, "\\x005c41ff", "\\000\\\\A\\377"),
    ] {
        let value = Datum::parse_text(ty, text, &cx).unwrap();
        assert_eq!(value.to_text(ty, &cx), expected, "{text}");
    }
    let cx = TypeContext {
        extra_float_digits: -15,
        ..cx
    };
    assert_eq!(Datum::Float8(1234.5).to_text(SqlType::Float8, &cx), "1e+03");
}

proptest! {
    #[test]
    fn floats_read_back_as_themselves(bits: u64) {
        let value = f64::from_bits(bits);
        let again = parse_float8(&format_float8(value, 1)).unwrap();
        prop_assert!(value.is_nan() && again.is_nan() || value.to_bits() == again.to_bits());
    }

    #[test]
    fn reals_read_back_as_themselves(bits: u32) {
        let value = f32::from_bits(bits);
        let again = parse_float4(&format_float4(value, 1)).unwrap();
        prop_assert!(value.is_nan() && again.is_nan() || value.to_bits() == again.to_bits());
    }

    #[test]
    fn integers_print_as_rust_prints_them(value: i64) {
        let mut out = Vec::new();
        put_integer(value, &mut out);
        prop_assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,20}") {
        for ty in SqlType::all() {
            let _ = round_trip(*ty, &text);
        }
    }
}
