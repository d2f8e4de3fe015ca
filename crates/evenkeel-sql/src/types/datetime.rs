//! Dates and times: calendar arithmetic and text forms (ISO style, input order month-day-year).

use super::datum::Interval;
use super::zone::{TimeZone, TypeContext};
use crate::error::{SqlError, SqlResult, SqlState};

/// Microseconds of a second.
pub const MICROS_PER_SECOND: i64 = 1_000_000;
/// Microseconds of a day.
pub const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;
/// 2000-01-01, from which PostgreSQL's binary forms count, in days since 1970-01-01.
pub const POSTGRES_EPOCH_DAYS: i32 = 10_957;
/// The same in microseconds.
pub const POSTGRES_EPOCH_MICROS: i64 = POSTGRES_EPOCH_DAYS as i64 * MICROS_PER_DAY;
/// 4714-11-24 BC, the first day of PostgreSQL's calendar.
const FIRST_DAY: i64 = -2_440_588;
/// 5874897-12-31, the last day of a `date`.
const LAST_DAY: i64 = 2_145_031_948;

/// Days since 1970-01-01 of a day of the proleptic Gregorian calendar; year 0 is 1 BC.
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The inverse: (year, month, day).
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Brings an instant into the years for which zone rules exist (1 to 9999).
pub(super) fn clamp_to_calendar(micros: i64) -> i64 {
    micros.clamp(
        -62_135_596_800 * MICROS_PER_SECOND,
        253_402_300_799 * MICROS_PER_SECOND,
    )
}

/// What a date or time text says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Parsed {
    Infinity,
    NegativeInfinity,
    /// An instant that the session's clock defines, microseconds since 1970 UTC.
    Instant(i64),
    /// A calendar day, a time of that day, and perhaps a zone.
    Civil {
        days: i64,
        micros: i64,
        zone: Option<Zone>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Zone {
    /// Seconds east of UTC.
    Offset(i32),
    Named(TimeZone),
}

impl Zone {
    fn offset_of_local(&self, local_micros: i64) -> i32 {
        match self {
            Zone::Offset(seconds) => *seconds,
            Zone::Named(zone) => zone.offset_of_local(local_micros),
        }
    }
}

fn invalid(type_name: &str, text: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_DATETIME_FORMAT,
        format!("invalid input syntax for type {type_name}: \"{text}\""),
    )
}

fn field_overflow(text: &str) -> SqlError {
    SqlError::new(
        SqlState::DATETIME_FIELD_OVERFLOW,
        format!("date/time field value out of range: \"{text}\""),
    )
}

fn out_of_range(what: &str, text: &str) -> SqlError {
    SqlError::new(
        SqlState::DATETIME_FIELD_OVERFLOW,
        format!("{what} out of range: \"{text}\""),
    )
}

/// Reads the fields of a text one by one.
struct Reader<'a> {
    text: &'a str,
    type_name: &'a str,
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    time: Option<i64>,
    /// `AM` or `PM`.
    half: Option<Half>,
    zone: Option<Zone>,
    before_christ: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Half {
    Am,
    Pm,
}

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];

