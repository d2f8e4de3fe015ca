//! The tokens of a JSON text, as `jsonapi.c` of PostgreSQL finds them, and the errors about them.

use std::borrow::Cow;
use std::ops::Range;

use crate::error::{SqlState, TypeError, TypeResult};

/// Characters of a line that an error shows.
const SHOWN: usize = 50;

/// A token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonToken {
    /// `{`
    ObjectStart,
    /// `}`
    ObjectEnd,
    /// `[`
    ArrayStart,
    /// `]`
    ArrayEnd,
    /// `,`
    Comma,
    /// `:`
    Colon,
    /// A string.
    String,
    /// A number.
    Number,
    /// `true`
    True,
    /// `false`
    False,
    /// `null`
    Null,
    /// The end of the text.
    End,
}

/// The text of a string token.
pub type JsonText<'a> = Cow<'a, str>;

pub(super) struct Lexer<'a> {
    pub text: &'a str,
    /// Whether escape sequences are replaced by their characters, and must have some.
    pub escapes: bool,
    /// The current token, and its place.
    pub token: Option<JsonToken>,
    pub place: Range<usize>,
    /// The characters of a string, when `escapes` is set.
    pub string: JsonText<'a>,
    line: usize,
    line_start: usize,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str, escapes: bool) -> Lexer<'a> {
        Lexer {
            text,
            escapes,
            token: None,
            place: 0..0,
            string: Cow::Borrowed(""),
            line: 1,
            line_start: 0,
        }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    /// Goes on to the next token.
    ///
    /// # Errors
    /// 22P02, 22P05.
    pub fn advance(&mut self) -> TypeResult<JsonToken> {
        let mut at = self.place.end;
        while let Some(byte @ (b' ' | b'\t' | b'\n' | b'\r')) = self.byte(at) {
            at += 1;
            if byte == b'\n' {
                self.line += 1;
                self.line_start = at;
            }
        }
        self.place = at..at;
        let Some(byte) = self.byte(at) else {
            self.token = Some(JsonToken::End);
            return Ok(JsonToken::End);
        };
        let single = match byte {
            b'{' => Some(JsonToken::ObjectStart),
            b'}' => Some(JsonToken::ObjectEnd),
            b'[' => Some(JsonToken::ArrayStart),
            b']' => Some(JsonToken::ArrayEnd),
            b',' => Some(JsonToken::Comma),
            b':' => Some(JsonToken::Colon),
            _ => None,
        };
        let token = match (single, byte) {
            (Some(token), _) => {
                self.place.end = at + 1;
                token
            }
            (_, b'"') => self.lex_string()?,
            (_, b'-') => self.lex_number(at + 1)?,
            (_, b'0'..=b'9') => self.lex_number(at)?,
            _ => self.lex_word()?,
        };
        self.token = Some(token);
        Ok(token)
    }

    fn lex_word(&mut self) -> TypeResult<JsonToken> {
        let start = self.place.start;
        let rest = &self.text.as_bytes()[start..];
        let length = rest.iter().take_while(|byte| is_word(**byte)).count();
        self.place.end = start + length.max(1);
        match &rest[..length] {
            b"true" => Ok(JsonToken::True),
            b"false" => Ok(JsonToken::False),
            b"null" => Ok(JsonToken::Null),
            _ => Err(self.invalid_token()),
        }
    }

    /// A number, whose digits begin at `at`.
    fn lex_number(&mut self, mut at: usize) -> TypeResult<JsonToken> {
        let digits = |lexer: &Self, mut at: usize| {
            while lexer.byte(at).is_some_and(|byte| byte.is_ascii_digit()) {
                at += 1;
            }
            at
        };
        let mut bad = false;
        match self.byte(at) {
            Some(b'0') => at += 1,
            Some(b'1'..=b'9') => at = digits(self, at),
            _ => bad = true,
        }
        if self.byte(at) == Some(b'.') {
            let end = digits(self, at + 1);
            bad |= end == at + 1;
            at = end;
        }
        if let Some(b'e' | b'E') = self.byte(at) {
            at += 1;
            if let Some(b'+' | b'-') = self.byte(at) {
                at += 1;
            }
            let end = digits(self, at);
            bad |= end == at;
            at = end;
        }
        while self.byte(at).is_some_and(is_word) {
            at += 1;
            bad = true;
        }
        self.place.end = at;
        match bad {
            true => Err(self.invalid_token()),
            false => Ok(JsonToken::Number),
        }
    }

    /// The end of the character at this place.
    fn character_end(&self, at: usize) -> usize {
        let character = self.text.get(at..).and_then(|rest| rest.chars().next());
        at + character.map_or(0, char::len_utf8)
    }

    /// An error in a string, whose text ends behind the character at `at`.
    fn in_string(&mut self, at: usize, detail: &str) -> TypeError {
        self.place.end = self.character_end(at);
        self.invalid(detail)
    }

    fn lex_string(&mut self) -> TypeResult<JsonToken> {
        let start = self.place.start + 1;
        let mut at = start;
        let mut out: Option<String> = None;
        let mut high: Option<u32> = None;
        loop {
            let rest = self.text.as_bytes().get(at..).unwrap_or_default();
            let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=31);
            let length = rest.iter().position(special).unwrap_or(rest.len());
            if length > 0 {
                if high.is_some() {
                    return Err(self.in_string(at, LOW_MUST_FOLLOW));
                }
                if let Some(out) = &mut out {
                    out.push_str(&self.text[at..at + length]);
                }
                at += length;
            }
            match self.byte(at) {
                None => {
                    self.place.end = at;
                    return Err(self.invalid_token());
                }
                Some(b'"') => break,
                Some(b'\\') => {
                    let out = out.get_or_insert_with(|| self.text[start..at].to_owned());
                    let mut taken = std::mem::take(out);
                    at = self.lex_escape(at + 1, &mut taken, &mut high)?;
                    *out = taken;
                }
                Some(byte) => {
                    self.place.end = at;
                    let detail = format!("Character with value 0x{byte:02x} must be escaped.");
                    return Err(self.invalid(&detail));
                }
            }
        }
        self.place.end = at + 1;
        if high.is_some() {
            return Err(self.invalid(LOW_MUST_FOLLOW));
        }
        self.string = match out {
            Some(text) => Cow::Owned(text),
            None => Cow::Borrowed(&self.text[start..at]),
        };
        Ok(JsonToken::String)
    }

    /// An escape sequence behind its backslash; returns the place behind it.
    fn lex_escape(
        &mut self,
        at: usize,
        out: &mut String,
        high: &mut Option<u32>,
    ) -> TypeResult<usize> {
        let Some(byte) = self.byte(at) else {
            self.place.end = at;
            return Err(self.invalid_token());
        };
        if byte == b'u' {
            return self.lex_unicode(at, out, high);
        }
        if self.escapes && high.is_some() {
            return Err(self.in_string(at, LOW_MUST_FOLLOW));
        }
        out.push(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            _ => {
                self.place = at..self.character_end(at);
                let found = self.text.get(self.place.clone()).unwrap_or_default();
                let detail = format!("Escape sequence \"\\{found}\" is invalid.");
                return Err(self.invalid(&detail));
            }
        });
        Ok(at + 1)
    }

    /// `uXXXX`, whose `u` stands at this place.
    fn lex_unicode(
        &mut self,
        mut at: usize,
        out: &mut String,
        high: &mut Option<u32>,
    ) -> TypeResult<usize> {
        let mut code = 0;
        for _ in 0..4 {
            at += 1;
            let Some(byte) = self.byte(at) else {
                self.place.end = at;
                return Err(self.invalid_token());
            };
            let Some(digit) = char::from(byte).to_digit(16) else {
                let detail = "\"\\u\" must be followed by four hexadecimal digits.";
                return Err(self.in_string(at, detail));
            };
            code = code << 4 | digit;
        }
        if !self.escapes {
            return Ok(at + 1);
        }
        match (code, *high) {
            (0xd800..=0xdbff, Some(_)) => {
                let detail = "Unicode high surrogate must not follow a high surrogate.";
                return Err(self.in_string(at, detail));
            }
            (0xd800..=0xdbff, None) => *high = Some(code),
            (0xdc00..=0xdfff, Some(first)) => {
                *high = None;
                let code = 0x1_0000 + ((first & 0x3ff) << 10) + (code & 0x3ff);
                out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            (_, Some(_)) | (0xdc00..=0xdfff, None) => {
                return Err(self.in_string(at, LOW_MUST_FOLLOW));
            }
            (0, None) => {
                self.place.end = at + 1;
                let message = "unsupported Unicode escape sequence";
                let error = TypeError::new(SqlState::UNTRANSLATABLE_CHARACTER, message);
                let detail = "\\u0000 cannot be converted to text.";
                return Err(error.detail(detail).context(self.context()));
            }
            (code, None) => out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)),
        }
        Ok(at + 1)
    }

    fn invalid_token(&self) -> TypeError {
        let token = self.text.get(self.place.clone()).unwrap_or_default();
        self.invalid(&format!("Token \"{token}\" is invalid."))
    }

    /// The error about a token that is not `expected`.
    pub fn unexpected(&self, expected: &str) -> TypeError {
        if self.token == Some(JsonToken::End) {
            return self.invalid("The input string ended unexpectedly.");
        }
        let token = self.text.get(self.place.clone()).unwrap_or_default();
        self.invalid(&format!("Expected {expected}, but found \"{token}\"."))
    }

    /// 22P02 with this detail, at the current token.
    pub fn invalid(&self, detail: &str) -> TypeError {
        TypeError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            "invalid input syntax for type json",
        )
        .detail(detail)
        .context(self.context())
    }

    /// The line up to the end of the current token.
    pub fn context(&self) -> String {
        let end = self.place.end;
        let mut start = self.line_start.min(end);
        while end - start >= SHOWN {
            start = self.character_end(start).max(start + 1);
        }
        if start - self.line_start.min(start) <= 3 {
            start = self.line_start.min(end);
        }
        let prefix = if start > self.line_start { "..." } else { "" };
        let more = !matches!(self.byte(end), None | Some(b'\n' | b'\r'));
        let suffix = if more && self.token != Some(JsonToken::End) {
            "..."
        } else {
            ""
        };
        let shown = self.text.get(start..end).unwrap_or_default();
        format!("JSON data, line {}: {prefix}{shown}{suffix}", self.line)
    }
}

const LOW_MUST_FOLLOW: &str = "Unicode low surrogate must follow a high surrogate.";
