//! Intervals: months, days and microseconds, which do not convert into one another.

mod arith;
mod input;
mod iso;
mod modifier;
mod output;
mod parts;

pub use output::IntervalStyle;

use crate::calendar::MICROS_PER_DAY;
use crate::error::{SqlState, TypeError};

/// An interval in PostgreSQL's three parts. The greatest and least value of all three parts
/// together are the infinities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Interval {
    /// Months, years included.
    pub months: i32,
    /// Days.
    pub days: i32,
    /// Microseconds.
    pub micros: i64,
}

impl Interval {
    /// No time.
    pub const ZERO: Interval = Interval {
        months: 0,
        days: 0,
        micros: 0,
    };
    /// `infinity`
    pub const INFINITY: Interval = Interval {
        months: i32::MAX,
        days: i32::MAX,
        micros: i64::MAX,
    };
    /// `-infinity`
    pub const NEGATIVE_INFINITY: Interval = Interval {
        months: i32::MIN,
        days: i32::MIN,
        micros: i64::MIN,
    };

    /// Whether the interval is neither infinity.
    pub fn is_finite(self) -> bool {
        self != Interval::INFINITY && self != Interval::NEGATIVE_INFINITY
    }

    /// Length in microseconds with PostgreSQL's months of 30 days, by which intervals compare.
    pub fn comparison_micros(&self) -> i128 {
        let days = i128::from(self.months) * 30 + i128::from(self.days);
        days * i128::from(MICROS_PER_DAY) + i128::from(self.micros)
    }
}

/// 22008 for a result beyond the format.
fn out_of_range() -> TypeError {
    TypeError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range")
}
