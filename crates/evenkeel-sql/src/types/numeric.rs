//! `numeric`: exact decimals of any length, in base 10,000 as PostgreSQL has them.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use datafusion::arrow::datatypes::i256;
use smallvec::SmallVec;

use super::NumericMod;
use crate::error::{SqlError, SqlResult, SqlState};

const BASE_DIGITS: i32 = 4;
const BASE: u16 = 10_000;
/// Most digits after the decimal point (PostgreSQL's limit).
const MAX_DSCALE: i32 = 16_383;
/// Most decimal digits before the decimal point.
const MAX_WEIGHT_DIGITS: i32 = 131_072;

/// What kind of number it is; the order of the variants is the order of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NumericSign {
    /// `-Infinity`
    NegativeInfinity,
    /// Below zero
    Negative,
    /// Zero or above
    Positive,
    /// `Infinity`
    PositiveInfinity,
    /// `NaN`, above all others
    NaN,
}

/// A `numeric` value. Equality, order and hash ignore the display scale.
#[derive(Debug, Clone)]
pub struct Numeric {
    sign: NumericSign,
    /// Power of 10,000 of the first digit.
    weight: i16,
    /// Decimal digits shown after the point.
    dscale: u16,
    /// Base-10,000 digits without leading or trailing zeros; empty for zero.
    digits: SmallVec<[u16; 8]>,
}

impl Numeric {
    /// Zero.
    pub fn zero() -> Numeric {
        Numeric {
            sign: NumericSign::Positive,
            weight: 0,
            dscale: 0,
            digits: SmallVec::new(),
        }
    }

    /// Not a number.
    pub fn nan() -> Numeric {
        Numeric {
            sign: NumericSign::NaN,
            ..Numeric::zero()
        }
    }

    /// An infinity.
    pub fn infinity(negative: bool) -> Numeric {
        let sign = if negative {
            NumericSign::NegativeInfinity
        } else {
            NumericSign::PositiveInfinity
        };
        Numeric {
            sign,
            ..Numeric::zero()
        }
    }

    /// A value from its parts, checked: digits below 10,000, scale in bounds.
    pub fn from_parts(
        sign: NumericSign,
        weight: i16,
        dscale: u16,
        digits: SmallVec<[u16; 8]>,
    ) -> Option<Numeric> {
        if digits.iter().any(|d| *d >= BASE) || i32::from(dscale) > MAX_DSCALE {
            return None;
        }
        let mut value = Numeric {
            sign,
            weight,
            dscale,
            digits,
        };
        value.normalise();
        Some(value)
    }

    /// Sign and kind.
    pub fn sign(&self) -> NumericSign {
        self.sign
    }

    /// Power of 10,000 of the first digit.
    pub fn weight(&self) -> i16 {
        self.weight
    }

    /// Decimal digits shown after the point.
    pub fn dscale(&self) -> u16 {
        self.dscale
    }

    /// Base-10,000 digits.
    pub fn digits(&self) -> &[u16] {
        &self.digits
    }

    /// Whether it is neither NaN nor an infinity.
    pub fn is_finite(&self) -> bool {
        matches!(self.sign, NumericSign::Positive | NumericSign::Negative)
    }

    fn normalise(&mut self) {
        let leading = self.digits.iter().take_while(|d| **d == 0).count();
        if leading > 0 {
            self.digits.drain(..leading);
            self.weight = self
                .weight
                .saturating_sub(i16::try_from(leading).unwrap_or(i16::MAX));
        }
        while self.digits.last() == Some(&0) {
            self.digits.pop();
        }
        if self.digits.is_empty() {
            self.weight = 0;
            if self.sign == NumericSign::Negative {
                self.sign = NumericSign::Positive;
            }
        }
    }

    /// From decimal digits (values 0 to 9) of which `point` stand before the decimal point.
    /// `None` when the number is too long for the type.
    fn from_decimal(negative: bool, decimals: &[u8], point: i32, dscale: i32) -> Option<Numeric> {
        let leading = decimals.iter().take_while(|d| **d == 0).count();
        let (decimals, point) = (&decimals[leading..], point - i32::try_from(leading).ok()?);
        if !(0..=MAX_DSCALE).contains(&dscale) || point > MAX_WEIGHT_DIGITS {
            return None;
        }
        let weight = (point - 1).div_euclid(BASE_DIGITS);
        let padding = (weight + 1) * BASE_DIGITS - point;
        let mut digits = SmallVec::new();
        let mut digit = 0u16;
        let mut filled = padding;
        for decimal in decimals {
            digit = digit * 10 + u16::from(*decimal);
            filled += 1;
            if filled == BASE_DIGITS {
                digits.push(digit);
                (digit, filled) = (0, 0);
            }
        }
        if filled > 0 && !decimals.is_empty() {
            for _ in filled..BASE_DIGITS {
                digit *= 10;
            }
            digits.push(digit);
        }
        let sign = if negative {
            NumericSign::Negative
        } else {
            NumericSign::Positive
        };
        let mut value = Numeric {
            sign,
            weight: i16::try_from(weight).ok()?,
            dscale: u16::try_from(dscale).ok()?,
            digits,
        };
        value.normalise();
        Some(value)
    }

