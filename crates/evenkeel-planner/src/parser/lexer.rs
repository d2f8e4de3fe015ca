//! Text to tokens, by the rules of PostgreSQL's lexer. An error of the lexer is a token, because
//! the parser may find an earlier one.

use super::keywords::Kw;
use super::token::{
    NAME_BYTES, Scanned, Tok, Token, Tokens, error_near, is_ident, is_ident_start, is_space,
    truncate_name,
};
use super::{numbers, strings};
use crate::error::PlanError;

fn is_operator(byte: u8) -> bool {
    matches!(
        byte,
        b'~' | b'!'
            | b'@'
            | b'#'
            | b'^'
            | b'&'
            | b'|'
            | b'`'
            | b'?'
            | b'+'
            | b'-'
            | b'*'
            | b'/'
            | b'%'
            | b'<'
            | b'>'
            | b'='
    )
}

/// Whether two keywords make the first one [`Tok::Joined`].
fn is_joined(first: Kw, second: Kw) -> bool {
    match first {
        Kw::Not => matches!(
            second,
            Kw::Between | Kw::In | Kw::Like | Kw::Ilike | Kw::Similar
        ),
        Kw::Nulls => matches!(second, Kw::First | Kw::Last),
        Kw::With => matches!(second, Kw::Time | Kw::Ordinality),
        Kw::Without => second == Kw::Time,
        Kw::Format => second == Kw::Json,
        _ => false,
    }
}

