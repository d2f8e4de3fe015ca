//! Strings and quoted identifiers, with their escapes.

use evenkeel_types::SqlState;

use super::token::{Scanned, Tok, error_near, is_ident_start, is_space, truncate_name};
use crate::ast::Pos;
use crate::error::PlanError;

fn find(bytes: &[u8], from: usize, wanted: u8) -> Option<usize> {
    let rest = bytes.get(from..)?;
    Some(from + rest.iter().position(|byte| *byte == wanted)?)
}

/// Where a string goes on that was closed at `at`: behind a quote that white space with a newline
/// in it separates from the closing one.
fn continuation(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut newline = false;
    loop {
        match bytes.get(at)? {
            b'\n' | b'\r' => {
                newline = true;
                at += 1;
            }
            byte if is_space(*byte) => at += 1,
            b'-' if bytes.get(at + 1) == Some(&b'-') => {
                let rest = bytes.get(at..)?;
                at += rest
                    .iter()
                    .take_while(|byte| !b"\n\r".contains(byte))
                    .count();
            }
            b'\'' if newline => return Some(at + 1),
            _ => return None,
        }
    }
}

/// A string without escapes whose token begins at `start` and whose text begins at `from`.
pub(super) fn standard(text: &str, start: usize, from: usize) -> Result<Scanned, PlanError> {
    plain(text, start, from, Tok::Str, "unterminated quoted string")
}

/// `B'…'` or `X'…'`.
pub(super) fn bits(text: &str, start: usize, tok: Tok) -> Result<Scanned, PlanError> {
    let message = match tok {
        Tok::Bits => "unterminated bit string literal",
        _ => "unterminated hexadecimal string literal",
    };
    let mut scanned = plain(text, start, start + 2, tok, message)?;
    if scanned.value.is_none() {
        scanned.value = Some(text[start + 2..scanned.end - 1].to_owned());
    }
    Ok(scanned)
}

fn plain(
    text: &str,
    start: usize,
    from: usize,
    tok: Tok,
    message: &str,
) -> Result<Scanned, PlanError> {
    let bytes = text.as_bytes();
    let mut value: Option<String> = None;
    let mut from = from;
    loop {
        let Some(quote) = find(bytes, from, b'\'') else {
            return Err(error_near(message, &text[start..], start));
        };
        // In a bit string two quotes are its end and another string's beginning.
        let double = tok == Tok::Str && bytes.get(quote + 1) == Some(&b'\'');
        let next = if double {
            Some(quote + 2)
        } else {
            continuation(bytes, quote + 1)
        };
        let Some(next) = next else {
            if let Some(value) = &mut value {
                value.push_str(&text[from..quote]);
            }
            let end = quote + 1;
            return Ok(Scanned { tok, end, value });
        };
        let value = value.get_or_insert_default();
        value.push_str(&text[from..quote + usize::from(double)]);
        from = next;
    }
}

/// `"…"` or `U&"…"`.
pub(super) fn quoted_name(text: &str, start: usize) -> Result<Scanned, PlanError> {
    let bytes = text.as_bytes();
    let unicode = bytes[start] != b'"';
    let mut from = start + if unicode { 3 } else { 1 };
    let mut value = String::new();
    let end = loop {
        let Some(quote) = find(bytes, from, b'"') else {
            let message = "unterminated quoted identifier";
            return Err(error_near(message, &text[start..], start));
        };
        value.push_str(&text[from..quote]);
        if bytes.get(quote + 1) != Some(&b'"') {
            break quote + 1;
        }
        value.push('"');
        from = quote + 2;
    };
    if value.is_empty() {
        let message = "zero-length delimited identifier";
        return Err(error_near(message, &text[start..end], start));
    }
    if !unicode {
        truncate_name(&mut value);
    }
    Ok(Scanned {
        tok: Tok::Ident,
        end,
        value: Some(value),
    })
}

/// `$tag$…$tag$`, whose text begins at `from`.
pub(super) fn dollar(text: &str, start: usize, from: usize) -> Result<Scanned, PlanError> {
    let delimiter = &text[start..from];
    let Some(length) = text[from..].find(delimiter) else {
        let message = "unterminated dollar-quoted string";
        return Err(error_near(message, &text[start..], start));
    };
    Ok(Scanned {
        tok: Tok::Str,
        end: from + length + delimiter.len(),
        value: Some(text[from..from + length].to_owned()),
    })
}

