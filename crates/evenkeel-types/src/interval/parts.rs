//! The parts of an interval while its text is read.

use super::Interval;
use crate::calendar::MICROS_PER_DAY;

/// Microseconds of a second.
pub const SECOND: i64 = 1_000_000;
/// Microseconds of a minute.
pub const MINUTE: i64 = 60 * SECOND;
/// Microseconds of an hour.
pub const HOUR: i64 = 60 * MINUTE;

/// Why a text is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// No interval.
    Format,
    /// A number out of range.
    FieldOverflow,
}

/// The result of reading a text.
pub type Read<T> = Result<T, Refusal>;

/// The parts under construction, years apart as in the text.
#[derive(Debug, Default, Clone, Copy)]
pub struct Parts {
    years: i32,
    months: i32,
    days: i32,
    micros: i64,
}

impl Parts {
    /// Adds whole units and a part of one, of `unit` microseconds.
    pub fn add_time(&mut self, whole: i64, part: f64, unit: i64) -> Read<()> {
        let product = whole.checked_mul(unit).ok_or(Refusal::FieldOverflow)?;
        self.add_micros(product)?;
        self.add_part(part, unit)
    }

    /// Replaces the time, of which the text has no other.
    pub fn set_micros(&mut self, micros: i64) {
        self.micros = micros;
    }

    fn add_micros(&mut self, micros: i64) -> Read<()> {
        let sum = self.micros.checked_add(micros);
        self.micros = sum.ok_or(Refusal::FieldOverflow)?;
        Ok(())
    }

    /// Adds a part of a unit of `unit` microseconds, rounded.
    pub fn add_part(&mut self, part: f64, unit: i64) -> Read<()> {
        if part == 0.0 {
            return Ok(());
        }
        let scaled = part * unit as f64;
        let mut micros = scaled as i64;
        let rest = scaled - micros as f64;
        if rest > 0.5 {
            micros += 1;
        } else if rest < -0.5 {
            micros -= 1;
        }
        self.add_micros(micros)
    }

    /// Adds units of `scale` days.
    pub fn add_days(&mut self, whole: i64, scale: i32) -> Read<()> {
        let days = small(whole)?.checked_mul(scale);
        let sum = days.and_then(|days| self.days.checked_add(days));
        self.days = sum.ok_or(Refusal::FieldOverflow)?;
        Ok(())
    }

    /// Adds a part of a unit of `scale` days.
    pub fn add_part_of_days(&mut self, part: f64, scale: i32) -> Read<()> {
        if part == 0.0 {
            return Ok(());
        }
        let scaled = part * f64::from(scale);
        let days = scaled as i32;
        let sum = self.days.checked_add(days);
        self.days = sum.ok_or(Refusal::FieldOverflow)?;
        self.add_part(scaled - f64::from(days), MICROS_PER_DAY)
    }

    /// Adds months.
    pub fn add_months(&mut self, whole: i64) -> Read<()> {
        let sum = self.months.checked_add(small(whole)?);
        self.months = sum.ok_or(Refusal::FieldOverflow)?;
        Ok(())
    }

    /// Adds units of `scale` years and a part of one, which becomes months.
    pub fn add_years(&mut self, whole: i64, part: f64, scale: i32) -> Read<()> {
        let years = small(whole)?.checked_mul(scale);
        let sum = years.and_then(|years| self.years.checked_add(years));
        self.years = sum.ok_or(Refusal::FieldOverflow)?;
        let months = (part * f64::from(scale) * 12.0).round_ties_even() as i32;
        let sum = self.months.checked_add(months);
        self.months = sum.ok_or(Refusal::FieldOverflow)?;
        Ok(())
    }

    /// All parts with the other sign.
    pub fn negated(self) -> Option<Parts> {
        Some(Parts {
            years: self.years.checked_neg()?,
            months: self.months.checked_neg()?,
            days: self.days.checked_neg()?,
            micros: self.micros.checked_neg()?,
        })
    }

    /// The interval, if it is within the format.
    pub fn interval(self) -> Option<Interval> {
        let months = i64::from(self.years) * 12 + i64::from(self.months);
        Some(Interval {
            months: i32::try_from(months).ok()?,
            days: self.days,
            micros: self.micros,
        })
    }
}

/// A count of days, months or years.
pub fn small(value: i64) -> Read<i32> {
    i32::try_from(value).map_err(|_| Refusal::FieldOverflow)
}
