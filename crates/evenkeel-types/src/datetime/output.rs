//! The output functions of dates and times.

use crate::calendar::{MICROS_PER_DAY, MICROS_PER_SECOND, civil_from_days};
use crate::context::{DateOrder, DateStyle, TypeContext};
use crate::timetz::TimeTz;
use crate::zone::TimeZone;

fn push_padded(out: &mut String, value: i64, width: usize) {
    let digits = value.to_string();
    for _ in digits.len()..width {
        out.push('0');
    }
    out.push_str(&digits);
}

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// A day's numbers, the year counted from Christ's birth in its direction.
struct Day {
    year: i64,
    month: i64,
    day: i64,
    before_christ: bool,
}

impl Day {
    fn of(days: i64) -> Day {
        let (year, month, day) = civil_from_days(days);
        let before_christ = year <= 0;
        Day {
            year: if before_christ { 1 - year } else { year },
            month,
            day,
            before_christ,
        }
    }

    fn push(&self, out: &mut String, cx: &TypeContext) {
        let day_first = cx.date_order == DateOrder::Dmy || cx.date_style == DateStyle::German;
        let between = match cx.date_style {
            DateStyle::Iso | DateStyle::Postgres => '-',
            DateStyle::Sql => '/',
            DateStyle::German => '.',
        };
        let fields = match (cx.date_style, day_first) {
            (DateStyle::Iso, _) => [(self.year, 4), (self.month, 2), (self.day, 2)],
            (_, true) => [(self.day, 2), (self.month, 2), (self.year, 4)],
            (_, false) => [(self.month, 2), (self.day, 2), (self.year, 4)],
        };
        for (at, (number, width)) in fields.into_iter().enumerate() {
            if at > 0 {
                out.push(between);
            }
            push_padded(out, number, width);
        }
    }

    fn push_month_and_day(&self, out: &mut String, order: DateOrder) {
        let at = usize::try_from(self.month - 1).unwrap_or(0);
        let month = MONTHS.get(at).copied().unwrap_or_default();
        if order != DateOrder::Dmy {
            out.push_str(month);
            out.push(' ');
        }
        push_padded(out, self.day, 2);
        if order == DateOrder::Dmy {
            out.push(' ');
            out.push_str(month);
        }
    }
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
pub fn push_date(out: &mut String, days: i32, cx: &TypeContext) {
    match days {
        i32::MAX => out.push_str("infinity"),
        i32::MIN => out.push_str("-infinity"),
        _ => {
            let day = Day::of(i64::from(days));
            day.push(out, cx);
            if day.before_christ {
                out.push_str(" BC");
            }
        }
    }
}

/// Output function of `timestamp`, and of `timestamptz` when a zone is given.
pub fn push_timestamp(out: &mut String, micros: i64, zone: Option<&TimeZone>, cx: &TypeContext) {
    match micros {
        i64::MAX => return out.push_str("infinity"),
        i64::MIN => return out.push_str("-infinity"),
        _ => {}
    }
    let offset = zone.map(|zone| zone.offset_at(micros));
    let local = micros.saturating_add(i64::from(offset.unwrap_or(0)) * MICROS_PER_SECOND);
    let days = local.div_euclid(MICROS_PER_DAY);
    let day = Day::of(days);
    let words = cx.date_style == DateStyle::Postgres;
    if words {
        let weekday = usize::try_from(days.rem_euclid(7)).unwrap_or(0);
        out.push_str(DAYS.get(weekday).copied().unwrap_or_default());
        out.push(' ');
        day.push_month_and_day(out, cx.date_order);
    } else {
        day.push(out, cx);
    }
    out.push(' ');
    push_clock(out, local.rem_euclid(MICROS_PER_DAY));
    if words {
        out.push(' ');
        push_padded(out, day.year, 4);
    }
    if let Some((zone, offset)) = zone.zip(offset) {
        let name = match cx.date_style {
            DateStyle::Iso => None,
            _ => zone.abbreviation_at(micros),
        };
        match name {
            Some(name) => {
                out.push(' ');
                out.push_str(&name);
            }
            None => {
                if words {
                    out.push(' ');
                }
                push_offset(out, offset);
            }
        }
    }
    if day.before_christ {
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