impl Reader<'_> {
    fn invalid(&self) -> SqlError {
        invalid(self.type_name, self.text)
    }

    fn number(&self, digits: &str) -> SqlResult<i64> {
        digits.parse().map_err(|_| self.invalid())
    }

    /// `HH:MM[:SS[.ffffff]]` or ISO's `HHMM`, `HHMMSS[.ffffff]`, with a zone or a half of the day
    /// at its end perhaps.
    fn time_field(&mut self, field: &str) -> SqlResult<()> {
        let end = field
            .find(|c: char| !c.is_ascii_digit() && c != ':' && c != '.')
            .unwrap_or(field.len());
        let (clock, rest) = field.split_at(end);
        let parts: Vec<&str> = match clock.split_at_checked(2) {
            Some((hour, minute)) if clock.len() == 4 && !clock.contains([':', '.']) => {
                vec![hour, minute]
            }
            Some((hour, rest)) if clock.len() >= 6 && !clock.contains(':') => {
                let (minute, second) = rest.split_at(2);
                let whole = second.split('.').next().unwrap_or_default();
                if whole.len() != 2 {
                    return Err(self.invalid());
                }
                vec![hour, minute, second]
            }
            _ => clock.split(':').collect(),
        };
        let (hour, minute, second) = match parts[..] {
            [hour, minute] => (hour, minute, "0"),
            [hour, minute, second] => (hour, minute, second),
            _ => return Err(self.invalid()),
        };
        if self.time.is_some() {
            return Err(self.invalid());
        }
        let (hour, minute) = (self.number(hour)?, self.number(minute)?);
        let (second, micros) = self.seconds(second)?;
        let at_midnight = hour == 24 && minute == 0 && second == 0 && micros == 0;
        if (hour > 23 && !at_midnight) || minute > 59 || second > 60 {
            return Err(field_overflow(self.text));
        }
        let seconds = hour * 3600 + minute * 60 + second;
        self.time = Some(seconds * MICROS_PER_SECOND + micros);
        if rest.is_empty() {
            Ok(())
        } else {
            self.other_field(rest)
        }
    }

    fn seconds(&self, field: &str) -> SqlResult<(i64, i64)> {
        let (whole, fraction) = field.split_once('.').unwrap_or((field, ""));
        let mut micros = 0;
        for (index, digit) in fraction.bytes().enumerate() {
            if !digit.is_ascii_digit() {
                return Err(self.invalid());
            }
            let value = i64::from(digit - b'0');
            match index {
                0..=5 => micros += value * 10i64.pow(5 - index as u32),
                6 => micros += i64::from(value >= 5),
                _ => {}
            }
        }
        Ok((self.number(whole)?, micros))
    }

    /// Fields joined by `-`, `/` or `.`, of which one may be a month's name.
    fn date_field(&mut self, field: &str) -> SqlResult<()> {
        let parts: Vec<&str> = field.split(['-', '/', '.']).collect();
        let [first, second, third] = parts[..] else {
            return Err(self.invalid());
        };
        if self.day.is_some() {
            return Err(self.invalid());
        }
        let named = |part: &str| month_by_name(part);
        let (year, month, day) = if let Some(month) = named(second) {
            if first.len() > 2 {
                (first, Ok(month), third)
            } else {
                (third, Ok(month), first)
            }
        } else if let Some(month) = named(first) {
            (third, Ok(month), second)
        } else if first.len() > 2 {
            (first, self.number(second), third)
        } else {
            (third, self.number(first), second)
        };
        self.month = Some(month?);
        self.day = Some(self.number(day)?);
        self.year = Some(self.year_field(year)?);
        Ok(())
    }

    fn year_field(&self, digits: &str) -> SqlResult<i64> {
        let year = self.number(digits)?;
        Ok(match year {
            0..=69 if digits.len() <= 2 => year + 2000,
            70..=99 if digits.len() <= 2 => year + 1900,
            _ => year,
        })
    }

    /// Digits alone: `20201231`, or a part of a date written with a month's name.
    fn digits_field(&mut self, field: &str) -> SqlResult<()> {
        if self.day.is_some() && self.year.is_some() {
            return self.time_field(field);
        }
        if field.len() >= 6 && self.month.is_none() {
            let (rest, day) = field.split_at(field.len() - 2);
            let (year, month) = rest.split_at(rest.len() - 2);
            self.year = Some(self.year_field(year)?);
            self.month = Some(self.number(month)?);
            self.day = Some(self.number(day)?);
        } else if field.len() > 2 || self.day.is_some() {
            self.year = Some(self.year_field(field)?);
        } else {
            self.day = Some(self.number(field)?);
        }
        Ok(())
    }

    /// A zone, an era, a half of the day, a month's or a weekday's name.
    fn other_field(&mut self, field: &str) -> SqlResult<()> {
        let lower = field.to_ascii_lowercase();
        match lower.as_str() {
            "bc" => self.before_christ = true,
            "ad" | "t" => {}
            "am" | "pm" if self.half.is_some() => return Err(self.invalid()),
            "am" => self.half = Some(Half::Am),
            "pm" => self.half = Some(Half::Pm),
            "z" | "utc" | "gmt" => self.zone = Some(Zone::Offset(0)),
            _ if field.starts_with(['+', '-']) => {
                self.zone = Some(Zone::Offset(self.offset(field)?));
            }
            _ if month_by_name(field).is_some() && self.month.is_none() => {
                self.month = month_by_name(field);
            }
            _ if is_weekday(&lower) => {}
            _ => match TimeZone::parse(field) {
                Ok(zone) => self.zone = Some(Zone::Named(zone)),
                Err(_) if field.contains('/') => {
                    return Err(SqlError::new(
                        SqlState::INVALID_PARAMETER_VALUE,
                        format!("time zone \"{}\" not recognized", field.to_lowercase()),
                    ));
                }
                Err(_) => return Err(self.invalid()),
            },
        }
        Ok(())
    }

    /// `+HH`, `+HHMM`, `+HH:MM[:SS]`, in seconds.
    fn offset(&self, field: &str) -> SqlResult<i32> {
        let negative = field.starts_with('-');
        let body = &field[1..];
        let parts: Vec<&str> = if body.contains(':') {
            body.split(':').collect()
        } else if body.len() > 2 && body.is_ascii() {
            let (hours, minutes) = body.split_at(body.len() - 2);
            vec![hours, minutes]
        } else {
            vec![body]
        };
        let mut seconds = 0;
        for (part, unit) in parts.iter().zip([3600, 60, 1]) {
            seconds += self.number(part)? * unit;
        }
        if parts.len() > 3 || seconds >= 16 * 3600 {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("time zone displacement out of range: \"{}\"", self.text),
            ));
        }
        let seconds = i32::try_from(seconds).map_err(|_| self.invalid())?;
        Ok(if negative { -seconds } else { seconds })
    }

    fn field(&mut self, field: &str) -> SqlResult<()> {
        let first = field.as_bytes().first().copied().unwrap_or_default();
        if let (Some(at), true) = (field.find(['T', 't']), first.is_ascii_digit())
            && field[at + 1..].starts_with(|c: char| c.is_ascii_digit())
        {
            self.field(&field[..at])?;
            return self.time_field(&field[at + 1..]);
        }
        if !first.is_ascii_digit() {
            let word = first.is_ascii_alphabetic();
            if word && self.day.is_none() && field.split(['-', '/', '.']).count() == 3 {
                return self.date_field(field);
            }
            return self.other_field(field);
        }
        if field.contains(':')
            && !field
                .bytes()
                .take(8)
                .any(|b| b == b'-' && self.day.is_none())
        {
            return self.time_field(field);
        }
        if field.bytes().all(|b| b.is_ascii_digit()) {
            return self.digits_field(field);
        }
        if self.day.is_some() && self.year.is_some() {
            return self.time_field(field);
        }
        self.date_field(field)
    }

    /// The time of the day in 24 hours; midnight if there is none.
    fn clock(&self) -> SqlResult<i64> {
        const HOUR: i64 = 3600 * MICROS_PER_SECOND;
        let micros = self.time.unwrap_or(0);
        let hour = micros / HOUR;
        match self.half {
            Some(_) if hour > 12 => Err(field_overflow(self.text)),
            Some(Half::Am) if hour == 12 => Ok(micros - 12 * HOUR),
            Some(Half::Pm) if hour != 12 => Ok(micros + 12 * HOUR),
            _ => Ok(micros),
        }
    }

    fn finish(self, needs_date: bool) -> SqlResult<Parsed> {
        let micros = self.clock()?;
        if !needs_date && self.day.is_none() {
            self.time.ok_or_else(|| self.invalid())?;
            return Ok(Parsed::Civil {
                days: 0,
                micros,
                zone: self.zone,
            });
        }
        let (Some(year), Some(month), Some(day)) = (self.year, self.month, self.day) else {
            return Err(self.invalid());
        };
        if year > 6_000_000 || (year == 0 && !self.before_christ) {
            return Err(field_overflow(self.text));
        }
        let year = if self.before_christ { 1 - year } else { year };
        if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
            let error = field_overflow(self.text);
            return Err(if (1..=12).contains(&month) {
                error
            } else {
                error.hint("Perhaps you need a different \"DateStyle\" setting.")
            });
        }
        Ok(Parsed::Civil {
            days: days_from_civil(year, month, day),
            micros,
            zone: self.zone,
        })
    }
}

