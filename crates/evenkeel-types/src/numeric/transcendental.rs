//! Exponential, logarithms and powers of finite decimals, with PostgreSQL's choice of scales: the
//! digits of a result depend on how many are computed, so the choices are part of the answer.

use std::cmp::Ordering;

use super::decimal::{BASE, BASE_DIGITS, Decimal};
use super::work::Work;
use super::{complex_power, overflow};
use crate::error::{SqlState, TypeError, TypeResult};

/// Significant digits that a result has at least.
pub const MIN_SIGNIFICANT: i32 = 16;
/// Most digits behind the point of a result whose scale is chosen.
pub const MAX_CHOSEN_SCALE: i32 = 1000;
/// Most digits of a result of the exponential function, before or behind the point.
const MAX_RESULT_SCALE: f64 = 2000.0;
const WEIGHT_MAX: i32 = 32_767;
#[expect(clippy::approx_constant, reason = "PostgreSQL's digits")]
const LOG10_E: f64 = 0.434_294_481_903_252;
#[expect(clippy::approx_constant, reason = "PostgreSQL's digits")]
const LOG10_2: f64 = 0.301_029_995_663_981;

/// A scale within the bounds of those that are chosen, and not below any of `least`.
pub fn chosen_scale(wanted: i32, least: &[i32]) -> i32 {
    let wanted = least.iter().copied().fold(wanted, i32::max);
    wanted.clamp(0, MAX_CHOSEN_SCALE)
}

fn one() -> Decimal {
    Decimal::from_integer(1)
}

/// `count` tenths.
fn tenths(count: i64) -> Decimal {
    let mut value = Decimal::from_integer(count * 1000);
    value.weight -= 1;
    value.strip();
    value.dscale = 1;
    value
}

/// The scale of `exp(value)`.
pub fn exp_scale(value: &Decimal) -> i32 {
    let weight = (value.to_f64() * LOG10_E).clamp(-MAX_RESULT_SCALE, MAX_RESULT_SCALE);
    chosen_scale(MIN_SIGNIFICANT - weight as i32, &[value.dscale])
}

/// e to the power of `value`.
pub fn exp(value: &Decimal, rscale: i32, work: &Work<'_>) -> TypeResult<Decimal> {
    let mut rough = value.to_f64();
    if rough.abs() >= MAX_RESULT_SCALE * 3.0 {
        if rough > 0.0 {
            return Err(overflow());
        }
        return Ok(Decimal::zero(rscale));
    }
    let weight = (rough * LOG10_E) as i32;
    // Halved until the series converges fast; the result is squared as often.
    let mut halvings = 0;
    while rough.abs() > 0.01 {
        halvings += 1;
        rough /= 2.0;
    }
    let mut x = value.clone();
    if halvings > 0 {
        x = x.div_small(1 << halvings, x.dscale + halvings);
    }
    let digits = 1 + weight + rscale + (f64::from(halvings) * LOG10_2) as i32;
    let digits = digits.max(0) + 8;
    let scale = digits - 1;
    let mut result = one().add(&x);
    let mut term = x.mul(&x, scale, work)?.div_small(2, scale);
    let mut n = 2;
    while !term.is_zero() {
        result = result.add(&term);
        n += 1;
        term = term.mul(&x, scale, work)?.div_small(n, scale);
    }
    for _ in 0..halvings {
        let scale = (digits - result.weight * 2 * BASE_DIGITS).max(0);
        result = result.mul(&result, scale, work)?;
    }
    result.round(rscale);
    Ok(result)
}

/// The decimal weight of the logarithm of a positive value, roughly.
pub fn ln_weight(value: &Decimal) -> i32 {
    if value.negative || value.is_zero() {
        return 0;
    }
    let near_one = value.compare(&tenths(9)).is_ge() && value.compare(&tenths(11)).is_le();
    if near_one {
        let x = value.sub(&one());
        return match x.digits.first() {
            Some(first) => x.weight * BASE_DIGITS + f64::from(*first).log10() as i32,
            None => 0,
        };
    }
    let mut digits = f64::from(value.digits[0]);
    let mut weight = value.weight * BASE_DIGITS;
    if let Some(second) = value.digits.get(1) {
        digits = digits * f64::from(BASE) + f64::from(*second);
        weight -= BASE_DIGITS;
    }
    let logarithm = digits.ln() + f64::from(weight) * std::f64::consts::LN_10;
    logarithm.abs().log10() as i32
}

