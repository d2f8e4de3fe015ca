//! Puts the fields of a text together: PostgreSQL's `DecodeDateTime` and `DecodeTimeOnly`.

use super::numbers::{Parts, Read, Refusal, displacement, fraction, leading_number, mask};
use super::words::{self, Word};
use crate::abbreviations::{self, Abbreviation};
use crate::calendar::{MICROS_PER_DAY, civil_from_days};
use crate::context::TypeContext;
use crate::fields::{self, Field, Kind};
use crate::zone::TimeZone;

/// The offset that a text gives.
#[derive(Debug, Clone, PartialEq)]
pub enum Zone {
    /// Seconds east of UTC.
    Offset(i32),
    /// By the rules of a zone.
    Named(TimeZone),
    /// By the rules that an abbreviation had in a zone.
    Abbreviated(TimeZone, String),
}

/// A text's meaning.
#[derive(Debug, Clone, PartialEq)]
pub enum Decoded {
    /// `infinity`
    Infinity,
    /// `-infinity`
    NegativeInfinity,
    /// `epoch`
    Epoch,
    /// A day (none in a time alone), a time of that day, and perhaps a zone.
    Civil {
        days: Option<i64>,
        micros: i64,
        zone: Option<Zone>,
    },
}

/// A word that says how the next field is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prefix {
    Julian,
    Time,
    Unit,
}

struct Decoder<'a> {
    cx: &'a TypeContext,
    /// A time without a date is wanted.
    time_only: bool,
    fields: Vec<Field>,
    have: u32,
    parts: Parts,
    prefix: Option<Prefix>,
    special: Option<Decoded>,
    zone: Option<Zone>,
    /// `dst` adds an hour to the offset.
    daylight: bool,
    /// `am` (false) or `pm`.
    half: Option<bool>,
    before_christ: bool,
    is_julian: bool,
    named_month: bool,
}

/// Reads a text; with `time_only` a date is refused but where a zone needs it.
pub fn decode(text: &str, cx: &TypeContext, time_only: bool) -> Read<Decoded> {
    let mut decoder = Decoder {
        cx,
        time_only,
        fields: fields::split(text).ok_or(Refusal::Format)?,
        have: 0,
        parts: Parts {
            order: cx.date_order,
            ..Parts::default()
        },
        prefix: None,
        special: None,
        zone: None,
        daylight: false,
        half: None,
        before_christ: false,
        is_julian: false,
        named_month: false,
    };
    for at in 0..decoder.fields.len() {
        let Some(got) = decoder.field(at)? else {
            continue;
        };
        if decoder.have & got != 0 {
            return Err(Refusal::Format);
        }
        decoder.have |= got;
    }
    decoder.finish()
}

