//! From the text of a command to its meaning: sqlparser for definitions, our own small grammar for
//! the other commands. Queries and changes are read by `evenkeel-planner`.

use evenkeel_planner::parser::{Shape, measure, too_deep};
use sqlparser::ast::Statement;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, Tokenizer};

use super::dialect::{Postgres, Steps};
use super::utility::{self, TransactionCommand, Utility};
use crate::error::{SqlError, SqlResult, planner_error};
use crate::types::without_zero;

/// The dialect of everything this crate parses.
static DIALECT: Postgres = Postgres;

/// Calls of the parser in one another before it gives up with 54001: some for each level that
/// [`Shape::shallow`] lets through.
const RECURSION_LIMIT: usize = 10_000;

/// One parsed command.
#[derive(Debug)]
pub enum Parsed {
    /// A definition, of sqlparser's grammar.
    Sql(Box<Statement>),
    /// A command of our own grammar.
    Utility(Utility),
}

/// Parses exactly one command (a text without semicolons, from `lexer::split`), whose size is
/// `shape`.
///
/// # Errors
/// 42601; 54001 for a definition that is deeper than an ordinary stack carries.
pub fn parse(text: &str, shape: Shape) -> SqlResult<Parsed> {
    let _steps = Steps::of(shape.tokens);
    let mut parser = parser(text)?;
    if let Some(utility) = utility::parse(&mut parser).map_err(|e| parser_error(&e, text))? {
        end_of_statement(&parser, text)?;
        return Ok(Parsed::Utility(utility));
    }
    // Its parser recurses.
    shallow(shape)?;
    let statement = parser
        .parse_statement()
        .map_err(|e| parser_error(&e, text))?;
    end_of_statement(&parser, text)?;
    Ok(Parsed::Sql(Box::new(statement)))
}

/// Whether a statement may run in a failed transaction block.
pub fn ends_failure(parsed: &Parsed) -> bool {
    matches!(
        parsed,
        Parsed::Utility(Utility::Transaction(
            TransactionCommand::Commit { .. }
                | TransactionCommand::Rollback { .. }
                | TransactionCommand::RollbackTo(_)
        ))
    )
}

/// Reads a part of SQL (a name, a type, an expression) from a text of its own.
///
/// # Errors
/// 42601; 54001 when it is deeper than an ordinary stack carries.
pub fn part<T>(
    text: &str,
    read: impl FnOnce(&mut Parser<'static>) -> Result<T, ParserError>,
) -> SqlResult<T> {
    let measured = measure(text).map_err(|error| planner_error(error, text))?;
    let shape = shallow(measured.shape())?;
    let _steps = Steps::of(shape.tokens);
    read(&mut parser(text)?).map_err(|e| parser_error(&e, text))
}

/// Refuses a text that is deeper than an ordinary stack carries.
fn shallow(shape: Shape) -> SqlResult<Shape> {
    let shallow = shape.shallow().map(|()| shape);
    shallow.map_err(|error| planner_error(error, ""))
}

/// A parser over `text`.
fn parser(text: &str) -> SqlResult<Parser<'static>> {
    let tokens = Tokenizer::new(&DIALECT, text).tokenize_with_location();
    let tokens = tokens.map_err(|e| parser_error(&e.into(), text))?;
    for token in &tokens {
        match &token.token {
            Token::SingleQuotedString(string)
            | Token::EscapedStringLiteral(string)
            | Token::UnicodeStringLiteral(string) => without_zero(string)?,
            _ => continue,
        };
    }
    Ok(Parser::new(&DIALECT)
        .with_recursion_limit(RECURSION_LIMIT)
        .with_tokens_with_locations(tokens))
}

fn end_of_statement(parser: &Parser<'_>, text: &str) -> SqlResult<()> {
    let next = parser.peek_token();
    match next.token {
        Token::EOF | Token::SemiColon => Ok(()),
        token => {
            let at = position(text, next.span.start.line, next.span.start.column);
            Err(near(&token.to_string(), at))
        }
    }
}

fn near(token: &str, position: Option<u32>) -> SqlError {
    let error = SqlError::syntax(format!("syntax error at or near \"{token}\""));
    match position {
        Some(position) => error.at(position),
        None => error,
    }
}

/// The character position of a line and column, all counted from 1.
fn position(text: &str, line: u64, column: u64) -> Option<u32> {
    let before: usize = text
        .split_inclusive('\n')
        .take(usize::try_from(line.checked_sub(1)?).ok()?)
        .map(|line| line.chars().count())
        .sum();
    u32::try_from(before as u64 + column).ok()
}

/// sqlparser says `Expected: X, found: Y at Line: 1, Column: 8`.
pub fn parser_error(error: &ParserError, text: &str) -> SqlError {
    let message = match error {
        ParserError::RecursionLimitExceeded => return planner_error(too_deep(), text),
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
    };
    let (message, at) = match message.rsplit_once(" at Line: ") {
        Some((head, place)) => (head, place_of(place, text)),
        None => (message.as_str(), None),
    };
    if message.starts_with("Unterminated") {
        let error = SqlError::syntax(message.to_ascii_lowercase());
        return match at {
            Some(at) => error.at(at),
            None => error,
        };
    }
    match message.rsplit_once("found: ") {
        Some((_, "EOF")) => {
            let end = u32::try_from(text.chars().count() + 1).unwrap_or(u32::MAX);
            SqlError::syntax("syntax error at end of input").at(end)
        }
        Some((_, found)) => near(found, at),
        None => {
            let error = SqlError::syntax(message);
            at.map(|at| error.clone().at(at)).unwrap_or(error)
        }
    }
}

fn place_of(place: &str, text: &str) -> Option<u32> {
    let (line, column) = place.split_once(", Column: ")?;
    position(text, line.parse().ok()?, column.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::SqlState;

    fn parse(text: &str) -> SqlResult<Parsed> {
        let measured = measure(text).map_err(|error| planner_error(error, text))?;
        super::parse(text, measured.shape())
    }

    fn failure(text: &str) -> (String, Option<u32>) {
        let error = parse(text).unwrap_err();
        (error.message.to_string(), error.fields.position)
    }

    #[test]
    fn a_part_that_another_grammar_reads_is_only_measured() {
        let deep = "(".repeat(100) + "1" + &")".repeat(100);
        for text in [
            format!("explain select {deep}"),
            format!("explain (costs off, format json) select {deep}"),
            format!("explain (select {deep})"),
            format!("execute p({deep}, 'a)b')"),
            format!("copy (select {deep}) to stdout"),
        ] {
            assert!(matches!(parse(&text), Ok(Parsed::Utility(_))), "{text}");
        }
        assert_eq!(failure("execute p((1)").0, "syntax error at end of input");
        assert_eq!(
            failure("explain (costs off)").0,
            "syntax error at end of input"
        );
    }

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
            // Every reading of these fails in the end.
            let broken = parse(&create(&open.repeat(60))).unwrap_err();
            let codes = [SqlState::SYNTAX_ERROR, SqlState::STATEMENT_TOO_COMPLEX];
            assert!(codes.contains(&broken.sqlstate), "{open}: {broken}");
        }
    }

    #[test]
    fn syntax_errors_carry_the_position() {
        assert_eq!(
            failure("drop table a\n  casscade b where"),
            ("syntax error at or near \"casscade\"".into(), Some(16))
        );
        assert_eq!(
            failure("truncate table"),
            ("syntax error at end of input".into(), Some(15))
        );
        assert_eq!(failure("vacuum (nonsense) t").1, Some(9));
    }
}
