//! The numeric fields of dates and times, with PostgreSQL's guesses at their meaning.

use super::words::{self, Word};
use crate::calendar::{civil_from_days, days_from_civil, days_in_month};
use crate::context::DateOrder;

/// Why a text is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// No date or time.
    Format,
    /// A number out of range.
    Field,
    /// A month or day out of range, perhaps for its place.
    MonthOrDay,
    /// A zone's offset out of range.
    Displacement,
    /// The name of no zone.
    Zone(String),
}

/// The result of reading a text.
pub type Read<T> = Result<T, Refusal>;

/// The parts that a text has given, one bit each.
pub mod mask {
    /// A year.
    pub const YEAR: u32 = 1;
    /// A month.
    pub const MONTH: u32 = 2;
    /// A day of a month.
    pub const DAY: u32 = 4;
    /// A day of a year.
    pub const DAY_OF_YEAR: u32 = 8;
    /// A time of the day.
    pub const TIME: u32 = 16;
    /// A zone.
    pub const ZONE: u32 = 32;
    /// `dst`
    pub const DAYLIGHT: u32 = 64;
    /// `am` or `pm`
    pub const HALF: u32 = 128;
    /// `ad` or `bc`
    pub const ERA: u32 = 256;
    /// A day of the week.
    pub const WEEKDAY: u32 = 512;
    /// All of a date.
    pub const DATE: u32 = YEAR | MONTH | DAY;
}

/// 1970-01-01 as a Julian day.
const JULIAN_EPOCH: i64 = 2_440_588;

/// The parts of a date and a time.
#[derive(Debug, Clone, Default)]
pub struct Parts {
    pub year: i64,
    pub month: i64,
    pub day: i64,
    pub day_of_year: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    pub micros: i64,
    /// The year was written with one or two digits.
    pub short_year: bool,
    pub order: DateOrder,
}

/// The digits that a text begins with, as a number, and what follows them.
pub fn leading_number(text: &str) -> Read<(i64, &str)> {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = &text[..text.len() - rest.len()];
    if digits.is_empty() {
        return Ok((0, text));
    }
    let number = digits.parse::<i32>().map_err(|_| Refusal::Field)?;
    Ok((i64::from(number), rest))
}

/// A point and digits, as a part of one.
pub fn fraction(text: &str) -> Read<f64> {
    match text {
        "." => Ok(0.0),
        _ if text[1..].bytes().all(|b| b.is_ascii_digit()) => {
            text.parse().map_err(|_| Refusal::Format)
        }
        _ => Err(Refusal::Format),
    }
}

fn micros(text: &str) -> Read<i64> {
    Ok((fraction(text)? * 1e6).round_ties_even() as i64)
}

impl Parts {
    /// The day that a Julian day is.
    pub fn set_julian(&mut self, julian: i64) {
        (self.year, self.month, self.day) = civil_from_days(julian - JULIAN_EPOCH);
    }

