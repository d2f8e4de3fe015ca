//! Aggregates of floats. The digits depend on the order of operations, so these are PostgreSQL's:
//! `avg` and the spreads by Youngs and Cramer, `sum` by plain addition in the type itself.

use evenkeel_types::{Datum, SqlState, TypeError, TypeResult};

use super::integers::Spread;
use super::no_value;
use crate::call::Session;
use crate::proc::Accumulator;

/// 22003
pub(super) fn overflow() -> TypeError {
    TypeError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        "value out of range: overflow",
    )
}

/// `real` or `double precision`.
#[inline]
fn float(args: &[Datum]) -> Option<f64> {
    match args {
        [Datum::Float8(value)] => Some(*value),
        [Datum::Float4(value)] => Some(f64::from(*value)),
        _ => None,
    }
}

/// `sum(double precision)`
#[derive(Debug, Default)]
pub(super) struct Float8Sum(Option<f64>);

impl Accumulator for Float8Sum {
    #[inline]
    fn add(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<()> {
        let [Datum::Float8(value)] = args else {
            return no_value(args);
        };
        // The first value itself, so that -0 stays.
        let Some(so_far) = self.0 else {
            self.0 = Some(*value);
            return Ok(());
        };
        let sum = so_far + value;
        if sum.is_infinite() && so_far.is_finite() && value.is_finite() {
            return Err(overflow());
        }
        self.0 = Some(sum);
        Ok(())
    }

    fn value(&self, _session: &dyn Session) -> TypeResult<Datum> {
        Ok(self.0.map_or(Datum::Null, Datum::Float8))
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
    }
}

/// `sum(real)`
#[derive(Debug, Default)]
pub(super) struct Float4Sum(Option<f32>);

impl Accumulator for Float4Sum {
    #[inline]
    fn add(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<()> {
        let [Datum::Float4(value)] = args else {
            return no_value(args);
        };
        let Some(so_far) = self.0 else {
            self.0 = Some(*value);
            return Ok(());
        };
        let sum = so_far + value;
        if sum.is_infinite() && so_far.is_finite() && value.is_finite() {
            return Err(overflow());
        }
        self.0 = Some(sum);
        Ok(())
    }

    fn value(&self, _session: &dyn Session) -> TypeResult<Datum> {
        Ok(self.0.map_or(Datum::Null, Datum::Float4))
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
    }
}

/// Number, sum, and sum of the squared distances from the mean.
#[derive(Debug)]
pub(super) struct Moments {
    count: f64,
    sum: f64,
    squares: f64,
    answer: MomentsAnswer,
}

/// Result computed from the moments.
#[derive(Debug, Clone, Copy)]
enum MomentsAnswer {
    Average,
    Spread(Spread),
}

impl Moments {
    /// `avg`
    pub(super) fn average() -> Moments {
        Moments {
            count: 0.0,
            sum: 0.0,
            squares: 0.0,
            answer: MomentsAnswer::Average,
        }
    }

    /// `variance`, `stddev` and their like.
    pub(super) fn spread(spread: Spread) -> Moments {
        Moments {
            answer: MomentsAnswer::Spread(spread),
            ..Moments::average()
        }
    }
}

impl Accumulator for Moments {
    #[inline]
    fn add(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<()> {
        let Some(value) = float(args) else {
            return no_value(args);
        };
        let before = (self.count, self.sum);
        self.count += 1.0;
        self.sum += value;
        if before.0 > 0.0 {
            let distance = value * self.count - self.sum;
            self.squares += distance * distance / (self.count * before.0);
            if self.sum.is_infinite() || self.squares.is_infinite() {
                if !before.1.is_infinite() && !value.is_infinite() {
                    return Err(overflow());
                }
                self.squares = f64::NAN;
            }
        } else if !value.is_finite() {
            self.squares = f64::NAN;
        }
        Ok(())
    }

    fn value(&self, _session: &dyn Session) -> TypeResult<Datum> {
        Ok(match self.answer {
            MomentsAnswer::Average if self.count > 0.0 => Datum::Float8(self.sum / self.count),
            MomentsAnswer::Spread(Spread { sample, root })
                if self.count > f64::from(u8::from(sample)) =>
            {
                let variance = self.squares / (self.count - f64::from(u8::from(sample)));
                Datum::Float8(if root { variance.sqrt() } else { variance })
            }
            _ => Datum::Null,
        })
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
    }
}
