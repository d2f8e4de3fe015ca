use std::cmp::Ordering;

use super::*;
use crate::context::TypeContext;
use crate::datum::RecordValue;
use crate::error::SqlState;
use crate::identity::SqlType;

const RECORDED: &str = include_str!("../../tests/recorded/array.txt");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parsed(element: SqlType, text: &str) -> Datum {
    parse(element, text, &TypeContext::default()).unwrap()
}

#[test]
fn arrays_read_and_print_as_postgres_has_them() {
    let cx = TypeContext::default();
    for line in RECORDED.lines().filter(|line| !line.starts_with('#')) {
        let [name, text, expected] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let array = SqlType::arrays().find(|ty| ty.element().unwrap().base_name() == name);
        let array = array.unwrap();
        let answer = match Datum::parse_text(array, text, &cx) {
            Ok(value) => value.to_text(array, &cx),
            Err(error) => {
                let detail = error.detail.map(|detail| format!(" | {detail}"));
                let detail = detail.unwrap_or_default();
                format!("!{} {}{detail}", error.sqlstate, error.message)
            }
        };
        assert_eq!(answer, expected, "{line}");
    }
}

#[test]
fn binary_forms_of_arrays_are_those_of_postgres() {
    for (element, text, expected) in [
        (
            SqlType::Int4,
            "{1,NULL,3}",
            "00000001000000010000001700000003000000010000000400000001ffffffff0000000400000003",
        ),
        (
            SqlType::Text,
            "[2:3][0:0]={{a},{b c}}",
            "00000002000000000000001900000002000000020000000100000000000000016100000003622063",
        ),
        (SqlType::Float8, "{}", "0000000000000000000002bd"),
    ] {
        let value = parsed(element, text);
        let ty = element.array_of().unwrap();
        let mut bytes = Vec::new();
        value.write_binary(ty, &mut bytes);
        assert_eq!(hex(&bytes), expected);
        assert_eq!(Datum::parse_binary(ty, &bytes).unwrap(), value);
        for end in 0..bytes.len() {
            assert!(Datum::parse_binary(ty, &bytes[..end]).is_err());
        }
    }
    // A length that was declared and not sent allocates nothing.
    let huge = [
        0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 7, 0xff, 0xff, 0xff, 0, 0, 0, 1,
    ];
    let error = parse_binary(SqlType::Int4, &huge).unwrap_err();
    assert_eq!(error.sqlstate, SqlState::PROTOCOL_VIOLATION);
}

