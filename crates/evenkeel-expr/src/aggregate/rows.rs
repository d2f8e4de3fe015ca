//! The rows of `pg_proc` of aggregates and window functions; oids and signatures are those of
//! PostgreSQL 18's catalog.

use evenkeel_types::SqlType;

use super::arrays::{Elements, SubArrays};
use super::counts::{AnyValue, Count, CountRows};
use super::extremes::Extreme;
use super::floats::{Float4Sum, Float8Sum, Moments};
use super::integers::{Bits, IntegerSpread, NarrowSum, Spread, WideSum};
use super::intervals::IntervalSum;
use super::logic::Logic;
use super::numerics::{NumericSpread, Sum};
use super::regression::{Regression, Sums};
use super::strings::Joined;
use super::{hypothetical, ordered};
use crate::proc::{ArgType, NewAccumulator, Proc, ProcKind, Volatility, WindowFunction};

const ANY_ELEMENT: ArgType = ArgType::AnyElement;
const ANY_ARRAY: ArgType = ArgType::AnyArray;
const ANY_COMPATIBLE: ArgType = ArgType::AnyCompatible;
const BOOL: ArgType = ArgType::Is(SqlType::Bool);
const BYTEA: ArgType = ArgType::Is(SqlType::Bytea);
const CHAR: ArgType = ArgType::Is(SqlType::Char(None));
const DATE: ArgType = ArgType::Is(SqlType::Date);
const FLOAT4: ArgType = ArgType::Is(SqlType::Float4);
const FLOAT8: ArgType = ArgType::Is(SqlType::Float8);
const FLOAT8_ARRAY: ArgType = ArgType::Is(SqlType::array(&SqlType::Float8));
const INT2: ArgType = ArgType::Is(SqlType::Int2);
const INT4: ArgType = ArgType::Is(SqlType::Int4);
const INT8: ArgType = ArgType::Is(SqlType::Int8);
const INTERVAL: ArgType = ArgType::Is(SqlType::Interval(None));
const INTERVAL_ARRAY: ArgType = ArgType::Is(SqlType::array(&SqlType::Interval(None)));
const NUMERIC: ArgType = ArgType::Is(SqlType::Numeric(None));
const OID: ArgType = ArgType::Is(SqlType::Oid);
const TID: ArgType = ArgType::Is(SqlType::Tid);
const XID8: ArgType = ArgType::Is(SqlType::Xid8);
const TEXT: ArgType = ArgType::Is(SqlType::Text);
const TIME: ArgType = ArgType::Is(SqlType::Time(None));
const TIMETZ: ArgType = ArgType::Is(SqlType::Timetz(None));
const TIMESTAMP: ArgType = ArgType::Is(SqlType::Timestamp(None));
const TIMESTAMPTZ: ArgType = ArgType::Is(SqlType::Timestamptz(None));

const VAR_POP: Spread = Spread {
    sample: false,
    root: false,
};
const VAR_SAMP: Spread = Spread {
    sample: true,
    root: false,
};
const STDDEV_POP: Spread = Spread {
    sample: false,
    root: true,
};
const STDDEV_SAMP: Spread = Spread {
    sample: true,
    root: true,
};

const fn proc(
    oid: u32,
    name: &'static str,
    args: &'static [ArgType],
    result: ArgType,
    kind: ProcKind,
) -> Proc {
    Proc {
        oid,
        name,
        args,
        defaults: &[],
        variadic: false,
        result,
        strict: false,
        volatility: Volatility::Immutable,
        kind,
        cost: 1.0,
    }
}

pub(super) const fn aggregate(
    oid: u32,
    name: &'static str,
    args: &'static [ArgType],
    result: ArgType,
    new: NewAccumulator,
) -> Proc {
    proc(oid, name, args, result, ProcKind::Aggregate(new))
}

const fn max(oid: u32, ty: &'static [ArgType; 1]) -> Proc {
    aggregate(oid, "max", ty, ty[0], |_| Box::new(Extreme::greatest()))
}

const fn min(oid: u32, ty: &'static [ArgType; 1]) -> Proc {
    aggregate(oid, "min", ty, ty[0], |_| Box::new(Extreme::least()))
}

const fn pairs(oid: u32, name: &'static str, new: NewAccumulator) -> Proc {
    aggregate(oid, name, &[FLOAT8, FLOAT8], FLOAT8, new)
}

const fn hypothetical_set(
    oid: u32,
    name: &'static str,
    result: ArgType,
    new: crate::proc::NewOrderedSet,
) -> Proc {
    Proc {
        variadic: true,
        ..proc(
            oid,
            name,
            &[ArgType::Any],
            result,
            ProcKind::HypotheticalSet(new),
        )
    }
}

