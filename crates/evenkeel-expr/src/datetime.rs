//! Arithmetic of dates, times and timestamps, in the session's zone where it matters.

use evenkeel_types::{Datum, Interval, TimeZone};

use crate::calendar::{
    DAY, HOUR, INSTANT_INFINITIES, MINUTE, Moment, SECOND, checked_date, checked_instant, date_of,
    days_of, instant_of, is_finite, month_days,
};
use crate::call::Call;
use crate::error::{self, ExprResult};

type Answer = ExprResult<Datum>;

fn date_is_finite(days: i32) -> bool {
    days != i32::MIN && days != i32::MAX
}

/// The first moment of a day.
///
/// # Errors
/// 22008 out of range.
pub fn midnight(days: i32) -> ExprResult<i64> {
    match days {
        i32::MIN => Ok(INSTANT_INFINITIES[0]),
        i32::MAX => Ok(INSTANT_INFINITIES[1]),
        days => checked_instant(i64::from(days).checked_mul(DAY))
            .map_err(|_| error::datetime_overflow("date out of range for timestamp")),
    }
}

/// A local clock reading, later by the months and days of an interval.
fn shifted(local: i64, interval: Interval) -> ExprResult<i64> {
    if interval.months == 0 && interval.days == 0 {
        return Ok(local);
    }
    let mut moment = Moment::of_local(local);
    let months = moment.month - 1 + i64::from(interval.months);
    moment.year += months.div_euclid(12);
    moment.month = months.rem_euclid(12) + 1;
    moment.day = moment.day.min(month_days(moment.year, moment.month));
    moment.day += i64::from(interval.days);
    moment.to_local()
}

/// The infinity that a sum has, if one of its parts has one.
fn infinite_sum(instant: i64, interval: Interval) -> ExprResult<Option<i64>> {
    let wanted = match interval {
        Interval::INFINITY => INSTANT_INFINITIES[1],
        Interval::NEGATIVE_INFINITY => INSTANT_INFINITIES[0],
        _ => return Ok((!is_finite(instant)).then_some(instant)),
    };
    match is_finite(instant) || instant == wanted {
        true => Ok(Some(wanted)),
        false => Err(error::datetime_overflow("timestamp out of range")),
    }
}

/// `timestamp + interval`
///
/// # Errors
/// 22008 out of range.
pub(crate) fn local_plus(local: i64, interval: Interval) -> ExprResult<i64> {
    if let Some(infinity) = infinite_sum(local, interval)? {
        return Ok(infinity);
    }
    checked_instant(shifted(local, interval)?.checked_add(interval.micros))
}

/// An instant, later by an interval on the clocks of a zone.
///
/// # Errors
/// 22008 out of range.
pub fn instant_plus(instant: i64, interval: Interval, zone: &TimeZone) -> ExprResult<i64> {
    if let Some(infinity) = infinite_sum(instant, interval)? {
        return Ok(infinity);
    }
    let mut moved = instant;
    if interval.months != 0 || interval.days != 0 {
        let local = Moment::of_instant(instant, zone).to_local()?;
        moved = instant_of(shifted(local, interval)?, zone)?;
    }
    checked_instant(moved.checked_add(interval.micros))
}

/// `timestamp + interval`
pub fn timestamp_plus(call: &Call<'_>) -> Answer {
    local_plus(call.int(0), call.interval(1)).map(Datum::Timestamp)
}

/// `interval + timestamp`
pub fn plus_timestamp(call: &Call<'_>) -> Answer {
    local_plus(call.int(1), call.interval(0)).map(Datum::Timestamp)
}

/// `timestamp - interval`
pub fn timestamp_minus(call: &Call<'_>) -> Answer {
    local_plus(call.int(0), call.interval(1).checked_neg()?).map(Datum::Timestamp)
}

/// `timestamptz + interval`
pub fn timestamptz_plus(call: &Call<'_>) -> Answer {
    let zone = call.zone();
    instant_plus(call.int(0), call.interval(1), zone).map(Datum::Timestamptz)
}

/// `interval + timestamptz`
pub fn plus_timestamptz(call: &Call<'_>) -> Answer {
    let zone = call.zone();
    instant_plus(call.int(1), call.interval(0), zone).map(Datum::Timestamptz)
}

