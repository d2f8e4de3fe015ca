//! Text forms: the types' input and output functions.

use bytes::{BufMut, BytesMut};

use super::datetime;
use super::{Datum, Numeric, SqlType, TypeContext};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::session::api::Format;

/// Bytes of the longest identifier.
const NAME_LENGTH: usize = 63;

impl Datum {
    /// The input function of `ty`: from text, with the type's modifier applied.
    ///
    /// A string that is too long is cut only where PostgreSQL's assignment would (blanks at the
    /// end); otherwise 22001. Other errors: 22P02, 22003, 22007, 22008.
    pub fn parse_text(ty: SqlType, text: &str, cx: &TypeContext) -> SqlResult<Datum> {
        Ok(match ty {
            SqlType::Bool => Datum::Bool(parse_bool(text)?),
            SqlType::Int2 => Datum::Int2(parse_int(text, ty)?),
            SqlType::Int4 => Datum::Int4(parse_int(text, ty)?),
            SqlType::Int8 => Datum::Int8(parse_int(text, ty)?),
            SqlType::Float4 => Datum::Float4(parse_float4(text)?),
            SqlType::Float8 => Datum::Float8(parse_float8(text)?),
            SqlType::Numeric(modifier) => {
                Datum::Numeric(Numeric::parse(text)?.apply_modifier(modifier)?)
            }
            SqlType::Text | SqlType::Unknown | SqlType::TextArray => without_zero(text)?.into(),
            SqlType::Varchar(_) | SqlType::Char(_) | SqlType::Name | SqlType::InternalChar => {
                Datum::Text(fit_string(without_zero(text)?, ty)?)
            }
            SqlType::Date => Datum::Date(datetime::parse_date(text, cx)?),
            SqlType::Time => Datum::Time(datetime::parse_time(text, cx)?),
            SqlType::Timestamp(digits) => {
                let micros = datetime::parse_timestamp(text, cx)?;
                Datum::Timestamp(datetime::round_seconds(micros, digits))
            }
            SqlType::Timestamptz(digits) => {
                let micros = datetime::parse_timestamptz(text, cx)?;
                Datum::Timestamptz(datetime::round_seconds(micros, digits))
            }
            SqlType::Uuid => Datum::Uuid(parse_uuid(text)?),
            SqlType::Bytea => Datum::Bytea(parse_bytea(text)?),
            SqlType::Oid | SqlType::Regclass | SqlType::Regtype | SqlType::Regproc => {
                Datum::Oid(parse_oid(text)?)
            }
            SqlType::Int2Vector | SqlType::OidVector => parse_vector(text, ty)?,
            SqlType::Interval | SqlType::Void => {
                return Err(SqlError::unsupported(format!(
                    "input of type {}",
                    ty.base_name()
                )));
            }
        })
    }

    /// Appends the text form; NULL appends nothing.
    pub fn write_text<B: BufMut>(&self, ty: SqlType, cx: &TypeContext, out: &mut B) {
        match self {
            Datum::Null => {}
            Datum::Bool(value) => out.put_u8(if *value { b't' } else { b'f' }),
            Datum::Int2(value) => put_integer(i64::from(*value), out),
            Datum::Int4(value) => put_integer(i64::from(*value), out),
            Datum::Int8(value) => put_integer(*value, out),
            Datum::Oid(value) => put_integer(i64::from(*value), out),
            Datum::Float4(value) => out.put_slice(format_float4(*value).as_bytes()),
            Datum::Float8(value) => out.put_slice(format_float8(*value).as_bytes()),
            Datum::Numeric(value) => out.put_slice(value.to_string().as_bytes()),
            Datum::Text(value) => write_string(value, ty, out),
            Datum::Uuid(value) => out.put_slice(&uuid_text(value)),
            Datum::Bytea(value) => {
                out.put_slice(b"\\x");
                for byte in value {
                    out.put_u8(hex_digit(byte >> 4));
                    out.put_u8(hex_digit(byte & 15));
                }
            }
            Datum::Date(_)
            | Datum::Time(_)
            | Datum::Timestamp(_)
            | Datum::Timestamptz(_)
            | Datum::Interval(_) => self.write_datetime(cx, out),
        }
    }

    fn write_datetime<B: BufMut>(&self, cx: &TypeContext, out: &mut B) {
        let mut text = String::with_capacity(32);
        match self {
            Datum::Date(days) => datetime::push_date(&mut text, *days),
            Datum::Time(micros) => datetime::push_clock(&mut text, *micros),
            Datum::Timestamp(micros) => datetime::push_timestamp(&mut text, *micros, None),
            Datum::Timestamptz(micros) => {
                datetime::push_timestamp(&mut text, *micros, Some(&cx.time_zone));
            }
            Datum::Interval(interval) => datetime::push_interval(&mut text, *interval),
            _ => {}
        }
        out.put_slice(text.as_bytes());
    }

