//! Strategies for random types and values, shared by the codecs' tests.

use proptest::prelude::*;

use crate::datum::Datum;
use crate::identity::{NumericMod, SqlType};
use crate::interval::Interval;
use crate::json::parse_jsonb;
use crate::numeric::Numeric;
use crate::padding::padded;
use crate::system_columns::TupleId;
use crate::timetz::TimeTz;

/// A type that a column may have.
pub fn any_type() -> impl Strategy<Value = SqlType> {
    prop_oneof![
        Just(SqlType::Bool),
        Just(SqlType::Int2),
        Just(SqlType::Int4),
        Just(SqlType::Int8),
        Just(SqlType::Float4),
        Just(SqlType::Float8),
        Just(SqlType::Numeric(None)),
        Just(SqlType::Numeric(Some(NumericMod {
            precision: 12,
            scale: 3
        }))),
        Just(SqlType::Text),
        Just(SqlType::Varchar(Some(8))),
        Just(SqlType::Char(Some(8))),
        Just(SqlType::Date),
        Just(SqlType::Time(None)),
        Just(SqlType::Timetz(None)),
        Just(SqlType::Interval(None)),
        Just(SqlType::Timestamp(None)),
        Just(SqlType::Timestamptz(None)),
        Just(SqlType::Uuid),
        Just(SqlType::Tid),
        Just(SqlType::Xid8),
        Just(SqlType::Oid),
        Just(SqlType::Bytea),
        Just(SqlType::Json),
        Just(SqlType::Jsonb),
    ]
}

fn any_numeric() -> impl Strategy<Value = Numeric> {
    prop_oneof![
        8 => (any::<i64>(), 0i8..15).prop_map(|(n, s)| Numeric::from_i128(i128::from(n), s)),
        4 => (-1000i64..1000, -20i8..4).prop_map(|(n, s)| Numeric::from_i128(i128::from(n), s)),
        1 => Just(Numeric::nan()),
        1 => any::<bool>().prop_map(Numeric::infinity),
    ]
}

/// A text of JSON.
pub fn any_json(depth: u32) -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("false".to_owned()),
        (-20i32..20, 0u32..3).prop_map(|(n, zeros)| match zeros {
            0 => n.to_string(),
            zeros => format!("{n}.{}", "0".repeat(zeros as usize)),
        }),
        "[a-c\u{e4}]{0,3}".prop_map(|text| format!("\"{text}\"")),
    ];
    scalar.prop_recursive(depth, 24, 4, |inner| {
        let field = ("[a-c]{0,3}", inner.clone()).prop_map(|(k, v)| format!("\"{k}\":{v}"));
        prop_oneof![
            proptest::collection::vec(inner, 0..4).prop_map(|v| format!("[{}]", v.join(","))),
            proptest::collection::vec(field, 0..4).prop_map(|v| format!("{{{}}}", v.join(","))),
        ]
    })
}

/// A value of `ty`, now and then NULL.
pub fn any_datum(ty: SqlType) -> BoxedStrategy<Datum> {
    let values = match ty {
        SqlType::Bool => any::<bool>().prop_map(Datum::Bool).boxed(),
        SqlType::Int2 => any::<i16>().prop_map(Datum::Int2).boxed(),
        SqlType::Int4 => prop_oneof![any::<i32>(), -3..3]
            .prop_map(Datum::Int4)
            .boxed(),
        SqlType::Int8 => prop_oneof![any::<i64>(), -3i64..3]
            .prop_map(Datum::Int8)
            .boxed(),
        SqlType::Json => prop_oneof![Just("{ \"a\" : 1}"), Just("[]"), Just("null")]
            .prop_map(|text| Datum::Text(text.to_owned()))
            .boxed(),
        SqlType::Jsonb => any_json(4)
            .prop_map(|text| parse_jsonb(&text).map_or(Datum::Null, Datum::Jsonb))
            .boxed(),
        SqlType::Float4 => any::<u32>()
            .prop_map(|b| Datum::Float4(f32::from_bits(b)))
            .boxed(),
        SqlType::Float8 => prop_oneof![
            any::<u64>().prop_map(f64::from_bits),
            prop_oneof![
                Just(0.0),
                Just(-0.0),
                Just(f64::NAN),
                Just(1.5),
                Just(f64::INFINITY)
            ],
        ]
        .prop_map(Datum::Float8)
        .boxed(),
        SqlType::Numeric(modifier) => any_numeric()
            .prop_map(move |n| n.apply_modifier(modifier).unwrap_or(Numeric::zero()))
            .prop_map(Datum::Numeric)
            .boxed(),
        SqlType::Date => any::<i32>().prop_map(Datum::Date).boxed(),
        SqlType::Time(_) => (0i64..86_400_000_000).prop_map(Datum::Time).boxed(),
        SqlType::Timetz(_) => (0i64..86_400_000_000, -57_599i32..57_600)
            .prop_map(|(micros, west)| Datum::Timetz(TimeTz { micros, west }))
            .boxed(),
        SqlType::Interval(_) => (any::<i32>(), any::<i32>(), any::<i64>())
            .prop_map(|(months, days, micros)| Interval {
                months,
                days,
                micros,
            })
            .prop_map(Datum::Interval)
            .boxed(),
        SqlType::Timestamp(_) => any::<i64>().prop_map(Datum::Timestamp).boxed(),
        SqlType::Timestamptz(_) => any::<i64>().prop_map(Datum::Timestamptz).boxed(),
        SqlType::Tid => any::<(u32, u16)>()
            .prop_map(|(block, slot)| Datum::Tid(TupleId { block, slot }))
            .boxed(),
        SqlType::Xid8 => any::<u64>().prop_map(Datum::Xid8).boxed(),
        SqlType::Uuid => any::<[u8; 16]>().prop_map(Datum::Uuid).boxed(),
        SqlType::Oid => any::<u32>().prop_map(Datum::Oid).boxed(),
        SqlType::Bytea => proptest::collection::vec(any::<u8>(), 0..8)
            .prop_map(Datum::Bytea)
            .boxed(),
        SqlType::Char(length) => "[ a-c\u{e4}]{0,6}"
            .prop_map(move |text| Datum::Char(padded(&text, length.unwrap_or(0))))
            .boxed(),
        _ => "([a-c]{0,4}|[ a-c\u{e4}]{0,6}[a-c])"
            .prop_map(Datum::Text)
            .boxed(),
    };
    prop_oneof![9 => values, 1 => Just(Datum::Null)].boxed()
}

/// The types and values of a row.
pub fn any_row() -> impl Strategy<Value = (Vec<SqlType>, Vec<Datum>)> {
    proptest::collection::vec(any_type(), 0..12).prop_flat_map(|types| {
        let values: Vec<_> = types.iter().map(|ty| any_datum(*ty)).collect();
        (Just(types), values)
    })
}
