//! Zones as POSIX writes them: `EST5EDT,M3.2.0,M11.1.0`, hours counted to the west. As PostgreSQL
//! reads them a name may be of any length, also of none.

use jiff::tz::{Offset, TimeZone as Rules};

/// The rules of the United States, for a zone that has summer time and names none.
const USUAL: &str = ",M3.2.0,M11.1.0";

/// A name: between `<` and `>`, or up to a digit, a sign or a comma.
fn name(text: &str) -> Option<&str> {
    if let Some(quoted) = text.strip_prefix('<') {
        return quoted.split_once('>').map(|(_, rest)| rest);
    }
    let ends = |c: char| c.is_ascii_digit() || matches!(c, ',' | '-' | '+');
    Some(text.find(ends).map_or("", |at| &text[at..]))
}

fn number(text: &str, most: i32) -> Option<(i32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    let number = digits.parse().ok().filter(|number| *number <= most)?;
    Some((number, rest))
}

/// `[+-]hh[:mm[:ss]]`, in seconds.
fn seconds(text: &str) -> Option<(i32, &str)> {
    let unsigned = text.strip_prefix(['+', '-']);
    let (hours, mut rest) = number(unsigned.unwrap_or(text), 167)?;
    let mut seconds = hours * 3600;
    for (unit, most) in [(60, 59), (1, 60)] {
        let Some(next) = rest.strip_prefix(':') else {
            break;
        };
        let (part, after) = number(next, most)?;
        seconds += part * unit;
        rest = after;
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    Some((sign * seconds, rest))
}

fn written(seconds: i32) -> String {
    let sign = if seconds < 0 { "-" } else { "" };
    let all = seconds.unsigned_abs();
    format!("{sign}{}:{:02}:{:02}", all / 3600, all / 60 % 60, all % 60)
}

/// The rules of a zone; none for a text that is no zone.
pub(crate) fn rules(text: &str) -> Option<Rules> {
    let (standard, rest) = seconds(name(text)?)?;
    if rest.is_empty() {
        return Offset::from_seconds(-standard).ok().map(Rules::fixed);
    }
    let rest = name(rest)?;
    let (summer, rest) = match rest.starts_with(',') || rest.is_empty() {
        true => (standard - 3600, rest),
        false => seconds(rest)?,
    };
    let changes = if rest.is_empty() { USUAL } else { rest };
    let canonical = format!(
        "<std>{}<dst>{}{changes}",
        written(standard),
        written(summer)
    );
    Rules::posix(&canonical).ok()
}
