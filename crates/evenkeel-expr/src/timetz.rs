//! Times with a zone: arithmetic, and the clocks of other zones.

use evenkeel_types::{Datum, TimeTz, TimeZone};

use crate::calendar::{SECOND, checked_instant, is_finite};
use crate::call::Call;
use crate::datetime::{interval_zone, midnight, time_earlier, time_later};
use crate::error::ExprResult;

type Answer = ExprResult<Datum>;

fn with_micros(time: TimeTz, micros: i64) -> Datum {
    Datum::Timetz(TimeTz { micros, ..time })
}

/// `timetz + interval`
pub fn plus(call: &Call<'_>) -> Answer {
    let time = call.timetz(0);
    Ok(with_micros(
        time,
        time_later(time.micros, call.interval(1))?,
    ))
}

/// `interval + timetz`
pub fn plus_timetz(call: &Call<'_>) -> Answer {
    let time = call.timetz(1);
    Ok(with_micros(
        time,
        time_later(time.micros, call.interval(0))?,
    ))
}

/// `timetz - interval`
pub fn minus(call: &Call<'_>) -> Answer {
    let time = call.timetz(0);
    Ok(with_micros(
        time,
        time_earlier(time.micros, call.interval(1))?,
    ))
}

fn on_day(days: i32, time: TimeTz) -> Answer {
    let midnight = midnight(days)?;
    if !is_finite(midnight) {
        return Ok(Datum::Timestamptz(midnight));
    }
    checked_instant(midnight.checked_add(time.utc_micros())).map(Datum::Timestamptz)
}

/// `date + timetz`
pub fn date_plus(call: &Call<'_>) -> Answer {
    on_day(call.date(0), call.timetz(1))
}

/// `timetz + date`
pub fn plus_date(call: &Call<'_>) -> Answer {
    on_day(call.date(1), call.timetz(0))
}

/// The time by the clocks that a zone has when the transaction begins.
fn in_zone(call: &Call<'_>, time: TimeTz, zone: &TimeZone) -> Datum {
    let east = zone.offset_at(call.now());
    Datum::Timetz(time.at(east.saturating_neg()))
}

/// `timetz AT TIME ZONE text`
pub fn at_zone(call: &Call<'_>) -> Answer {
    let zone = TimeZone::of_expression(call.text(0))?;
    Ok(in_zone(call, call.timetz(1), &zone))
}

/// `timetz AT TIME ZONE interval`
pub fn at_interval(call: &Call<'_>) -> Answer {
    let east = interval_zone(call)? / SECOND;
    // Wrapped as PostgreSQL's, where the offset is beyond 32 bits.
    Ok(Datum::Timetz(call.timetz(1).at(-(east as i32))))
}

/// `timetz AT LOCAL`
pub fn at_local(call: &Call<'_>) -> Answer {
    Ok(in_zone(call, call.timetz(0), call.zone()))
}