/// `timestamptz - interval`
pub fn timestamptz_minus(call: &Call<'_>) -> Answer {
    let zone = call.zone();
    instant_plus(call.int(0), call.interval(1).checked_neg()?, zone).map(Datum::Timestamptz)
}

/// `date_add(timestamptz, interval, text)`
pub fn add_in_zone(call: &Call<'_>) -> Answer {
    let zone = TimeZone::of_expression(call.text(2))?;
    instant_plus(call.int(0), call.interval(1), &zone).map(Datum::Timestamptz)
}

/// `date_subtract(timestamptz, interval, text)`
pub fn subtract_in_zone(call: &Call<'_>) -> Answer {
    let zone = TimeZone::of_expression(call.text(2))?;
    let interval = call.interval(1).checked_neg()?;
    instant_plus(call.int(0), interval, &zone).map(Datum::Timestamptz)
}

/// `date + interval`
pub fn date_plus(call: &Call<'_>) -> Answer {
    local_plus(midnight(call.date(0))?, call.interval(1)).map(Datum::Timestamp)
}

/// `interval + date`
pub fn plus_date(call: &Call<'_>) -> Answer {
    local_plus(midnight(call.date(1))?, call.interval(0)).map(Datum::Timestamp)
}

/// `date - interval`
pub fn date_minus(call: &Call<'_>) -> Answer {
    local_plus(midnight(call.date(0))?, call.interval(1).checked_neg()?).map(Datum::Timestamp)
}

fn later(days: i32, by: i64) -> Answer {
    match date_is_finite(days) {
        true => checked_date(i64::from(days) + by).map(Datum::Date),
        false => Ok(Datum::Date(days)),
    }
}

/// `date + integer`
pub fn date_plus_days(call: &Call<'_>) -> Answer {
    later(call.date(0), call.int(1))
}

/// `integer + date`
pub fn days_plus_date(call: &Call<'_>) -> Answer {
    later(call.date(1), call.int(0))
}

/// `date - integer`
pub fn date_minus_days(call: &Call<'_>) -> Answer {
    later(call.date(0), -call.int(1))
}

/// `date - date`
pub fn date_minus_date(call: &Call<'_>) -> Answer {
    let (left, right) = (call.date(0), call.date(1));
    if !date_is_finite(left) || !date_is_finite(right) {
        return Err(error::datetime_overflow("cannot subtract infinite dates"));
    }
    let days = left.checked_sub(right);
    days.map(Datum::Int4)
        .ok_or_else(|| error::datetime_overflow("date out of range"))
}

/// `date + time`
pub fn date_plus_time(call: &Call<'_>) -> Answer {
    at_time(call.date(0), call.int(1))
}

/// `time + date`
pub fn time_plus_date(call: &Call<'_>) -> Answer {
    at_time(call.date(1), call.int(0))
}

fn at_time(days: i32, time: i64) -> Answer {
    let midnight = midnight(days)?;
    if !is_finite(midnight) {
        return Ok(Datum::Timestamp(midnight));
    }
    checked_instant(midnight.checked_add(time)).map(Datum::Timestamp)
}

/// `timestamp - timestamp` and `timestamptz - timestamptz`: days of 24 hours, and the rest.
pub fn difference(call: &Call<'_>) -> Answer {
    let (left, right) = (call.int(0), call.int(1));
    let overflow = || error::datetime_overflow("interval out of range");
    let interval = match (is_finite(left), is_finite(right)) {
        (true, true) => {
            let micros = left.checked_sub(right).ok_or_else(overflow)?;
            let days = i32::try_from(micros / DAY).map_err(|_| overflow())?;
            Interval {
                months: 0,
                days,
                micros: micros % DAY,
            }
        }
        (false, false) if left == right => return Err(overflow()),
        (false, _) if left > 0 => Interval::INFINITY,
        (true, _) if right < 0 => Interval::INFINITY,
        _ => Interval::NEGATIVE_INFINITY,
    };
    Ok(Datum::Interval(interval))
}

/// A time of day, later by an interval.
///
/// # Errors
/// 22008 for an infinite one.
pub(crate) fn time_later(time: i64, interval: Interval) -> ExprResult<i64> {
    match interval.is_finite() {
        true => Ok((time + interval.micros % DAY).rem_euclid(DAY)),
        false => Err(error::datetime_overflow(
            "cannot add infinite interval to time",
        )),
    }
}

