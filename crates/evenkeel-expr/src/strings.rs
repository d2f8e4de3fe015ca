//! Functions of strings and bytes.

use std::borrow::Cow;
use std::collections::HashSet;

use evenkeel_types::{Datum, TypeError, without_blanks};

use crate::call::Call;
use crate::error::{self, ExprResult};
use crate::gather::grow;
use crate::memory::MAX_VALUE;
use crate::pace::{self, Pace, Search};

type Answer = ExprResult<Datum>;

fn text(value: impl Into<String>) -> Answer {
    let value: String = value.into();
    Ok(value.into())
}

/// A part of an argument as a value of its own.
fn part(call: &Call<'_>, value: &str) -> Answer {
    call.room(value.len())?;
    let mut out = String::with_capacity(value.len());
    call.pace().append(&mut out, value)?;
    Ok(out.into())
}

/// As [`part`], of bytes.
fn bytes_part(call: &Call<'_>, value: &[u8]) -> Answer {
    call.room(value.len())?;
    let mut out = Vec::with_capacity(value.len());
    call.pace().append_bytes(&mut out, value)?;
    Ok(out.into())
}

/// The texts one behind the other.
fn joined(call: &Call<'_>, parts: &[&str]) -> Answer {
    let bytes = parts.iter().map(|part| part.len());
    let bytes = bytes.fold(0, usize::saturating_add);
    call.room(bytes)?;
    let mut out = String::with_capacity(bytes);
    let mut pace = call.pace();
    for part in parts {
        pace.append(&mut out, part)?;
    }
    Ok(out.into())
}

/// Bytes one behind the other.
fn bytes_joined(call: &Call<'_>, parts: &[&[u8]]) -> Answer {
    let bytes = parts.iter().map(|part| part.len());
    let bytes = bytes.fold(0, usize::saturating_add);
    call.room(bytes)?;
    let mut out = Vec::with_capacity(bytes);
    let mut pace = call.pace();
    for part in parts {
        pace.append_bytes(&mut out, part)?;
    }
    Ok(out.into())
}

/// A text made of an argument, piece by piece, of about its length.
fn changed(call: &Call<'_>, mut change: impl FnMut(&str, &mut String)) -> Answer {
    let whole = call.text(0);
    call.room(whole.len())?;
    let mut out = String::with_capacity(whole.len());
    call.pace().each(whole, |piece| {
        change(piece, &mut out);
        Ok(())
    })?;
    Ok(out.into())
}

/// The end of a substring that begins at `start` (from 1) and is `length` long; `None` where there
/// is no end.
fn end_of(start: i64, length: Option<i64>) -> ExprResult<Option<i64>> {
    match length {
        None => Ok(None),
        Some(..0) => Err(error::substring("negative substring length not allowed")),
        Some(length) => Ok(Some(start.saturating_add(length))),
    }
}

fn characters<'a>(
    call: &Call<'_>,
    whole: &'a str,
    start: i64,
    length: Option<i64>,
) -> ExprResult<&'a str> {
    let end = end_of(start, length)?;
    let skip = usize::try_from(start.max(1) - 1).unwrap_or(usize::MAX);
    let take = end.map(|end| usize::try_from((end - start.max(1)).max(0)).unwrap_or(usize::MAX));
    let (from, _) = pace::place_of(whole, skip, call.session)?;
    let rest = whole.get(from..).unwrap_or_default();
    match take {
        None => Ok(rest),
        Some(take) => {
            let (to, _) = pace::place_of(rest, take, call.session)?;
            Ok(rest.get(..to).unwrap_or_default())
        }
    }
}

/// `substring(text, integer)`
pub fn substring_from(call: &Call<'_>) -> Answer {
    part(call, characters(call, call.text(0), call.int(1), None)?)
}

/// `substring(text, integer, integer)`
pub fn substring(call: &Call<'_>) -> Answer {
    let length = Some(call.int(2));
    part(call, characters(call, call.text(0), call.int(1), length)?)
}

fn byte_range(whole: &[u8], start: i64, length: Option<i64>) -> ExprResult<&[u8]> {
    let end = end_of(start, length)?;
    let at = |place: i64| {
        usize::try_from(place.max(1) - 1)
            .unwrap_or(0)
            .min(whole.len())
    };
    let from = at(start);
    let to = end.map_or(whole.len(), at).max(from);
    Ok(&whole[from..to])
}