fn month_by_name(word: &str) -> Option<i64> {
    let lower = word.to_ascii_lowercase();
    let full = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let at = MONTHS.iter().position(|m| *m == lower).or_else(|| {
        full.iter()
            .position(|m| *m == lower)
            .or_else(|| (lower == "sept").then_some(8))
    })?;
    i64::try_from(at + 1).ok()
}

fn is_weekday(lower: &str) -> bool {
    const DAYS: [&str; 7] = [
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
    ];
    lower.len() >= 3 && DAYS.iter().any(|day| day.starts_with(lower))
}

/// Reads a date or time text; `needs_date` is false for `time`.
fn parse(text: &str, type_name: &str, cx: &TypeContext, needs_date: bool) -> SqlResult<Parsed> {
    let trimmed = text.trim();
    let midnight = |shift: i64| {
        let local = cx.now_micros + i64::from(cx.time_zone.offset_at(cx.now_micros)) * 1_000_000;
        Parsed::Civil {
            days: local.div_euclid(MICROS_PER_DAY) + shift,
            micros: 0,
            zone: None,
        }
    };
    match trimmed.to_ascii_lowercase().as_str() {
        "infinity" | "+infinity" if needs_date => return Ok(Parsed::Infinity),
        "-infinity" if needs_date => return Ok(Parsed::NegativeInfinity),
        "now" => return Ok(Parsed::Instant(cx.now_micros)),
        "epoch" if needs_date => return Ok(Parsed::Instant(0)),
        "today" if needs_date => return Ok(midnight(0)),
        "tomorrow" if needs_date => return Ok(midnight(1)),
        "yesterday" if needs_date => return Ok(midnight(-1)),
        _ => {}
    }
    let mut reader = Reader {
        text,
        type_name,
        year: None,
        month: None,
        day: None,
        time: None,
        half: None,
        zone: None,
        before_christ: false,
    };
    for field in trimmed
        .split([' ', ',', '\t', '\n'])
        .filter(|f| !f.is_empty())
    {
        reader.field(field)?;
    }
    reader.finish(needs_date)
}

