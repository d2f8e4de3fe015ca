//! Text forms: the types' input and output functions.

use bytes::{BufMut, BytesMut};

use crate::array;
use crate::context::{ByteaOutput, TypeContext};
use crate::datetime;
use crate::datum::{ArrayValue, Datum};
use crate::error::{SqlState, TypeError, TypeResult};
use crate::format::Format;
use crate::identity::SqlType;
use crate::interval::{Interval, IntervalStyle};
use crate::json;
use crate::numeric::Numeric;
use crate::padding::padded;
use crate::record;
use crate::shortest;
use crate::system_columns::{TupleId, parse_number};
use crate::wire::{hex_digit, put_integer, put_with_length, uuid_text, write_string};

/// Bytes of the longest identifier.
const NAME_LENGTH: usize = 63;

impl Datum {
    /// The input function of `ty`: from text, with the type's modifier applied.
    ///
    /// A string that is too long is cut only where PostgreSQL's assignment would (blanks at the
    /// end); otherwise 22001. Other errors: 22P02, 22003, 22007, 22008.
    pub fn parse_text(ty: SqlType, text: &str, cx: &TypeContext) -> TypeResult<Datum> {
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
            SqlType::Text | SqlType::Unknown => without_zero(text)?.into(),
            SqlType::Array(element, modifier) => array::parse(modifier.on(*element), text, cx)?,
            _ if ty.is_string() => fit_string(without_zero(text)?, ty)?,
            SqlType::Date => Datum::Date(datetime::parse_date(text, cx)?),
            SqlType::Time(digits) => {
                let micros = datetime::parse_time(text, cx)?;
                Datum::Time(datetime::round_seconds(micros, digits))
            }
            SqlType::Timetz(digits) => {
                Datum::Timetz(datetime::parse_timetz(text, cx)?.rounded(digits))
            }
            SqlType::Timestamp(digits) => {
                let micros = datetime::parse_timestamp(text, cx)?;
                Datum::Timestamp(datetime::round_seconds(micros, digits))
            }
            SqlType::Timestamptz(digits) => {
                let micros = datetime::parse_timestamptz(text, cx)?;
                Datum::Timestamptz(datetime::round_seconds(micros, digits))
            }
            SqlType::Uuid => Datum::Uuid(parse_uuid(text)?),
            SqlType::Tid => Datum::Tid(TupleId::parse(text).ok_or_else(|| invalid_text(ty, text))?),
            SqlType::Xid | SqlType::Cid => Datum::Oid(parse_bits(text, ty, 32)? as u32),
            SqlType::Xid8 => Datum::Xid8(parse_bits(text, ty, 64)?),
            SqlType::Enum(ty) => Datum::Enum(ty.value(text)?),
            // The domain is asked where the value is coerced to it.
            SqlType::Domain(of) => Datum::parse_text(of.root(), text, cx)?,
            SqlType::Bytea => Datum::Bytea(parse_bytea(text)?),
            SqlType::Json => {
                json::check_json(without_zero(text)?)?;
                text.into()
            }
            SqlType::Jsonb => Datum::Jsonb(json::parse_jsonb(text)?),
            SqlType::Int2Vector | SqlType::OidVector => parse_vector(text, ty)?,
            SqlType::Interval(modifier) => {
                let standard = cx.interval_style == IntervalStyle::SqlStandard;
                Datum::Interval(Interval::parse(text, standard, modifier)?)
            }
            SqlType::Record => {
                return Err(TypeError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "input of anonymous composite types is not implemented",
                ));
            }
            SqlType::Void => {
                return Err(TypeError::unsupported(format!(
                    "input of type {}",
                    ty.base_name()
                )));
            }
            // The object ids, whatever they read as.
            _ => Datum::Oid(parse_oid(text)?),
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
            Datum::Float4(value) => {
                out.put_slice(format_float4(*value, cx.extra_float_digits).as_bytes());
            }
            Datum::Float8(value) => {
                out.put_slice(format_float8(*value, cx.extra_float_digits).as_bytes());
            }
            Datum::Numeric(value) => out.put_slice(value.to_string().as_bytes()),
            Datum::Text(value) => write_string(value, ty, out),
            Datum::Char(value) => out.put_slice(value.as_bytes()),
            Datum::Tid(value) => out.put_slice(value.to_string().as_bytes()),
            Datum::Xid8(value) => out.put_slice(value.to_string().as_bytes()),
            Datum::Uuid(value) => out.put_slice(&uuid_text(value)),
            Datum::Enum(value) => out.put_slice(value.text().as_bytes()),
            Datum::Bytea(value) => match cx.bytea_output {
                ByteaOutput::Hex => put_hex(value, out),
                ByteaOutput::Escape => put_escaped(value, out),
            },
            Datum::Date(_)
            | Datum::Time(_)
            | Datum::Timetz(_)
            | Datum::Timestamp(_)
            | Datum::Timestamptz(_)
            | Datum::Interval(_) => self.write_datetime(cx, out),
            Datum::Array(value) => array::write(value, ty, cx, out),
            Datum::Jsonb(value) => json::write_jsonb(value.root(), out),
            Datum::Record(value) => record::write(value, cx, out),
        }
    }

    fn write_datetime<B: BufMut>(&self, cx: &TypeContext, out: &mut B) {
        let mut text = String::with_capacity(32);
        match self {
            Datum::Date(days) => datetime::push_date(&mut text, *days, cx),
            Datum::Time(micros) => datetime::push_clock(&mut text, *micros),
            Datum::Timetz(time) => datetime::push_timetz(&mut text, *time),
            Datum::Timestamp(micros) => datetime::push_timestamp(&mut text, *micros, None, cx),
            Datum::Timestamptz(micros) => {
                datetime::push_timestamp(&mut text, *micros, Some(&cx.time_zone), cx);
            }
            Datum::Interval(interval) => interval.write(cx.interval_style, &mut text),
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
pub fn text_from_bytes(bytes: &[u8]) -> TypeResult<&str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => without_zero(text),
        Err(_) => Err(invalid_encoding(bytes)),
    }
}

