//! `to_date` and `to_timestamp`: text read by a pattern.

use evenkeel_types::{Datum, TimeZone};

use super::pattern::{Key, Node, Pattern};
use super::{DAYS, MONTHS, roman};
use crate::calendar::{
    DAY, HOUR, MINUTE, SECOND, UNIX_EPOCH, checked_date, checked_instant, date_of, days_of,
    first_iso_day, instant_of, is_leap, month_days,
};
use crate::call::Call;
use crate::error::{self, ExprResult};

/// Field values read; `None` where the pattern has no such field.
#[derive(Debug, Default)]
struct Fields {
    iso: Option<bool>,
    year: Option<i64>,
    year_digits: usize,
    century: Option<i64>,
    bc: bool,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    weekday: Option<i64>,
    week: Option<i64>,
    week_of_month: Option<i64>,
    julian: Option<i64>,
    hour: Option<i64>,
    minute: Option<i64>,
    second: Option<i64>,
    second_of_day: Option<i64>,
    millis: Option<i64>,
    micros: Option<i64>,
    afternoon: Option<bool>,
    twelve_hours: bool,
    zone_sign: i64,
    zone_hour: Option<i64>,
    zone_minute: Option<i64>,
}

fn set<T: PartialEq>(field: &mut Option<T>, value: T, word: &str) -> ExprResult<()> {
    match field {
        Some(before) if *before != value => Err(error::datetime_format(format!(
            "conflicting values for \"{word}\" field in formatting string"
        ))),
        _ => {
            *field = Some(value);
            Ok(())
        }
    }
}

/// Input, as far as it has been read.
struct Input<'a> {
    rest: &'a str,
}

impl<'a> Input<'a> {
    /// Skips blanks; how many.
    fn skip_blanks(&mut self) -> usize {
        let trimmed = self
            .rest
            .trim_start_matches(|c: char| c.is_ascii_whitespace());
        let skipped = self.rest.len() - trimmed.len();
        self.rest = trimmed;
        skipped
    }

    fn skip_one(&mut self) {
        let mut characters = self.rest.chars();
        characters.next();
        self.rest = characters.as_str();
    }

    /// An integer of `most` characters, or of as many as there are when `open`.
    fn integer(&mut self, word: &str, most: usize, open: bool) -> ExprResult<(i64, usize)> {
        self.skip_blanks();
        let available = match open {
            true => self.rest,
            false => {
                let end = self
                    .rest
                    .char_indices()
                    .nth(most)
                    .map_or(self.rest.len(), |(at, _)| at);
                let part = &self.rest[..end];
                if part.len() < most {
                    return Err(error::datetime_format(format!(
                        "source string too short for \"{word}\" formatting field"
                    )));
                }
                part
            }
        };
        let signed = available.strip_prefix(['+', '-']).unwrap_or(available);
        let sign = available.len() - signed.len();
        let digits = signed.bytes().take_while(u8::is_ascii_digit).count();
        let used = if digits == 0 { 0 } else { sign + digits };
        let invalid = || {
            let shown: String = self.rest.chars().take(most).collect();
            error::datetime_format(format!("invalid value \"{shown}\" for \"{word}\""))
        };
        if used == 0 || (!open && used < most) {
            return Err(invalid());
        }
        let number = available[..used].parse::<i32>().map_err(|_| {
            error::datetime_overflow(format!(
                "value for \"{word}\" in source string is out of range"
            ))
        })?;
        self.rest = &self.rest[used..];
        Ok((i64::from(number), used))
    }

    /// One of these names, whole or by its first three letters, in any case.
    fn name(&mut self, names: &[&str], short: bool, word: &str) -> ExprResult<i64> {
        for (at, name) in names.iter().enumerate() {
            let name = if short {
                name.get(..3).unwrap_or(name)
            } else {
                name
            };
            let found = self.rest.get(..name.len());
            if found.is_some_and(|found| found.eq_ignore_ascii_case(name)) {
                self.rest = &self.rest[name.len()..];
                return Ok(at as i64);
            }
        }
        let shown = self.rest.split_whitespace().next().unwrap_or_default();
        Err(error::datetime_format(format!(
            "invalid value \"{shown}\" for \"{word}\""
        )))
    }
}

