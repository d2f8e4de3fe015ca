//! The output function of `interval`, in the styles of `IntervalStyle`.

use std::fmt::Write as _;

use super::Interval;
use crate::calendar::MICROS_PER_SECOND;

/// The setting `IntervalStyle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IntervalStyle {
    /// `1 year 2 mons 3 days 04:05:06`
    #[default]
    Postgres,
    /// `@ 1 year 2 mons 3 days 4 hours 5 mins 6 secs`
    PostgresVerbose,
    /// `+1-2 +3 +4:05:06`
    SqlStandard,
    /// `P1Y2M3DT4H5M6S`
    Iso8601,
}

impl IntervalStyle {
    /// The style of that name.
    pub fn parse(name: &str) -> Option<IntervalStyle> {
        let styles = [
            ("postgres", IntervalStyle::Postgres),
            ("postgres_verbose", IntervalStyle::PostgresVerbose),
            ("sql_standard", IntervalStyle::SqlStandard),
            ("iso_8601", IntervalStyle::Iso8601),
        ];
        let found = styles.iter().find(|(of, _)| name.eq_ignore_ascii_case(of));
        found.map(|(_, style)| *style)
    }
}

/// The fields of an interval, each with its own sign.
struct Fields {
    years: i64,
    months: i64,
    days: i64,
    hours: i64,
    minutes: i64,
    seconds: i64,
    micros: i64,
}

impl Fields {
    fn of(interval: Interval) -> Fields {
        let seconds = interval.micros / MICROS_PER_SECOND;
        Fields {
            years: i64::from(interval.months / 12),
            months: i64::from(interval.months % 12),
            days: i64::from(interval.days),
            hours: seconds / 3600,
            minutes: seconds / 60 % 60,
            seconds: seconds % 60,
            micros: interval.micros % MICROS_PER_SECOND,
        }
    }

    fn date(&self) -> [i64; 3] {
        [self.years, self.months, self.days]
    }

    fn time(&self) -> [i64; 4] {
        [self.hours, self.minutes, self.seconds, self.micros]
    }

    fn any(&self, test: impl Fn(i64) -> bool + Copy) -> bool {
        self.date().into_iter().chain(self.time()).any(test)
    }

    /// `HH:MM:SS[.ffffff]` of the magnitudes, hours of at least `width` digits.
    fn push_clock(&self, out: &mut String, width: usize) {
        let (hours, minutes) = (self.hours.abs(), self.minutes.abs());
        let _ = write!(out, "{hours:0width$}:{minutes:02}:");
        self.push_seconds(out, 2);
    }

    /// The magnitude of the seconds without zeros at the end of the fraction.
    fn push_seconds(&self, out: &mut String, width: usize) {
        let _ = write!(out, "{:0width$}", self.seconds.abs());
        if self.micros != 0 {
            let _ = write!(out, ".{:06}", self.micros.abs());
            out.truncate(out.trim_end_matches('0').len());
        }
    }
}

impl Interval {
    /// Appends the text form.
    pub fn write(self, style: IntervalStyle, out: &mut String) {
        match self {
            Interval::INFINITY => return out.push_str("infinity"),
            Interval::NEGATIVE_INFINITY => return out.push_str("-infinity"),
            _ => {}
        }
        let fields = Fields::of(self);
        match style {
            IntervalStyle::Postgres => postgres(&fields, out),
            IntervalStyle::PostgresVerbose => verbose(&fields, out),
            IntervalStyle::SqlStandard => sql_standard(&fields, out),
            IntervalStyle::Iso8601 => iso(&fields, out),
        }
    }
}

