//! The fields of dates, times and intervals by name: `extract`, `date_part` and `date_trunc`.

use evenkeel_types::{Datum, Interval, Numeric, TimeZone, TypeError};

use crate::calendar::{
    DAY, HOUR, INSTANT_INFINITIES, MINUTE, Moment, SECOND, UNIX_EPOCH, checked_instant, clock,
    counted, instant_of, is_finite,
};
use crate::call::Call;
use crate::error::{self, ExprResult};

/// A field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Microseconds,
    Milliseconds,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    Dow,
    IsoDow,
    Doy,
    IsoYear,
    Julian,
    Epoch,
    Timezone,
    TimezoneHour,
    TimezoneMinute,
}

/// PostgreSQL compares only so many letters of a unit's name.
const LETTERS: usize = 10;

impl Field {
    fn named(name: &str) -> Option<Field> {
        let lower = name.to_ascii_lowercase();
        let cut = lower.get(..LETTERS.min(lower.len())).unwrap_or(&lower);
        Some(match cut {
            "microsecon" | "us" | "usec" | "usecs" | "usecond" | "useconds" => Field::Microseconds,
            "millisecon" | "ms" | "msec" | "msecs" | "msecond" | "mseconds" => Field::Milliseconds,
            "s" | "sec" | "secs" | "second" | "seconds" => Field::Second,
            "m" | "min" | "mins" | "minute" | "minutes" => Field::Minute,
            "h" | "hr" | "hrs" | "hour" | "hours" => Field::Hour,
            "d" | "day" | "days" => Field::Day,
            "w" | "week" | "weeks" => Field::Week,
            "mon" | "mons" | "month" | "months" => Field::Month,
            "qtr" | "quarter" => Field::Quarter,
            "y" | "yr" | "yrs" | "year" | "years" => Field::Year,
            "dec" | "decs" | "decade" | "decades" => Field::Decade,
            "c" | "cent" | "century" | "centuries" => Field::Century,
            "mil" | "mils" | "millennia" | "millennium" => Field::Millennium,
            "dow" => Field::Dow,
            "isodow" => Field::IsoDow,
            "doy" => Field::Doy,
            "isoyear" => Field::IsoYear,
            "julian" | "jd" | "j" => Field::Julian,
            "epoch" => Field::Epoch,
            "timezone" => Field::Timezone,
            "timezone_h" => Field::TimezoneHour,
            "timezone_m" => Field::TimezoneMinute,
            _ => return None,
        })
    }

    fn of(name: &str, ty: &str) -> ExprResult<Field> {
        Field::named(name).ok_or_else(|| {
            error::parameter(format!(
                "unit \"{}\" not recognized for type {ty}",
                name.to_ascii_lowercase()
            ))
        })
    }

    /// Whether it grows with time, so that it is infinite at infinity.
    fn is_monotonic(self) -> bool {
        matches!(
            self,
            Field::Year
                | Field::Decade
                | Field::Century
                | Field::Millennium
                | Field::Julian
                | Field::IsoYear
                | Field::Epoch
        )
    }
}

/// The unit of a truncation. Fields that are no units have no name there.
fn unit_of(name: &str, ty: &str) -> ExprResult<Field> {
    match Field::of(name, ty)? {
        Field::Dow | Field::IsoDow | Field::Doy | Field::IsoYear | Field::Epoch => {
            Err(unrecognized(name, ty))
        }
        field => Ok(field),
    }
}

fn unrecognized(name: &str, ty: &str) -> TypeError {
    error::parameter(format!(
        "unit \"{}\" not recognized for type {ty}",
        name.to_ascii_lowercase()
    ))
}

fn unsupported(name: &str, ty: &str) -> TypeError {
    error::unsupported(format!(
        "unit \"{}\" not supported for type {ty}",
        name.to_ascii_lowercase()
    ))
}

/// A field's value: a whole number of its last digit.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Part {
    Whole(i64),
    /// With this many digits after the point.
    Scaled(i128, usize),
    /// Days and the share of a day.
    Julian(i64, i64),
    Infinite(bool),
    Null,
}

impl Part {
    fn numeric(self) -> Datum {
        let scaled = |value: i128, scale: usize| {
            Numeric::from_i128(value, i8::try_from(scale).unwrap_or(i8::MAX))
        };
        Datum::Numeric(match self {
            Part::Whole(value) => Numeric::from(value),
            Part::Scaled(value, scale) => scaled(value, scale),
            Part::Julian(day, micros) => {
                let share = Numeric::from(micros).div(&Numeric::from(DAY));
                let sum = share.and_then(|share| Numeric::from(day).add(&share));
                sum.unwrap_or_else(|_| Numeric::nan())
            }
            Part::Infinite(negative) => Numeric::infinity(negative),
            Part::Null => return Datum::Null,
        })
    }

