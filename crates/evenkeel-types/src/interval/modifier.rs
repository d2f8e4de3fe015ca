//! The modifier of the type `interval`: its fields, and digits of a second.

use super::{Interval, out_of_range};
use crate::error::TypeResult;
use crate::identity::IntervalMod;

const MINUTE: i64 = 60_000_000;
const HOUR: i64 = 60 * MINUTE;

impl Interval {
    /// The interval without what the modifier leaves out, its seconds rounded.
    ///
    /// # Errors
    /// 22008 where rounding leaves the format.
    pub fn apply_modifier(mut self, modifier: Option<IntervalMod>) -> TypeResult<Interval> {
        use IntervalMod as M;
        let Some(modifier) = modifier else {
            return Ok(self);
        };
        if !self.is_finite() {
            return Ok(self);
        }
        match modifier.fields {
            M::YEAR => self = Interval::of_months(self.months / 12 * 12),
            M::MONTH | M::YEAR_TO_MONTH => self = Interval::of_months(self.months),
            M::DAY => self.micros = 0,
            M::HOUR | M::DAY_TO_HOUR => self.micros -= self.micros % HOUR,
            M::MINUTE | M::DAY_TO_MINUTE | M::HOUR_TO_MINUTE => self.micros -= self.micros % MINUTE,
            _ => {}
        }
        if let Some(digits) = modifier.precision.filter(|digits| *digits < 6) {
            let unit = 10_i64.pow(6 - u32::from(digits));
            let half = if self.micros < 0 {
                -(unit / 2)
            } else {
                unit / 2
            };
            let moved = self.micros.checked_add(half).ok_or_else(out_of_range)?;
            self.micros = moved - moved % unit;
        }
        Ok(self)
    }

    fn of_months(months: i32) -> Interval {
        Interval {
            months,
            ..Interval::ZERO
        }
    }
}
