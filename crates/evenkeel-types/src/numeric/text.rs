//! Text forms of `numeric`: PostgreSQL's syntax, decimal and in the bases 16, 8 and 2.

use std::fmt;

use smallvec::SmallVec;

use super::decimal::Decimal;
use super::work::Work;
use super::{Numeric, NumericSign, overflow};
use crate::error::{SqlState, TypeError, TypeResult};

/// PostgreSQL's bound on an exponent, which keeps scales within 32 bits.
const MAX_EXPONENT: i64 = i32::MAX as i64 / 2;

impl Numeric {
    /// The input function of the type, without a modifier. Errors: 22P02, 22003.
    pub fn parse(text: &str) -> TypeResult<Numeric> {
        let invalid = || invalid(text);
        let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
        let (negative, body) = match trimmed.as_bytes().first() {
            Some(b'-') => (true, &trimmed[1..]),
            Some(b'+') => (false, &trimmed[1..]),
            _ => (false, trimmed),
        };
        if !body.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return if trimmed.eq_ignore_ascii_case("nan") {
                Ok(Numeric::nan())
            } else if body.eq_ignore_ascii_case("infinity") || body.eq_ignore_ascii_case("inf") {
                Ok(Numeric::infinity(negative))
            } else {
                Err(invalid())
            };
        }
        let base = match body.as_bytes() {
            [b'0', b'x' | b'X', ..] => 16,
            [b'0', b'o' | b'O', ..] => 8,
            [b'0', b'b' | b'B', ..] => 2,
            _ => return Reader::read(body, negative).unwrap_or_else(|| Err(invalid())),
        };
        let mut value = integer_in(base, &body.as_bytes()[2..]).ok_or_else(invalid)?;
        value.negative = negative;
        Numeric::from_result(value)
    }
}

/// 22P02 for a text that is no number.
fn invalid(text: &str) -> TypeError {
    TypeError::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type numeric: \"{text}\""),
    )
}

/// Reads digits in which single underscores may separate others.
struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    /// `None` for a text that is no number.
    fn read(body: &str, negative: bool) -> Option<TypeResult<Numeric>> {
        let mut reader = Reader {
            rest: body.as_bytes(),
        };
        let mut decimals: SmallVec<[u8; 64]> = SmallVec::new();
        let whole = reader.digits(&mut decimals)?;
        let mut fraction = 0;
        if let [b'.', rest @ ..] = reader.rest {
            reader.rest = rest;
            fraction = reader.digits(&mut decimals)?;
        }
        if whole + fraction == 0 {
            return None;
        }
        let mut exponent = 0;
        if let [b'e' | b'E', rest @ ..] = reader.rest {
            reader.rest = rest;
            exponent = match reader.exponent()? {
                Ok(exponent) => exponent,
                // Nothing behind the digits is read once they are out of range.
                Err(error) => return Some(Err(error)),
            };
        }
        if !reader.rest.is_empty() {
            return None;
        }
        let (whole, fraction) = (i64::try_from(whole).ok()?, i64::try_from(fraction).ok()?);
        let scale = (fraction - exponent).max(0);
        Some(
            i32::try_from(whole + exponent)
                .ok()
                .zip(i32::try_from(scale).ok())
                .and_then(|(point, scale)| Numeric::from_decimal(negative, &decimals, point, scale))
                .ok_or_else(overflow),
        )
    }

    /// Appends digits and returns how many; `None` for a misplaced underscore.
    fn digits(&mut self, out: &mut SmallVec<[u8; 64]>) -> Option<usize> {
        let before = out.len();
        loop {
            match self.rest {
                [digit @ b'0'..=b'9', rest @ ..] => {
                    out.push(digit - b'0');
                    self.rest = rest;
                }
                [b'_', b'0'..=b'9', ..] if out.len() > before => self.rest = &self.rest[1..],
                [b'_', ..] => return None,
                _ => return Some(out.len() - before),
            }
        }
    }

    fn exponent(&mut self) -> Option<TypeResult<i64>> {
        let negative = self.rest.first() == Some(&b'-');
        if let [b'+' | b'-', rest @ ..] = self.rest {
            self.rest = rest;
        }
        let mut digits = SmallVec::new();
        if self.digits(&mut digits)? == 0 {
            return None;
        }
        let mut value = 0i64;
        for digit in &digits {
            value = value * 10 + i64::from(*digit);
            if value > MAX_EXPONENT {
                return Some(Err(overflow()));
            }
        }
        Some(Ok(if negative { -value } else { value }))
    }
}

/// An integer of another base; `None` for digits that are not of that base.
fn integer_in(base: u32, text: &[u8]) -> Option<Decimal> {
    let mut value = Decimal::default();
    let (mut chunk, mut scale) = (0i64, 1i64);
    let mut was_digit = false;
    let mut any = false;
    for byte in text {
        if *byte == b'_' {
            if !was_digit && any {
                return None;
            }
            was_digit = false;
            any = true;
            continue;
        }
        let digit = char::from(*byte).to_digit(base)?;
        (was_digit, any) = (true, true);
        chunk = chunk * i64::from(base) + i64::from(digit);
        scale *= i64::from(base);
        if scale > 1 << 50 {
            value = shifted(&value, scale, chunk);
            (chunk, scale) = (0, 1);
        }
        // More digits than the format has are refused before they cost more.
        if value.weight > i32::from(i16::MAX) {
            break;
        }
    }
    was_digit.then(|| shifted(&value, scale, chunk))
}

fn shifted(value: &Decimal, scale: i64, add: i64) -> Decimal {
    // Nothing is asked, so that nothing ends the work.
    let scaled = value.mul(&Decimal::from_integer(scale), 0, &Work::unasked());
    scaled.unwrap_or_default().add(&Decimal::from_integer(add))
}

impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sign {
            NumericSign::NaN => return f.write_str("NaN"),
            NumericSign::PositiveInfinity => return f.write_str("Infinity"),
            NumericSign::NegativeInfinity => return f.write_str("-Infinity"),
            NumericSign::Negative => f.write_str("-")?,
            NumericSign::Positive => {}
        }
        if self.weight < 0 || self.digits.is_empty() {
            f.write_str("0")?;
        } else {
            for group in 0..=usize::from(self.weight.unsigned_abs()) {
                let digit = self.digits.get(group).copied().unwrap_or(0);
                if group == 0 {
                    write!(f, "{digit}")?;
                } else {
                    f.write_str(four(digit, &mut [0; 4], 4))?;
                }
            }
        }
        if self.dscale > 0 {
            f.write_str(".")?;
            let mut left = usize::from(self.dscale);
            let mut place = -1;
            while left > 0 {
                let shown = left.min(4);
                f.write_str(four(self.group_at(place), &mut [0; 4], shown))?;
                left -= shown;
                place -= 1;
            }
        }
        Ok(())
    }
}

/// The first `shown` of the four decimal digits of a digit.
fn four(digit: u16, buffer: &mut [u8; 4], shown: usize) -> &str {
    let mut rest = digit;
    for place in buffer.iter_mut().rev() {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    std::str::from_utf8(&buffer[..shown]).unwrap_or("")
}
