//! Statements, and where one ends and the next begins.

use std::ops::Range;

use evenkeel_types::SqlState;

use super::bounds::{self, Shape};
use super::cursor::Parser;
use super::keywords::Kw;
use super::lexer::tokens;
use super::token::{Tok, Tokens};
use crate::ast::{Expr, QualifiedName, Statement, TypeName};
use crate::error::{PlanError, PlanResult};

/// A statement and the bytes of the text that it stands in, without its semicolon.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The statement.
    pub statement: Statement,
    /// Its bytes.
    pub range: Range<usize>,
}

/// A text within the bounds, cut into tokens.
#[derive(Debug)]
pub struct Measured<T> {
    text: T,
    tokens: Tokens,
    shape: Shape,
}

/// Cuts a text into tokens and measures them. Errors of the lexer are left to the parser.
///
/// # Errors
/// 54001 for a text beyond the bounds; 22003 for a number that no type can hold.
pub fn measure<T: AsRef<str>>(text: T) -> PlanResult<Measured<T>> {
    bounds::check_length(text.as_ref())?;
    let tokens = tokens(text.as_ref(), bounds::TOKENS_MAX + 1);
    let shape = bounds::check(text.as_ref(), &tokens)?;
    Ok(Measured {
        text,
        tokens,
        shape,
    })
}

impl<T: AsRef<str>> Measured<T> {
    /// The text.
    pub fn text(&self) -> &T {
        &self.text
    }

    /// Its size.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Its statements, in order; none for a text of semicolons and white space. Positions count
    /// from the beginning of the text.
    ///
    /// # Errors
    /// PostgreSQL's error of the first place that its grammar or its lexer refuses.
    pub fn parse(self) -> PlanResult<Vec<Parsed>> {
        statements(self.text.as_ref(), self.tokens)
    }

    /// Its only statement; `None` if there is none.
    ///
    /// # Errors
    /// Those of [`Measured::parse`]; 42601 if there are several, as for a statement that is to be
    /// prepared.
    pub fn parse_one(self) -> PlanResult<Option<Parsed>> {
        let mut statements = self.parse()?;
        let last = statements.pop();
        if !statements.is_empty() {
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(PlanError::new(SqlState::SYNTAX_ERROR, message));
        }
        Ok(last)
    }
}

/// The statements of a text.
///
/// # Errors
/// Those of [`measure`] and [`Measured::parse`].
pub fn parse(text: &str) -> PlanResult<Vec<Parsed>> {
    measure(text)?.parse()
}

/// The only statement of a text; `None` if there is none.
///
/// # Errors
/// Those of [`measure`] and [`Measured::parse_one`].
pub fn parse_one(text: &str) -> PlanResult<Option<Parsed>> {
    measure(text)?.parse_one()
}

fn statements(text: &str, tokens: Tokens) -> PlanResult<Vec<Parsed>> {
    let mut parser = Parser::new(text, tokens);
    let mut statements = Vec::new();
    loop {
        while parser.accept_char(b';') {}
        if parser.peek() == Tok::End {
            return Ok(statements);
        }
        let start = parser.pos();
        let statement = parser.statement()?;
        if parser.peek() != Tok::End && !parser.is_char(b';') {
            return Err(parser.unexpected());
        }
        let range = start.0 as usize..parser.last_end();
        statements.push(Parsed { statement, range });
    }
}

/// Where the token of a text that begins at `at` ends.
pub fn token_end(text: &str, at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    let first = tokens(rest, 1).list.first().map(|token| token.end as usize);
    at + first.unwrap_or_default().min(rest.len())
}

/// Reads all of a text as one part of SQL.
fn part<'a, T>(
    text: &'a str,
    read: impl FnOnce(&mut Parser<'a>) -> PlanResult<T>,
) -> PlanResult<T> {
    let mut parser = Parser::new(text, measure(text)?.tokens);
    let part = read(&mut parser)?;
    match parser.peek() {
        Tok::End => Ok(part),
        _ => Err(parser.unexpected()),
    }
}

/// The expression that a text is.
///
/// # Errors
/// As [`parse`].
pub fn parse_expr(text: &str) -> PlanResult<Expr> {
    part(text, Parser::expr)
}

/// The name of a type that a text is.
///
/// # Errors
/// As [`parse`].
pub fn parse_type(text: &str) -> PlanResult<TypeName> {
    part(text, Parser::type_name)
}

/// The name of an object that a text is.
///
/// # Errors
/// As [`parse`].
pub fn parse_name(text: &str) -> PlanResult<QualifiedName> {
    part(text, Parser::any_name)
}

impl Parser<'_> {
    /// `PreparableStmt` without the commands: a query or a change.
    pub(super) fn preparable(&mut self) -> PlanResult<Statement> {
        let with = self.with()?;
        Ok(match self.peek() {
            Tok::Key(Kw::Insert) => Statement::Insert(Box::new(self.insert(with)?)),
            Tok::Key(Kw::Update) => Statement::Update(Box::new(self.update(with)?)),
            Tok::Key(Kw::Delete) => Statement::Delete(Box::new(self.delete(with)?)),
            Tok::Key(Kw::Merge) => Statement::Merge(Box::new(self.merge(with)?)),
            _ => Statement::Query(Box::new(self.query_with(with)?)),
        })
    }
}