/// Whether a field may take more digits than it has letters: nothing with digits follows.
fn is_open(nodes: &[Node], at: usize) -> bool {
    let Some(Node::Field { fill, ordinal, .. }) = nodes.get(at) else {
        return false;
    };
    if *fill || ordinal.is_some() {
        return true;
    }
    match nodes.get(at + 1) {
        None => true,
        Some(Node::Field { key, .. }) => !is_digits(*key),
        Some(Node::Literal(c) | Node::Space(c) | Node::Separator(c)) => !c.is_ascii_digit(),
    }
}

fn is_digits(key: Key) -> bool {
    !matches!(
        key,
        Key::Era { .. }
            | Key::HalfDay { .. }
            | Key::DayName(_)
            | Key::DayAbbreviation(_)
            | Key::MonthName(_)
            | Key::MonthAbbreviation(_)
            | Key::RomanMonth { .. }
            | Key::Zone { .. }
            | Key::Offset
            | Key::ZoneHour
            | Key::YearWithComma
    )
}

/// A field, as steps of a loop.
const FIELD_STEPS: usize = 64;

fn read(call: &Call<'_>, pattern: &Pattern) -> ExprResult<Fields> {
    let (text, mut pace) = (call.text(0), call.pace());
    let (mut fields, mut input) = (Fields::default(), Input { rest: text });
    let mut extra = 0_i64;
    for (at, node) in pattern.nodes.iter().enumerate() {
        if input.rest.is_empty() {
            break;
        }
        pace.step(FIELD_STEPS)?;
        let is_field = matches!(node, Node::Field { .. });
        if !pattern.exact && (is_field || at == 0) {
            extra += input.skip_blanks() as i64;
        }
        match node {
            Node::Space(_) | Node::Separator(_) if !pattern.exact => {
                extra -= 1;
                let separates = |c: char| {
                    c.is_ascii_whitespace() || c.is_ascii_graphic() && !c.is_ascii_alphanumeric()
                };
                if input.rest.starts_with(separates) {
                    input.skip_one();
                    extra += 1;
                }
            }
            Node::Literal(_) if !pattern.exact && extra > 0 => extra -= 1,
            Node::Literal(_) | Node::Space(_) | Node::Separator(_) => input.skip_one(),
            Node::Field {
                key, word, ordinal, ..
            } => {
                let open = is_open(&pattern.nodes, at);
                fields.take(*key, word, &mut input, open)?;
                if ordinal.is_some() {
                    input.skip_one();
                    input.skip_one();
                }
                if !pattern.exact {
                    extra = input.skip_blanks() as i64;
                }
            }
        }
    }
    Ok(fields)
}

impl Fields {
    /// Iso weeks and years do not mix with those of the calendar.
    fn mode(&mut self, key: Key) -> ExprResult<()> {
        let iso = match key {
            Key::IsoYear(_) | Key::IsoWeek | Key::IsoDayOfWeek | Key::IsoDayOfYear => true,
            Key::Year(_)
            | Key::YearWithComma
            | Key::Month
            | Key::MonthName(_)
            | Key::MonthAbbreviation(_)
            | Key::RomanMonth { .. }
            | Key::DayOfMonth
            | Key::DayOfYear
            | Key::WeekOfYear
            | Key::WeekOfMonth
            | Key::DayOfWeek
            | Key::Century
            | Key::Era { .. } => false,
            _ => return Ok(()),
        };
        match self.iso {
            Some(before) if before != iso => Err(error::datetime_format(
                "invalid combination of date conventions",
            )),
            _ => {
                self.iso = Some(iso);
                Ok(())
            }
        }
    }

