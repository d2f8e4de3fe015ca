//! The functions of `numeric`.

use std::cmp::Ordering;

use super::decimal::{BASE_DIGITS, Decimal};
use super::transcendental::{self, MIN_SIGNIFICANT, chosen_scale};
use super::work::Work;
use super::{MAX_DSCALE, MAX_WEIGHT_DIGITS, Numeric, NumericSign, complex_power, overflow};
use crate::error::{SqlState, TypeError, TypeResult};

/// The greatest integer whose factorial is within the format.
const MAX_FACTORIAL: i64 = 32_177;

/// A real function of one argument, whose scale is chosen first.
fn finite(
    value: &Numeric,
    scale: impl Fn(&Decimal) -> i32,
    compute: impl Fn(&Decimal, i32) -> TypeResult<Decimal>,
) -> TypeResult<Numeric> {
    let value = value.decimal();
    Numeric::from_result(compute(&value, scale(&value))?)
}

impl Numeric {
    /// `round(n, scale)`: half away from zero, shown with `scale` digits behind the point. Errors:
    /// 22003 when a carry leaves the format.
    pub fn round(&self, scale: i32) -> TypeResult<Numeric> {
        if !self.is_finite() {
            return Ok(self.clone());
        }
        let scale = scale.clamp(-MAX_WEIGHT_DIGITS - 1, MAX_DSCALE);
        let mut value = self.decimal();
        value.round(scale);
        value.dscale = scale.max(0);
        Numeric::from_result(value)
    }

    /// `trunc(n, scale)`: towards zero.
    #[must_use]
    pub fn truncate(&self, scale: i32) -> Numeric {
        if !self.is_finite() {
            return self.clone();
        }
        let scale = scale.clamp(-MAX_WEIGHT_DIGITS, MAX_DSCALE);
        let mut value = self.decimal();
        value.truncate(scale);
        value.dscale = scale.max(0);
        // Fewer digits of a value within the format are within it.
        Numeric::from_result(value).unwrap_or_else(|_| Numeric::nan())
    }

    /// `ceil(n)`. Errors: 22003 when a carry leaves the format.
    pub fn ceil(&self) -> TypeResult<Numeric> {
        if !self.is_finite() {
            return Ok(self.clone());
        }
        Numeric::from_result(self.decimal().to_integer(true))
    }

    /// `floor(n)`. Errors: 22003 when a carry leaves the format.
    pub fn floor(&self) -> TypeResult<Numeric> {
        if !self.is_finite() {
            return Ok(self.clone());
        }
        Numeric::from_result(self.decimal().to_integer(false))
    }

    /// `sign(n)`: -1, 0, 1 or NaN.
    #[must_use]
    pub fn sign_value(&self) -> Numeric {
        match self.signum() {
            None => Numeric::nan(),
            Some(order) => Numeric::from(order as i64),
        }
    }

    /// `sqrt(n)`. Errors: 2201F.
    pub fn sqrt(&self) -> TypeResult<Numeric> {
        self.sqrt_within(&Work::unasked())
    }

    /// As [`Numeric::sqrt`]; the work may be ended.
    pub fn sqrt_within(&self, work: &Work<'_>) -> TypeResult<Numeric> {
        if self.signum() == Some(Ordering::Less) {
            return Err(TypeError::new(
                SqlState::INVALID_ARGUMENT_FOR_POWER,
                "cannot take square root of a negative number",
            ));
        }
        if !self.is_finite() {
            return Ok(self.clone());
        }
        let scale = |value: &Decimal| {
            let weight = value.weight * BASE_DIGITS / 2 + 1;
            chosen_scale(MIN_SIGNIFICANT - weight, &[value.dscale])
        };
        finite(self, scale, |value, scale| value.sqrt(scale, work))
    }

    /// `exp(n)`. Errors: 22003 beyond the format.
    pub fn exp(&self) -> TypeResult<Numeric> {
        self.exp_within(&Work::unasked())
    }

    /// As [`Numeric::exp`]; the work may be ended.
    pub fn exp_within(&self, work: &Work<'_>) -> TypeResult<Numeric> {
        match self.sign {
            NumericSign::NegativeInfinity => Ok(Numeric::zero()),
            _ if !self.is_finite() => Ok(self.clone()),
            _ => finite(self, transcendental::exp_scale, |value, scale| {
                transcendental::exp(value, scale, work)
            }),
        }
    }

    /// `ln(n)`. Errors: 2201E.
    pub fn ln(&self) -> TypeResult<Numeric> {
        self.ln_within(&Work::unasked())
    }