    /// The text form as a string; empty for NULL.
    pub fn to_text(&self, ty: SqlType, cx: &TypeContext) -> String {
        let mut out = Vec::new();
        self.write_text(ty, cx, &mut out);
        String::from_utf8(out).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into())
    }

    /// Appends a DataRow field: length (-1 for NULL), then the value in `format`.
    pub fn put_field(&self, ty: SqlType, format: Format, cx: &TypeContext, out: &mut BytesMut) {
        if self.is_null() {
            return out.put_i32(-1);
        }
        put_with_length(out, |out| match format {
            Format::Text => self.write_text(ty, cx, out),
            Format::Binary => self.write_binary(ty, out),
        });
    }
}

/// Text from outside: UTF-8 without a zero byte, or 22021.
pub(crate) fn text_from_bytes(bytes: &[u8]) -> SqlResult<&str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => without_zero(text),
        Err(_) => Err(invalid_encoding(bytes)),
    }
}

/// Text without a zero byte, which no string may hold: it ends one in a key.
pub(crate) fn without_zero(text: &str) -> SqlResult<&str> {
    match memchr::memchr(0, text.as_bytes()) {
        None => Ok(text),
        Some(_) => Err(invalid_encoding(text.as_bytes())),
    }
}

/// 22021 for bytes that are no text, naming the first ones that are not.
pub(crate) fn invalid_encoding(bytes: &[u8]) -> SqlError {
    let valid = std::str::from_utf8(bytes).map_or_else(|e| e.valid_up_to(), str::len);
    let bad = memchr::memchr(0, &bytes[..valid]).unwrap_or(valid);
    let length = match bytes.get(bad) {
        Some(0xc0..0xe0) => 2,
        Some(0xe0..0xf0) => 3,
        Some(0xf0..0xf8) => 4,
        _ => 1,
    };
    let shown: Vec<String> = bytes[bad..]
        .iter()
        .take(length)
        .map(|byte| format!("0x{byte:02x}"))
        .collect();
    SqlError::new(
        SqlState::CHARACTER_NOT_IN_REPERTOIRE,
        format!(
            "invalid byte sequence for encoding \"UTF8\": {}",
            shown.join(" ")
        ),
    )
}

/// Appends what `write` appends, with its length in front.
pub(crate) fn put_with_length(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_i32(0);
    write(out);
    let length = i32::try_from(out.len() - start - 4).unwrap_or(i32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends a string, padded when the type is `char(n)`.
pub(crate) fn write_string<B: BufMut>(text: &str, ty: SqlType, out: &mut B) {
    out.put_slice(text.as_bytes());
    if let SqlType::Char(Some(length)) = ty {
        let characters = if text.is_ascii() {
            text.len()
        } else {
            text.chars().count()
        };
        out.put_bytes(b' ', (length as usize).saturating_sub(characters));
    }
}

/// Appends a decimal integer without allocating.
pub(crate) fn put_integer<B: BufMut>(value: i64, out: &mut B) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    out.put_slice(&digits[at..]);
}

pub(super) fn invalid_text(ty: SqlType, text: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!(
            "invalid input syntax for type {}: \"{text}\"",
            ty.base_name()
        ),
    )
}

fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b')
}

/// Any prefix of a word that is not also one of its opposite, as PostgreSQL reads booleans.
fn parse_bool(text: &str) -> SqlResult<bool> {
    let lower = trim(text).to_ascii_lowercase();
    let is_prefix_of = |word: &str, least: usize| lower.len() >= least && word.starts_with(&lower);
    if lower == "1" || is_prefix_of("true", 1) || is_prefix_of("yes", 1) || lower == "on" {
        Ok(true)
    } else if lower == "0"
        || is_prefix_of("false", 1)
        || is_prefix_of("no", 1)
        || is_prefix_of("off", 2)
    {
        Ok(false)
    } else {
        Err(invalid_text(SqlType::Bool, text))
    }
}

fn parse_int<T: std::str::FromStr>(text: &str, ty: SqlType) -> SqlResult<T> {
    let body = trim(text);
    let digits = body.strip_prefix(['+', '-']).unwrap_or(body);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(invalid_text(ty, text));
    }
    body.parse().map_err(|_| {
        SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!(
                "value \"{text}\" is out of range for type {}",
                ty.base_name()
            ),
        )
    })
}

