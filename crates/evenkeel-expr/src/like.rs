//! `LIKE` and `ILIKE`.

use evenkeel_types::Datum;

use crate::call::Call;
use crate::error::{self, ExprResult};
use crate::pace::Pace;

type Answer = ExprResult<Datum>;

/// The bytes of the character that begins a text.
fn width(text: &[u8]) -> usize {
    match text.first() {
        None => 0,
        Some(0xc0..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xff) => 4,
        Some(_) => 1,
    }
}

/// Bytes that are looked through at once.
const PIECE: usize = 1 << 18;

/// Whether all of `text` matches: `%` stands for any characters, `_` for one, a backslash takes
/// away the meaning of the character behind it. Characters are compared by their bytes, without
/// the case of ASCII letters where `fold` is set.
fn matches(text: &[u8], pattern: &[u8], fold: bool, pace: &mut Pace<'_>) -> ExprResult<bool> {
    let trailing = || error::escape("LIKE pattern must not end with escape character");
    let same = |a: u8, b: u8| a == b || fold && a.eq_ignore_ascii_case(&b);
    let (mut at, mut next) = (0, 0);
    // Behind the last `%`: the place in the pattern, and the place in the text tried for it.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let matched = match pattern.get(next) {
            Some(b'%') => {
                next += 1;
                if next == pattern.len() {
                    return Ok(true);
                }
                retry = Some((next, at));
                true
            }
            None if at == text.len() => return Ok(true),
            None => false,
            Some(_) if at == text.len() => return Ok(false),
            Some(b'_') => {
                at += width(&text[at..]);
                next += 1;
                at <= text.len()
            }
            Some(b'\\') => {
                let escaped = *pattern.get(next + 1).ok_or_else(trailing)?;
                let matched = same(text[at], escaped);
                at += 1;
                next += 2;
                matched
            }
            Some(byte) => {
                let matched = same(text[at], *byte);
                at += 1;
                next += 1;
                matched
            }
        };
        if !matched {
            let Some((behind, tried)) = retry.filter(|(_, tried)| *tried < text.len()) else {
                return Ok(false);
            };
            pace.step(at - tried + 1)?;
            at = (tried + width(&text[tried..])).min(text.len());
            next = behind;
            // A byte that stands for itself must come: its next place is the next to try.
            if let Some(byte) = pattern
                .get(behind)
                .filter(|b| !fold && !b"%_\\".contains(b))
            {
                let mut pieces = text[at..].chunks(PIECE);
                let skip = loop {
                    let Some(piece) = pieces.next() else {
                        return Ok(false);
                    };
                    if let Some(skip) = memchr::memchr(*byte, piece) {
                        break skip;
                    }
                    at += piece.len();
                    pace.step(piece.len() / 16)?;
                };
                at += skip;
            }
            retry = Some((behind, at));
        }
    }
}

fn texts_match(call: &Call<'_>, fold: bool) -> ExprResult<bool> {
    let (text, pattern) = (call.text_form(0)?, call.text_form(1)?);
    matches(text.as_bytes(), pattern.as_bytes(), fold, &mut call.pace())
}

/// `LIKE`
pub fn like(call: &Call<'_>) -> Answer {
    texts_match(call, false).map(Datum::Bool)
}

/// `NOT LIKE`
pub fn not_like(call: &Call<'_>) -> Answer {
    texts_match(call, false).map(|is| Datum::Bool(!is))
}

/// `ILIKE`
pub fn ilike(call: &Call<'_>) -> Answer {
    texts_match(call, true).map(Datum::Bool)
}

/// `NOT ILIKE`
pub fn not_ilike(call: &Call<'_>) -> Answer {
    texts_match(call, true).map(|is| Datum::Bool(!is))
}

/// `bytea LIKE bytea`: `_` stands for a byte.
fn bytes_match(call: &Call<'_>) -> ExprResult<bool> {
    // Bytes as characters of their own: none of them begins a longer one.
    let mut pace = call.pace();
    let mut wide = |bytes: &[u8]| -> ExprResult<String> {
        call.room(bytes.len().saturating_mul(2))?;
        let mut text = String::with_capacity(bytes.len());
        pace.each_bytes(bytes, |piece| {
            text.extend(piece.iter().map(|byte| char::from(*byte)));
        })?;
        Ok(text)
    };
    let (text, pattern) = (wide(call.bytes(0))?, wide(call.bytes(1))?);
    matches(text.as_bytes(), pattern.as_bytes(), false, &mut pace)
}

/// `bytea LIKE bytea`
pub fn like_bytes(call: &Call<'_>) -> Answer {
    bytes_match(call).map(Datum::Bool)
}

/// `bytea NOT LIKE bytea`
pub fn not_like_bytes(call: &Call<'_>) -> Answer {
    bytes_match(call).map(|is| Datum::Bool(!is))
}

/// A pattern with a backslash where it has another escape; an empty escape takes none.
fn with_backslash<T: Copy + PartialEq>(
    pattern: impl Iterator<Item = T>,
    mut escape: impl Iterator<Item = T>,
    backslash: T,
    pace: &mut Pace<'_>,
    mut out: impl FnMut(T),
) -> ExprResult<()> {
    let (escape, more) = (escape.next(), escape.next());
    if more.is_some() {
        let wrong = error::escape("invalid escape string");
        return Err(wrong.hint("Escape string must be empty or one character."));
    }
    let mut escaped = false;
    for item in pattern {
        pace.step(1)?;
        if Some(item) == escape && !escaped {
            out(backslash);
            escaped = true;
            continue;
        }
        if item == backslash && escape != Some(backslash) && !escaped {
            out(backslash);
        }
        out(item);
        escaped = false;
    }
    Ok(())
}

/// `like_escape(text, text)`
pub fn like_escape(call: &Call<'_>) -> Answer {
    let (pattern, escape) = (call.text(0), call.text(1));
    call.room(pattern.len().saturating_mul(2))?;
    let mut out = String::with_capacity(pattern.len());
    let mut pace = call.pace();
    with_backslash(pattern.chars(), escape.chars(), '\\', &mut pace, |c| {
        out.push(c);
    })?;
    Ok(out.into())
}

/// `like_escape(bytea, bytea)`
pub fn like_escape_bytes(call: &Call<'_>) -> Answer {
    let (pattern, escape) = (call.bytes(0), call.bytes(1));
    call.room(pattern.len().saturating_mul(2))?;
    let mut out = Vec::with_capacity(pattern.len());
    let (items, escape) = (pattern.iter().copied(), escape.iter().copied());
    with_backslash(items, escape, b'\\', &mut call.pace(), |b| out.push(b))?;
    Ok(out.into())
}
