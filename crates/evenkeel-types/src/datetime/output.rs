//! The output functions of dates and times, in the style ISO.

use crate::calendar::{MICROS_PER_DAY, MICROS_PER_SECOND, civil_from_days};
use crate::timetz::TimeTz;
use crate::zone::TimeZone;

fn push_padded(out: &mut String, value: i64, width: usize) {
    let digits = value.to_string();
    for _ in digits.len()..width {
        out.push('0');
    }
    out.push_str(&digits);
}

/// Appends year-month-day and returns whether the day is before Christ.
fn push_day(out: &mut String, days: i64) -> bool {
    let (year, month, day) = civil_from_days(days);
    let before_christ = year <= 0;
    push_padded(out, if before_christ { 1 - year } else { year }, 4);
    out.push('-');
    push_padded(out, month, 2);
    out.push('-');
    push_padded(out, day, 2);
    before_christ
}

/// Appends `HH:MM:SS[.ffffff]` without zeros at the end.
pub fn push_clock(out: &mut String, micros: i64) {
    let (seconds, fraction) = (micros / MICROS_PER_SECOND, micros % MICROS_PER_SECOND);
    push_padded(out, seconds / 3600, 2);
    out.push(':');
    push_padded(out, seconds / 60 % 60, 2);
    out.push(':');
    push_padded(out, seconds % 60, 2);
    if fraction != 0 {
        out.push('.');
        push_padded(out, fraction, 6);
        out.truncate(out.trim_end_matches('0').len());
    }
}

/// Output function of `timetz`.
pub fn push_timetz(out: &mut String, time: TimeTz) {
    push_clock(out, time.micros);
    push_offset(out, time.west.saturating_neg());
}

/// Output function of `date`.
pub fn push_date(out: &mut String, days: i32) {
    match days {
        i32::MAX => out.push_str("infinity"),
        i32::MIN => out.push_str("-infinity"),
        _ => {
            if push_day(out, i64::from(days)) {
                out.push_str(" BC");
            }
        }
    }
}

/// Output function of `timestamp`, and of `timestamptz` when a zone is given.
pub fn push_timestamp(out: &mut String, micros: i64, zone: Option<&TimeZone>) {
    match micros {
        i64::MAX => return out.push_str("infinity"),
        i64::MIN => return out.push_str("-infinity"),
        _ => {}
    }
    let offset = zone.map(|zone| zone.offset_at(micros));
    let local = micros.saturating_add(i64::from(offset.unwrap_or(0)) * MICROS_PER_SECOND);
    let before_christ = push_day(out, local.div_euclid(MICROS_PER_DAY));
    out.push(' ');
    push_clock(out, local.rem_euclid(MICROS_PER_DAY));
    if let Some(offset) = offset {
        push_offset(out, offset);
    }
    if before_christ {
        out.push_str(" BC");
    }
}

fn push_offset(out: &mut String, offset: i32) {
    out.push(if offset < 0 { '-' } else { '+' });
    let seconds = i64::from(offset.abs());
    push_padded(out, seconds / 3600, 2);
    if seconds % 3600 != 0 {
        out.push(':');
        push_padded(out, seconds / 60 % 60, 2);
    }
    if seconds % 60 != 0 {
        out.push(':');
        push_padded(out, seconds % 60, 2);
    }
}