fn parse_oid(text: &str) -> SqlResult<u32> {
    let value: i64 = parse_int(text, SqlType::Oid)?;
    // A negative number means its 32 bits, as PostgreSQL has always read it.
    u32::try_from(value)
        .or_else(|_| i32::try_from(value).map(i32::cast_unsigned))
        .map_err(|_| {
            SqlError::new(
                SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                format!("value \"{text}\" is out of range for type oid"),
            )
        })
}

fn float_syntax(text: &str, ty: SqlType) -> SqlResult<&str> {
    let body = trim(text);
    let unsigned = body.strip_prefix(['+', '-']).unwrap_or(body);
    let word = ["nan", "inf", "infinity"]
        .iter()
        .any(|w| unsigned.eq_ignore_ascii_case(w));
    let number = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if word || number {
        Ok(body)
    } else {
        Err(invalid_text(ty, text))
    }
}

fn out_of_float_range(text: &str, ty: SqlType) -> SqlError {
    SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("\"{text}\" is out of range for type {}", ty.base_name()),
    )
}

/// Whether the digits before an exponent say something other than zero.
fn is_nonzero(body: &str) -> bool {
    body.split(['e', 'E'])
        .next()
        .unwrap_or(body)
        .bytes()
        .any(|b| (b'1'..=b'9').contains(&b))
}

fn parse_float8(text: &str) -> SqlResult<f64> {
    let body = float_syntax(text, SqlType::Float8)?;
    let value: f64 = body
        .parse()
        .map_err(|_| invalid_text(SqlType::Float8, text))?;
    let overflow = value.is_infinite() && !body.to_ascii_lowercase().contains("inf");
    if overflow || (value == 0.0 && is_nonzero(body)) {
        return Err(out_of_float_range(text, SqlType::Float8));
    }
    Ok(value)
}

fn parse_float4(text: &str) -> SqlResult<f32> {
    let body = float_syntax(text, SqlType::Float4)?;
    let value: f32 = body
        .parse()
        .map_err(|_| invalid_text(SqlType::Float4, text))?;
    let overflow = value.is_infinite() && !body.to_ascii_lowercase().contains("inf");
    if overflow || (value == 0.0 && is_nonzero(body)) {
        return Err(out_of_float_range(text, SqlType::Float4));
    }
    Ok(value)
}

/// The shortest digits that read back as the same value, laid out as PostgreSQL does.
fn format_float8(value: f64) -> String {
    special_float(value).unwrap_or_else(|| layout_digits(&format!("{value:e}"), 15))
}

/// As [`format_float8`], for single precision.
fn format_float4(value: f32) -> String {
    special_float(f64::from(value)).unwrap_or_else(|| layout_digits(&format!("{value:e}"), 6))
}

fn special_float(value: f64) -> Option<String> {
    let text = if value.is_nan() {
        "NaN"
    } else if value.is_infinite() {
        if value < 0.0 { "-Infinity" } else { "Infinity" }
    } else if value == 0.0 {
        if value.is_sign_negative() { "-0" } else { "0" }
    } else {
        return None;
    };
    Some(text.to_owned())
}

/// From `1.25e-7` to what C's `%g` would choose: plain between 1e-4 and 10^`plain_digits`.
fn layout_digits(scientific: &str, plain_digits: i32) -> String {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let (sign, mantissa) = mantissa
        .strip_prefix('-')
        .map_or(("", mantissa), |m| ("-", m));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits = mantissa.replace('.', "");
    if !(-4..plain_digits).contains(&exponent) {
        let mark = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{mantissa}e{mark}{:02}", exponent.abs());
    }
    if exponent < 0 {
        let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
        return format!("{sign}0.{zeros}{digits}");
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        return format!("{sign}{digits}{}", "0".repeat(whole - digits.len()));
    }
    format!("{sign}{}.{}", &digits[..whole], &digits[whole..])
}

/// Fits a string into a string type by assignment: blanks at the end may be cut, more is 22001.
pub(super) fn fit_string(text: &str, ty: SqlType) -> SqlResult<String> {
    match ty {
        SqlType::Name => return Ok(cut_name(text).to_owned()),
        SqlType::InternalChar => {
            return Ok(text.chars().next().map(String::from).unwrap_or_default());
        }
        SqlType::Varchar(Some(limit)) | SqlType::Char(Some(limit)) => {
            let limit = limit as usize;
            if text.len() > limit
                && let Some((end, _)) = text.char_indices().nth(limit)
            {
                if text[end..].bytes().any(|b| b != b' ') {
                    let message = format!("value too long for type {}", ty.name());
                    return Err(SqlError::new(
                        SqlState::STRING_DATA_RIGHT_TRUNCATION,
                        message,
                    ));
                }
                return Ok(strip_blanks(&text[..end], ty).to_owned());
            }
        }
        _ => {}
    }
    Ok(strip_blanks(text, ty).to_owned())
}

