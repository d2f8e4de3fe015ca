//! `to_char` of dates, times and intervals.

use evenkeel_types::{Datum, Interval};

use super::pattern::{Case, Key, Node, Pattern};
use super::roman::roman;
use super::{DAYS, MONTHS, ordinal};
use crate::calendar::{Moment, UNIX_EPOCH, clock, is_finite};
use crate::call::Call;
use crate::error::{self, ExprResult};
use crate::gather::grow;

/// Field values that a pattern prints.
struct Fields {
    year: i64,
    month: i64,
    day: i64,
    micros: i64,
    day_of_year: i64,
    /// None for an interval, which is at no place of the calendar.
    moment: Option<Moment>,
    abbreviation: Option<Option<String>>,
}

/// A field, as steps of a loop.
const FIELD_STEPS: usize = 64;
/// Bytes of the widest field.
const WIDEST: usize = 64;

fn answer(call: &Call<'_>, fields: &Fields) -> ExprResult<Datum> {
    let pattern = call.text(1);
    if pattern.is_empty() {
        return Ok(Datum::Null);
    }
    let (mut text, mut pace) = (String::new(), call.pace());
    for node in Pattern::of(call, pattern)?.nodes {
        pace.step(FIELD_STEPS)?;
        grow(call, &mut text, WIDEST)?;
        match node {
            Node::Literal(c) | Node::Space(c) | Node::Separator(c) => text.push(c),
            Node::Field {
                key,
                fill,
                ordinal: suffix,
                ..
            } => {
                let field = fields.field(key, fill)?;
                let number = field.bytes().any(|byte| byte.is_ascii_digit());
                match suffix.filter(|_| number) {
                    Some(Case::Upper) => {
                        let ending = ordinal(&field).to_ascii_uppercase();
                        text.push_str(&field);
                        text.push_str(&ending);
                    }
                    Some(_) => {
                        text.push_str(&field);
                        text.push_str(ordinal(&field));
                    }
                    None => text.push_str(&field),
                }
            }
        }
    }
    Ok(text.into())
}

/// A number with leading zeros up to a width that its sign comes on top of.
fn padded(number: i64, width: usize, fill: bool) -> String {
    let width = match (fill, number < 0) {
        (true, _) => 0,
        (false, true) => width + 1,
        (false, false) => width,
    };
    format!("{number:0width$}")
}

/// A number with leading zeros up to a width that its sign is counted in.
fn plain(number: i64, width: usize, fill: bool) -> String {
    let width = if fill { 0 } else { width };
    format!("{number:0width$}")
}

fn cased(name: &str, case: Case) -> String {
    match case {
        Case::Upper => name.to_ascii_uppercase(),
        Case::Capital => name.to_owned(),
        Case::Lower => name.to_ascii_lowercase(),
    }
}

fn lettered(text: &str, upper: bool) -> String {
    match upper {
        true => text.to_owned(),
        false => text.to_ascii_lowercase(),
    }
}

impl Fields {
    fn of_moment(moment: Moment, abbreviation: Option<Option<String>>) -> Fields {
        Fields {
            year: moment.year,
            month: moment.month,
            day: moment.day,
            micros: moment.micros,
            day_of_year: moment.day_of_year(),
            moment: Some(moment),
            abbreviation,
        }
    }

    fn of_interval(interval: Interval) -> Fields {
        let months = i64::from(interval.months);
        let (year, month, day) = (months / 12, months % 12, i64::from(interval.days));
        Fields {
            year,
            month,
            day,
            micros: interval.micros,
            day_of_year: (year * 12 + month) * 30 + day,
            moment: None,
            abbreviation: None,
        }
    }

    /// The moment, which an interval has not.
    fn calendar(&self) -> ExprResult<&Moment> {
        self.moment.as_ref().ok_or_else(|| {
            error::datetime_format("invalid format specification for an interval value")
        })
    }

    /// The year as people count.
    fn shown_year(&self) -> i64 {
        match self.moment {
            Some(_) if self.year <= 0 => 1 - self.year,
            _ => self.year,
        }
    }

