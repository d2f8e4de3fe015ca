//! Numbers: decimal, hexadecimal, octal and binary, with underscores between digits.

use super::token::{error_near, is_ident, is_ident_start};
use crate::error::PlanError;

/// A number that has been read.
pub(super) struct Number {
    pub(super) end: usize,
    pub(super) value: Value,
}

/// Its value.
pub(super) enum Value {
    /// It fits an `int4`.
    Integer(i32),
    /// It does not; `None` if the text is its value.
    Number(Option<String>),
}

/// The end of `digit(_?digit)*` at `from`, which is `from` without a digit.
pub(super) fn digits(bytes: &[u8], from: usize, is_digit: impl Fn(u8) -> bool) -> usize {
    let mut end = from;
    loop {
        let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
        if is_digit(byte(end)) {
            end += 1;
        } else if end > from && byte(end) == b'_' && is_digit(byte(end + 1)) {
            end += 2;
        } else {
            return end;
        }
    }
}

fn ident_end(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    from + rest.iter().take_while(|byte| is_ident(**byte)).count()
}

fn junk(text: &str, start: usize, end: usize) -> PlanError {
    error_near(
        "trailing junk after numeric literal",
        &text[start..end],
        start,
    )
}

/// The number at `start`.
pub(super) fn scan(text: &str, start: usize) -> Result<Number, PlanError> {
    let bytes = text.as_bytes();
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let radix = match (byte(start), byte(start + 1) | 0x20) {
        (b'0', b'x') => 16,
        (b'0', b'o') => 8,
        (b'0', b'b') => 2,
        _ => return decimal(text, start),
    };
    let is_digit = |byte: u8| char::from(byte).is_digit(radix);
    let from = start + 2 + usize::from(byte(start + 2) == b'_');
    let end = digits(bytes, from, is_digit);
    let word_end = ident_end(bytes, start + 1);
    if end == from {
        // The longer of PostgreSQL's two error rules wins, and this one if they are equal.
        if word_end > end {
            return Err(junk(text, start, word_end));
        }
        let name = match radix {
            16 => "hexadecimal",
            8 => "octal",
            _ => "binary",
        };
        let message = format!("invalid {name} integer");
        return Err(error_near(&message, &text[start..end], start));
    }
    if word_end > end {
        return Err(junk(text, start, word_end));
    }
    let plain: String = text[from..end].replace('_', "");
    let value = match u128::from_str_radix(&plain, radix) {
        Ok(value) => match i32::try_from(value) {
            Ok(value) => Value::Integer(value),
            Err(_) => Value::Number(Some(value.to_string())),
        },
        // Larger than 128 bits: the digits go to `numeric` as they are.
        Err(_) => Value::Number(Some(format!("{}{plain}", &text[start..start + 2]))),
    };
    Ok(Number { end, value })
}

fn decimal(text: &str, start: usize) -> Result<Number, PlanError> {
    let bytes = text.as_bytes();
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let is_digit = |byte: u8| byte.is_ascii_digit();
    let mut end = digits(bytes, start, is_digit);
    let mut is_integer = true;
    if byte(end) == b'.' && !(end > start && byte(end + 1) == b'.') {
        is_integer = false;
        end = digits(bytes, end + 1, is_digit);
    }
    if byte(end) | 0x20 == b'e' {
        let sign = usize::from(matches!(byte(end + 1), b'+' | b'-'));
        let exponent = digits(bytes, end + 1 + sign, is_digit);
        if exponent > end + 1 + sign {
            is_integer = false;
            end = exponent;
        } else if sign == 1 {
            return Err(junk(text, start, end + 2));
        }
    }
    if is_ident_start(byte(end)) {
        return Err(junk(text, start, ident_end(bytes, end)));
    }
    let written = &text[start..end];
    let plain = written.contains('_').then(|| written.replace('_', ""));
    let value = match plain.as_deref().unwrap_or(written).parse::<i32>() {
        Ok(value) if is_integer => Value::Integer(value),
        _ => Value::Number(plain),
    };
    Ok(Number { end, value })
}