/// The scale of `ln(value)`.
pub fn ln_scale(value: &Decimal) -> i32 {
    chosen_scale(MIN_SIGNIFICANT - ln_weight(value), &[value.dscale])
}

/// 2201E for a number that has no logarithm.
pub fn check_logarithm(sign: Ordering) -> TypeResult<()> {
    let message = match sign {
        Ordering::Less => "cannot take logarithm of a negative number",
        Ordering::Equal => "cannot take logarithm of zero",
        Ordering::Greater => return Ok(()),
    };
    Err(TypeError::new(
        SqlState::INVALID_ARGUMENT_FOR_LOGARITHM,
        message,
    ))
}

/// The natural logarithm.
pub fn ln(value: &Decimal, rscale: i32, work: &Work<'_>) -> TypeResult<Decimal> {
    check_logarithm(value.compare(&Decimal::default()))?;
    let mut x = value.clone();
    let mut factor = Decimal::from_integer(2);
    let two = factor.clone();
    let mut roots = 0;
    // Square roots bring the value near 1; each doubles the factor of the result.
    while x.compare(&tenths(9)).is_le() || x.compare(&tenths(11)).is_ge() {
        let scale = rscale - x.weight * BASE_DIGITS / 2 + 8;
        x = x.sqrt(scale, work)?;
        factor = factor.mul(&two, 0, work)?;
        roots += 1;
    }
    // ln x = 2 (z + z^3/3 + z^5/5 + …), where z = (x - 1) / (x + 1).
    let scale = rscale + (f64::from(roots + 1) * LOG10_2) as i32 + 8;
    let z = x.sub(&one()).div(&x.add(&one()), scale, true, work)?;
    let square = z.mul(&z, scale, work)?;
    let mut result = z.clone();
    let mut power = z;
    let mut n = 1;
    loop {
        n += 2;
        power = power.mul(&square, scale, work)?;
        let term = power.div_small(n, scale);
        if term.is_zero() {
            break;
        }
        result = result.add(&term);
        if term.weight < result.weight - scale * 2 / BASE_DIGITS {
            break;
        }
    }
    result.mul(&factor, rscale, work)
}

/// The logarithm of `value` to `base`.
pub fn log(base: &Decimal, value: &Decimal, work: &Work<'_>) -> TypeResult<Decimal> {
    let (base_weight, value_weight) = (ln_weight(base), ln_weight(value));
    let weight = value_weight - base_weight;
    let rscale = chosen_scale(MIN_SIGNIFICANT - weight, &[base.dscale, value.dscale]);
    let scale = |of: i32| (rscale + weight - of + 8).max(0);
    let ln_base = ln(base, scale(base_weight), work)?;
    let ln_value = ln(value, scale(value_weight), work)?;
    if ln_base.is_zero() {
        return Err(super::division_by_zero());
    }
    ln_value.div(&ln_base, rscale, true, work)
}

/// `base` to the power of `exponent`. The caller has refused zero to a negative power.
pub fn power(base: &Decimal, exponent: &Decimal, work: &Work<'_>) -> TypeResult<Decimal> {
    if exponent.is_integral()
        && let Some(integer) = small_integer(exponent)
    {
        return integer_power(base, integer, exponent.dscale, work);
    }
    if base.is_zero() {
        return Ok(Decimal::zero(MIN_SIGNIFICANT));
    }
    let mut magnitude = base.clone();
    magnitude.negative = false;
    if base.negative && !exponent.is_integral() {
        return Err(complex_power());
    }
    let is_odd = exponent.digits.len() as i32 == exponent.weight + 1
        && exponent.digits.last().is_some_and(|digit| digit % 2 == 1);
    let negative = base.negative && is_odd;
    let base = &magnitude;
    let weight = ln_weight(base);
    // A first logarithm of few digits says how many the result has.
    let scale = (8 - weight).max(0);
    let rough = ln(base, scale, work)?.mul(exponent, scale, work)?.to_f64();
    if rough.abs() > MAX_RESULT_SCALE * 3.01 {
        if rough > 0.0 {
            return Err(overflow());
        }
        return Ok(Decimal::zero(MAX_CHOSEN_SCALE));
    }
    let result_weight = (rough * LOG10_E) as i32;
    let rscale = chosen_scale(
        MIN_SIGNIFICANT - result_weight,
        &[base.dscale, exponent.dscale],
    );
    let digits = (rscale + result_weight).max(0);
    let scale = (digits - weight + 8).max(0);
    let logarithm = ln(base, scale, work)?.mul(exponent, scale, work)?;
    let mut result = exp(&logarithm, rscale, work)?;
    result.negative = negative && !result.is_zero();
    Ok(result)
}