fn postgres(fields: &Fields, out: &mut String) {
    let start = out.len();
    let mut negative_before = false;
    for (value, unit) in fields.date().into_iter().zip(["year", "mon", "day"]) {
        if value == 0 {
            continue;
        }
        if out.len() > start {
            out.push(' ');
        }
        // After a negative field a positive one shows its sign.
        let sign = if negative_before && value > 0 {
            "+"
        } else {
            ""
        };
        let plural = if value == 1 { "" } else { "s" };
        let _ = write!(out, "{sign}{value} {unit}{plural}");
        negative_before = value < 0;
    }
    if out.len() == start || fields.time().iter().any(|field| *field != 0) {
        if out.len() > start {
            out.push(' ');
        }
        if fields.time().iter().any(|field| *field < 0) {
            out.push('-');
        } else if negative_before {
            out.push('+');
        }
        fields.push_clock(out, 2);
    }
}

fn verbose(fields: &Fields, out: &mut String) {
    out.push('@');
    let mut any = false;
    let mut before = false;
    let units = ["year", "mon", "day", "hour", "min"];
    let values = fields
        .date()
        .into_iter()
        .chain([fields.hours, fields.minutes]);
    for (value, unit) in values.zip(units) {
        push_verbose(out, value, unit, &mut any, &mut before);
    }
    if fields.seconds != 0 || fields.micros != 0 {
        let negative = fields.seconds < 0 || fields.micros < 0;
        out.push(' ');
        // The sign of the first field is that of the whole, said by `ago`.
        if any {
            if negative != before {
                out.push('-');
            }
        } else {
            before = negative;
        }
        fields.push_seconds(out, 1);
        let one = fields.seconds.abs() == 1 && fields.micros == 0;
        out.push_str(if one { " sec" } else { " secs" });
        any = true;
    }
    if !any {
        out.push_str(" 0");
    }
    if before {
        out.push_str(" ago");
    }
}

fn push_verbose(out: &mut String, value: i64, unit: &str, any: &mut bool, before: &mut bool) {
    if value == 0 {
        return;
    }
    if !*any {
        *before = value < 0;
    }
    let shown = if *before { -value } else { value };
    let plural = if shown == 1 { "" } else { "s" };
    let _ = write!(out, " {shown} {unit}{plural}");
    *any = true;
}

fn sql_standard(fields: &Fields, out: &mut String) {
    let negative = fields.any(|field| field < 0);
    let positive = fields.any(|field| field > 0);
    let has_months = fields.years != 0 || fields.months != 0;
    let has_days = fields.days != 0;
    let has_time = fields.time().iter().any(|field| *field != 0);
    let sign = |negative: bool| if negative { '-' } else { '+' };
    if !has_months && !has_days && !has_time {
        out.push('0');
    } else if (negative && positive) || (has_months && (has_days || has_time)) {
        // More than the standard can say: every part has its sign.
        let (years, months) = (fields.years.abs(), fields.months.abs());
        let month_sign = sign(fields.years < 0 || fields.months < 0);
        let _ = write!(out, "{month_sign}{years}-{months} ");
        let _ = write!(out, "{}{} ", sign(fields.days < 0), fields.days.abs());
        out.push(sign(fields.time().iter().any(|field| *field < 0)));
        fields.push_clock(out, 1);
    } else {
        if negative {
            out.push('-');
        }
        if has_months {
            let _ = write!(out, "{}-{}", fields.years.abs(), fields.months.abs());
        } else {
            if has_days {
                let _ = write!(out, "{} ", fields.days.abs());
            }
            fields.push_clock(out, 1);
        }
    }
}

fn iso(fields: &Fields, out: &mut String) {
    if !fields.any(|field| field != 0) {
        return out.push_str("PT0S");
    }
    out.push('P');
    for (value, unit) in fields.date().into_iter().zip(['Y', 'M', 'D']) {
        if value != 0 {
            let _ = write!(out, "{value}{unit}");
        }
    }
    if fields.time().iter().all(|field| *field == 0) {
        return;
    }
    out.push('T');
    for (value, unit) in [(fields.hours, 'H'), (fields.minutes, 'M')] {
        if value != 0 {
            let _ = write!(out, "{value}{unit}");
        }
    }
    if fields.seconds != 0 || fields.micros != 0 {
        if fields.seconds < 0 || fields.micros < 0 {
            out.push('-');
        }
        fields.push_seconds(out, 1);
        out.push('S');
    }
}