    /// The input function of the type, without a modifier.
    pub fn parse(text: &str) -> SqlResult<Numeric> {
        let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace());
        let (negative, body) = match trimmed.as_bytes().first() {
            Some(b'-') => (true, &trimmed[1..]),
            Some(b'+') => (false, &trimmed[1..]),
            _ => (false, trimmed),
        };
        if trimmed.eq_ignore_ascii_case("nan") {
            return Ok(Numeric::nan());
        }
        if body.eq_ignore_ascii_case("infinity") || body.eq_ignore_ascii_case("inf") {
            return Ok(Numeric::infinity(negative));
        }
        let (mantissa, exponent) = match body.find(['e', 'E']) {
            Some(at) => (&body[..at], Some(&body[at + 1..])),
            None => (body, None),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits_only = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !digits_only(whole) || !digits_only(fraction) {
            return Err(invalid(text));
        }
        let exponent = match exponent {
            None => 0,
            Some(e) => {
                let unsigned = e.strip_prefix(['+', '-']).unwrap_or(e);
                if unsigned.is_empty() || !digits_only(unsigned) {
                    return Err(invalid(text));
                }
                e.parse::<i32>()
                    .ok()
                    .filter(|e| e.abs() < 1_000_000)
                    .ok_or_else(overflow)?
            }
        };
        let decimals: SmallVec<[u8; 64]> = whole
            .bytes()
            .chain(fraction.bytes())
            .map(|b| b - b'0')
            .collect();
        let length = |s: &str| i32::try_from(s.len()).map_err(|_| overflow());
        let point = length(whole)? + exponent;
        let dscale = (length(fraction)? - exponent).max(0);
        Numeric::from_decimal(negative, &decimals, point, dscale).ok_or_else(overflow)
    }

    /// `unscaled` times 10 to the power of minus `scale`.
    pub fn from_i128(unscaled: i128, scale: i8) -> Numeric {
        if let (Ok(small), 0) = (i64::try_from(unscaled), scale) {
            return Numeric::from(small);
        }
        Numeric::from_decimal_text(&unscaled.to_string(), scale)
    }

    /// As [`Numeric::from_i128`], for 256 bits.
    pub fn from_i256(unscaled: i256, scale: i8) -> Numeric {
        match unscaled.to_i128() {
            Some(small) => Numeric::from_i128(small, scale),
            None => Numeric::from_decimal_text(&unscaled.to_string(), scale),
        }
    }

    /// `text` is what an integer prints as, of at most 78 digits: always within the bounds.
    fn from_decimal_text(text: &str, scale: i8) -> Numeric {
        let (negative, body) = text
            .strip_prefix('-')
            .map_or((false, text), |body| (true, body));
        let decimals: SmallVec<[u8; 80]> = body.bytes().map(|b| b.wrapping_sub(b'0')).collect();
        let point = decimals.len() as i32 - i32::from(scale);
        let value = Numeric::from_decimal(negative, &decimals, point, i32::from(scale).max(0));
        value.unwrap_or(Numeric::nan())
    }

    /// The exact value times 10 to the power of `scale`, when that is an integer of 128 bits.
    pub fn to_i128(&self, scale: i8) -> Option<i128> {
        if !self.is_finite() {
            return None;
        }
        if self.digits.is_empty() {
            return Some(0);
        }
        let fraction_digits = (i32::from(scale) + BASE_DIGITS - 1).div_euclid(BASE_DIGITS);
        let groups = i32::from(self.weight) + 1 + fraction_digits;
        if (1..=9).contains(&groups) && self.digits.len() as i32 <= groups {
            let mut unscaled = 0i128;
            for group in 0..groups as usize {
                let digit = self.digits.get(group).copied().unwrap_or(0);
                unscaled = unscaled * i128::from(BASE) + i128::from(digit);
            }
            let excess = 10i128.pow((fraction_digits * BASE_DIGITS - i32::from(scale)) as u32);
            let negative = self.sign == NumericSign::Negative;
            return (unscaled % excess == 0).then(|| {
                if negative {
                    -(unscaled / excess)
                } else {
                    unscaled / excess
                }
            });
        }
        self.to_i256(scale)?.to_i128()
    }

