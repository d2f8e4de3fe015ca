//! Dates and times: PostgreSQL's input syntax, and the text forms of every `DateStyle`.

mod decode;
mod numbers;
mod output;
mod words;

pub use crate::calendar::round_seconds;
pub use output::{push_clock, push_date, push_timestamp, push_timetz};

use self::decode::{Decoded, Zone, decode};
use self::numbers::Refusal;
use crate::calendar::{FIRST_DAY, LAST_DAY, MICROS_PER_DAY, MICROS_PER_SECOND};
use crate::context::TypeContext;
use crate::error::{SqlState, TypeError, TypeResult};
use crate::timetz::TimeTz;

/// The error of a text that is refused.
fn refused(refusal: Refusal, type_name: &str, text: &str) -> TypeError {
    let overflow = |message| TypeError::new(SqlState::DATETIME_FIELD_OVERFLOW, message);
    match refusal {
        Refusal::Format => TypeError::new(
            SqlState::INVALID_DATETIME_FORMAT,
            format!("invalid input syntax for type {type_name}: \"{text}\""),
        ),
        Refusal::Field => overflow(format!("date/time field value out of range: \"{text}\"")),
        Refusal::MonthOrDay => overflow(format!("date/time field value out of range: \"{text}\""))
            .hint("Perhaps you need a different \"DateStyle\" setting."),
        Refusal::Displacement => TypeError::new(
            SqlState::INVALID_TIME_ZONE_DISPLACEMENT,
            format!("time zone displacement out of range: \"{text}\""),
        ),
        Refusal::Zone(name) => TypeError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("time zone \"{name}\" not recognized"),
        ),
    }
}

fn out_of_range(what: &str, text: &str) -> TypeError {
    TypeError::new(
        SqlState::DATETIME_FIELD_OVERFLOW,
        format!("{what} out of range: \"{text}\""),
    )
}

/// Input function of `date`: days since 1970-01-01.
pub fn parse_date(text: &str, cx: &TypeContext) -> TypeResult<i32> {
    let decoded = decode(text, cx, false).map_err(|refusal| refused(refusal, "date", text))?;
    let days = match decoded {
        Decoded::Infinity => return Ok(i32::MAX),
        Decoded::NegativeInfinity => return Ok(i32::MIN),
        Decoded::Epoch => return Ok(0),
        Decoded::Civil { days, .. } => days.unwrap_or(0),
    };
    i32::try_from(days)
        .ok()
        .filter(|_| (FIRST_DAY..=LAST_DAY).contains(&days))
        .ok_or_else(|| out_of_range("date", text))
}

/// Input function of `time`: microseconds since midnight.
pub fn parse_time(text: &str, cx: &TypeContext) -> TypeResult<i64> {
    match decode(text, cx, true).map_err(|refusal| refused(refusal, "time", text))? {
        Decoded::Civil { micros, .. } => Ok(micros),
        _ => Err(refused(Refusal::Format, "time", text)),
    }
}

/// 4714-11-01 BC, PostgreSQL's `IS_VALID_JULIAN`: before it every zone is UTC.
const FIRST_DAY_OF_ZONES: i64 = FIRST_DAY - 23;

/// Input function of `timetz`; without a zone the session's applies, as of the day that the text
/// names or today.
pub fn parse_timetz(text: &str, cx: &TypeContext) -> TypeResult<TimeTz> {
    let name = "time with time zone";
    let decoded = decode(text, cx, true).map_err(|refusal| refused(refusal, name, text))?;
    let Decoded::Civil { days, micros, zone } = decoded else {
        return Err(refused(Refusal::Format, name, text));
    };
    let days = days.unwrap_or_else(|| today(cx));
    let local = days.saturating_mul(MICROS_PER_DAY).saturating_add(micros);
    let east = match zone {
        None if days < FIRST_DAY_OF_ZONES => 0,
        Some(Zone::Named(zone)) if days < FIRST_DAY_OF_ZONES && !zone.is_fixed() => 0,
        None => cx.time_zone.offset_of_local(local),
        Some(Zone::Offset(seconds)) => seconds,
        Some(Zone::Named(zone)) => zone.offset_of_local(local),
        Some(Zone::Abbreviated(zone, name)) => zone.offset_of_abbreviation(local, &name),
    };
    Ok(TimeTz::new(micros, east))
}

/// The day on which the transaction began, in the session's zone.
pub fn today(cx: &TypeContext) -> i64 {
    let offset = i64::from(cx.time_zone.offset_at(cx.now_micros));
    (cx.now_micros + offset * MICROS_PER_SECOND).div_euclid(MICROS_PER_DAY)
}

/// Input function of `timestamp`; a zone in the text is ignored, as in PostgreSQL.
pub fn parse_timestamp(text: &str, cx: &TypeContext) -> TypeResult<i64> {
    let decoded = decode(text, cx, false).map_err(|refusal| refused(refusal, "timestamp", text))?;
    match decoded {
        Decoded::Infinity => Ok(i64::MAX),
        Decoded::NegativeInfinity => Ok(i64::MIN),
        Decoded::Epoch => Ok(0),
        Decoded::Civil { days, micros, .. } => {
            join(days.unwrap_or(0), micros).ok_or_else(|| out_of_range("timestamp", text))
        }
    }
}

/// Input function of `timestamptz`; without a zone the session's applies.
pub fn parse_timestamptz(text: &str, cx: &TypeContext) -> TypeResult<i64> {
    let name = "timestamp with time zone";
    let (days, micros, zone) =
        match decode(text, cx, false).map_err(|refusal| refused(refusal, name, text))? {
            Decoded::Infinity => return Ok(i64::MAX),
            Decoded::NegativeInfinity => return Ok(i64::MIN),
            Decoded::Epoch => return Ok(0),
            Decoded::Civil { days, micros, zone } => (days.unwrap_or(0), micros, zone),
        };
    let instant = || {
        let local = days.checked_mul(MICROS_PER_DAY)?.checked_add(micros)?;
        let offset = match zone {
            None => cx.time_zone.offset_of_local(local),
            Some(Zone::Offset(seconds)) => seconds,
            Some(Zone::Named(zone)) => zone.offset_of_local(local),
            Some(Zone::Abbreviated(zone, name)) => zone.offset_of_abbreviation(local, &name),
        };
        let instant = local.checked_sub(i64::from(offset) * MICROS_PER_SECOND)?;
        within(instant)
    };
    instant().ok_or_else(|| out_of_range("timestamp", text))
}

fn join(days: i64, micros: i64) -> Option<i64> {
    within(days.checked_mul(MICROS_PER_DAY)?.checked_add(micros)?)
}

/// An instant from PostgreSQL's first day on that is no infinity.
fn within(micros: i64) -> Option<i64> {
    (FIRST_DAY * MICROS_PER_DAY..i64::MAX)
        .contains(&micros)
        .then_some(micros)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
