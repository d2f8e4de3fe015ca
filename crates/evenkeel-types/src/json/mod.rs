//! `json` and `jsonb`: the parser with PostgreSQL's errors, the form of `jsonb`, output and order.
//!
//! A value may be nested thousands of levels deep, so that nothing here recurses.

mod builder;
mod lexer;
mod order;
mod output;
mod parser;
#[cfg(test)]
mod tests;
mod value;

pub use builder::JsonbBuilder;
pub use lexer::{JsonText, JsonToken};
pub use order::encode_key;
pub use output::{escape_json, pretty, write_jsonb};
pub use parser::{JsonEvent, JsonParser, JsonSpan, MAX_JSON_DEPTH, check_json, parse_jsonb};
pub use value::{Jsonb, JsonbArray, JsonbItem, JsonbKind, JsonbObject, JsonbRef};
