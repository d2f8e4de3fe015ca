//! The `regexp_…` functions and `~`.

use evenkeel_types::Datum;

use super::matcher::{Groups, Matcher, next_character};
use super::syntax::Options;
use crate::call::Call;
use crate::error::{self, ExprResult};
use crate::gather::{Values, grow};
use crate::pace::{self, Pace};

type Answer = ExprResult<Datum>;

fn options(function: &str, flags: &str) -> ExprResult<Options> {
    let options = Options::of(flags)?;
    if options.global {
        let message = format!("{function}() does not support the \"global\" option");
        return Err(error::parameter(message));
    }
    Ok(options)
}

fn flags<'a>(call: &Call<'a>, at: usize) -> &'a str {
    call.text(at)
}

/// An argument that is at least `least`, or its default.
fn at_least(call: &Call<'_>, at: usize, name: &str, least: i64, default: i64) -> ExprResult<i64> {
    if call.args.len() <= at {
        return Ok(default);
    }
    let value = call.int(at);
    match value >= least {
        true => Ok(value),
        false => Err(error::parameter(format!(
            "invalid value for parameter \"{name}\": {value}"
        ))),
    }
}

/// The place of the character with this number, from 1; `None` behind the end.
fn place_of(call: &Call<'_>, text: &str, number: i64) -> ExprResult<Option<usize>> {
    let number = usize::try_from(number.max(1) - 1).unwrap_or(usize::MAX);
    let (at, characters) = pace::place_of(text, number, call.session)?;
    Ok((characters == number).then_some(at))
}

fn number(value: usize) -> Answer {
    i32::try_from(value)
        .map(Datum::Int4)
        .map_err(|_| error::out_of_range("integer out of range"))
}

fn owned(text: &str) -> Datum {
    text.to_owned().into()
}

/// The text as it is.
fn copied_whole(call: &Call<'_>, text: &str) -> Answer {
    call.room(text.len())?;
    Ok(owned(text))
}

/// `text ~ text`
pub fn tilde(call: &Call<'_>) -> Answer {
    found(call, false).map(Datum::Bool)
}

/// `text !~ text`
pub fn not_tilde(call: &Call<'_>) -> Answer {
    found(call, false).map(|found| Datum::Bool(!found))
}

fn found(call: &Call<'_>, insensitive: bool) -> ExprResult<bool> {
    let options = Options {
        insensitive,
        ..Options::default()
    };
    let matcher = Matcher::of(call.text(1), options)?;
    matcher.is_match(&call.text_form(0)?, &mut call.pace())
}

/// `text ~* text`
pub fn tilde_insensitive(call: &Call<'_>) -> Answer {
    found(call, true).map(Datum::Bool)
}

/// `text !~* text`
pub fn not_tilde_insensitive(call: &Call<'_>) -> Answer {
    found(call, true).map(|found| Datum::Bool(!found))
}

/// `regexp_like(text, text)`
pub fn is_like(call: &Call<'_>) -> Answer {
    tilde(call)
}

/// `regexp_like(text, text, text)`
pub fn like_flags(call: &Call<'_>) -> Answer {
    let options = options("regexp_like", flags(call, 2))?;
    let matcher = Matcher::of(call.text(1), options)?;
    let found = matcher.is_match(call.text(0), &mut call.pace())?;
    Ok(Datum::Bool(found))
}

/// Hands over every match from a place on.
fn each_match(
    call: &Call<'_>,
    matcher: &Matcher,
    from: usize,
    mut each: impl FnMut(usize, usize) -> ExprResult<()>,
) -> ExprResult<()> {
    let (text, mut at, mut pace) = (call.text(0), from, call.pace());
    while at <= text.len()
        && let Some((start, end)) = matcher.find(text, at, &mut pace)?
    {
        each(start, end)?;
        at = if start == end {
            next_character(text, end)
        } else {
            end
        };
    }
    Ok(())
}

/// `regexp_count(text, text[, integer[, text]])`
pub fn count(call: &Call<'_>) -> Answer {
    let text = call.text(0);
    let start = at_least(call, 2, "start", 1, 1)?;
    let options = options("regexp_count", flags(call, 3))?;
    let matcher = Matcher::of(call.text(1), options)?;
    let mut found = 0;
    if let Some(from) = place_of(call, text, start)? {
        each_match(call, &matcher, from, |_, _| {
            found += 1;
            Ok(())
        })?;
    }
    number(found)
}

