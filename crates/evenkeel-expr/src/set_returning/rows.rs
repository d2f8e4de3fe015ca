//! The rows of `pg_proc` of set-returning functions; oids and signatures are those of PostgreSQL
//! 18's catalog.

use evenkeel_types::SqlType;

use super::{arrays, moments, patterns, series, strings};
use crate::proc::{ArgType, Proc, ProcKind, RowsOf, Volatility};

const ANY_ARRAY: ArgType = ArgType::AnyArray;
const BOOL: ArgType = ArgType::Is(SqlType::Bool);
const INT4: ArgType = ArgType::Is(SqlType::Int4);
const INT8: ArgType = ArgType::Is(SqlType::Int8);
const INTERVAL: ArgType = ArgType::Is(SqlType::Interval(None));
const NUMERIC: ArgType = ArgType::Is(SqlType::Numeric(None));
const TEXT: ArgType = ArgType::Is(SqlType::Text);
const TEXTS: ArgType = ArgType::Is(SqlType::TEXT_ARRAY);
const TIMESTAMP: ArgType = ArgType::Is(SqlType::Timestamp(None));
const TIMESTAMPTZ: ArgType = ArgType::Is(SqlType::Timestamptz(None));

const fn set(
    oid: u32,
    name: &'static str,
    args: &'static [ArgType],
    result: ArgType,
    rows: RowsOf,
) -> Proc {
    Proc {
        oid,
        name,
        args,
        defaults: &[],
        variadic: false,
        result,
        strict: true,
        volatility: Volatility::Immutable,
        kind: ProcKind::Set(rows, &[]),
        cost: 1.0,
    }
}

/// All set-returning functions.
pub static SETS: [Proc; 18] = [
    set(1067, "generate_series", &[INT4, INT4], INT4, series::narrow),
    set(
        1066,
        "generate_series",
        &[INT4, INT4, INT4],
        INT4,
        series::narrow,
    ),
    set(1069, "generate_series", &[INT8, INT8], INT8, series::wide),
    set(
        1068,
        "generate_series",
        &[INT8, INT8, INT8],
        INT8,
        series::wide,
    ),
    set(
        3260,
        "generate_series",
        &[NUMERIC, NUMERIC],
        NUMERIC,
        series::numbers,
    ),
    set(
        3259,
        "generate_series",
        &[NUMERIC, NUMERIC, NUMERIC],
        NUMERIC,
        series::numbers,
    ),
    set(
        938,
        "generate_series",
        &[TIMESTAMP, TIMESTAMP, INTERVAL],
        TIMESTAMP,
        moments::local,
    ),
    Proc {
        volatility: Volatility::Stable,
        ..set(
            939,
            "generate_series",
            &[TIMESTAMPTZ, TIMESTAMPTZ, INTERVAL],
            TIMESTAMPTZ,
            moments::instants,
        )
    },
    set(
        6274,
        "generate_series",
        &[TIMESTAMPTZ, TIMESTAMPTZ, INTERVAL, TEXT],
        TIMESTAMPTZ,
        moments::instants,
    ),
    set(
        1192,
        "generate_subscripts",
        &[ANY_ARRAY, INT4],
        INT4,
        arrays::subscripts,
    ),
    set(
        1191,
        "generate_subscripts",
        &[ANY_ARRAY, INT4, BOOL],
        INT4,
        arrays::subscripts,
    ),
    set(
        2331,
        "unnest",
        &[ANY_ARRAY],
        ArgType::AnyElement,
        arrays::unnest,
    ),
    Proc {
        strict: false,
        ..set(
            6160,
            "string_to_table",
            &[TEXT, TEXT],
            TEXT,
            strings::parts_of,
        )
    },
    Proc {
        strict: false,
        ..set(
            6161,
            "string_to_table",
            &[TEXT, TEXT, TEXT],
            TEXT,
            strings::parts_of,
        )
    },
    set(
        2763,
        "regexp_matches",
        &[TEXT, TEXT],
        TEXTS,
        patterns::matches,
    ),
    set(
        2764,
        "regexp_matches",
        &[TEXT, TEXT, TEXT],
        TEXTS,
        patterns::matches,
    ),
    set(
        2765,
        "regexp_split_to_table",
        &[TEXT, TEXT],
        TEXT,
        patterns::split,
    ),
    set(
        2766,
        "regexp_split_to_table",
        &[TEXT, TEXT, TEXT],
        TEXT,
        patterns::split,
    ),
];