fn local_of(micros: i64, cx: &TypeContext) -> i64 {
    micros.saturating_add(i64::from(cx.time_zone.offset_at(micros)) * MICROS_PER_SECOND)
}

/// Input function of `date`: days since 1970-01-01.
pub(super) fn parse_date(text: &str, cx: &TypeContext) -> SqlResult<i32> {
    let days = match parse(text, "date", cx, true)? {
        Parsed::Infinity => return Ok(i32::MAX),
        Parsed::NegativeInfinity => return Ok(i32::MIN),
        Parsed::Instant(micros) => local_of(micros, cx).div_euclid(MICROS_PER_DAY),
        Parsed::Civil { days, .. } => days,
    };
    if !(FIRST_DAY..=LAST_DAY).contains(&days) {
        return Err(out_of_range("date", text));
    }
    i32::try_from(days).map_err(|_| out_of_range("date", text))
}

/// Input function of `time`: microseconds since midnight.
pub(super) fn parse_time(text: &str, cx: &TypeContext) -> SqlResult<i64> {
    match parse(text, "time", cx, false)? {
        Parsed::Instant(micros) => Ok(local_of(micros, cx).rem_euclid(MICROS_PER_DAY)),
        Parsed::Civil { micros, .. } => Ok(micros),
        _ => Err(invalid("time", text)),
    }
}

/// Input function of `timestamp`; a zone in the text is ignored, as in PostgreSQL.
pub(super) fn parse_timestamp(text: &str, cx: &TypeContext) -> SqlResult<i64> {
    match parse(text, "timestamp", cx, true)? {
        Parsed::Infinity => Ok(i64::MAX),
        Parsed::NegativeInfinity => Ok(i64::MIN),
        Parsed::Instant(micros) => Ok(local_of(micros, cx)),
        Parsed::Civil { days, micros, .. } => {
            join(days, micros).ok_or_else(|| out_of_range("timestamp", text))
        }
    }
}

/// Input function of `timestamptz`; without a zone the session's applies.
pub(super) fn parse_timestamptz(text: &str, cx: &TypeContext) -> SqlResult<i64> {
    let error = || out_of_range("timestamp", text);
    match parse(text, "timestamp with time zone", cx, true)? {
        Parsed::Infinity => Ok(i64::MAX),
        Parsed::NegativeInfinity => Ok(i64::MIN),
        Parsed::Instant(micros) => Ok(micros),
        Parsed::Civil { days, micros, zone } => {
            let local = join(days, micros).ok_or_else(error)?;
            let offset = zone.map_or_else(
                || cx.time_zone.offset_of_local(local),
                |zone| zone.offset_of_local(local),
            );
            local
                .checked_sub(i64::from(offset) * MICROS_PER_SECOND)
                .ok_or_else(error)
        }
    }
}

fn join(days: i64, micros: i64) -> Option<i64> {
    let joined = days.checked_mul(MICROS_PER_DAY)?.checked_add(micros)?;
    (days >= FIRST_DAY && joined < i64::MAX).then_some(joined)
}