/// `substring(bytea, integer)`
pub fn bytes_from(call: &Call<'_>) -> Answer {
    bytes_part(call, byte_range(call.bytes(0), call.int(1), None)?)
}

/// `substring(bytea, integer, integer)`
pub fn bytes(call: &Call<'_>) -> Answer {
    let length = Some(call.int(2));
    bytes_part(call, byte_range(call.bytes(0), call.int(1), length)?)
}

/// `overlay(text placing text from integer)`
pub fn overlay(call: &Call<'_>) -> Answer {
    let length = pace::characters(call.text(1), call.session)?;
    overlaid(call, i64::try_from(length).unwrap_or(i64::MAX))
}

/// `overlay(text placing text from integer for integer)`
pub fn overlay_for(call: &Call<'_>) -> Answer {
    overlaid(call, call.int(3))
}

/// Where what is put in begins and ends.
fn span(start: i64, length: i64) -> ExprResult<i64> {
    if start <= 0 {
        return Err(error::substring("negative substring length not allowed"));
    }
    i32::try_from(start.saturating_add(length))
        .map(i64::from)
        .map_err(|_| error::out_of_range("integer out of range"))
}

fn overlaid(call: &Call<'_>, length: i64) -> Answer {
    let (whole, start) = (call.text(0), call.int(2));
    let end = span(start, length)?;
    let before = characters(call, whole, 1, Some(start - 1))?;
    let behind = characters(call, whole, end, None)?;
    joined(call, &[before, call.text(1), behind])
}

/// `overlay(bytea placing bytea from integer)`
pub fn overlay_bytes(call: &Call<'_>) -> Answer {
    bytes_overlaid(call, i64::try_from(call.bytes(1).len()).unwrap_or(i64::MAX))
}

/// `overlay(bytea placing bytea from integer for integer)`
pub fn overlay_bytes_for(call: &Call<'_>) -> Answer {
    bytes_overlaid(call, call.int(3))
}

fn bytes_overlaid(call: &Call<'_>, length: i64) -> Answer {
    let (whole, start) = (call.bytes(0), call.int(2));
    let end = span(start, length)?;
    let before = byte_range(whole, 1, Some(start - 1))?;
    let behind = byte_range(whole, end, None)?;
    bytes_joined(call, &[before, call.bytes(1), behind])
}

/// How many characters `left` or `right` take, of a number that may count from the other end.
fn counted(call: &Call<'_>) -> ExprResult<usize> {
    let number = call.int(1);
    match usize::try_from(number) {
        Ok(number) => Ok(number),
        Err(_) => {
            let less = usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX);
            let all = pace::characters(call.text(0), call.session)?;
            Ok(all.saturating_sub(less))
        }
    }
}

/// `left`
pub fn left(call: &Call<'_>) -> Answer {
    let (whole, take) = (call.text(0), counted(call)?);
    let (end, _) = pace::place_of(whole, take, call.session)?;
    part(call, whole.get(..end).unwrap_or_default())
}

/// `right`
pub fn right(call: &Call<'_>) -> Answer {
    let whole = call.text(0);
    // The least integer has no counterpart: PostgreSQL takes all.
    if call.int(1) == i64::from(i32::MIN) {
        return part(call, whole);
    }
    let take = counted(call)?;
    let skip = pace::characters(whole, call.session)?.saturating_sub(take);
    let (from, _) = pace::place_of(whole, skip, call.session)?;
    part(call, whole.get(from..).unwrap_or_default())
}

/// `reverse(text)`
pub fn reverse(call: &Call<'_>) -> Answer {
    let whole = call.text(0);
    call.room(whole.len())?;
    let mut out = String::with_capacity(whole.len());
    let mut pace = call.pace();
    for character in whole.chars().rev() {
        out.push(character);
        pace.step(1)?;
    }
    Ok(out.into())
}

/// `reverse(bytea)`
pub fn reverse_bytes(call: &Call<'_>) -> Answer {
    let whole = call.bytes(0);
    call.room(whole.len())?;
    let mut out = Vec::with_capacity(whole.len());
    let mut pace = call.pace();
    for piece in whole.rchunks(LINE) {
        out.extend(piece.iter().rev());
        pace.step(piece.len())?;
    }
    Ok(out.into())
}

