//! Arithmetic of intervals.

use evenkeel_types::{Datum, Interval, TypeError};

use crate::calendar::SECOND;
use crate::call::Call;
use crate::error::{self, ExprResult};

fn overflow() -> TypeError {
    error::datetime_overflow("interval out of range")
}

/// `justify_days`
pub fn justify_days(call: &Call<'_>) -> ExprResult<Datum> {
    call.interval(0).justify_days().map(Datum::Interval)
}

/// `justify_hours`
pub fn justify_hours(call: &Call<'_>) -> ExprResult<Datum> {
    call.interval(0).justify_hours().map(Datum::Interval)
}

/// `justify_interval`
pub fn justify_interval(call: &Call<'_>) -> ExprResult<Datum> {
    call.interval(0).justify_interval().map(Datum::Interval)
}

/// `interval + interval`
pub fn add(call: &Call<'_>) -> ExprResult<Datum> {
    call.interval(0)
        .checked_add(call.interval(1))
        .map(Datum::Interval)
}

/// `interval - interval`
pub fn subtract(call: &Call<'_>) -> ExprResult<Datum> {
    call.interval(0)
        .checked_sub(call.interval(1))
        .map(Datum::Interval)
}

/// `- interval`
pub fn negate(call: &Call<'_>) -> ExprResult<Datum> {
    call.interval(0).checked_neg().map(Datum::Interval)
}

/// `interval * number`
pub fn multiply(call: &Call<'_>) -> ExprResult<Datum> {
    call.interval(0)
        .checked_mul(call.float(1))
        .map(Datum::Interval)
}

/// `number * interval`
pub fn multiplied(call: &Call<'_>) -> ExprResult<Datum> {
    call.interval(1)
        .checked_mul(call.float(0))
        .map(Datum::Interval)
}

/// `interval / number`
pub fn divide(call: &Call<'_>) -> ExprResult<Datum> {
    call.interval(0)
        .checked_div(call.float(1))
        .map(Datum::Interval)
}

/// `make_interval(years, months, weeks, days, hours, mins, secs)`
pub fn make(call: &Call<'_>) -> ExprResult<Datum> {
    let part = |at| call.int4(at);
    let seconds = call.float(6);
    if !seconds.is_finite() {
        return Err(overflow());
    }
    let months = part(0)?
        .checked_mul(12)
        .zip(part(1).ok())
        .and_then(|(years, months)| years.checked_add(months));
    let days = part(2)?
        .checked_mul(7)
        .zip(part(3).ok())
        .and_then(|(weeks, days)| weeks.checked_add(days));
    let clock = (i64::from(part(4)?) * 60 + i64::from(part(5)?)) * 60;
    let fraction = (seconds * 1e6).round_ties_even();
    if fraction.abs() >= 9.2e18 {
        return Err(overflow());
    }
    let micros = clock
        .checked_mul(SECOND)
        .and_then(|clock| clock.checked_add(fraction as i64));
    let made = months
        .zip(days)
        .zip(micros)
        .map(|((months, days), micros)| Interval {
            months,
            days,
            micros,
        });
    let made = made.filter(|made| made.is_finite()).ok_or_else(overflow)?;
    Ok(Datum::Interval(made))
}
