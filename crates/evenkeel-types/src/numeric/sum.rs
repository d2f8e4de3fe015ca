//! Sums of many numbers: digits are added without carrying, which happens once at the end.

use std::cmp::Ordering;

use super::arith::Leading;
use super::decimal::{BASE, Decimal};
use super::work::Work;
use super::{Numeric, NumericSign};
use crate::error::TypeResult;

/// A sum of finite numbers. Each place holds the plain sum of the numbers' digits there: a digit is
/// below 10,000, so a place holds the sum of 9 × 10^14 numbers.
#[derive(Debug, Clone, Default)]
pub struct NumericSum {
    /// Power of 10,000 of the first place.
    weight: i32,
    places: Vec<i64>,
    /// The greatest display scale of the numbers.
    dscale: i32,
}

impl NumericSum {
    /// Adds a finite number.
    pub fn add(&mut self, value: &Numeric) {
        self.add_value(value, 1);
    }

    /// Takes out a finite number that was added. The display scale stays.
    pub fn sub(&mut self, value: &Numeric) {
        self.add_value(value, -1);
    }

    /// Adds the exact square of a finite number.
    pub fn add_square(&mut self, value: &Numeric) {
        self.add_decimal(&square(value), 1);
    }

    /// Takes out the square of a finite number that was added.
    pub fn sub_square(&mut self, value: &Numeric) {
        self.add_decimal(&square(value), -1);
    }

    fn add_value(&mut self, value: &Numeric, times: i64) {
        let negative = value.sign == NumericSign::Negative;
        self.dscale = self.dscale.max(i32::from(value.dscale));
        let sign = if negative { -times } else { times };
        self.add_digits(i32::from(value.weight), &value.digits, sign);
    }

    fn add_decimal(&mut self, value: &Decimal, times: i64) {
        self.dscale = self.dscale.max(value.dscale);
        let sign = if value.negative { -times } else { times };
        self.add_digits(value.weight, &value.digits, sign);
    }

    fn add_digits(&mut self, weight: i32, digits: &[u16], sign: i64) {
        if digits.is_empty() {
            return;
        }
        if self.places.is_empty() {
            self.weight = weight;
        }
        if let Ok(missing @ 1..) = usize::try_from(weight - self.weight) {
            self.places.splice(0..0, std::iter::repeat_n(0, missing));
            self.weight = weight;
        }
        // Not below zero: the first place is at least that of the number.
        let start = (self.weight - weight).unsigned_abs() as usize;
        let end = start + digits.len();
        if self.places.len() < end {
            self.places.resize(end, 0);
        }
        for (place, digit) in self.places[start..end].iter_mut().zip(digits) {
            *place += sign * i64::from(*digit);
        }
    }

    /// The sum. Errors: 22003 beyond the format.
    pub fn total(&self) -> TypeResult<Numeric> {
        Numeric::from_result(self.decimal())
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.places.capacity() * size_of::<i64>()
    }

    fn decimal(&self) -> Decimal {
        let (mut digits, mut carry) = carried(self.places.iter().copied());
        let negative = carry < 0;
        if negative {
            (digits, carry) = carried(self.places.iter().map(|place| -place));
        }
        let mut weight = self.weight;
        while carry > 0 {
            digits.push((carry % i64::from(BASE)) as u16);
            carry /= i64::from(BASE);
            weight += 1;
        }
        digits.reverse();
        let mut out = Decimal {
            negative,
            weight,
            dscale: self.dscale,
            digits,
        };
        out.strip();
        out
    }

    /// The variance of `count` numbers with this sum, or with `root` its square root; of a sample
    /// (`count` above 1) or of all (above 0). Errors: 22003 beyond the format.
    ///
    /// As in PostgreSQL it is (N Σx² − (Σx)²) / N² or / (N (N − 1)), with the scale of that
    /// division.
    pub fn variance(
        &self,
        squares: &NumericSum,
        count: i64,
        sample: bool,
        root: bool,
    ) -> TypeResult<Numeric> {
        let (sum, number) = (self.decimal(), Decimal::from_integer(count));
        let (scale, work) = (sum.dscale * 2, &Work::unasked());
        let numerator = number
            .mul(&squares.decimal(), scale, work)?
            .sub(&sum.mul(&sum, scale, work)?);
        if numerator.compare(&Decimal::zero(0)) != Ordering::Greater {
            return Ok(Numeric::zero());
        }
        let less = Decimal::from_integer(count - i64::from(sample));
        let denominator = number.mul(&less, 0, work)?;
        let scale = leading(&numerator).division_scale(&leading(&denominator));
        let variance = numerator.div(&denominator, scale, true, work)?;
        Numeric::from_result(if root {
            variance.sqrt(scale, work)?
        } else {
            variance
        })
    }
}

fn leading(value: &Decimal) -> Leading {
    Leading {
        weight: value.weight,
        first: value.digits.first().copied().unwrap_or(0),
        dscale: value.dscale,
    }
}

fn square(value: &Numeric) -> Decimal {
    let decimal = value.decimal();
    // Nothing is asked, so that nothing ends the work.
    let product = decimal.mul(&decimal, decimal.dscale * 2, &Work::unasked());
    product.unwrap_or_default()
}

/// Digits from the least significant, and what is carried out of the first place.
fn carried(places: impl DoubleEndedIterator<Item = i64>) -> (Vec<u16>, i64) {
    let mut carry = 0;
    let digits = places
        .rev()
        .map(|place| {
            let value = place + carry;
            carry = value.div_euclid(i64::from(BASE));
            value.rem_euclid(i64::from(BASE)) as u16
        })
        .collect();
    (digits, carry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Numeric {
        Numeric::parse(text).unwrap()
    }

    #[test]
    fn a_sum_is_that_of_single_additions() {
        let values = [
            "0",
            "-0.5",
            "123456789012345678901234567890",
            "-1e-20",
            "9999.9999",
            "-10000",
            "0.00010",
            "99999999",
            "-123456789012345678901234567890",
        ];
        let mut sum = NumericSum::default();
        let mut plain = Numeric::zero();
        for text in values.iter().cycle().take(40) {
            sum.add(&number(text));
            plain = plain.add(&number(text)).unwrap();
            let total = sum.total().unwrap();
            assert_eq!(total, plain);
            assert_eq!(total.dscale(), plain.dscale());
        }
        for text in values.iter().cycle().take(40) {
            sum.sub(&number(text));
        }
        assert_eq!(sum.total().unwrap(), Numeric::zero());
    }
}