/// Six measures of spread (of which two have two names) of six types, with their first oids:
/// `bigint`, `integer`, `smallint`, `real`, `double precision`, `numeric`.
macro_rules! spreads {
    ($($name:literal, $spread:ident: $int8:literal $int4:literal $int2:literal $float4:literal
        $float8:literal $numeric:literal;)*) => {
        [$(
            aggregate($int8, $name, &[INT8], NUMERIC, |_| {
                Box::new(IntegerSpread::<i64>::new($spread))
            }),
            aggregate($int4, $name, &[INT4], NUMERIC, |_| {
                Box::new(IntegerSpread::<i32>::new($spread))
            }),
            aggregate($int2, $name, &[INT2], NUMERIC, |_| {
                Box::new(IntegerSpread::<i16>::new($spread))
            }),
            aggregate($float4, $name, &[FLOAT4], FLOAT8, |_| Box::new(Moments::spread($spread))),
            aggregate($float8, $name, &[FLOAT8], FLOAT8, |_| Box::new(Moments::spread($spread))),
            aggregate($numeric, $name, &[NUMERIC], NUMERIC, |_| {
                Box::new(NumericSpread::new($spread))
            }),
        )*]
    };
}

pub(super) static SPREADS: [Proc; 36] = spreads! {
    "var_pop", VAR_POP: 2718 2719 2720 2721 2722 2723;
    "var_samp", VAR_SAMP: 2641 2642 2643 2644 2645 2646;
    "variance", VAR_SAMP: 2148 2149 2150 2151 2152 2153;
    "stddev_pop", STDDEV_POP: 2724 2725 2726 2727 2728 2729;
    "stddev_samp", STDDEV_SAMP: 2712 2713 2714 2715 2716 2717;
    "stddev", STDDEV_SAMP: 2154 2155 2156 2157 2158 2159;
};

