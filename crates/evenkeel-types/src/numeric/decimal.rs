//! Finite decimals under computation: PostgreSQL's `NumericVar`, and its rules of rounding.

use std::cmp::Ordering;

use super::work::Work;
use crate::error::TypeResult;

/// The base of the digits.
pub const BASE: u16 = 10_000;
/// Decimal digits of one digit.
pub const BASE_DIGITS: i32 = 4;

/// Digits in base 10,000 from the most significant; the first counts 10,000 to the power of
/// `weight`. After [`Decimal::strip`] neither the first nor the last digit is zero.
#[derive(Debug, Clone, Default)]
pub struct Decimal {
    /// Below zero; never set on zero.
    pub negative: bool,
    /// Power of 10,000 of the first digit.
    pub weight: i32,
    /// Decimal digits shown after the point.
    pub dscale: i32,
    /// The digits; none for zero.
    pub digits: Vec<u16>,
}

impl Decimal {
    /// A small integer.
    pub fn from_integer(value: i64) -> Decimal {
        let mut rest = value.unsigned_abs();
        let mut digits = Vec::new();
        while rest > 0 {
            digits.push((rest % u64::from(BASE)) as u16);
            rest /= u64::from(BASE);
        }
        digits.reverse();
        let mut out = Decimal {
            negative: value < 0,
            weight: digits.len() as i32 - 1,
            dscale: 0,
            digits,
        };
        out.strip();
        out
    }

    /// Zero with a display scale.
    pub fn zero(dscale: i32) -> Decimal {
        Decimal {
            dscale,
            ..Decimal::default()
        }
    }

    /// Whether the value is zero.
    pub fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// Whether no digit lies behind the point.
    pub fn is_integral(&self) -> bool {
        self.digits.len() as i32 <= self.weight + 1
    }

    /// Removes zeros at both ends; zero has one form.
    pub fn strip(&mut self) {
        let leading = self.digits.iter().take_while(|d| **d == 0).count();
        if leading > 0 {
            self.digits.drain(..leading);
            self.weight -= leading as i32;
        }
        let used = self
            .digits
            .iter()
            .rposition(|d| *d != 0)
            .map_or(0, |at| at + 1);
        self.digits.truncate(used);
        if self.digits.is_empty() {
            self.weight = 0;
            self.negative = false;
        }
    }

    /// The power of 10,000 behind the last digit.
    fn lowest(&self) -> i32 {
        self.weight + 1 - self.digits.len() as i32
    }

    /// Order of the absolute values.
    pub fn compare_magnitude(&self, other: &Decimal) -> Ordering {
        other
            .is_zero()
            .cmp(&self.is_zero())
            .then_with(|| self.weight.cmp(&other.weight))
            .then_with(|| self.digits.cmp(&other.digits))
    }

