//! The input function of `interval`: PostgreSQL's free syntax; ISO 8601 is in the module `iso`.

use super::parts::{HOUR, MINUTE, Parts, Read, Refusal, SECOND, small};
use super::{Interval, iso, out_of_range};
use crate::calendar::MICROS_PER_DAY;
use crate::error::{SqlState, TypeError, TypeResult};
use crate::fields::{self, Field, Kind};
use crate::identity::IntervalMod;

/// Letters of a word that count.
const WORD: usize = 10;

impl Interval {
    /// The input function. Errors: 22007, 22015, 22008. With `standard_signs` (`IntervalStyle` is
    /// `sql_standard`) a sign in front of all fields is that of each.
    pub fn parse(
        text: &str,
        standard_signs: bool,
        modifier: Option<IntervalMod>,
    ) -> TypeResult<Interval> {
        let fields = fields::split(text).ok_or(Refusal::Format);
        let declared = modifier.map_or(IntervalMod::FULL, |modifier| modifier.fields);
        let read = |fields: Vec<Field>| read_fields(&fields, standard_signs, declared);
        let read = match fields.and_then(read) {
            Err(Refusal::Format) => iso::read(text).map(Found::Parts),
            other => other,
        };
        match read {
            Ok(Found::Infinity(interval)) => Ok(interval),
            Ok(Found::Parts(parts)) => {
                let interval = parts.interval().filter(|interval| interval.is_finite());
                interval.ok_or_else(out_of_range)?.apply_modifier(modifier)
            }
            Err(Refusal::Format) => Err(TypeError::new(
                SqlState::INVALID_DATETIME_FORMAT,
                format!("invalid input syntax for type interval: \"{text}\""),
            )),
            Err(Refusal::FieldOverflow) => Err(TypeError::new(
                SqlState::INTERVAL_FIELD_OVERFLOW,
                format!("interval field value out of range: \"{text}\""),
            )),
        }
    }
}

enum Found {
    Parts(Parts),
    Infinity(Interval),
}

/// The units; `Second` and so on say what a number counts, and which units a text has had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
    Decade,
    Century,
    Millennium,
}

const UNITS: &[(Unit, &[&str])] = &[
    (
        Unit::Microsecond,
        &["microsecon", "us", "usec", "usecond", "useconds", "usecs"],
    ),
    (
        Unit::Millisecond,
        &["millisecon", "ms", "msec", "msecond", "mseconds", "msecs"],
    ),
    (Unit::Second, &["s", "sec", "second", "seconds", "secs"]),
    (Unit::Minute, &["m", "min", "mins", "minute", "minutes"]),
    (Unit::Hour, &["h", "hour", "hours", "hr", "hrs"]),
    (Unit::Day, &["d", "day", "days"]),
    (Unit::Week, &["w", "week", "weeks"]),
    (Unit::Month, &["mon", "mons", "month", "months"]),
    (Unit::Year, &["y", "year", "years", "yr", "yrs"]),
    (Unit::Decade, &["dec", "decade", "decades", "decs"]),
    (Unit::Century, &["c", "cent", "centuries", "century"]),
    (
        Unit::Millennium,
        &["mil", "millennia", "millennium", "mils"],
    ),
];

fn unit_of(word: &str) -> Option<Unit> {
    let word = word.get(..WORD).unwrap_or(word);
    let found = UNITS.iter().find(|(_, words)| words.contains(&word));
    found.map(|(unit, _)| *unit)
}

/// The units a text has had, one bit each.
#[derive(Default)]
struct Seen(u16);

impl Seen {
    const TIME: u16 = 1 << Unit::Microsecond as u16
        | 1 << Unit::Millisecond as u16
        | 1 << Unit::Second as u16
        | 1 << Unit::Minute as u16
        | 1 << Unit::Hour as u16;
    const SECONDS: u16 =
        1 << Unit::Microsecond as u16 | 1 << Unit::Millisecond as u16 | 1 << Unit::Second as u16;

    /// Refuses a unit that was there before.
    fn mark(&mut self, units: u16) -> Read<()> {
        if self.0 & units != 0 {
            return Err(Refusal::Format);
        }
        self.0 |= units;
        Ok(())
    }
}