/// Bytes that are worked on between two counts of the steps.
const LINE: usize = 1 << 12;

/// `upper`, of ASCII letters: the collation is C.
pub fn upper(call: &Call<'_>) -> Answer {
    changed(call, |piece, out| {
        let from = out.len();
        out.push_str(piece);
        out[from..].make_ascii_uppercase();
    })
}

/// `lower`, of ASCII letters.
pub fn lower(call: &Call<'_>) -> Answer {
    changed(call, |piece, out| {
        let from = out.len();
        out.push_str(piece);
        out[from..].make_ascii_lowercase();
    })
}

/// `initcap`
pub fn initcap(call: &Call<'_>) -> Answer {
    let mut inside = false;
    let mut capital = |character: char| {
        let cased = match inside {
            true => character.to_ascii_lowercase(),
            false => character.to_ascii_uppercase(),
        };
        inside = character.is_ascii_alphanumeric();
        cased
    };
    changed(call, |piece, out| {
        out.extend(piece.chars().map(&mut capital));
    })
}

/// `translate`
pub fn translate(call: &Call<'_>) -> Answer {
    let (from, to) = (call.text(1), call.text(2));
    let mut map = std::collections::HashMap::new();
    let mut targets = to.chars();
    let mut pace = call.pace();
    for character in from.chars() {
        let target = targets.next();
        map.entry(character).or_insert(target);
        pace.step(STEPS_OF_LOOKUP)?;
    }
    let each = |character: char| match map.get(&character) {
        Some(target) => *target,
        None => Some(character),
    };
    let whole = call.text(0);
    // A character may become one of four bytes.
    let widest = map.values().flatten().map(|c| c.len_utf8()).max();
    let count = match widest.unwrap_or(1) {
        1 => whole.len(),
        widest => {
            let count = pace::characters(whole, call.session)?;
            whole.len().max(count.saturating_mul(widest))
        }
    };
    call.room(count)?;
    let mut out = String::with_capacity(whole.len());
    for character in whole.chars() {
        out.extend(each(character));
        pace.step(STEPS_OF_LOOKUP)?;
    }
    Ok(out.into())
}

/// A look into a hash table, as steps of a loop.
const STEPS_OF_LOOKUP: usize = 8;

/// The part with this number, from 0, of what separators divide; none where there are fewer. Also
/// how many parts were seen.
fn nth_part<'a>(
    whole: &'a str,
    separator: &Search<'_>,
    number: usize,
    pace: &mut Pace<'_>,
) -> ExprResult<(Option<&'a str>, usize)> {
    let (mut begin, mut seen) = (0, 0);
    loop {
        let end = separator.find(whole.as_bytes(), begin, pace)?;
        if seen == number {
            let end = end.unwrap_or(whole.len());
            return Ok((whole.get(begin..end), seen + 1));
        }
        seen += 1;
        match end {
            None => return Ok((None, seen)),
            Some(end) => begin = end + separator.len(),
        }
    }
}

/// `split_part`
pub fn split_part(call: &Call<'_>) -> Answer {
    let (whole, separator, number) = (call.text(0), call.text(1), call.int(2));
    if number == 0 {
        return Err(error::parameter("field position must not be zero"));
    }
    if whole.is_empty() {
        return text("");
    }
    if separator.is_empty() {
        return part(call, if number.abs() == 1 { whole } else { "" });
    }
    let nth = usize::try_from(number.unsigned_abs() - 1).unwrap_or(usize::MAX);
    let (search, mut pace) = (Search::new(separator.as_bytes()), call.pace());
    let found = match number > 0 {
        true => nth_part(whole, &search, nth, &mut pace)?.0,
        // From the end the matches are still those found from the beginning.
        false => {
            let (_, parts) = nth_part(whole, &search, usize::MAX, &mut pace)?;
            match parts.checked_sub(nth.saturating_add(1)) {
                Some(at) => nth_part(whole, &search, at, &mut pace)?.0,
                None => None,
            }
        }
    };
    part(call, found.unwrap_or_default())
}

/// `starts_with`
pub fn starts_with(call: &Call<'_>) -> Answer {
    Ok(Datum::Bool(call.text(0).starts_with(call.text(1))))
}

