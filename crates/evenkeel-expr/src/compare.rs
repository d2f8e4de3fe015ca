//! Comparisons, the greater and the smaller of two, and three-valued orders.

use std::cmp::Ordering;

use evenkeel_types::{ArrayValue, Datum, Dimension, TimeZone};

use crate::calendar::{DAY, INSTANT_INFINITIES, SECOND, is_finite};
use crate::call::Call;
use crate::error::ExprResult;
use crate::pace::VALUE_STEPS;

type Answer = ExprResult<Datum>;

/// The six comparisons by an order, and with `[cmp]` the order as a number.
macro_rules! comparisons {
    ($(#[$doc:meta])* $([$cmp:ident])? $module:ident, $call:ident => $order:expr) => {
        $(#[$doc])*
        #[allow(missing_docs)]
        pub mod $module {
            use super::*;

            #[inline]
            fn order($call: &Call<'_>) -> ExprResult<Ordering> {
                $order
            }

            pub fn eq(call: &Call<'_>) -> Answer {
                Ok(Datum::Bool(order(call)?.is_eq()))
            }

            pub fn ne(call: &Call<'_>) -> Answer {
                Ok(Datum::Bool(order(call)?.is_ne()))
            }

            pub fn lt(call: &Call<'_>) -> Answer {
                Ok(Datum::Bool(order(call)?.is_lt()))
            }

            pub fn le(call: &Call<'_>) -> Answer {
                Ok(Datum::Bool(order(call)?.is_le()))
            }

            pub fn gt(call: &Call<'_>) -> Answer {
                Ok(Datum::Bool(order(call)?.is_gt()))
            }

            pub fn ge(call: &Call<'_>) -> Answer {
                Ok(Datum::Bool(order(call)?.is_ge()))
            }

            $(
            pub fn $cmp(call: &Call<'_>) -> Answer {
                Ok(Datum::Int4(order(call)? as i32))
            }
            )?
        }
    };
}

fn same_bits(call: &Call<'_>) -> ExprResult<bool> {
    match (call.arg(0), call.arg(1)) {
        (Datum::Oid(a), Datum::Int4(b)) => Ok(*a == b.cast_unsigned()),
        _ => Err(crate::error::internal("a comparison of other types")),
    }
}

/// `xid = integer`, of the same bits.
pub fn xid_is_int4(call: &Call<'_>) -> Answer {
    Ok(Datum::Bool(same_bits(call)?))
}

/// `xid <> integer`
pub fn xid_is_not_int4(call: &Call<'_>) -> Answer {
    Ok(Datum::Bool(!same_bits(call)?))
}

comparisons! {
    /// Of two values of one type.
    [cmp] same, call => match call.args {
        [Datum::Array(a), Datum::Array(b)] => arrays(call, a, b),
        _ => Ok(call.arg(0).compare(call.arg(1))),
    }
}

/// Elements up to which arrays are compared at once.
const FEW: usize = 1 << 10;

/// The order of arrays: the elements that are equal are passed over step by step.
fn arrays(call: &Call<'_>, a: &ArrayValue, b: &ArrayValue) -> ExprResult<Ordering> {
    let (left, right) = (a.elements(), b.elements());
    if left.len().min(right.len()) <= FEW {
        return Ok(a.compare(b));
    }
    let mut pace = call.pace();
    for (left, right) in left.iter().zip(right) {
        let order = left.compare(right);
        if order.is_ne() {
            return Ok(order);
        }
        pace.step(VALUE_STEPS)?;
    }
    let (of_left, of_right) = (a.dimensions(), b.dimensions());
    let part = |of: fn(&Dimension) -> i32| of_left.iter().map(of).cmp(of_right.iter().map(of));
    let lengths = left.len().cmp(&right.len());
    let shapes = lengths.then(of_left.len().cmp(&of_right.len()));
    let shapes = shapes.then_with(|| part(|dimension| dimension.length));
    Ok(shapes.then_with(|| part(|dimension| dimension.lower)))
}

comparisons! {
    /// Of two `integer`.
    [cmp] int4, call => match call.args {
        [Datum::Int4(a), Datum::Int4(b)] => Ok(a.cmp(b)),
        _ => call.mismatch(),
    }
}

comparisons! {
    /// Of two `bigint`.
    [cmp] int8, call => match call.args {
        [Datum::Int8(a), Datum::Int8(b)] => Ok(a.cmp(b)),
        _ => call.mismatch(),
    }
}

comparisons! {
    /// Of two strings, by their bytes; of two `character(n)` but for their blanks.
    text, call => match call.args {
        [Datum::Text(a), Datum::Text(b)] => Ok(a.as_bytes().cmp(b.as_bytes())),
        [Datum::Char(_), Datum::Char(_)] => Ok(call.arg(0).compare(call.arg(1))),
        _ => call.mismatch(),
    }
}

comparisons! {
    /// Of integers of any widths.
    [cmp] integers, call => Ok(call.int(0).cmp(&call.int(1)))
}

comparisons! {
    /// Of floats of any widths.
    [cmp] floats, call => {
        let (a, b) = (call.float(0), call.float(1));
        Ok(a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())))
    }
}

