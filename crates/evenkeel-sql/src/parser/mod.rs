//! Texts before and behind the grammar, which is `evenkeel-planner`'s: where statements end, and
//! the options of commands.

pub mod copy_options;
pub mod lexer;
pub mod names;
pub mod options;
pub mod parse;
