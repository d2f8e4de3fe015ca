//! Bytes as text: `encode`, `decode`, encodings of characters, normal forms.

use evenkeel_types::{Datum, SqlState, TypeError, text_from_bytes};
use unicode_normalization::UnicodeNormalization;

use crate::call::Call;
use crate::error::{self, ExprResult};
use crate::pace::Pace;

type Answer = ExprResult<Datum>;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Characters of a line of `base64`.
const LINE: usize = 76;

fn unknown(name: &str) -> TypeError {
    error::parameter(format!("unrecognized encoding: \"{name}\""))
}

/// Appends two hexadecimal digits a byte.
pub(crate) fn hex_encoded(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble & 15)]);
    for byte in bytes {
        out.push(digit(byte >> 4));
        out.push(digit(*byte));
    }
}

/// Bytes as whole lines, but for the last.
fn base64_encoded(bytes: &[u8], out: &mut String) {
    let mut column = 0;
    for group in bytes.chunks(3) {
        // A line ends where the next group begins: not behind the last.
        if column == LINE {
            out.push('\n');
            column = 0;
        }
        let at = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for index in 0..4 {
            out.push(match index <= group.len() {
                true => char::from(ALPHABET[(bits >> (18 - 6 * index) & 63) as usize]),
                false => '=',
            });
        }
        column += 4;
    }
    if column == LINE {
        out.push('\n');
    }
}

fn escaped(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        match byte {
            0 | 0x80.. => {
                let octal = |shift: u8| char::from(b'0' + (byte >> shift & 7));
                out.extend(['\\', octal(6), octal(3), octal(0)]);
            }
            b'\\' => out.push_str("\\\\"),
            _ => out.push(char::from(*byte)),
        }
    }
}

/// `encode(bytea, text)`
pub fn encode(call: &Call<'_>) -> Answer {
    let (bytes, name) = (call.bytes(0), call.text(1));
    let (encoded, most): (fn(&[u8], &mut String), usize) = match name.to_ascii_lowercase().as_str()
    {
        "hex" => (hex_encoded, bytes.len().saturating_mul(2)),
        "base64" => (
            base64_encoded,
            (bytes.len() / 3 + 1).saturating_mul(4) + bytes.len() / 57,
        ),
        "escape" => {
            let special = |byte: &&u8| matches!(byte, 0 | 0x80.. | b'\\');
            let mut count = 0;
            call.pace().each_bytes(bytes, |piece| {
                count += piece.iter().filter(special).count();
            })?;
            (escaped, bytes.len().saturating_add(count * 3))
        }
        _ => return Err(unknown(name)),
    };
    call.room(most)?;
    let mut out = String::with_capacity(most);
    let mut pace = call.pace();
    // Whole lines of base64.
    for piece in bytes.chunks(LINE / 4 * 3 * 64) {
        encoded(piece, &mut out);
        pace.step(piece.len())?;
    }
    Ok(out.into())
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r')
}

fn hex_decoded(text: &str, pace: &mut Pace<'_>) -> ExprResult<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 2);
    let mut characters = text.chars().filter(|c| !is_blank(*c));
    let mut next = || {
        let wrong = |c: char| error::parameter(format!("invalid hexadecimal digit: \"{c}\""));
        let digit = |c: char| c.to_digit(16).and_then(|d| u8::try_from(d).ok());
        characters
            .next()
            .map(|c| digit(c).ok_or_else(|| wrong(c)))
            .transpose()
    };
    while let Some(high) = next()? {
        pace.step(2)?;
        let odd = || error::parameter("invalid hexadecimal data: odd number of digits");
        out.push(high << 4 | next()?.ok_or_else(odd)?);
    }
    Ok(out)
}

