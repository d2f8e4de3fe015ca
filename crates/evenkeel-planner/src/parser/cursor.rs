//! The parser's place in the tokens, and the errors it raises there.

use evenkeel_types::SqlState;

use super::keywords::{Category, Kw};
use super::strings;
use super::token::{Tok, Token, Tokens, error_near};
use crate::ast::{FieldPart, Name, Pos, QualifiedName, SetPart};
use crate::error::{PlanError, PlanResult};

/// Stack that must be left when an expression, a query or a join is entered.
const RED_ZONE: usize = 128 << 10;
/// Stack that is added when less is left.
const STACK: usize = 2 << 20;

/// A parser of one text.
pub(super) struct Parser<'a> {
    text: &'a str,
    tokens: Tokens,
    at: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str, tokens: Tokens) -> Parser<'a> {
        Parser {
            text,
            tokens,
            at: 0,
        }
    }

    /// Runs `parse` with enough stack for the next level.
    pub(super) fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> T) -> T {
        stacker::maybe_grow(RED_ZONE, STACK, || parse(self))
    }

    /// The token `ahead` of the next; the last one repeats.
    fn token(&self, ahead: usize) -> Token {
        let list = &self.tokens.list;
        let end = Token {
            tok: Tok::End,
            start: 0,
            end: 0,
            extra: Token::PLAIN,
        };
        let token = list.get(self.at + ahead).or(list.last());
        token.copied().unwrap_or(end)
    }

    pub(super) fn peek(&self) -> Tok {
        self.token(0).tok
    }

    pub(super) fn peek_at(&self, ahead: usize) -> Tok {
        self.token(ahead).tok
    }

    /// The keyword that is next, if one is.
    pub(super) fn peek_key(&self) -> Option<Kw> {
        match self.peek() {
            Tok::Key(keyword) => Some(keyword),
            _ => None,
        }
    }

    /// Where the next token begins.
    pub(super) fn pos(&self) -> Pos {
        Pos(self.token(0).start)
    }

    pub(super) fn bump(&mut self) -> Pos {
        let at = self.pos();
        self.at += 1;
        at
    }

    /// Where the last token that was taken ends.
    pub(super) fn last_end(&self) -> usize {
        let last = self
            .at
            .checked_sub(1)
            .and_then(|at| self.tokens.list.get(at));
        last.map_or(0, |token| token.end as usize)
    }

    /// The last token that was taken, if it is a keyword.
    pub(super) fn last_key(&self) -> Option<Kw> {
        let last = self.tokens.list.get(self.at.checked_sub(1)?)?;
        match last.tok {
            Tok::Key(keyword) => Some(keyword),
            _ => None,
        }
    }

    /// The text from a place to the end of the last token that was taken.
    pub(super) fn text_since(&self, from: Pos) -> &'a str {
        let range = from.0 as usize..self.last_end();
        self.text.get(range).unwrap_or_default()
    }

    pub(super) fn is_key(&self, keyword: Kw) -> bool {
        self.peek() == Tok::Key(keyword)
    }

    pub(super) fn is_char(&self, byte: u8) -> bool {
        self.peek() == Tok::Char(byte)
    }

    pub(super) fn accept(&mut self, tok: Tok) -> bool {
        let same = self.peek() == tok;
        self.at += usize::from(same);
        same
    }

    pub(super) fn accept_key(&mut self, keyword: Kw) -> bool {
        self.accept(Tok::Key(keyword))
    }

    pub(super) fn accept_char(&mut self, byte: u8) -> bool {
        self.accept(Tok::Char(byte))
    }

    pub(super) fn expect(&mut self, tok: Tok) -> PlanResult<Pos> {
        if self.peek() != tok {
            return Err(self.unexpected());
        }
        Ok(self.bump())
    }

    pub(super) fn expect_key(&mut self, keyword: Kw) -> PlanResult<Pos> {
        self.expect(Tok::Key(keyword))
    }

    pub(super) fn expect_keys(&mut self, keywords: &[Kw]) -> PlanResult<()> {
        for keyword in keywords {
            self.expect_key(*keyword)?;
        }
        Ok(())
    }

    pub(super) fn expect_char(&mut self, byte: u8) -> PlanResult<Pos> {
        self.expect(Tok::Char(byte))
    }

    /// 42601 `syntax error` at the next token, or the lexer's error there. PostgreSQL reads one
    /// token beyond those that it combines with the following one.
    pub(super) fn unexpected(&self) -> PlanError {
        let combined = matches!(
            self.peek(),
            Tok::Key(Kw::Not | Kw::Nulls | Kw::With | Kw::Without | Kw::Format)
        );
        if combined && self.peek_at(1) == Tok::Bad {
            return self.near_at(1, "syntax error");
        }
        self.near("syntax error")
    }

    /// 42601 `message at or near` the next token.
    pub(super) fn near(&self, message: &str) -> PlanError {
        self.near_at(0, message)
    }

    fn near_at(&self, ahead: usize, message: &str) -> PlanError {
        let token = self.token(ahead);
        if token.tok == Tok::Bad
            && let Some(error) = &self.tokens.error
        {
            return error.clone();
        }
        error_near(message, self.slice(token), token.start as usize)
    }

    fn slice(&self, token: Token) -> &'a str {
        self.text
            .get(token.start as usize..token.end as usize)
            .unwrap_or_default()
    }

    /// The text of the next token.
    pub(super) fn word(&self) -> &'a str {
        self.slice(self.token(0))
    }

    /// The number that [`Tok::Integer`] and [`Tok::Param`] carry.
    pub(super) fn number(&self) -> u32 {
        self.token(0).extra
    }

    /// The value of the next token: a string, a number or a name.
    pub(super) fn value(&mut self) -> String {
        let token = self.token(0);
        if let Some(value) = self.tokens.values.get(token.extra as usize) {
            return value.clone();
        }
        let text = self.slice(token);
        match token.tok {
            Tok::Str => {
                let quote = text.find('\'').map_or(0, |quote| quote + 1);
                let end = text.len().saturating_sub(1);
                text.get(quote..end).unwrap_or_default().to_owned()
            }
            Tok::Ident => strings::fold(text),
            Tok::Key(keyword) => keyword.text().to_owned(),
            _ => text.to_owned(),
        }
    }

    /// Takes the next token as a name.
    pub(super) fn take_name(&mut self) -> Name {
        let text = self.value();
        let at = self.bump();
        Name { text, at }
    }

    /// Whether a token may be a `ColId`: the name of a column, table or alias.
    pub(super) fn is_col_id(tok: Tok) -> bool {
        match tok {
            Tok::Ident => true,
            Tok::Key(keyword) => matches!(
                keyword.category(),
                Category::Unreserved | Category::ColumnName
            ),
            _ => false,
        }
    }

    /// Whether a token may be a `type_function_name`.
    pub(super) fn is_function_name(tok: Tok) -> bool {
        match tok {
            Tok::Ident => true,
            Tok::Key(keyword) => matches!(
                keyword.category(),
                Category::Unreserved | Category::TypeOrFunction
            ),
            _ => false,
        }
    }

    /// `ColId`
    pub(super) fn col_id(&mut self) -> PlanResult<Name> {
        if !Self::is_col_id(self.peek()) {
            return Err(self.unexpected());
        }
        Ok(self.take_name())
    }

    /// `ColLabel`: any name or keyword.
    pub(super) fn col_label(&mut self) -> PlanResult<Name> {
        match self.peek() {
            Tok::Ident | Tok::Key(_) => Ok(self.take_name()),
            _ => Err(self.unexpected()),
        }
    }

    /// `BareColLabel`, if one is next.
    pub(super) fn bare_label(&mut self) -> Option<Name> {
        match self.peek() {
            Tok::Ident => Some(self.take_name()),
            Tok::Key(keyword) if keyword.is_bare_label() => Some(self.take_name()),
            _ => None,
        }
    }

    /// `name_list` in parentheses, if one is next.
    pub(super) fn optional_names(&mut self) -> PlanResult<Vec<Name>> {
        if !self.accept_char(b'(') {
            return Ok(Vec::new());
        }
        let names = self.list(Self::col_id)?;
        self.expect_char(b')')?;
        Ok(names)
    }

    /// One or more items between commas.
    pub(super) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> PlanResult<T>,
    ) -> PlanResult<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.accept_char(b',') {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// `any_name`: names between dots.
    pub(super) fn any_name(&mut self) -> PlanResult<QualifiedName> {
        let mut parts = vec![self.col_id()?];
        while self.accept_char(b'.') {
            parts.push(self.col_label()?);
        }
        Ok(QualifiedName { parts })
    }

    /// `qualified_name`: the name of a relation, which has at most three parts.
    pub(super) fn qualified_name(&mut self) -> PlanResult<QualifiedName> {
        let first = self.col_id()?;
        self.qualified_name_from(first)
    }

    pub(super) fn qualified_name_from(&mut self, first: Name) -> PlanResult<QualifiedName> {
        let parts = self.indirection()?;
        self.relation_name(first, parts)
    }

    /// The name of a relation from its parts.
    pub(super) fn relation_name(
        &self,
        first: Name,
        parts: Vec<Indirection>,
    ) -> PlanResult<QualifiedName> {
        let at = first.at;
        let mut names = vec![first];
        for part in parts {
            match part {
                Indirection::Field(FieldPart::Name(name)) => names.push(name),
                _ => return Err(self.near("syntax error")),
            }
        }
        let name = QualifiedName { parts: names };
        if name.parts.len() > 3 {
            let message = format!(
                "improper qualified name (too many dotted names): {}",
                name.display()
            );
            return Err(PlanError::new(SqlState::SYNTAX_ERROR, message).at(at));
        }
        Ok(name)
    }

    /// The parts of a column that SET or INSERT names.
    pub(super) fn set_parts(&mut self) -> PlanResult<Vec<SetPart>> {
        let parts = self.checked_indirection()?;
        let parts = parts.into_iter().map(|part| match part {
            Indirection::Field(FieldPart::Name(name)) => Ok(SetPart::Field(name)),
            Indirection::Field(FieldPart::Star(at)) => {
                let message = "row expansion via \"*\" is not supported here";
                Err(PlanError::unsupported(message).at(at))
            }
            Indirection::Subscript(subscript) => Ok(SetPart::Subscript(subscript)),
        });
        parts.collect()
    }
}

/// A field selection or subscript after a name or an expression in parentheses.
#[derive(Debug)]
pub(super) enum Indirection {
    /// `.name`, `.*`
    Field(FieldPart),
    /// `[…]`
    Subscript(crate::ast::Subscript),
}