/// Reads the fields from the last to the first, for units stand behind their numbers.
fn read_fields(fields: &[Field], standard_signs: bool, declared: u16) -> Read<Found> {
    let is_signed = |field: &Field| field.text.starts_with(['+', '-']);
    let all_negative = standard_signs
        && fields
            .first()
            .is_some_and(|field| field.text.starts_with('-'))
        && !fields.iter().skip(1).any(is_signed);
    let mut reader = FieldReader {
        parts: Parts::default(),
        seen: Seen::default(),
        unit: None,
        unit_is_open: false,
        all_negative,
        declared,
    };
    let mut ago = false;
    for (at, field) in fields.iter().enumerate().rev() {
        let last = at + 1 == fields.len();
        let text = field.text.as_str();
        match field.kind {
            Kind::Time => reader.clock(text, false)?,
            Kind::Signed => {
                let is_clock =
                    text[1..].contains(':') && clock_micros(&text[1..], declared).is_ok();
                if is_clock {
                    reader.clock(&text[1..], text.starts_with('-'))?;
                } else {
                    reader.number(text)?;
                }
            }
            Kind::Number | Kind::Date => reader.number(text)?,
            Kind::Word | Kind::Special if reader.unit_is_open => return Err(Refusal::Format),
            Kind::Word | Kind::Special => match text {
                "ago" if last => ago = true,
                "infinity" | "+infinity" | "-infinity" if last && fields.len() == 1 => {
                    return Ok(Found::Infinity(if text.starts_with('-') {
                        Interval::NEGATIVE_INFINITY
                    } else {
                        Interval::INFINITY
                    }));
                }
                _ => {
                    reader.unit = Some(unit_of(text).ok_or(Refusal::Format)?);
                    reader.unit_is_open = true;
                }
            },
        }
    }
    if reader.seen.0 == 0 || reader.unit_is_open {
        return Err(Refusal::Format);
    }
    let parts = if ago {
        reader.parts.negated().ok_or(Refusal::FieldOverflow)?
    } else {
        reader.parts
    };
    Ok(Found::Parts(parts))
}

struct FieldReader {
    parts: Parts,
    seen: Seen,
    /// Unit of the next number to the left.
    unit: Option<Unit>,
    /// A unit was read and its number was not.
    unit_is_open: bool,
    all_negative: bool,
    /// The fields of the type, of which the last is the unit of a number without one.
    declared: u16,
}

/// The last of declared fields.
fn last_unit(declared: u16) -> Unit {
    use IntervalMod as M;
    match declared {
        M::YEAR => Unit::Year,
        M::MONTH | M::YEAR_TO_MONTH => Unit::Month,
        M::DAY => Unit::Day,
        M::HOUR | M::DAY_TO_HOUR => Unit::Hour,
        M::MINUTE | M::HOUR_TO_MINUTE | M::DAY_TO_MINUTE => Unit::Minute,
        _ => Unit::Second,
    }
}

impl FieldReader {
    fn clock(&mut self, text: &str, negative: bool) -> Read<()> {
        let mut micros = clock_micros(text, self.declared)?;
        if negative || (self.all_negative && micros > 0) {
            micros = -micros;
        }
        self.parts.set_micros(micros);
        self.unit = Some(Unit::Day);
        self.unit_is_open = false;
        self.seen.mark(Seen::TIME)
    }

    fn number(&mut self, text: &str) -> Read<()> {
        let unit = self.unit.unwrap_or_else(|| last_unit(self.declared));
        let negative = text.starts_with('-');
        let (mut whole, rest) = leading_integer(text)?;
        let mut part = 0.0;
        let mut unit = unit;
        if let Some(months) = rest.strip_prefix('-') {
            let (months, rest) = leading_integer(months)?;
            if !(0..12).contains(&months) {
                return Err(Refusal::FieldOverflow);
            }
            if !rest.is_empty() {
                return Err(Refusal::Format);
            }
            unit = Unit::Month;
            let months = if negative { -months } else { months };
            let all = whole.checked_mul(12).and_then(|n| n.checked_add(months));
            whole = all.ok_or(Refusal::FieldOverflow)?;
        } else if rest.starts_with('.') {
            part = fraction(rest)?;
            if negative {
                part = -part;
            }
        } else if !rest.is_empty() {
            return Err(Refusal::Format);
        }
        if self.all_negative {
            whole = -whole.abs();
            part = -part.abs();
        }
        self.unit = Some(unit);
        self.unit_is_open = false;
        self.add(unit, whole, part)
    }

