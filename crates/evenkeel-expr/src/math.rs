//! Functions of integers and floats, with PostgreSQL's errors where C's have values.

use std::f64::consts::LN_2;

use evenkeel_types::{Datum, TypeError};

use crate::call::Call;
use crate::error::{self, ExprResult};

type Answer = ExprResult<Datum>;

fn overflow() -> TypeError {
    error::out_of_range("value out of range: overflow")
}

fn underflow() -> TypeError {
    error::out_of_range("value out of range: underflow")
}

fn input() -> TypeError {
    error::out_of_range("input is out of range")
}

fn float(value: f64) -> Answer {
    Ok(Datum::Float8(value))
}

/// A result that is infinite only of infinities.
fn finite_of_finite(value: f64, arguments: &[f64]) -> Answer {
    match value.is_infinite() && arguments.iter().all(|argument| argument.is_finite()) {
        true => Err(overflow()),
        false => float(value),
    }
}

/// 2^28, beyond which a hyperbola is as good as its asymptote, and its square would overflow.
const HUGE: f64 = 268_435_456.0;

macro_rules! of_float {
    ($($(#[$doc:meta])* $name:ident($x:ident) => $body:expr;)*) => {
        $($(#[$doc])*
        pub fn $name(call: &Call<'_>) -> Answer {
            let $x = call.float(0);
            if $x.is_nan() {
                return float($x);
            }
            $body
        })*
    };
}

of_float! {
    /// `sqrt`
    sqrt(x) => match x < 0.0 {
        true => Err(error::power("cannot take square root of a negative number")),
        false => float(x.sqrt()),
    };
    /// `cbrt`
    cbrt(x) => float(x.cbrt());
    /// `exp`
    exp(x) => {
        let value = x.exp();
        if x.is_infinite() {
            return float(value);
        }
        match value {
            0.0 => Err(underflow()),
            value => finite_of_finite(value, &[x]),
        }
    };
    /// `ln`
    ln(x) => logarithm(x, f64::ln);
    /// `log`, to the base of 10
    log10(x) => logarithm(x, f64::log10);
    /// `sin`
    sin(x) => of_finite(x, f64::sin);
    /// `cos`
    cos(x) => of_finite(x, f64::cos);
    /// `tan`
    tan(x) => of_finite(x, f64::tan);
    /// `cot`
    cot(x) => of_finite(x, |x| 1.0 / x.tan());
    /// `asin`
    asin(x) => of_unit(x, f64::asin);
    /// `acos`
    acos(x) => of_unit(x, f64::acos);
    /// `atan`
    atan(x) => float(x.atan());
    /// `sinh`
    sinh(x) => float(x.sinh());
    /// `cosh`
    cosh(x) => float(x.cosh());
    /// `tanh`
    tanh(x) => float(x.tanh());
    /// `asinh`
    asinh(x) => match x == 0.0 || x.is_infinite() {
        true => float(x),
        false if x.abs() > HUGE => float((x.abs().ln() + LN_2).copysign(x)),
        false => float(x.asinh()),
    };
    /// `acosh`
    acosh(x) => match x < 1.0 {
        true => Err(input()),
        false if x > HUGE => float(x.ln() + LN_2),
        false => float(x.acosh()),
    };
    /// `atanh`
    atanh(x) => match x.abs() > 1.0 {
        true => Err(input()),
        false => float(x.atanh()),
    };
    /// `degrees`
    degrees(x) => {
        const RADIANS_OF_DEGREE: f64 = std::f64::consts::PI / 180.0;
        finite_of_finite(x / RADIANS_OF_DEGREE, &[x])
    };
    /// `radians`
    radians(x) => {
        let value = x * (std::f64::consts::PI / 180.0);
        match value == 0.0 && x != 0.0 {
            true => Err(underflow()),
            false => float(value),
        }
    };
}

fn logarithm(x: f64, of: impl Fn(f64) -> f64) -> Answer {
    if x == 0.0 {
        return Err(error::logarithm("cannot take logarithm of zero"));
    }
    if x < 0.0 {
        let message = "cannot take logarithm of a negative number";
        return Err(error::logarithm(message));
    }
    float(of(x))
}

fn of_finite(x: f64, of: impl Fn(f64) -> f64) -> Answer {
    match x.is_infinite() {
        true => Err(input()),
        false => float(of(x)),
    }
}

fn of_unit(x: f64, of: impl Fn(f64) -> f64) -> Answer {
    match x.abs() > 1.0 {
        true => Err(input()),
        false => float(of(x)),
    }
}

/// `power` of floats
pub fn power(call: &Call<'_>) -> Answer {
    let (base, exponent) = (call.float(0), call.float(1));
    // PostgreSQL answers 1 for any power of 1 and for any base to the power of 0, also with NaN.
    if exponent == 0.0 || base == 1.0 {
        return float(1.0);
    }
    if base.is_nan() || exponent.is_nan() {
        return float(f64::NAN);
    }
    if base == 0.0 && exponent < 0.0 {
        return Err(error::power("zero raised to a negative power is undefined"));
    }
    if base < 0.0 && exponent.floor() != exponent {
        let message = "a negative number raised to a non-integer power yields a complex result";
        return Err(error::power(message));
    }
    let value = base.powf(exponent);
    if base.is_infinite() || exponent.is_infinite() {
        return float(value);
    }
    match value == 0.0 && base != 0.0 {
        true => Err(underflow()),
        false => finite_of_finite(value, &[base, exponent]),
    }
}

/// `atan2`
pub fn atan2(call: &Call<'_>) -> Answer {
    float(call.float(0).atan2(call.float(1)))
}

fn greatest_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// A positive number as an integer of a width.
fn narrowed(number: Option<u64>, wide: bool) -> Answer {
    let name = if wide { "bigint" } else { "integer" };
    let refused = || error::out_of_range(format!("{name} out of range"));
    let number = number.ok_or_else(refused)?;
    match wide {
        true => i64::try_from(number)
            .map(Datum::Int8)
            .map_err(|_| refused()),
        false => i32::try_from(number)
            .map(Datum::Int4)
            .map_err(|_| refused()),
    }
}

fn divisor(call: &Call<'_>, wide: bool) -> Answer {
    let (a, b) = (call.int(0).unsigned_abs(), call.int(1).unsigned_abs());
    narrowed(Some(greatest_divisor(a, b)), wide)
}

fn multiple(call: &Call<'_>, wide: bool) -> Answer {
    let (a, b) = (call.int(0).unsigned_abs(), call.int(1).unsigned_abs());
    if a == 0 || b == 0 {
        return narrowed(Some(0), wide);
    }
    narrowed((a / greatest_divisor(a, b)).checked_mul(b), wide)
}

/// `gcd(integer, integer)`
pub fn gcd4(call: &Call<'_>) -> Answer {
    divisor(call, false)
}

/// `gcd(bigint, bigint)`
pub fn gcd8(call: &Call<'_>) -> Answer {
    divisor(call, true)
}

/// `lcm(integer, integer)`
pub fn lcm4(call: &Call<'_>) -> Answer {
    multiple(call, false)
}

/// `lcm(bigint, bigint)`
pub fn lcm8(call: &Call<'_>) -> Answer {
    multiple(call, true)
}

fn bits(call: &Call<'_>) -> u64 {
    match call.args.first() {
        Some(Datum::Int8(value)) => *value as u64,
        _ => u64::from(call.int(0) as u32),
    }
}

/// `to_hex`
pub fn to_hex(call: &Call<'_>) -> Answer {
    Ok(format!("{:x}", bits(call)).into())
}

/// `to_oct`
pub fn to_oct(call: &Call<'_>) -> Answer {
    Ok(format!("{:o}", bits(call)).into())
}

/// `to_bin`
pub fn to_bin(call: &Call<'_>) -> Answer {
    Ok(format!("{:b}", bits(call)).into())
}