    fn take(&mut self, key: Key, word: &str, input: &mut Input<'_>, open: bool) -> ExprResult<()> {
        self.mode(key)?;
        let mut integer = |most: usize| input.integer(word, most, open);
        match key {
            Key::Hour24 => set(&mut self.hour, integer(2)?.0, word),
            Key::Hour12 => {
                self.twelve_hours = true;
                set(&mut self.hour, integer(2)?.0, word)
            }
            Key::Minute => set(&mut self.minute, integer(2)?.0, word),
            Key::Second => set(&mut self.second, integer(2)?.0, word),
            Key::SecondOfDay => {
                // PostgreSQL takes five characters.
                set(&mut self.second_of_day, integer(5)?.0, word)
            }
            Key::Millisecond => set(&mut self.millis, fraction(integer(3)?, 3), word),
            Key::Microsecond => set(&mut self.micros, fraction(integer(6)?, 6), word),
            Key::Fraction(most) => {
                let read = integer(most.into())?;
                set(&mut self.micros, fraction(read, 6), word)
            }
            Key::Month => set(&mut self.month, integer(2)?.0, word),
            Key::DayOfMonth => set(&mut self.day, integer(2)?.0, word),
            Key::DayOfYear | Key::IsoDayOfYear => set(&mut self.day_of_year, integer(3)?.0, word),
            Key::DayOfWeek => set(&mut self.weekday, integer(1)?.0, word),
            // Kept as days from Sunday, counted from 1.
            Key::IsoDayOfWeek => {
                let day = integer(1)?.0;
                set(&mut self.weekday, if day >= 7 { 1 } else { day + 1 }, word)
            }
            Key::WeekOfYear | Key::IsoWeek => set(&mut self.week, integer(2)?.0, word),
            Key::WeekOfMonth => set(&mut self.week_of_month, integer(1)?.0, word),
            // The month says it.
            Key::Quarter => integer(1).map(drop),
            Key::Century => set(&mut self.century, integer(2)?.0, word),
            Key::Julian => {
                let digits = input.rest.bytes().take_while(u8::is_ascii_digit).count();
                set(
                    &mut self.julian,
                    input.integer(word, digits.max(1), true)?.0,
                    word,
                )
            }
            Key::Year(digits) | Key::IsoYear(digits) => {
                let (year, used) = integer(digits.into())?;
                let year = match used {
                    used if used < 4 && digits < 4 => near_2020(year),
                    _ => year,
                };
                self.year_digits = usize::from(digits);
                set(&mut self.year, year, word)
            }
            Key::YearWithComma => self.year_with_comma(word, input),
            _ => self.take_name(key, word, input),
        }
    }

    fn year_with_comma(&mut self, word: &str, input: &mut Input<'_>) -> ExprResult<()> {
        let parsed = input.rest.split_once(',').and_then(|(thousands, rest)| {
            let units = rest.get(..3)?;
            let year = thousands.parse::<i64>().ok()?.checked_mul(1000)?;
            Some((year.checked_add(units.parse::<i64>().ok()?)?, &rest[3..]))
        });
        let (year, rest) =
            parsed.ok_or_else(|| error::datetime_format("invalid input string for \"Y,YYY\""))?;
        input.rest = rest;
        self.year_digits = 4;
        set(&mut self.year, year, word)
    }