/// A time of day, earlier by an interval.
///
/// # Errors
/// 22008 for an infinite one.
pub(crate) fn time_earlier(time: i64, interval: Interval) -> ExprResult<i64> {
    let message = "cannot subtract infinite interval from time";
    match interval.is_finite() {
        true => Ok((time - interval.micros % DAY).rem_euclid(DAY)),
        false => Err(error::datetime_overflow(message)),
    }
}

/// `time + interval`
pub fn time_plus(call: &Call<'_>) -> Answer {
    time_later(call.int(0), call.interval(1)).map(Datum::Time)
}

/// `interval + time`
pub fn plus_time(call: &Call<'_>) -> Answer {
    time_later(call.int(1), call.interval(0)).map(Datum::Time)
}

/// `time - interval`
pub fn time_minus(call: &Call<'_>) -> Answer {
    time_earlier(call.int(0), call.interval(1)).map(Datum::Time)
}

/// `time - time`
pub fn time_difference(call: &Call<'_>) -> Answer {
    Ok(Datum::Interval(Interval {
        micros: call.int(0) - call.int(1),
        ..Interval::ZERO
    }))
}

/// The fields' difference, as people count an age.
fn age_between(left: i64, right: i64, at: impl Fn(i64) -> Moment) -> Answer {
    let overflow = || error::datetime_overflow("interval out of range");
    match (is_finite(left), is_finite(right)) {
        (true, true) => {}
        (false, false) if left == right => return Err(overflow()),
        (false, _) if left > 0 => return Ok(Datum::Interval(Interval::INFINITY)),
        (true, _) if right < 0 => return Ok(Datum::Interval(Interval::INFINITY)),
        _ => return Ok(Datum::Interval(Interval::NEGATIVE_INFINITY)),
    }
    let (older, newer) = (left.min(right), left.max(right));
    let (from, to) = (at(older), at(newer));
    let (mut micros, mut days) = (to.micros - from.micros, to.day - from.day);
    let (mut months, mut years) = (to.month - from.month, to.year - from.year);
    if micros < 0 {
        micros += DAY;
        days -= 1;
    }
    // PostgreSQL takes the month of the second argument or, of an age below zero, of the first.
    while days < 0 {
        days += month_days(from.year, from.month);
        months -= 1;
    }
    while months < 0 {
        months += 12;
        years -= 1;
    }
    let months = i32::try_from(years * 12 + months).map_err(|_| overflow())?;
    let age = Interval {
        months,
        days: i32::try_from(days).map_err(|_| overflow())?,
        micros,
    };
    match left < right {
        true => age.checked_neg().map(Datum::Interval),
        false => Ok(Datum::Interval(age)),
    }
}

/// `age(timestamp, timestamp)`
pub fn age(call: &Call<'_>) -> Answer {
    age_between(call.int(0), call.int(1), Moment::of_local)
}

/// `age(timestamptz, timestamptz)`
pub fn age_in_zone(call: &Call<'_>) -> Answer {
    let at = |instant| Moment::of_instant(instant, call.zone());
    age_between(call.int(0), call.int(1), at)
}

/// The beginning of the session's day, by its clocks.
fn today(call: &Call<'_>) -> i64 {
    let mut today = Moment::of_instant(call.now(), call.zone());
    today.micros = 0;
    today.days() * DAY
}

/// `age(timestamp)`
pub fn age_today(call: &Call<'_>) -> Answer {
    age_between(today(call), call.int(0), Moment::of_local)
}

/// `age(timestamptz)`
pub fn age_today_in_zone(call: &Call<'_>) -> Answer {
    let at = |instant| Moment::of_instant(instant, call.zone());
    let today = instant_of(today(call), call.zone())?;
    age_between(today, call.int(0), at)
}

