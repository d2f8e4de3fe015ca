//! From the text of a command to its meaning: PostgreSQL's dialect of definitions, and the other
//! commands.

pub mod cursor;
pub mod dialect;
pub mod lexer;
pub mod names;
pub mod parse;
mod type_names;
pub mod utility;

pub use type_names::type_from_ast;