pub(super) static PLAIN: [Proc; 87] = [
    aggregate(2803, "count", &[], INT8, |_| Box::new(CountRows::default())),
    aggregate(2147, "count", &[ArgType::Any], INT8, |_| {
        Box::new(Count::default())
    }),
    aggregate(6291, "any_value", &[ANY_ELEMENT], ANY_ELEMENT, |_| {
        Box::new(AnyValue::default())
    }),
    aggregate(2107, "sum", &[INT8], NUMERIC, |_| {
        Box::new(WideSum::<i64>::sum())
    }),
    aggregate(2108, "sum", &[INT4], INT8, |_| {
        Box::new(NarrowSum::<i32>::default())
    }),
    aggregate(2109, "sum", &[INT2], INT8, |_| {
        Box::new(NarrowSum::<i16>::default())
    }),
    aggregate(2110, "sum", &[FLOAT4], FLOAT4, |_| {
        Box::new(Float4Sum::default())
    }),
    aggregate(2111, "sum", &[FLOAT8], FLOAT8, |_| {
        Box::new(Float8Sum::default())
    }),
    aggregate(2113, "sum", &[INTERVAL], INTERVAL, |_| {
        Box::new(IntervalSum::new(false))
    }),
    aggregate(2114, "sum", &[NUMERIC], NUMERIC, |_| {
        Box::new(Sum::new(false))
    }),
    aggregate(2100, "avg", &[INT8], NUMERIC, |_| {
        Box::new(WideSum::<i64>::average())
    }),
    aggregate(2101, "avg", &[INT4], NUMERIC, |_| {
        Box::new(WideSum::<i32>::average())
    }),
    aggregate(2102, "avg", &[INT2], NUMERIC, |_| {
        Box::new(WideSum::<i16>::average())
    }),
    aggregate(2103, "avg", &[NUMERIC], NUMERIC, |_| {
        Box::new(Sum::new(true))
    }),
    aggregate(2104, "avg", &[FLOAT4], FLOAT8, |_| {
        Box::new(Moments::average())
    }),
    aggregate(2105, "avg", &[FLOAT8], FLOAT8, |_| {
        Box::new(Moments::average())
    }),
    aggregate(2106, "avg", &[INTERVAL], INTERVAL, |_| {
        Box::new(IntervalSum::new(true))
    }),
    aggregate(2236, "bit_and", &[INT2], INT2, |_| {
        Box::new(Bits::<i16>::new(|a, b| a & b))
    }),
    aggregate(2238, "bit_and", &[INT4], INT4, |_| {
        Box::new(Bits::<i32>::new(|a, b| a & b))
    }),
    aggregate(2240, "bit_and", &[INT8], INT8, |_| {
        Box::new(Bits::<i64>::new(|a, b| a & b))
    }),
    aggregate(2237, "bit_or", &[INT2], INT2, |_| {
        Box::new(Bits::<i16>::new(|a, b| a | b))
    }),
    aggregate(2239, "bit_or", &[INT4], INT4, |_| {
        Box::new(Bits::<i32>::new(|a, b| a | b))
    }),
    aggregate(2241, "bit_or", &[INT8], INT8, |_| {
        Box::new(Bits::<i64>::new(|a, b| a | b))
    }),
    aggregate(6164, "bit_xor", &[INT2], INT2, |_| {
        Box::new(Bits::<i16>::new(|a, b| a ^ b))
    }),
    aggregate(6165, "bit_xor", &[INT4], INT4, |_| {
        Box::new(Bits::<i32>::new(|a, b| a ^ b))
    }),
    aggregate(6166, "bit_xor", &[INT8], INT8, |_| {
        Box::new(Bits::<i64>::new(|a, b| a ^ b))
    }),
    aggregate(2517, "bool_and", &[BOOL], BOOL, |_| Box::new(Logic::all())),
    aggregate(2518, "bool_or", &[BOOL], BOOL, |_| Box::new(Logic::any())),
    aggregate(2519, "every", &[BOOL], BOOL, |_| Box::new(Logic::all())),
    aggregate(3538, "string_agg", &[TEXT, TEXT], TEXT, |_| {
        Box::new(Joined::<String>::default())
    }),
    aggregate(3545, "string_agg", &[BYTEA, BYTEA], BYTEA, |_| {
        Box::new(Joined::<Vec<u8>>::default())
    }),
    max(2115, &[INT8]),
    max(2116, &[INT4]),
    max(2117, &[INT2]),
    max(2118, &[OID]),
    max(2797, &[TID]),
    max(5099, &[XID8]),
    max(2119, &[FLOAT4]),
    max(2120, &[FLOAT8]),
    max(2122, &[DATE]),
    max(2123, &[TIME]),
    max(2124, &[TIMETZ]),
    max(2126, &[TIMESTAMP]),
    max(2127, &[TIMESTAMPTZ]),
    max(2128, &[INTERVAL]),
    max(2129, &[TEXT]),
    max(2130, &[NUMERIC]),
    max(2244, &[CHAR]),
    max(6395, &[BYTEA]),
    min(2131, &[INT8]),
    min(2132, &[INT4]),
    min(2133, &[INT2]),
    min(2134, &[OID]),
    min(2798, &[TID]),
    min(5100, &[XID8]),
    min(2135, &[FLOAT4]),
    min(2136, &[FLOAT8]),
    min(2138, &[DATE]),
    min(2139, &[TIME]),
    min(2140, &[TIMETZ]),
    min(2142, &[TIMESTAMP]),
    min(2143, &[TIMESTAMPTZ]),
    min(2144, &[INTERVAL]),
    min(2145, &[TEXT]),
    min(2146, &[NUMERIC]),
    min(2245, &[CHAR]),
    min(6396, &[BYTEA]),
    max(2050, &[ANY_ARRAY]),
    min(2051, &[ANY_ARRAY]),
    max(3526, &[ArgType::AnyEnum]),
    min(3527, &[ArgType::AnyEnum]),
    max(6373, &[ArgType::Record]),
    min(6374, &[ArgType::Record]),
    aggregate(
        2335,
        "array_agg",
        &[ArgType::AnyNonArray],
        ANY_ARRAY,
        |_| Box::new(Elements::default()),
    ),
    aggregate(4053, "array_agg", &[ANY_ARRAY], ANY_ARRAY, |_| {
        Box::new(SubArrays::default())
    }),
    aggregate(2818, "regr_count", &[FLOAT8, FLOAT8], INT8, |_| {
        Box::new(Count::default())
    }),
    pairs(2819, "regr_sxx", |_| Box::new(Regression::new(Sums::sxx))),
    pairs(2820, "regr_syy", |_| Box::new(Regression::new(Sums::syy))),
    pairs(2821, "regr_sxy", |_| Box::new(Regression::new(Sums::sxy))),
    pairs(2822, "regr_avgx", |_| {
        Box::new(Regression::new(Sums::average_x))
    }),
    pairs(2823, "regr_avgy", |_| {
        Box::new(Regression::new(Sums::average_y))
    }),
    pairs(2824, "regr_r2", |_| {
        Box::new(Regression::new(Sums::determination))
    }),
    pairs(2825, "regr_slope", |_| {
        Box::new(Regression::new(Sums::slope))
    }),
    pairs(2826, "regr_intercept", |_| {
        Box::new(Regression::new(Sums::intercept))
    }),
    pairs(2827, "covar_pop", |_| {
        Box::new(Regression::new(Sums::covariance_of_all))
    }),
    pairs(2828, "covar_samp", |_| {
        Box::new(Regression::new(Sums::covariance_of_sample))
    }),
    pairs(2829, "corr", |_| {
        Box::new(Regression::new(Sums::correlation))
    }),
];