fn bin(call: &Call<'_>) -> ExprResult<i64> {
    let (stride, source, origin) = (call.interval(0), call.int(1), call.int(2));
    if !is_finite(source) {
        return Ok(source);
    }
    let refused = |message: &str| Err(error::datetime_overflow(message));
    if !is_finite(origin) {
        return refused("origin out of range");
    }
    if !stride.is_finite() {
        return refused("timestamps cannot be binned into infinite intervals");
    }
    if stride.months != 0 {
        return Err(error::unsupported(
            "timestamps cannot be binned into intervals containing months or years",
        ));
    }
    let overflow = || error::datetime_overflow("interval out of range");
    let width = i64::from(stride.days).checked_mul(DAY);
    let width = width.and_then(|days| days.checked_add(stride.micros));
    let width = width.ok_or_else(overflow)?;
    if width <= 0 {
        return refused("stride must be greater than zero");
    }
    let difference = source.checked_sub(origin).ok_or_else(overflow)?;
    let whole = difference - difference.rem_euclid(width);
    checked_instant(origin.checked_add(whole))
}

/// `date_bin(interval, timestamp, timestamp)`
pub fn bin_timestamp(call: &Call<'_>) -> Answer {
    bin(call).map(Datum::Timestamp)
}

/// `date_bin(interval, timestamptz, timestamptz)`
pub fn bin_timestamptz(call: &Call<'_>) -> Answer {
    bin(call).map(Datum::Timestamptz)
}

/// `timestamptz AT TIME ZONE text`
pub fn to_zone(call: &Call<'_>) -> Answer {
    if !is_finite(call.int(1)) {
        return Ok(Datum::Timestamp(call.int(1)));
    }
    let zone = TimeZone::of_expression(call.text(0))?;
    clocks_of(call.int(1), &zone)
}

/// `timestamp AT TIME ZONE text`
pub fn from_zone(call: &Call<'_>) -> Answer {
    if !is_finite(call.int(1)) {
        return Ok(Datum::Timestamptz(call.int(1)));
    }
    let zone = TimeZone::of_expression(call.text(0))?;
    instant_at(call.int(1), &zone)
}

/// `timestamptz AT LOCAL`
pub fn to_local(call: &Call<'_>) -> Answer {
    clocks_of(call.int(0), call.zone())
}

/// `timestamp AT LOCAL`
pub fn from_local(call: &Call<'_>) -> Answer {
    instant_at(call.int(0), call.zone())
}

fn clocks_of(instant: i64, zone: &TimeZone) -> Answer {
    if !is_finite(instant) {
        return Ok(Datum::Timestamp(instant));
    }
    let offset = i64::from(zone.offset_at(instant)) * SECOND;
    checked_instant(instant.checked_add(offset)).map(Datum::Timestamp)
}

fn instant_at(local: i64, zone: &TimeZone) -> Answer {
    match is_finite(local) {
        true => instant_of(local, zone).map(Datum::Timestamptz),
        false => Ok(Datum::Timestamptz(local)),
    }
}

/// Microseconds east of UTC that an interval means as a zone.
pub(crate) fn interval_zone(call: &Call<'_>) -> ExprResult<i64> {
    let interval = call.interval(0);
    if interval.months != 0 || interval.days != 0 {
        let message = match interval.is_finite() {
            true => "interval time zone must not include months or days",
            false => "interval time zone must be finite",
        };
        return Err(error::parameter(message));
    }
    Ok(interval.micros / SECOND * SECOND)
}

/// `timestamptz AT TIME ZONE interval`
pub fn to_interval_zone(call: &Call<'_>) -> Answer {
    if !is_finite(call.int(1)) {
        return Ok(Datum::Timestamp(call.int(1)));
    }
    checked_instant(call.int(1).checked_add(interval_zone(call)?)).map(Datum::Timestamp)
}

/// `timestamp AT TIME ZONE interval`
pub fn from_interval_zone(call: &Call<'_>) -> Answer {
    if !is_finite(call.int(1)) {
        return Ok(Datum::Timestamptz(call.int(1)));
    }
    checked_instant(call.int(1).checked_sub(interval_zone(call)?)).map(Datum::Timestamptz)
}

fn days_made(year: i64, month: i64, day: i64) -> ExprResult<i64> {
    let refused = || {
        let message = format!("date field value out of range: {year}-{month:02}-{day:02}");
        error::datetime_overflow(message)
    };
    // There is no year 0, and -1 is 1 BC.
    let astronomical = if year < 0 { year + 1 } else { year };
    let days = days_of(astronomical, month, day);
    let real = year != 0 && (1..=12).contains(&month) && day >= 1;
    if !real || date_of(days) != (astronomical, month, day) {
        return Err(refused());
    }
    Ok(days)
}