/// `ascii`
pub fn ascii(call: &Call<'_>) -> Answer {
    let first = call.text(0).chars().next();
    let code = first.map_or(0, u32::from);
    Ok(Datum::Int4(i32::try_from(code).unwrap_or(0)))
}

fn count(number: usize) -> Answer {
    i32::try_from(number)
        .map(Datum::Int4)
        .map_err(|_| error::out_of_range("integer out of range"))
}

/// `length(text)`; a `char(n)` is held without its blanks.
pub fn length(call: &Call<'_>) -> Answer {
    let text = match call.arg(0) {
        Datum::Char(text) => without_blanks(text),
        _ => call.text(0),
    };
    count(pace::characters(text, call.session)?)
}

/// `octet_length(text)`; of a `char(n)` with its blanks.
pub fn octets(call: &Call<'_>) -> Answer {
    count(call.text(0).len())
}

/// `||` of texts, or of a text and what is printed as one.
pub fn join(call: &Call<'_>) -> Answer {
    joined(call, &[&call.text_cast(0)?, &call.text_cast(1)?])
}

/// `bytea || bytea`
pub fn join_bytes(call: &Call<'_>) -> Answer {
    bytes_joined(call, &[call.bytes(0), call.bytes(1)])
}

/// `strpos`, `position`
pub fn position(call: &Call<'_>) -> Answer {
    let (whole, sought) = (call.text(0), call.text(1));
    if sought.is_empty() {
        return count(1);
    }
    let search = Search::new(sought.as_bytes());
    let found = search.find(whole.as_bytes(), 0, &mut call.pace())?;
    match found.and_then(|at| whole.get(..at)) {
        None => count(0),
        Some(before) => count(pace::characters(before, call.session)? + 1),
    }
}

/// A text with every `from` replaced; it is not empty.
fn with_replaced(call: &Call<'_>, whole: &str, from: &str, to: &str) -> ExprResult<String> {
    let (search, mut pace) = (Search::new(from.as_bytes()), call.pace());
    let (mut found, mut at) = (0usize, 0);
    while let Some(place) = search.find(whole.as_bytes(), at, &mut pace)? {
        found += 1;
        at = place + from.len();
    }
    let kept = whole.len() - found * from.len();
    let bytes = kept.saturating_add(found.saturating_mul(to.len()));
    call.room(bytes)?;
    let mut out = String::with_capacity(bytes);
    let mut copied = 0;
    while let Some(place) = search.find(whole.as_bytes(), copied, &mut pace)? {
        pace.append(&mut out, whole.get(copied..place).unwrap_or_default())?;
        pace.append(&mut out, to)?;
        copied = place + from.len();
    }
    pace.append(&mut out, whole.get(copied..).unwrap_or_default())?;
    Ok(out)
}

/// `replace`
pub fn replace(call: &Call<'_>) -> Answer {
    let (whole, from, to) = (call.text(0), call.text(1), call.text(2));
    if from.is_empty() {
        return part(call, whole);
    }
    text(with_replaced(call, whole, from, to)?)
}

/// Appends a text so many times.
fn append_repeated(
    out: &mut String,
    unit: &str,
    times: usize,
    pace: &mut Pace<'_>,
) -> ExprResult<()> {
    if unit.is_empty() {
        return Ok(());
    }
    let at_once = (LINE / unit.len()).clamp(1, times.max(1));
    let block = unit.repeat(at_once);
    for _ in 0..times / at_once {
        pace.append(out, &block)?;
    }
    for _ in 0..times % at_once {
        pace.append(out, unit)?;
    }
    Ok(())
}

/// `repeat`
pub fn repeat(call: &Call<'_>) -> Answer {
    let times = usize::try_from(call.int(1)).unwrap_or(0);
    let size = call.text(0).len().saturating_mul(times);
    check_size(size)?;
    call.room(size)?;
    let mut out = String::with_capacity(size);
    append_repeated(&mut out, call.text(0), times, &mut call.pace())?;
    text(out)
}

/// 54000 for a value beyond the largest, before it is made.
fn check_size(size: usize) -> ExprResult<()> {
    const HEADER: usize = 4;
    match size > MAX_VALUE - HEADER {
        true => Err(error::too_large("requested length too large")),
        false => Ok(()),
    }
}

