//! Tokens, and what the parts of the lexer share.

use evenkeel_types::SqlState;

use super::keywords::Kw;
use crate::ast::Pos;
use crate::error::PlanError;

/// PostgreSQL's limit of a name, its terminating byte included.
pub(super) const NAME_BYTES: usize = 64;

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tok {
    /// A name, quoted or not.
    Ident,
    /// A keyword.
    Key(Kw),
    /// A keyword that the grammar knows as another token because of the keyword after it: NOT
    /// before LIKE, NULLS before FIRST, WITH before ORDINALITY and their kin. It is no name.
    Joined(Kw),
    /// An integer that fits an `int4`; [`Token::extra`] is its value.
    Integer,
    /// Any other number.
    Number,
    /// A string of any quoting.
    Str,
    /// `B'…'`
    Bits,
    /// `X'…'`
    HexBits,
    /// `$1`; [`Token::extra`] is its number.
    Param,
    /// An operator without a token of its own.
    Op,
    /// `::`
    TypeCast,
    /// `..`
    DotDot,
    /// `:=`
    ColonEquals,
    /// `=>`
    EqualsGreater,
    /// `<=`
    LessEquals,
    /// `>=`
    GreaterEquals,
    /// `<>`, `!=`
    NotEquals,
    /// Any other character.
    Char(u8),
    /// The end of the text.
    End,
    /// Text that the lexer refuses; the error is [`Tokens::error`].
    Bad,
}

/// A token and its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    pub(super) tok: Tok,
    pub(super) start: u32,
    pub(super) end: u32,
    /// The index of its value in [`Tokens::values`], or [`Token::PLAIN`]; for a short number the
    /// number.
    pub(super) extra: u32,
}

impl Token {
    /// The value is what stands in the text, without its quotes.
    pub(super) const PLAIN: u32 = u32::MAX;
}

/// The tokens of a text. The last one is [`Tok::End`] or [`Tok::Bad`].
#[derive(Debug, Default)]
pub(super) struct Tokens {
    pub(super) list: Vec<Token>,
    /// Values that differ from what stands in the text.
    pub(super) values: Vec<String>,
    /// The error of the last token.
    pub(super) error: Option<PlanError>,
}

/// A string that has been read: its end and its value.
pub(super) struct Scanned {
    pub(super) tok: Tok,
    pub(super) end: usize,
    /// `None` if the text between its quotes is its value.
    pub(super) value: Option<String>,
}

/// 42601 `message at or near "near"`.
pub(super) fn error_near(message: &str, near: &str, at: usize) -> PlanError {
    let message = if near.is_empty() {
        format!("{message} at end of input")
    } else {
        format!("{message} at or near \"{near}\"")
    };
    PlanError::new(SqlState::SYNTAX_ERROR, message).at(Pos(at as u32))
}

pub(super) fn is_ident_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

pub(super) fn is_ident(byte: u8) -> bool {
    is_ident_start(byte) || byte.is_ascii_digit() || byte == b'$'
}

pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Cuts an identifier to 63 bytes at the boundary of a character.
pub(super) fn truncate_name(name: &mut String) {
    if name.len() >= NAME_BYTES {
        let mut end = NAME_BYTES - 1;
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        name.truncate(end);
    }
}
