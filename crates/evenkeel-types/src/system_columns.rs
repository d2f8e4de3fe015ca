//! The types of a table's system columns: places of rows, numbers of transactions and commands.

use std::fmt;

/// A row's place in its table: a block and a line pointer in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TupleId {
    /// The block.
    pub block: u32,
    /// The line pointer, from 1.
    pub slot: u16,
}

impl fmt::Display for TupleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({},{})", self.block, self.slot)
    }
}

fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b')
}

/// A number as `strtoul` finds it: behind blanks.
fn behind_blanks(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b')
}

impl TupleId {
    /// `(block,slot)`; a negative block means its 32 bits. Text before and behind it is
    /// passed over, as PostgreSQL does. `None` for another text.
    pub fn parse(text: &str) -> Option<TupleId> {
        let (_, rest) = text.split_once('(')?;
        let (block, rest) = rest.split_once(',')?;
        let (slot, _) = rest.split_once(')')?;
        let (block, slot) = (behind_blanks(block), behind_blanks(slot));
        let signed = || block.parse::<i32>().map(i32::cast_unsigned);
        Some(TupleId {
            block: block.parse().or_else(|_| signed()).ok()?,
            slot: slot.parse().ok()?,
        })
    }
}

/// The number of a transaction or a command, read as C's `strtoul` reads it: decimal, `0x…` or
/// octal after a zero. A negative one means its bits, of which a number has so many; beyond them
/// there is no value. `None` for a text that is no number.
pub(crate) fn parse_number(text: &str, bits: u32) -> Option<Option<u64>> {
    let body = trim(text);
    let digits = body.strip_prefix(['+', '-']).unwrap_or(body);
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match (lower.strip_prefix("0x"), lower.strip_prefix('0')) {
        (Some(hex), _) => (16, hex),
        (None, Some(octal)) if !octal.is_empty() => (8, octal),
        _ => (10, lower.as_str()),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    let value = i128::from_str_radix(digits, radix).ok();
    let signed = value.map(|value| if body.starts_with('-') { -value } else { value });
    let most = 1i128 << bits;
    let within = signed.filter(|value| (-most / 2..most).contains(value));
    Some(within.and_then(|value| u64::try_from(value.rem_euclid(most)).ok()))
}