    fn take_name(&mut self, key: Key, word: &str, input: &mut Input<'_>) -> ExprResult<()> {
        match key {
            Key::MonthName(_) => set(&mut self.month, input.name(&MONTHS, false, word)? + 1, word),
            Key::MonthAbbreviation(_) => {
                set(&mut self.month, input.name(&MONTHS, true, word)? + 1, word)
            }
            Key::DayName(_) => set(&mut self.weekday, input.name(&DAYS, false, word)? + 1, word),
            Key::DayAbbreviation(_) => {
                set(&mut self.weekday, input.name(&DAYS, true, word)? + 1, word)
            }
            Key::RomanMonth { .. } => match roman::read(input.rest) {
                Some((month @ 1..=12, length)) => {
                    input.rest = &input.rest[length..];
                    set(&mut self.month, month, word)
                }
                _ => Err(error::datetime_format(format!(
                    "invalid value \"{}\" for \"{word}\"",
                    input.rest
                ))),
            },
            Key::HalfDay { points, .. } => {
                let names: &[&str] = if points {
                    &["a.m.", "p.m."]
                } else {
                    &["am", "pm"]
                };
                self.twelve_hours = true;
                let afternoon = input.name(names, false, word)? == 1;
                set(&mut self.afternoon, afternoon, word)
            }
            Key::Era { points, .. } => {
                let names: &[&str] = if points {
                    &["a.d.", "b.c."]
                } else {
                    &["ad", "bc"]
                };
                self.bc = input.name(names, false, word)? == 1;
                Ok(())
            }
            Key::ZoneHour | Key::Offset => self.zone_hour(key, word, input),
            Key::ZoneMinute => {
                if self.zone_sign == 0 {
                    self.zone_sign = 1;
                }
                set(
                    &mut self.zone_minute,
                    input.integer(word, 2, false)?.0,
                    word,
                )
            }
            Key::Zone { .. } => Err(error::unsupported(
                "to_timestamp with \"TZ\" is not supported",
            )),
            _ => Ok(()),
        }
    }

    fn zone_hour(&mut self, key: Key, word: &str, input: &mut Input<'_>) -> ExprResult<()> {
        self.zone_sign = match input.rest.as_bytes().first() {
            Some(b'-') => -1,
            _ => 1,
        };
        input.rest = input
            .rest
            .strip_prefix(['+', '-', ' '])
            .unwrap_or(input.rest);
        set(&mut self.zone_hour, input.integer(word, 2, false)?.0, word)?;
        if key == Key::Offset && input.rest.starts_with(':') {
            input.skip_one();
            set(
                &mut self.zone_minute,
                input.integer(word, 2, false)?.0,
                word,
            )?;
        }
        Ok(())
    }

    fn year(&self) -> Option<i64> {
        let bc = |year: i64| match (self.bc, year) {
            (true, year) if year > 0 => 1 - year,
            (_, year) if year < 0 => year + 1,
            (_, year) => year,
        };
        match (self.year, self.century) {
            (Some(year), Some(century)) if self.year_digits <= 2 => {
                let short = year.rem_euclid(100);
                Some(match (short, self.bc) {
                    (0, false) => century * 100,
                    (short, false) => short + (century - 1) * 100,
                    (short, true) => 1 - (short + (century.abs() - 1) * 100),
                })
            }
            (Some(year), _) => Some(bc(year)),
            (None, Some(century)) => Some(match self.bc {
                true => 1 - (century * 100),
                false if century >= 0 => (century - 1) * 100 + 1,
                false => century * 100 + 1,
            }),
            (None, None) => None,
        }
    }

    /// Days since 1970-01-01.
    fn days(&self, whole: &str) -> ExprResult<i64> {
        if let Some(julian) = self.julian {
            return Ok(julian - UNIX_EPOCH);
        }
        let refused =
            || error::datetime_overflow(format!("date/time field value out of range: \"{whole}\""));
        let year = self.year().unwrap_or(0);
        if let Some(week) = self.week {
            if self.iso == Some(true) {
                let weekday = self
                    .weekday
                    .map_or(1, |day| if day > 1 { day - 1 } else { 7 });
                return Ok(first_iso_day(year) + (week - 1) * 7 + weekday - 1);
            }
            return Ok(days_of(year, 1, 1) + (week - 1) * 7);
        }
        if let Some(day) = self.day_of_year
            && (self.month.is_none() || self.day.is_none())
        {
            if self.iso == Some(true) {
                return Ok(first_iso_day(year) + day - 1);
            }
            let most = if is_leap(year) { 366 } else { 365 };
            if self.year.is_none() && self.century.is_none() {
                return Err(error::datetime_format(
                    "cannot calculate day of year without year information",
                ));
            }
            return match (1..=most).contains(&day) {
                true => Ok(days_of(year, 1, 1) + day - 1),
                false => Err(refused()),
            };
        }
        // 0 is as good as not there.
        let given = |field: Option<i64>| field.filter(|value| *value != 0);
        let month = given(self.month).unwrap_or(1);
        let day = match (given(self.day), given(self.week_of_month)) {
            (None, Some(week)) => (week - 1) * 7 + 1,
            (day, _) => day.unwrap_or(1),
        };
        let real = (1..=12).contains(&month) && (1..=month_days(year, month)).contains(&day);
        if !real || date_of(days_of(year, month, day)) != (year, month, day) {
            return Err(refused());
        }
        Ok(days_of(year, month, day))
    }