fn time_made(hour: i64, minute: i64, second: f64) -> ExprResult<i64> {
    let refused = || {
        let message = format!("time field value out of range: {hour}:{minute:02}:{second:02}");
        error::datetime_overflow(message)
    };
    let fits = (0..=24).contains(&hour) && (0..60).contains(&minute);
    if !fits || !(0.0..=60.0).contains(&second) {
        return Err(refused());
    }
    let micros = hour * HOUR + minute * MINUTE + (second * 1e6).round_ties_even() as i64;
    match micros <= DAY {
        true => Ok(micros),
        false => Err(refused()),
    }
}

/// `make_date(year, month, day)`
pub fn make_date(call: &Call<'_>) -> Answer {
    let days = days_made(call.int(0), call.int(1), call.int(2))?;
    checked_date(days).map(Datum::Date).map_err(|_| {
        let (year, month, day) = (call.int(0), call.int(1), call.int(2));
        let message = format!("date out of range: {year}-{month:02}-{day:02}");
        error::datetime_overflow(message)
    })
}

/// `make_time(hour, minute, second)`
pub fn make_time(call: &Call<'_>) -> Answer {
    time_made(call.int(0), call.int(1), call.float(2)).map(Datum::Time)
}

fn local_made(call: &Call<'_>) -> ExprResult<i64> {
    let days = days_made(call.int(0), call.int(1), call.int(2))?;
    let time = time_made(call.int(3), call.int(4), call.float(5))?;
    let midnight = days.checked_mul(DAY);
    checked_instant(midnight.and_then(|midnight| midnight.checked_add(time)))
}

/// `make_timestamp(year, month, day, hour, minute, second)`
pub fn make_timestamp(call: &Call<'_>) -> Answer {
    local_made(call).map(Datum::Timestamp)
}

/// `make_timestamptz(year, month, day, hour, minute, second)`
pub fn make_timestamptz(call: &Call<'_>) -> Answer {
    instant_of(local_made(call)?, call.zone()).map(Datum::Timestamptz)
}

/// `make_timestamptz(year, month, day, hour, minute, second, zone)`
pub fn make_in_zone(call: &Call<'_>) -> Answer {
    let local = local_made(call)?;
    let zone = TimeZone::of_expression(call.text(6))?;
    instant_of(local, &zone).map(Datum::Timestamptz)
}

/// `isfinite(timestamp)` and `isfinite(timestamptz)`
pub fn timestamp_is_finite(call: &Call<'_>) -> Answer {
    Ok(Datum::Bool(is_finite(call.int(0))))
}

/// `isfinite(date)`
pub fn finite_date(call: &Call<'_>) -> Answer {
    Ok(Datum::Bool(date_is_finite(call.date(0))))
}

/// `isfinite(interval)`
pub fn finite_interval(call: &Call<'_>) -> Answer {
    Ok(Datum::Bool(call.interval(0).is_finite()))
}

/// `to_timestamp(float8)`
pub fn of_epoch(call: &Call<'_>) -> Answer {
    let seconds = call.float(0);
    if seconds.is_nan() {
        return Err(error::datetime_overflow("timestamp cannot be NaN"));
    }
    if seconds.is_infinite() {
        let at = usize::from(seconds > 0.0);
        return Ok(Datum::Timestamptz(INSTANT_INFINITIES[at]));
    }
    let refused = || error::datetime_overflow(format!("timestamp out of range: \"{seconds}\""));
    // PostgreSQL counts from 2000, and rounds there.
    const FROM_2000: f64 = 946_684_800.0;
    let micros = ((seconds - FROM_2000) * 1e6).round_ties_even();
    if micros.abs() >= 9.2e18 {
        return Err(refused());
    }
    let micros = (micros as i64).checked_add(FROM_2000 as i64 * SECOND);
    checked_instant(micros)
        .map(Datum::Timestamptz)
        .map_err(|_| refused())
}

/// `timestamptz(date, time)`
pub fn instant_of_date_and_time(call: &Call<'_>) -> Answer {
    match at_time(call.date(0), call.int(1))? {
        Datum::Timestamp(local) => instant_at(local, call.zone()),
        other => Ok(other),
    }
}
