//! Trigonometric functions of degrees, exact where the angle has an exact value: each is scaled by
//! what it gives for the angle whose value is known, as PostgreSQL does.

use std::f64::consts::PI;

use evenkeel_types::{Datum, TypeError};

use crate::call::Call;
use crate::error::{self, ExprResult};

type Answer = ExprResult<Datum>;

fn input() -> TypeError {
    error::out_of_range("input is out of range")
}

fn radians(x: f64) -> f64 {
    x * (PI / 180.0)
}

/// Of 0 to 30 degrees.
fn small_sine(x: f64) -> f64 {
    radians(x).sin() / radians(30.0).sin() / 2.0
}

/// Of 0 to 60 degrees.
fn small_cosine(x: f64) -> f64 {
    1.0 - (1.0 - radians(x).cos()) / (1.0 - radians(60.0).cos()) / 2.0
}

/// Of 0 to 90 degrees.
fn sine(x: f64) -> f64 {
    if x <= 30.0 {
        small_sine(x)
    } else {
        small_cosine(90.0 - x)
    }
}

/// Of 0 to 90 degrees.
fn cosine(x: f64) -> f64 {
    if x <= 60.0 {
        small_cosine(x)
    } else {
        small_sine(90.0 - x)
    }
}

/// An angle in the first quadrant, and the signs of its sine and cosine.
struct Angle {
    x: f64,
    sine_sign: f64,
    cosine_sign: f64,
}

impl Angle {
    fn of(call: &Call<'_>) -> ExprResult<Angle> {
        let x = call.float(0);
        if x.is_infinite() {
            return Err(input());
        }
        let mut angle = Angle {
            x: x % 360.0,
            sine_sign: 1.0,
            cosine_sign: 1.0,
        };
        if angle.x < 0.0 {
            angle.x = -angle.x;
            angle.sine_sign = -1.0;
        }
        if angle.x > 180.0 {
            angle.x = 360.0 - angle.x;
            angle.sine_sign = -angle.sine_sign;
        }
        if angle.x > 90.0 {
            angle.x = 180.0 - angle.x;
            angle.cosine_sign = -1.0;
        }
        Ok(angle)
    }
}

/// Zero without a sign.
fn unsigned_zero(x: f64) -> f64 {
    if x == 0.0 { 0.0 } else { x }
}

/// `sind`
pub fn sind(call: &Call<'_>) -> Answer {
    let angle = Angle::of(call)?;
    Ok(Datum::Float8(angle.sine_sign * sine(angle.x)))
}

/// `cosd`
pub fn cosd(call: &Call<'_>) -> Answer {
    let angle = Angle::of(call)?;
    Ok(Datum::Float8(angle.cosine_sign * cosine(angle.x)))
}

/// `tand`
pub fn tand(call: &Call<'_>) -> Answer {
    let angle = Angle::of(call)?;
    let sign = angle.sine_sign * angle.cosine_sign;
    let scale = sine(45.0) / cosine(45.0);
    let value = sign * (sine(angle.x) / cosine(angle.x) / scale);
    Ok(Datum::Float8(unsigned_zero(value)))
}

/// `cotd`
pub fn cotd(call: &Call<'_>) -> Answer {
    let angle = Angle::of(call)?;
    let sign = angle.sine_sign * angle.cosine_sign;
    let scale = cosine(45.0) / sine(45.0);
    let value = sign * (cosine(angle.x) / sine(angle.x) / scale);
    Ok(Datum::Float8(unsigned_zero(value)))
}

/// Of 0 to 1.
fn arc_sine(x: f64) -> f64 {
    if x <= 0.5 {
        x.asin() / 0.5f64.asin() * 30.0
    } else {
        90.0 - x.acos() / 0.5f64.acos() * 60.0
    }
}

/// Of 0 to 1.
fn arc_cosine(x: f64) -> f64 {
    if x <= 0.5 {
        90.0 - x.asin() / 0.5f64.asin() * 30.0
    } else {
        x.acos() / 0.5f64.acos() * 60.0
    }
}

fn unit(call: &Call<'_>) -> ExprResult<f64> {
    let x = call.float(0);
    match x.abs() > 1.0 {
        true => Err(input()),
        false => Ok(x),
    }
}

/// `asind`
pub fn asind(call: &Call<'_>) -> Answer {
    let x = unit(call)?;
    Ok(Datum::Float8(if x >= 0.0 {
        arc_sine(x)
    } else {
        -arc_sine(-x)
    }))
}

/// `acosd`
pub fn acosd(call: &Call<'_>) -> Answer {
    let x = unit(call)?;
    Ok(Datum::Float8(if x >= 0.0 {
        arc_cosine(x)
    } else {
        90.0 + arc_sine(-x)
    }))
}

/// `atand`
pub fn atand(call: &Call<'_>) -> Answer {
    Ok(Datum::Float8(call.float(0).atan() / 1f64.atan() * 45.0))
}

/// `atan2d`
pub fn atan2d(call: &Call<'_>) -> Answer {
    Ok(Datum::Float8(
        call.float(0).atan2(call.float(1)) / 1f64.atan() * 45.0,
    ))
}

/// `erf`
pub fn erf(call: &Call<'_>) -> Answer {
    Ok(Datum::Float8(libm::erf(call.float(0))))
}

/// `erfc`
pub fn erfc(call: &Call<'_>) -> Answer {
    Ok(Datum::Float8(libm::erfc(call.float(0))))
}

/// `gamma`
pub fn gamma(call: &Call<'_>) -> Answer {
    let x = call.float(0);
    if x.is_nan() || x == f64::INFINITY {
        return Ok(Datum::Float8(x));
    }
    let value = libm::tgamma(x);
    if value == 0.0 {
        return Err(error::out_of_range("value out of range: underflow"));
    }
    match value.is_finite() {
        true => Ok(Datum::Float8(value)),
        false => Err(error::out_of_range("value out of range: overflow")),
    }
}

/// `lgamma`
pub fn lgamma(call: &Call<'_>) -> Answer {
    let x = call.float(0);
    let value = libm::lgamma(x);
    match value.is_infinite() && x.is_finite() {
        true => Err(error::out_of_range("value out of range: overflow")),
        false => Ok(Datum::Float8(value)),
    }
}
