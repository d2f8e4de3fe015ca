//! A value, and the order of values.

use std::cmp::Ordering;

use super::numeric::Numeric;

/// An interval in PostgreSQL's three parts, which do not convert into one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Interval {
    /// Months, years included.
    pub months: i32,
    /// Days.
    pub days: i32,
    /// Microseconds.
    pub micros: i64,
}

impl Interval {
    /// Length in microseconds with PostgreSQL's months of 30 days, by which intervals compare.
    pub fn comparison_micros(&self) -> i128 {
        let days = i128::from(self.months) * 30 + i128::from(self.days);
        days * i128::from(super::MICROS_PER_DAY) + i128::from(self.micros)
    }
}

/// One value, of a type that is known from the context.
///
/// Dates count from 1970-01-01, as Arrow does; `i32::MIN`/`MAX` and `i64::MIN`/`MAX` are
/// `-infinity` and `infinity`.
#[derive(Debug, Clone, PartialEq)]
pub enum Datum {
    /// NULL of any type
    Null,
    /// `boolean`
    Bool(bool),
    /// `smallint`
    Int2(i16),
    /// `integer`
    Int4(i32),
    /// `bigint`
    Int8(i64),
    /// `real`
    Float4(f32),
    /// `double precision`
    Float8(f64),
    /// `numeric`
    Numeric(Numeric),
    /// All string types, and the vectors and arrays of the catalog in their text form.
    /// A `char(n)` is held without its trailing blanks (types rule 2).
    Text(String),
    /// `date`: days since 1970-01-01
    Date(i32),
    /// `time`: microseconds since midnight
    Time(i64),
    /// `timestamp`: microseconds since 1970-01-01 00:00 in the clock's own time
    Timestamp(i64),
    /// `timestamptz`: microseconds since 1970-01-01 00:00 UTC
    Timestamptz(i64),
    /// `interval`
    Interval(Interval),
    /// `uuid`
    Uuid([u8; 16]),
    /// `bytea`
    Bytea(Vec<u8>),
    /// `oid` and its named forms
    Oid(u32),
}

impl Datum {
    /// Whether this is NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Datum::Null)
    }

    /// The string of a `Text`.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Datum::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The order of `ORDER BY … ASC`: NULLs last, NaN above every number, strings by bytes.
    /// Values of different types order by type, which no query asks for.
    pub fn compare(&self, other: &Datum) -> Ordering {
        match (self, other) {
            (Datum::Null, Datum::Null) => Ordering::Equal,
            (Datum::Null, _) => Ordering::Greater,
            (_, Datum::Null) => Ordering::Less,
            (Datum::Bool(a), Datum::Bool(b)) => a.cmp(b),
            (Datum::Int2(a), Datum::Int2(b)) => a.cmp(b),
            (Datum::Int4(a), Datum::Int4(b)) | (Datum::Date(a), Datum::Date(b)) => a.cmp(b),
            (Datum::Int8(a), Datum::Int8(b))
            | (Datum::Time(a), Datum::Time(b))
            | (Datum::Timestamp(a), Datum::Timestamp(b))
            | (Datum::Timestamptz(a), Datum::Timestamptz(b)) => a.cmp(b),
            (Datum::Float4(a), Datum::Float4(b)) => compare_float(f64::from(*a), f64::from(*b)),
            (Datum::Float8(a), Datum::Float8(b)) => compare_float(*a, *b),
            (Datum::Numeric(a), Datum::Numeric(b)) => a.cmp(b),
            (Datum::Text(a), Datum::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Datum::Interval(a), Datum::Interval(b)) => {
                a.comparison_micros().cmp(&b.comparison_micros())
            }
            (Datum::Uuid(a), Datum::Uuid(b)) => a.cmp(b),
            (Datum::Bytea(a), Datum::Bytea(b)) => a.cmp(b),
            (Datum::Oid(a), Datum::Oid(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Datum::Bool(_) => 0,
            Datum::Int2(_) => 1,
            Datum::Int4(_) => 2,
            Datum::Int8(_) => 3,
            Datum::Float4(_) => 4,
            Datum::Float8(_) => 5,
            Datum::Numeric(_) => 6,
            Datum::Text(_) => 7,
            Datum::Date(_) => 8,
            Datum::Time(_) => 9,
            Datum::Timestamp(_) => 10,
            Datum::Timestamptz(_) => 11,
            Datum::Interval(_) => 12,
            Datum::Uuid(_) => 13,
            Datum::Bytea(_) => 14,
            Datum::Oid(_) => 15,
            Datum::Null => 16,
        }
    }
}

/// NaN equals NaN and is the greatest; -0 equals 0.
fn compare_float(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b)
        .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

impl From<&str> for Datum {
    fn from(text: &str) -> Datum {
        Datum::Text(text.to_owned())
    }
}

impl From<String> for Datum {
    fn from(text: String) -> Datum {
        Datum::Text(text)
    }
}

impl From<bool> for Datum {
    fn from(value: bool) -> Datum {
        Datum::Bool(value)
    }
}

impl From<i16> for Datum {
    fn from(value: i16) -> Datum {
        Datum::Int2(value)
    }
}

impl From<i32> for Datum {
    fn from(value: i32) -> Datum {
        Datum::Int4(value)
    }
}

impl From<i64> for Datum {
    fn from(value: i64) -> Datum {
        Datum::Int8(value)
    }
}

impl<T: Into<Datum>> From<Option<T>> for Datum {
    fn from(value: Option<T>) -> Datum {
        value.map_or(Datum::Null, Into::into)
    }
}
