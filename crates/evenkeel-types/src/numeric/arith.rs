//! The operators of `numeric`. Values of few digits are computed in 128 bits.

use std::cmp::Ordering;

use super::decimal::{BASE, BASE_DIGITS, Decimal};
use super::transcendental::{MIN_SIGNIFICANT, chosen_scale};
use super::work::Work;
use super::{MAX_DSCALE, Numeric, NumericSign, division_by_zero, overflow};
use crate::error::TypeResult;

/// Digits of base 10,000 of values that are added and compared in 128 bits.
const SMALL_SUM: usize = 8;
/// As `SMALL_SUM`, of the factors of a product.
const SMALL_FACTOR: usize = 4;

impl Numeric {
    /// The finite value for computations.
    pub(super) fn decimal(&self) -> Decimal {
        Decimal {
            negative: self.sign == NumericSign::Negative,
            weight: i32::from(self.weight),
            dscale: i32::from(self.dscale),
            digits: self.digits.to_vec(),
        }
    }

    /// The value of a computation; 22003 beyond the format.
    pub(super) fn from_result(mut result: Decimal) -> TypeResult<Numeric> {
        result.strip();
        let (Ok(weight), Ok(dscale)) = (i16::try_from(result.weight), u16::try_from(result.dscale))
        else {
            return Err(overflow());
        };
        if result.dscale > MAX_DSCALE {
            return Err(overflow());
        }
        Ok(Numeric {
            sign: if result.negative {
                NumericSign::Negative
            } else {
                NumericSign::Positive
            },
            weight,
            dscale,
            digits: result.digits.into(),
        })
    }

    /// Below, at or above zero; `None` for NaN.
    pub fn signum(&self) -> Option<Ordering> {
        match self.sign {
            NumericSign::NaN => None,
            NumericSign::NegativeInfinity | NumericSign::Negative => Some(Ordering::Less),
            NumericSign::Positive if self.digits.is_empty() => Some(Ordering::Equal),
            NumericSign::Positive | NumericSign::PositiveInfinity => Some(Ordering::Greater),
        }
    }

    /// Whether the value is NaN.
    pub fn is_nan(&self) -> bool {
        self.sign == NumericSign::NaN
    }

    /// The value with the other sign.
    #[must_use]
    pub fn neg(&self) -> Numeric {
        let mut value = self.clone();
        value.sign = match value.sign {
            NumericSign::Negative => NumericSign::Positive,
            NumericSign::Positive if !value.digits.is_empty() => NumericSign::Negative,
            NumericSign::PositiveInfinity => NumericSign::NegativeInfinity,
            NumericSign::NegativeInfinity => NumericSign::PositiveInfinity,
            other => other,
        };
        value
    }

    /// `+`. Errors: 22003 beyond the format.
    pub fn add(&self, other: &Numeric) -> TypeResult<Numeric> {
        if !self.is_finite() || !other.is_finite() {
            return Ok(add_special(self, other));
        }
        if let Some(sum) = small_sum(self, other) {
            return Ok(sum);
        }
        Numeric::from_result(self.decimal().add(&other.decimal()))
    }

    /// `-`. Errors: 22003 beyond the format.
    pub fn sub(&self, other: &Numeric) -> TypeResult<Numeric> {
        self.add(&other.neg())
    }

    /// `*`. Errors: 22003 beyond the format.
    pub fn mul(&self, other: &Numeric) -> TypeResult<Numeric> {
        self.mul_within(other, &Work::unasked())
    }

    /// As [`Numeric::mul`]; the work may be ended.
    pub fn mul_within(&self, other: &Numeric, work: &Work<'_>) -> TypeResult<Numeric> {
        if !self.is_finite() || !other.is_finite() {
            return Ok(mul_special(self, other));
        }
        if let Some(product) = small_product(self, other) {
            return Ok(product);
        }
        // The product of the first digits alone is beyond the format.
        if i32::from(self.weight) + i32::from(other.weight) > i32::from(i16::MAX) {
            return Err(overflow());
        }
        let scale = i32::from(self.dscale) + i32::from(other.dscale);
        let mut product = self.decimal().mul(&other.decimal(), scale, work)?;
        if scale > MAX_DSCALE {
            product.round(MAX_DSCALE);
        }
        Numeric::from_result(product)
    }

    /// `/`, with PostgreSQL's choice of scale. Errors: 22012, 22003 beyond the format.
    pub fn div(&self, other: &Numeric) -> TypeResult<Numeric> {
        self.div_within(other, &Work::unasked())
    }

    /// As [`Numeric::div`]; the work may be ended.
    pub fn div_within(&self, other: &Numeric, work: &Work<'_>) -> TypeResult<Numeric> {
        if !self.is_finite() || !other.is_finite() {
            return div_special(self, other);
        }
        if other.digits.is_empty() {
            return Err(division_by_zero());
        }
        let rscale = division_scale(self, other);
        Numeric::from_result(self.decimal().div(&other.decimal(), rscale, true, work)?)
    }

    /// `div(a, b)`: the integer quotient, cut. Errors: as [`Numeric::div`].
    pub fn div_integer(&self, other: &Numeric) -> TypeResult<Numeric> {
        self.div_integer_within(other, &Work::unasked())
    }

