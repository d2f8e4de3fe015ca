//! Arithmetic of intervals, with PostgreSQL's rules of rounding and overflow.

use std::cmp::Ordering;

use super::{Interval, out_of_range};
use crate::calendar::MICROS_PER_DAY;
use crate::error::{SqlState, TypeError, TypeResult};

const DAYS_PER_MONTH: i32 = 30;
const SECONDS_PER_DAY: f64 = 86_400.0;

impl Interval {
    /// Below, at or above zero.
    pub fn signum(self) -> Ordering {
        self.comparison_micros().cmp(&0)
    }

    /// The interval with the other sign. Errors: 22008.
    pub fn checked_neg(self) -> TypeResult<Interval> {
        match self {
            Interval::INFINITY => return Ok(Interval::NEGATIVE_INFINITY),
            Interval::NEGATIVE_INFINITY => return Ok(Interval::INFINITY),
            _ => {}
        }
        let negated = || {
            Some(Interval {
                months: self.months.checked_neg()?,
                days: self.days.checked_neg()?,
                micros: self.micros.checked_neg()?,
            })
        };
        finite(negated())
    }

    /// `+`. Errors: 22008 beyond the format, and for infinities of both signs.
    pub fn checked_add(self, other: Interval) -> TypeResult<Interval> {
        match (self.is_finite(), other.is_finite()) {
            (false, false) if self != other => return Err(out_of_range()),
            (false, _) => return Ok(self),
            (true, false) => return Ok(other),
            (true, true) => {}
        }
        let sum = || {
            Some(Interval {
                months: self.months.checked_add(other.months)?,
                days: self.days.checked_add(other.days)?,
                micros: self.micros.checked_add(other.micros)?,
            })
        };
        finite(sum())
    }

    /// `-`. Errors: as [`Interval::checked_add`].
    pub fn checked_sub(self, other: Interval) -> TypeResult<Interval> {
        match (self.is_finite(), other.is_finite()) {
            (_, false) => return self.checked_add(other.checked_neg()?),
            (false, _) => return Ok(self),
            (true, true) => {}
        }
        let difference = || {
            Some(Interval {
                months: self.months.checked_sub(other.months)?,
                days: self.days.checked_sub(other.days)?,
                micros: self.micros.checked_sub(other.micros)?,
            })
        };
        finite(difference())
    }

    /// `*`. Parts of months and days go to the smaller units. Errors: 22008.
    pub fn checked_mul(self, factor: f64) -> TypeResult<Interval> {
        if !self.is_finite() {
            return match factor.partial_cmp(&0.0) {
                Some(Ordering::Greater) => Ok(self),
                Some(Ordering::Less) => self.checked_neg(),
                _ => Err(out_of_range()),
            };
        }
        if factor.is_infinite() {
            return match (self.signum(), factor > 0.0) {
                (Ordering::Equal, _) => Err(out_of_range()),
                (Ordering::Greater, true) | (Ordering::Less, false) => Ok(Interval::INFINITY),
                _ => Ok(Interval::NEGATIVE_INFINITY),
            };
        }
        self.scaled(|part| part * factor)
    }

    /// `/`. Errors: 22012, 22008.
    pub fn checked_div(self, divisor: f64) -> TypeResult<Interval> {
        if divisor == 0.0 {
            return Err(TypeError::new(
                SqlState::DIVISION_BY_ZERO,
                "division by zero",
            ));
        }
        if !self.is_finite() {
            return match divisor.partial_cmp(&0.0) {
                Some(Ordering::Greater) if divisor.is_finite() => Ok(self),
                Some(Ordering::Less) if divisor.is_finite() => self.checked_neg(),
                _ => Err(out_of_range()),
            };
        }
        self.scaled(|part| part / divisor)
    }