fn base64_decoded(text: &str, pace: &mut Pace<'_>) -> ExprResult<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    // The sextets so far, how many, and how many bytes a group with `=` has.
    let (mut bits, mut count, mut end) = (0u32, 0, None);
    for character in text.chars().filter(|c| !is_blank(*c)) {
        // The alphabet is looked through.
        pace.step(8)?;
        let sextet = if character == '=' {
            if end.is_none() {
                if count < 2 {
                    let message = "unexpected \"=\" while decoding base64 sequence";
                    return Err(error::parameter(message));
                }
                end = Some(count - 1);
            }
            0
        } else {
            let found = ALPHABET.iter().position(|of| char::from(*of) == character);
            found.and_then(|at| u32::try_from(at).ok()).ok_or_else(|| {
                error::parameter(format!(
                    "invalid symbol \"{character}\" found while decoding base64 sequence"
                ))
            })?
        };
        bits = bits << 6 | sextet;
        count += 1;
        if count == 4 {
            out.extend_from_slice(&bits.to_be_bytes()[1..=end.unwrap_or(3)]);
            (bits, count) = (0, 0);
        }
    }
    match count {
        0 => Ok(out),
        _ => Err(error::parameter("invalid base64 end sequence")
            .hint("Input data is missing padding, is truncated, or is otherwise corrupted.")),
    }
}

fn unescaped(text: &str, pace: &mut Pace<'_>) -> ExprResult<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.as_bytes();
    while let Some((&byte, rest)) = bytes.split_first() {
        pace.step(1)?;
        let (value, behind) = match (byte, rest) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..]) => {
                ((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'), rest)
            }
            (b'\\', [b'\\', rest @ ..]) => (b'\\', rest),
            (b'\\', _) => {
                return Err(error::text_representation(
                    "invalid input syntax for type bytea",
                ));
            }
            _ => (byte, rest),
        };
        out.push(value);
        bytes = behind;
    }
    Ok(out)
}

/// `decode(text, text)`
pub fn decode(call: &Call<'_>) -> Answer {
    let (text, name) = (call.text(0), call.text(1));
    let mut pace = call.pace();
    call.room(text.len())?;
    let bytes = match name.to_ascii_lowercase().as_str() {
        "hex" => hex_decoded(text, &mut pace),
        "base64" => base64_decoded(text, &mut pace),
        "escape" => unescaped(text, &mut pace),
        _ => return Err(unknown(name)),
    };
    bytes.map(Datum::Bytea)
}

/// An encoding of characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Utf8,
    Latin1,
}

fn encoding(name: &str, role: &str) -> ExprResult<Encoding> {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    match plain.to_ascii_lowercase().as_str() {
        "utf8" | "unicode" => Ok(Encoding::Utf8),
        "latin1" | "iso88591" => Ok(Encoding::Latin1),
        "sqlascii" | "abc" | "win1258" | "win1252" | "latin9" | "latin2" | "koi8r" | "win1251" => {
            Err(error::unsupported(format!(
                "the encoding \"{name}\" is not supported"
            )))
        }
        _ => Err(error::parameter(format!(
            "invalid {role} encoding name \"{name}\""
        ))),
    }
}

/// `convert_from(bytea, name)`
pub fn convert_from(call: &Call<'_>) -> Answer {
    let bytes = call.bytes(0);
    match encoding(call.text(1), "source")? {
        Encoding::Utf8 => {
            call.room(bytes.len())?;
            call.session.check_cancel()?;
            Ok(text_from_bytes(bytes)?.into())
        }
        Encoding::Latin1 => {
            call.room(bytes.len().saturating_mul(2))?;
            let mut text = String::with_capacity(bytes.len());
            call.pace().each_bytes(bytes, |piece| {
                text.extend(piece.iter().map(|byte| char::from(*byte)));
            })?;
            evenkeel_types::without_zero(&text)?;
            Ok(text.into())
        }
    }
}

/// `convert_to(text, name)`
pub fn convert_to(call: &Call<'_>) -> Answer {
    let text = call.text(0);
    let encoding = encoding(call.text(1), "destination")?;
    call.room(text.len())?;
    let (mut out, mut pace) = (Vec::with_capacity(text.len()), call.pace());
    match encoding {
        Encoding::Utf8 => pace.append_bytes(&mut out, text.as_bytes())?,
        Encoding::Latin1 => {
            let narrow = |c: char| u8::try_from(u32::from(c)).map_err(|_| no_equivalent(c));
            pace.each(text, |piece| {
                for character in piece.chars() {
                    out.push(narrow(character)?);
                }
                Ok(())
            })?;
        }
    }
    Ok(out.into())
}

fn no_equivalent(character: char) -> TypeError {
    let mut bytes = [0; 4];
    let encoded = character.encode_utf8(&mut bytes);
    let shown: Vec<String> = encoded
        .bytes()
        .map(|byte| format!("0x{byte:02x}"))
        .collect();
    TypeError::new(
        SqlState::UNTRANSLATABLE_CHARACTER,
        format!(
            "character with byte sequence {} in encoding \"UTF8\" has no equivalent in encoding \
             \"LATIN1\"",
            shown.join(" ")
        ),
    )
}

