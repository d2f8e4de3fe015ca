//! A cheap scan of query text, ahead of the parser: where statements end, and which literals
//! can become parameters so that texts differing only in them share one compiled statement.

use std::ops::Range;

use smallvec::SmallVec;

use crate::error::{SqlError, SqlState};

/// More literals than this and a text is not worth normalising.
const MAX_LITERALS: usize = 64;

/// The protocol counts parameters in 16 bits.
const MAX_PARAMETERS: usize = u16::MAX as usize;

/// What a token is, as far as this scan needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    /// White space or a comment.
    Blank,
    /// An unquoted identifier or keyword.
    Word,
    /// A number without sign.
    Number,
    /// A plain `'…'` string.
    Str,
    /// Anything else with quotes: `"…"`, `E'…'`, `$tag$…$tag$`.
    Quoted,
    /// `$1`.
    Param,
    /// `;`
    Semicolon,
    /// Any other character.
    Symbol(u8),
}

struct Lexer<'a> {
    text: &'a [u8],
    pos: usize,
}

fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn is_word(byte: u8) -> bool {
    is_word_start(byte) || byte.is_ascii_digit() || byte == b'$'
}

impl<'a> Lexer<'a> {
    fn new(text: &'a str) -> Lexer<'a> {
        Lexer {
            text: text.as_bytes(),
            pos: 0,
        }
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.pos + ahead).copied().unwrap_or(0)
    }

    fn skip_while(&mut self, wanted: impl Fn(u8) -> bool) {
        while self.pos < self.text.len() && wanted(self.text[self.pos]) {
            self.pos += 1;
        }
    }

    fn next(&mut self) -> Option<(Token, Range<usize>)> {
        let start = self.pos;
        let first = *self.text.get(start)?;
        let token = match first {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0c => {
                self.skip_while(|b| b.is_ascii_whitespace());
                Token::Blank
            }
            b'-' if self.peek(1) == b'-' => {
                self.skip_while(|b| b != b'\n');
                Token::Blank
            }
            b'/' if self.peek(1) == b'*' => {
                self.block_comment();
                Token::Blank
            }
            b'\'' => {
                self.quoted(b'\'', false);
                Token::Str
            }
            b'"' => {
                self.quoted(b'"', false);
                Token::Quoted
            }
            b'0'..=b'9' => self.number(),
            b'.' if self.peek(1).is_ascii_digit() => self.number(),
            b'$' => self.dollar(),
            b';' => {
                self.pos += 1;
                Token::Semicolon
            }
            _ if is_word_start(first) => self.word(),
            _ => {
                self.pos += 1;
                Token::Symbol(first)
            }
        };
        Some((token, start..self.pos))
    }

    fn block_comment(&mut self) {
        let mut depth = 0usize;
        while self.pos < self.text.len() {
            match (self.peek(0), self.peek(1)) {
                (b'/', b'*') => {
                    depth += 1;
                    self.pos += 2;
                }
                (b'*', b'/') => {
                    depth -= 1;
                    self.pos += 2;
                    if depth == 0 {
                        return;
                    }
                }
                _ => self.pos += 1,
            }
        }
        self.pos = self.text.len();
    }

    fn quoted(&mut self, quote: u8, escapes: bool) {
        self.pos += 1;
        while self.pos < self.text.len() {
            let byte = self.text[self.pos];
            self.pos += 1;
            if byte == b'\\' && escapes {
                self.pos = (self.pos + 1).min(self.text.len());
            } else if byte == quote {
                if self.peek(0) != quote {
                    return;
                }
                self.pos += 1;
            }
        }
    }