fn is_first_surrogate(code: u32) -> bool {
    (0xd800..0xdc00).contains(&code)
}

fn is_second_surrogate(code: u32) -> bool {
    (0xdc00..0xe000).contains(&code)
}

fn pair(first: u32, second: u32) -> u32 {
    ((first & 0x3ff) << 10) + 0x10000 + (second & 0x3ff)
}

/// The value of exactly `count` hexadecimal digits at `at`.
fn hexadecimal(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    let digits = bytes.get(at..at + count)?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// `E'…'`
pub(super) fn escaped(text: &str, start: usize) -> Result<Scanned, PlanError> {
    let mut string = Escaped {
        text,
        bytes: text.as_bytes(),
        start,
        at: start + 2,
        value: Vec::new(),
        first: None,
    };
    let end = string.read()?;
    let value = String::from_utf8(string.value).map_err(|error| bad_bytes(error.as_bytes()))?;
    if value.contains('\0') {
        return Err(bad_bytes(value.as_bytes()));
    }
    Ok(Scanned {
        tok: Tok::Str,
        end,
        value: Some(value),
    })
}

/// 22021 for the first bytes that are not UTF-8, or for a zero byte.
fn bad_bytes(bytes: &[u8]) -> PlanError {
    let valid = match std::str::from_utf8(bytes) {
        Ok(text) => text.len(),
        Err(error) => error.valid_up_to(),
    };
    let zero = bytes.iter().position(|byte| *byte == 0);
    let rest = &bytes[zero.unwrap_or(valid).min(valid)..];
    let length = match rest.first().copied().unwrap_or(0) {
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf8 => 4,
        _ => 1,
    };
    let shown: Vec<String> = rest
        .iter()
        .take(length)
        .map(|byte| format!("0x{byte:02x}"))
        .collect();
    PlanError::new(
        SqlState::CHARACTER_NOT_IN_REPERTOIRE,
        format!(
            "invalid byte sequence for encoding \"UTF8\": {}",
            shown.join(" ")
        ),
    )
}

struct Escaped<'a> {
    text: &'a str,
    bytes: &'a [u8],
    start: usize,
    at: usize,
    value: Vec<u8>,
    /// The first half of a surrogate pair, whose second half must follow at once.
    first: Option<u32>,
}