    /// As [`Numeric::ln`]; the work may be ended.
    pub fn ln_within(&self, work: &Work<'_>) -> TypeResult<Numeric> {
        if self.is_nan() {
            return Ok(Numeric::nan());
        }
        transcendental::check_logarithm(self.signum().unwrap_or(Ordering::Greater))?;
        if !self.is_finite() {
            return Ok(self.clone());
        }
        finite(self, transcendental::ln_scale, |value, scale| {
            transcendental::ln(value, scale, work)
        })
    }

    /// `log(base, n)`. Errors: 2201E, 22012 for base 1.
    pub fn log(base: &Numeric, value: &Numeric) -> TypeResult<Numeric> {
        Numeric::log_within(base, value, &Work::unasked())
    }

    /// As [`Numeric::log`]; the work may be ended.
    pub fn log_within(base: &Numeric, value: &Numeric, work: &Work<'_>) -> TypeResult<Numeric> {
        if base.is_finite() && value.is_finite() {
            let result = transcendental::log(&base.decimal(), &value.decimal(), work)?;
            return Numeric::from_result(result);
        }
        let (Some(base_sign), Some(value_sign)) = (base.signum(), value.signum()) else {
            return Ok(Numeric::nan());
        };
        // A negative operand is reported before a zero one.
        transcendental::check_logarithm(base_sign.min(value_sign))?;
        Ok(match (base.is_finite(), value.is_finite()) {
            (false, false) => Numeric::nan(),
            (false, true) => Numeric::zero(),
            _ => Numeric::infinity(false),
        })
    }

    /// `power(n, exponent)`. Errors: 2201F, 22012, 22003.
    pub fn power(&self, exponent: &Numeric) -> TypeResult<Numeric> {
        self.power_within(exponent, &Work::unasked())
    }

    /// As [`Numeric::power`]; the work may be ended.
    pub fn power_within(&self, exponent: &Numeric, work: &Work<'_>) -> TypeResult<Numeric> {
        let one = Numeric::from(1i64);
        if self.is_nan() || exponent.is_nan() {
            let defined = exponent.signum() == Some(Ordering::Equal) || *self == one;
            return Ok(if defined { one } else { Numeric::nan() });
        }
        let (base_sign, exponent_sign) = (self.signum(), exponent.signum());
        if base_sign == Some(Ordering::Equal) && exponent_sign == Some(Ordering::Less) {
            return Err(TypeError::new(
                SqlState::INVALID_ARGUMENT_FOR_POWER,
                "zero raised to a negative power is undefined",
            ));
        }
        let is_integral = !exponent.is_finite() || exponent.decimal().is_integral();
        if base_sign == Some(Ordering::Less) && !is_integral {
            return Err(complex_power());
        }
        if self.is_finite() && exponent.is_finite() {
            let result = transcendental::power(&self.decimal(), &exponent.decimal(), work)?;
            return Numeric::from_result(result);
        }
        Ok(infinite_power(self, exponent))
    }

    /// `gcd(a, b)`. Errors: none but those of the format.
    pub fn gcd(&self, other: &Numeric) -> TypeResult<Numeric> {
        self.gcd_within(other, &Work::unasked())
    }

    /// As [`Numeric::gcd`]; the work may be ended.
    pub fn gcd_within(&self, other: &Numeric, work: &Work<'_>) -> TypeResult<Numeric> {
        if !self.is_finite() || !other.is_finite() {
            return Ok(Numeric::nan());
        }
        Numeric::from_result(gcd(&self.decimal(), &other.decimal(), work)?)
    }

    /// `lcm(a, b)`. Errors: 22003 beyond the format.
    pub fn lcm(&self, other: &Numeric) -> TypeResult<Numeric> {
        self.lcm_within(other, &Work::unasked())
    }

    /// As [`Numeric::lcm`]; the work may be ended.
    pub fn lcm_within(&self, other: &Numeric, work: &Work<'_>) -> TypeResult<Numeric> {
        if !self.is_finite() || !other.is_finite() {
            return Ok(Numeric::nan());
        }
        let (a, b) = (self.decimal(), other.decimal());
        let dscale = a.dscale.max(b.dscale);
        let mut result = Decimal::default();
        if !a.is_zero() && !b.is_zero() {
            let quotient = a.div(&gcd(&a, &b, work)?, 0, false, work)?;
            result = b.mul(&quotient, b.dscale, work)?;
            result.negative = false;
        }
        result.dscale = dscale;
        Numeric::from_result(result)
    }

    /// `factorial(n)`. Errors: 22003.
    pub fn factorial(n: i64) -> TypeResult<Numeric> {
        Numeric::factorial_within(n, &Work::unasked())
    }

