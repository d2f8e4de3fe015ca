//! Time zones, and what a session's settings mean for text forms.

use std::fmt;

use chrono::{DateTime, MappedLocalTime, Offset, TimeZone as _};
use datafusion::arrow::array::timezone::Tz;

use super::datetime::{MICROS_PER_SECOND, clamp_to_calendar};
use crate::error::{SqlError, SqlResult, SqlState};

/// A time zone by its IANA name or as a fixed offset.
#[derive(Clone)]
pub struct TimeZone {
    name: String,
    /// `None` is UTC, which needs no look-up.
    zone: Option<Tz>,
}

impl Default for TimeZone {
    fn default() -> TimeZone {
        TimeZone {
            name: "UTC".to_owned(),
            zone: None,
        }
    }
}

impl fmt::Debug for TimeZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TimeZone({})", self.name)
    }
}

impl PartialEq for TimeZone {
    fn eq(&self, other: &TimeZone) -> bool {
        self.name == other.name
    }
}

impl TimeZone {
    /// The zone called `name` (`Europe/Berlin`, `UTC`, `+02:00`); 22023 if there is none.
    pub fn parse(name: &str) -> SqlResult<TimeZone> {
        let trimmed = name.trim();
        if ["utc", "gmt", "zulu", "z", "default", "etc/utc"]
            .iter()
            .any(|utc| trimmed.eq_ignore_ascii_case(utc))
        {
            let kept = if trimmed.eq_ignore_ascii_case("default") {
                "UTC"
            } else {
                trimmed
            };
            return Ok(TimeZone {
                name: kept.to_owned(),
                zone: None,
            });
        }
        match trimmed.parse::<Tz>() {
            Ok(zone) => Ok(TimeZone {
                name: trimmed.to_owned(),
                zone: Some(zone),
            }),
            Err(_) => Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("invalid value for parameter \"TimeZone\": \"{name}\""),
            )),
        }
    }

    /// The name it was asked for by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Seconds east of UTC at an instant (microseconds since 1970 UTC).
    pub fn offset_at(&self, micros: i64) -> i32 {
        let Some(zone) = &self.zone else { return 0 };
        let seconds = clamp_to_calendar(micros).div_euclid(MICROS_PER_SECOND);
        DateTime::from_timestamp(seconds, 0).map_or(0, |t| {
            zone.offset_from_utc_datetime(&t.naive_utc())
                .fix()
                .local_minus_utc()
        })
    }

    /// Seconds east of UTC at a local clock reading. A reading that occurs twice means the
    /// later (standard) one, one that is skipped is read with the offset before the gap, as
    /// PostgreSQL does.
    pub fn offset_of_local(&self, local_micros: i64) -> i32 {
        let Some(zone) = &self.zone else { return 0 };
        let seconds = clamp_to_calendar(local_micros).div_euclid(MICROS_PER_SECOND);
        let Some(local) = DateTime::from_timestamp(seconds, 0).map(|t| t.naive_utc()) else {
            return 0;
        };
        match zone.offset_from_local_datetime(&local) {
            MappedLocalTime::Single(offset) => offset.fix().local_minus_utc(),
            MappedLocalTime::Ambiguous(a, b) => {
                a.fix().local_minus_utc().min(b.fix().local_minus_utc())
            }
            MappedLocalTime::None => self.offset_at(local_micros - super::MICROS_PER_DAY),
        }
    }
}

/// What text forms depend on besides the value: the session's settings and clock.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TypeContext {
    /// The `TimeZone` setting.
    pub time_zone: TimeZone,
    /// Start of the transaction, microseconds since 1970 UTC; what `'now'` and `'today'` mean.
    pub now_micros: i64,
}
