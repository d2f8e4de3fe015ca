//! Set-returning functions: each makes its rows as they are asked for, so that a set of any length
//! takes the memory of its arguments.

mod arrays;
mod json;
mod json_records;
mod moments;
mod patterns;
mod rows;
mod series;
mod strings;
mod system;

use evenkeel_types::Datum;

pub use json::JSON_SETS;
pub use json_records::RECORDS;
pub use rows::SETS;
pub use system::SYSTEM_SETS;

/// Puts the value of the only column into a row.
#[inline]
fn put(row: &mut Vec<Datum>, value: Datum) {
    if let [column] = row.as_mut_slice() {
        *column = value;
    } else {
        row.clear();
        row.push(value);
    }
}
