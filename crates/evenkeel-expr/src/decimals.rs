//! Functions of `numeric`.

use evenkeel_types::{Datum, Numeric, TypeResult, Work};

use crate::call::Call;
use crate::error::ExprResult;

type Answer = ExprResult<Datum>;

macro_rules! of_two {
    ($($(#[$doc:meta])* $name:ident = $method:ident;)*) => {
        $($(#[$doc])*
        pub fn $name(call: &Call<'_>) -> Answer {
            let ask = || call.session.check_cancel();
            let (a, b) = (call.numeric(0), call.numeric(1));
            a.$method(b, &Work::asking(&ask)).map(Datum::Numeric)
        })*
    };
}

macro_rules! sums {
    ($($(#[$doc:meta])* $name:ident = $method:ident;)*) => {
        $($(#[$doc])*
        pub fn $name(call: &Call<'_>) -> Answer {
            call.numeric(0).$method(call.numeric(1)).map(Datum::Numeric)
        })*
    };
}

sums! {
    /// `+`
    add = add;
    /// `-`
    sub = sub;
}

of_two! {
    /// `*`
    mul = mul_within;
    /// `/`
    div = div_within;
    /// `div`, of whole numbers
    div_integer = div_integer_within;
    /// `%`
    rem = rem_within;
    /// `power`
    power = power_within;
    /// `gcd`
    gcd = gcd_within;
    /// `lcm`
    lcm = lcm_within;
}

fn given(value: Numeric) -> TypeResult<Numeric> {
    Ok(value)
}

macro_rules! of_one {
    ($($(#[$doc:meta])* $name:ident($x:ident) = $body:expr;)*) => {
        $($(#[$doc])*
        pub fn $name(call: &Call<'_>) -> Answer {
            let $x = call.numeric(0);
            $body.map(Datum::Numeric)
        })*
    };
}

macro_rules! long_of_one {
    ($($(#[$doc:meta])* $name:ident($x:ident, $work:ident) = $body:expr;)*) => {
        $($(#[$doc])*
        pub fn $name(call: &Call<'_>) -> Answer {
            let ask = || call.session.check_cancel();
            let ($x, $work) = (call.numeric(0), &Work::asking(&ask));
            $body.map(Datum::Numeric)
        })*
    };
}

long_of_one! {
    /// `sqrt`
    sqrt(x, work) = x.sqrt_within(work);
    /// `exp`
    exp(x, work) = x.exp_within(work);
    /// `ln`
    ln(x, work) = x.ln_within(work);
    /// `log(numeric)`, to the base of 10
    log10(x, work) = Numeric::log_within(&Numeric::from(10i64), x, work);
}

of_one! {
    /// `+`
    plus(x) = given(x.clone());
    /// `-`
    negate(x) = given(x.neg());
    /// `abs`
    abs(x) = given(x.abs());
    /// `sign`
    sign(x) = given(x.sign_value());
    /// `ceil`
    ceil(x) = x.ceil();
    /// `floor`
    floor(x) = x.floor();
    /// `round(numeric)`
    round(x) = x.round(0);
    /// `trunc(numeric)`
    trunc(x) = given(x.truncate(0));
    /// `trim_scale`
    trim_scale(x) = given(x.trim_scale());
    /// `numeric_inc`
    inc(x) = x.add(&Numeric::from(1i64));
}

/// `round(numeric, integer)`
pub fn round_to(call: &Call<'_>) -> Answer {
    call.numeric(0).round(call.int4(1)?).map(Datum::Numeric)
}

/// `trunc(numeric, integer)`
pub fn trunc_to(call: &Call<'_>) -> Answer {
    Ok(Datum::Numeric(call.numeric(0).truncate(call.int4(1)?)))
}

/// `log(numeric, numeric)`
pub fn log(call: &Call<'_>) -> Answer {
    let ask = || call.session.check_cancel();
    let (base, value) = (call.numeric(0), call.numeric(1));
    Numeric::log_within(base, value, &Work::asking(&ask)).map(Datum::Numeric)
}

/// `factorial`
pub fn factorial(call: &Call<'_>) -> Answer {
    let ask = || call.session.check_cancel();
    Numeric::factorial_within(call.int(0), &Work::asking(&ask)).map(Datum::Numeric)
}

/// `scale`
pub fn scale(call: &Call<'_>) -> Answer {
    Ok(call.numeric(0).scale().into())
}

/// `min_scale`
pub fn min_scale(call: &Call<'_>) -> Answer {
    Ok(call.numeric(0).min_scale().into())
}

/// `width_bucket(numeric, numeric, numeric, integer)`
pub fn width_bucket(call: &Call<'_>) -> Answer {
    let bucket = call
        .numeric(0)
        .width_bucket(call.numeric(1), call.numeric(2), call.int4(3)?);
    bucket.map(Datum::Int4)
}
