//! From text to something that can run: parsing, names and types, the choice of executor, and
//! the cache of what was compiled.

pub mod access;
pub mod binder;
pub mod cache;
pub mod change;
pub mod compile;
pub mod conflict;
pub mod cursor;
pub mod dml;
pub mod lexer;
pub mod literals;
pub mod names;
pub mod parse;
pub mod query;
pub mod select;
pub mod series;
pub mod sets;
pub mod source;
pub mod unique;
pub mod unnest;
pub mod utility;
pub mod value;
