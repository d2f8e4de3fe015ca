//! The time now, and periods that overlap.

use std::time::{SystemTime, UNIX_EPOCH};

use evenkeel_types::Datum;

use crate::calendar::{Moment, SECOND, clock};
use crate::call::Call;
use crate::datetime;
use crate::error::ExprResult;

type Answer = ExprResult<Datum>;

/// `now`, `transaction_timestamp`
pub fn now(call: &Call<'_>) -> Answer {
    Ok(Datum::Timestamptz(call.now()))
}

/// `statement_timestamp`
pub fn statement(call: &Call<'_>) -> Answer {
    Ok(Datum::Timestamptz(call.session.statement_start()))
}

fn current() -> i64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX)
}

/// `clock_timestamp`
pub fn current_time(_: &Call<'_>) -> Answer {
    Ok(Datum::Timestamptz(current()))
}

/// `timeofday`: the time now as C's `strftime` prints it.
pub fn time_of_day(call: &Call<'_>) -> Answer {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    let (now, zone) = (current(), call.zone());
    let moment = Moment::of_instant(now, zone);
    let (hour, minute, second, micros) = clock(moment.micros);
    let name = |names: &[&'static str], at: i64| {
        usize::try_from(at)
            .ok()
            .and_then(|at| names.get(at).copied())
            .unwrap_or_default()
    };
    let abbreviation = zone.abbreviation_at(now).unwrap_or_else(|| {
        let offset = i64::from(zone.offset_at(now)) * SECOND;
        let (hours, minutes, ..) = clock(offset);
        format!("{hours:+03}{:02}", minutes.abs())
    });
    Ok(format!(
        "{} {} {:02} {hour:02}:{minute:02}:{second:02}.{micros:06} {} {abbreviation}",
        name(&DAYS, moment.weekday()),
        name(&MONTHS, moment.month - 1),
        moment.day,
        moment.year
    )
    .into())
}

/// A period: its beginning, and its end if that is known.
struct Period {
    start: Datum,
    end: Datum,
}

impl Period {
    /// `None` where neither is known. The ends may come in any order.
    fn of(start: Datum, end: Datum) -> Option<Period> {
        match (start.is_null(), end.is_null()) {
            (true, true) => None,
            (true, false) => Some(Period {
                start: end,
                end: Datum::Null,
            }),
            (false, false) if start.compare(&end).is_gt() => Some(Period {
                start: end,
                end: start,
            }),
            _ => Some(Period { start, end }),
        }
    }
}

fn overlap(first: Option<Period>, second: Option<Period>) -> Datum {
    let (Some(first), Some(second)) = (first, second) else {
        return Datum::Null;
    };
    let order = first.start.compare(&second.start);
    if order.is_eq() {
        return match first.end.is_null() || second.end.is_null() {
            true => Datum::Null,
            false => Datum::Bool(true),
        };
    }
    let (earlier, later) = match order.is_gt() {
        true => (second, first),
        false => (first, second),
    };
    if earlier.end.is_null() {
        return Datum::Null;
    }
    if later.start.compare(&earlier.end).is_lt() {
        return Datum::Bool(true);
    }
    match later.end.is_null() {
        true => Datum::Null,
        false => Datum::Bool(false),
    }
}

/// The end of a period: as given, or as an interval behind the beginning.
fn end(call: &Call<'_>, at: usize) -> Answer {
    let Datum::Interval(_) = call.arg(at + 1) else {
        return Ok(call.arg(at + 1).clone());
    };
    let args = [call.arg(at), call.arg(at + 1)];
    let sum = Call {
        args: &args,
        ..*call
    };
    match call.arg(at) {
        Datum::Timestamptz(_) => datetime::timestamptz_plus(&sum),
        Datum::Timestamp(_) => datetime::timestamp_plus(&sum),
        Datum::Time(_) => datetime::time_plus(&sum),
        _ => Ok(Datum::Null),
    }
}

/// `overlaps`
pub fn overlaps(call: &Call<'_>) -> Answer {
    let first = Period::of(call.arg(0).clone(), end(call, 0)?);
    let second = Period::of(call.arg(2).clone(), end(call, 2)?);
    Ok(overlap(first, second))
}