impl Escaped<'_> {
    /// Reads up to the end of the string and returns it.
    fn read(&mut self) -> Result<usize, PlanError> {
        loop {
            let Some(byte) = self.bytes.get(self.at).copied() else {
                if self.first.is_some() {
                    return Err(self.bad_pair(self.at));
                }
                let near = &self.text[self.start..];
                return Err(error_near("unterminated quoted string", near, self.start));
            };
            let next = self.bytes.get(self.at + 1).copied();
            if self.first.is_some() && !(byte == b'\\' && matches!(next, Some(b'u' | b'U'))) {
                let length = self.text[self.at..]
                    .chars()
                    .next()
                    .map_or(0, char::len_utf8);
                return Err(self.bad_pair(self.at + length));
            }
            match byte {
                b'\'' if next == Some(b'\'') => {
                    self.value.push(b'\'');
                    self.at += 2;
                }
                b'\'' => match continuation(self.bytes, self.at + 1) {
                    Some(from) => self.at = from,
                    None => return Ok(self.at + 1),
                },
                b'\\' => self.escape(next)?,
                _ => {
                    self.value.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn bad_pair(&self, end: usize) -> PlanError {
        let near = &self.text[self.at..end];
        error_near("invalid Unicode surrogate pair", near, self.at)
    }

    fn escape(&mut self, next: Option<u8>) -> Result<(), PlanError> {
        let Some(next) = next else {
            self.at += 1;
            return Ok(());
        };
        let mut length = 2;
        let byte = match next {
            b'u' => return self.unicode(4),
            b'U' => return self.unicode(8),
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'0'..=b'7' => {
                let is_octal = |byte: &&u8| matches!(byte, b'0'..=b'7');
                let digits = self.bytes[self.at + 1..]
                    .iter()
                    .take(3)
                    .take_while(is_octal);
                let (count, value) = digits.fold((0, 0_u32), |(count, value), digit| {
                    (count + 1, value * 8 + u32::from(digit - b'0'))
                });
                length = 1 + count;
                (value & 0xff) as u8
            }
            b'x' => {
                let two = hexadecimal(self.bytes, self.at + 2, 2).map(|value| (value, 4));
                let one = || hexadecimal(self.bytes, self.at + 2, 1).map(|value| (value, 3));
                match two.or_else(one) {
                    Some((value, read)) => {
                        length = read;
                        value as u8
                    }
                    None => b'x',
                }
            }
            other => other,
        };
        self.value.push(byte);
        self.at += length;
        Ok(())
    }

    /// `\uXXXX` or `\UXXXXXXXX`.
    fn unicode(&mut self, digits: usize) -> Result<(), PlanError> {
        let Some(code) = hexadecimal(self.bytes, self.at + 2, digits) else {
            let error = PlanError::new(INVALID_ESCAPE_SEQUENCE, "invalid Unicode escape");
            return Err(error
                .at(Pos(self.at as u32))
                .hint("Unicode escapes must be \\uXXXX or \\UXXXXXXXX."));
        };
        let end = self.at + 2 + digits;
        let code = match self.first.take() {
            Some(first) if is_second_surrogate(code) => pair(first, code),
            Some(_) => return Err(self.bad_pair(end)),
            None if is_first_surrogate(code) => {
                self.first = Some(code);
                self.at = end;
                return Ok(());
            }
            None if is_second_surrogate(code) => return Err(self.bad_pair(end)),
            None => code,
        };
        let Some(character) = char::from_u32(code).filter(|_| code != 0) else {
            let near = &self.text[self.at..end];
            return Err(error_near("invalid Unicode escape value", near, self.at));
        };
        let mut buffer = [0; 4];
        let utf8 = character.encode_utf8(&mut buffer);
        self.value.extend_from_slice(utf8.as_bytes());
        self.at = end;
        Ok(())
    }
}

const INVALID_ESCAPE_SEQUENCE: SqlState = SqlState("22025");

/// Resolves `\XXXX` and `\+XXXXXX` of a `U&` string whose token begins at `start`. A position of
/// an error counts from there in the string with its doubled quotes made one, as PostgreSQL does.
pub(super) fn unicode(raw: &str, start: usize, escape: u8) -> Result<String, PlanError> {
    let bytes = raw.as_bytes();
    let mut value = String::with_capacity(raw.len());
    let mut first: Option<u32> = None;
    let mut at = 0;
    let error = |at: usize, message: &str| {
        PlanError::new(SqlState::SYNTAX_ERROR, message).at(Pos((start + 3 + at) as u32))
    };
    let bad_pair = |at: usize| error(at, "invalid Unicode surrogate pair");
    while let Some(byte) = bytes.get(at).copied() {
        let next = bytes.get(at + 1).copied();
        if byte != escape || next == Some(escape) {
            if first.is_some() {
                return Err(bad_pair(at));
            }
            let Some(character) = raw[at..].chars().next() else {
                break;
            };
            value.push(character);
            at += character.len_utf8() + usize::from(byte == escape);
            continue;
        }
        let long = (next == Some(b'+'))
            .then(|| hexadecimal(bytes, at + 2, 6))
            .flatten();
        let (code, length) = match (hexadecimal(bytes, at + 1, 4), long) {
            (Some(code), _) => (code, 5),
            (None, Some(code)) => (code, 8),
            (None, None) => {
                let hint = "Unicode escapes must be \\XXXX or \\+XXXXXX.";
                return Err(error(at, "invalid Unicode escape").hint(hint));
            }
        };
        if code == 0 || code > 0x10_ffff {
            return Err(error(at, "invalid Unicode escape value"));
        }
        match first.take() {
            Some(half) if is_second_surrogate(code) => {
                value.extend(char::from_u32(pair(half, code)));
            }
            Some(_) => return Err(bad_pair(at)),
            None if is_first_surrogate(code) => first = Some(code),
            None if is_second_surrogate(code) => return Err(bad_pair(at)),
            None => value.extend(char::from_u32(code)),
        }
        at += length;
    }
    if first.is_some() {
        return Err(bad_pair(at));
    }
    Ok(value)
}

/// An unquoted identifier's name: ASCII letters folded, cut to 63 bytes.
pub(super) fn fold(text: &str) -> String {
    debug_assert!(text.bytes().next().is_some_and(is_ident_start));
    let mut name = text.to_ascii_lowercase();
    truncate_name(&mut name);
    name
}
