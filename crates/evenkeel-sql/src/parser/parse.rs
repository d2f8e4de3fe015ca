//! The grammar of `evenkeel-planner`, with errors as a client gets them.

use evenkeel_planner::ast::{Command, Statement, TransactionCommand, TypeName};
use evenkeel_planner::bind;
use evenkeel_planner::catalog::{Catalog, TypesOnly};
use evenkeel_planner::parser::{self, Measured};

use crate::error::{SqlResult, planner_error};
use crate::types::SqlType;

/// The statement of a text; `None` if there is none in it.
///
/// # Errors
/// PostgreSQL's of syntax, with positions; 54001 beyond the bounds.
pub fn parse(text: &str) -> SqlResult<Option<Statement>> {
    parse_measured(measure(text)?)
}

/// Cuts a text into tokens and measures them, once for all that reads it.
///
/// # Errors
/// 54001 beyond the bounds, 22003.
pub fn measure<T: AsRef<str>>(text: T) -> SqlResult<Measured<T>> {
    parser::measure(text).map_err(|error| planner_error(error, ""))
}

/// As [`parse`], of a text that has been measured.
///
/// # Errors
/// PostgreSQL's of syntax, with positions.
pub fn parse_measured<T: AsRef<str> + Clone>(
    measured: Measured<T>,
) -> SqlResult<Option<Statement>> {
    let text = measured.text().clone();
    let parsed = measured.parse_one();
    let parsed = parsed.map_err(|error| planner_error(error, text.as_ref()))?;
    Ok(parsed.map(|parsed| parsed.statement))
}

/// Whether a statement may run in a failed transaction block.
pub fn ends_failure(statement: &Statement) -> bool {
    let Statement::Command(command) = statement else {
        return false;
    };
    matches!(
        &**command,
        Command::Transaction(
            TransactionCommand::Commit { .. }
                | TransactionCommand::Rollback { .. }
                | TransactionCommand::RollbackTo(_)
        )
    )
}

/// The type that a name in `text` means.
///
/// # Errors
/// 42704 for a name that is none; those of its modifiers.
pub fn type_of(ty: &TypeName, text: &str, names: &dyn Catalog) -> SqlResult<SqlType> {
    bind::type_of(ty, names).map_err(|error| planner_error(error, text))
}

/// The built-in type that a text names.
///
/// # Errors
/// Those of [`type_of`] and of the grammar.
pub fn type_named(text: &str) -> SqlResult<SqlType> {
    type_among(text, &TypesOnly(|_: Option<&str>, _: &str| None))
}

/// The type that a text names, built-in or of these names.
///
/// # Errors
/// As [`type_named`].
pub fn type_among(text: &str, names: &dyn Catalog) -> SqlResult<SqlType> {
    let ty = parser::parse_type(text).map_err(|error| planner_error(error, text))?;
    type_of(&ty, text, names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::SqlState;

    #[test]
    fn nested_definitions_are_parsed_in_linear_time() {
        for (open, inner, close) in [
            ("abs(", "1", ")"),
            ("coalesce(a, ", "b", ")"),
            ("exists(select ", "1", ")"),
            ("case when a then ", "b", " end"),
            ("position('a' in ", "b", ")"),
        ] {
            let create = |value: &str| format!("create table t (a int default {value})");
            let nested = format!("{}{inner}{}", open.repeat(14), close.repeat(14));
            let parsed = parse(&create(&nested));
            assert!(parsed.is_ok(), "{open}: {parsed:?}");
            let broken = parse(&create(&open.repeat(60))).unwrap_err();
            let codes = [SqlState::SYNTAX_ERROR, SqlState::STATEMENT_TOO_COMPLEX];
            assert!(codes.contains(&broken.sqlstate), "{open}: {broken}");
        }
    }

    #[test]
    fn positions_count_characters() {
        let error = parse("drop table \u{e4}\n  casscade b where").unwrap_err();
        assert_eq!(&*error.message, "syntax error at or near \"casscade\"");
        assert_eq!(error.fields.position, Some(16));
    }
}
