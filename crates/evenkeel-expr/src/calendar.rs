//! The proleptic Gregorian calendar, by Julian day numbers as PostgreSQL counts them.

use evenkeel_types::TimeZone;

use crate::error::{self, ExprResult};

/// Microseconds of a second.
pub const SECOND: i64 = 1_000_000;
/// Microseconds of a minute.
pub const MINUTE: i64 = 60 * SECOND;
/// Microseconds of an hour.
pub const HOUR: i64 = 60 * MINUTE;
/// Microseconds of a day.
pub const DAY: i64 = 24 * HOUR;
/// Julian day of 1970-01-01.
pub const UNIX_EPOCH: i64 = 2_440_588;
/// The first day that dates and timestamps have: 4714-11-24 BC.
const FIRST_DAY: i64 = -UNIX_EPOCH;
/// The day after the last date, 5874897-12-31.
const DATES_END: i64 = 2_147_483_494 - UNIX_EPOCH;

/// `-infinity` and `infinity` of timestamps.
pub const INSTANT_INFINITIES: [i64; 2] = [i64::MIN, i64::MAX];

/// Whether a timestamp is neither infinity.
pub fn is_finite(instant: i64) -> bool {
    !INSTANT_INFINITIES.contains(&instant)
}

/// Days since 1970-01-01 of a date; months and days out of their ranges carry over.
pub fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = match month > 2 {
        true => (year + 4800, month + 1),
        false => (year + 4799, month + 13),
    };
    let century = year.div_euclid(100);
    let julian = year * 365 - 32167 + year.div_euclid(4) - century + century.div_euclid(4);
    julian + 7834 * month / 256 + day - UNIX_EPOCH
}

/// Year (0 is 1 BC), month and day of a day since 1970-01-01.
pub fn date_of(days: i64) -> (i64, i64, i64) {
    let shifted = days + UNIX_EPOCH + 32044;
    let cycle = shifted.div_euclid(146_097);
    let rest = shifted.rem_euclid(146_097);
    let century = (rest * 4 + 3) / 146_097;
    let rest = rest - century * 146_097 / 4;
    let year = (rest * 4 + 3) / 1461;
    let rest = rest - year * 1461 / 4;
    let month = (rest * 5 + 2) / 153;
    let day = rest - (month * 153 + 2) / 5 + 1;
    let full = cycle * 400 + century * 100 + year - 4800 + month / 10;
    (full, month + 3 - 12 * (month / 10), day)
}

/// Whether a year has a 29th of February.
pub fn is_leap(year: i64) -> bool {
    year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0)
}

/// Days of a month.
pub fn month_days(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// A date as PostgreSQL keeps it.
///
/// # Errors
/// 22008 out of range.
pub fn checked_date(days: i64) -> ExprResult<i32> {
    i32::try_from(days)
        .ok()
        .filter(|_| (FIRST_DAY..DATES_END).contains(&days))
        .ok_or_else(|| error::datetime_overflow("date out of range"))
}

/// A timestamp in its range.
///
/// # Errors
/// 22008 out of range.
pub fn checked_instant(micros: Option<i64>) -> ExprResult<i64> {
    micros
        .filter(|micros| is_finite(*micros) && *micros >= FIRST_DAY * DAY)
        .ok_or_else(|| error::datetime_overflow("timestamp out of range"))
}

/// A point in time taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Year; 0 is 1 BC.
    pub year: i64,
    /// Month from 1.
    pub month: i64,
    /// Day of the month from 1.
    pub day: i64,
    /// Microseconds since midnight.
    pub micros: i64,
    /// Seconds east of Greenwich, for a `timestamptz`.
    pub offset: Option<i32>,
}

impl Moment {
    /// Of a local clock reading.
    pub fn of_local(micros: i64) -> Moment {
        let (year, month, day) = date_of(micros.div_euclid(DAY));
        Moment {
            year,
            month,
            day,
            micros: micros.rem_euclid(DAY),
            offset: None,
        }
    }

    /// Of an instant, as the clocks of a zone show it.
    pub fn of_instant(instant: i64, zone: &TimeZone) -> Moment {
        let offset = zone.offset_at(instant);
        let local = instant.saturating_add(i64::from(offset) * SECOND);
        Moment {
            offset: Some(offset),
            ..Moment::of_local(local)
        }
    }

    /// Days since 1970-01-01.
    pub fn days(&self) -> i64 {
        days_of(self.year, self.month, self.day)
    }

    /// The clock reading.
    ///
    /// # Errors
    /// 22008 out of range.
    pub fn to_local(self) -> ExprResult<i64> {
        let midnight = self.days().checked_mul(DAY);
        checked_instant(midnight.and_then(|midnight| midnight.checked_add(self.micros)))
    }

    /// Day of the week, from Sunday as 0.
    pub fn weekday(&self) -> i64 {
        (self.days() + 4).rem_euclid(7)
    }

    /// Day of the year from 1.
    pub fn day_of_year(&self) -> i64 {
        self.days() - days_of(self.year, 1, 1) + 1
    }

    /// Week and year by ISO 8601.
    pub fn iso_week(&self) -> (i64, i64) {
        let days = self.days();
        let mut year = self.year;
        if days >= first_iso_day(year + 1) {
            year += 1;
        } else if days < first_iso_day(year) {
            year -= 1;
        }
        ((days - first_iso_day(year)) / 7 + 1, year)
    }

    /// Day of the ISO year from 1.
    pub fn iso_day_of_year(&self) -> i64 {
        let (_, year) = self.iso_week();
        self.days() - first_iso_day(year) + 1
    }
}

/// The Monday of the week that has the year's 4th of January.
pub fn first_iso_day(year: i64) -> i64 {
    let fourth = days_of(year, 1, 4);
    fourth - (fourth + 3).rem_euclid(7)
}

/// Hours, minutes, seconds and microseconds of a span; all have its sign.
pub fn clock(micros: i64) -> (i64, i64, i64, i64) {
    (
        micros / HOUR,
        micros / MINUTE % 60,
        micros / SECOND % 60,
        micros % SECOND,
    )
}

/// The instant of a local clock reading in a zone.
///
/// # Errors
/// 22008 out of range.
pub fn instant_of(local: i64, zone: &TimeZone) -> ExprResult<i64> {
    let offset = i64::from(zone.offset_of_local(local)) * SECOND;
    checked_instant(local.checked_sub(offset))
}

/// A year as people count: there is no year 0.
pub fn counted(year: i64) -> i64 {
    if year > 0 { year } else { year - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_has_its_date() {
        for days in [
            -2_440_588,
            -719_529,
            -1,
            0,
            59,
            19_782,
            2_932_896,
            2_145_042_905,
        ] {
            let (year, month, day) = date_of(days);
            assert_eq!(days_of(year, month, day), days);
        }
        assert_eq!(date_of(0), (1970, 1, 1));
        assert_eq!(date_of(19_782), (2024, 2, 29));
        assert_eq!(date_of(-2_440_588), (-4713, 11, 24));
        assert_eq!(days_of(2024, 14, 1), days_of(2025, 2, 1));
    }

    #[test]
    fn weeks_are_those_of_iso_8601() {
        let week = |year, month, day| {
            let micros = days_of(year, month, day) * DAY;
            Moment::of_local(micros).iso_week()
        };
        assert_eq!(week(2024, 12, 30), (1, 2025));
        assert_eq!(week(2021, 1, 3), (53, 2020));
        assert_eq!(week(1970, 1, 1), (1, 1970));
    }
}
