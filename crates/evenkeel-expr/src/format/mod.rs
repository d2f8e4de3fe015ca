//! `to_char`, `to_date`, `to_timestamp` and `to_number`: PostgreSQL's patterns.

mod number;
mod pattern;
mod print;
mod read;
mod roman;

pub use number::{
    float4_to_char, float8_to_char, int4_to_char, int8_to_char, numeric_to_char, to_number,
};
pub use print::{interval_to_char, timestamp_to_char, timestamptz_to_char};
pub use read::{to_date, to_timestamp};

/// Names of the months.
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// Names of the days of the week, from Sunday.
const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// The ending of an ordinal number that is written like this.
fn ordinal(number: &str) -> &'static str {
    let bytes = number.as_bytes();
    if bytes.len() > 1 && bytes[bytes.len() - 2] == b'1' {
        return "th";
    }
    match bytes.last() {
        Some(b'1') => "st",
        Some(b'2') => "nd",
        Some(b'3') => "rd",
        _ => "th",
    }
}