    /// Order of the values.
    pub fn compare(&self, other: &Decimal) -> Ordering {
        match (self.negative, other.negative) {
            (false, false) => self.compare_magnitude(other),
            (true, true) => other.compare_magnitude(self),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }

    /// The sum, with the greater scale.
    pub fn add(&self, other: &Decimal) -> Decimal {
        let dscale = self.dscale.max(other.dscale);
        let mut out = if self.negative == other.negative {
            let mut out = add_magnitudes(self, other);
            out.negative = self.negative;
            out
        } else {
            match self.compare_magnitude(other) {
                Ordering::Equal => Decimal::default(),
                Ordering::Greater => {
                    let mut out = subtract_magnitudes(self, other);
                    out.negative = self.negative;
                    out
                }
                Ordering::Less => {
                    let mut out = subtract_magnitudes(other, self);
                    out.negative = other.negative;
                    out
                }
            }
        };
        out.dscale = dscale;
        out.strip();
        out
    }

    /// The difference, with the greater scale.
    pub fn sub(&self, other: &Decimal) -> Decimal {
        let mut flipped = other.clone();
        flipped.negative = !flipped.negative && !flipped.is_zero();
        self.add(&flipped)
    }

    /// The product, rounded to `rscale` digits behind the point.
    pub fn mul(&self, other: &Decimal, rscale: i32, work: &Work<'_>) -> TypeResult<Decimal> {
        let mut out = Decimal {
            negative: self.negative != other.negative,
            weight: self.weight + other.weight + 1,
            dscale: rscale,
            digits: multiply(&self.digits, &other.digits, work)?,
        };
        out.strip();
        out.round(rscale);
        Ok(out)
    }

    /// The quotient to `rscale` digits behind the point, rounded or cut. `other` is not zero.
    pub fn div(
        &self,
        other: &Decimal,
        rscale: i32,
        rounded: bool,
        work: &Work<'_>,
    ) -> TypeResult<Decimal> {
        if self.is_zero() {
            return Ok(Decimal::zero(rscale));
        }
        // One digit beyond the scale decides the rounding, for what is cut behind it is below it.
        let places = (rscale + BASE_DIGITS - 1).div_euclid(BASE_DIGITS) + 1;
        let quotient_digits = self.weight - other.weight + places + 1;
        if quotient_digits <= 0 {
            return Ok(Decimal::zero(rscale));
        }
        let wanted = quotient_digits as usize + other.digits.len();
        let mut dividend = self.digits.clone();
        dividend.resize(wanted, 0);
        let quotient = divide(&dividend, &other.digits, work)?;
        let mut out = Decimal {
            negative: self.negative != other.negative,
            weight: self.weight - other.weight,
            dscale: rscale,
            digits: quotient,
        };
        out.strip();
        if rounded {
            out.round(rscale);
        } else {
            out.truncate(rscale);
        }
        Ok(out)
    }

    /// As [`Decimal::div`], by a small positive integer, rounded.
    pub fn div_small(&self, divisor: u32, rscale: i32) -> Decimal {
        let places = (rscale + BASE_DIGITS - 1).div_euclid(BASE_DIGITS) + 1;
        let length = self.weight + 1 + places;
        if self.is_zero() || length <= 0 {
            return Decimal::zero(rscale);
        }
        let mut digits = Vec::with_capacity(length as usize);
        let mut rest = 0u64;
        for at in 0..length as usize {
            let digit = self.digits.get(at).copied().unwrap_or(0);
            rest = rest * u64::from(BASE) + u64::from(digit);
            digits.push((rest / u64::from(divisor)) as u16);
            rest %= u64::from(divisor);
        }
        let mut out = Decimal {
            negative: self.negative,
            weight: self.weight,
            dscale: rscale,
            digits,
        };
        out.strip();
        out.round(rscale);
        out
    }

    /// The rest of the division with a quotient that is cut; its sign is the dividend's.
    pub fn rem(&self, other: &Decimal, work: &Work<'_>) -> TypeResult<Decimal> {
        let quotient = self.div(other, 0, false, work)?;
        Ok(self.sub(&other.mul(&quotient, other.dscale, work)?))
    }

    /// The square root, rounded. The value is not negative; `rscale` may be.
    pub fn sqrt(&self, rscale: i32, work: &Work<'_>) -> TypeResult<Decimal> {
        if self.is_zero() {
            return Ok(Decimal::zero(rscale));
        }
        // The root's places are half of the radicand's; one digit more decides the rounding.
        let places = (rscale + BASE_DIGITS - 1).div_euclid(BASE_DIGITS) + 1;
        let length = self.weight + 1 + 2 * places;
        if length <= 0 {
            return Ok(Decimal::zero(rscale));
        }
        let mut radicand = self.digits.clone();
        radicand.resize(length as usize, 0);
        let digits = integer_sqrt(&radicand, work)?;
        let mut out = Decimal {
            negative: false,
            weight: digits.len() as i32 - 1 - places,
            dscale: rscale,
            digits,
        };
        out.strip();
        out.round(rscale);
        Ok(out)
    }

    /// Rounds half away from zero to `rscale` digits behind the point, before it if negative.
    pub fn round(&mut self, rscale: i32) {
        self.limit(rscale, true);
    }

    /// Cuts to `rscale` digits behind the point.
    pub fn truncate(&mut self, rscale: i32) {
        self.limit(rscale, false);
    }

    fn limit(&mut self, rscale: i32, rounded: bool) {
        self.dscale = rscale;
        // Decimal digits kept, counted from the start of the first digit.
        let kept = (self.weight + 1) * BASE_DIGITS + rscale;
        if kept < 0 {
            self.digits.clear();
            return self.strip();
        }
        let whole = kept.div_euclid(BASE_DIGITS) as usize;
        let part = kept.rem_euclid(BASE_DIGITS) as u32;
        if whole >= self.digits.len() {
            return;
        }
        let unit = 10u16.pow(4 - part);
        let last = self.digits[whole];
        let up = rounded && last % unit >= unit / 2;
        self.digits.truncate(whole + usize::from(part > 0));
        if part > 0 {
            self.digits[whole] = last - last % unit;
        }
        if up {
            self.add_at_end(if part > 0 { unit } else { 1 });
        }
        self.strip();
    }

    /// Adds `unit` to the last digit and carries.
    fn add_at_end(&mut self, unit: u16) {
        let mut carry = unit;
        for digit in self.digits.iter_mut().rev() {
            *digit += carry;
            if *digit < BASE {
                return;
            }
            *digit -= BASE;
            carry = 1;
        }
        self.digits.insert(0, carry);
        self.weight += 1;
    }

    /// Rounds towards minus infinity, or plus infinity, to an integer.
    pub fn to_integer(&self, upwards: bool) -> Decimal {
        let mut out = self.clone();
        out.truncate(0);
        if out.compare(self) != Ordering::Equal && self.negative != upwards {
            let one = Decimal::from_integer(if upwards { 1 } else { -1 });
            out = out.add(&one);
        }
        out
    }

    /// The nearest double; an infinity beyond the greatest.
    pub fn to_f64(&self) -> f64 {
        // 20 decimal digits and a sticky one decide the rounding of a double.
        let mut text = String::with_capacity(64);
        if self.negative {
            text.push('-');
        }
        text.push('0');
        for digit in self.digits.iter().take(200) {
            text.push_str(&format!("{digit:04}"));
        }
        let shown = self.digits.len().min(200) as i32;
        if self.digits.len() > 200 {
            text.push('1');
            text.push_str(&format!("e{}", (self.weight + 1 - shown) * BASE_DIGITS - 1));
        } else {
            text.push_str(&format!("e{}", (self.weight + 1 - shown) * BASE_DIGITS));
        }
        text.parse().unwrap_or(f64::NAN)
    }
}

fn add_magnitudes(a: &Decimal, b: &Decimal) -> Decimal {
    let weight = a.weight.max(b.weight) + 1;
    let lowest = a.lowest().min(b.lowest());
    let mut digits = vec![0u16; (weight + 1 - lowest) as usize];
    let mut carry = 0;
    for at in (0..digits.len()).rev() {
        let place = weight - at as i32;
        let sum = digit_at(a, place) + digit_at(b, place) + carry;
        carry = u16::from(sum >= BASE);
        digits[at] = sum - carry * BASE;
    }
    Decimal {
        negative: false,
        weight,
        dscale: 0,
        digits,
    }
}

/// `a` is the greater magnitude.
fn subtract_magnitudes(a: &Decimal, b: &Decimal) -> Decimal {
    let lowest = a.lowest().min(b.lowest());
    let mut digits = vec![0u16; (a.weight + 1 - lowest) as usize];
    let mut borrow = 0;
    for at in (0..digits.len()).rev() {
        let place = a.weight - at as i32;
        let (from, take) = (digit_at(a, place), digit_at(b, place) + borrow);
        borrow = u16::from(take > from);
        digits[at] = from + borrow * BASE - take;
    }
    Decimal {
        negative: false,
        weight: a.weight,
        dscale: 0,
        digits,
    }
}

fn digit_at(value: &Decimal, place: i32) -> u16 {
    usize::try_from(value.weight - place)
        .ok()
        .and_then(|at| value.digits.get(at))
        .copied()
        .unwrap_or(0)
}

/// The product of two digit strings, as long as both together.
fn multiply(a: &[u16], b: &[u16], work: &Work<'_>) -> TypeResult<Vec<u16>> {
    if a.is_empty() || b.is_empty() {
        return Ok(Vec::new());
    }
    // A column's sum is below 10^8 times the 65,536 digits that a value has at most.
    let mut columns = vec![0u64; a.len() + b.len()];
    for (i, x) in a.iter().enumerate().filter(|(_, x)| **x != 0) {
        work.step(b.len())?;
        let x = u64::from(*x);
        for (column, y) in columns[i + 1..].iter_mut().zip(b) {
            *column += x * u64::from(*y);
        }
    }
    let mut carry = 0;
    let mut digits = vec![0u16; columns.len()];
    for (digit, column) in digits.iter_mut().zip(&columns).rev() {
        let sum = column + carry;
        *digit = (sum % u64::from(BASE)) as u16;
        carry = sum / u64::from(BASE);
    }
    Ok(digits)
}

/// The integer quotient of two digit strings, with leading zeros: as many digits as the dividend
/// has more than the divisor, and one. The divisor's first digit is not zero. Knuth's algorithm D.
fn divide(dividend: &[u16], divisor: &[u16], work: &Work<'_>) -> TypeResult<Vec<u16>> {
    let base = i64::from(BASE);
    if let [only] = divisor {
        let mut rest = 0;
        work.step(dividend.len())?;
        let quotient = dividend.iter().map(|digit| {
            rest = rest * base + i64::from(*digit);
            let quotient = rest / i64::from(*only);
            rest %= i64::from(*only);
            quotient as u16
        });
        return Ok(quotient.collect());
    }
    // Scaled so that the divisor's first digit is at least half the base: a guess is then at
    // most two too great.
    let scale = base / (i64::from(divisor[0]) + 1);
    let scaled = |digits: &[u16], first: i64| {
        let mut out = vec![0i64; digits.len() + 1];
        let mut carry = 0;
        for (to, digit) in out[1..].iter_mut().zip(digits).rev() {
            let product = i64::from(*digit) * scale + carry;
            *to = product % base;
            carry = product / base;
        }
        out[0] = carry + first;
        out
    };
    let mut rest = scaled(dividend, 0);
    let by = scaled(divisor, 0).split_off(1);
    let count = dividend.len() + 1 - divisor.len();
    let mut quotient = Vec::with_capacity(count);
    for at in 0..count {
        work.step(by.len())?;
        let top = rest[at] * base + rest[at + 1];
        let (mut guess, mut over) = (top / by[0], top % by[0]);
        while guess >= base || guess * by[1] > over * base + rest[at + 2] {
            guess -= 1;
            over += by[0];
            if over >= base {
                break;
            }
        }
        let mut borrow = 0;
        for (from, digit) in rest[at + 1..].iter_mut().zip(&by).rev() {
            let difference = *from - guess * digit - borrow;
            let low = difference.rem_euclid(base);
            borrow = (low - difference) / base;
            *from = low;
        }
        rest[at] -= borrow;
        if rest[at] < 0 {
            guess -= 1;
            let mut carry = 0;
            for (to, digit) in rest[at + 1..].iter_mut().zip(&by).rev() {
                let sum = *to + digit + carry;
                carry = i64::from(sum >= base);
                *to = sum - carry * base;
            }
            rest[at] += carry;
        }
        quotient.push(guess as u16);
    }
    Ok(quotient)
}

/// The greatest integer whose square is at most the value of `digits`.
fn integer_sqrt(digits: &[u16], work: &Work<'_>) -> TypeResult<Vec<u16>> {
    let first = digits.iter().position(|d| *d != 0).unwrap_or(digits.len());
    let digits = &digits[first..];
    if digits.len() <= 9 {
        let value = digits.iter().fold(0u128, |value, digit| {
            value * u128::from(BASE) + u128::from(*digit)
        });
        let mut rest = value.isqrt();
        let mut out = Vec::new();
        while rest > 0 {
            out.push((rest % u128::from(BASE)) as u16);
            rest /= u128::from(BASE);
        }
        out.reverse();
        return Ok(out);
    }
    // The root of the leading digits, rounded up, is an estimate from above with half of the
    // digits right; one step of Newton's method keeps it above and doubles them.
    let low = (digits.len() - 1) / 4;
    let integer = |digits: Vec<u16>| {
        let mut out = Decimal {
            weight: digits.len() as i32 - 1,
            digits,
            ..Decimal::default()
        };
        out.strip();
        out
    };
    let one = Decimal::from_integer(1);
    let leading = integer_sqrt(&digits[..digits.len() - 2 * low], work)?;
    let mut estimate = integer(leading).add(&one);
    estimate.weight += low as i32;
    let value = integer(digits.to_vec());
    let mut root = value.div(&estimate, 0, false, work)?.add(&estimate);
    root = root.div(&Decimal::from_integer(2), 0, false, work)?;
    while root.mul(&root, 0, work)?.compare_magnitude(&value) == Ordering::Greater {
        root = root.sub(&one);
    }
    let length = (root.weight + 1) as usize;
    root.digits.resize(length, 0);
    Ok(root.digits)
}