#[test]
fn records_print_and_are_sent_as_postgres_has_them() {
    let cx = TypeContext::default();
    let types = [
        SqlType::Int4,
        SqlType::Text,
        SqlType::Int8,
        SqlType::Text,
        SqlType::Text,
        SqlType::Bool,
        SqlType::Char(Some(3)),
    ];
    let fields = [
        Datum::Int4(1),
        Datum::from("a b"),
        Datum::Null,
        Datum::from(""),
        Datum::from("q\"\\("),
        Datum::Bool(true),
        Datum::Char("x  ".to_owned()),
    ];
    let record = |count: usize| {
        let record = RecordValue::new(types[..count].into(), fields[..count].into());
        Datum::Record(record.into())
    };
    let text = record(7).to_text(SqlType::Record, &cx);
    assert_eq!(text, r#"(1,"a b",,"","q""\\(",t,"x  ")"#);
    let mut bytes = Vec::new();
    record(3).write_binary(SqlType::Record, &mut bytes);
    let expected = "00000003000000170000000400000001000000190000000361206200000014ffffffff";
    assert_eq!(hex(&bytes), expected);
    let (Datum::Record(three), Datum::Record(two)) = (record(3), record(2)) else {
        panic!("records");
    };
    assert_eq!(three.compare_checked(&three), Ok(Ordering::Equal));
    assert!(three.compare_checked(&two).is_err());
    let swapped = RecordValue::new([SqlType::Text].into(), [Datum::from("a")].into());
    let error = three.compare_checked(&swapped).unwrap_err();
    assert_eq!(error.sqlstate, SqlState::DATATYPE_MISMATCH);
}

#[test]
fn arrays_compare_by_elements_then_by_shape() {
    let ordered = [
        "{}",
        "{1}",
        "[2:2]={1}",
        "{1,2}",
        "{1,2,3,4}",
        "{{1,2},{3,4}}",
        "[2:3][1:2]={{1,2},{3,4}}",
        "{1,3}",
        "{2}",
        "{NULL}",
    ];
    let values: Vec<Datum> = ordered.iter().map(|t| parsed(SqlType::Int4, t)).collect();
    for pair in values.windows(2) {
        assert_eq!(pair[0].compare(&pair[1]), Ordering::Less, "{pair:?}");
    }
}

#[test]
fn subscripts_and_slices_are_those_of_postgres() {
    let cx = TypeContext::default();
    let value = parsed(SqlType::Int4, "[0:2][5:6]={{1,2},{3,4},{5,6}}");
    let array = value.as_array().unwrap();
    assert_eq!(array.get(&[1, 6]), Some(&Datum::Int4(4)));
    assert_eq!(array.get(&[3, 5]), None);
    assert_eq!(array.get(&[i32::MIN, i32::MAX]), None);
    assert_eq!(array.get(&[1]), None);
    let slice = |ranges: &[(Option<i32>, Option<i32>)]| {
        let part = Datum::Array(array.slice(ranges).into());
        part.to_text(SqlType::Int4.array_of().unwrap(), &cx)
    };
    assert_eq!(slice(&[(Some(1), None)]), "{{3,4},{5,6}}");
    assert_eq!(slice(&[(None, Some(0)), (Some(6), Some(9))]), "{{2}}");
    assert_eq!(slice(&[(Some(2), Some(1))]), "{}");
    assert_eq!(slice(&[(None, None); 3]), "{}");
}

#[test]
fn equal_values_hash_alike() {
    use std::hash::{DefaultHasher, Hasher};
    let hash = |value: &Datum| {
        let mut state = DefaultHasher::new();
        value.hash_value(&mut state);
        state.finish()
    };
    let cx = TypeContext::default();
    for (ty, a, b) in [
        (SqlType::Float8, "0", "-0"),
        (SqlType::Float8, "NaN", "nan"),
        (SqlType::Numeric(None), "1.50", "1.5"),
        (SqlType::Numeric(None), "0.000", "0"),
        (SqlType::Interval(None), "1 mon", "30 days"),
        (SqlType::Char(None), "a ", "a"),
        (SqlType::array(&SqlType::Float8), "{0,NULL}", "{-0,NULL}"),
    ] {
        let read = |text| Datum::parse_text(ty, text, &cx).unwrap();
        assert!(read(a).equals(&read(b)), "{a} {b}");
        assert_eq!(hash(&read(a)), hash(&read(b)), "{a} {b}");
    }
}

#[test]
fn assignments_make_the_arrays_that_postgres_makes() {
    let cx = TypeContext::default();
    type Ranges = &'static [(Option<i32>, Option<i32>)];
    let cases: [(&str, Ranges, &str, &str); 9] = [
        ("{}", &[(Some(3), Some(4))], "{7,8}", "[3:4]={7,8}"),
        ("{1}", &[(Some(3), Some(3))], "{7}", "{1,NULL,7}"),
        (
            "{1,2}",
            &[(Some(-1), Some(1))],
            "{7,8,9}",
            "[-1:2]={7,8,9,2}",
        ),
        ("{1,2,3}", &[(None, Some(2))], "{7,8,9}", "{7,8,3}"),
        (
            "{1,2,3}",
            &[(Some(1), Some(3))],
            "{7,8}",
            "!source array too small",
        ),
        (
            "{1}",
            &[(Some(2), Some(1))],
            "{7}",
            "!upper bound cannot be less than lower bound",
        ),
        (
            "{{1,2},{3,4}}",
            &[(None, None), (Some(2), Some(2))],
            "{7,8}",
            "{{1,7},{3,8}}",
        ),
        (
            "{{1,2},{3,4}}",
            &[(Some(2), Some(2))],
            "{7,8}",
            "{{1,2},{7,8}}",
        ),
        (
            "{{1,2},{3,4}}",
            &[(Some(3), Some(3))],
            "{7,8}",
            "!array subscript out of range",
        ),
    ];
    let ty = SqlType::array(&SqlType::Int4);
    for (array, ranges, values, expected) in cases {
        let array = parsed(SqlType::Int4, array);
        let values = parsed(SqlType::Int4, values);
        let array = array.as_array().unwrap();
        let made = AssignedPart::slice(array, ranges)
            .and_then(|part| part.assign(array, values.as_array().unwrap().elements()));
        let answer = match made {
            Ok(made) => Datum::Array(made.into()).to_text(ty, &cx),
            Err(error) => format!("!{}", error.message),
        };
        assert_eq!(answer, expected, "{ranges:?}");
    }
}