/// A text cut or padded to a width, on its left or right.
fn padded(call: &Call<'_>, left: bool) -> Answer {
    let whole = call.text(0);
    let fill = if call.args.len() > 2 {
        call.text(2)
    } else {
        " "
    };
    let width = usize::try_from(call.int(1)).unwrap_or(0);
    let (end, characters) = pace::place_of(whole, width, call.session)?;
    let kept = whole.get(..end).unwrap_or_default();
    let lacking = width.saturating_sub(characters);
    if lacking == 0 || fill.is_empty() {
        return part(call, kept);
    }
    check_size(width.saturating_mul(4))?;
    let unit = pace::characters(fill, call.session)?;
    let (times, rest) = (lacking / unit, lacking % unit);
    let (end, _) = pace::place_of(fill, rest, call.session)?;
    let last = fill.get(..end).unwrap_or_default();
    let bytes = kept.len() + fill.len().saturating_mul(times) + last.len();
    call.room(bytes)?;
    let (mut out, mut pace) = (String::with_capacity(bytes), call.pace());
    if !left {
        pace.append(&mut out, kept)?;
    }
    append_repeated(&mut out, fill, times, &mut pace)?;
    pace.append(&mut out, last)?;
    if left {
        pace.append(&mut out, kept)?;
    }
    text(out)
}

/// `lpad`
pub fn lpad(call: &Call<'_>) -> Answer {
    padded(call, true)
}

/// `rpad`
pub fn rpad(call: &Call<'_>) -> Answer {
    padded(call, false)
}

/// `chr`
pub fn chr(call: &Call<'_>) -> Answer {
    let code = call.int(0);
    if code < 0 {
        return Err(error::parameter("character number must be positive"));
    }
    if code == 0 {
        return Err(error::too_large("null character not permitted"));
    }
    let wrong = |what: &str| error::too_large(format!("requested character {what}: {code}"));
    if code > 0x10_ffff {
        return Err(wrong("too large for encoding"));
    }
    let character = u32::try_from(code).ok().and_then(char::from_u32);
    character
        .map(|c| c.to_string().into())
        .ok_or_else(|| wrong("not valid for encoding"))
}

/// `bit_length(text)`
pub fn bits(call: &Call<'_>) -> Answer {
    count(call.text(0).len().saturating_mul(8))
}

/// `length(bytea)` and `octet_length(bytea)`
pub fn byte_count(call: &Call<'_>) -> Answer {
    count(call.bytes(0).len())
}

/// `bit_length(bytea)`
pub fn byte_bits(call: &Call<'_>) -> Answer {
    count(call.bytes(0).len().saturating_mul(8))
}

/// `position(bytea in bytea)`, whose arguments stand the other way round.
pub fn byte_position(call: &Call<'_>) -> Answer {
    let (whole, sought) = (call.bytes(0), call.bytes(1));
    if sought.is_empty() {
        return Ok(Datum::Int4(1));
    }
    let search = Search::new(sought);
    let found = search.find(whole, 0, &mut call.pace())?;
    count(found.map_or(0, |at| at + 1))
}

fn trimmed(call: &Call<'_>, start: bool, end: bool) -> Answer {
    let (whole, set) = (call.bytes(0), call.bytes(1));
    let mut members = [false; 256];
    for byte in set {
        members[usize::from(*byte)] = true;
    }
    let mut kept = whole;
    let mut pace = call.pace();
    while let Some((first, rest)) = kept.split_first().filter(|_| start)
        && members[usize::from(*first)]
    {
        kept = rest;
        pace.step(1)?;
    }
    while let Some((last, rest)) = kept.split_last().filter(|_| end)
        && members[usize::from(*last)]
    {
        kept = rest;
        pace.step(1)?;
    }
    bytes_part(call, kept)
}

/// `btrim(bytea, bytea)`
pub fn trim_bytes(call: &Call<'_>) -> Answer {
    trimmed(call, true, true)
}

/// `ltrim(bytea, bytea)`
pub fn trim_bytes_left(call: &Call<'_>) -> Answer {
    trimmed(call, true, false)
}

/// `rtrim(bytea, bytea)`
pub fn trim_bytes_right(call: &Call<'_>) -> Answer {
    trimmed(call, false, true)
}

