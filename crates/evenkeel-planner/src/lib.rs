//! From SQL text to plans, with PostgreSQL's meaning. See the README.

#![forbid(unsafe_code)]

pub mod ast;
pub mod bind;
pub mod bound;
pub mod catalog;
mod error;
pub mod explain;
mod flat;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod parser;
pub mod plan;
pub mod planning;
pub mod quote;
pub mod relation;

pub use error::{PlanError, PlanResult};
