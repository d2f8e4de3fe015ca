//! SQL text to [`ast`](crate::ast), by PostgreSQL's grammar and with its errors. See the README.

mod bounds;
mod calls;
mod change;
mod clauses;
mod cursor;
mod expr;
mod from;
mod json;
mod keywords;
mod lexer;
mod merge;
mod numbers;
mod primary;
mod query;
mod special;
mod statement;
mod strings;
mod token;
mod types;
mod with;
mod xml;

pub use bounds::{Shape, too_deep};
pub use statement::{Measured, Parsed, measure, parse, parse_one};