    fn float(self) -> Datum {
        Datum::Float8(match self {
            Part::Whole(value) => value as f64,
            Part::Scaled(value, scale) => value as f64 / 10_f64.powi(scale as i32),
            Part::Julian(day, micros) => day as f64 + micros as f64 / DAY as f64,
            Part::Infinite(false) => f64::INFINITY,
            Part::Infinite(true) => f64::NEG_INFINITY,
            Part::Null => return Datum::Null,
        })
    }
}

/// Fields of a clock reading, and of what it is the clock of.
fn clock_part(field: Field, micros: i64) -> Option<Part> {
    let (hour, minute, second, fraction) = clock(micros);
    let within_minute = i128::from(second * SECOND + fraction);
    Some(match field {
        Field::Microseconds => Part::Whole(second * SECOND + fraction),
        Field::Milliseconds => Part::Scaled(within_minute, 3),
        Field::Second => Part::Scaled(within_minute, 6),
        Field::Minute => Part::Whole(minute),
        Field::Hour => Part::Whole(hour),
        _ => return None,
    })
}

fn date_part_of(field: Field, moment: &Moment) -> Option<i64> {
    let year = moment.year;
    Some(match field {
        Field::Day => moment.day,
        Field::Month => moment.month,
        Field::Quarter => (moment.month - 1) / 3 + 1,
        Field::Week => moment.iso_week().0,
        Field::Year => counted(year),
        Field::Decade if year >= 0 => year / 10,
        Field::Decade => -((8 - (year - 1)) / 10),
        Field::Century if year > 0 => (year + 99) / 100,
        Field::Century => -((99 - (year - 1)) / 100),
        Field::Millennium if year > 0 => (year + 999) / 1000,
        Field::Millennium => -((999 - (year - 1)) / 1000),
        Field::Dow => moment.weekday(),
        Field::IsoDow => match moment.weekday() {
            0 => 7,
            day => day,
        },
        Field::Doy => moment.day_of_year(),
        Field::IsoYear => counted(moment.iso_week().1),
        _ => return None,
    })
}

fn moment_part(
    name: &str,
    ty: &str,
    instant: i64,
    moment: impl FnOnce() -> Moment,
    zoned: bool,
) -> ExprResult<Part> {
    let field = Field::of(name, ty)?;
    let of_zone = matches!(
        field,
        Field::Timezone | Field::TimezoneHour | Field::TimezoneMinute
    );
    if of_zone && !zoned {
        return Err(unsupported(name, ty));
    }
    if !is_finite(instant) {
        return Ok(match field.is_monotonic() {
            true => Part::Infinite(instant == INSTANT_INFINITIES[0]),
            false => Part::Null,
        });
    }
    let moment = moment();
    if let Some(part) = clock_part(field, moment.micros) {
        return Ok(part);
    }
    if let Some(whole) = date_part_of(field, &moment) {
        return Ok(Part::Whole(whole));
    }
    let offset = i64::from(moment.offset.unwrap_or(0));
    Ok(match field {
        Field::Epoch => Part::Scaled(i128::from(instant), 6),
        Field::Julian => Part::Julian(moment.days() + UNIX_EPOCH, moment.micros),
        Field::TimezoneHour => Part::Whole(offset / 3600),
        Field::TimezoneMinute => Part::Whole(offset % 3600 / 60),
        _ => Part::Whole(offset),
    })
}

const TIMESTAMP: &str = "timestamp without time zone";
const TIMESTAMPTZ: &str = "timestamp with time zone";
const TIME: &str = "time without time zone";
const TIMETZ: &str = "time with time zone";

fn of_timestamp(call: &Call<'_>) -> ExprResult<Part> {
    let local = call.int(1);
    moment_part(
        call.text(0),
        TIMESTAMP,
        local,
        || Moment::of_local(local),
        false,
    )
}

fn of_timestamptz(call: &Call<'_>) -> ExprResult<Part> {
    let instant = call.int(1);
    let moment = || Moment::of_instant(instant, call.zone());
    moment_part(call.text(0), TIMESTAMPTZ, instant, moment, true)
}

/// Of a date, which has no clock: `extract`. `date_part` takes it for a timestamp.
fn of_date(call: &Call<'_>) -> ExprResult<Part> {
    let (name, days) = (call.text(0), call.date(1));
    let field = Field::of(name, "date")?;
    let moment = || Moment::of_local(i64::from(days).saturating_mul(DAY));
    let epoch_day = matches!(field, Field::Epoch | Field::Julian);
    let known = epoch_day || date_part_of(field, &Moment::of_local(0)).is_some();
    if !known {
        return Err(unsupported(name, "date"));
    }
    if days == i32::MIN || days == i32::MAX {
        return Ok(match field.is_monotonic() {
            true => Part::Infinite(days < 0),
            false => Part::Null,
        });
    }
    // Days reach further than microseconds do.
    let (year, month, day) = crate::calendar::date_of(i64::from(days));
    let moment = Moment {
        year,
        month,
        day,
        ..moment()
    };
    Ok(match field {
        Field::Epoch => Part::Whole(i64::from(days) * 86_400),
        Field::Julian => Part::Whole(i64::from(days) + UNIX_EPOCH),
        field => date_part_of(field, &moment).map_or(Part::Null, Part::Whole),
    })
}