    fn number(&mut self) -> Token {
        let digits = |b: u8| b.is_ascii_digit() || b == b'_';
        self.skip_while(digits);
        if self.peek(0) == b'.' && self.peek(1) != b'.' {
            self.pos += 1;
            self.skip_while(digits);
        }
        if matches!(self.peek(0), b'e' | b'E') {
            let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
            if self.peek(1 + sign).is_ascii_digit() {
                self.pos += 1 + sign;
                self.skip_while(digits);
            }
        }
        if is_word_start(self.peek(0)) {
            // 0x1F, 12abc: left to the parser.
            self.skip_while(is_word);
            return Token::Quoted;
        }
        Token::Number
    }

    fn dollar(&mut self) -> Token {
        self.pos += 1;
        if self.peek(0).is_ascii_digit() {
            self.skip_while(|b| b.is_ascii_digit());
            return Token::Param;
        }
        let tag_start = self.pos - 1;
        self.skip_while(|b| is_word(b) && b != b'$');
        if self.peek(0) != b'$' {
            return Token::Symbol(b'$');
        }
        self.pos += 1;
        let tag = &self.text[tag_start..self.pos];
        let rest = &self.text[self.pos..];
        let end = rest.windows(tag.len()).position(|w| w == tag);
        self.pos = end.map_or(self.text.len(), |at| self.pos + at + tag.len());
        Token::Quoted
    }

    fn word(&mut self) -> Token {
        let start = self.pos;
        self.skip_while(is_word);
        let prefix = &self.text[start..self.pos];
        let string_prefix = prefix.len() == 1 && prefix[0].is_ascii_alphabetic();
        if string_prefix && self.peek(0) == b'\'' {
            self.quoted(b'\'', prefix[0].eq_ignore_ascii_case(&b'e'));
            return Token::Quoted;
        }
        Token::Word
    }
}

/// The ranges of the statements of a query text, without their semicolons; statements that
/// hold nothing but blanks are left out.
pub fn split(text: &str) -> SmallVec<[Range<usize>; 2]> {
    let mut found = SmallVec::new();
    let mut lexer = Lexer::new(text);
    let mut start: Option<usize> = None;
    let mut end = 0;
    while let Some((token, range)) = lexer.next() {
        match token {
            Token::Blank => {}
            Token::Semicolon => {
                if let Some(from) = start.take() {
                    found.push(from..end);
                }
            }
            _ => {
                start.get_or_insert(range.start);
                end = range.end;
            }
        }
    }
    if let Some(from) = start {
        found.push(from..end);
    }
    found
}

/// The greatest `n` of the `$n` in a text.
pub fn parameter_count(text: &str) -> usize {
    let mut lexer = Lexer::new(text);
    let mut count = 0;
    while let Some((token, range)) = lexer.next() {
        if token == Token::Param {
            // A number too large for the protocol is refused when it is bound.
            count = count.max(text[range.start + 1..range.end].parse().unwrap_or(0));
        }
    }
    count.min(MAX_PARAMETERS)
}

/// Gives an error about something named in the text the name's position, if it has none yet.
pub fn locate(error: SqlError, text: &str) -> SqlError {
    let named = matches!(
        error.sqlstate,
        SqlState::UNDEFINED_TABLE
            | SqlState::UNDEFINED_COLUMN
            | SqlState::UNDEFINED_FUNCTION
            | SqlState::AMBIGUOUS_COLUMN
    );
    if !named || error.fields.position.is_some() {
        return error;
    }
    let Some(name) = name_in(&error.message) else {
        return error;
    };
    let mut lexer = Lexer::new(text);
    while let Some((token, range)) = lexer.next() {
        let piece = &text[range.clone()];
        let same = match token {
            Token::Word => piece.eq_ignore_ascii_case(name),
            Token::Quoted => piece.trim_matches('"') == name,
            _ => false,
        };
        if same {
            let before = text[..range.start].chars().count();
            return error.at(u32::try_from(before + 1).unwrap_or(u32::MAX));
        }
    }
    error
}