/// An integer of 32 bits.
fn small_integer(value: &Decimal) -> Option<i32> {
    if value.weight > 2 {
        return None;
    }
    let magnitude = (0..=value.weight.max(0)).fold(0i64, |sum, at| {
        let digit = value.digits.get(at as usize).copied().unwrap_or(0);
        sum * i64::from(BASE) + i64::from(digit)
    });
    i32::try_from(if value.negative {
        -magnitude
    } else {
        magnitude
    })
    .ok()
}

/// The decimal weight of `base` to the power of `exponent`, roughly.
fn power_weight(base: &Decimal, exponent: i32) -> f64 {
    let Some(first) = base.digits.first() else {
        return 0.0;
    };
    let mut digits = f64::from(*first);
    let mut weight = base.weight * BASE_DIGITS;
    for digit in base.digits.iter().take(4).skip(1) {
        digits = digits * f64::from(BASE) + f64::from(*digit);
        weight -= BASE_DIGITS;
    }
    f64::from(exponent) * (digits.log10() + f64::from(weight))
}

fn integer_power(
    base: &Decimal,
    exponent: i32,
    exponent_scale: i32,
    work: &Work<'_>,
) -> TypeResult<Decimal> {
    let weight = power_weight(base, exponent);
    if weight > f64::from((WEIGHT_MAX + 1) * BASE_DIGITS) {
        return Err(overflow());
    }
    if weight + 1.0 < -f64::from(MAX_CHOSEN_SCALE) {
        return Ok(Decimal::zero(MAX_CHOSEN_SCALE));
    }
    let rscale = chosen_scale(
        MIN_SIGNIFICANT - weight as i32,
        &[base.dscale, exponent_scale],
    );
    match exponent {
        0 => {
            let mut result = one();
            result.dscale = rscale;
            return Ok(result);
        }
        1 => {
            let mut result = base.clone();
            result.round(rscale);
            return Ok(result);
        }
        -1 if base.is_zero() => return Err(super::division_by_zero()),
        -1 => return one().div(base, rscale, true, work),
        2 => return base.mul(base, rscale, work),
        _ => {}
    }
    if base.is_zero() {
        return if exponent < 0 {
            Err(super::division_by_zero())
        } else {
            Ok(Decimal::zero(rscale))
        };
    }
    let digits = 1 + rscale + weight as i32 + f64::from(exponent).abs().ln() as i32 + 8;
    square_and_multiply(base, exponent, digits, rscale, work)
}

/// The power by the bits of the exponent, each product with `digits` significant digits.
fn square_and_multiply(
    base: &Decimal,
    exponent: i32,
    digits: i32,
    rscale: i32,
    work: &Work<'_>,
) -> TypeResult<Decimal> {
    let mut mask = exponent.unsigned_abs();
    let mut square = base.clone();
    let mut result = if mask & 1 == 1 { base.clone() } else { one() };
    while mask > 1 {
        mask >>= 1;
        let scale = (digits - 2 * square.weight * BASE_DIGITS).min(2 * square.dscale);
        square = square.mul(&square, scale.max(0), work)?;
        if mask & 1 == 1 {
            let scale = digits - (square.weight + result.weight) * BASE_DIGITS;
            let scale = scale.min(square.dscale + result.dscale);
            result = square.mul(&result, scale.max(0), work)?;
        }
        // The weight doubles with each step: beyond the format it only grows.
        if square.weight > WEIGHT_MAX || result.weight > WEIGHT_MAX {
            if exponent > 0 {
                return Err(overflow());
            }
            return Ok(Decimal::zero(rscale));
        }
    }
    if exponent > 0 {
        result.round(rscale);
        return Ok(result);
    }
    if result.is_zero() {
        return Err(super::division_by_zero());
    }
    one().div(&result, rscale, true, work)
}
