//! Aggregates of integers. Sums are exact: of 64 bits for `smallint` and `integer`, of 128 bits for
//! `bigint`; the squares of variances have 192 bits.

use std::marker::PhantomData;

use evenkeel_types::{Datum, Numeric, NumericSum, SqlState, TypeError, TypeResult};

use super::{no_value, no_value_removed};
use crate::call::Session;
use crate::proc::Accumulator;

/// An integer type.
pub(super) trait Integer: Copy + Send + 'static {
    /// The value of a datum of this type.
    fn of(datum: &Datum) -> Option<Self>;
    /// The datum of a value.
    fn datum(self) -> Datum;
    /// The value with 64 bits.
    fn wide(self) -> i64;
}

macro_rules! integers {
    ($($ty:ty = $variant:ident;)*) => {$(
        impl Integer for $ty {
            #[inline]
            fn of(datum: &Datum) -> Option<Self> {
                match datum {
                    Datum::$variant(value) => Some(*value),
                    _ => None,
                }
            }

            fn datum(self) -> Datum {
                Datum::$variant(self)
            }

            #[inline]
            fn wide(self) -> i64 {
                i64::from(self)
            }
        }
    )*};
}

integers! {
    i16 = Int2;
    i32 = Int4;
    i64 = Int8;
}

#[inline]
fn only<T: Integer>(args: &[Datum]) -> Option<T> {
    match args {
        [value] => T::of(value),
        _ => None,
    }
}

/// 22003 for `bigint`.
pub(super) fn bigint_out_of_range() -> TypeError {
    TypeError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "bigint out of range")
}

/// A sum of 128 bits cannot overflow: that takes 2^64 rows.
fn count_out_of_range() -> TypeError {
    TypeError::internal("an aggregate has seen too many rows")
}

/// `sum(smallint)`, `sum(integer)`: `bigint`.
#[derive(Debug)]
pub(super) struct NarrowSum<T> {
    sum: i64,
    count: u64,
    of: PhantomData<T>,
}

impl<T> Default for NarrowSum<T> {
    fn default() -> Self {
        NarrowSum {
            sum: 0,
            count: 0,
            of: PhantomData,
        }
    }
}

