//! `numeric`: exact decimals of any length, in base 10,000 as PostgreSQL has them.

mod arith;
mod decimal;
mod functions;
mod key;
mod stored;
mod sum;
mod text;
mod transcendental;
mod work;

pub(crate) use key::encode_key;
pub(crate) use stored::{decode, encode};
pub use sum::NumericSum;
pub use work::Work;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use smallvec::SmallVec;

use self::decimal::{BASE, BASE_DIGITS};
use crate::error::{SqlState, TypeError, TypeResult};
use crate::identity::NumericMod;

/// Most digits after the decimal point (PostgreSQL's limit).
const MAX_DSCALE: i32 = 16_383;
/// Most decimal digits before the decimal point.
const MAX_WEIGHT_DIGITS: i32 = 131_072;

/// Kind of a number; the order of the variants is the order of numbers.
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

    #[inline]
    fn normalise(&mut self) {
        let is_normal = |digits: &[u16]| {
            let (first, last) = (digits.first(), digits.last());
            first.is_some_and(|d| *d != 0) && last.is_some_and(|d| *d != 0)
        };
        if !is_normal(&self.digits) {
            self.strip_zeros();
        }
    }

    fn strip_zeros(&mut self) {
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
        if !(0..=MAX_DSCALE).contains(&dscale) {
            return None;
        }
        let decimals = &decimals[leading..];
        if decimals.is_empty() {
            return Some(Numeric {
                dscale: dscale as u16,
                ..Numeric::zero()
            });
        }
        let point = point.checked_sub(i32::try_from(leading).ok()?)?;
        if point > MAX_WEIGHT_DIGITS {
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
        if filled > 0 {
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

    /// `integer` times 10,000 to the power of `place`; `None` beyond the format.
    fn from_integer_at(integer: i128, place: i32, dscale: u16) -> Option<Numeric> {
        let mut rest = integer.unsigned_abs();
        let (mut length, mut lowest) = (0, place);
        // From the least significant digit; zeros there are left out.
        let mut reversed = [0u16; 10];
        while rest > 0 {
            let digit = (rest % u128::from(BASE)) as u16;
            rest /= u128::from(BASE);
            if digit == 0 && length == 0 {
                lowest += 1;
                continue;
            }
            *reversed.get_mut(length)? = digit;
            length += 1;
        }
        let weight = if length == 0 {
            0
        } else {
            lowest + length as i32 - 1
        };
        Some(Numeric {
            sign: if integer < 0 {
                NumericSign::Negative
            } else {
                NumericSign::Positive
            },
            weight: i16::try_from(weight).ok()?,
            dscale,
            digits: reversed[..length].iter().rev().copied().collect(),
        })
    }

    /// `unscaled` times 10 to the power of minus `scale`.
    pub fn from_i128(unscaled: i128, scale: i8) -> Numeric {
        if let (Ok(small), 0) = (i64::try_from(unscaled), scale) {
            return Numeric::from(small);
        }
        Numeric::from_unscaled_text(&unscaled.to_string(), scale)
    }

    /// As [`Numeric::from_i128`], for an integer's decimal digits with a sign perhaps; NaN for
    /// what is beyond the bounds.
    pub fn from_unscaled_text(text: &str, scale: i8) -> Numeric {
        let (negative, body) = text
            .strip_prefix('-')
            .map_or((false, text), |body| (true, body));
        let decimals: SmallVec<[u8; 96]> = body.bytes().map(|b| b.wrapping_sub(b'0')).collect();
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
        self.to_unscaled_text(scale)?.parse().ok()
    }

    /// As [`Numeric::to_i128`], as decimal digits; `None` beyond 81 of them too.
    pub fn to_unscaled_text(&self, scale: i8) -> Option<String> {
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
            return Some("0".to_owned());
        }
        Some(text)
    }

    /// The digit of 10,000 to the power of `place`.
    fn group_at(&self, place: i32) -> u16 {
        let at = usize::try_from(i32::from(self.weight) - place).ok();
        at.and_then(|at| self.digits.get(at)).copied().unwrap_or(0)
    }

    /// The decimal digit of 10 to the power of `place`.
    fn decimal_at(&self, place: i32) -> u8 {
        let shift = 10u16.pow(place.rem_euclid(BASE_DIGITS) as u32);
        (self.group_at(place.div_euclid(BASE_DIGITS)) / shift % 10) as u8
    }

    /// The nearest `double precision`; an infinity for a finite value beyond its range.
    pub fn to_f64(&self) -> f64 {
        match self.sign {
            NumericSign::NaN => f64::NAN,
            NumericSign::PositiveInfinity => f64::INFINITY,
            NumericSign::NegativeInfinity => f64::NEG_INFINITY,
            _ => self.decimal().to_f64(),
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
    pub fn apply_modifier(&self, modifier: Option<NumericMod>) -> TypeResult<Numeric> {
        let Some(NumericMod { precision, scale }) = modifier else {
            return Ok(self.clone());
        };
        let field = format!("A field with precision {precision}, scale {scale}");
        let error = || {
            TypeError::new(
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
        let rounded = self.round(i32::from(scale))?;
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

/// 22003 for a value beyond the format.
fn overflow() -> TypeError {
    TypeError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        "value overflows numeric format",
    )
}

fn division_by_zero() -> TypeError {
    TypeError::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

/// 2201F for a negative number to a power that is no integer.
fn complex_power() -> TypeError {
    TypeError::new(
        SqlState::INVALID_ARGUMENT_FOR_POWER,
        "a negative number raised to a non-integer power yields a complex result",
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
#[path = "tests.rs"]
mod tests;
