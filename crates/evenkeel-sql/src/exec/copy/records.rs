//! COPY's records: where they end, and their fields.

use std::borrow::Cow;

use super::CopyShape;
use crate::error::SqlResult;
use crate::protocol::CopyFormat;
use crate::types::invalid_encoding;

/// Finds where records end. It remembers how far it has looked into one whose end has not come
/// yet, so that no byte is looked at twice.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    /// The first byte of the record that was not looked at; one behind the data when a byte to
    /// come is escaped.
    at: usize,
    /// Whether that byte lies within CSV's quotes.
    quoted: bool,
}

impl Scanner {
    /// The length of the record that `data` begins with, without its line feed; `None` while
    /// its end is not there, and `data` begins the same way at the next call.
    pub(super) fn record(&mut self, data: &[u8], shape: &CopyShape) -> Option<usize> {
        loop {
            let rest = data.get(self.at..)?;
            let next = match shape.format {
                CopyFormat::Text => memchr::memchr2(b'\\', b'\n', rest),
                CopyFormat::Csv | CopyFormat::Binary if self.quoted => {
                    memchr::memchr2(shape.quote, shape.escape, rest)
                }
                CopyFormat::Csv | CopyFormat::Binary => memchr::memchr2(shape.quote, b'\n', rest),
            };
            let Some(next) = next else {
                self.at = data.len();
                return None;
            };
            let at = self.at + next;
            let byte = rest[next];
            if byte == b'\n' && !self.quoted {
                *self = Scanner::default();
                return Some(at);
            }
            let escaping = match shape.format {
                // A backslash before a line feed makes it data.
                CopyFormat::Text => true,
                CopyFormat::Csv | CopyFormat::Binary => {
                    self.quoted && byte == shape.escape && byte != shape.quote
                }
            };
            if escaping {
                self.at = at + 2;
            } else {
                self.at = at + 1;
                self.quoted = !self.quoted;
            }
        }
    }

    /// Whether a quote is open where the data ends.
    pub(super) fn is_quoted(&self) -> bool {
        self.quoted
    }
}

/// A field of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Field<'a> {
    /// It stands for NULL.
    Null,
    /// It stands for the column's default.
    Default,
    /// Its text.
    Text(Cow<'a, str>),
}

/// The fields of a record.
pub(super) type Fields<'a> = smallvec::SmallVec<[Field<'a>; 8]>;

/// Splits a record of the text format.
///
/// # Errors
/// 22021 for escapes that make no text.
pub(super) fn split_text<'a>(
    line: &'a str,
    shape: &CopyShape,
    out: &mut Fields<'a>,
) -> SqlResult<()> {
    let bytes = line.as_bytes();
    let mut start = 0;
    let mut at = 0;
    let mut escaped = false;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        match memchr::memchr2(shape.delimiter, b'\\', rest) {
            Some(next) if rest[next] != shape.delimiter => {
                escaped = true;
                at += next + 2;
                continue;
            }
            next => at += next.unwrap_or(rest.len()),
        }
        let field = &line[start..at.min(bytes.len())];
        if field == shape.null {
            out.push(Field::Null);
        } else if shape.is_default(field) {
            out.push(Field::Default);
        } else if escaped {
            out.push(Field::Text(Cow::Owned(unescape(field)?)));
        } else {
            out.push(Field::Text(Cow::Borrowed(field)));
        }
        if at >= bytes.len() {
            return Ok(());
        }
        at += 1;
        start = at;
        escaped = false;
    }
}

fn unescape(field: &str) -> SqlResult<String> {
    let mut out = Vec::with_capacity(field.len());
    let mut bytes = field.bytes().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            None => out.push(b'\\'),
            Some(b'b') => out.push(8),
            Some(b'f') => out.push(12),
            Some(b'n') => out.push(b'\n'),
            Some(b'r') => out.push(b'\r'),
            Some(b't') => out.push(b'\t'),
            Some(b'v') => out.push(11),
            Some(digit @ b'0'..=b'7') => {
                let mut value = u32::from(digit - b'0');
                for _ in 0..2 {
                    let Some(next @ b'0'..=b'7') = bytes.peek().copied() else {
                        break;
                    };
                    value = value * 8 + u32::from(next - b'0');
                    bytes.next();
                }
                // As in PostgreSQL, bits above a byte are lost.
                out.push((value & 0xff) as u8);
            }
            Some(b'x') => {
                let mut value = None;
                for _ in 0..2 {
                    let Some(next) = bytes.peek().and_then(|b| (*b as char).to_digit(16)) else {
                        break;
                    };
                    value = Some(value.unwrap_or(0) * 16 + next);
                    bytes.next();
                }
                out.push(value.map_or(b'x', |value| (value & 0xff) as u8));
            }
            Some(other) => out.push(other),
        }
    }
    match String::from_utf8(out) {
        Ok(text) if !text.as_bytes().contains(&0) => Ok(text),
        Ok(text) => Err(invalid_encoding(text.as_bytes()).into()),
        Err(bad) => Err(invalid_encoding(bad.as_bytes()).into()),
    }
}

