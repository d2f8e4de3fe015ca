//! `@>` and `<@`.

use evenkeel_types::{Datum, JsonbArray, JsonbItem, JsonbObject, JsonbRef, MAX_JSON_DEPTH};

use super::jsonb_of;
use crate::call::Call;
use crate::error::{self, ExprResult};
use crate::pace::Pace;

const RED_ZONE: usize = 64 << 10;
const STACK_SEGMENT: usize = 1 << 20;

/// `jsonb @> jsonb`
pub fn contains(call: &Call<'_>) -> ExprResult<Datum> {
    let found = at_top(jsonb_of(call, 0), jsonb_of(call, 1), &mut call.pace())?;
    Ok(Datum::Bool(found))
}

/// `jsonb <@ jsonb`
pub fn contained(call: &Call<'_>) -> ExprResult<Datum> {
    let found = at_top(jsonb_of(call, 1), jsonb_of(call, 0), &mut call.pace())?;
    Ok(Datum::Bool(found))
}

/// An array has its elements, also where the other is a scalar; a scalar has only itself.
fn at_top(whole: JsonbRef<'_>, part: JsonbRef<'_>, pace: &mut Pace<'_>) -> ExprResult<bool> {
    match (whole.item(), part.is_scalar()) {
        (JsonbItem::Array(array), true) => has_scalar(array, part, pace),
        _ if whole.is_scalar() && part.is_scalar() => Ok(whole.compare(part).is_eq()),
        _ => deep(whole, part, 0, pace),
    }
}

/// Whether two arrays or two objects are such that the first has the second.
fn deep(
    whole: JsonbRef<'_>,
    part: JsonbRef<'_>,
    depth: usize,
    pace: &mut Pace<'_>,
) -> ExprResult<bool> {
    if depth > MAX_JSON_DEPTH {
        return Err(error::too_complex());
    }
    stacker::maybe_grow(RED_ZONE, STACK_SEGMENT, || {
        match (whole.item(), part.item()) {
            (JsonbItem::Object(whole), JsonbItem::Object(part)) => {
                objects(whole, part, depth, pace)
            }
            (JsonbItem::Array(whole), JsonbItem::Array(part)) => arrays(whole, part, depth, pace),
            _ => Ok(false),
        }
    })
}

fn objects(
    whole: JsonbObject<'_>,
    part: JsonbObject<'_>,
    depth: usize,
    pace: &mut Pace<'_>,
) -> ExprResult<bool> {
    if whole.len() < part.len() {
        return Ok(false);
    }
    for (key, part) in part.iter() {
        pace.step(16)?;
        let Some(value) = whole.find(key) else {
            return Ok(false);
        };
        let found = match (value.is_scalar(), part.is_scalar()) {
            (true, true) => value.compare(part).is_eq(),
            (false, false) => deep(value, part, depth + 1, pace)?,
            _ => false,
        };
        if !found {
            return Ok(false);
        }
    }
    Ok(true)
}

fn has_scalar(array: JsonbArray<'_>, part: JsonbRef<'_>, pace: &mut Pace<'_>) -> ExprResult<bool> {
    for element in array.iter() {
        pace.step(8 + element.bytes().len().min(part.bytes().len()) / 8)?;
        if element.is_scalar() && element.compare(part).is_eq() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn arrays(
    whole: JsonbArray<'_>,
    part: JsonbArray<'_>,
    depth: usize,
    pace: &mut Pace<'_>,
) -> ExprResult<bool> {
    for part in part.iter() {
        let mut found = false;
        if part.is_scalar() {
            found = has_scalar(whole, part, pace)?;
        } else {
            for element in whole.iter() {
                pace.step(8)?;
                if !element.is_scalar() && deep(element, part, depth + 1, pace)? {
                    found = true;
                    break;
                }
            }
        }
        if !found {
            return Ok(false);
        }
    }
    Ok(true)
}
