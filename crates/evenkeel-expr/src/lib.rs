//! PostgreSQL's functions, operators and casts on single values, and the table of their
//! signatures. A function is written once, for one row's values; it never knows a table. See the
//! README.

#![forbid(unsafe_code)]

pub mod aggregate;
mod arrays;
mod calendar;
pub mod call;
mod casts;
mod clock;
mod compare;
mod datetime;
mod decimals;
mod degrees;
mod digests;
mod encodings;
mod enums;
mod error;
pub mod eval;
mod fields;
mod floats;
mod format;
mod gather;
mod generator;
mod identifiers;
mod integers;
mod interval;
mod json;
mod like;
mod math;
mod memory;
mod pace;
pub mod proc;
mod procs;
pub mod program;
mod random;
mod regex;
mod session;
pub mod set_returning;
pub mod sql_json;
mod strings;
mod system;
mod timetz;
mod type_category;
mod uuids;

pub use casts::{CASTS, as_names, find_cast, of_names};
pub use error::ExprResult;
pub use generator::RandomState;
pub use memory::{LARGE, large_bytes, nested_bytes};
pub use procs::{
    OPERATORS, argument_names, is_unbuilt, operator_by_oid, operators_named, proc_by_oid,
    procs_listed, procs_named,
};
pub use type_category::{category, is_preferred};
