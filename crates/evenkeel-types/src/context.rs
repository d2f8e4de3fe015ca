//! A session's settings and clock, as far as text forms depend on them.

use crate::interval::IntervalStyle;
use crate::zone::TimeZone;

/// The setting `bytea_output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ByteaOutput {
    /// `\x00ff`
    #[default]
    Hex,
    /// Printable ASCII as it is, other bytes as a backslash and three octal digits.
    Escape,
}

/// The order of the numbers of a date whose year is not plain, of the setting `DateStyle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DateOrder {
    /// Month, day, year.
    #[default]
    Mdy,
    /// Day, month, year.
    Dmy,
    /// Year, month, day.
    Ymd,
}

/// How dates and times are written, of the setting `DateStyle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DateStyle {
    /// `1997-12-17 07:37:16-08`
    #[default]
    Iso,
    /// `12/17/1997 07:37:16 PST`, or day before month.
    Sql,
    /// `17.12.1997 07:37:16 PST`
    German,
    /// `Wed Dec 17 07:37:16 1997 PST`, or day before month.
    Postgres,
}

/// Text forms depend on more than the value: the session's settings and clock.
#[derive(Debug, Clone, PartialEq)]
pub struct TypeContext {
    /// The `TimeZone` setting.
    pub time_zone: TimeZone,
    /// Start of the transaction, microseconds since 1970 UTC: the time of `'now'` and `'today'`.
    pub now_micros: i64,
    /// How dates and times are written.
    pub date_style: DateStyle,
    /// The order of numbers in dates.
    pub date_order: DateOrder,
    /// The `IntervalStyle` setting.
    pub interval_style: IntervalStyle,
    /// The `bytea_output` setting.
    pub bytea_output: ByteaOutput,
    /// The `extra_float_digits` setting: above zero the shortest digits that read back the same,
    /// else so many more than 15 (6 for `real`) significant digits.
    pub extra_float_digits: i32,
}

impl Default for TypeContext {
    fn default() -> TypeContext {
        TypeContext {
            time_zone: TimeZone::default(),
            now_micros: 0,
            date_style: DateStyle::default(),
            date_order: DateOrder::default(),
            interval_style: IntervalStyle::default(),
            bytea_output: ByteaOutput::default(),
            extra_float_digits: 1,
        }
    }
}