/// Text without a zero byte, which no string may hold: it ends one in a key.
pub fn without_zero(text: &str) -> TypeResult<&str> {
    match memchr::memchr(0, text.as_bytes()) {
        None => Ok(text),
        Some(_) => Err(invalid_encoding(text.as_bytes())),
    }
}

/// 22021 for bytes that are no text, naming the first ones that are not.
pub fn invalid_encoding(bytes: &[u8]) -> TypeError {
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
    TypeError::new(
        SqlState::CHARACTER_NOT_IN_REPERTOIRE,
        format!(
            "invalid byte sequence for encoding \"UTF8\": {}",
            shown.join(" ")
        ),
    )
}

pub(super) fn invalid_text(ty: SqlType, text: &str) -> TypeError {
    TypeError::new(
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
fn parse_bool(text: &str) -> TypeResult<bool> {
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

/// The value of digits with underscores between them, saturated; `None` where they are none.
fn digits_value(digits: &str, radix: u32, leading_underscore: bool) -> Option<i128> {
    let mut value: i128 = 0;
    let mut before = leading_underscore;
    for byte in digits.chars() {
        if byte == '_' {
            if !before {
                return None;
            }
            before = false;
            continue;
        }
        let digit = byte.to_digit(radix)?;
        value = value.saturating_mul(i128::from(radix));
        value = value.saturating_add(i128::from(digit));
        before = true;
    }
    (before && !digits.is_empty()).then_some(value)
}

/// `12`, `1_000`, `0x1F`, `0o17`, `0b101`.
fn parse_int<T: TryFrom<i128>>(text: &str, ty: SqlType) -> TypeResult<T> {
    let body = trim(text);
    let digits = body.strip_prefix(['+', '-']).unwrap_or(body);
    let (radix, rest) = match digits.get(..2) {
        Some("0x" | "0X") => (16, &digits[2..]),
        Some("0o" | "0O") => (8, &digits[2..]),
        Some("0b" | "0B") => (2, &digits[2..]),
        _ => (10, digits),
    };
    let value = digits_value(rest, radix, radix != 10).ok_or_else(|| invalid_text(ty, text))?;
    let value = if body.starts_with('-') { -value } else { value };
    T::try_from(value).map_err(|_| out_of_range(ty, text))
}

fn out_of_range(ty: SqlType, text: &str) -> TypeError {
    let ty = ty.base_name();
    let message = format!("value \"{text}\" is out of range for type {ty}");
    TypeError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
}

fn parse_oid(text: &str) -> TypeResult<u32> {
    if !trim(text)
        .bytes()
        .all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-'))
    {
        return Err(invalid_text(SqlType::Oid, text));
    }
    let value: i64 = parse_int(text, SqlType::Oid)?;
    // A negative number means its 32 bits, as PostgreSQL has always read it.
    u32::try_from(value)
        .or_else(|_| i32::try_from(value).map(i32::cast_unsigned))
        .map_err(|_| out_of_range(SqlType::Oid, text))
}

fn parse_bits(text: &str, ty: SqlType, bits: u32) -> TypeResult<u64> {
    let value = parse_number(text, bits).ok_or_else(|| invalid_text(ty, text))?;
    value.ok_or_else(|| out_of_range(ty, text))
}

fn float_syntax(text: &str, ty: SqlType) -> TypeResult<&str> {
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

fn out_of_float_range(text: &str, ty: SqlType) -> TypeError {
    TypeError::new(
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

fn parse_float8(text: &str) -> TypeResult<f64> {
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

fn parse_float4(text: &str) -> TypeResult<f32> {
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

/// The shortest digits that read back as the same value, laid out as PostgreSQL does; or with
/// `extra` below one 15 digits and so many more.
fn format_float8(value: f64, extra: i32) -> String {
    special_float(value).unwrap_or_else(|| match extra {
        1.. => layout_digits(&shortest::double(value), 15),
        _ => rounded_digits(value, 15 + extra),
    })
}

/// As [`format_float8`], for single precision and 6 digits.
fn format_float4(value: f32, extra: i32) -> String {
    special_float(f64::from(value)).unwrap_or_else(|| match extra {
        1.. => layout_digits(&shortest::single(value), 6),
        _ => rounded_digits(f64::from(value), 6 + extra),
    })
}

/// As C's `%g` with so many significant digits.
fn rounded_digits(value: f64, digits: i32) -> String {
    let digits = digits.max(1);
    let scientific = format!("{value:.*e}", digits as usize - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let mantissa = if mantissa.contains('.') {
        mantissa.trim_end_matches('0').trim_end_matches('.')
    } else {
        mantissa
    };
    layout_digits(&format!("{mantissa}e{exponent}"), digits)
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
pub(super) fn fit_string(text: &str, ty: SqlType) -> TypeResult<Datum> {
    match ty {
        SqlType::Varchar(Some(limit)) | SqlType::Char(Some(limit)) => {
            let limit = limit as usize;
            if text.len() > limit
                && let Some((end, _)) = text.char_indices().nth(limit)
            {
                if text[end..].bytes().any(|b| b != b' ') {
                    let message = format!("value too long for type {}", ty.name());
                    return Err(TypeError::new(
                        SqlState::STRING_DATA_RIGHT_TRUNCATION,
                        message,
                    ));
                }
                return Ok(string_datum(&text[..end], ty));
            }
        }
        _ => {}
    }
    Ok(string_datum(text, ty))
}

/// The value of a string type that a string is, which is not longer than the type's length.
fn string_datum(text: &str, ty: SqlType) -> Datum {
    match ty {
        SqlType::Char(Some(length)) => Datum::Char(padded(text, length)),
        SqlType::Char(None) => Datum::Char(text.to_owned()),
        SqlType::Name => Datum::Text(cut_name(text).to_owned()),
        SqlType::InternalChar => Datum::Text(first_byte(text)),
        _ => Datum::Text(text.to_owned()),
    }
}

/// The value of a `"char"`: the byte that three octal digits behind a backslash give, or the first
/// one, as the character with its number.
fn first_byte(text: &str) -> String {
    let byte = match text.as_bytes() {
        [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7'] => {
            ((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0')
        }
        bytes => bytes.first().copied().unwrap_or(0),
    };
    match byte {
        0 => String::new(),
        byte => char::from(byte).to_string(),
    }
}

/// Fits a string by an explicit cast, which cuts without a word.
pub(super) fn cut_string(text: &str, ty: SqlType) -> Datum {
    let end = match ty {
        SqlType::Varchar(Some(limit)) | SqlType::Char(Some(limit)) => text
            .char_indices()
            .nth(limit as usize)
            .map_or(text.len(), |(at, _)| at),
        _ => text.len(),
    };
    string_datum(&text[..end], ty)
}

fn cut_name(text: &str) -> &str {
    &text[..text.floor_char_boundary(NAME_LENGTH)]
}

fn hex_value(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|v| u8::try_from(v).ok())
}

/// The output of `bytea_output = hex`.
fn put_hex<B: BufMut>(value: &[u8], out: &mut B) {
    out.put_slice(b"\\x");
    for byte in value {
        out.put_u8(hex_digit(byte >> 4));
        out.put_u8(hex_digit(byte & 15));
    }
}

/// The output of `bytea_output = escape`.
fn put_escaped<B: BufMut>(value: &[u8], out: &mut B) {
    for byte in value {
        match byte {
            b'\\' => out.put_slice(b"\\\\"),
            b' '..=b'~' => out.put_u8(*byte),
            _ => {
                let octal = |shift: u8| b'0' + ((byte >> shift) & 7);
                out.put_slice(&[b'\\', octal(6), octal(3), octal(0)]);
            }
        }
    }
}

/// 32 hexadecimal digits, hyphens after any group of four, braces around perhaps.
fn parse_uuid(text: &str) -> TypeResult<[u8; 16]> {
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
fn parse_bytea(text: &str) -> TypeResult<Vec<u8>> {
    let error = || {
        let message = "invalid input syntax for type bytea";
        TypeError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
    };
    if let Some(hex) = text.strip_prefix("\\x") {
        let wrong = |message: String| TypeError::new(SqlState::INVALID_PARAMETER_VALUE, message);
        let nibbles: Vec<u8> = hex
            .chars()
            .filter(|c| !c.is_ascii_whitespace())
            .map(|c| {
                let digit = u8::try_from(c).ok().and_then(hex_value);
                digit.ok_or_else(|| wrong(format!("invalid hexadecimal digit: \"{c}\"")))
            })
            .collect::<TypeResult<_>>()?;
        if !nibbles.len().is_multiple_of(2) {
            return Err(wrong(
                "invalid hexadecimal data: odd number of digits".into(),
            ));
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
fn parse_vector(text: &str, ty: SqlType) -> TypeResult<Datum> {
    let numbers = text.split_ascii_whitespace();
    let numbers: Vec<Datum> = numbers
        .map(|number| match ty {
            SqlType::Int2Vector => parse_int(number, SqlType::Int2).map(Datum::Int2),
            _ => parse_oid(number).map(Datum::Oid),
        })
        .collect::<TypeResult<_>>()?;
    Ok(Datum::Array(ArrayValue::vector(numbers).into()))
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
