//! `generate_series` of numbers.

use evenkeel_types::{Datum, Numeric, SqlState, TypeError, TypeResult};

use super::put;
use crate::call::{Call, Session};
use crate::proc::Rows;

/// 22023
pub(super) fn parameter(message: impl Into<String>) -> TypeError {
    TypeError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// A series of integers, of 64 bits while it is counted. It ends where the next number is beyond
/// the end, which lies within the type.
struct Integers {
    next: Option<i64>,
    end: i64,
    step: i64,
    narrow: bool,
}

impl Rows for Integers {
    #[inline]
    fn next(&mut self, _session: &dyn Session, row: &mut Vec<Datum>) -> TypeResult<bool> {
        let within = |value: &i64| match self.step > 0 {
            true => *value <= self.end,
            false => *value >= self.end,
        };
        let Some(value) = self.next.filter(within) else {
            return Ok(false);
        };
        self.next = value.checked_add(self.step);
        put(
            row,
            match i32::try_from(value) {
                Ok(value) if self.narrow => Datum::Int4(value),
                _ => Datum::Int8(value),
            },
        );
        Ok(true)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
    }
}

fn integers_of(call: &Call<'_>, narrow: bool) -> TypeResult<Box<dyn Rows>> {
    let step = if call.args.len() > 2 { call.int(2) } else { 1 };
    if step == 0 {
        return Err(parameter("step size cannot equal zero"));
    }
    Ok(Box::new(Integers {
        next: Some(call.int(0)),
        end: call.int(1),
        step,
        narrow,
    }))
}

/// `generate_series(integer, integer [, integer])`
pub(super) fn narrow(call: &Call<'_>) -> TypeResult<Box<dyn Rows>> {
    integers_of(call, true)
}

/// `generate_series(bigint, bigint [, bigint])`
pub(super) fn wide(call: &Call<'_>) -> TypeResult<Box<dyn Rows>> {
    integers_of(call, false)
}

/// A series of numbers.
struct Numbers {
    next: Numeric,
    end: Numeric,
    step: Numeric,
    down: bool,
}

impl Rows for Numbers {
    fn next(&mut self, _session: &dyn Session, row: &mut Vec<Datum>) -> TypeResult<bool> {
        let beyond = match self.down {
            true => self.next < self.end,
            false => self.next > self.end,
        };
        if beyond {
            return Ok(false);
        }
        let following = self.next.add(&self.step)?;
        let value = std::mem::replace(&mut self.next, following);
        put(row, Datum::Numeric(value));
        Ok(true)
    }

    fn bytes(&self) -> usize {
        let digits = [&self.next, &self.end, &self.step];
        size_of::<Self>()
            + digits
                .map(|number| size_of_val(number.digits()))
                .iter()
                .sum::<usize>()
    }
}

fn finite(value: &Numeric, which: &str) -> TypeResult<Numeric> {
    if value.is_nan() {
        return Err(parameter(format!("{which} cannot be NaN")));
    }
    if !value.is_finite() {
        return Err(parameter(format!("{which} cannot be infinity")));
    }
    Ok(value.clone())
}

/// `generate_series(numeric, numeric [, numeric])`
pub(super) fn numbers(call: &Call<'_>) -> TypeResult<Box<dyn Rows>> {
    let next = finite(call.numeric(0), "start value")?;
    let end = finite(call.numeric(1), "stop value")?;
    let step = match call.args.len() {
        0..=2 => Numeric::from(1),
        _ => finite(call.numeric(2), "step size")?,
    };
    let down = match step.signum() {
        Some(std::cmp::Ordering::Equal) => {
            return Err(parameter("step size cannot equal zero"));
        }
        sign => sign == Some(std::cmp::Ordering::Less),
    };
    Ok(Box::new(Numbers {
        next,
        end,
        step,
        down,
    }))
}