impl Decoder<'_> {
    /// Reads one field; the parts that it gives, `None` for a filler.
    fn field(&mut self, at: usize) -> Read<Option<u32>> {
        let Field { kind, text } = self.fields[at].clone();
        let got = match kind {
            Kind::Date if self.time_only => self.date_of_time(at, &text)?,
            Kind::Date => self.date(&text)?,
            Kind::Time => {
                self.take_time_prefix()?;
                self.parts.clock(&text)?;
                if self.parts.time_overflows() {
                    return Err(Refusal::Field);
                }
                mask::TIME
            }
            Kind::Signed => {
                self.zone = Some(Zone::Offset(displacement(&text)?));
                mask::ZONE
            }
            Kind::Number if self.prefix.is_some() => self.prefixed(&text)?,
            Kind::Number if self.time_only => self.number_of_time(at, &text)?,
            Kind::Number => self.number(&text)?,
            Kind::Word | Kind::Special => return self.word(&text),
        };
        Ok(Some(got))
    }

    /// A `t` may stand before a time, and nothing else.
    fn take_time_prefix(&mut self) -> Read<()> {
        match self.prefix.take() {
            None | Some(Prefix::Time) => Ok(()),
            Some(_) => Err(Refusal::Format),
        }
    }

    fn date(&mut self, text: &str) -> Read<u32> {
        if self.prefix == Some(Prefix::Julian) {
            self.prefix = None;
            let (julian, rest) = leading_number(text)?;
            self.parts.set_julian(julian);
            self.is_julian = true;
            self.zone = Some(Zone::Offset(displacement(rest)?));
            return Ok(mask::DATE | mask::TIME | mask::ZONE);
        }
        let dated = self.have & (mask::MONTH | mask::DAY) == mask::MONTH | mask::DAY;
        if self.prefix.is_none() && !dated {
            return self.parts.date(text, self.have);
        }
        if self.prefix.is_some() || text.starts_with(|c: char| c.is_ascii_digit()) {
            self.take_time_prefix()?;
            return self.time_and_zone(text, self.have);
        }
        self.zone = Some(named(text).ok_or_else(|| Refusal::Zone(text.to_owned()))?);
        Ok(mask::ZONE)
    }

    /// `HHMMSS-ZZ`.
    fn time_and_zone(&mut self, text: &str, have: u32) -> Read<u32> {
        if self.have & mask::TIME != 0 {
            return Err(Refusal::Format);
        }
        let (time, zone) = text.split_at(text.find('-').ok_or(Refusal::Format)?);
        self.zone = Some(Zone::Offset(displacement(zone)?));
        Ok(self.parts.run_together(time, have)? | mask::ZONE)
    }

    fn date_of_time(&mut self, at: usize, text: &str) -> Read<u32> {
        let fields = &self.fields;
        let is_dated = at == 0
            && fields.len() >= 2
            && (fields[fields.len() - 1].kind == Kind::Date || fields[1].kind == Kind::Time);
        if is_dated {
            return self.parts.date(text, self.have);
        }
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            return self.time_and_zone(text, self.have | mask::DATE);
        }
        self.zone = Some(named(text).ok_or_else(|| Refusal::Zone(text.to_owned()))?);
        Ok(mask::ZONE)
    }

    /// A number behind `j` or `t`.
    fn prefixed(&mut self, text: &str) -> Read<u32> {
        let (value, rest) = leading_number(text)?;
        if !rest.is_empty() && !rest.starts_with('.') {
            return Err(Refusal::Format);
        }
        match self.prefix.take() {
            Some(Prefix::Julian) => {
                self.parts.set_julian(value);
                self.is_julian = true;
                if rest.is_empty() {
                    return Ok(mask::DATE);
                }
                let micros = fraction(rest)? * MICROS_PER_DAY as f64;
                self.parts.micros = micros.round_ties_even() as i64;
                Ok(mask::DATE | mask::TIME)
            }
            Some(Prefix::Time) => match self.parts.run_together(text, self.have | mask::DATE)? {
                mask::TIME => Ok(mask::TIME),
                _ => Err(Refusal::Format),
            },
            _ => Err(Refusal::Format),
        }
    }

    fn number(&mut self, text: &str) -> Read<u32> {
        let point = text.find('.');
        let has_date = self.have & mask::DATE != 0;
        let complete = self.have & mask::DATE != 0 && self.have & mask::TIME != 0;
        match point {
            Some(_) if !has_date => self.parts.date(text, self.have),
            Some(at) if at > 2 => self.parts.run_together(text, self.have),
            _ if text.len() >= 6 && !complete => self.parts.run_together(text, self.have),
            _ => self.parts.number(text, self.named_month, self.have),
        }
    }

    fn number_of_time(&mut self, at: usize, text: &str) -> Read<u32> {
        let have = self.have | mask::DATE;
        match text.find('.') {
            Some(point) => {
                let last = self.fields.len() - 1;
                if at == 0 && last > 0 && self.fields[last].kind == Kind::Date {
                    self.parts.date(text, self.have)
                } else if point > 2 {
                    self.parts.run_together(text, have)
                } else {
                    Err(Refusal::Format)
                }
            }
            None if text.len() > 4 => self.parts.run_together(text, have),
            None => self.parts.number(text, false, have),
        }
    }

    fn word(&mut self, text: &str) -> Read<Option<u32>> {
        if let Some(abbreviation) = abbreviations::find(text) {
            self.zone = Some(match abbreviation {
                Abbreviation::Fixed(offset, _) => Zone::Offset(offset),
                Abbreviation::Zone(name) => {
                    let zone = TimeZone::parse(name).map_err(|_| Refusal::Format)?;
                    Zone::Abbreviated(zone, text.to_ascii_uppercase())
                }
            });
            return Ok(Some(mask::ZONE));
        }
        let Some(word) = words::find(text) else {
            self.zone = Some(named(text).ok_or(Refusal::Format)?);
            return Ok(Some(mask::ZONE));
        };
        Ok(Some(match word {
            Word::Filler => return Ok(None),
            Word::Month(_) | Word::Weekday if self.time_only => return Err(Refusal::Format),
            Word::Month(month) => self.month(month),
            Word::Weekday => mask::WEEKDAY,
            Word::Half(half) => {
                self.half = Some(half);
                mask::HALF
            }
            Word::Era(before_christ) => {
                self.before_christ = before_christ;
                mask::ERA
            }
            Word::Daylight => {
                self.daylight = true;
                mask::DAYLIGHT
            }
            Word::Julian => self.start_prefix(Prefix::Julian)?,
            Word::Unit => self.start_prefix(Prefix::Unit)?,
            Word::Time if self.time_only || self.have & mask::DATE == mask::DATE => {
                self.start_prefix(Prefix::Time)?
            }
            Word::Time => return Err(Refusal::Format),
            reserved => self.reserved(reserved)?,
        }))
    }

    /// A month's name; a number that was taken for the month is the day then.
    fn month(&mut self, month: i64) -> u32 {
        let was_day = self.have & mask::MONTH != 0
            && !self.named_month
            && self.have & mask::DAY == 0
            && (1..=31).contains(&self.parts.month);
        self.named_month = true;
        let day = std::mem::replace(&mut self.parts.month, month);
        if was_day {
            self.parts.day = day;
            mask::DAY
        } else {
            mask::MONTH
        }
    }

    fn start_prefix(&mut self, prefix: Prefix) -> Read<u32> {
        match self.prefix.replace(prefix) {
            None => Ok(0),
            Some(_) => Err(Refusal::Format),
        }
    }

    fn reserved(&mut self, word: Word) -> Read<u32> {
        let offset = self.cx.time_zone.offset_at(self.cx.now_micros);
        let local = self.cx.now_micros + i64::from(offset) * 1_000_000;
        let all = mask::DATE | mask::TIME | mask::ZONE;
        let today = local.div_euclid(MICROS_PER_DAY);
        let special = match word {
            Word::Midnight => {
                self.zone = Some(Zone::Offset(0));
                return Ok(mask::TIME | mask::ZONE);
            }
            Word::Now => {
                self.set_day(today);
                self.parts.micros = local.rem_euclid(MICROS_PER_DAY);
                if self.time_only {
                    return Ok(mask::TIME);
                }
                self.zone = Some(Zone::Offset(offset));
                return Ok(all);
            }
            _ if self.time_only => return Err(Refusal::Format),
            Word::Day(from_today) => {
                self.set_day(today + from_today);
                return Ok(mask::DATE);
            }
            Word::Epoch => Decoded::Epoch,
            Word::Infinity => Decoded::Infinity,
            _ => Decoded::NegativeInfinity,
        };
        self.special = Some(special);
        Ok(all)
    }

    fn set_day(&mut self, days: i64) {
        (self.parts.year, self.parts.month, self.parts.day) = civil_from_days(days);
        self.is_julian = true;
    }

    fn finish(mut self) -> Read<Decoded> {
        if self.prefix.is_some() {
            return Err(Refusal::Format);
        }
        if let Some(special) = self.special {
            return Ok(special);
        }
        self.parts
            .validate(self.have, self.is_julian, self.before_christ)?;
        match self.half {
            Some(_) if self.parts.hour > 12 => return Err(Refusal::Field),
            Some(false) if self.parts.hour == 12 => self.parts.hour = 0,
            Some(true) if self.parts.hour != 12 => self.parts.hour += 12,
            _ => {}
        }
        let has_date = self.have & mask::DATE == mask::DATE;
        if self.time_only {
            if self.parts.time_overflows() {
                return Err(Refusal::Field);
            }
            let needs_date = matches!(&self.zone, Some(Zone::Named(zone)) if !zone.is_fixed());
            if self.have & mask::TIME == 0 || (needs_date && !has_date) {
                return Err(Refusal::Format);
            }
        } else if !has_date {
            return Err(Refusal::Format);
        }
        if self.daylight {
            match &mut self.zone {
                Some(Zone::Offset(offset)) => *offset += 3600,
                _ => return Err(Refusal::Format),
            }
        }
        Ok(Decoded::Civil {
            days: has_date.then(|| self.parts.days()),
            micros: self.parts.time_micros(),
            zone: self.zone,
        })
    }
}

/// A zone by its name.
fn named(text: &str) -> Option<Zone> {
    TimeZone::parse(text).ok().map(Zone::Named)
}