    /// As [`Numeric::factorial`]; the work may be ended.
    pub fn factorial_within(n: i64, work: &Work<'_>) -> TypeResult<Numeric> {
        if n < 0 {
            return Err(TypeError::new(
                SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                "factorial of a negative number is undefined",
            ));
        }
        if n > MAX_FACTORIAL {
            return Err(overflow());
        }
        let mut result = Decimal::from_integer(1);
        let mut factor = 1i64;
        for k in 2..=n {
            // Factors are joined while their product is small: fewer long products.
            factor *= k;
            if factor > 1 << 40 || k == n {
                result = result.mul(&Decimal::from_integer(factor), 0, work)?;
                factor = 1;
            }
        }
        Numeric::from_result(result)
    }

    /// `scale(n)`: digits shown behind the point; `None` for NaN and the infinities.
    pub fn scale(&self) -> Option<i32> {
        self.is_finite().then_some(i32::from(self.dscale))
    }

    /// `min_scale(n)`: the least scale that shows every digit; `None` for NaN and the infinities.
    pub fn min_scale(&self) -> Option<i32> {
        self.is_finite().then(|| i32::from(self.least_scale()))
    }

    /// `trim_scale(n)`: the same value without zeros at the end.
    #[must_use]
    pub fn trim_scale(&self) -> Numeric {
        if self.is_finite() {
            self.clone().without_trailing_zeros()
        } else {
            self.clone()
        }
    }

    /// `width_bucket(operand, low, high, count)`. Errors: 2201G, 22003.
    pub fn width_bucket(&self, low: &Numeric, high: &Numeric, count: i32) -> TypeResult<i32> {
        let error = |message| TypeError::new(SqlState::INVALID_ARGUMENT_FOR_WIDTH_BUCKET, message);
        if count <= 0 {
            return Err(error("count must be greater than zero"));
        }
        if self.is_nan() || low.is_nan() || high.is_nan() {
            return Err(error("operand, lower bound, and upper bound cannot be NaN"));
        }
        if !low.is_finite() || !high.is_finite() {
            return Err(error("lower and upper bounds must be finite"));
        }
        let (below, above) = match low.cmp(high) {
            Ordering::Equal => return Err(error("lower bound cannot equal upper bound")),
            Ordering::Less => (self < low, self >= high),
            Ordering::Greater => (self > low, self <= high),
        };
        let too_many =
            || TypeError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range");
        if below {
            return Ok(0);
        }
        if above {
            return count.checked_add(1).ok_or_else(too_many);
        }
        let width = high.decimal().sub(&low.decimal());
        let offset = self.decimal().sub(&low.decimal());
        let work = &Work::unasked();
        let count_of = Decimal::from_integer(i64::from(count));
        let scaled = offset.mul(&count_of, offset.dscale, work)?;
        let mut bucket = scaled.div(&width, 0, false, work)?;
        bucket.negative = false;
        let bucket = Numeric::from_result(bucket)?.to_i128(0);
        let bucket = bucket.and_then(|n| i32::try_from(n).ok());
        bucket.and_then(|n| n.checked_add(1)).ok_or_else(too_many)
    }
}

/// Powers by the rules of POSIX's `pow` for an infinite operand; neither is NaN.
fn infinite_power(base: &Numeric, exponent: &Numeric) -> Numeric {
    let one = Numeric::from(1i64);
    let exponent_sign = exponent.signum().unwrap_or(Ordering::Equal);
    if *base == one || exponent_sign == Ordering::Equal {
        return one;
    }
    if base.signum() == Some(Ordering::Equal) {
        return Numeric::zero();
    }
    let grows = exponent_sign == Ordering::Greater;
    if !exponent.is_finite() {
        if *base == one.neg() {
            return one;
        }
        return if (base.abs() > one) == grows {
            Numeric::infinity(false)
        } else {
            Numeric::zero()
        };
    }
    if !grows {
        return Numeric::zero();
    }
    let exponent = exponent.decimal();
    let is_odd = exponent.digits.len() as i32 == exponent.weight + 1
        && exponent.digits.last().is_some_and(|digit| digit % 2 == 1);
    Numeric::infinity(base.sign == NumericSign::NegativeInfinity && is_odd)
}

fn gcd(a: &Decimal, b: &Decimal, work: &Work<'_>) -> TypeResult<Decimal> {
    let dscale = a.dscale.max(b.dscale);
    let (mut a, mut b) = (a.clone(), b.clone());
    while !b.is_zero() {
        let rest = a.rem(&b, work)?;
        a = b;
        b = rest;
    }
    a.negative = false;
    a.dscale = dscale;
    Ok(a)
}