    /// As [`Numeric::div_integer`]; the work may be ended.
    pub fn div_integer_within(&self, other: &Numeric, work: &Work<'_>) -> TypeResult<Numeric> {
        if !self.is_finite() || !other.is_finite() {
            return div_special(self, other);
        }
        if other.digits.is_empty() {
            return Err(division_by_zero());
        }
        Numeric::from_result(self.decimal().div(&other.decimal(), 0, false, work)?)
    }

    /// `%`, with the sign of the dividend. Errors: 22012.
    pub fn rem(&self, other: &Numeric) -> TypeResult<Numeric> {
        self.rem_within(other, &Work::unasked())
    }

    /// As [`Numeric::rem`]; the work may be ended.
    pub fn rem_within(&self, other: &Numeric, work: &Work<'_>) -> TypeResult<Numeric> {
        if self.is_nan() || other.is_nan() {
            return Ok(Numeric::nan());
        }
        if other.signum() == Some(Ordering::Equal) {
            return Err(division_by_zero());
        }
        if !self.is_finite() {
            return Ok(Numeric::nan());
        }
        if !other.is_finite() {
            return Ok(self.clone());
        }
        Numeric::from_result(self.decimal().rem(&other.decimal(), work)?)
    }
}

fn add_special(a: &Numeric, b: &Numeric) -> Numeric {
    if a.is_nan() || b.is_nan() || (!a.is_finite() && !b.is_finite() && a.sign != b.sign) {
        return Numeric::nan();
    }
    if a.is_finite() { b.clone() } else { a.clone() }
}

/// The infinity of a product or quotient with these signs; NaN for one with zero.
fn infinity_of(a: &Numeric, b: &Numeric) -> Numeric {
    match (a.signum(), b.signum()) {
        (None | Some(Ordering::Equal), _) | (_, None | Some(Ordering::Equal)) => Numeric::nan(),
        (a, b) => Numeric::infinity(a != b),
    }
}

fn mul_special(a: &Numeric, b: &Numeric) -> Numeric {
    infinity_of(a, b)
}

fn div_special(a: &Numeric, b: &Numeric) -> TypeResult<Numeric> {
    if a.is_nan() || b.is_nan() {
        return Ok(Numeric::nan());
    }
    if a.is_finite() {
        return Ok(Numeric::zero());
    }
    if !b.is_finite() {
        return Ok(Numeric::nan());
    }
    if b.digits.is_empty() {
        return Err(division_by_zero());
    }
    Ok(infinity_of(a, b))
}

/// At least 16 significant digits, and no fewer places than either operand has.
fn division_scale(a: &Numeric, b: &Numeric) -> i32 {
    let leading = |value: &Numeric| Leading {
        weight: i32::from(value.weight),
        first: value.digits.first().copied().unwrap_or(0),
        dscale: i32::from(value.dscale),
    };
    leading(a).division_scale(&leading(b))
}

/// As much of a number as the scale of a quotient depends on.
pub(super) struct Leading {
    /// Power of 10,000 of the first digit.
    pub weight: i32,
    /// The first digit; 0 for zero.
    pub first: u16,
    /// Decimal digits shown after the point.
    pub dscale: i32,
}

impl Leading {
    /// The scale of the quotient of two numbers.
    pub fn division_scale(&self, divisor: &Leading) -> i32 {
        let mut quotient_weight = self.weight - divisor.weight;
        if self.first <= divisor.first {
            quotient_weight -= 1;
        }
        chosen_scale(
            MIN_SIGNIFICANT - quotient_weight * BASE_DIGITS,
            &[self.dscale, divisor.dscale],
        )
    }
}

/// The power of 10,000 of the last digit.
fn lowest(value: &Numeric) -> i32 {
    i32::from(value.weight) + 1 - value.digits.len() as i32
}

/// The digits as an integer, counting 10,000 to the power of `place`, at or below the last digit.
fn integer_at(value: &Numeric, place: i32) -> i128 {
    let digits = value.digits.iter();
    let integer = digits.fold(0i128, |sum, digit| {
        sum * i128::from(BASE) + i128::from(*digit)
    });
    let shifted = (place..lowest(value)).fold(integer, |n, _| n * i128::from(BASE));
    if value.sign == NumericSign::Negative {
        -shifted
    } else {
        shifted
    }
}

fn small_sum(a: &Numeric, b: &Numeric) -> Option<Numeric> {
    let place = match (a.digits.is_empty(), b.digits.is_empty()) {
        (true, true) => 0,
        (true, false) => lowest(b),
        (false, true) => lowest(a),
        (false, false) => lowest(a).min(lowest(b)),
    };
    let top = i32::from(a.weight).max(i32::from(b.weight));
    if usize::try_from(top + 1 - place).map_or(true, |length| length > SMALL_SUM) {
        return None;
    }
    let sum = integer_at(a, place) + integer_at(b, place);
    Numeric::from_integer_at(sum, place, a.dscale.max(b.dscale))
}

fn small_product(a: &Numeric, b: &Numeric) -> Option<Numeric> {
    let scale = a.dscale.checked_add(b.dscale)?;
    if a.digits.len() > SMALL_FACTOR
        || b.digits.len() > SMALL_FACTOR
        || i32::from(scale) > MAX_DSCALE
    {
        return None;
    }
    let product = integer_at(a, lowest(a)) * integer_at(b, lowest(b));
    Numeric::from_integer_at(product, lowest(a) + lowest(b), scale)
}