    fn iso_year(&self) -> i64 {
        match &self.moment {
            Some(moment) => match moment.iso_week().1 {
                year if year <= 0 => 1 - year,
                year => year,
            },
            None => self.year,
        }
    }

    fn field(&self, key: Key, fill: bool) -> ExprResult<String> {
        let (hour, minute, second, micros) = clock(self.micros);
        Ok(match key {
            Key::Hour24 => padded(hour, 2, fill),
            Key::Hour12 => padded(if hour % 12 == 0 { 12 } else { hour % 12 }, 2, fill),
            Key::Minute => padded(minute, 2, fill),
            Key::Second => padded(second, 2, fill),
            Key::Fraction(digits) => {
                let digits = usize::from(digits);
                format!("{:0digits$}", micros / 10_i64.pow(6 - digits as u32))
            }
            Key::Millisecond => format!("{:03}", micros / 1000),
            Key::Microsecond => format!("{micros:06}"),
            Key::SecondOfDay => (hour * 3600 + minute * 60 + second).to_string(),
            Key::HalfDay { points, upper } => {
                let afternoon = hour.rem_euclid(24) >= 12;
                let text = match (afternoon, points) {
                    (true, true) => "P.M.",
                    (true, false) => "PM",
                    (false, true) => "A.M.",
                    (false, false) => "AM",
                };
                lettered(text, upper)
            }
            Key::Era { points, upper } => {
                let text = match (self.calendar()?.year <= 0, points) {
                    (true, true) => "B.C.",
                    (true, false) => "BC",
                    (false, true) => "A.D.",
                    (false, false) => "AD",
                };
                lettered(text, upper)
            }
            Key::Zone { .. } | Key::ZoneHour | Key::ZoneMinute | Key::Offset => {
                self.zone(key, fill)?
            }
            key => return self.date_field(key, fill),
        })
    }

    fn zone(&self, key: Key, fill: bool) -> ExprResult<String> {
        let seconds = i64::from(self.calendar()?.offset.unwrap_or(0));
        let sign = if seconds >= 0 { '+' } else { '-' };
        let (hours, minutes) = (seconds.abs() / 3600, seconds.abs() % 3600 / 60);
        Ok(match key {
            Key::ZoneHour => format!("{sign}{hours:02}"),
            Key::ZoneMinute => format!("{minutes:02}"),
            Key::Offset => {
                let width = if fill { 0 } else { 2 };
                let rest = match minutes {
                    0 => String::new(),
                    minutes => format!(":{minutes:02}"),
                };
                format!("{sign}{hours:0width$}{rest}")
            }
            Key::Zone { upper } => match &self.abbreviation {
                None => String::new(),
                Some(Some(abbreviation)) => match upper {
                    true => abbreviation.to_ascii_uppercase(),
                    false => abbreviation.to_ascii_lowercase(),
                },
                Some(None) => {
                    let message = "to_char with \"TZ\" is not supported in this time zone";
                    return Err(error::unsupported(message));
                }
            },
            _ => String::new(),
        })
    }