/// The last part of the name that a message is about: the first quoted one, or else the word
/// after its kind (`column t.x does not exist`).
fn name_in(message: &str) -> Option<&str> {
    let name = match message.split('"').nth(1) {
        Some(quoted) => quoted,
        None => message.split_whitespace().nth(1)?,
    };
    let name = name.split('(').next()?;
    name.rsplit('.').next().filter(|name| !name.is_empty())
}

/// What a literal can be before it is known where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LiteralKind {
    /// An integer that fits `integer`.
    Int4,
    /// An integer that fits `bigint`.
    Int8,
    /// Any other number.
    Numeric,
    /// A string: of unknown type until its place tells.
    Unknown,
}

/// A text whose literals have become `$1`, `$2`, ….
#[derive(Debug, PartialEq, Eq)]
pub struct Normalised {
    /// The text to compile.
    pub text: String,
    /// What each parameter was.
    pub kinds: SmallVec<[LiteralKind; 8]>,
    /// The parameters' values in text form.
    pub values: SmallVec<[String; 8]>,
}

/// Replaces the literals of one SELECT, INSERT, UPDATE or DELETE by parameters.
///
/// `None` when there is nothing to replace or something in the text makes it unsafe. Only
/// literals after an operator, a comma, a parenthesis, AND or BETWEEN are replaced, so the
/// parser still sees `LIMIT 10` and `interval '1 day'`; whether a comma stood in an ORDER BY is
/// for the caller to find out: it uses the result only for statements of the compiled kind.
pub fn normalise(text: &str) -> Option<Normalised> {
    let first = text.as_bytes().first()?.to_ascii_lowercase();
    if !matches!(first, b's' | b'i' | b'u' | b'd') {
        return None;
    }
    let mut out = Normalised {
        text: String::with_capacity(text.len() + 16),
        kinds: SmallVec::new(),
        values: SmallVec::new(),
    };
    let mut lexer = Lexer::new(text);
    let mut before = Before::Other;
    let mut first_word = true;
    // A minus that belongs to the literal after it, and where it starts.
    let mut sign: Option<usize> = None;
    while let Some((token, range)) = lexer.next() {
        let piece = &text[range.clone()];
        if sign.is_some() && token != Token::Number {
            out.text.push('-');
            sign = None;
        }
        match token {
            Token::Blank => {
                out.text.push(' ');
                continue;
            }
            Token::Param => return None,
            Token::Number if before == Before::Operand => {
                let (kind, value) = number_literal(piece, sign.take().is_some());
                out.literal(kind, value)?;
                before = Before::Other;
            }
            Token::Str if before == Before::Operand => {
                let inner = piece.get(1..piece.len().checked_sub(1)?)?;
                out.literal(LiteralKind::Unknown, inner.replace("''", "'"))?;
                before = Before::Other;
            }
            Token::Symbol(b'-') if before == Before::Operand => {
                sign = Some(range.start);
                continue;
            }
            Token::Word if std::mem::take(&mut first_word) && !is_dml_verb(piece) => {
                return None;
            }
            _ => {
                before = Before::after(token, piece);
                out.text.push_str(piece);
            }
        }
    }
    (!out.kinds.is_empty()).then_some(out)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// A literal that comes now is an operand.
    Operand,
    Other,
}

impl Before {
    /// What a token that stays text means for a literal behind it.
    fn after(token: Token, piece: &str) -> Before {
        let operand = match token {
            Token::Word => {
                piece.eq_ignore_ascii_case("and") || piece.eq_ignore_ascii_case("between")
            }
            Token::Symbol(symbol) => b"=<>+-*/%(,".contains(&symbol),
            _ => false,
        };
        if operand {
            Before::Operand
        } else {
            Before::Other
        }
    }
}

fn is_dml_verb(word: &str) -> bool {
    ["select", "update", "insert", "delete"]
        .iter()
        .any(|verb| word.eq_ignore_ascii_case(verb))
}