/// Rounds to `digits` digits of a second, half away from the past.
pub(super) fn round_seconds(micros: i64, digits: Option<u8>) -> i64 {
    let Some(digits) = digits.filter(|d| *d < 6) else {
        return micros;
    };
    if micros == i64::MAX || micros == i64::MIN {
        return micros;
    }
    let unit = 10i64.pow(6 - u32::from(digits));
    micros
        .saturating_add(unit / 2)
        .div_euclid(unit)
        .saturating_mul(unit)
}

fn push_padded(out: &mut String, value: i64, width: usize) {
    let digits = value.to_string();
    for _ in digits.len()..width {
        out.push('0');
    }
    out.push_str(&digits);
}

/// Appends year-month-day and returns whether the day is before Christ.
fn push_day(out: &mut String, days: i64) -> bool {
    let (year, month, day) = civil_from_days(days);
    let before_christ = year <= 0;
    push_padded(out, if before_christ { 1 - year } else { year }, 4);
    out.push('-');
    push_padded(out, month, 2);
    out.push('-');
    push_padded(out, day, 2);
    before_christ
}

/// Appends `HH:MM:SS[.ffffff]` without zeros at the end.
pub(super) fn push_clock(out: &mut String, micros: i64) {
    let (seconds, fraction) = (micros / MICROS_PER_SECOND, micros % MICROS_PER_SECOND);
    push_padded(out, seconds / 3600, 2);
    out.push(':');
    push_padded(out, seconds / 60 % 60, 2);
    out.push(':');
    push_padded(out, seconds % 60, 2);
    if fraction != 0 {
        out.push('.');
        push_padded(out, fraction, 6);
        out.truncate(out.trim_end_matches('0').len());
    }
}

/// Output function of `date`.
pub(super) fn push_date(out: &mut String, days: i32) {
    match days {
        i32::MAX => out.push_str("infinity"),
        i32::MIN => out.push_str("-infinity"),
        _ => {
            if push_day(out, i64::from(days)) {
                out.push_str(" BC");
            }
        }
    }
}

/// Output function of `timestamp`, and of `timestamptz` when a zone is given.
pub(super) fn push_timestamp(out: &mut String, micros: i64, zone: Option<&TimeZone>) {
    match micros {
        i64::MAX => return out.push_str("infinity"),
        i64::MIN => return out.push_str("-infinity"),
        _ => {}
    }
    let offset = zone.map(|zone| zone.offset_at(micros));
    let local = micros.saturating_add(i64::from(offset.unwrap_or(0)) * MICROS_PER_SECOND);
    let before_christ = push_day(out, local.div_euclid(MICROS_PER_DAY));
    out.push(' ');
    push_clock(out, local.rem_euclid(MICROS_PER_DAY));
    if let Some(offset) = offset {
        push_offset(out, offset);
    }
    if before_christ {
        out.push_str(" BC");
    }
}

fn push_offset(out: &mut String, offset: i32) {
    out.push(if offset < 0 { '-' } else { '+' });
    let seconds = i64::from(offset.abs());
    push_padded(out, seconds / 3600, 2);
    if seconds % 3600 != 0 {
        out.push(':');
        push_padded(out, seconds / 60 % 60, 2);
    }
    if seconds % 60 != 0 {
        out.push(':');
        push_padded(out, seconds % 60, 2);
    }
}

/// Output function of `interval`, in style `postgres`.
pub(super) fn push_interval(out: &mut String, interval: Interval) {
    let start = out.len();
    let mut negative_before = false;
    let (years, months) = (interval.months / 12, interval.months % 12);
    for (value, unit) in [(years, "year"), (months, "mon"), (interval.days, "day")] {
        if value == 0 {
            continue;
        }
        if out.len() > start {
            out.push(' ');
        }
        // After a negative field a positive one shows its sign.
        let sign = if negative_before && value > 0 {
            "+"
        } else {
            ""
        };
        let plural = if value == 1 { "" } else { "s" };
        out.push_str(&format!("{sign}{value} {unit}{plural}"));
        negative_before = value < 0;
    }
    if interval.micros != 0 || out.len() == start {
        if out.len() > start {
            out.push(' ');
        }
        if interval.micros < 0 {
            out.push('-');
        } else if negative_before {
            out.push('+');
        }
        let magnitude = i64::try_from(interval.micros.unsigned_abs()).unwrap_or(i64::MAX);
        push_clock(out, magnitude);
    }
}

#[cfg(test)]
#[path = "datetime_tests.rs"]
mod tests;
