//! Equality and hashes of values as SQL compares them: numbers of different integer types are
//! equal, as are numerics of different scales, -0 and 0, NaN and NaN.

use std::cmp::Ordering;
use std::hash::{BuildHasher, Hasher, RandomState};

use evenkeel_planner::plan::SortColumn;
use evenkeel_types::{Datum, without_blanks};

/// The order of two values as `desc` and `nulls_first` say.
#[inline]
pub(crate) fn compare_values(a: &Datum, b: &Datum, desc: bool, nulls_first: bool) -> Ordering {
    match (a.is_null(), b.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) if nulls_first => Ordering::Less,
        (true, false) => Ordering::Greater,
        (false, true) if nulls_first => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) if desc => compare(b, a),
        (false, false) => compare(a, b),
    }
}

/// The order of two rows.
#[inline]
pub(crate) fn compare_rows(a: &[Datum], b: &[Datum], keys: &[SortColumn]) -> Ordering {
    for key in keys {
        let (left, right) = (&a[key.slot], &b[key.slot]);
        let order = compare_values(left, right, key.desc, key.nulls_first);
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

/// The order of two values that are not NULL.
#[inline]
fn compare(a: &Datum, b: &Datum) -> Ordering {
    match (a, b) {
        (Datum::Float4(a), Datum::Float8(_)) => Datum::Float8(f64::from(*a)).compare(b),
        (Datum::Float8(_), Datum::Float4(b)) => a.compare(&Datum::Float8(f64::from(*b))),
        _ => match (integer(a), integer(b)) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => a.compare(b),
        },
    }
}

#[inline]
fn integer(value: &Datum) -> Option<i64> {
    match value {
        Datum::Int2(v) => Some(i64::from(*v)),
        Datum::Int4(v) => Some(i64::from(*v)),
        Datum::Int8(v) => Some(*v),
        _ => None,
    }
}

/// Whether two values are equal; NULL is equal to NULL.
#[inline]
pub(crate) fn same(a: &Datum, b: &Datum) -> bool {
    match (a, b) {
        (Datum::Int8(a), Datum::Int8(b)) => a == b,
        (Datum::Int4(a), Datum::Int4(b)) => a == b,
        (Datum::Null, _) | (_, Datum::Null) => a.is_null() && b.is_null(),
        _ => compare(a, b).is_eq(),
    }
}

/// Whether all values of two keys are equal; NULL is equal to NULL.
#[inline]
pub(crate) fn same_keys(a: &[Datum], b: &[Datum]) -> bool {
    a.iter().zip(b).all(|(a, b)| same(a, b))
}

/// Makes hashes that nobody outside can predict.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HashSeed(u64);

impl HashSeed {
    pub fn new() -> HashSeed {
        HashSeed(RandomState::new().hash_one(0) | 1)
    }

    /// The hash of a key.
    #[inline]
    pub fn hash<'d>(self, key: impl IntoIterator<Item = &'d Datum>) -> u64 {
        let mut hasher = KeyHasher(self.0);
        for value in key {
            hasher.value(value);
        }
        hasher.finish()
    }
}

/// Multiplies and folds, as wyhash does; the seed makes it unpredictable.
struct KeyHasher(u64);

/// From the fractional part of the golden ratio: odd, with bits well mixed.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl KeyHasher {
    #[inline]
    fn word(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(FACTOR);
        self.0 = (product as u64) ^ ((product >> 64) as u64) ^ self.0.rotate_left(23);
    }

    fn float(&mut self, value: f64) {
        let bits = if value.is_nan() {
            f64::NAN.to_bits()
        } else if value == 0.0 {
            0
        } else {
            value.to_bits()
        };
        self.word(bits);
    }

    #[inline]
    fn value(&mut self, value: &Datum) {
        match value {
            Datum::Int2(v) => self.word(i64::from(*v).cast_unsigned()),
            Datum::Int4(v) | Datum::Date(v) => self.word(i64::from(*v).cast_unsigned()),
            Datum::Int8(v) | Datum::Time(v) | Datum::Timestamp(v) | Datum::Timestamptz(v) => {
                self.word(v.cast_unsigned());
            }
            Datum::Timetz(v) => {
                self.word(v.micros.cast_unsigned());
                self.word(u64::from(v.west.cast_unsigned()));
            }
            Datum::Text(v) => self.write(v.as_bytes()),
            Datum::Char(v) => self.write(without_blanks(v).as_bytes()),
            Datum::Bytea(v) => self.write(v),
            Datum::Uuid(v) => self.write(v),
            Datum::Tid(v) => self.word(u64::from(v.block) << 16 | u64::from(v.slot)),
            Datum::Xid8(v) => self.word(*v),
            Datum::Enum(v) => self.word(v.position.cast_unsigned()),
            Datum::Null => self.word(0x6e75_6c6c),
            Datum::Bool(v) => self.word(u64::from(*v)),
            Datum::Float4(v) => self.float(f64::from(*v)),
            Datum::Float8(v) => self.float(*v),
            Datum::Oid(v) => self.word(u64::from(*v)),
            Datum::Interval(v) => {
                let micros = v.comparison_micros().cast_unsigned();
                self.word(micros as u64);
                self.word((micros >> 64) as u64);
            }
            Datum::Numeric(v) => {
                self.word(v.sign() as u64);
                self.word(u64::from(v.weight().cast_unsigned()));
                for digit in v.digits() {
                    self.word(u64::from(*digit));
                }
            }
            Datum::Array(_) | Datum::Record(_) | Datum::Jsonb(_) => value.hash_value(self),
        }
    }
}

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        let product = u128::from(self.0) * u128::from(FACTOR);
        (product as u64) ^ ((product >> 64) as u64)
    }

    fn write(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
        let mut word = [0; 8];
        let rest = chunks.remainder();
        word[..rest.len()].copy_from_slice(rest);
        self.word(u64::from_le_bytes(word));
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_types::Numeric;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_that_are_equal_have_one_hash() {
        let seed = HashSeed::new();
        let numeric = |scale, n| Datum::Numeric(Numeric::from_i128(n, scale));
        for (a, b) in [
            (Datum::Int2(7), Datum::Int8(7)),
            (Datum::Int4(-1), Datum::Int8(-1)),
            (Datum::Float8(0.0), Datum::Float8(-0.0)),
            (Datum::Float4(1.5), Datum::Float8(1.5)),
            (Datum::Float8(f64::NAN), Datum::Float8(-f64::NAN)),
            (numeric(1, 10), numeric(3, 1000)),
            (numeric(0, 0), numeric(4, 0)),
        ] {
            assert!(same(&a, &b), "{a:?} {b:?}");
            let hash = |value| seed.hash(std::slice::from_ref(value));
            assert_eq!(hash(&a), hash(&b), "{a:?} {b:?}");
        }
    }

    proptest! {
        #[test]
        fn equality_is_that_of_the_order(
            (ty, a, b) in evenkeel_types::testing::any_type().prop_flat_map(|ty| (
                Just(ty),
                evenkeel_types::testing::any_datum(ty),
                evenkeel_types::testing::any_datum(ty),
            ))
        ) {
            let _ = ty;
            prop_assert_eq!(same(&a, &b), a.compare(&b).is_eq());
            if same(&a, &b) {
                let seed = HashSeed::new();
                prop_assert_eq!(seed.hash(&[a]), seed.hash(&[b]));
            }
        }
    }
}