/// The groups of the n-th match.
fn nth_match(
    call: &Call<'_>,
    matcher: &Matcher,
    start: i64,
    nth: i64,
) -> ExprResult<Option<Groups>> {
    let (text, mut pace) = (call.text(0), call.pace());
    let Some(mut at) = place_of(call, text, start)? else {
        return Ok(None);
    };
    let mut left = nth;
    while at <= text.len()
        && let Some((start, end)) = matcher.find(text, at, &mut pace)?
    {
        left -= 1;
        if left == 0 {
            return matcher.groups_of(text, (start, end)).map(Some);
        }
        at = if start == end {
            next_character(text, end)
        } else {
            end
        };
    }
    Ok(None)
}

/// `regexp_instr(text, text[, start[, n[, endoption[, flags[, subexpr]]]]])`
pub fn instr(call: &Call<'_>) -> Answer {
    let text = call.text(0);
    let start = at_least(call, 2, "start", 1, 1)?;
    let nth = at_least(call, 3, "n", 1, 1)?;
    let ending = at_least(call, 4, "endoption", 0, 0)?;
    if ending > 1 {
        let message = format!("invalid value for parameter \"endoption\": {ending}");
        return Err(error::parameter(message));
    }
    let options = options("regexp_instr", flags(call, 5))?;
    let group = at_least(call, 6, "subexpr", 0, 0)?;
    let matcher = Matcher::of(call.text(1), options)?;
    let group = usize::try_from(group).unwrap_or(usize::MAX);
    let groups = nth_match(call, &matcher, start, nth)?;
    let place = groups.and_then(|groups| groups.get(group).copied().flatten());
    let Some((start, end)) = place else {
        return number(0);
    };
    let at = if ending == 1 { end } else { start };
    let before = text.get(..at).unwrap_or_default();
    number(pace::characters(before, call.session)? + 1)
}

/// `regexp_substr(text, text[, start[, n[, flags[, subexpr]]]])`
pub fn substr(call: &Call<'_>) -> Answer {
    let text = call.text(0);
    let start = at_least(call, 2, "start", 1, 1)?;
    let nth = at_least(call, 3, "n", 1, 1)?;
    let options = options("regexp_substr", flags(call, 4))?;
    let group = at_least(call, 5, "subexpr", 0, 0)?;
    let matcher = Matcher::of(call.text(1), options)?;
    let group = usize::try_from(group).unwrap_or(usize::MAX);
    let groups = nth_match(call, &matcher, start, nth)?;
    let place = groups.and_then(|groups| groups.get(group).copied().flatten());
    Ok(place.map_or(Datum::Null, |(start, end)| owned(&text[start..end])))
}

/// `regexp_match(text, text[, text])`
pub fn matched(call: &Call<'_>) -> Answer {
    let text = call.text(0);
    let options = options("regexp_match", flags(call, 2))?;
    let matcher = Matcher::of(call.text(1), options)?;
    let Some(groups) = nth_match(call, &matcher, 1, 1)? else {
        return Ok(Datum::Null);
    };
    let shown =
        |place: &Option<(usize, usize)>| place.map(|(start, end)| text[start..end].to_owned());
    let skip = usize::from(groups.len() > 1);
    Ok(Datum::array(
        groups
            .iter()
            .skip(skip)
            .map(shown)
            .map(Datum::from)
            .collect(),
    ))
}

/// `substring(text from text)`
pub fn substring(call: &Call<'_>) -> Answer {
    let text = call.text(0);
    let matcher = Matcher::of(call.text(1), Options::default())?;
    let Some(groups) = nth_match(call, &matcher, 1, 1)? else {
        return Ok(Datum::Null);
    };
    let place = groups.get(1).or(groups.first()).copied().flatten();
    Ok(place.map_or(Datum::Null, |(start, end)| owned(&text[start..end])))
}

/// `regexp_split_to_array(text, text[, text])`
pub fn split_to_array(call: &Call<'_>) -> Answer {
    let text = call.text(0);
    let options = options("regexp_split_to_array", flags(call, 2))?;
    let matcher = Matcher::of(call.text(1), options)?;
    let (mut parts, mut begin, mut last_end) = (Values::new(call, text.len()), 0, 0);
    each_match(call, &matcher, 0, |start, end| {
        // Empty matches at the ends and right behind another do not divide.
        if start < text.len() && end > last_end {
            parts.push(text[begin..start].into())?;
            begin = end;
        }
        last_end = end;
        Ok(())
    })?;
    parts.push(text[begin..].into())?;
    Ok(parts.array())
}

