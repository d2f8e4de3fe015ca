//! `sum` and `avg` of intervals.

use evenkeel_types::{Datum, Interval, SqlState, TypeError, TypeResult};

use super::{no_value, no_value_removed};
use crate::call::Session;
use crate::proc::Accumulator;

/// The sum of the finite intervals, and counts of the others.
#[derive(Debug)]
pub(super) struct IntervalSum {
    sum: Interval,
    count: i64,
    infinities: i64,
    negative_infinities: i64,
    average: bool,
}

impl IntervalSum {
    pub(super) fn new(average: bool) -> IntervalSum {
        IntervalSum {
            sum: Interval::ZERO,
            count: 0,
            infinities: 0,
            negative_infinities: 0,
            average,
        }
    }

    fn count(&mut self, interval: Interval, by: i64) {
        match interval {
            Interval::INFINITY => self.infinities += by,
            Interval::NEGATIVE_INFINITY => self.negative_infinities += by,
            _ => self.count += by,
        }
    }
}

impl Accumulator for IntervalSum {
    fn add(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<()> {
        let [Datum::Interval(interval)] = args else {
            return no_value(args);
        };
        self.count(*interval, 1);
        if interval.is_finite() {
            self.sum = self.sum.checked_add(*interval)?;
        }
        Ok(())
    }

    fn remove(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<bool> {
        let [Datum::Interval(interval)] = args else {
            return no_value_removed(args);
        };
        self.count(*interval, -1);
        if interval.is_finite() {
            self.sum = match self.count {
                0 => Interval::ZERO,
                _ => self.sum.checked_sub(*interval)?,
            };
        }
        Ok(true)
    }

    fn value(&self, _session: &dyn Session) -> TypeResult<Datum> {
        let sum = match (self.infinities, self.negative_infinities, self.count) {
            (0, 0, 0) => return Ok(Datum::Null),
            (0, 0, _) if self.average => self.sum.checked_div(self.count as f64)?,
            (0, 0, _) => self.sum,
            (_, 0, _) => Interval::INFINITY,
            (0, _, _) => Interval::NEGATIVE_INFINITY,
            _ => {
                return Err(TypeError::new(
                    SqlState::DATETIME_FIELD_OVERFLOW,
                    "interval out of range",
                ));
            }
        };
        Ok(Datum::Interval(sum))
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
    }
}
