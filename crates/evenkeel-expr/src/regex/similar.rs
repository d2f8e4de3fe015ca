//! SQL's own regular expressions: `SIMILAR TO` and `substring(… similar … escape …)`.

use evenkeel_types::Datum;

use super::matcher::Matcher;
use super::syntax::Options;
use crate::call::Call;
use crate::error::{self, ExprResult};

/// The parts of an expression that its separators make, as regular expressions.
fn parts(call: &Call<'_>, pattern: &str, escape: Option<char>) -> ExprResult<Vec<String>> {
    let mut pace = call.pace();
    call.room(pattern.len().saturating_mul(3))?;
    let mut parts = vec![String::new()];
    let (mut escaped, mut in_class) = (false, false);
    for character in pattern.chars() {
        pace.step(1)?;
        let separators = parts.len() - 1;
        let Some(part) = parts.last_mut() else {
            break;
        };
        if escaped {
            escaped = false;
            if character == '"' && !in_class {
                if separators == 2 {
                    let message = "SQL regular expression may not contain more than two \
                                   escape-double-quote separators";
                    return Err(error::escape_use(message));
                }
                parts.push(String::new());
            } else {
                part.push('\\');
                part.push(character);
            }
        } else if Some(character) == escape {
            escaped = true;
        } else if in_class {
            if character == '\\' {
                part.push('\\');
            }
            part.push(character);
            in_class = character != ']';
        } else {
            match character {
                '[' => {
                    part.push('[');
                    in_class = true;
                }
                '%' => part.push_str(".*"),
                '_' => part.push('.'),
                '(' => part.push_str("(?:"),
                '\\' | '.' | '^' | '$' => {
                    part.push('\\');
                    part.push(character);
                }
                other => part.push(other),
            }
        }
    }
    Ok(parts)
}

/// The escape character of an argument; without one it is a backslash, and an empty one is none.
fn escape(call: &Call<'_>, at: usize) -> ExprResult<Option<char>> {
    if call.args.len() <= at {
        return Ok(Some('\\'));
    }
    let mut characters = call.text(at).chars();
    let escape = characters.next();
    match characters.next() {
        None => Ok(escape),
        Some(_) => Err(error::escape("invalid escape string")),
    }
}

/// `similar_to_escape(text[, text])`: the regular expression that `SIMILAR TO` matches with.
/// `similar_escape` sees a NULL escape, which takes the backslash.
pub fn similar_pattern(call: &Call<'_>) -> ExprResult<Datum> {
    if call.is_null(0) {
        return Ok(Datum::Null);
    }
    let escape = if call.is_null(1) {
        Some('\\')
    } else {
        escape(call, 1)?
    };
    let parts = parts(call, call.text(0), escape)?;
    Ok(match parts.as_slice() {
        [before, middle] => format!("^(?:{before}){{1,1}}?({middle})$"),
        [before, middle, after] => {
            format!("^(?:{before}){{1,1}}?({middle}){{1,1}}(?:{after})$")
        }
        parts => format!("^(?:{})$", parts.concat()),
    }
    .into())
}

/// `substring(text similar text escape text)`: what stands between the separators, or all.
pub fn similar_substring(call: &Call<'_>) -> ExprResult<Datum> {
    let (text, mut pace) = (call.text(0), call.pace());
    let parts = parts(call, call.text(1), escape(call, 2)?)?;
    let [before, middle, after] = match parts.as_slice() {
        [whole] => ["", whole.as_str(), ""],
        [before, middle] => [before.as_str(), middle.as_str(), ""],
        [before, middle, after, ..] => [before.as_str(), middle.as_str(), after.as_str()],
        [] => [""; 3],
    };
    // The first part takes as little as it can: the shortest beginning that lets the rest match.
    let whole = Matcher::of(
        &format!("^(?:{before})(?:{middle})(?:{after})$"),
        Options::default(),
    )?;
    if !whole.is_match(text, &mut pace)? {
        return Ok(Datum::Null);
    }
    let head = Matcher::of(&format!("^(?:{before})$"), Options::default())?;
    let rest = Matcher::of(&format!("^(?:{middle})(?:{after})$"), Options::default())?;
    let body = Matcher::of(&format!("^(?:{middle})$"), Options::default())?;
    let tail = Matcher::of(&format!("^(?:{after})$"), Options::default())?;
    let places = || text.char_indices().map(|(at, _)| at).chain([text.len()]);
    let mut from = None;
    for at in places() {
        if head.is_match(&text[..at], &mut pace)? && rest.is_match(&text[at..], &mut pace)? {
            from = Some(at);
            break;
        }
    }
    let Some(from) = from else {
        return Ok(Datum::Null);
    };
    for at in places().rev() {
        if at < from {
            break;
        }
        if body.is_match(&text[from..at], &mut pace)? && tail.is_match(&text[at..], &mut pace)? {
            call.room(at - from)?;
            return Ok(text[from..at].to_owned().into());
        }
    }
    Ok(Datum::Null)
}
