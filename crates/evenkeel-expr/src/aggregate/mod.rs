//! Aggregates: the running states of groups, and their rows of `pg_proc`.
//!
//! A state counts what PostgreSQL's transition function counts, in its order and its arithmetic,
//! so that floats have the same digits. See `Accumulator` for who does what.

mod arrays;
mod counts;
mod extremes;
mod floats;
mod hypothetical;
mod integers;
mod intervals;
mod json;
mod logic;
mod numerics;
mod ordered;
mod regression;
mod rows;
mod strings;

use evenkeel_types::{Datum, TypeError, TypeResult};

use crate::proc::Proc;

pub use rows::WINDOW_FUNCTIONS;

/// All aggregates.
pub static AGGREGATES: [&[Proc]; 5] = [
    &rows::PLAIN,
    &rows::SPREADS,
    &rows::ORDERED,
    &json::OF_JSON,
    &json::OF_JSONB,
];

/// A row whose argument does not count; an argument of another type is a fault of this engine.
#[cold]
fn no_value(args: &[Datum]) -> TypeResult<()> {
    match args.iter().any(Datum::is_null) {
        true => Ok(()),
        false => Err(TypeError::internal(format!(
            "an aggregate was given {} arguments of other types than its own",
            args.len()
        ))),
    }
}

/// As [`no_value`], for a row that is taken out again.
#[cold]
fn no_value_removed(args: &[Datum]) -> TypeResult<bool> {
    no_value(args).map(|()| true)
}
