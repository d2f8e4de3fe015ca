//! Prepared statements, EXPLAIN, cursors.

use super::cursor::Parser;
use super::keywords::Kw;
use super::token::Tok;
use crate::ast::{
    Command, CommandOption, Declare, Direction, Explain, Fetch, OptionValue, Pos, Prepare,
    Statement,
};
use crate::error::PlanResult;

impl Parser<'_> {
    pub(super) fn prepare(&mut self) -> PlanResult<Command> {
        self.bump();
        let name = self.col_id()?;
        let mut types = Vec::new();
        if self.accept_char(b'(') {
            types = self.list(Self::type_name)?;
            self.expect_char(b')')?;
        }
        self.expect_key(Kw::As)?;
        let body = self.pos();
        self.preparable()?;
        Ok(Command::Prepare(Prepare { name, types, body }))
    }

    pub(super) fn execute(&mut self) -> PlanResult<Command> {
        self.bump();
        let name = self.col_id()?;
        let args = if self.is_char(b'(') {
            self.exprs_in_parentheses()?
        } else {
            Vec::new()
        };
        Ok(Command::Execute { name, args })
    }

    pub(super) fn deallocate(&mut self) -> PlanResult<Command> {
        self.bump();
        // The word itself may be the name.
        if self.is_key(Kw::Prepare) && !matches!(self.peek_at(1), Tok::End | Tok::Char(b';')) {
            self.bump();
        }
        if self.accept_key(Kw::All) {
            return Ok(Command::Deallocate(None));
        }
        Ok(Command::Deallocate(Some(self.col_id()?.text)))
    }

    /// `LISTEN`
    pub(super) fn listen(&mut self) -> PlanResult<Command> {
        self.bump();
        Ok(Command::Listen(self.col_id()?.text))
    }

    /// `NOTIFY`
    pub(super) fn notify(&mut self) -> PlanResult<Command> {
        self.bump();
        let channel = self.col_id()?.text;
        let payload = match self.accept_char(b',') {
            true => self.string()?,
            false => String::new(),
        };
        Ok(Command::Notify { channel, payload })
    }

    /// `UNLISTEN`
    pub(super) fn unlisten(&mut self) -> PlanResult<Command> {
        self.bump();
        if self.accept_char(b'*') {
            return Ok(Command::Unlisten(None));
        }
        Ok(Command::Unlisten(Some(self.col_id()?.text)))
    }

    pub(super) fn explain(&mut self) -> PlanResult<Command> {
        self.bump();
        let query = matches!(
            self.peek_at(1),
            Tok::Char(b'(')
                | Tok::Key(Kw::Select | Kw::Values | Kw::Table | Kw::With)
                | Tok::Joined(Kw::With)
        );
        let mut options = Vec::new();
        if self.is_char(b'(') && !query {
            options = self.utility_options()?;
        } else {
            let mut flag = |name: &str, at: Pos| {
                let (name, value) = (name.to_owned(), OptionValue::Absent);
                options.push(CommandOption { name, value, at });
            };
            if matches!(self.peek(), Tok::Key(Kw::Analyze | Kw::Analyse)) {
                flag("analyze", self.bump());
            }
            if self.is_key(Kw::Verbose) {
                flag("verbose", self.bump());
            }
        }
        let body = self.pos();
        let statement = Box::new(self.deeper(Self::explainable)?);
        Ok(Command::Explain(Explain {
            options,
            statement,
            body,
        }))
    }

    /// `ExplainableStmt`
    fn explainable(&mut self) -> PlanResult<Statement> {
        let second = self.peek_at(1);
        match self.peek() {
            Tok::Key(Kw::Declare | Kw::Execute | Kw::Refresh) => self.statement(),
            Tok::Key(Kw::Create) if second == Tok::Key(Kw::Materialized) => self.statement(),
            Tok::Key(Kw::Create) => self.explained_create(),
            _ => self.preparable(),
        }
    }

    pub(super) fn declare(&mut self) -> PlanResult<Command> {
        self.bump();
        let mut declare = Declare {
            name: self.col_id()?,
            scroll: None,
            hold: false,
            binary: false,
            insensitive: None,
            body: Pos::NONE,
        };
        loop {
            match self.peek() {
                Tok::Key(Kw::No) => {
                    self.bump();
                    self.expect_key(Kw::Scroll)?;
                    declare.scroll = Some(false);
                    continue;
                }
                Tok::Key(Kw::Scroll) => declare.scroll = Some(true),
                Tok::Key(Kw::Binary) => declare.binary = true,
                Tok::Key(Kw::Asensitive) => declare.insensitive = Some(false),
                Tok::Key(Kw::Insensitive) => declare.insensitive = Some(true),
                _ => break,
            }
            self.bump();
        }
        self.expect_key(Kw::Cursor)?;
        if self.accept_key(Kw::With) {
            self.expect_key(Kw::Hold)?;
            declare.hold = true;
        } else if self.accept_key(Kw::Without) {
            self.expect_key(Kw::Hold)?;
        }
        self.expect_key(Kw::For)?;
        declare.body = self.pos();
        self.query()?;
        Ok(Command::Declare(declare))
    }

    pub(super) fn close(&mut self) -> PlanResult<Command> {
        self.bump();
        if self.accept_key(Kw::All) {
            return Ok(Command::Close(None));
        }
        Ok(Command::Close(Some(self.col_id()?.text)))
    }

    pub(super) fn fetch(&mut self) -> PlanResult<Command> {
        let rows = self.is_key(Kw::Fetch);
        self.bump();
        let direction = self.fetch_direction()?;
        if !self.accept_key(Kw::From) {
            self.accept_key(Kw::In);
        }
        Ok(Command::Fetch(Fetch {
            name: self.col_id()?.text,
            direction,
            rows,
        }))
    }

    fn fetch_direction(&mut self) -> PlanResult<Direction> {
        if self.starts_number() {
            return self.signed_integer().map(Direction::Forward);
        }
        let Tok::Key(keyword) = self.peek() else {
            return Ok(Direction::Forward(1));
        };
        // A word without anything behind it is the cursor's name.
        let ends = matches!(self.peek_at(1), Tok::End | Tok::Char(b';'));
        if ends && keyword != Kw::All {
            return Ok(Direction::Forward(1));
        }
        let direction = match keyword {
            Kw::Next => Direction::Forward(1),
            Kw::Prior => Direction::Forward(-1),
            Kw::First => Direction::Absolute(1),
            Kw::Last => Direction::Absolute(-1),
            Kw::All => Direction::ForwardAll,
            Kw::Forward | Kw::Backward => {
                self.bump();
                return self.some_or_all(keyword == Kw::Backward);
            }
            Kw::Absolute => {
                self.bump();
                return self.signed_integer().map(Direction::Absolute);
            }
            Kw::Relative => {
                self.bump();
                return self.signed_integer().map(Direction::Relative);
            }
            _ => return Ok(Direction::Forward(1)),
        };
        self.bump();
        Ok(direction)
    }

    fn some_or_all(&mut self, backward: bool) -> PlanResult<Direction> {
        if self.accept_key(Kw::All) {
            return Ok(if backward {
                Direction::BackwardAll
            } else {
                Direction::ForwardAll
            });
        }
        let count = if self.starts_number() {
            self.signed_integer()?
        } else {
            1
        };
        Ok(Direction::Forward(if backward { -count } else { count }))
    }

    fn starts_number(&self) -> bool {
        matches!(self.peek(), Tok::Integer | Tok::Char(b'+' | b'-'))
    }

    /// `SignedIconst`
    pub(super) fn signed_integer(&mut self) -> PlanResult<i64> {
        let negative = self.is_char(b'-');
        if negative || self.is_char(b'+') {
            self.bump();
        }
        let value = i64::from(self.integer()?);
        Ok(if negative { -value } else { value })
    }
}
