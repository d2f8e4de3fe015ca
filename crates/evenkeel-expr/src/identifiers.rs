//! Identifiers in texts, and sizes for people.

use evenkeel_types::{Datum, Numeric, SqlType, TypeError};

use crate::call::Call;
use crate::error::{self, ExprResult};

type Answer = ExprResult<Datum>;

/// A name of `parse_ident`, as steps of a loop.
const STEPS: usize = 64;

/// `parse_ident(text, boolean)`
pub fn parse_ident(call: &Call<'_>) -> Answer {
    let (whole, strict) = (call.text(0), call.flag(1));
    let refused = |detail: &str| {
        let error = error::parameter(format!("string is not a valid identifier: \"{whole}\""));
        if detail.is_empty() {
            error
        } else {
            error.detail(detail)
        }
    };
    let blank = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0c' | '\x0b');
    let begins = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
    let goes_on = |c: char| begins(c) || c.is_ascii_digit() || c == '$';
    let (mut names, mut after_dot) = (Vec::new(), false);
    let mut rest = whole.trim_start_matches(blank);
    let dots = memchr::memchr_iter(b'.', whole.as_bytes()).count();
    call.room_of_values(dots + 1, whole.len())?;
    let mut pace = call.pace();
    loop {
        pace.step(STEPS)?;
        if let Some(mut quoted) = rest.strip_prefix('"') {
            let mut name = String::new();
            loop {
                let unclosed = || refused("String has unclosed double quotes.");
                let (before, behind) = quoted.split_once('"').ok_or_else(unclosed)?;
                name.push_str(before);
                match behind.strip_prefix('"') {
                    Some(more) => quoted = more,
                    None => {
                        rest = behind;
                        break;
                    }
                }
                name.push('"');
            }
            if name.is_empty() {
                return Err(refused("Quoted identifier must not be empty."));
            }
            names.push(name.into());
        } else if rest.starts_with(begins) {
            let end = rest.find(|c| !goes_on(c)).unwrap_or(rest.len());
            names.push(rest[..end].to_ascii_lowercase().into());
            rest = &rest[end..];
        } else {
            return Err(match (rest.starts_with('.'), after_dot) {
                (true, _) => refused("No valid identifier before \".\"."),
                (_, true) => refused("No valid identifier after \".\"."),
                _ => refused(""),
            });
        }
        rest = rest.trim_start_matches(blank);
        match rest.strip_prefix('.') {
            Some(behind) => rest = behind.trim_start_matches(blank),
            None if rest.is_empty() || !strict => break,
            None => return Err(refused("")),
        }
        after_dot = true;
    }
    Ok(Datum::array(names))
}

/// A unit of sizes: its name, the bits of one, and the size from which the next is taken.
struct Unit {
    name: &'static str,
    bits: u32,
    limit: i64,
}

const UNITS: [Unit; 6] = [
    Unit {
        name: "bytes",
        bits: 0,
        limit: 10 * 1024,
    },
    Unit {
        name: "kB",
        bits: 10,
        limit: 20 * 1024 - 1,
    },
    Unit {
        name: "MB",
        bits: 20,
        limit: 20 * 1024 - 1,
    },
    Unit {
        name: "GB",
        bits: 30,
        limit: 20 * 1024 - 1,
    },
    Unit {
        name: "TB",
        bits: 40,
        limit: 20 * 1024 - 1,
    },
    Unit {
        name: "PB",
        bits: 50,
        limit: 20 * 1024 - 1,
    },
];

/// `pg_size_pretty(bigint)`. From kB on the size is counted in halves, so that it can be rounded.
pub fn size_pretty(call: &Call<'_>) -> Answer {
    let mut size = call.int(0);
    for (at, unit) in UNITS.iter().enumerate() {
        let halves = at > 0;
        if at + 1 == UNITS.len() || size.unsigned_abs() < unit.limit.unsigned_abs() {
            if halves {
                size = (size + size.signum()) / 2;
            }
            return Ok(format!("{size} {}", unit.name).into());
        }
        size /= if halves { 1 << 10 } else { 1 << 9 };
    }
    Ok(Datum::Null)
}

/// `pg_size_pretty(numeric)`
pub fn numeric_size_pretty(call: &Call<'_>) -> Answer {
    let mut size = call.numeric(0).clone();
    for (at, unit) in UNITS.iter().enumerate() {
        let halves = at > 0;
        if at + 1 == UNITS.len() || size.abs() < Numeric::from(unit.limit) {
            if halves {
                let one = if size < Numeric::zero() { -1i64 } else { 1 };
                let raised = size.add(&Numeric::from(one))?;
                size = raised.div_integer(&Numeric::from(2i64))?;
            }
            return Ok(format!("{size} {}", unit.name).into());
        }
        let by: i64 = if halves { 1 << 10 } else { 1 << 9 };
        size = size.div_integer(&Numeric::from(by))?;
    }
    Ok(Datum::Null)
}

/// The length of a number at the beginning of a text: sign, digits, point, exponent.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| {
        bytes[from..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count()
    };
    let mut at = usize::from(text.starts_with(['-', '+']));
    let whole = digits(at);
    at += whole;
    let mut fraction = 0;
    if bytes.get(at) == Some(&b'.') {
        fraction = digits(at + 1);
        at += 1 + fraction;
    }
    if whole + fraction == 0 {
        return 0;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'-' | b'+')));
        let exponent = digits((at + 1 + sign).min(bytes.len()));
        if exponent > 0 {
            at += 1 + sign + exponent;
        }
    }
    at
}

/// `pg_size_bytes(text)`
pub fn size_bytes(call: &Call<'_>) -> Answer {
    let whole = call.text(0);
    let text = whole.trim_start_matches(|c: char| c.is_ascii_whitespace());
    let length = number_length(text);
    let invalid = || error::parameter(format!("invalid size: \"{whole}\""));
    if length == 0 {
        return Err(invalid());
    }
    let number = Numeric::parse(&text[..length])?;
    let unit = text[length..].trim_matches(|c: char| c.is_ascii_whitespace());
    let found = UNITS.iter().find(|u| u.name.eq_ignore_ascii_case(unit));
    let bits = match found {
        Some(found) => found.bits,
        None if unit.is_empty() || unit.eq_ignore_ascii_case("B") => 0,
        None => return Err(bad_unit(whole, unit)),
    };
    let size = number.mul(&Numeric::from(1i64 << bits))?;
    let (from, to) = (SqlType::Numeric(None), SqlType::Int8);
    Datum::Numeric(size).cast_explicit(from, to, call.session.types())
}

fn bad_unit(whole: &str, unit: &str) -> TypeError {
    error::parameter(format!("invalid size: \"{whole}\""))
        .detail(format!("Invalid size unit: \"{unit}\"."))
        .hint("Valid units are \"bytes\", \"B\", \"kB\", \"MB\", \"GB\", \"TB\", and \"PB\".")
}

/// `pg_typeof`
pub fn type_of(call: &Call<'_>) -> Answer {
    Ok(Datum::Oid(call.type_of(0).oid()))
}
