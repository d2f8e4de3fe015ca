//! The structure of a JSON text, event by event, with PostgreSQL's errors.

use std::ops::Range;

use super::builder::JsonbBuilder;
use super::lexer::{JsonText, JsonToken, Lexer};
use super::value::Jsonb;
use crate::error::{SqlState, TypeError, TypeResult};
use crate::numeric::Numeric;

/// Most levels of nesting of a text.
pub const MAX_JSON_DEPTH: usize = 16_000;

/// The place of a value in its text.
pub type JsonSpan = Range<usize>;

/// A piece of structure.
#[derive(Debug, Clone, PartialEq)]
pub enum JsonEvent<'a> {
    /// `{`, with its place.
    ObjectStart(usize),
    /// `}`, with the place behind it.
    ObjectEnd(usize),
    /// `[`, with its place.
    ArrayStart(usize),
    /// `]`, with the place behind it.
    ArrayEnd(usize),
    /// The name of a field, whose value follows.
    Key(JsonText<'a>),
    /// A value that is no object and no array: its token, place and, of a string, characters.
    Scalar(JsonToken, JsonSpan, JsonText<'a>),
}

/// Meaning of the next token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Value,
    /// A value or `]`.
    FirstElement,
    /// A name or `}`.
    FirstKey,
    Key,
    /// Behind a value: `,` or the end of what is open.
    Behind,
    Done,
}

/// Reads a JSON text.
pub struct JsonParser<'a> {
    lexer: Lexer<'a>,
    /// For each open bracket, whether it is one of an object.
    open: Vec<bool>,
    next: Next,
}

fn too_deep() -> TypeError {
    TypeError::new(
        SqlState::STATEMENT_TOO_COMPLEX,
        "stack depth limit exceeded",
    )
    .hint(format!(
        "A value of type json may be nested {MAX_JSON_DEPTH} levels deep."
    ))
}

impl<'a> JsonParser<'a> {
    /// A parser; with `escapes`, escape sequences must have characters that a text can hold, and
    /// the events have those.
    pub fn new(text: &'a str, escapes: bool) -> JsonParser<'a> {
        JsonParser {
            lexer: Lexer::new(text, escapes),
            open: Vec::new(),
            next: Next::Value,
        }
    }

    /// The levels of nesting that are open.
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// Adds the place of the current token to an error.
    pub fn at_token(&self, error: TypeError) -> TypeError {
        error.context(self.lexer.context())
    }

    /// The token that a text begins with.
    ///
    /// # Errors
    /// 22P02.
    pub fn first_token(text: &str) -> TypeResult<JsonToken> {
        Lexer::new(text, false).advance()
    }

    /// The next event; `None` at the end.
    ///
    /// # Errors
    /// 22P02, 22P05, 54001.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> TypeResult<Option<JsonEvent<'a>>> {
        loop {
            if self.next == Next::Done {
                return Ok(None);
            }
            let token = self.lexer.advance()?;
            match self.next {
                Next::Behind => {
                    if let Some(event) = self.behind(token)? {
                        return Ok(Some(event));
                    }
                }
                Next::FirstElement if token == JsonToken::ArrayEnd => {
                    return Ok(Some(self.close(false)));
                }
                Next::FirstKey if token == JsonToken::ObjectEnd => {
                    return Ok(Some(self.close(true)));
                }
                Next::FirstKey => return self.key(token, "string or \"}\"").map(Some),
                Next::Key => return self.key(token, "string").map(Some),
                _ => return self.value(token).map(Some),
            }
        }
    }

