//! The proleptic Gregorian calendar.

/// Microseconds of a second.
pub const MICROS_PER_SECOND: i64 = 1_000_000;
/// Microseconds of a day.
pub const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;
/// 2000-01-01, from which PostgreSQL's binary forms count, in days since 1970-01-01.
pub const POSTGRES_EPOCH_DAYS: i32 = 10_957;
/// The same in microseconds.
pub const POSTGRES_EPOCH_MICROS: i64 = POSTGRES_EPOCH_DAYS as i64 * MICROS_PER_DAY;
/// 4714-11-24 BC, the first day of PostgreSQL's calendar.
pub const FIRST_DAY: i64 = -2_440_588;
/// 5874897-12-31, the last day of a `date`.
pub const LAST_DAY: i64 = 2_145_042_905;

/// Days since 1970-01-01 of a day of the proleptic Gregorian calendar; year 0 is 1 BC.
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The inverse: (year, month, day).
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// Days of a month.
pub fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Rounds to `digits` digits of a second, half away from the past.
pub fn round_seconds(micros: i64, digits: Option<u8>) -> i64 {
    let Some(digits) = digits.filter(|d| *d < 6) else {
        return micros;
    };
    if micros == i64::MAX || micros == i64::MIN {
        return micros;
    }
    let unit = 10i64.pow(6 - u32::from(digits));
    micros
        .saturating_add(unit / 2)
        .div_euclid(unit)
        .saturating_mul(unit)
}