    fn date_field(&self, key: Key, fill: bool) -> ExprResult<String> {
        let name = |names: &[&str], at: i64, case: Case, width: usize| {
            let at = usize::try_from(at).unwrap_or(0);
            let name = cased(names.get(at).copied().unwrap_or_default(), case);
            if fill { name } else { format!("{name:width$}") }
        };
        let short = |names: &[&str], at: i64, case: Case| {
            let at = usize::try_from(at).unwrap_or(0);
            let name = names.get(at).copied().unwrap_or_default();
            cased(name.get(..3).unwrap_or(name), case)
        };
        Ok(match key {
            Key::MonthName(case) => name(&MONTHS, self.calendar()?.month - 1, case, 9),
            Key::MonthAbbreviation(case) => short(&MONTHS, self.calendar()?.month - 1, case),
            Key::Month => padded(self.month, 2, fill),
            Key::DayName(case) => name(&DAYS, self.calendar()?.weekday(), case, 9),
            Key::DayAbbreviation(case) => short(&DAYS, self.calendar()?.weekday(), case),
            Key::DayOfYear => plain(self.day_of_year, 3, fill),
            Key::DayOfMonth => plain(self.day, 2, fill),
            Key::DayOfWeek => (self.calendar()?.weekday() + 1).to_string(),
            Key::IsoDayOfWeek => match self.calendar()?.weekday() {
                0 => "7".to_owned(),
                day => day.to_string(),
            },
            Key::IsoDayOfYear => padded(self.calendar()?.iso_day_of_year(), 3, fill),
            Key::IsoWeek => padded(self.calendar()?.iso_week().0, 2, fill),
            Key::WeekOfYear => plain((self.day_of_year - 1) / 7 + 1, 2, fill),
            Key::WeekOfMonth => ((self.day - 1) / 7 + 1).to_string(),
            Key::Quarter if self.month == 0 => String::new(),
            Key::Quarter => ((self.month - 1) / 3 + 1).to_string(),
            Key::Century | Key::YearWithComma | Key::Year(_) | Key::IsoYear(_) => {
                self.year_field(key, fill)
            }
            Key::Julian => match &self.moment {
                Some(moment) => (moment.days() + UNIX_EPOCH).to_string(),
                None => (crate::calendar::days_of(self.year, self.month, self.day) + UNIX_EPOCH)
                    .to_string(),
            },
            Key::RomanMonth { upper } => {
                let month = match (self.month, self.year) {
                    (0, 0) => return Ok(String::new()),
                    (0, year) if year >= 0 => 12,
                    (0, _) => 1,
                    // Counted back from the end of the year.
                    (month, _) if month < 0 => month + 13,
                    (month, _) => month,
                };
                let numeral = lettered(&roman(month).unwrap_or_default(), upper);
                if fill {
                    numeral
                } else {
                    format!("{numeral:4}")
                }
            }
            _ => String::new(),
        })
    }

    fn year_field(&self, key: Key, fill: bool) -> String {
        let last = |year: i64, digits: u8| match digits {
            4 => padded(year, 4, fill),
            digits => padded(year % 10_i64.pow(digits.into()), digits.into(), fill),
        };
        match key {
            Key::Century => self.century(fill),
            Key::Year(digits) => last(self.shown_year(), digits),
            Key::IsoYear(digits) => last(self.iso_year(), digits),
            _ => {
                let year = self.shown_year();
                format!("{},{:03}", year / 1000, year % 1000)
            }
        }
    }

    fn century(&self, fill: bool) -> String {
        let century = match (&self.moment, self.year) {
            (None, year) => year / 100,
            (_, year) if year > 0 => (year - 1) / 100 + 1,
            (_, year) => year / 100 - 1,
        };
        match (-99..=99).contains(&century) {
            true => padded(century, 2, fill),
            false => century.to_string(),
        }
    }
}

fn of_local(local: i64, call: &Call<'_>) -> ExprResult<Datum> {
    if !is_finite(local) {
        return Ok(Datum::Null);
    }
    answer(call, &Fields::of_moment(Moment::of_local(local), None))
}

/// `to_char(timestamp, text)`
pub fn timestamp_to_char(call: &Call<'_>) -> ExprResult<Datum> {
    of_local(call.int(0), call)
}

fn of_instant(instant: i64, call: &Call<'_>) -> ExprResult<Datum> {
    if !is_finite(instant) {
        return Ok(Datum::Null);
    }
    let zone = call.zone();
    let moment = Moment::of_instant(instant, zone);
    let abbreviation = Some(zone.abbreviation_at(instant));
    answer(call, &Fields::of_moment(moment, abbreviation))
}

/// `to_char(timestamptz, text)`
pub fn timestamptz_to_char(call: &Call<'_>) -> ExprResult<Datum> {
    of_instant(call.int(0), call)
}

/// `to_char(interval, text)`
pub fn interval_to_char(call: &Call<'_>) -> ExprResult<Datum> {
    let interval = call.interval(0);
    match interval.is_finite() {
        true => answer(call, &Fields::of_interval(interval)),
        false => Ok(Datum::Null),
    }
}