    fn close(&mut self, object: bool) -> JsonEvent<'a> {
        self.open.pop();
        self.next = Next::Behind;
        match object {
            true => JsonEvent::ObjectEnd(self.lexer.place.end),
            false => JsonEvent::ArrayEnd(self.lexer.place.end),
        }
    }

    fn behind(&mut self, token: JsonToken) -> TypeResult<Option<JsonEvent<'a>>> {
        match (self.open.last(), token) {
            (None, JsonToken::End) => self.next = Next::Done,
            (None, _) => return Err(self.lexer.unexpected("end of input")),
            (Some(true), JsonToken::Comma) => self.next = Next::Key,
            (Some(false), JsonToken::Comma) => self.next = Next::Value,
            (Some(true), JsonToken::ObjectEnd) => return Ok(Some(self.close(true))),
            (Some(false), JsonToken::ArrayEnd) => return Ok(Some(self.close(false))),
            (Some(true), _) => return Err(self.lexer.unexpected("\",\" or \"}\"")),
            (Some(false), _) => return Err(self.lexer.unexpected("\",\" or \"]\"")),
        }
        Ok(None)
    }

    fn key(&mut self, token: JsonToken, expected: &str) -> TypeResult<JsonEvent<'a>> {
        if token != JsonToken::String {
            return Err(self.lexer.unexpected(expected));
        }
        let key = std::mem::take(&mut self.lexer.string);
        if self.lexer.advance()? != JsonToken::Colon {
            return Err(self.lexer.unexpected("\":\""));
        }
        self.next = Next::Value;
        Ok(JsonEvent::Key(key))
    }

    fn value(&mut self, token: JsonToken) -> TypeResult<JsonEvent<'a>> {
        let start = self.lexer.place.start;
        let object = match token {
            JsonToken::ObjectStart => true,
            JsonToken::ArrayStart => false,
            JsonToken::String
            | JsonToken::Number
            | JsonToken::True
            | JsonToken::False
            | JsonToken::Null => {
                let text = match token {
                    JsonToken::String => std::mem::take(&mut self.lexer.string),
                    _ => JsonText::Borrowed(""),
                };
                self.next = Next::Behind;
                return Ok(JsonEvent::Scalar(token, self.lexer.place.clone(), text));
            }
            _ => return Err(self.lexer.unexpected("JSON value")),
        };
        if self.open.len() >= MAX_JSON_DEPTH {
            return Err(too_deep());
        }
        self.open.push(object);
        Ok(if object {
            self.next = Next::FirstKey;
            JsonEvent::ObjectStart(start)
        } else {
            self.next = Next::FirstElement;
            JsonEvent::ArrayStart(start)
        })
    }
}

/// Whether a text is one of `json`.
///
/// # Errors
/// 22P02, 54001.
pub fn check_json(text: &str) -> TypeResult<()> {
    let mut parser = JsonParser::new(text, false);
    while parser.next()?.is_some() {}
    Ok(())
}

/// The input function of `jsonb`.
///
/// # Errors
/// 22P02, 22P05, 22003, 54000, 54001.
pub fn parse_jsonb(text: &str) -> TypeResult<Jsonb> {
    let mut parser = JsonParser::new(text, true);
    let mut builder = JsonbBuilder::new();
    while let Some(event) = parser.next()? {
        builder.event(&event, text)?;
    }
    builder.finish()
}

impl JsonbBuilder {
    /// Appends an event of the parser of `text`.
    ///
    /// # Errors
    /// 22003, 54000.
    pub fn event(&mut self, event: &JsonEvent<'_>, text: &str) -> TypeResult<()> {
        match event {
            JsonEvent::ObjectStart(_) => self.begin_object(),
            JsonEvent::ArrayStart(_) => self.begin_array(),
            JsonEvent::ObjectEnd(_) | JsonEvent::ArrayEnd(_) => self.end(),
            JsonEvent::Key(key) => self.key(key),
            JsonEvent::Scalar(token, span, string) => match token {
                JsonToken::String => self.string(string),
                JsonToken::Number => {
                    let digits = text.get(span.clone()).unwrap_or_default();
                    self.number(&Numeric::parse(digits)?)
                }
                JsonToken::True => self.bool(true),
                JsonToken::False => self.bool(false),
                _ => self.null(),
            },
        }
    }
}
