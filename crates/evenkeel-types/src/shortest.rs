//! The shortest digits of a float, where PostgreSQL and Rust choose differently.
//!
//! Both take the fewest digits that read back as the value, and of those the nearest. Rust also
//! takes a decimal that lies halfway between two floats and reads back only by the rule of ties to
//! even; PostgreSQL takes a further digit then. Of two decimals that are equally near PostgreSQL
//! takes the even one, Rust the greater.

/// A finite float as `mantissa` times 2 to the power of `exponent`.
#[derive(Debug, Clone, Copy)]
struct Binary {
    mantissa: u64,
    exponent: i32,
    /// The float below is only half as far away as the one above.
    power: bool,
}

impl Binary {
    fn of_double(value: f64) -> Binary {
        let bits = value.to_bits();
        Binary::of(bits & ((1 << 52) - 1), (bits >> 52) & 0x7ff, 52, 1075)
    }

    fn of_single(value: f32) -> Binary {
        let bits = u64::from(value.to_bits());
        Binary::of(bits & ((1 << 23) - 1), (bits >> 23) & 0xff, 23, 150)
    }

    fn of(fraction: u64, biased: u64, width: u32, bias: i32) -> Binary {
        let normal = biased > 0;
        Binary {
            mantissa: fraction | u64::from(normal) << width,
            exponent: biased.max(1) as i32 - bias,
            power: fraction == 0 && biased > 1,
        }
    }

    /// Whether the decimal lies halfway between this float and the next one on either side.
    fn is_halfway(self, decimal: Decimal) -> bool {
        let doubled = u128::from(self.mantissa) * 2;
        let above = product_is(decimal, doubled + 1, self.exponent - 1);
        let below = if self.power {
            product_is(decimal, doubled * 2 - 1, self.exponent - 2)
        } else {
            doubled > 0 && product_is(decimal, doubled - 1, self.exponent - 1)
        };
        above || below
    }

    /// The other decimal with as many digits that is exactly as near as this one.
    fn equally_near(self, decimal: Decimal) -> Option<Decimal> {
        let halves = |other: u64| {
            // Between both decimals, counted in halves of the last digit.
            let between = Decimal {
                digits: decimal.digits.checked_add(other)?,
                ..decimal
            };
            let near = product_is(between, u128::from(self.mantissa), self.exponent + 1);
            near.then_some(Decimal {
                digits: other,
                ..decimal
            })
        };
        let below = decimal.digits.checked_sub(1).and_then(halves);
        below.or_else(|| decimal.digits.checked_add(1).and_then(halves))
    }
}

/// A decimal: `digits` times 10 to the power of `exponent`.
#[derive(Debug, Clone, Copy)]
struct Decimal {
    digits: u64,
    exponent: i32,
}

/// Powers of five above this one are greater than any number of digits or mantissa.
const MOST_FIVES: u32 = 27;

/// Whether the decimal is `factor` (at most 55 bits) times 2 to the power of `exponent`.
fn product_is(decimal: Decimal, factor: u128, exponent: i32) -> bool {
    let fives = decimal.exponent.unsigned_abs();
    if fives > MOST_FIVES || decimal.digits == 0 || factor == 0 {
        return false;
    }
    let power = 5u128.pow(fives);
    let (mut left, mut right) = (u128::from(decimal.digits), factor);
    // The powers of two of ten and of the factor, moved to the right side.
    let mut twos = exponent - decimal.exponent;
    if decimal.exponent >= 0 {
        left *= power;
    } else {
        right *= power;
    }
    twos += right.trailing_zeros() as i32 - left.trailing_zeros() as i32;
    left >>= left.trailing_zeros();
    right >>= right.trailing_zeros();
    left == right && twos == 0
}

/// Reads `1.25e-7` without its sign.
fn decimal_of(scientific: &str) -> Option<Decimal> {
    let (mantissa, exponent) = scientific.split_once('e')?;
    let mantissa = mantissa.trim_start_matches('-');
    let places = mantissa.split_once('.').map_or(0, |(_, part)| part.len());
    let digits: u64 = mantissa
        .bytes()
        .filter(u8::is_ascii_digit)
        .try_fold(0u64, |digits, digit| {
            digits.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        })?;
    Some(Decimal {
        digits,
        exponent: exponent.parse::<i32>().ok()? - i32::try_from(places).ok()?,
    })
}

fn text_of(decimal: Decimal, negative: bool) -> String {
    let digits = decimal.digits.to_string();
    let exponent = decimal.exponent + digits.len() as i32 - 1;
    let sign = if negative { "-" } else { "" };
    let (first, rest) = digits.split_at(1);
    match rest.trim_end_matches('0') {
        "" => format!("{sign}{first}e{exponent}"),
        rest => format!("{sign}{first}.{rest}e{exponent}"),
    }
}

/// `shortest` is Rust's form, `longer` the form with so many digits behind the point, and `reads`
/// says whether a form reads back as the value.
fn chosen(
    shortest: String,
    binary: Binary,
    longer: impl Fn(usize) -> String,
    reads: impl Fn(&str) -> bool,
) -> String {
    let negative = shortest.starts_with('-');
    let Some(mut decimal) = decimal_of(&shortest) else {
        return shortest;
    };
    let halfway = binary.is_halfway(decimal);
    if halfway {
        let digits = decimal.digits.checked_ilog10().unwrap_or(0) as usize;
        let forms = (digits + 1..=17).filter_map(|places| decimal_of(&longer(places)));
        let mut within =
            forms.filter(|form| !binary.is_halfway(*form) && reads(&text_of(*form, negative)));
        let Some(found) = within.next() else {
            return shortest;
        };
        decimal = found;
    }
    let other = binary
        .equally_near(decimal)
        .filter(|other| decimal.digits % 2 == 1 && reads(&text_of(*other, negative)));
    match other {
        Some(other) => text_of(other, negative),
        None if halfway => text_of(decimal, negative),
        None => shortest,
    }
}

/// PostgreSQL's shortest digits of a finite number that is not zero, as `1.25e-7`.
pub fn double(value: f64) -> String {
    chosen(
        format!("{value:e}"),
        Binary::of_double(value),
        |places| format!("{value:.places$e}"),
        |text| text.parse() == Ok(value),
    )
}

/// As [`double`].
pub fn single(value: f32) -> String {
    chosen(
        format!("{value:e}"),
        Binary::of_single(value),
        |places| format!("{value:.places$e}"),
        |text| text.parse() == Ok(value),
    )
}