/// Fits a string by an explicit cast, which cuts without a word.
pub(super) fn cut_string(text: &str, ty: SqlType) -> String {
    let end = match ty {
        SqlType::Varchar(Some(limit)) | SqlType::Char(Some(limit)) => text
            .char_indices()
            .nth(limit as usize)
            .map_or(text.len(), |(at, _)| at),
        SqlType::Name => cut_name(text).len(),
        SqlType::InternalChar => text.chars().next().map_or(0, char::len_utf8),
        _ => text.len(),
    };
    strip_blanks(&text[..end], ty).to_owned()
}

fn strip_blanks(text: &str, ty: SqlType) -> &str {
    if matches!(ty, SqlType::Char(_)) {
        strip_trailing_blanks(text)
    } else {
        text
    }
}

/// Eight at a time: a `char(n)` from elsewhere is mostly blanks.
fn strip_trailing_blanks(mut text: &str) -> &str {
    while let Some((front, [b' ', b' ', b' ', b' ', b' ', b' ', b' ', b' '])) =
        text.as_bytes().split_last_chunk::<8>()
    {
        text = &text[..front.len()];
    }
    text.trim_end_matches(' ')
}

fn cut_name(text: &str) -> &str {
    &text[..text.floor_char_boundary(NAME_LENGTH)]
}

fn hex_digit(nibble: u8) -> u8 {
    b"0123456789abcdef"[usize::from(nibble & 15)]
}

fn hex_value(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|v| u8::try_from(v).ok())
}

/// 36 characters, lower case.
pub(crate) fn uuid_text(value: &[u8; 16]) -> [u8; 36] {
    let mut text = [b'-'; 36];
    let mut at = 0;
    for (index, byte) in value.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            at += 1;
        }
        text[at] = hex_digit(byte >> 4);
        text[at + 1] = hex_digit(byte & 15);
        at += 2;
    }
    text
}

/// 32 hexadecimal digits, hyphens after any group of four, braces around perhaps.
fn parse_uuid(text: &str) -> SqlResult<[u8; 16]> {
    let error = || invalid_text(SqlType::Uuid, text);
    let body = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}').ok_or_else(error)?,
        None => text,
    };
    let mut value = [0u8; 16];
    let mut digits = 0usize;
    let mut hyphen_before = false;
    for byte in body.bytes() {
        if byte == b'-' {
            if digits == 0 || !digits.is_multiple_of(4) || hyphen_before || digits == 32 {
                return Err(error());
            }
            hyphen_before = true;
            continue;
        }
        hyphen_before = false;
        let nibble = hex_value(byte).filter(|_| digits < 32).ok_or_else(error)?;
        value[digits / 2] = (value[digits / 2] << 4) | nibble;
        digits += 1;
    }
    if digits == 32 {
        Ok(value)
    } else {
        Err(error())
    }
}

/// `\x` and hexadecimal digits, or the older escape form.
fn parse_bytea(text: &str) -> SqlResult<Vec<u8>> {
    let error = || invalid_text(SqlType::Bytea, text);
    if let Some(hex) = text.strip_prefix("\\x") {
        let nibbles: Vec<u8> = hex
            .bytes()
            .filter(|b| !b.is_ascii_whitespace())
            .map(|b| hex_value(b).ok_or_else(error))
            .collect::<SqlResult<_>>()?;
        if !nibbles.len().is_multiple_of(2) {
            return Err(error());
        }
        return Ok(nibbles
            .chunks_exact(2)
            .map(|pair| (pair[0] << 4) | pair[1])
            .collect());
    }
    let mut value = Vec::with_capacity(text.len());
    let mut bytes = text.as_bytes();
    while let Some((&first, rest)) = bytes.split_first() {
        bytes = rest;
        if first != b'\\' {
            value.push(first);
            continue;
        }
        match bytes {
            [b'\\', rest @ ..] => {
                value.push(b'\\');
                bytes = rest;
            }
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..] => {
                value.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
                bytes = rest;
            }
            _ => return Err(error()),
        }
    }
    Ok(value)
}

/// Numbers separated by blanks; kept as text.
fn parse_vector(text: &str, ty: SqlType) -> SqlResult<Datum> {
    let numbers: Vec<&str> = text.split_ascii_whitespace().collect();
    if numbers.iter().any(|n| n.parse::<i64>().is_err()) {
        return Err(invalid_text(ty, text));
    }
    Ok(Datum::Text(numbers.join(" ")))
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