/// The tokens of `text`, up to the first that the lexer refuses or to `limit` tokens.
pub(super) fn tokens(text: &str, limit: usize) -> Tokens {
    let mut lexer = Lexer {
        text,
        bytes: text.as_bytes(),
        at: 0,
        tokens: Tokens::default(),
    };
    lexer.tokens.list.reserve(text.len().min(1 << 16) / 5 + 2);
    let start = loop {
        let start = match lexer.skip_blank() {
            Ok(start) => start,
            Err(error) => break lexer.refuse(error),
        };
        if start == text.len() || lexer.tokens.list.len() >= limit {
            lexer.push(Tok::End, start, start, Token::PLAIN);
            return lexer.tokens;
        }
        lexer.at = start;
        if let Err(error) = lexer.token() {
            break lexer.refuse(error);
        }
    };
    lexer.push(Tok::Bad, start, text.len(), Token::PLAIN);
    lexer.tokens
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    tokens: Tokens,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn refuse(&mut self, error: PlanError) -> usize {
        self.tokens.error = Some(error);
        self.at
    }

    fn push(&mut self, tok: Tok, start: usize, end: usize, extra: u32) {
        self.at = end;
        self.tokens.list.push(Token {
            tok,
            start: start as u32,
            end: end as u32,
            extra,
        });
    }

    fn push_value(&mut self, start: usize, scanned: Scanned) {
        let extra = match scanned.value {
            None => Token::PLAIN,
            Some(value) => {
                self.tokens.values.push(value);
                (self.tokens.values.len() - 1) as u32
            }
        };
        self.push(scanned.tok, start, scanned.end, extra);
    }

    /// The end of the run of bytes from `from` on that `wanted` takes.
    fn run(&self, from: usize, wanted: impl Fn(u8) -> bool) -> usize {
        let rest = self.bytes.get(from..).unwrap_or_default();
        from + rest.iter().take_while(|byte| wanted(**byte)).count()
    }

    /// The place of the next token: behind white space and comments.
    fn skip_blank(&mut self) -> Result<usize, PlanError> {
        let mut at = self.at;
        loop {
            at = self.run(at, is_space);
            match self.bytes.get(at..at + 2) {
                Some(b"--") => at = self.run(at, |byte| byte != b'\n' && byte != b'\r'),
                Some(b"/*") => at = self.comment(at)?,
                _ => return Ok(at),
            }
        }
    }

    /// The end of the comment at `start`; comments nest.
    fn comment(&mut self, start: usize) -> Result<usize, PlanError> {
        let mut depth = 1_usize;
        let mut at = start + 2;
        while let Some(pair) = self.bytes.get(at..at + 2) {
            match pair {
                b"*/" => {
                    at += 2;
                    depth -= 1;
                    if depth == 0 {
                        return Ok(at);
                    }
                }
                b"/*" => {
                    at += 2;
                    depth += 1;
                }
                _ => at += 1,
            }
        }
        self.at = start;
        let near = &self.text[start..];
        Err(error_near("unterminated /* comment", near, start))
    }

    fn token(&mut self) -> Result<(), PlanError> {
        let start = self.at;
        match self.bytes[start] {
            b'\'' => {
                let scanned = strings::standard(self.text, start, start + 1)?;
                self.push_value(start, scanned);
            }
            b'"' => {
                let scanned = strings::quoted_name(self.text, start)?;
                self.push_value(start, scanned);
            }
            b'$' => self.dollar()?,
            b'.' if self.peek(1) == b'.' => self.push(Tok::DotDot, start, start + 2, Token::PLAIN),
            b'.' if self.peek(1).is_ascii_digit() => self.number()?,
            b':' if self.peek(1) == b':' => {
                self.push(Tok::TypeCast, start, start + 2, Token::PLAIN);
            }
            b':' if self.peek(1) == b'=' => {
                self.push(Tok::ColonEquals, start, start + 2, Token::PLAIN);
            }
            b'0'..=b'9' => self.number()?,
            byte if is_ident_start(byte) => self.word(byte)?,
            byte if is_operator(byte) => self.operator()?,
            byte => self.push(Tok::Char(byte), start, start + 1, Token::PLAIN),
        }
        Ok(())
    }

    fn word(&mut self, first: u8) -> Result<(), PlanError> {
        let start = self.at;
        let quote = self.peek(1) == b'\'';
        let scanned = match first | 0x20 {
            b'b' if quote => strings::bits(self.text, start, Tok::Bits)?,
            b'x' if quote => strings::bits(self.text, start, Tok::HexBits)?,
            b'e' if quote => strings::escaped(self.text, start)?,
            b'n' if quote => {
                self.push(Tok::Key(Kw::Nchar), start, start + 1, Token::PLAIN);
                return Ok(());
            }
            b'u' if self.peek(1) == b'&' && matches!(self.peek(2), b'\'' | b'"') => {
                return self.unicode();
            }
            _ => {
                let end = self.run(start + 1, is_ident);
                let keyword = Kw::of(&self.bytes[start..end]);
                if let (Some(keyword), Some(last)) = (keyword, self.tokens.list.last_mut())
                    && let Tok::Key(first) = last.tok
                    && is_joined(first, keyword)
                {
                    last.tok = Tok::Joined(first);
                }
                let tok = keyword.map_or(Tok::Ident, Tok::Key);
                self.push(tok, start, end, Token::PLAIN);
                return Ok(());
            }
        };
        self.push_value(start, scanned);
        Ok(())
    }

    /// `U&'…'` or `U&"…"`, with the UESCAPE that may follow.
    fn unicode(&mut self) -> Result<(), PlanError> {
        let start = self.at;
        let mut scanned = if self.peek(2) == b'"' {
            strings::quoted_name(self.text, start)?
        } else {
            strings::standard(self.text, start, start + 3)?
        };
        let inner = start + 3..scanned.end - 1;
        let raw = match scanned.value.take() {
            Some(value) => value,
            None => self.text[inner].to_owned(),
        };
        self.at = scanned.end;
        let after = self.skip_blank()?;
        let mut escape = b'\\';
        let word_end = self.run(after, is_ident);
        if Kw::of(&self.bytes[after..word_end]) == Some(Kw::Uescape) {
            self.at = word_end;
            let (mark, end) = self.uescape()?;
            escape = mark;
            scanned.end = end;
        }
        self.at = start;
        let mut value = strings::unicode(&raw, start, escape)?;
        if scanned.tok == Tok::Ident {
            truncate_name(&mut value);
        }
        scanned.value = Some(value);
        self.push_value(start, scanned);
        Ok(())
    }

    /// The string after UESCAPE: its character, and where it ends.
    fn uescape(&mut self) -> Result<(u8, usize), PlanError> {
        let at = self.skip_blank()?;
        self.at = at;
        let first = self.bytes.get(at).copied().unwrap_or(0);
        let escape_string = matches!(first, b'e' | b'E') && self.peek(1) == b'\'';
        let scanned = if first == b'\'' {
            strings::standard(self.text, at, at + 1)?
        } else if escape_string {
            strings::escaped(self.text, at)?
        } else {
            let end = if at < self.text.len() {
                let list = tokens(&self.text[at..], 1);
                if let Some(error) = list.error {
                    return Err(error);
                }
                at + list.list.first().map_or(0, |token| token.end as usize)
            } else {
                at
            };
            let message = "UESCAPE must be followed by a simple string literal";
            return Err(error_near(message, &self.text[at..end], at));
        };
        let value = match &scanned.value {
            Some(value) => value.as_bytes(),
            None => &self.bytes[at + 1..scanned.end - 1],
        };
        match value {
            [mark] if !mark.is_ascii_hexdigit() && !is_space(*mark) && !b"+'\"".contains(mark) => {
                Ok((*mark, scanned.end))
            }
            _ => {
                let near = &self.text[at..scanned.end];
                Err(error_near("invalid Unicode escape character", near, at))
            }
        }
    }

    /// `$1`, `$tag$…$tag$` or a lone `$`.
    fn dollar(&mut self) -> Result<(), PlanError> {
        let start = self.at;
        if self.peek(1).is_ascii_digit() {
            let digits = numbers::digits(self.bytes, start + 1, |byte| byte.is_ascii_digit());
            if self
                .bytes
                .get(digits)
                .is_some_and(|byte| is_ident_start(*byte))
            {
                let end = self.run(digits, is_ident);
                let near = &self.text[start..end];
                return Err(error_near("trailing junk after parameter", near, start));
            }
            let text: String = self.text[start + 1..digits].replace('_', "");
            let Ok(number) = text.parse::<i32>() else {
                let near = &self.text[start..digits];
                return Err(error_near("parameter number too large", near, start));
            };
            self.push(Tok::Param, start, digits, number.unsigned_abs());
            return Ok(());
        }
        let is_tag = |byte: u8| is_ident_start(byte) || byte.is_ascii_digit();
        let tag_end = self.run(start + 1, is_tag);
        if self.bytes.get(tag_end) != Some(&b'$') {
            self.push(Tok::Char(b'$'), start, start + 1, Token::PLAIN);
            return Ok(());
        }
        let scanned = strings::dollar(self.text, start, tag_end + 1)?;
        self.push_value(start, scanned);
        Ok(())
    }

    fn number(&mut self) -> Result<(), PlanError> {
        let start = self.at;
        let number = numbers::scan(self.text, start)?;
        match number.value {
            numbers::Value::Integer(value) => {
                self.push(Tok::Integer, start, number.end, value as u32);
            }
            numbers::Value::Number(value) => self.push_value(
                start,
                Scanned {
                    tok: Tok::Number,
                    end: number.end,
                    value,
                },
            ),
        }
        Ok(())
    }

    /// The longest run of operator characters, but for comments in it and for a trailing `+` or
    /// `-` that PostgreSQL leaves to the operand.
    fn operator(&mut self) -> Result<(), PlanError> {
        let start = self.at;
        let mut end = self.run(start, is_operator);
        let run = &self.bytes[start..end];
        if let Some(comment) = run
            .windows(2)
            .position(|pair| pair == b"/*" || pair == b"--")
        {
            end = start + comment;
        }
        let run_end = end;
        let run = &self.bytes[start..end];
        if !run.iter().any(|byte| b"~!@#^&|`?%".contains(byte)) {
            let body = run.iter().rposition(|byte| !matches!(byte, b'+' | b'-'));
            end = start + body.map_or(1, |last| last + 1);
        }
        let tok = match &self.bytes[start..end] {
            [one @ (b'+' | b'-' | b'*' | b'/' | b'%' | b'^' | b'<' | b'>' | b'=')] => {
                Tok::Char(*one)
            }
            b"=>" => Tok::EqualsGreater,
            b">=" => Tok::GreaterEquals,
            b"<=" => Tok::LessEquals,
            b"<>" | b"!=" => Tok::NotEquals,
            _ => Tok::Op,
        };
        if end - start >= NAME_BYTES {
            let near = &self.text[start..end];
            return Err(error_near("operator too long", near, start));
        }
        self.push(tok, start, end, Token::PLAIN);
        // Each sign that was left is a token; a new scan from each would take quadratic time.
        for at in end..run_end {
            self.push(Tok::Char(self.bytes[at]), at, at + 1, Token::PLAIN);
        }
        Ok(())
    }
}
