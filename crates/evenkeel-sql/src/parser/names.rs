//! Names and words as the library's tokens give them.

use sqlparser::ast::{Ident, ObjectName};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use crate::error::{SqlError, SqlResult, SqlState};

/// The lower-case text of an unquoted word, or the text of a quoted one.
pub fn ident_text(ident: &Ident) -> String {
    match ident.quote_style {
        None => ident.value.to_lowercase(),
        Some(_) => ident.value.clone(),
    }
}

/// Reads a name.
pub(super) fn name(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    parser.parse_identifier().map(|ident| ident_text(&ident))
}

/// Whether an unquoted word comes next.
pub(super) fn is_word(parser: &Parser<'_>, wanted: &str) -> bool {
    matches!(
        &parser.peek_token_ref().token,
        Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted)
    )
}

/// A name's schema, if given, and last part, folded as PostgreSQL folds.
///
/// # Errors
/// 42601 for a name of too many parts.
pub fn split_name(name: &ObjectName) -> SqlResult<(Option<String>, String)> {
    let mut parts = Vec::with_capacity(2);
    for part in &name.0 {
        let ident = part
            .as_ident()
            .ok_or_else(|| SqlError::syntax("not a name"))?;
        parts.push(ident_text(ident));
    }
    let last = parts.pop();
    match (parts.len(), last) {
        (0..=2, Some(last)) => Ok((parts.pop(), last)),
        _ => Err(SqlError::syntax(format!("improper relation name: {name}"))),
    }
}

/// 42P01.
pub fn undefined_table(schema: Option<&str>, table: &str) -> SqlError {
    let name = match schema {
        Some(schema) => format!("{schema}.{table}"),
        None => table.to_owned(),
    };
    SqlError::new(
        SqlState::UNDEFINED_TABLE,
        format!("relation \"{name}\" does not exist"),
    )
}
