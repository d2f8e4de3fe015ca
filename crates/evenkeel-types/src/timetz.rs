//! A time of day with its offset from UTC.

use std::cmp::Ordering;

use crate::calendar::{MICROS_PER_DAY, MICROS_PER_SECOND, round_seconds};

/// A `timetz`. Its order is that of the instants on one day, then that of the offsets, so that two
/// are equal only if both parts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimeTz {
    /// Microseconds since midnight by the clock there.
    pub micros: i64,
    /// Seconds west of UTC, as PostgreSQL stores and sends them.
    pub west: i32,
}

impl TimeTz {
    /// The time on a clock that many seconds east of UTC.
    pub fn new(micros: i64, east: i32) -> TimeTz {
        TimeTz {
            micros,
            west: east.saturating_neg(),
        }
    }

    /// Microseconds since midnight in UTC; those of the day before are negative.
    pub fn utc_micros(self) -> i64 {
        self.micros + i64::from(self.west) * MICROS_PER_SECOND
    }

    /// The time with so many digits of a second.
    #[must_use]
    pub fn rounded(self, digits: Option<u8>) -> TimeTz {
        TimeTz {
            micros: round_seconds(self.micros, digits),
            ..self
        }
    }

    /// The same instant by the clock that many seconds west of UTC.
    #[must_use]
    pub fn at(self, west: i32) -> TimeTz {
        let micros = self.utc_micros() - i64::from(west) * MICROS_PER_SECOND;
        TimeTz {
            micros: micros.rem_euclid(MICROS_PER_DAY),
            west,
        }
    }
}

impl Ord for TimeTz {
    fn cmp(&self, other: &TimeTz) -> Ordering {
        let instants = self.utc_micros().cmp(&other.utc_micros());
        instants.then(self.west.cmp(&other.west))
    }
}

impl PartialOrd for TimeTz {
    fn partial_cmp(&self, other: &TimeTz) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