    fn scaled(self, scale: impl Fn(f64) -> f64) -> TypeResult<Interval> {
        let (scaled_months, scaled_days) =
            (scale(f64::from(self.months)), scale(f64::from(self.days)));
        let months = whole_i32(scaled_months)?;
        let mut days = whole_i32(scaled_days)?;
        let month_days = to_micros((scaled_months - f64::from(months)) * f64::from(DAYS_PER_MONTH));
        let mut seconds =
            (scaled_days - f64::from(days) + month_days - month_days.trunc()) * SECONDS_PER_DAY;
        seconds = to_micros(seconds);
        if seconds.abs() >= SECONDS_PER_DAY {
            let carried = (seconds / SECONDS_PER_DAY).trunc();
            days = days.checked_add(carried as i32).ok_or_else(out_of_range)?;
            seconds -= carried * SECONDS_PER_DAY;
        }
        days = days
            .checked_add(month_days.trunc() as i32)
            .ok_or_else(out_of_range)?;
        let micros = (scale(self.micros as f64) + seconds * 1e6).round_ties_even();
        // 2^63 itself is representable and out of range.
        if !(-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&micros) {
            return Err(out_of_range());
        }
        finite(Some(Interval {
            months,
            days,
            micros: micros as i64,
        }))
    }

    /// `justify_hours`: 24 hours become days, of one sign. Errors: 22008.
    pub fn justify_hours(self) -> TypeResult<Interval> {
        if !self.is_finite() {
            return Ok(self);
        }
        let mut out = self.hours_to_days()?;
        out.same_sign_of_days_and_time();
        finite(Some(out))
    }

    /// `justify_days`: 30 days become months, of one sign. Errors: 22008.
    pub fn justify_days(self) -> TypeResult<Interval> {
        if !self.is_finite() {
            return Ok(self);
        }
        let mut out = self.days_to_months()?;
        if out.months > 0 && out.days < 0 {
            out.days += DAYS_PER_MONTH;
            out.months -= 1;
        } else if out.months < 0 && out.days > 0 {
            out.days -= DAYS_PER_MONTH;
            out.months += 1;
        }
        finite(Some(out))
    }

    /// `justify_interval`: hours become days and days months, all of one sign. Errors: 22008.
    pub fn justify_interval(self) -> TypeResult<Interval> {
        if !self.is_finite() {
            return Ok(self);
        }
        let mut out = self;
        // Days of the time's sign become months first, so that the sum of days cannot overflow.
        if (out.days > 0 && out.micros > 0) || (out.days < 0 && out.micros < 0) {
            out = out.days_to_months()?;
        }
        out = out.hours_to_days()?.days_to_months()?;
        let rest = i64::from(out.days) * MICROS_PER_DAY + out.micros % MICROS_PER_DAY;
        if out.months > 0 && (out.days < 0 || (out.days == 0 && rest < 0)) {
            out.days += DAYS_PER_MONTH;
            out.months -= 1;
        } else if out.months < 0 && (out.days > 0 || (out.days == 0 && rest > 0)) {
            out.days -= DAYS_PER_MONTH;
            out.months += 1;
        }
        out.same_sign_of_days_and_time();
        finite(Some(out))
    }

    fn hours_to_days(self) -> TypeResult<Interval> {
        let carried = (self.micros / MICROS_PER_DAY) as i32;
        Ok(Interval {
            days: self.days.checked_add(carried).ok_or_else(out_of_range)?,
            micros: self.micros % MICROS_PER_DAY,
            ..self
        })
    }

    fn days_to_months(self) -> TypeResult<Interval> {
        let carried = self.days / DAYS_PER_MONTH;
        Ok(Interval {
            months: self.months.checked_add(carried).ok_or_else(out_of_range)?,
            days: self.days % DAYS_PER_MONTH,
            ..self
        })
    }

    fn same_sign_of_days_and_time(&mut self) {
        if self.days > 0 && self.micros < 0 {
            self.micros += MICROS_PER_DAY;
            self.days -= 1;
        } else if self.days < 0 && self.micros > 0 {
            self.micros -= MICROS_PER_DAY;
            self.days += 1;
        }
    }
}

/// A result that is within the format and is no infinity.
fn finite(result: Option<Interval>) -> TypeResult<Interval> {
    result.filter(|i| i.is_finite()).ok_or_else(out_of_range)
}

fn whole_i32(value: f64) -> TypeResult<i32> {
    if value.is_nan() || !(-2_147_483_648.0..2_147_483_648.0).contains(&value) {
        return Err(out_of_range());
    }
    Ok(value as i32)
}

/// Rounds seconds to microseconds.
fn to_micros(seconds: f64) -> f64 {
    (seconds * 1e6).round_ties_even() / 1e6
}