pub(super) static ORDERED: [Proc; 11] = [
    proc(
        3978,
        "percentile_disc",
        &[FLOAT8_ARRAY, ANY_ELEMENT],
        ANY_ARRAY,
        ProcKind::OrderedSet(ordered::discrete, 1),
    ),
    proc(
        3980,
        "percentile_cont",
        &[FLOAT8_ARRAY, FLOAT8],
        FLOAT8_ARRAY,
        ProcKind::OrderedSet(ordered::continuous, 1),
    ),
    proc(
        3982,
        "percentile_cont",
        &[FLOAT8_ARRAY, INTERVAL],
        INTERVAL_ARRAY,
        ProcKind::OrderedSet(ordered::continuous, 1),
    ),
    proc(
        3984,
        "mode",
        &[ANY_ELEMENT],
        ANY_ELEMENT,
        ProcKind::OrderedSet(ordered::mode, 0),
    ),
    proc(
        3972,
        "percentile_disc",
        &[FLOAT8, ANY_ELEMENT],
        ANY_ELEMENT,
        ProcKind::OrderedSet(ordered::discrete, 1),
    ),
    proc(
        3974,
        "percentile_cont",
        &[FLOAT8, FLOAT8],
        FLOAT8,
        ProcKind::OrderedSet(ordered::continuous, 1),
    ),
    proc(
        3976,
        "percentile_cont",
        &[FLOAT8, INTERVAL],
        INTERVAL,
        ProcKind::OrderedSet(ordered::continuous, 1),
    ),
    hypothetical_set(3986, "rank", INT8, hypothetical::RANK),
    hypothetical_set(3988, "percent_rank", FLOAT8, hypothetical::PERCENT_RANK),
    hypothetical_set(3990, "cume_dist", FLOAT8, hypothetical::CUME_DIST),
    hypothetical_set(3992, "dense_rank", INT8, hypothetical::DENSE_RANK),
];

/// A window function; those with arguments are strict in `pg_proc`.
const fn window(
    oid: u32,
    name: &'static str,
    args: &'static [ArgType],
    result: ArgType,
    function: WindowFunction,
) -> Proc {
    Proc {
        strict: !args.is_empty(),
        ..proc(oid, name, args, result, ProcKind::Window(function))
    }
}

/// All window functions that are no aggregates.
pub static WINDOW_FUNCTIONS: [Proc; 15] = [
    window(3100, "row_number", &[], INT8, WindowFunction::RowNumber),
    window(3101, "rank", &[], INT8, WindowFunction::Rank),
    window(3102, "dense_rank", &[], INT8, WindowFunction::DenseRank),
    window(
        3103,
        "percent_rank",
        &[],
        FLOAT8,
        WindowFunction::PercentRank,
    ),
    window(3104, "cume_dist", &[], FLOAT8, WindowFunction::CumeDist),
    window(3105, "ntile", &[INT4], INT4, WindowFunction::Ntile),
    window(
        3106,
        "lag",
        &[ANY_ELEMENT],
        ANY_ELEMENT,
        WindowFunction::Lag,
    ),
    window(
        3107,
        "lag",
        &[ANY_ELEMENT, INT4],
        ANY_ELEMENT,
        WindowFunction::Lag,
    ),
    window(
        3108,
        "lag",
        &[ANY_COMPATIBLE, INT4, ANY_COMPATIBLE],
        ANY_COMPATIBLE,
        WindowFunction::Lag,
    ),
    window(
        3109,
        "lead",
        &[ANY_ELEMENT],
        ANY_ELEMENT,
        WindowFunction::Lead,
    ),
    window(
        3110,
        "lead",
        &[ANY_ELEMENT, INT4],
        ANY_ELEMENT,
        WindowFunction::Lead,
    ),
    window(
        3111,
        "lead",
        &[ANY_COMPATIBLE, INT4, ANY_COMPATIBLE],
        ANY_COMPATIBLE,
        WindowFunction::Lead,
    ),
    window(
        3112,
        "first_value",
        &[ANY_ELEMENT],
        ANY_ELEMENT,
        WindowFunction::FirstValue,
    ),
    window(
        3113,
        "last_value",
        &[ANY_ELEMENT],
        ANY_ELEMENT,
        WindowFunction::LastValue,
    ),
    window(
        3114,
        "nth_value",
        &[ANY_ELEMENT, INT4],
        ANY_ELEMENT,
        WindowFunction::NthValue,
    ),
];