    /// As [`Numeric::to_i128`], for 256 bits.
    pub fn to_i256(&self, scale: i8) -> Option<i256> {
        if !self.is_finite() {
            return None;
        }
        let mut text = if self.sign == NumericSign::Negative {
            "-"
        } else {
            ""
        }
        .to_owned();
        let last_place = -i32::from(scale);
        let first_place = (i32::from(self.weight) + 1) * BASE_DIGITS - 1;
        if first_place - last_place > 80 {
            return None;
        }
        let lowest = (i32::from(self.weight) + 1 - self.digits.len() as i32) * BASE_DIGITS;
        for place in lowest..last_place {
            if self.decimal_at(place) != 0 {
                return None;
            }
        }
        let mut place = first_place;
        while place >= last_place {
            text.push(char::from(b'0' + self.decimal_at(place)));
            place -= 1;
        }
        if text.is_empty() || text == "-" {
            return Some(i256::ZERO);
        }
        i256::from_string(&text)
    }

    /// The decimal digit of 10 to the power of `place`.
    fn decimal_at(&self, place: i32) -> u8 {
        let group = i32::from(self.weight) - place.div_euclid(BASE_DIGITS);
        let digit = usize::try_from(group)
            .ok()
            .and_then(|g| self.digits.get(g))
            .copied();
        let shift = 10u16.pow(place.rem_euclid(BASE_DIGITS) as u32);
        (digit.unwrap_or(0) / shift % 10) as u8
    }

    /// The nearest `double precision`.
    pub fn to_f64(&self) -> f64 {
        match self.sign {
            NumericSign::NaN => f64::NAN,
            NumericSign::PositiveInfinity => f64::INFINITY,
            NumericSign::NegativeInfinity => f64::NEG_INFINITY,
            _ => self.to_string().parse().unwrap_or(f64::NAN),
        }
    }

    /// From a float by its `significant` decimal digits (15 for double, 6 for real), as
    /// PostgreSQL converts.
    pub fn from_float(value: f64, significant: usize) -> Numeric {
        if value.is_nan() {
            return Numeric::nan();
        }
        if value.is_infinite() {
            return Numeric::infinity(value < 0.0);
        }
        let scientific = format!("{value:.*e}", significant.saturating_sub(1));
        let mut parsed = Numeric::parse(&scientific).unwrap_or(Numeric::nan());
        // As with C's %g, zeros at the end are not significant.
        let used = parsed.least_scale();
        parsed.dscale = used;
        parsed
    }

    /// The same value, shown without zeros at its end.
    #[must_use]
    pub fn without_trailing_zeros(mut self) -> Numeric {
        self.dscale = self.least_scale();
        self
    }

    /// The least display scale that shows every digit.
    fn least_scale(&self) -> u16 {
        let lowest = (i32::from(self.weight) + 1 - self.digits.len() as i32) * BASE_DIGITS;
        let mut place = lowest.min(0);
        while place < 0 && self.decimal_at(place) == 0 {
            place += 1;
        }
        u16::try_from(-place).unwrap_or(0)
    }

    /// Rounded half away from zero to `scale` digits after the point, shown with as many.
    #[must_use]
    pub fn round(&self, scale: i32) -> Numeric {
        self.limit_scale(scale, true)
    }

    fn limit_scale(&self, scale: i32, to_nearest: bool) -> Numeric {
        if !self.is_finite() {
            return self.clone();
        }
        let scale = scale.clamp(-MAX_WEIGHT_DIGITS, MAX_DSCALE);
        let mut result = self.clone();
        result.dscale = u16::try_from(scale.max(0)).unwrap_or(0);
        // Decimal digits kept, counted from the start of the first group.
        let kept = (i32::from(self.weight) + 1) * BASE_DIGITS + scale;
        if kept < 0 {
            result.digits.clear();
            result.normalise();
            return result;
        }
        let groups = kept.div_euclid(BASE_DIGITS) as usize;
        let in_group = kept.rem_euclid(BASE_DIGITS) as u32;
        if groups >= self.digits.len() {
            return result;
        }
        let unit = 10u16.pow(4 - in_group);
        let last = self.digits[groups];
        let carry = if unit == BASE {
            last >= BASE / 2
        } else {
            last % unit >= unit / 2
        };
        result.digits.truncate(groups + usize::from(in_group > 0));
        if in_group > 0 {
            result.digits[groups] = last - last % unit;
        }
        if carry && to_nearest {
            result.add_at_end(if in_group > 0 { unit } else { 1 });
        }
        result.normalise();
        result
    }

