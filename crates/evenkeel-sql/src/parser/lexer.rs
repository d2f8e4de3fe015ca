//! A cheap scan of query text, ahead of the parser: where statements end, and how deep they are.

use std::ops::Range;

use smallvec::SmallVec;

/// Class of a token, as far as this scan distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
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

/// Cuts a text into tokens, in linear time and without memory.
pub(super) struct Lexer<'a> {
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
    pub(super) fn new(text: &'a str) -> Lexer<'a> {
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

    pub(super) fn next(&mut self) -> Option<(Token, Range<usize>)> {
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
}