fn of_time(call: &Call<'_>) -> ExprResult<Part> {
    let (name, micros) = (call.text(0), call.int(1));
    let field = Field::of(name, TIME)?;
    if field == Field::Epoch {
        return Ok(Part::Scaled(i128::from(micros), 6));
    }
    clock_part(field, micros).ok_or_else(|| unsupported(name, TIME))
}

fn of_timetz(call: &Call<'_>) -> ExprResult<Part> {
    let (name, time) = (call.text(0), call.timetz(1));
    let field = Field::of(name, TIMETZ)?;
    let east = -i64::from(time.west);
    Ok(match field {
        Field::Epoch => Part::Scaled(i128::from(time.utc_micros()), 6),
        Field::Timezone => Part::Whole(east),
        Field::TimezoneHour => Part::Whole(east / 3600),
        Field::TimezoneMinute => Part::Whole(east % 3600 / 60),
        _ => return clock_part(field, time.micros).ok_or_else(|| unsupported(name, TIMETZ)),
    })
}

fn of_interval(call: &Call<'_>) -> ExprResult<Part> {
    let (name, interval) = (call.text(0), call.interval(1));
    let field = Field::of(name, "interval")?;
    if !interval.is_finite() {
        let negative = interval == Interval::NEGATIVE_INFINITY;
        return match field {
            Field::Microseconds
            | Field::Milliseconds
            | Field::Second
            | Field::Minute
            | Field::Week
            | Field::Month
            | Field::Quarter => Ok(Part::Null),
            Field::Hour
            | Field::Day
            | Field::Year
            | Field::Decade
            | Field::Century
            | Field::Millennium
            | Field::Epoch => Ok(Part::Infinite(negative)),
            _ => Err(unsupported(name, "interval")),
        };
    }
    if let Some(part) = clock_part(field, interval.micros) {
        return Ok(part);
    }
    let months = i64::from(interval.months);
    let (years, days) = (months / 12, i64::from(interval.days));
    Ok(Part::Whole(match field {
        Field::Day => days,
        Field::Week => days / 7,
        Field::Month => months % 12,
        Field::Quarter if months >= 0 => months % 12 / 3 + 1,
        Field::Quarter => -((-months % 12) / 3 + 1),
        Field::Year => years,
        Field::Decade => years / 10,
        Field::Century => years / 100,
        Field::Millennium => years / 1000,
        Field::Epoch => {
            // A year has 365.25 days here, a month 30.
            let quarters = 1461 * years + 120 * (months % 12) + 4 * days;
            let seconds = i128::from(quarters) * 21_600;
            let micros = seconds * i128::from(SECOND) + i128::from(interval.micros);
            return Ok(Part::Scaled(micros, 6));
        }
        _ => return Err(unsupported(name, "interval")),
    }))
}

