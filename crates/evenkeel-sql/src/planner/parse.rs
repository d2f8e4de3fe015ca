//! Query text to statements: sqlparser for SQL proper, our own small grammar for the commands
//! that it does not have or reads differently from PostgreSQL.

use datafusion::sql::sqlparser::ast::Statement;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use super::utility::{self, TransactionCommand, Utility};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::without_zero;

/// The dialect of everything this crate parses.
pub static DIALECT: PostgreSqlDialect = PostgreSqlDialect {};

/// Nesting that the parser follows before it gives up with 54001.
const RECURSION_LIMIT: usize = 200;

/// One parsed statement.
#[derive(Debug)]
pub enum Parsed {
    /// A statement of sqlparser's grammar.
    Sql(Box<Statement>),
    /// A command of our own grammar.
    Utility(Utility),
}

/// Parses exactly one statement (a text without semicolons, from `lexer::split`).
pub fn parse(text: &str) -> SqlResult<Parsed> {
    let mut parser = parser(text)?;
    if let Some(utility) = utility::parse(&mut parser).map_err(|e| parser_error(&e, text))? {
        end_of_statement(&parser, text)?;
        return Ok(Parsed::Utility(utility));
    }
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

/// A parser over `text`.
pub fn parser(text: &str) -> SqlResult<Parser<'static>> {
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
        .with_tokens_with_locations(plain(tokens)))
}

/// Spellings that the parser does not read everywhere: `OPERATOR(pg_catalog.=)` is `=`, and ONLY
/// says nothing where no table inherits from another.
fn plain(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let spelt = |token| is_word(token, "operator") || is_word(token, "only");
    if !tokens.iter().any(spelt) {
        return tokens;
    }
    let mut plain: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        if let Some(sign) = operator(&tokens[at..]) {
            plain.push(sign.clone());
            at += OPERATOR_TOKENS;
            continue;
        }
        let before = plain.iter().rev().find(|token| !is_blank(token));
        let from = |before| {
            ["from", "join", "update"]
                .iter()
                .any(|word| is_word(before, word))
        };
        if !(is_word(token, "only") && before.is_some_and(from)) {
            plain.push(token.clone());
        }
        at += 1;
    }
    plain
}

/// How many tokens `OPERATOR(pg_catalog.=)` has.
const OPERATOR_TOKENS: usize = 6;

/// The operator that such a spelling at the beginning means.
fn operator(tokens: &[TokenWithSpan]) -> Option<&TokenWithSpan> {
    let [word, open, schema, dot, sign, close, ..] = tokens else {
        return None;
    };
    let spelt = is_word(word, "operator")
        && open.token == Token::LParen
        && is_word(schema, "pg_catalog")
        && dot.token == Token::Period
        && close.token == Token::RParen;
    spelt.then_some(sign)
}

fn is_word(token: &TokenWithSpan, wanted: &str) -> bool {
    matches!(
        &token.token,
        Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted)
    )
}

fn is_blank(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
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
        ParserError::RecursionLimitExceeded => {
            return SqlError::new(
                SqlState::STATEMENT_TOO_COMPLEX,
                "stack depth limit exceeded",
            );
        }
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

    fn failure(text: &str) -> (String, Option<u32>) {
        let error = parse(text).unwrap_err();
        (error.message.to_string(), error.fields.position)
    }

    #[test]
    fn operators_may_be_spelt_with_their_schema_and_only_says_nothing() {
        let long = "select 1 from only t where a OPERATOR(pg_catalog.=) any (array['r']) and b \
                    operator(pg_catalog.~) 'x'";
        let short = "select 1 from t where a = any (array['r']) and b ~ 'x'";
        let text = |sql: &str| match parse(sql) {
            Ok(Parsed::Sql(statement)) => statement.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(text(long), text(short));
    }

    #[test]
    fn syntax_errors_carry_the_position() {
        assert_eq!(
            failure("select 1\n  fromm t where"),
            ("syntax error at or near \"t\"".into(), Some(18))
        );
        assert_eq!(
            failure("select a from"),
            ("syntax error at end of input".into(), Some(14))
        );
        assert_eq!(failure("vacuum (nonsense) t").1, Some(9));
    }
}