/// Text without the characters of a set at its ends, in a time that is the sum of the lengths.
fn text_trimmed(call: &Call<'_>, start: bool, end: bool) -> Answer {
    let set = if call.args.len() > 1 {
        call.text(1)
    } else {
        " "
    };
    let mut pace = call.pace();
    let mut members = HashSet::new();
    for character in set.chars() {
        members.insert(character);
        pace.step(STEPS_OF_LOOKUP)?;
    }
    let mut rest = call.text(0).chars();
    while start && let Some(first) = rest.clone().next().filter(|c| members.contains(c)) {
        rest = rest.as_str()[first.len_utf8()..].chars();
        pace.step(STEPS_OF_LOOKUP)?;
    }
    while end
        && rest
            .clone()
            .next_back()
            .is_some_and(|c| members.contains(&c))
    {
        rest.next_back();
        pace.step(STEPS_OF_LOOKUP)?;
    }
    part(call, rest.as_str())
}

/// `btrim(text[, text])`
pub fn trim(call: &Call<'_>) -> Answer {
    text_trimmed(call, true, true)
}

/// `ltrim(text[, text])`
pub fn trim_left(call: &Call<'_>) -> Answer {
    text_trimmed(call, true, false)
}

/// `rtrim(text[, text])`
pub fn trim_right(call: &Call<'_>) -> Answer {
    text_trimmed(call, false, true)
}

fn place(call: &Call<'_>, most: usize) -> ExprResult<usize> {
    let at = call.int(1);
    usize::try_from(at)
        .ok()
        .filter(|at| *at < most)
        .ok_or_else(|| {
            let last = i64::try_from(most).unwrap_or(i64::MAX) - 1;
            error::subscript(format!("index {at} out of valid range, 0..{last}"))
        })
}

/// `get_byte`
pub fn get_byte(call: &Call<'_>) -> Answer {
    let bytes = call.bytes(0);
    let at = place(call, bytes.len())?;
    Ok(Datum::Int4(i32::from(bytes[at])))
}

/// The bytes with another one at a place.
fn with_byte(call: &Call<'_>, at: usize, byte: u8) -> Answer {
    let mut out = bytes_part(call, call.bytes(0))?;
    if let Datum::Bytea(bytes) = &mut out {
        bytes[at] = byte;
    }
    Ok(out)
}

/// `set_byte`
pub fn set_byte(call: &Call<'_>) -> Answer {
    let bytes = call.bytes(0);
    let at = place(call, bytes.len())?;
    with_byte(call, at, (call.int(2) & 0xff) as u8)
}

/// `get_bit`
pub fn get_bit(call: &Call<'_>) -> Answer {
    let bytes = call.bytes(0);
    let at = place(call, bytes.len() * 8)?;
    Ok(Datum::Int4(i32::from(bytes[at / 8] >> (at % 8) & 1)))
}

/// `set_bit`
pub fn set_bit(call: &Call<'_>) -> Answer {
    let bytes = call.bytes(0);
    let at = place(call, bytes.len() * 8)?;
    let mask = 1 << (at % 8);
    let byte = bytes[at / 8];
    match call.int(2) {
        0 => with_byte(call, at / 8, byte & !mask),
        1 => with_byte(call, at / 8, byte | mask),
        _ => Err(error::parameter("new bit must be 0 or 1")),
    }
}

/// `bit_count(bytea)`
pub fn bit_count(call: &Call<'_>) -> Answer {
    let mut ones = 0;
    call.pace().each_bytes(call.bytes(0), |piece| {
        let counts = piece.iter().map(|byte| i64::from(byte.count_ones()));
        ones += counts.sum::<i64>();
    })?;
    Ok(Datum::Int8(ones))
}

/// Words of PostgreSQL's grammar that are not free for names.
const RESERVED: &str = " all analyse analyze and any array as asc asymmetric both case cast check \
    collate column constraint create current_catalog current_date current_role current_time \
    current_timestamp current_user default deferrable desc distinct do else end except false \
    fetch for foreign from grant group having in initially intersect into lateral leading limit \
    localtime localtimestamp not null offset on only or order placing primary references \
    returning select session_user some symmetric system_user table then to trailing true union \
    unique user using variadic when where window with authorization binary collation \
    concurrently cross current_schema freeze full ilike inner is isnull join left like natural \
    notnull outer overlaps right similar tablesample verbose between bigint bit boolean char \
    character coalesce dec decimal exists extract float greatest grouping inout int integer \
    interval json json_array json_arrayagg json_exists json_object json_objectagg json_query \
    json_scalar json_serialize json_table json_value least merge_action national nchar none \
    normalize nullif numeric out overlay position precision real row setof smallint substring \
    time timestamp treat trim values varchar xmlattributes xmlconcat xmlelement xmlexists \
    xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable ";