fn number_literal(piece: &str, negative: bool) -> (LiteralKind, String) {
    let mut value = String::with_capacity(piece.len() + 1);
    if negative {
        value.push('-');
    }
    value.extend(piece.chars().filter(|c| *c != '_'));
    // As in PostgreSQL the kind follows from the digits alone: -2147483648 is a bigint.
    let kind = if piece.bytes().all(|b| b.is_ascii_digit() || b == b'_') {
        match value.trim_start_matches('-').parse::<i64>() {
            Ok(number) if number <= i64::from(i32::MAX) => LiteralKind::Int4,
            Ok(_) => LiteralKind::Int8,
            Err(_) => LiteralKind::Numeric,
        }
    } else {
        LiteralKind::Numeric
    };
    (kind, value)
}

impl Normalised {
    fn literal(&mut self, kind: LiteralKind, value: String) -> Option<()> {
        if self.kinds.len() == MAX_LITERALS {
            return None;
        }
        self.kinds.push(kind);
        self.values.push(value);
        self.text.push('$');
        self.text.push_str(itoa(self.kinds.len()).as_str());
        Some(())
    }
}

fn itoa(number: usize) -> String {
    number.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<&str> {
        split(text).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn statements_end_at_top_level_semicolons_only() {
        assert_eq!(
            pieces("select 1; ;select ';' -- ;\n, \";\" /* ; /* ; */ ; */"),
            ["select 1", "select ';' -- ;\n, \";\""]
        );
        assert_eq!(pieces(" -- nothing\n ; ; "), Vec::<&str>::new());
        assert_eq!(pieces("select $x$;$x$;end"), ["select $x$;$x$", "end"]);
        assert_eq!(pieces(r"select E'a\';';x"), [r"select E'a\';'", "x"]);
    }

    #[test]
    fn literals_after_operators_become_parameters() {
        let n = normalise("UPDATE t SET b = b + -534 WHERE aid=99 AND s = 'it''s';").unwrap();
        assert_eq!(n.text, "UPDATE t SET b = b + $1 WHERE aid=$2 AND s = $3;");
        assert_eq!(n.values.as_slice(), ["-534", "99", "it's"]);
        assert_eq!(
            n.kinds.as_slice(),
            [LiteralKind::Int4, LiteralKind::Int4, LiteralKind::Unknown]
        );
    }

    #[test]
    fn an_error_is_placed_at_the_name_it_is_about() {
        let text = "select ä, nope from t";
        let error = SqlError::new(SqlState::UNDEFINED_COLUMN, "column \"nope\" does not exist");
        assert_eq!(locate(error, text).fields.position, Some(11));
        let error = SqlError::new(SqlState::UNDEFINED_COLUMN, "column t.nope does not exist");
        assert_eq!(locate(error, "select t.nope").fields.position, Some(10));
        let error = SqlError::new(SqlState::UNDEFINED_TABLE, "relation \"u\" does not exist");
        assert_eq!(locate(error, text).fields.position, None);
    }

    #[test]
    fn what_the_parser_must_see_stays() {
        assert_eq!(normalise("SELECT a FROM t LIMIT 10"), None);
        assert_eq!(normalise("SELECT a - interval '1 day' FROM t"), None);
        assert_eq!(normalise("SET x = 5"), None);
        assert_eq!(normalise("SELECT $1 + 5"), None);
        let n = normalise("select a-5, x -1 from t where b between 1 and 2").unwrap();
        assert_eq!(
            n.text,
            "select a-$1, x -$2 from t where b between $3 and $4"
        );
    }

    #[test]
    fn a_number_is_of_the_type_its_digits_say() {
        for (text, kind) in [
            ("2147483647", LiteralKind::Int4),
            ("2147483648", LiteralKind::Int8),
            ("1.5", LiteralKind::Numeric),
            ("1e3", LiteralKind::Numeric),
            ("9223372036854775808", LiteralKind::Numeric),
        ] {
            let n = normalise(&format!("select a from t where b={text}")).unwrap();
            assert_eq!(n.kinds.as_slice(), [kind], "{text}");
        }
    }
}
