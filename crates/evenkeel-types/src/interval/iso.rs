//! Intervals in the forms of ISO 8601: with designators (`P1Y2MT3H`) and as a date and a time
//! (`P0001-02-03T04:05:06`, `P00010203T040506`).

use super::parts::{HOUR, MINUTE, Parts, Read, Refusal, SECOND};
use crate::calendar::MICROS_PER_DAY;

/// A number: its integer, the part behind the point, and the count of its digits before it.
struct Number {
    whole: i64,
    part: f64,
    width: usize,
}

struct Reader<'a> {
    rest: &'a str,
    parts: Parts,
}

/// The parts of an interval that begins with `P`.
pub(super) fn read(text: &str) -> Read<Parts> {
    let rest = text.strip_prefix('P').filter(|rest| !rest.is_empty());
    let mut reader = Reader {
        rest: rest.ok_or(Refusal::Format)?,
        parts: Parts::default(),
    };
    let (mut is_date, mut any) = (true, false);
    while !reader.rest.is_empty() {
        if reader.skip('T') {
            (is_date, any) = (false, false);
            continue;
        }
        let number = reader.number()?;
        if is_date {
            if reader.date(&number, any)? {
                (is_date, any) = (false, false);
                continue;
            }
        } else {
            reader.time(&number, any)?;
        }
        any = true;
    }
    Ok(reader.parts)
}

impl Reader<'_> {
    fn skip(&mut self, mark: char) -> bool {
        let rest = self.rest.strip_prefix(mark);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// A decimal number, perhaps with an exponent.
    fn number(&mut self) -> Read<Number> {
        let text = self.rest;
        let digits =
            |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let signed = usize::from(text.starts_with('-'));
        let width = digits(&text[signed..]);
        let mut end = signed + width;
        let mut fraction = 0;
        if text[end..].starts_with('.') {
            fraction = digits(&text[end + 1..]);
            end += 1 + fraction;
        }
        if width + fraction == 0 {
            return Err(Refusal::Format);
        }
        if text[end..].starts_with(['e', 'E']) {
            let exponent = &text[end + 1..];
            let sign = usize::from(exponent.starts_with(['+', '-']));
            let length = digits(&exponent[sign..]);
            if length > 0 {
                end += 1 + sign + length;
            }
        }
        let value: f64 = text[..end].parse().map_err(|_| Refusal::Format)?;
        if !(-1e15..=1e15).contains(&value) {
            return Err(Refusal::FieldOverflow);
        }
        self.rest = &text[end..];
        Ok(Number {
            whole: value.trunc() as i64,
            part: value - value.trunc(),
            width,
        })
    }

    /// A number of the date; true when the time begins behind it.
    fn date(&mut self, number: &Number, any: bool) -> Read<bool> {
        let Number { whole, part, width } = *number;
        let parts = &mut self.parts;
        let mark = self.rest.chars().next();
        self.rest = &self.rest[mark.map_or(0, char::len_utf8)..];
        match mark {
            Some('Y') => parts.add_years(whole, part, 1)?,
            Some('M') => {
                parts.add_months(whole)?;
                parts.add_part_of_days(part, 30)?;
            }
            Some('W') => {
                parts.add_days(whole, 7)?;
                parts.add_part_of_days(part, 7)?;
            }
            Some('D') => {
                parts.add_days(whole, 1)?;
                parts.add_part(part, MICROS_PER_DAY)?;
            }
            Some('T') | None if width == 8 && !any => {
                parts.add_years(whole / 10_000, 0.0, 1)?;
                parts.add_months(whole / 100 % 100)?;
                parts.add_days(whole % 100, 1)?;
                parts.add_part(part, MICROS_PER_DAY)?;
                return Ok(mark.is_some());
            }
            Some('T' | '-') | None => {
                if any {
                    return Err(Refusal::Format);
                }
                parts.add_years(whole, part, 1)?;
                return match mark {
                    Some('-') => self.month_and_day(),
                    other => Ok(other.is_some()),
                };
            }
            _ => return Err(Refusal::Format),
        }
        Ok(false)
    }

    /// Reads the text after `YYYY-`; true when the time begins behind it.
    fn month_and_day(&mut self) -> Read<bool> {
        let month = self.number()?;
        self.parts.add_months(month.whole)?;
        self.parts.add_part_of_days(month.part, 30)?;
        if self.rest.is_empty() || self.skip('T') {
            return Ok(!self.rest.is_empty());
        }
        if !self.skip('-') {
            return Err(Refusal::Format);
        }
        let day = self.number()?;
        self.parts.add_days(day.whole, 1)?;
        self.parts.add_part(day.part, MICROS_PER_DAY)?;
        if self.rest.is_empty() || self.skip('T') {
            return Ok(!self.rest.is_empty());
        }
        Err(Refusal::Format)
    }

    fn time(&mut self, number: &Number, any: bool) -> Read<()> {
        let Number { whole, part, width } = *number;
        let parts = &mut self.parts;
        let mark = self.rest.chars().next();
        self.rest = &self.rest[mark.map_or(0, char::len_utf8)..];
        match mark {
            Some('H') => parts.add_time(whole, part, HOUR),
            Some('M') => parts.add_time(whole, part, MINUTE),
            Some('S') => parts.add_time(whole, part, SECOND),
            None if width == 6 && !any => {
                parts.add_time(whole / 10_000, 0.0, HOUR)?;
                parts.add_time(whole / 100 % 100, 0.0, MINUTE)?;
                parts.add_time(whole % 100, 0.0, SECOND)?;
                parts.add_part(part, 1)
            }
            Some(':') | None if !any => {
                parts.add_time(whole, part, HOUR)?;
                if mark.is_none() {
                    return Ok(());
                }
                self.minutes_and_seconds()
            }
            _ => Err(Refusal::Format),
        }
    }

    /// Reads the text after `HH:`.
    fn minutes_and_seconds(&mut self) -> Read<()> {
        for (unit, is_last) in [(MINUTE, false), (SECOND, true)] {
            let number = self.number()?;
            self.parts.add_time(number.whole, number.part, unit)?;
            if self.rest.is_empty() {
                return Ok(());
            }
            if is_last || !self.skip(':') {
                break;
            }
        }
        Err(Refusal::Format)
    }
}