    /// Adds `unit` to the last digit and carries.
    fn add_at_end(&mut self, unit: u16) {
        let mut carry = unit;
        for digit in self.digits.iter_mut().rev() {
            *digit += carry;
            if *digit < BASE {
                return;
            }
            *digit -= BASE;
            carry = 1;
        }
        self.digits.insert(0, carry);
        self.weight = self.weight.saturating_add(1);
    }

    /// Cut to `scale` digits after the point, towards zero.
    #[must_use]
    pub fn truncate(&self, scale: i32) -> Numeric {
        self.limit_scale(scale, false)
    }

    /// The absolute value.
    #[must_use]
    pub fn abs(&self) -> Numeric {
        let mut value = self.clone();
        value.sign = match value.sign {
            NumericSign::Negative => NumericSign::Positive,
            NumericSign::NegativeInfinity => NumericSign::PositiveInfinity,
            other => other,
        };
        value
    }

    /// Rounds to the declared scale and checks the declared precision: 22003.
    pub fn apply_modifier(&self, modifier: Option<NumericMod>) -> SqlResult<Numeric> {
        let Some(NumericMod { precision, scale }) = modifier else {
            return Ok(self.clone());
        };
        let field = format!("A field with precision {precision}, scale {scale}");
        let error = || {
            SqlError::new(
                SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                "numeric field overflow",
            )
        };
        match self.sign {
            NumericSign::NaN => return Ok(self.clone()),
            NumericSign::PositiveInfinity | NumericSign::NegativeInfinity => {
                return Err(error().detail(format!("{field} cannot hold an infinite value.")));
            }
            _ => {}
        }
        let rounded = self.round(i32::from(scale));
        let whole_digits = i32::from(precision) - i32::from(scale);
        if rounded
            .first_place()
            .is_some_and(|place| place >= whole_digits)
        {
            let bound = if whole_digits == 0 {
                "1".to_owned()
            } else {
                format!("10^{whole_digits}")
            };
            return Err(error().detail(format!(
                "{field} must round to an absolute value less than {bound}."
            )));
        }
        Ok(rounded)
    }

    /// The power of ten of the first decimal digit; `None` for zero.
    fn first_place(&self) -> Option<i32> {
        let first = *self.digits.first()?;
        let decimals = i32::try_from(first.checked_ilog10()?).ok()?;
        Some(i32::from(self.weight) * BASE_DIGITS + decimals)
    }
}

fn invalid(text: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type numeric: \"{text}\""),
    )
}

fn overflow() -> SqlError {
    SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        "value overflows numeric format",
    )
}

impl From<i64> for Numeric {
    fn from(value: i64) -> Numeric {
        let mut rest = value.unsigned_abs();
        let mut digits: SmallVec<[u16; 8]> = SmallVec::new();
        while rest > 0 {
            digits.push((rest % u64::from(BASE)) as u16);
            rest /= u64::from(BASE);
        }
        digits.reverse();
        let sign = if value < 0 {
            NumericSign::Negative
        } else {
            NumericSign::Positive
        };
        let weight = digits.len().saturating_sub(1) as i16;
        let mut result = Numeric {
            sign,
            weight,
            dscale: 0,
            digits,
        };
        result.normalise();
        result
    }
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
            for group in 0..=self.weight as usize {
                let digit = self.digits.get(group).copied().unwrap_or(0);
                if group == 0 {
                    write!(f, "{digit}")?;
                } else {
                    write!(f, "{digit:04}")?;
                }
            }
        }
        if self.dscale > 0 {
            f.write_str(".")?;
            for place in 1..=i32::from(self.dscale) {
                write!(f, "{}", self.decimal_at(-place))?;
            }
        }
        Ok(())
    }
}

impl PartialEq for Numeric {
    fn eq(&self, other: &Numeric) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Numeric {}

impl Hash for Numeric {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.sign.hash(state);
        self.weight.hash(state);
        self.digits.hash(state);
    }
}

impl PartialOrd for Numeric {
    fn partial_cmp(&self, other: &Numeric) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Numeric {
    fn cmp(&self, other: &Numeric) -> Ordering {
        let magnitude = |a: &Numeric, b: &Numeric| {
            // Zero has no digits and is below every other magnitude.
            b.digits
                .is_empty()
                .cmp(&a.digits.is_empty())
                .then(a.weight.cmp(&b.weight))
                .then(a.digits.cmp(&b.digits))
        };
        self.sign.cmp(&other.sign).then_with(|| match self.sign {
            NumericSign::Positive => magnitude(self, other),
            NumericSign::Negative => magnitude(other, self),
            _ => Ordering::Equal,
        })
    }
}

#[cfg(test)]
#[path = "numeric_tests.rs"]
mod tests;