/// `length(bytea, name)`
pub fn length(call: &Call<'_>) -> Answer {
    let count = match encoding(call.text(1), "encoding")? {
        Encoding::Utf8 => text_from_bytes(call.bytes(0))?.chars().count(),
        Encoding::Latin1 => call.bytes(0).len(),
    };
    Ok(Datum::Int4(i32::try_from(count).unwrap_or(i32::MAX)))
}

/// Hands over the characters of a normal form.
fn normal(call: &Call<'_>, mut each: impl FnMut(char) -> ExprResult<bool>) -> ExprResult<()> {
    let (text, form) = (call.text(0), call.text(1));
    let mut pace = call.pace();
    let mut all = |characters: &mut dyn Iterator<Item = char>| {
        for character in characters {
            pace.step(NORMAL_STEPS)?;
            if !each(character)? {
                break;
            }
        }
        Ok(())
    };
    match form.to_ascii_uppercase().as_str() {
        "NFC" => all(&mut text.nfc()),
        "NFD" => all(&mut text.nfd()),
        "NFKC" => all(&mut text.nfkc()),
        "NFKD" => all(&mut text.nfkd()),
        _ => Err(error::parameter(format!(
            "invalid normalization form: {form}"
        ))),
    }
}

/// A character of a normal form, as steps of a loop.
const NORMAL_STEPS: usize = 16;

/// `normalize(text, text)`
pub fn normalize(call: &Call<'_>) -> Answer {
    let mut out = String::new();
    normal(call, |character| {
        if out.len() + character.len_utf8() > out.capacity() {
            call.room(out.capacity().saturating_mul(2))?;
        }
        out.push(character);
        Ok(true)
    })?;
    Ok(out.into())
}

/// `is_normalized(text, text)`
pub fn is_normalized(call: &Call<'_>) -> Answer {
    let (mut rest, mut same) = (call.text(0).chars(), true);
    normal(call, |character| {
        same = rest.next() == Some(character);
        Ok(same)
    })?;
    Ok(Datum::Bool(same && rest.next().is_none()))
}

fn bad_escape() -> TypeError {
    error::syntax("invalid Unicode escape")
        .hint("Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX.")
}

/// `unistr`
pub fn unistr(call: &Call<'_>) -> Answer {
    let pair = || error::syntax("invalid Unicode surrogate pair");
    let (mut out, mut rest, mut high) = (String::new(), call.text(0), None::<u32>);
    let mut pace = call.pace();
    call.room(rest.len())?;
    while let Some(first) = rest.chars().next() {
        pace.step(1)?;
        let behind = &rest[first.len_utf8()..];
        if first != '\\' || behind.starts_with('\\') {
            if high.is_some() {
                return Err(pair());
            }
            out.push(first);
            rest = behind
                .strip_prefix('\\')
                .filter(|_| first == '\\')
                .unwrap_or(behind);
            continue;
        }
        let (digits, length) = match behind.as_bytes().first() {
            Some(b'u') => (&behind[1..], 4),
            Some(b'U') => (&behind[1..], 8),
            Some(b'+') => (&behind[1..], 6),
            _ => (behind, 4),
        };
        let number = digits
            .get(..length)
            .filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = number.and_then(|number| u32::from_str_radix(number, 16).ok());
        let code = code.ok_or_else(bad_escape)?;
        rest = &digits[length..];
        let code = match (high.take(), code) {
            (Some(first), 0xdc00..=0xdfff) => 0x1_0000 + ((first - 0xd800) << 10) + code - 0xdc00,
            (Some(_), _) | (None, 0xdc00..=0xdfff) => return Err(pair()),
            (None, 0xd800..=0xdbff) => {
                high = Some(code);
                continue;
            }
            (None, code) => code,
        };
        let character = char::from_u32(code).filter(|c| *c != '\0');
        let value = || error::parameter(format!("invalid Unicode code point: {code:04X}"));
        out.push(character.ok_or_else(value)?);
    }
    match high {
        Some(_) => Err(pair()),
        None => Ok(out.into()),
    }
}