comparisons! {
    /// Of rows, which have the same types.
    [cmp] records, call => match call.args {
        [Datum::Record(a), Datum::Record(b)] => a.compare_checked(b),
        _ => call.mismatch(),
    }
}

comparisons! {
    /// Of dates and timestamps, with and without a zone.
    [cmp] moments, call => {
        let zoned = |value: &Datum| matches!(value, Datum::Timestamptz(_));
        let zone = (zoned(call.arg(0)) || zoned(call.arg(1))).then(|| call.zone());
        Ok(micros(call.arg(0), zone).cmp(&micros(call.arg(1), zone)))
    }
}

/// Microseconds of a moment, by the clocks of a zone where there is one. Wider than a timestamp:
/// a date beyond the timestamps is later than any of them but infinity.
fn micros(value: &Datum, zone: Option<&TimeZone>) -> i128 {
    const INFINITY: i128 = i128::MAX;
    let instant = |local: i128| match (zone, i64::try_from(local)) {
        (Some(zone), Ok(local)) => {
            i128::from(local) - i128::from(zone.offset_of_local(local)) * i128::from(SECOND)
        }
        _ => local,
    };
    match value {
        Datum::Date(i32::MAX) => INFINITY,
        Datum::Date(i32::MIN) => -INFINITY,
        Datum::Date(days) => instant(i128::from(*days) * i128::from(DAY)),
        Datum::Timestamp(micros) | Datum::Timestamptz(micros) if !is_finite(*micros) => {
            match *micros == INSTANT_INFINITIES[0] {
                true => -INFINITY,
                false => INFINITY,
            }
        }
        Datum::Timestamp(micros) => instant(i128::from(*micros)),
        Datum::Timestamptz(micros) => i128::from(*micros),
        _ => 0,
    }
}

/// Whether of two equal values PostgreSQL takes the first, as its functions for `bpchar` do.
fn keeps_first(call: &Call<'_>) -> bool {
    matches!(call.arg(0), Datum::Char(_))
}

/// The greater of two values of one type.
pub fn larger(call: &Call<'_>) -> Answer {
    let order = call.arg(0).compare(call.arg(1));
    let first = order.is_gt() || (order.is_eq() && keeps_first(call));
    Ok(call.arg(usize::from(!first)).clone())
}

/// The smaller of two values of one type.
pub fn smaller(call: &Call<'_>) -> Answer {
    let order = call.arg(0).compare(call.arg(1));
    let first = order.is_lt() || (order.is_eq() && keeps_first(call));
    Ok(call.arg(usize::from(!first)).clone())
}

/// `num_nulls`
pub fn num_nulls(call: &Call<'_>) -> Answer {
    let nulls = call.args.iter().filter(|arg| arg.is_null()).count();
    Ok(Datum::Int4(i32::try_from(nulls).unwrap_or(i32::MAX)))
}

/// `num_nonnulls`
pub fn num_nonnulls(call: &Call<'_>) -> Answer {
    let values = call.args.iter().filter(|arg| !arg.is_null()).count();
    Ok(Datum::Int4(i32::try_from(values).unwrap_or(i32::MAX)))
}