/// A text between quotes, those in it doubled.
fn quoted(call: &Call<'_>, value: &str, quote: &str) -> ExprResult<String> {
    let body = with_replaced(call, value, quote, &quote.repeat(2))?;
    let mut out = String::with_capacity(body.len() + 2);
    out.push_str(quote);
    call.pace().append(&mut out, &body)?;
    out.push_str(quote);
    Ok(out)
}

/// A name as it must be written.
fn identifier(call: &Call<'_>, name: &str) -> ExprResult<String> {
    let mut bytes = name.bytes();
    let begins = bytes
        .next()
        .is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let safe = begins
        && name.len() <= RESERVED.len()
        && bytes.all(plain)
        && !RESERVED.contains(&format!(" {name} "));
    match safe {
        true => Ok(name.to_owned()),
        false => quoted(call, name, "\""),
    }
}

/// A text as a literal.
fn literal(call: &Call<'_>, value: &str) -> ExprResult<String> {
    let quoted = quoted(call, value, "'")?;
    match quoted.contains('\\') {
        true => Ok("E".to_owned() + &with_replaced(call, &quoted, "\\", "\\\\")?),
        false => Ok(quoted),
    }
}

/// `quote_ident`
pub fn quote_ident(call: &Call<'_>) -> Answer {
    text(identifier(call, call.text(0))?)
}

/// `quote_literal`
pub fn quote_literal(call: &Call<'_>) -> Answer {
    text(literal(call, &call.text_cast(0)?)?)
}

/// `quote_nullable`
pub fn quote_nullable(call: &Call<'_>) -> Answer {
    match call.is_null(0) {
        true => text("NULL"),
        false => text(literal(call, &call.text_cast(0)?)?),
    }
}

/// The text forms of the arguments from one on that are not NULL, with a text between them.
fn concatenated(call: &Call<'_>, from: usize, between: &str) -> Answer {
    let (mut out, mut pace, mut first) = (String::new(), call.pace(), true);
    for at in (from..call.args.len()).filter(|at| !call.is_null(*at)) {
        let part = call.text_form(at)?;
        let between = if first { "" } else { between };
        first = false;
        grow(call, &mut out, between.len().saturating_add(part.len()))?;
        pace.append(&mut out, between)?;
        pace.append(&mut out, &part)?;
    }
    text(out)
}

/// `concat`: the text forms of all that is not NULL.
pub fn concat(call: &Call<'_>) -> Answer {
    concatenated(call, 0, "")
}

/// `concat_ws`
pub fn concat_ws(call: &Call<'_>) -> Answer {
    match call.is_null(0) {
        true => Ok(Datum::Null),
        false => concatenated(call, 1, call.text(0)),
    }
}

/// `format`: `%s`, `%I` and `%L`, with positions, widths and flags.
pub fn format(call: &Call<'_>) -> Answer {
    if call.is_null(0) {
        return Ok(Datum::Null);
    }
    let (mut out, mut next, mut pace) = (String::new(), 0_usize, call.pace());
    let mut rest = call.text(0);
    grow(call, &mut out, rest.len())?;
    while let Some((before, after)) = rest.split_once('%') {
        grow(call, &mut out, before.len() + 1)?;
        pace.append(&mut out, before)?;
        pace.step(FORMAT_STEPS)?;
        if let Some(after) = after.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let (specifier, after) = Specifier::read(after)?;
        specifier.write(call, &mut next, &mut out, &mut pace)?;
        rest = after;
    }
    grow(call, &mut out, rest.len())?;
    pace.append(&mut out, rest)?;
    text(out)
}

/// A specifier of `format`, as steps of a loop.
const FORMAT_STEPS: usize = 64;

/// A width: as a number, or as an argument.
#[derive(Debug, Clone, Copy)]
enum Width {
    Number(i64),
    Argument(Option<i64>),
}

