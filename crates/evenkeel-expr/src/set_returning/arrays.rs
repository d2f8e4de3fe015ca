//! `unnest`, `generate_subscripts`.

use std::sync::Arc;

use evenkeel_types::{ArrayValue, Datum, TypeError, TypeResult};

use super::put;
use crate::call::{Call, Session};
use crate::proc::Rows;

/// The elements of an array, of all dimensions.
struct Elements {
    array: Arc<ArrayValue>,
    next: usize,
}

impl Rows for Elements {
    fn next(&mut self, _session: &dyn Session, row: &mut Vec<Datum>) -> TypeResult<bool> {
        let Some(element) = self.array.elements().get(self.next) else {
            return Ok(false);
        };
        self.next += 1;
        put(row, element.clone());
        Ok(true)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.array.bytes()
    }
}

/// `unnest(anyarray)`
pub(super) fn unnest(call: &Call<'_>) -> TypeResult<Box<dyn Rows>> {
    let Datum::Array(array) = call.arg(0) else {
        return Err(TypeError::internal("unnest of a value that is no array"));
    };
    Ok(Box::new(Elements {
        array: Arc::clone(array),
        next: 0,
    }))
}

/// The subscripts of a dimension, from both ends.
struct Subscripts {
    left: std::ops::RangeInclusive<i32>,
    reverse: bool,
}

impl Rows for Subscripts {
    fn next(&mut self, _session: &dyn Session, row: &mut Vec<Datum>) -> TypeResult<bool> {
        let next = match self.reverse {
            true => self.left.next_back(),
            false => self.left.next(),
        };
        let Some(subscript) = next else {
            return Ok(false);
        };
        put(row, Datum::Int4(subscript));
        Ok(true)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
    }
}

/// `generate_subscripts(anyarray, integer [, boolean])`; of a dimension that is not there none.
pub(super) fn subscripts(call: &Call<'_>) -> TypeResult<Box<dyn Rows>> {
    let at = usize::try_from(i64::from(call.int4(1)?) - 1).ok();
    let dimension = at.and_then(|at| call.array(0).dimensions().get(at));
    #[allow(clippy::reversed_empty_ranges)]
    let none = 1..=0;
    Ok(Box::new(Subscripts {
        left: dimension.map_or(none, |dimension| dimension.lower..=dimension.upper()),
        reverse: call.flag(2),
    }))
}
