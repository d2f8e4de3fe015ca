//! Statements, and where one ends and the next begins.

use std::ops::Range;

use evenkeel_types::SqlState;

use super::bounds::{self, Shape};
use super::cursor::Parser;
use super::keywords::Kw;
use super::lexer::tokens;
use super::token::{Tok, Tokens};
use crate::ast::Statement;
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

impl Parser<'_> {
    fn statement(&mut self) -> PlanResult<Statement> {
        if let Some(keyword) = self.peek_key()
            && is_command(keyword)
        {
            self.skip_command(keyword)?;
            return Ok(Statement::Other(keyword.text().to_owned()));
        }
        self.preparable()
    }

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

    /// Skips a command up to its end: a semicolon outside of parentheses and of a function's body
    /// between BEGIN ATOMIC and END.
    fn skip_command(&mut self, keyword: Kw) -> PlanResult<()> {
        let mut parentheses = 0_usize;
        let mut blocks = 0_usize;
        loop {
            match self.peek() {
                Tok::End => return Ok(()),
                Tok::Bad => return Err(self.unexpected()),
                Tok::Char(b'(') => parentheses += 1,
                Tok::Char(b')') => parentheses = parentheses.saturating_sub(1),
                Tok::Char(b';') if parentheses == 0 && blocks == 0 => return Ok(()),
                Tok::Key(Kw::Begin)
                    if keyword == Kw::Create && self.peek_at(1) == Tok::Key(Kw::Atomic) =>
                {
                    blocks += 1;
                }
                Tok::Key(Kw::Case) if blocks > 0 => blocks += 1,
                Tok::Key(Kw::End) => blocks = blocks.saturating_sub(1),
                _ => {}
            }
            self.bump();
        }
    }
}

/// Whether a keyword begins a statement that has no plan.
fn is_command(keyword: Kw) -> bool {
    matches!(
        keyword,
        Kw::Abort
            | Kw::Alter
            | Kw::Analyse
            | Kw::Analyze
            | Kw::Begin
            | Kw::Call
            | Kw::Checkpoint
            | Kw::Close
            | Kw::Cluster
            | Kw::Comment
            | Kw::Commit
            | Kw::Copy
            | Kw::Create
            | Kw::Deallocate
            | Kw::Declare
            | Kw::Discard
            | Kw::Do
            | Kw::Drop
            | Kw::End
            | Kw::Execute
            | Kw::Explain
            | Kw::Fetch
            | Kw::Grant
            | Kw::Import
            | Kw::Listen
            | Kw::Load
            | Kw::Lock
            | Kw::Move
            | Kw::Notify
            | Kw::Prepare
            | Kw::Reassign
            | Kw::Refresh
            | Kw::Reindex
            | Kw::Release
            | Kw::Reset
            | Kw::Revoke
            | Kw::Rollback
            | Kw::Savepoint
            | Kw::Security
            | Kw::Set
            | Kw::Show
            | Kw::Start
            | Kw::Truncate
            | Kw::Unlisten
            | Kw::Vacuum
    )
}
