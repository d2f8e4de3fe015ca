//! Aggregates of pairs (y, x): `corr`, `covar_*`, `regr_*`, by Youngs and Cramer as PostgreSQL
//! computes them.

use evenkeel_types::{Datum, TypeResult};

use super::floats::overflow;
use super::no_value;
use crate::call::Session;
use crate::proc::Accumulator;

/// Number of pairs, sums, and sums of products of the distances from the means.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Sums {
    count: f64,
    x: f64,
    xx: f64,
    y: f64,
    yy: f64,
    xy: f64,
}

/// The aggregate's answer from at least one pair; `None` is NULL.
type Answer = fn(&Sums) -> Option<f64>;

/// The running sums, and what is asked of them.
#[derive(Debug)]
pub(super) struct Regression {
    sums: Sums,
    answer: Answer,
}

impl Regression {
    pub(super) fn new(answer: Answer) -> Regression {
        Regression {
            sums: Sums::default(),
            answer,
        }
    }
}

fn nan_for_infinite(value: &mut f64) {
    if value.is_infinite() {
        *value = f64::NAN;
    }
}

impl Sums {
    fn add(&mut self, y: f64, x: f64) -> TypeResult<()> {
        let before = *self;
        self.count += 1.0;
        self.x += x;
        self.y += y;
        if before.count == 0.0 {
            if !x.is_finite() {
                (self.xx, self.xy) = (f64::NAN, f64::NAN);
            }
            if !y.is_finite() {
                (self.yy, self.xy) = (f64::NAN, f64::NAN);
            }
            return Ok(());
        }
        let distance_x = x * self.count - self.x;
        let distance_y = y * self.count - self.y;
        let scale = 1.0 / (self.count * before.count);
        self.xx += distance_x * distance_x * scale;
        self.yy += distance_y * distance_y * scale;
        self.xy += distance_x * distance_y * scale;
        let finite_x = !before.x.is_infinite() && !x.is_infinite();
        let finite_y = !before.y.is_infinite() && !y.is_infinite();
        if (self.x.is_infinite() || self.xx.is_infinite()) && finite_x
            || (self.y.is_infinite() || self.yy.is_infinite()) && finite_y
            || self.xy.is_infinite() && finite_x && finite_y
        {
            return Err(overflow());
        }
        nan_for_infinite(&mut self.xx);
        nan_for_infinite(&mut self.yy);
        nan_for_infinite(&mut self.xy);
        Ok(())
    }

    pub(super) fn sxx(&self) -> Option<f64> {
        Some(self.xx)
    }

    pub(super) fn syy(&self) -> Option<f64> {
        Some(self.yy)
    }

    pub(super) fn sxy(&self) -> Option<f64> {
        Some(self.xy)
    }

    pub(super) fn average_x(&self) -> Option<f64> {
        Some(self.x / self.count)
    }

    pub(super) fn average_y(&self) -> Option<f64> {
        Some(self.y / self.count)
    }

    pub(super) fn covariance_of_all(&self) -> Option<f64> {
        Some(self.xy / self.count)
    }

    pub(super) fn covariance_of_sample(&self) -> Option<f64> {
        (self.count >= 2.0).then(|| self.xy / (self.count - 1.0))
    }

    pub(super) fn correlation(&self) -> Option<f64> {
        if self.xx == 0.0 || self.yy == 0.0 {
            return None;
        }
        Some(self.xy / (self.xx * self.yy).sqrt())
    }

    pub(super) fn determination(&self) -> Option<f64> {
        if self.xx == 0.0 {
            return None;
        }
        if self.yy == 0.0 {
            return Some(1.0);
        }
        Some((self.xy * self.xy) / (self.xx * self.yy))
    }

    pub(super) fn slope(&self) -> Option<f64> {
        (self.xx != 0.0).then(|| self.xy / self.xx)
    }

    pub(super) fn intercept(&self) -> Option<f64> {
        (self.xx != 0.0).then(|| (self.y - self.x * self.xy / self.xx) / self.count)
    }
}

impl Accumulator for Regression {
    #[inline]
    fn add(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<()> {
        let [Datum::Float8(y), Datum::Float8(x)] = args else {
            return no_value(args);
        };
        self.sums.add(*y, *x)
    }

    fn value(&self, _session: &dyn Session) -> TypeResult<Datum> {
        let answer = (self.sums.count >= 1.0).then(|| (self.answer)(&self.sums));
        Ok(answer.flatten().map_or(Datum::Null, Datum::Float8))
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
    }
}