/// Splits a record of the CSV format.
pub(super) fn split_csv<'a>(line: &'a str, shape: &CopyShape, out: &mut Fields<'a>) {
    let bytes = line.as_bytes();
    let mut at = 0;
    loop {
        let start = at;
        let mut quoted = false;
        let mut open = false;
        while let Some(byte) = bytes.get(at) {
            if open && *byte == shape.escape && shape.escape != shape.quote {
                at += 1;
            } else if *byte == shape.quote {
                quoted = true;
                open = !open;
            } else if *byte == shape.delimiter && !open {
                break;
            }
            at += 1;
        }
        let at_end = at.min(bytes.len());
        let field = &line[start..at_end];
        let text = match quoted {
            true => Cow::Owned(unquote(field, shape)),
            false => Cow::Borrowed(field),
        };
        let is_null = match quoted {
            true => CopyShape::has(&shape.force_null, out.len()),
            false => !CopyShape::has(&shape.force_not_null, out.len()),
        };
        out.push(if is_null && text == shape.null {
            Field::Null
        } else if !quoted && shape.is_default(field) {
            Field::Default
        } else {
            Field::Text(text)
        });
        if at >= bytes.len() {
            return;
        }
        at += 1;
    }
}

fn unquote(field: &str, shape: &CopyShape) -> String {
    let (quote, escape) = (char::from(shape.quote), char::from(shape.escape));
    let mut out = String::with_capacity(field.len());
    let mut open = false;
    let mut chars = field.chars().peekable();
    while let Some(c) = chars.next() {
        let next = chars.peek().copied();
        if open && c == escape && matches!(next, Some(n) if n == quote || n == escape) {
            out.extend(chars.next());
        } else if c == quote {
            open = !open;
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests::{shape, some, split};
    use super::*;
    use crate::SqlState;

    #[test]
    fn text_fields_are_split_and_unescaped() {
        assert_eq!(
            split(CopyFormat::Text, "1\t\\N\t\ta\\tb\\\\N\\101\\x41"),
            some(&[Some("1"), None, Some(""), Some("a\tb\\NAA")])
        );
        assert_eq!(split(CopyFormat::Text, ""), some(&[Some("")]));
    }

    #[test]
    fn escapes_that_make_no_text_are_refused() {
        let text = shape(CopyFormat::Text);
        for (line, bytes) in [
            ("a\\000b", "0x00"),
            ("\\x00", "0x00"),
            ("\\xff", "0xff"),
            ("\\303(", "0xc3 0x28"),
        ] {
            let error = split_text(line, &text, &mut Fields::new()).unwrap_err();
            assert_eq!(error.sqlstate, SqlState::CHARACTER_NOT_IN_REPERTOIRE);
            let message = format!("invalid byte sequence for encoding \"UTF8\": {bytes}");
            assert_eq!(&*error.message, message);
        }
        assert_eq!(
            split(CopyFormat::Text, "\\303\\244"),
            some(&[Some("\u{e4}")])
        );
    }

    #[test]
    fn csv_fields_are_split_and_unquoted() {
        assert_eq!(
            split(CopyFormat::Csv, "1,,\"\",\"a,\"\"b\"\"\",c\"d\"e"),
            some(&[Some("1"), None, Some(""), Some("a,\"b\""), Some("cde")])
        );
    }

    #[test]
    fn a_record_ends_at_the_first_line_feed_that_is_not_data() {
        let record = |data: &[u8], shape: &CopyShape| Scanner::default().record(data, shape);
        let text = shape(CopyFormat::Text);
        assert_eq!(record(b"a\\\nb\nc", &text), Some(4));
        assert_eq!(record(b"a\\\\\nb", &text), Some(3));
        assert_eq!(record(b"abc", &text), None);
        let csv = shape(CopyFormat::Csv);
        assert_eq!(record(b"\"a\nb\",c\nd", &csv), Some(7));
        let escaped = CopyShape {
            escape: b'\\',
            ..csv
        };
        assert_eq!(record(b"\"a\\\"\n\"\nb", &escaped), Some(6));
    }

    #[test]
    fn records_end_in_the_same_places_however_the_data_is_cut() {
        let csv = shape(CopyFormat::Csv);
        let escaped = CopyShape {
            escape: b'\\',
            ..csv.clone()
        };
        let data = b"\"a\nb\",c\\\n\"\\\"\nx\"\"\n\n\\\\\nq\n";
        for shape in [shape(CopyFormat::Text), csv, escaped] {
            let whole = Scanner::default().record(data, &shape);
            let mut scanner = Scanner::default();
            let piecemeal = (0..=data.len()).find_map(|end| scanner.record(&data[..end], &shape));
            assert_eq!(piecemeal, whole, "{shape:?}");
        }
    }

    #[test]
    fn an_open_quote_costs_time_linear_in_what_follows() {
        let csv = shape(CopyFormat::Csv);
        let mut scanner = Scanner::default();
        let mut data = b"\"".to_vec();
        for _ in 0..20_000 {
            data.extend_from_slice(b"1,2,3\n");
            assert_eq!(scanner.record(&data, &csv), None);
            assert_eq!(scanner.at, data.len());
        }
        assert!(scanner.is_quoted());
    }
}