#[derive(Debug)]
struct Specifier {
    position: Option<i64>,
    left: bool,
    width: Width,
    conversion: char,
}

fn unterminated() -> TypeError {
    error::parameter("unterminated format() type specifier")
}

/// A number at the beginning of a text; 22003 when it is too large.
fn digits(text: &str) -> ExprResult<(Option<i64>, &str)> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    if length == 0 {
        return Ok((None, text));
    }
    let (digits, rest) = text.split_at(length);
    let number = digits.parse::<i32>();
    let number = number.map_err(|_| error::out_of_range("number is out of range"))?;
    match rest.is_empty() {
        true => Err(unterminated()),
        false => Ok((Some(i64::from(number)), rest)),
    }
}

impl Specifier {
    fn read(text: &str) -> ExprResult<(Specifier, &str)> {
        let (number, mut rest) = digits(text)?;
        let (mut position, mut width) = (None, Width::Number(0));
        let mut has_width = false;
        if let Some(number) = number {
            match rest.strip_prefix('$') {
                Some(after) => (position, rest) = (Some(number), after),
                None => (width, has_width) = (Width::Number(number), true),
            }
        }
        if position == Some(0) {
            let message = "format specifies argument 0, but arguments are numbered from 1";
            return Err(error::parameter(message));
        }
        let mut left = false;
        if !has_width {
            while let Some(after) = rest.strip_prefix('-') {
                (left, rest) = (true, after);
            }
            if let Some(after) = rest.strip_prefix('*') {
                let (argument, after) = digits(after)?;
                rest = match argument {
                    None => after,
                    Some(_) => after.strip_prefix('$').ok_or_else(|| {
                        error::parameter("width argument position must be ended by \"$\"")
                    })?,
                };
                width = Width::Argument(argument);
            } else if let (Some(number), after) = digits(rest)? {
                (width, rest) = (Width::Number(number), after);
            }
        }
        let conversion = rest.chars().next().ok_or_else(unterminated)?;
        if !matches!(conversion, 's' | 'I' | 'L') {
            return Err(error::parameter(format!(
                "unrecognized format() type specifier \"{conversion}\""
            )));
        }
        let specifier = Specifier {
            position,
            left,
            width,
            conversion,
        };
        Ok((specifier, &rest[1..]))
    }

    fn write(
        &self,
        call: &Call<'_>,
        next: &mut usize,
        out: &mut String,
        pace: &mut Pace<'_>,
    ) -> ExprResult<()> {
        let argument = |position: Option<i64>, next: &mut usize| {
            let at = match position {
                Some(position) => usize::try_from(position).unwrap_or(usize::MAX),
                None => *next + 1,
            };
            *next = at;
            match at < call.args.len() {
                true => Ok(at),
                false => Err(error::parameter("too few arguments for format()")),
            }
        };
        let mut left = self.left;
        let width = match self.width {
            Width::Number(width) => width,
            Width::Argument(position) => {
                let at = argument(position, next)?;
                let text = call.text_form(at)?;
                match (call.is_null(at), text.trim().parse::<i32>()) {
                    (true, _) => 0,
                    (_, Ok(width)) => i64::from(width),
                    _ => {
                        return Err(error::text_representation(format!(
                            "invalid input syntax for type integer: \"{text}\""
                        )));
                    }
                }
            }
        };
        left |= width < 0;
        let at = argument(self.position, next)?;
        let value = match (self.conversion, call.is_null(at)) {
            ('s', true) => Cow::Borrowed(""),
            ('s', _) => call.text_form(at)?,
            ('I', true) => {
                return Err(error::null(
                    "null values cannot be formatted as an SQL identifier",
                ));
            }
            ('I', _) => identifier(call, &call.text_form(at)?)?.into(),
            (_, true) => Cow::Borrowed("NULL"),
            _ => literal(call, &call.text_form(at)?)?.into(),
        };
        let width = usize::try_from(width.unsigned_abs()).unwrap_or(usize::MAX);
        let characters = pace::characters(&value, call.session)?;
        let blanks = width.saturating_sub(characters);
        grow(call, out, value.len().saturating_add(blanks))?;
        if left {
            pace.append(out, &value)?;
        }
        append_repeated(out, " ", blanks, pace)?;
        if !left {
            pace.append(out, &value)?;
        }
        Ok(())
    }
}