    /// Parts joined by `-`, `/` or `.`: returns which they are.
    pub fn date(&mut self, text: &str, have: u32) -> Read<u32> {
        let mut parts: Vec<&str> = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            rest = rest.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
            let first = rest.chars().next().ok_or(Refusal::Format)?;
            let after = if first.is_ascii_digit() {
                rest.trim_start_matches(|c: char| c.is_ascii_digit())
            } else {
                rest.trim_start_matches(|c: char| c.is_ascii_alphabetic())
            };
            parts.push(&rest[..rest.len() - after.len()]);
            rest = after.get(1..).unwrap_or_default();
        }
        let (mut have, mut got, mut named) = (have, 0, false);
        for part in parts
            .iter()
            .filter(|part| part.starts_with(|c: char| !c.is_ascii_digit()))
        {
            match words::find(part) {
                Some(Word::Filler) => continue,
                Some(Word::Month(month)) if have & mask::MONTH == 0 => self.month = month,
                _ => return Err(Refusal::Format),
            }
            named = true;
            have |= mask::MONTH;
            got |= mask::MONTH;
        }
        for part in parts
            .iter()
            .filter(|part| part.starts_with(|c: char| c.is_ascii_digit()))
        {
            let is = self.number(part, named, have)?;
            if have & is != 0 {
                return Err(Refusal::Format);
            }
            have |= is;
            got |= is;
        }
        if have & !(mask::DAY_OF_YEAR | mask::ZONE) != mask::DATE {
            return Err(Refusal::Format);
        }
        Ok(got)
    }

    /// A number whose meaning depends on the parts that there are: returns which it is.
    pub fn number(&mut self, text: &str, named_month: bool, have: u32) -> Read<u32> {
        let (value, rest) = leading_number(text)?;
        let digits = text.len() - rest.len();
        if digits == 0 {
            return Err(Refusal::Format);
        }
        if rest.starts_with('.') {
            if digits > 2 {
                return self.run_together(text, have | mask::DATE);
            }
            self.micros = micros(rest)?;
        } else if !rest.is_empty() {
            return Err(Refusal::Format);
        }
        let dated = have & mask::DATE;
        if text.len() == 3 && dated == mask::YEAR && (1..=366).contains(&value) {
            self.day_of_year = value;
            return Ok(mask::DAY_OF_YEAR | mask::MONTH | mask::DAY);
        }
        let long = text.len() >= 3;
        let is_year_first = long || self.order == DateOrder::Ymd;
        let is = match dated {
            0 if is_year_first => mask::YEAR,
            0 if self.order == DateOrder::Dmy => mask::DAY,
            mask::MONTH if named_month && is_year_first => mask::YEAR,
            mask::MONTH => mask::DAY,
            0 | mask::YEAR | mask::DAY => mask::MONTH,
            _ if dated == mask::YEAR | mask::MONTH => {
                if named_month && long && self.short_year {
                    self.day = self.year;
                    self.year = value;
                    self.short_year = false;
                    return Ok(mask::DAY);
                }
                mask::DAY
            }
            _ if dated == mask::MONTH | mask::DAY => mask::YEAR,
            mask::DATE => return self.run_together(text, have),
            _ => return Err(Refusal::Format),
        };
        match is {
            mask::YEAR => {
                self.year = value;
                self.short_year = text.len() <= 2;
            }
            mask::MONTH => self.month = value,
            _ => self.day = value,
        }
        Ok(is)
    }

    /// `YYYYMMDD`, `YYMMDD`, `HHMMSS[.ffffff]`, `HHMM`: returns which it is.
    pub fn run_together(&mut self, text: &str, have: u32) -> Read<u32> {
        if !text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            return Err(Refusal::Format);
        }
        let (digits, fraction) = text.find('.').map_or((text, ""), |at| text.split_at(at));
        let two = |from: usize| digits.get(from..from + 2).and_then(|d| d.parse().ok());
        let length = digits.len();
        if !fraction.is_empty() {
            self.micros = micros(fraction)?;
        } else if have & mask::DATE != mask::DATE && length >= 6 {
            self.day = two(length - 2).ok_or(Refusal::Format)?;
            self.month = two(length - 4).ok_or(Refusal::Format)?;
            let year = digits[..length - 4].parse::<i32>();
            self.year = i64::from(year.map_err(|_| Refusal::Field)?);
            self.short_year |= length == 6;
            return Ok(mask::DATE);
        }
        if have & mask::TIME == 0 && (length == 6 || length == 4) {
            self.hour = two(0).ok_or(Refusal::Format)?;
            self.minute = two(2).ok_or(Refusal::Format)?;
            self.second = if length == 6 {
                two(4).ok_or(Refusal::Format)?
            } else {
                0
            };
            return Ok(mask::TIME);
        }
        Err(Refusal::Format)
    }

    /// `HH:MM`, `HH:MM:SS[.ffffff]` or `MM:SS.ffffff`.
    pub fn clock(&mut self, text: &str) -> Read<()> {
        let (hour, rest) = leading_number(text)?;
        let rest = rest.strip_prefix(':').ok_or(Refusal::Format)?;
        let (minute, rest) = leading_number(rest)?;
        (self.hour, self.minute, self.second, self.micros) = (hour, minute, 0, 0);
        if rest.starts_with('.') {
            (self.hour, self.minute, self.second) = (0, hour, minute);
            self.micros = micros(rest)?;
        } else if let Some(rest) = rest.strip_prefix(':') {
            let (second, rest) = leading_number(rest)?;
            self.second = second;
            if rest.starts_with('.') {
                self.micros = micros(rest)?;
            } else if !rest.is_empty() {
                return Err(Refusal::Format);
            }
        } else if !rest.is_empty() {
            return Err(Refusal::Format);
        }
        if self.minute > 59 || self.second > 60 {
            return Err(Refusal::Field);
        }
        Ok(())
    }

    /// Whether the time is beyond `24:00:00`.
    pub fn time_overflows(&self) -> bool {
        let Parts {
            hour,
            minute,
            second,
            micros,
            ..
        } = *self;
        hour > 24
            || minute > 59
            || second > 60
            || self.time_micros() > 24 * 3_600_000_000
            || micros < 0
    }

    /// The time of the day in microseconds.
    pub fn time_micros(&self) -> i64 {
        ((self.hour * 60 + self.minute) * 60 + self.second) * 1_000_000 + self.micros
    }

    /// Days since 1970-01-01.
    pub fn days(&self) -> i64 {
        days_from_civil(self.year, self.month, self.day)
    }

    /// Checks the date's parts, and works out the year that is meant.
    pub fn validate(&mut self, have: u32, is_julian: bool, before_christ: bool) -> Read<()> {
        if have & mask::YEAR != 0 && !is_julian {
            if before_christ {
                if self.year <= 0 {
                    return Err(Refusal::Field);
                }
                self.year = 1 - self.year;
            } else if self.short_year {
                self.year += match self.year {
                    0..70 => 2000,
                    70..100 => 1900,
                    _ => 0,
                };
            } else if self.year <= 0 {
                return Err(Refusal::Field);
            }
        }
        if have & mask::DAY_OF_YEAR != 0 {
            let first = days_from_civil(self.year, 1, 1);
            (self.year, self.month, self.day) = civil_from_days(first + self.day_of_year - 1);
        }
        let month = have & mask::MONTH != 0 && !(1..=12).contains(&self.month);
        if month || (have & mask::DAY != 0 && !(1..=31).contains(&self.day)) {
            return Err(Refusal::MonthOrDay);
        }
        if have & mask::DATE == mask::DATE && self.day > days_in_month(self.year, self.month) {
            return Err(Refusal::Field);
        }
        Ok(())
    }
}

/// `+HH`, `+HHMM`, `+HH:MM[:SS]`: seconds east of UTC.
pub fn displacement(text: &str) -> Read<i32> {
    let far = |refusal: Refusal| match refusal {
        Refusal::Field => Refusal::Displacement,
        other => other,
    };
    let body = text.strip_prefix(['+', '-']).ok_or(Refusal::Format)?;
    let (mut hours, mut rest) = leading_number(body).map_err(far)?;
    let (mut minutes, mut seconds) = (0, 0);
    if let Some(after) = rest.strip_prefix(':') {
        (minutes, rest) = leading_number(after).map_err(far)?;
        if let Some(after) = rest.strip_prefix(':') {
            (seconds, rest) = leading_number(after).map_err(far)?;
        }
    } else if rest.is_empty() && text.len() > 3 {
        (hours, minutes) = (hours / 100, hours % 100);
    }
    if hours > 15 || minutes > 59 || seconds > 59 {
        return Err(Refusal::Displacement);
    }
    if !rest.is_empty() {
        return Err(Refusal::Format);
    }
    let offset = ((hours * 60 + minutes) * 60 + seconds) as i32;
    Ok(if text.starts_with('-') {
        -offset
    } else {
        offset
    })
}
