use proptest::prelude::*;

use super::*;
use crate::context::TypeContext;
use crate::datum::Datum;
use crate::identity::SqlType;
use crate::testing::any_json;

fn jsonb(text: &str) -> Jsonb {
    parse_jsonb(text).unwrap()
}

fn text(value: &Jsonb) -> String {
    let mut out = Vec::new();
    write_jsonb(value.root(), &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn fields_are_ordered_by_length_and_the_last_of_a_name_stays() {
    let value = jsonb(r#"{"bb":1, "a":[1.50,{"x":null}], "c":"\u00e4\n", "bb":-0, "":true}"#);
    let expected = r#"{"": true, "a": [1.50, {"x": null}], "c": "ä\n", "bb": 0}"#;
    assert_eq!(text(&value), expected);
    let object = value.root().as_object().unwrap();
    assert_eq!(object.find("c").unwrap().kind(), JsonbKind::String);
    assert!(object.find("d").is_none());
    assert_eq!(value, jsonb(expected));
}

#[test]
fn wide_values_are_as_narrow_ones() {
    let long = "x".repeat(70_000);
    let value = jsonb(&format!(r#"{{"b":"{long}","a":[1,"{long}"]}}"#));
    assert_eq!(
        text(&value),
        format!(r#"{{"a": [1, "{long}"], "b": "{long}"}}"#)
    );
    let many = format!("[{}]", vec!["1"; 70_000].join(", "));
    assert_eq!(text(&jsonb(&many)), many);
}

#[test]
fn depth_is_bounded_and_nothing_recurses() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let deepest = nested(MAX_JSON_DEPTH);
    let value = jsonb(&deepest);
    assert_eq!(text(&value), deepest);
    assert!(value.root().compare(value.root()).is_eq());
    let mut key = Vec::new();
    encode_key(value.root(), &mut key);
    for text in [nested(MAX_JSON_DEPTH + 1), "{\"a\":".repeat(1 << 20)] {
        let error = check_json(&text).unwrap_err();
        assert_eq!(error.sqlstate.as_str(), "54001");
    }
}

#[test]
fn bytes_that_are_no_value_are_read_without_a_panic() {
    let value = jsonb(r#"{"a":[1,"x",{"b":[]}],"c":false}"#);
    for at in 0..value.bytes().len() {
        for byte in [0, 1, 5, 7, 8, 0x7f, 0xff] {
            let mut bytes = value.bytes().to_vec();
            bytes[at] = byte;
            let damaged = Jsonb::from_bytes(bytes.into());
            let _ = (text(&damaged), damaged.root().compare(value.root()));
        }
        let _ = text(&Jsonb::from_bytes(value.bytes()[..at].into()));
    }
}

/// Each is below the next, as PostgreSQL 18 orders them.
#[test]
fn order_is_that_of_postgres() {
    let ordered = [
        "[]",
        "null",
        r#""""#,
        r#""a""#,
        r#""b""#,
        "-1",
        "0",
        "1.5",
        "false",
        "true",
        "[null]",
        "[1]",
        "[[]]",
        "[{}]",
        "[1, 2]",
        "{}",
        r#"{"a": 1}"#,
        r#"{"a": 2}"#,
        r#"{"b": 0}"#,
        r#"{"a": 0, "b": 0}"#,
    ];
    let values: Vec<Jsonb> = ordered.iter().map(|text| jsonb(text)).collect();
    for (at, pair) in values.windows(2).enumerate() {
        let order = pair[0].root().compare(pair[1].root());
        assert!(order.is_lt(), "{} < {}", ordered[at], ordered[at + 1]);
    }
}

#[test]
fn the_binary_form_has_a_version() {
    let value = Datum::Jsonb(jsonb("[1]"));
    let mut bytes = Vec::new();
    value.write_binary(SqlType::Jsonb, &mut bytes);
    assert_eq!(bytes, b"\x01[1]");
    assert_eq!(Datum::parse_binary(SqlType::Jsonb, &bytes).unwrap(), value);
    assert!(Datum::parse_binary(SqlType::Jsonb, b"\x02[1]").is_err());
    assert!(Datum::parse_binary(SqlType::Jsonb, b"").is_err());
}

proptest! {
    #[test]
    fn text_is_read_as_it_is_written(json in any_json(5)) {
        let value = jsonb(&json);
        let again = jsonb(&text(&value));
        prop_assert_eq!(&again, &value);
        let mut out = Vec::new();
        pretty(value.root(), &mut out);
        prop_assert_eq!(jsonb(&String::from_utf8(out).unwrap()), value);
    }

    #[test]
    fn any_text_is_read_or_refused_as_json(text in "[\\[\\]{}:,\"\\\\ua0-9.eE+ \n-]{0,20}") {
        let cx = TypeContext::default();
        let json = Datum::parse_text(SqlType::Json, &text, &cx);
        let jsonb = Datum::parse_text(SqlType::Jsonb, &text, &cx);
        prop_assert!(json.is_ok() || jsonb.is_err());
    }
}

/// The errors of PostgreSQL 18: type, text, SQLSTATE, message, detail, context.
#[test]
fn json_errors_are_those_of_postgres() {
    let cx = TypeContext::default();
    let lines = include_str!("errors.txt").lines();
    for line in lines.filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let ty = if fields[0] == "json" {
            SqlType::Json
        } else {
            SqlType::Jsonb
        };
        let found = match Datum::parse_text(ty, fields[1], &cx) {
            Ok(_) => "ok".to_owned(),
            Err(error) => {
                let detail = error.detail.unwrap_or_default();
                let context = error.context.unwrap_or_default();
                let state = error.sqlstate;
                format!("{state}\t{}\t{detail}\t{context}", error.message)
            }
        };
        assert_eq!(found, fields[2..].join("\t"), "{line}");
    }
}