/// A piece of a replacement, in which `\1` to `\9` and `\&` stand for groups.
enum Piece<'a> {
    Text(&'a str),
    Group(usize),
}

fn pieces(replacement: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = replacement;
    std::iter::from_fn(move || {
        let bytes = rest.as_bytes();
        let (piece, length) = match (bytes.first()?, bytes.get(1)) {
            (b'\\', Some(digit @ b'1'..=b'9')) => (Piece::Group(usize::from(digit - b'0')), 2),
            (b'\\', Some(b'&')) => (Piece::Group(0), 2),
            (b'\\', Some(b'\\')) => (Piece::Text(&rest[..1]), 2),
            _ => {
                let next = memchr::memchr(b'\\', bytes.get(1..)?);
                let length = next.map_or(rest.len(), |at| at + 1);
                (Piece::Text(&rest[..length]), length)
            }
        };
        rest = &rest[length..];
        Some(piece)
    })
}

fn span(groups: &Groups, at: usize) -> (usize, usize) {
    groups.get(at).copied().flatten().unwrap_or((0, 0))
}

/// Bytes that stand for a match.
fn replaced_bytes(replacement: &str, groups: &Groups) -> usize {
    let bytes = pieces(replacement).map(|piece| match piece {
        Piece::Text(text) => text.len(),
        Piece::Group(at) => {
            let (start, end) = span(groups, at);
            end - start
        }
    });
    bytes.fold(0, usize::saturating_add)
}

/// Appends what stands for a match.
fn append(
    out: &mut String,
    replacement: &str,
    text: &str,
    groups: &Groups,
    pace: &mut Pace<'_>,
) -> ExprResult<()> {
    for piece in pieces(replacement) {
        pace.step(1)?;
        match piece {
            Piece::Text(text) => pace.append(out, text)?,
            Piece::Group(at) => {
                let (start, end) = span(groups, at);
                pace.append(out, &text[start..end])?;
            }
        }
    }
    Ok(())
}

/// Replaces the `nth` match from a place on, or with 0 all.
fn replaced(call: &Call<'_>, options: Options, start: i64, nth: i64) -> Answer {
    let (text, replacement) = (call.text(0), call.text(2));
    let matcher = Matcher::of(call.text(1), options)?;
    let mut pace = call.pace();
    let Some(mut at) = place_of(call, text, start)? else {
        return copied_whole(call, text);
    };
    let (mut out, mut copied, mut found) = (String::new(), 0, 0);
    while at <= text.len()
        && let Some((start, end)) = matcher.find(text, at, &mut pace)?
    {
        found += 1;
        at = if start == end {
            next_character(text, end)
        } else {
            end
        };
        if nth > 0 && found != nth {
            continue;
        }
        let groups = matcher.groups_of(text, (start, end))?;
        let more = replaced_bytes(replacement, &groups);
        grow(call, &mut out, (start - copied).saturating_add(more))?;
        pace.append(&mut out, &text[copied..start])?;
        append(&mut out, replacement, text, &groups, &mut pace)?;
        copied = end;
        if nth > 0 {
            break;
        }
    }
    grow(call, &mut out, text.len() - copied)?;
    pace.append(&mut out, &text[copied..])?;
    Ok(out.into())
}

/// `regexp_replace(text, text, text[, text])`
pub fn replace(call: &Call<'_>) -> Answer {
    let given = flags(call, 3);
    if given.starts_with(|c: char| c.is_ascii_digit()) {
        let digit = &given[..1];
        let message = format!("invalid regular expression option: \"{digit}\"");
        return Err(error::parameter(message));
    }
    let options = Options::of(given)?;
    replaced(call, options, 1, i64::from(!options.global))
}

/// `regexp_replace(text, text, text, integer[, integer[, text]])`
pub fn replace_from(call: &Call<'_>) -> Answer {
    let start = at_least(call, 3, "start", 1, 1)?;
    let nth = at_least(call, 4, "n", 0, 1)?;
    let options = Options::of(flags(call, 5))?;
    replaced(call, options, start, nth)
}