macro_rules! part_functions {
    ($($(#[$doc:meta])* $name:ident: $part:ident as $form:ident;)*) => {
        $($(#[$doc])*
        pub fn $name(call: &Call<'_>) -> ExprResult<Datum> {
            $part(call).map(Part::$form)
        })*
    };
}

part_functions! {
    /// `extract(… from timestamp)`
    extract_timestamp: of_timestamp as numeric;
    /// `extract(… from timestamptz)`
    extract_timestamptz: of_timestamptz as numeric;
    /// `extract(… from date)`
    extract_date: of_date as numeric;
    /// `extract(… from time)`
    extract_time: of_time as numeric;
    /// `extract(… from timetz)`
    extract_timetz: of_timetz as numeric;
    /// `extract(… from interval)`
    extract_interval: of_interval as numeric;
    /// `date_part(text, timestamp)`
    part_timestamp: of_timestamp as float;
    /// `date_part(text, timestamptz)`
    part_timestamptz: of_timestamptz as float;
    /// `date_part(text, time)`
    part_time: of_time as float;
    /// `date_part(text, timetz)`
    part_timetz: of_timetz as float;
    /// `date_part(text, interval)`
    part_interval: of_interval as float;
}

/// `date_part(text, date)`: of the day's first moment.
pub fn part_date(call: &Call<'_>) -> ExprResult<Datum> {
    let micros = crate::datetime::midnight(call.date(1))?;
    let moment = || Moment::of_local(micros);
    moment_part(call.text(0), TIMESTAMP, micros, moment, false).map(Part::float)
}

/// A moment cut down to a unit; whether the zone's offset must be looked up again.
fn truncated(field: Field, mut moment: Moment) -> Option<(Moment, bool)> {
    let unit = match field {
        Field::Microseconds => 1,
        Field::Milliseconds => 1000,
        Field::Second => SECOND,
        Field::Minute => MINUTE,
        Field::Hour => HOUR,
        _ => DAY,
    };
    moment.micros -= moment.micros % unit;
    if unit < DAY {
        return Some((moment, false));
    }
    let year = moment.year;
    match field {
        Field::Day => {}
        Field::Week => {
            let days = moment.days();
            let monday = days - (days + 3).rem_euclid(7);
            (moment.year, moment.month, moment.day) = crate::calendar::date_of(monday);
        }
        Field::Month => moment.day = 1,
        Field::Quarter => (moment.month, moment.day) = ((moment.month - 1) / 3 * 3 + 1, 1),
        Field::Year | Field::Decade | Field::Century | Field::Millennium => {
            (moment.month, moment.day) = (1, 1);
            moment.year = match field {
                Field::Decade if year > 0 => year / 10 * 10,
                Field::Decade => -((8 - (year - 1)) / 10) * 10,
                Field::Century if year > 0 => (year + 99) / 100 * 100 - 99,
                Field::Century => -((99 - (year - 1)) / 100) * 100 + 1,
                Field::Millennium if year > 0 => (year + 999) / 1000 * 1000 - 999,
                Field::Millennium => -((999 - (year - 1)) / 1000) * 1000 + 1,
                _ => year,
            };
        }
        _ => return None,
    }
    Some((moment, true))
}

/// `date_trunc(text, timestamp)`
pub fn trunc_timestamp(call: &Call<'_>) -> ExprResult<Datum> {
    let (name, local) = (call.text(0), call.int(1));
    let field = unit_of(name, TIMESTAMP)?;
    let moment = Moment::of_local(if is_finite(local) { local } else { 0 });
    let (moment, _) = truncated(field, moment).ok_or_else(|| unsupported(name, TIMESTAMP))?;
    if !is_finite(local) {
        return Ok(Datum::Timestamp(local));
    }
    moment.to_local().map(Datum::Timestamp)
}

fn trunc_in(name: &str, instant: i64, zone: &TimeZone) -> ExprResult<Datum> {
    let field = unit_of(name, TIMESTAMPTZ)?;
    let moment = Moment::of_instant(if is_finite(instant) { instant } else { 0 }, zone);
    let cut = truncated(field, moment);
    let (moment, anew) = cut.ok_or_else(|| unsupported(name, TIMESTAMPTZ))?;
    if !is_finite(instant) {
        return Ok(Datum::Timestamptz(instant));
    }
    let local = moment.to_local()?;
    if anew {
        return instant_of(local, zone).map(Datum::Timestamptz);
    }
    let offset = i64::from(moment.offset.unwrap_or(0)) * SECOND;
    checked_instant(local.checked_sub(offset)).map(Datum::Timestamptz)
}

/// `date_trunc(text, timestamptz)`
pub fn trunc_timestamptz(call: &Call<'_>) -> ExprResult<Datum> {
    trunc_in(call.text(0), call.int(1), call.zone())
}

/// `date_trunc(text, timestamptz, text)`
pub fn trunc_in_zone(call: &Call<'_>) -> ExprResult<Datum> {
    let zone = TimeZone::of_expression(call.text(2))?;
    trunc_in(call.text(0), call.int(1), &zone)
}

/// `date_trunc(text, interval)`
pub fn trunc_interval(call: &Call<'_>) -> ExprResult<Datum> {
    let (name, interval) = (call.text(0), call.interval(1));
    let field = unit_of(name, "interval")?;
    let cut_months = |unit: i32| Interval {
        months: interval.months / unit * unit,
        ..Interval::ZERO
    };
    let cut_micros = |unit: i64| Interval {
        micros: interval.micros / unit * unit,
        ..interval
    };
    let cut = match field {
        Field::Millennium => cut_months(12_000),
        Field::Century => cut_months(1200),
        Field::Decade => cut_months(120),
        Field::Year => cut_months(12),
        Field::Quarter => cut_months(3),
        Field::Month => cut_months(1),
        Field::Day => cut_micros(i64::MAX),
        Field::Hour => cut_micros(HOUR),
        Field::Minute => cut_micros(MINUTE),
        Field::Second => cut_micros(SECOND),
        Field::Milliseconds => cut_micros(1000),
        Field::Microseconds => interval,
        _ => return Err(unsupported(name, "interval")),
    };
    Ok(Datum::Interval(match interval.is_finite() {
        true => cut,
        false => interval,
    }))
}