    fn add(&mut self, unit: Unit, whole: i64, part: f64) -> Read<()> {
        let parts = &mut self.parts;
        match unit {
            Unit::Microsecond => parts.add_time(whole, part, 1)?,
            Unit::Millisecond => parts.add_time(whole, part, 1000)?,
            Unit::Second => parts.add_time(whole, part, SECOND)?,
            Unit::Minute => parts.add_time(whole, part, MINUTE)?,
            Unit::Hour => {
                parts.add_time(whole, part, HOUR)?;
                self.unit = Some(Unit::Day);
            }
            Unit::Day => {
                parts.add_days(whole, 1)?;
                parts.add_part(part, MICROS_PER_DAY)?;
            }
            Unit::Week => {
                parts.add_days(whole, 7)?;
                parts.add_part_of_days(part, 7)?;
            }
            Unit::Month => {
                parts.add_months(whole)?;
                parts.add_part_of_days(part, 30)?;
            }
            Unit::Year => parts.add_years(whole, part, 1)?,
            Unit::Decade => parts.add_years(whole, part, 10)?,
            Unit::Century => parts.add_years(whole, part, 100)?,
            Unit::Millennium => parts.add_years(whole, part, 1000)?,
        }
        self.seen.mark(if unit == Unit::Second && part != 0.0 {
            Seen::SECONDS
        } else {
            1 << unit as u16
        })
    }
}

/// The integer that a text begins with, of a sign and digits perhaps, and what follows it.
fn leading_integer(text: &str) -> Read<(i64, &str)> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = unsigned.len()
        - unsigned
            .trim_start_matches(|c: char| c.is_ascii_digit())
            .len();
    let end = text.len() - unsigned.len() + digits;
    if digits == 0 {
        return Ok((0, text));
    }
    let value = text[..end].parse().map_err(|_| Refusal::FieldOverflow)?;
    Ok((value, &text[end..]))
}

/// A point and digits; a point alone is zero.
fn fraction(text: &str) -> Read<f64> {
    match text {
        "." => Ok(0.0),
        _ if text[1..].bytes().all(|b| b.is_ascii_digit()) => {
            text.parse().map_err(|_| Refusal::Format)
        }
        _ => Err(Refusal::Format),
    }
}

/// `HH:MM`, `HH:MM:SS[.ffffff]` or `MM:SS.ffffff`, in microseconds; of `minute to second` also
/// `MM:SS`.
fn clock_micros(text: &str, declared: u16) -> Read<i64> {
    let (mut hours, rest) = leading_integer(text)?;
    let rest = rest.strip_prefix(':').ok_or(Refusal::Format)?;
    let (mut minutes, rest) = leading_integer(rest)?;
    small(minutes)?;
    let (mut seconds, mut part) = (0, 0.0);
    if rest.starts_with('.') {
        part = fraction(rest)?;
        (hours, minutes, seconds) = (0, hours, minutes);
    } else if let Some(rest) = rest.strip_prefix(':') {
        let (value, rest) = leading_integer(rest)?;
        small(value)?;
        seconds = value;
        if rest.starts_with('.') {
            part = fraction(rest)?;
        } else if !rest.is_empty() {
            return Err(Refusal::Format);
        }
    } else if !rest.is_empty() {
        return Err(Refusal::Format);
    } else if declared == IntervalMod::MINUTE_TO_SECOND {
        (hours, minutes, seconds) = (0, hours, minutes);
    }
    let micros = (part * 1e6).round_ties_even() as i64;
    if hours < 0 || !(0..60).contains(&minutes) || !(0..=60).contains(&seconds) {
        return Err(Refusal::FieldOverflow);
    }
    let small = minutes * MINUTE + seconds * SECOND + micros;
    let all = hours.checked_mul(HOUR).and_then(|n| n.checked_add(small));
    all.ok_or(Refusal::FieldOverflow)
}
