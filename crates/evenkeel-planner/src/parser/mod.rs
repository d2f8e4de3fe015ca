//! SQL text to [`ast`](crate::ast), by PostgreSQL's grammar and with its errors. See the README.

mod alter;
mod bounds;
mod calls;
mod change;
mod clauses;
mod command;
mod comment;
mod constraint;
mod cursor;
mod database;
mod define;
mod domain;
mod expr;
mod from;
mod json;
mod keywords;
mod lexer;
mod maintain;
mod merge;
mod numbers;
mod primary;
mod query;
mod schema;
mod sequence;
mod session;
mod settings;
mod special;
mod statement;
mod strings;
mod table;
mod token;

mod type_ddl;
mod types;
mod view;
mod with;
mod xml;

pub use bounds::{Shape, too_deep};
pub use statement::{
    Measured, Parsed, measure, parse, parse_expr, parse_name, parse_one, parse_type, token_end,
};