impl<T: Integer> Accumulator for NarrowSum<T> {
    #[inline]
    fn add(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<()> {
        let Some(value) = only::<T>(args) else {
            return no_value(args);
        };
        self.sum = self
            .sum
            .checked_add(value.wide())
            .ok_or_else(bigint_out_of_range)?;
        self.count += 1;
        Ok(())
    }

    fn remove(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<bool> {
        let Some(value) = only::<T>(args) else {
            return no_value_removed(args);
        };
        self.sum = self
            .sum
            .checked_sub(value.wide())
            .ok_or_else(bigint_out_of_range)?;
        self.count -= 1;
        Ok(true)
    }

    fn value(&self, _session: &dyn Session) -> TypeResult<Datum> {
        Ok(match self.count {
            0 => Datum::Null,
            _ => Datum::Int8(self.sum),
        })
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
    }
}

/// `sum(bigint)` and `avg` of integers: `numeric`.
#[derive(Debug)]
pub(super) struct WideSum<T> {
    sum: i128,
    count: i64,
    average: bool,
    of: PhantomData<T>,
}

impl<T> WideSum<T> {
    pub(super) fn sum() -> Self {
        WideSum {
            sum: 0,
            count: 0,
            average: false,
            of: PhantomData,
        }
    }

    pub(super) fn average() -> Self {
        WideSum {
            average: true,
            ..WideSum::sum()
        }
    }
}

impl<T: Integer> Accumulator for WideSum<T> {
    #[inline]
    fn add(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<()> {
        let Some(value) = only::<T>(args) else {
            return no_value(args);
        };
        self.sum += i128::from(value.wide());
        self.count += 1;
        Ok(())
    }

    fn remove(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<bool> {
        let Some(value) = only::<T>(args) else {
            return no_value_removed(args);
        };
        self.sum -= i128::from(value.wide());
        self.count -= 1;
        Ok(true)
    }

    fn value(&self, _session: &dyn Session) -> TypeResult<Datum> {
        if self.count == 0 {
            return Ok(Datum::Null);
        }
        let sum = Numeric::from_i128(self.sum, 0);
        Ok(Datum::Numeric(match self.average {
            true => sum.div(&Numeric::from(self.count))?,
            false => sum,
        }))
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
    }
}

/// Which measure of spread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spread {
    /// Of a sample: divided by N − 1.
    pub(super) sample: bool,
    /// The standard deviation, the root of the variance.
    pub(super) root: bool,
}

/// `variance`, `stddev` and their like, of integers: `numeric`.
#[derive(Debug)]
pub(super) struct IntegerSpread<T> {
    sum: i128,
    /// The low 128 bits of the sum of squares.
    squares: u128,
    /// The bits above.
    squares_high: u64,
    count: i64,
    spread: Spread,
    of: PhantomData<T>,
}

impl<T> IntegerSpread<T> {
    pub(super) fn new(spread: Spread) -> Self {
        IntegerSpread {
            sum: 0,
            squares: 0,
            squares_high: 0,
            count: 0,
            spread,
            of: PhantomData,
        }
    }

    fn sum_of_squares(&self) -> TypeResult<Numeric> {
        let unsigned = |value: u128| Numeric::from_unscaled_text(&value.to_string(), 0);
        let low = unsigned(self.squares);
        if self.squares_high == 0 {
            return Ok(low);
        }
        let unit = unsigned(u128::MAX).add(&Numeric::from(1))?;
        unit.mul(&unsigned(u128::from(self.squares_high)))?
            .add(&low)
    }
}

impl<T: Integer> Accumulator for IntegerSpread<T> {
    #[inline]
    fn add(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<()> {
        let Some(value) = only::<T>(args) else {
            return no_value(args);
        };
        let magnitude = u128::from(value.wide().unsigned_abs());
        let (squares, carry) = self.squares.overflowing_add(magnitude * magnitude);
        self.squares = squares;
        self.squares_high = self
            .squares_high
            .checked_add(u64::from(carry))
            .ok_or_else(count_out_of_range)?;
        self.sum += i128::from(value.wide());
        self.count += 1;
        Ok(())
    }

    fn remove(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<bool> {
        let Some(value) = only::<T>(args) else {
            return no_value_removed(args);
        };
        let magnitude = u128::from(value.wide().unsigned_abs());
        let (squares, borrow) = self.squares.overflowing_sub(magnitude * magnitude);
        self.squares = squares;
        self.squares_high = self
            .squares_high
            .checked_sub(u64::from(borrow))
            .ok_or_else(count_out_of_range)?;
        self.sum -= i128::from(value.wide());
        self.count -= 1;
        Ok(true)
    }

    fn value(&self, _session: &dyn Session) -> TypeResult<Datum> {
        let Spread { sample, root } = self.spread;
        if self.count <= i64::from(sample) {
            return Ok(Datum::Null);
        }
        let (mut sum, mut squares) = (NumericSum::default(), NumericSum::default());
        sum.add(&Numeric::from_i128(self.sum, 0));
        squares.add(&self.sum_of_squares()?);
        let variance = sum.variance(&squares, self.count, sample, root)?;
        Ok(Datum::Numeric(variance))
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
    }
}

/// `bit_and`, `bit_or`, `bit_xor`.
#[derive(Debug)]
pub(super) struct Bits<T> {
    bits: Option<T>,
    merge: fn(T, T) -> T,
}

impl<T> Bits<T> {
    pub(super) fn new(merge: fn(T, T) -> T) -> Self {
        Bits { bits: None, merge }
    }
}

impl<T: Integer> Accumulator for Bits<T> {
    fn add(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<()> {
        let Some(value) = only::<T>(args) else {
            return no_value(args);
        };
        self.bits = Some(self.bits.map_or(value, |bits| (self.merge)(bits, value)));
        Ok(())
    }

    fn value(&self, _session: &dyn Session) -> TypeResult<Datum> {
        Ok(self.bits.map_or(Datum::Null, Integer::datum))
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
    }
}
