//! Functions that look for elements.

use std::cmp::Ordering;

use evenkeel_types::{ArrayValue, Datum, SqlState, TypeError, TypeResult};

use super::{null_not_allowed, subscript_error};
use crate::call::Call;
use crate::gather::Values;
use crate::pace::{VALUE_STEPS, sort_paced};

/// Elements up to which an array is searched one by one.
const FEW: usize = 8;

/// The lower bound and the elements of an array of one dimension.
fn searched(array: &ArrayValue) -> TypeResult<(i32, &[Datum])> {
    match array.dimensions() {
        [] => Ok((1, &[])),
        [dimension] => Ok((dimension.lower, array.elements())),
        _ => Err(TypeError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "searching for elements in multidimensional arrays is not supported",
        )),
    }
}

/// Hands over the subscripts of the elements that are equal to a value, NULL to NULL, until
/// `each` says no.
fn found(
    call: &Call<'_>,
    (lower, elements): (i32, &[Datum]),
    mut each: impl FnMut(i32) -> TypeResult<bool>,
) -> TypeResult<()> {
    let (value, mut pace) = (call.arg(1), call.pace());
    // An array's bounds are integers, so no subscript wraps.
    for (at, element) in (i64::from(lower)..).zip(elements) {
        pace.step(VALUE_STEPS)?;
        if element.equals(value)
            && let Ok(at) = i32::try_from(at)
            && !each(at)?
        {
            break;
        }
    }
    Ok(())
}

/// `array_position(anycompatiblearray, anycompatible [, integer])`
pub fn position(call: &Call<'_>) -> TypeResult<Datum> {
    if call.is_null(0) {
        return Ok(Datum::Null);
    }
    let (lower, elements) = searched(call.array(0))?;
    if elements.is_empty() || call.is_null(1) && !elements.iter().any(Datum::is_null) {
        return Ok(Datum::Null);
    }
    let least = match call.args.len() {
        0..=2 => lower,
        _ if call.is_null(2) => {
            return Err(null_not_allowed("initial position must not be null"));
        }
        _ => call.int4(2)?,
    };
    let mut place = None;
    found(call, (lower, elements), |at| {
        place = (at >= least).then_some(at);
        Ok(place.is_none())
    })?;
    Ok(place.into())
}

/// `array_positions(anycompatiblearray, anycompatible)`
pub fn positions(call: &Call<'_>) -> TypeResult<Datum> {
    if call.is_null(0) {
        return Ok(Datum::Null);
    }
    let mut places = Values::new(call, 0);
    found(call, searched(call.array(0))?, |at| {
        places.push(Datum::Int4(at)).map(|()| true)
    })?;
    Ok(places.array())
}

/// The elements that are not NULL, prepared to be looked up.
struct Lookup<'a> {
    sorted: Vec<&'a Datum>,
}

impl<'a> Lookup<'a> {
    fn of(array: &'a ArrayValue, call: &Call<'_>) -> TypeResult<Lookup<'a>> {
        let values = array.elements().iter().filter(|value| !value.is_null());
        call.room_of_values(array.elements().len() / 2, 0)?;
        let mut sorted: Vec<&Datum> = values.collect();
        if sorted.len() > FEW {
            sort_paced(&mut sorted, |a, b| a.compare(b), &mut call.pace())?;
        }
        Ok(Lookup { sorted })
    }

    fn has(&self, value: &Datum) -> bool {
        if self.sorted.len() <= FEW {
            return self.sorted.iter().any(|element| element.equals(value));
        }
        let place = self
            .sorted
            .binary_search_by(|element| element.compare(value));
        place.is_ok()
    }
}

/// Whether every element of `parts` is in `whole`; a NULL is in none.
fn has_all(call: &Call<'_>, whole: &ArrayValue, parts: &ArrayValue) -> TypeResult<Datum> {
    let (lookup, mut pace) = (Lookup::of(whole, call)?, call.pace());
    for value in parts.elements() {
        pace.step(LOOKUP_STEPS)?;
        if value.is_null() || !lookup.has(value) {
            return Ok(Datum::Bool(false));
        }
    }
    Ok(Datum::Bool(true))
}

/// A look-up of a value, as steps of a loop.
const LOOKUP_STEPS: usize = 64;

/// `anyarray @> anyarray`
pub fn contains(call: &Call<'_>) -> TypeResult<Datum> {
    has_all(call, call.array(0), call.array(1))
}

/// `anyarray <@ anyarray`
pub fn contained(call: &Call<'_>) -> TypeResult<Datum> {
    has_all(call, call.array(1), call.array(0))
}

/// `anyarray && anyarray`
pub fn overlap(call: &Call<'_>) -> TypeResult<Datum> {
    let (lookup, mut pace) = (Lookup::of(call.array(0), call)?, call.pace());
    for value in call.array(1).elements() {
        pace.step(LOOKUP_STEPS)?;
        if !value.is_null() && lookup.has(value) {
            return Ok(Datum::Bool(true));
        }
    }
    Ok(Datum::Bool(false))
}

/// `width_bucket(anycompatible, anycompatiblearray)`: how many of the ordered thresholds are at or
/// below the value.
pub fn width_bucket(call: &Call<'_>) -> TypeResult<Datum> {
    let thresholds = call.array(1);
    if thresholds.dimensions().len() > 1 {
        return Err(subscript_error("thresholds must be one-dimensional array"));
    }
    if thresholds.elements().iter().any(Datum::is_null) {
        return Err(null_not_allowed("thresholds array must not contain NULLs"));
    }
    let value = call.arg(0);
    let below = |threshold: &Datum| threshold.compare(value) != Ordering::Greater;
    let bucket = thresholds.elements().partition_point(below);
    Ok(Datum::Int4(i32::try_from(bucket).unwrap_or(i32::MAX)))
}
