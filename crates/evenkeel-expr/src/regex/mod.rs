//! Regular expressions: PostgreSQL's syntax, its longest match, and its functions.

mod functions;
mod matcher;
mod similar;
mod syntax;
mod walk;

pub use functions::{
    count, instr, is_like, like_flags, matched, not_tilde, not_tilde_insensitive, replace,
    replace_from, split_to_array, substr, substring, tilde, tilde_insensitive,
};
pub use matcher::{Matcher, next_character};
pub use similar::{similar_pattern, similar_substring};
pub use syntax::Options;
