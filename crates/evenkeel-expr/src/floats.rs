//! Arithmetic of floats: infinite or zero results of other numbers are errors.

use evenkeel_types::{Datum, TypeError};

use crate::call::Call;
use crate::error::{self, ExprResult};

type Answer = ExprResult<Datum>;

#[cold]
fn overflow() -> TypeError {
    error::out_of_range("value out of range: overflow")
}

#[cold]
fn underflow() -> TypeError {
    error::out_of_range("value out of range: underflow")
}

macro_rules! width {
    ($ty:ty, $add:ident $sub:ident $mul:ident $div:ident) => {
        fn $add(a: $ty, b: $ty) -> ExprResult<$ty> {
            let value = a + b;
            match value.is_infinite() && a.is_finite() && b.is_finite() {
                true => Err(overflow()),
                false => Ok(value),
            }
        }

        fn $sub(a: $ty, b: $ty) -> ExprResult<$ty> {
            $add(a, -b)
        }

        fn $mul(a: $ty, b: $ty) -> ExprResult<$ty> {
            let value = a * b;
            if value.is_infinite() && a.is_finite() && b.is_finite() {
                return Err(overflow());
            }
            match value == 0.0 && a != 0.0 && b != 0.0 {
                true => Err(underflow()),
                false => Ok(value),
            }
        }

        fn $div(a: $ty, b: $ty) -> ExprResult<$ty> {
            if b == 0.0 && !a.is_nan() {
                return Err(error::division_by_zero());
            }
            let value = a / b;
            if value.is_infinite() && a.is_finite() {
                return Err(overflow());
            }
            match value == 0.0 && a != 0.0 && b.is_finite() {
                true => Err(underflow()),
                false => Ok(value),
            }
        }
    };
}

width! { f32, plus_real minus_real times_real over_real }
width! { f64, plus minus times over }

macro_rules! of_pairs {
    ($($(#[$doc:meta])*
        $name:ident: $left:ident $right:ident = $op:ident -> $result:ident $ty:ty;)*) => {
        $($(#[$doc])*
        pub fn $name(call: &Call<'_>) -> Answer {
            let [Datum::$left(a), Datum::$right(b)] = call.args else {
                return call.mismatch();
            };
            $op(<$ty>::from(*a), <$ty>::from(*b)).map(Datum::$result)
        })*
    };
}

of_pairs! {
    /// `real + real`
    add4: Float4 Float4 = plus_real -> Float4 f32;
    /// `double precision + double precision`
    add8: Float8 Float8 = plus -> Float8 f64;
    /// `real + double precision`
    add48: Float4 Float8 = plus -> Float8 f64;
    /// `double precision + real`
    add84: Float8 Float4 = plus -> Float8 f64;
    /// `real - real`
    sub4: Float4 Float4 = minus_real -> Float4 f32;
    /// `double precision - double precision`
    sub8: Float8 Float8 = minus -> Float8 f64;
    /// `real - double precision`
    sub48: Float4 Float8 = minus -> Float8 f64;
    /// `double precision - real`
    sub84: Float8 Float4 = minus -> Float8 f64;
    /// `real * real`
    mul4: Float4 Float4 = times_real -> Float4 f32;
    /// `double precision * double precision`
    mul8: Float8 Float8 = times -> Float8 f64;
    /// `real * double precision`
    mul48: Float4 Float8 = times -> Float8 f64;
    /// `double precision * real`
    mul84: Float8 Float4 = times -> Float8 f64;
    /// `real / real`
    div4: Float4 Float4 = over_real -> Float4 f32;
    /// `double precision / double precision`
    div8: Float8 Float8 = over -> Float8 f64;
    /// `real / double precision`
    div48: Float4 Float8 = over -> Float8 f64;
    /// `double precision / real`
    div84: Float8 Float4 = over -> Float8 f64;
}

/// `+`
pub fn plus_sign(call: &Call<'_>) -> Answer {
    Ok(call.arg(0).clone())
}

/// `-`
pub fn negate(call: &Call<'_>) -> Answer {
    match call.arg(0) {
        Datum::Float4(value) => Ok(Datum::Float4(-value)),
        Datum::Float8(value) => Ok(Datum::Float8(-value)),
        _ => call.mismatch(),
    }
}

/// `abs`
pub fn abs(call: &Call<'_>) -> Answer {
    match call.arg(0) {
        Datum::Float4(value) => Ok(Datum::Float4(value.abs())),
        Datum::Float8(value) => Ok(Datum::Float8(value.abs())),
        _ => call.mismatch(),
    }
}

macro_rules! of_double {
    ($($(#[$doc:meta])* $name:ident = $body:expr;)*) => {
        $($(#[$doc])*
        pub fn $name(call: &Call<'_>) -> Answer {
            let of: fn(f64) -> f64 = $body;
            Ok(Datum::Float8(of(call.float(0))))
        })*
    };
}

of_double! {
    /// `round`, half to even
    round = f64::round_ties_even;
    /// `trunc`
    trunc = f64::trunc;
    /// `ceil`
    ceil = f64::ceil;
    /// `floor`
    floor = f64::floor;
    /// `sign`
    sign = |x| if x > 0.0 { 1.0 } else if x < 0.0 { -1.0 } else { 0.0 };
}

/// `pi`
pub fn pi(_: &Call<'_>) -> Answer {
    Ok(Datum::Float8(std::f64::consts::PI))
}

/// `width_bucket(double precision, double precision, double precision, integer)`
pub fn width_bucket(call: &Call<'_>) -> Answer {
    let (value, low, high, count) = (call.float(0), call.float(1), call.float(2), call.int4(3)?);
    if count <= 0 {
        return Err(error::width_bucket("count must be greater than zero"));
    }
    if value.is_nan() || low.is_nan() || high.is_nan() {
        return Err(error::width_bucket(
            "operand, lower bound, and upper bound cannot be NaN",
        ));
    }
    if low.is_infinite() || high.is_infinite() {
        return Err(error::width_bucket("lower and upper bounds must be finite"));
    }
    if low == high {
        return Err(error::width_bucket("lower bound cannot equal upper bound"));
    }
    let upwards = low < high;
    let (before, behind) = match upwards {
        true => (value < low, value >= high),
        false => (value > low, value <= high),
    };
    if before {
        return Ok(Datum::Int4(0));
    }
    if behind {
        let last = count.checked_add(1);
        return last
            .map(Datum::Int4)
            .ok_or_else(|| error::out_of_range("integer out of range"));
    }
    // Halved where the difference of the bounds is more than a float holds.
    let share = match (high - low).is_infinite() {
        true => (value / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0),
        false => (value - low) / (high - low),
    };
    let bucket = (f64::from(count) * share) as i32;
    // Rounding may reach the next bucket's bound.
    Ok(Datum::Int4(bucket.min(count - 1) + 1))
}