    fn time(&self, whole: &str) -> ExprResult<i64> {
        let refused =
            || error::datetime_overflow(format!("date/time field value out of range: \"{whole}\""));
        let mut hour = self.hour.unwrap_or(0);
        let (mut minute, mut second) = (self.minute.unwrap_or(0), self.second.unwrap_or(0));
        if let Some(seconds) = self.second_of_day {
            (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        }
        if self.twelve_hours {
            if !(1..=12).contains(&hour) && self.hour.is_some() {
                let message = format!("hour \"{hour}\" is invalid for the 12-hour clock");
                return Err(error::datetime_format(message));
            }
            match (self.afternoon, hour) {
                (Some(true), 0..12) => hour += 12,
                (Some(false), 12) => hour = 0,
                _ => {}
            }
        }
        let micros = self.micros.unwrap_or(0) + self.millis.unwrap_or(0) * 1000;
        let fits = (0..24).contains(&hour)
            && (0..60).contains(&minute)
            && (0..60).contains(&second)
            && (0..SECOND).contains(&micros);
        match fits {
            true => Ok(hour * HOUR + minute * MINUTE + second * SECOND + micros),
            false => Err(refused()),
        }
    }
}

/// Digits after a point, as a number of `places` digits.
fn fraction((value, digits): (i64, usize), places: usize) -> i64 {
    let missing = places.saturating_sub(digits);
    value * 10_i64.pow(u32::try_from(missing).unwrap_or(0))
}

/// A year of one to three digits, as the nearest to 2020 that ends in them.
fn near_2020(year: i64) -> i64 {
    match year {
        70..100 => year + 1900,
        0..70 | 100..520 => year + 2000,
        520..1000 => year + 1000,
        year => year,
    }
}

/// `to_date(text, text)`
pub fn to_date(call: &Call<'_>) -> ExprResult<Datum> {
    let fields = read(call, &Pattern::of(call, call.text(1))?)?;
    let out_of_range = |_| {
        let message = format!("date out of range: \"{}\"", call.text(0));
        error::datetime_overflow(message)
    };
    fields.time(call.text(0))?;
    let days = fields.days(call.text(0))?;
    checked_date(days).map(Datum::Date).map_err(out_of_range)
}

/// `to_timestamp(text, text)`
pub fn to_timestamp(call: &Call<'_>) -> ExprResult<Datum> {
    let fields = read(call, &Pattern::of(call, call.text(1))?)?;
    let midnight = fields.days(call.text(0))?.checked_mul(DAY);
    let time = fields.time(call.text(0))?;
    let local = checked_instant(midnight.and_then(|midnight| midnight.checked_add(time)))?;
    if fields.zone_sign == 0 {
        return instant_of(local, call.zone()).map(Datum::Timestamptz);
    }
    let (hours, minutes) = (
        fields.zone_hour.unwrap_or(0),
        fields.zone_minute.unwrap_or(0),
    );
    if !(0..=15).contains(&hours) || !(0..60).contains(&minutes) {
        let message = format!("date/time field value out of range: \"{}\"", call.text(0));
        return Err(error::datetime_overflow(message));
    }
    let offset = fields.zone_sign * (hours * 3600 + minutes * 60);
    let zone = TimeZone::fixed(i32::try_from(offset).unwrap_or(0));
    instant_of(local, &zone).map(Datum::Timestamptz)
}
