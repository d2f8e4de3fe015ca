//! Aggregates of `numeric`.

use evenkeel_types::{Datum, Numeric, NumericSign, NumericSum, TypeResult};

use super::integers::Spread;
use super::{no_value, no_value_removed};
use crate::call::Session;
use crate::proc::Accumulator;

/// How many values there are of each kind, and the greatest display scale with the number of
/// finite values that have it.
#[derive(Debug, Default)]
struct Kinds {
    finite: i64,
    nans: i64,
    infinities: i64,
    negative_infinities: i64,
    scale: u16,
    of_scale: i64,
}

impl Kinds {
    fn total(&self) -> i64 {
        self.finite + self.nans + self.infinities + self.negative_infinities
    }

    fn count(&mut self, value: &Numeric, by: i64) {
        match value.sign() {
            NumericSign::NaN => self.nans += by,
            NumericSign::PositiveInfinity => self.infinities += by,
            NumericSign::NegativeInfinity => self.negative_infinities += by,
            NumericSign::Negative | NumericSign::Positive => self.finite += by,
        }
    }

    /// Counts the scale of a finite value that is added.
    fn add_scale(&mut self, value: &Numeric) {
        if value.dscale() > self.scale {
            self.scale = value.dscale();
            self.of_scale = 0;
        }
        self.of_scale += i64::from(value.dscale() == self.scale);
    }

    /// Takes out a finite value's scale; false when the greatest of the others is not known.
    fn remove_scale(&mut self, value: &Numeric) -> bool {
        self.of_scale -= i64::from(value.dscale() == self.scale);
        self.of_scale > 0 || self.scale == 0
    }

    /// The sum or average where that is no finite number.
    fn special(&self) -> Option<Numeric> {
        match (self.nans, self.infinities, self.negative_infinities) {
            (0, 0, 0) => None,
            (0, _, 0) => Some(Numeric::infinity(false)),
            (0, 0, _) => Some(Numeric::infinity(true)),
            _ => Some(Numeric::nan()),
        }
    }
}

/// `sum`, `avg`.
#[derive(Debug)]
pub(super) struct Sum {
    kinds: Kinds,
    sum: NumericSum,
    average: bool,
}

impl Sum {
    pub(super) fn new(average: bool) -> Sum {
        Sum {
            kinds: Kinds::default(),
            sum: NumericSum::default(),
            average,
        }
    }
}

impl Accumulator for Sum {
    fn add(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<()> {
        let [Datum::Numeric(value)] = args else {
            return no_value(args);
        };
        self.kinds.count(value, 1);
        if value.is_finite() {
            self.kinds.add_scale(value);
            self.sum.add(value);
        }
        Ok(())
    }

    fn remove(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<bool> {
        let [Datum::Numeric(value)] = args else {
            return no_value_removed(args);
        };
        self.kinds.count(value, -1);
        if !value.is_finite() {
            return Ok(true);
        }
        if self.kinds.finite == 0 {
            self.sum = NumericSum::default();
            (self.kinds.scale, self.kinds.of_scale) = (0, 0);
            return Ok(true);
        }
        self.sum.sub(value);
        Ok(self.kinds.remove_scale(value))
    }

    fn value(&self, _session: &dyn Session) -> TypeResult<Datum> {
        if self.kinds.total() == 0 {
            return Ok(Datum::Null);
        }
        if let Some(special) = self.kinds.special() {
            return Ok(Datum::Numeric(special));
        }
        let sum = self.sum.total()?;
        Ok(Datum::Numeric(match self.average {
            true => sum.div(&Numeric::from(self.kinds.finite))?,
            false => sum,
        }))
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.sum.heap_bytes()
    }
}

/// `variance`, `stddev` and their like.
#[derive(Debug)]
pub(super) struct NumericSpread {
    kinds: Kinds,
    sum: NumericSum,
    squares: NumericSum,
    spread: Spread,
}

impl NumericSpread {
    pub(super) fn new(spread: Spread) -> NumericSpread {
        NumericSpread {
            kinds: Kinds::default(),
            sum: NumericSum::default(),
            squares: NumericSum::default(),
            spread,
        }
    }
}

impl Accumulator for NumericSpread {
    fn add(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<()> {
        let [Datum::Numeric(value)] = args else {
            return no_value(args);
        };
        self.kinds.count(value, 1);
        if value.is_finite() {
            self.kinds.add_scale(value);
            self.sum.add(value);
            self.squares.add_square(value);
        }
        Ok(())
    }

    fn remove(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<bool> {
        let [Datum::Numeric(value)] = args else {
            return no_value_removed(args);
        };
        self.kinds.count(value, -1);
        if !value.is_finite() {
            return Ok(true);
        }
        if self.kinds.finite == 0 {
            (self.sum, self.squares) = (NumericSum::default(), NumericSum::default());
            (self.kinds.scale, self.kinds.of_scale) = (0, 0);
            return Ok(true);
        }
        self.sum.sub(value);
        self.squares.sub_square(value);
        Ok(self.kinds.remove_scale(value))
    }

    fn value(&self, _session: &dyn Session) -> TypeResult<Datum> {
        let Spread { sample, root } = self.spread;
        if self.kinds.total() <= i64::from(sample) {
            return Ok(Datum::Null);
        }
        if self.kinds.special().is_some() {
            return Ok(Datum::Numeric(Numeric::nan()));
        }
        let count = self.kinds.finite;
        let variance = self.sum.variance(&self.squares, count, sample, root)?;
        Ok(Datum::Numeric(variance))
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.sum.heap_bytes() + self.squares.heap_bytes()
    }
}
