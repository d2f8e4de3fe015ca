//! Functions of arrays.

mod build;
mod search;
mod shape;
mod strings;

use evenkeel_types::{SqlState, TypeError};

pub use build::{
    append, concatenate, fill, prepend, remove, replace, reverse, sample, shuffle, sort, trim,
};
pub use search::{contained, contains, overlap, position, positions, width_bucket};
pub use shape::{cardinality, dims, length, lower, ndims, upper};
pub(crate) use strings::{Parts, divisible};
pub use strings::{from_text, to_text};

fn null_not_allowed(message: &str) -> TypeError {
    TypeError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message)
}

fn subscript_error(message: impl Into<String>) -> TypeError {
    TypeError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
}
