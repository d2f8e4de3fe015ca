//! Functions of random numbers.

use std::sync::{LazyLock, Mutex, PoisonError};

use evenkeel_types::Datum;

use crate::call::Call;
use crate::error::{self, ExprResult};
use crate::generator::RandomState;

type Answer = ExprResult<Datum>;

static SHARED: LazyLock<Mutex<RandomState>> = LazyLock::new(Mutex::default);

/// Draws from numbers that `setseed` does not touch.
pub fn unseeded<T>(draw: impl FnOnce(&mut RandomState) -> T) -> T {
    draw(&mut SHARED.lock().unwrap_or_else(PoisonError::into_inner))
}

fn with<T>(call: &Call<'_>, draw: impl FnOnce(&mut RandomState) -> T) -> T {
    match call.session.random_state() {
        Some(state) => draw(&mut state.lock().unwrap_or_else(PoisonError::into_inner)),
        None => unseeded(draw),
    }
}

/// `random()`
pub fn random(call: &Call<'_>) -> Answer {
    Ok(Datum::Float8(with(call, RandomState::float)))
}

fn bounded(call: &Call<'_>) -> ExprResult<i64> {
    let (least, most) = (call.int(0), call.int(1));
    if least > most {
        let message = "lower bound must be less than or equal to upper bound";
        return Err(error::parameter(message));
    }
    Ok(with(call, |state| state.between(least, most)))
}

/// `random(integer, integer)`
pub fn random4(call: &Call<'_>) -> Answer {
    let value = i32::try_from(bounded(call)?);
    value
        .map(Datum::Int4)
        .map_err(|_| error::out_of_range("integer out of range"))
}

/// `random(bigint, bigint)`
pub fn random8(call: &Call<'_>) -> Answer {
    bounded(call).map(Datum::Int8)
}

/// `random_normal(mean, stddev)`
pub fn random_normal(call: &Call<'_>) -> Answer {
    let (mean, deviation) = (call.float(0), call.float(1));
    Ok(Datum::Float8(
        deviation * with(call, RandomState::normal) + mean,
    ))
}

/// `setseed`
pub fn setseed(call: &Call<'_>) -> Answer {
    let seed = call.float(0);
    if !(-1.0..=1.0).contains(&seed) {
        return Err(error::parameter(format!(
            "setseed parameter {seed} is out of allowed range [-1,1]"
        )));
    }
    if call.session.random_state().is_none() {
        return Err(error::unsupported("setseed() is not supported here"));
    }
    with(call, |state| *state = RandomState::of_float(seed));
    Ok(Datum::Null)
}
