//! A value, and the order of values.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::enums::EnumValue;
use crate::error::{SqlState, TypeError, TypeResult};
use crate::identity::SqlType;
use crate::interval::Interval;
use crate::json::{Jsonb, encode_key};
use crate::numeric::Numeric;
use crate::padding::without_blanks;
use crate::system_columns::TupleId;
use crate::timetz::TimeTz;

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
    /// All string types but `character(n)`, and `json`
    Text(String),
    /// `character(n)` and `bpchar`, with the blanks at the end, which no comparison sees (TYPE-2)
    Char(String),
    /// `date`: days since 1970-01-01
    Date(i32),
    /// `time`: microseconds since midnight
    Time(i64),
    /// `timetz`
    Timetz(TimeTz),
    /// `timestamp`: microseconds since 1970-01-01 00:00 in the clock's own time
    Timestamp(i64),
    /// `timestamptz`: microseconds since 1970-01-01 00:00 UTC
    Timestamptz(i64),
    /// `interval`
    Interval(Interval),
    /// `tid`
    Tid(TupleId),
    /// `xid8`
    Xid8(u64),
    /// `uuid`
    Uuid([u8; 16]),
    /// `bytea`
    Bytea(Vec<u8>),
    /// `oid` and its named forms
    Oid(u32),
    /// An array; an `int2vector` or `oidvector` is one, too.
    Array(Arc<ArrayValue>),
    /// `jsonb`
    Jsonb(Jsonb),
    /// A value of an enumerated type
    Enum(EnumValue),
    /// A row
    Record(Arc<RecordValue>),
}

impl Datum {
    /// Whether this is NULL.
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self, Datum::Null)
    }

    /// The string of a `Text`; of a `Char` with its blanks.
    #[inline]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Datum::Text(text) | Datum::Char(text) => Some(text),
            _ => None,
        }
    }

    /// The order of `ORDER BY … ASC`: NULLs last, NaN above every number, strings by bytes,
    /// those of `character(n)` without the blanks at their ends.
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
            (Datum::Timetz(a), Datum::Timetz(b)) => a.cmp(b),
            (Datum::Float4(a), Datum::Float4(b)) => compare_float(f64::from(*a), f64::from(*b)),
            (Datum::Float8(a), Datum::Float8(b)) => compare_float(*a, *b),
            (Datum::Numeric(a), Datum::Numeric(b)) => a.cmp(b),
            (Datum::Text(a), Datum::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Datum::Char(a), Datum::Char(b)) => without_blanks(a)
                .as_bytes()
                .cmp(without_blanks(b).as_bytes()),
            (Datum::Interval(a), Datum::Interval(b)) => {
                a.comparison_micros().cmp(&b.comparison_micros())
            }
            (Datum::Tid(a), Datum::Tid(b)) => a.cmp(b),
            (Datum::Xid8(a), Datum::Xid8(b)) => a.cmp(b),
            (Datum::Uuid(a), Datum::Uuid(b)) => a.cmp(b),
            (Datum::Bytea(a), Datum::Bytea(b)) => a.cmp(b),
            (Datum::Oid(a), Datum::Oid(b)) => a.cmp(b),
            (Datum::Array(a), Datum::Array(b)) => a.compare(b),
            (Datum::Jsonb(a), Datum::Jsonb(b)) => a.root().compare(b.root()),
            (Datum::Record(a), Datum::Record(b)) => a.compare(b),
            (Datum::Enum(a), Datum::Enum(b)) => a.cmp(b),
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
            Datum::Array(_) => 16,
            Datum::Record(_) => 17,
            Datum::Char(_) => 18,
            Datum::Timetz(_) => 19,
            Datum::Jsonb(_) => 20,
            Datum::Enum(_) => 21,
            Datum::Tid(_) => 22,
            Datum::Xid8(_) => 23,
            Datum::Null => 24,
        }
    }

    /// Whether both are equal as `=` of their type has it, NULL being equal to NULL. -0 equals 0,
    /// NaN equals NaN, a `numeric` its value at any scale and an interval one of the same length.
    pub fn equals(&self, other: &Datum) -> bool {
        self.compare(other) == Ordering::Equal
    }

    /// Whether no expression tells both apart: NaN is identical to NaN, -0 is not to 0, nor is a
    /// `numeric` to its value at another scale, or a `character(n)` to one with more blanks.
    pub fn identical(&self, other: &Datum) -> bool {
        let all = |a: &[Datum], b: &[Datum]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.identical(b))
        };
        match (self, other) {
            (Datum::Float4(a), Datum::Float4(b)) => a.to_bits() == b.to_bits(),
            (Datum::Float8(a), Datum::Float8(b)) => a.to_bits() == b.to_bits(),
            (Datum::Numeric(a), Datum::Numeric(b)) => a == b && a.scale() == b.scale(),
            (Datum::Array(a), Datum::Array(b)) => {
                a.dimensions == b.dimensions && all(&a.elements, &b.elements)
            }
            (Datum::Record(a), Datum::Record(b)) => a.types == b.types && all(&a.fields, &b.fields),
            _ => self == other,
        }
    }

    /// Feeds a hasher such that values for which [`Datum::equals`] holds hash alike.
    pub fn hash_value<H: Hasher>(&self, state: &mut H) {
        match self {
            Datum::Null => state.write_u8(0),
            Datum::Bool(value) => value.hash(state),
            Datum::Int2(value) => value.hash(state),
            Datum::Int4(value) | Datum::Date(value) => value.hash(state),
            Datum::Int8(value)
            | Datum::Time(value)
            | Datum::Timestamp(value)
            | Datum::Timestamptz(value) => value.hash(state),
            Datum::Timetz(value) => value.hash(state),
            Datum::Float4(value) => state.write_u64(float_key(f64::from(*value))),
            Datum::Float8(value) => state.write_u64(float_key(*value)),
            Datum::Numeric(value) => {
                value.sign().hash(state);
                if !value.digits().is_empty() {
                    value.weight().hash(state);
                }
                value.digits().hash(state);
            }
            Datum::Text(value) => value.hash(state),
            Datum::Char(value) => without_blanks(value).hash(state),
            Datum::Interval(value) => value.comparison_micros().hash(state),
            Datum::Tid(value) => value.hash(state),
            Datum::Xid8(value) => value.hash(state),
            Datum::Uuid(value) => value.hash(state),
            Datum::Bytea(value) => value.hash(state),
            Datum::Oid(value) => value.hash(state),
            Datum::Enum(value) => value.position.hash(state),
            Datum::Array(value) => {
                for element in value.elements() {
                    element.hash_value(state);
                }
                state.write_usize(value.elements().len());
            }
            Datum::Jsonb(value) => {
                let mut key = Vec::new();
                encode_key(value.root(), &mut key);
                state.write(&key);
            }
            Datum::Record(value) => {
                for field in value.fields() {
                    field.hash_value(state);
                }
            }
        }
    }

    /// An array of one dimension, from 1.
    pub fn array(elements: Vec<Datum>) -> Datum {
        Datum::Array(Arc::new(ArrayValue::of_elements(elements)))
    }

    /// The array of an `Array`.
    pub fn as_array(&self) -> Option<&ArrayValue> {
        match self {
            Datum::Array(array) => Some(array),
            _ => None,
        }
    }
}

/// Bits that are the same for equal floats.
fn float_key(value: f64) -> u64 {
    if value.is_nan() {
        f64::NAN.to_bits()
    } else if value == 0.0 {
        0
    } else {
        value.to_bits()
    }
}

/// Most dimensions.
pub const MAX_DIMENSIONS: usize = 6;
/// Most elements, PostgreSQL's `MaxArraySize`.
pub const MAX_ARRAY_SIZE: usize = 134_217_727;

/// One dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dimension {
    /// Elements along it, at least one.
    pub length: i32,
    /// The subscript of the first.
    pub lower: i32,
}

impl Dimension {
    /// The subscript of the last element.
    pub fn upper(self) -> i32 {
        // `ArrayValue::new` refuses bounds for which this would wrap.
        self.lower.wrapping_add(self.length).wrapping_sub(1)
    }
}

/// An array. Its elements' type is known from the context; one without elements has no dimensions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ArrayValue {
    dimensions: SmallVec<[Dimension; 1]>,
    elements: Vec<Datum>,
}

/// 54000: more elements than an array may have.
pub(crate) fn too_many() -> TypeError {
    TypeError::new(
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        format!("array size exceeds the maximum allowed ({MAX_ARRAY_SIZE})"),
    )
}

pub(crate) fn too_deep() -> TypeError {
    TypeError::new(
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        format!("number of array dimensions exceeds the maximum allowed ({MAX_DIMENSIONS})"),
    )
}

impl ArrayValue {
    /// An array of these dimensions; the elements row by row. No elements make the empty array.
    ///
    /// # Errors
    /// 54000 beyond the limits; XX000 when the dimensions are not those of the elements.
    pub fn new(dimensions: &[Dimension], elements: Vec<Datum>) -> TypeResult<ArrayValue> {
        if dimensions.len() > MAX_DIMENSIONS {
            return Err(too_deep());
        }
        if elements.len() > MAX_ARRAY_SIZE {
            return Err(too_many());
        }
        if elements.is_empty() {
            return Ok(ArrayValue::default());
        }
        let mut expected = 1usize;
        for dimension in dimensions {
            let length = usize::try_from(dimension.length).unwrap_or(0);
            expected = expected.checked_mul(length).ok_or_else(too_many)?;
            if dimension.lower.checked_add(dimension.length).is_none() {
                return Err(TypeError::new(
                    SqlState::PROGRAM_LIMIT_EXCEEDED,
                    format!("array lower bound is too large: {}", dimension.lower),
                ));
            }
        }
        if dimensions.is_empty() || expected != elements.len() {
            return Err(TypeError::internal(
                "an array's dimensions are not its elements'",
            ));
        }
        Ok(ArrayValue {
            dimensions: SmallVec::from_slice(dimensions),
            elements,
        })
    }

    /// An array of one dimension, from 1. The caller bounds the number of elements.
    pub fn of_elements(elements: Vec<Datum>) -> ArrayValue {
        if elements.is_empty() {
            return ArrayValue::default();
        }
        let length = i32::try_from(elements.len()).unwrap_or(i32::MAX);
        ArrayValue {
            dimensions: SmallVec::from_slice(&[Dimension { length, lower: 1 }]),
            elements,
        }
    }

    /// An `int2vector` or `oidvector`: an array of one dimension, from 0. The caller bounds the
    /// number of elements.
    pub fn vector(elements: Vec<Datum>) -> ArrayValue {
        let mut vector = ArrayValue::of_elements(elements);
        for dimension in &mut vector.dimensions {
            dimension.lower = 0;
        }
        vector
    }

    /// An array whose parts the caller has taken from another one.
    pub(crate) fn from_parts(
        dimensions: SmallVec<[Dimension; 1]>,
        elements: Vec<Datum>,
    ) -> ArrayValue {
        ArrayValue {
            dimensions,
            elements,
        }
    }

    /// The dimensions, the outermost first; none of the empty array.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// The elements, row by row.
    pub fn elements(&self) -> &[Datum] {
        &self.elements
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// The order of arrays: element by element, NULL last; then the number of elements, of
    /// dimensions, their lengths and lower bounds.
    pub fn compare(&self, other: &ArrayValue) -> Ordering {
        let mut pairs = self.elements.iter().zip(&other.elements);
        let shape = |array: &ArrayValue, part: fn(&Dimension) -> i32| -> SmallVec<[i32; 6]> {
            array.dimensions.iter().map(part).collect()
        };
        pairs
            .find_map(|(a, b)| Some(a.compare(b)).filter(|order| order.is_ne()))
            .unwrap_or_else(|| self.elements.len().cmp(&other.elements.len()))
            .then_with(|| self.dimensions.len().cmp(&other.dimensions.len()))
            .then_with(|| shape(self, |d| d.length).cmp(&shape(other, |d| d.length)))
            .then_with(|| shape(self, |d| d.lower).cmp(&shape(other, |d| d.lower)))
    }

    /// Bytes that it holds in memory, for budgets.
    pub fn bytes(&self) -> usize {
        self.elements.len().saturating_mul(size_of::<Datum>())
    }
}

/// A row.
#[derive(Debug, Clone, Default)]
pub struct RecordValue {
    types: Box<[SqlType]>,
    fields: Box<[Datum]>,
    /// The fields' names, if the row is one of a table or query.
    names: Arc<[Arc<str>]>,
}

impl PartialEq for RecordValue {
    fn eq(&self, other: &RecordValue) -> bool {
        self.types == other.types && self.fields == other.fields
    }
}

impl RecordValue {
    /// A row of these fields; each is of the type at its place.
    pub fn new(types: Box<[SqlType]>, fields: Box<[Datum]>) -> RecordValue {
        RecordValue {
            types,
            fields,
            names: Arc::default(),
        }
    }

    /// With the fields' names.
    #[must_use]
    pub fn named(mut self, names: Arc<[Arc<str>]>) -> RecordValue {
        self.names = names;
        self
    }

    /// The fields' names; none of a row that has none.
    pub fn names(&self) -> &Arc<[Arc<str>]> {
        &self.names
    }

    /// The fields' types.
    pub fn types(&self) -> &[SqlType] {
        &self.types
    }

    /// The fields.
    pub fn fields(&self) -> &[Datum] {
        &self.fields
    }

    /// The order of rows: field by field, NULL last, then by the number of fields.
    pub fn compare(&self, other: &RecordValue) -> Ordering {
        let mut pairs = self.fields.iter().zip(&other.fields);
        pairs
            .find_map(|(a, b)| Some(a.compare(b)).filter(|order| order.is_ne()))
            .unwrap_or_else(|| self.fields.len().cmp(&other.fields.len()))
    }

    /// As [`RecordValue::compare`], where the rows are of the same types, as the operators want it.
    ///
    /// # Errors
    /// 42804 for fields of different types or another number of them.
    pub fn compare_checked(&self, other: &RecordValue) -> TypeResult<Ordering> {
        let pairs = self.fields.iter().zip(&other.fields);
        let types = self.types.iter().zip(&other.types);
        for (at, ((a, b), (left, right))) in pairs.zip(types).enumerate() {
            if left.oid() != right.oid() {
                let message = format!(
                    "cannot compare dissimilar column types {} and {} at record column {}",
                    left.name(),
                    right.name(),
                    at + 1
                );
                return Err(TypeError::new(SqlState::DATATYPE_MISMATCH, message));
            }
            let order = a.compare(b);
            if order.is_ne() {
                return Ok(order);
            }
        }
        if self.fields.len() != other.fields.len() {
            let message = "cannot compare record types with different numbers of columns";
            return Err(TypeError::new(SqlState::DATATYPE_MISMATCH, message));
        }
        Ok(Ordering::Equal)
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

impl From<Vec<u8>> for Datum {
    fn from(bytes: Vec<u8>) -> Datum {
        Datum::Bytea(bytes)
    }
}

impl From<Jsonb> for Datum {
    fn from(value: Jsonb) -> Datum {
        Datum::Jsonb(value)
    }
}

impl From<Numeric> for Datum {
    fn from(value: Numeric) -> Datum {
        Datum::Numeric(value)
    }
}

impl From<f64> for Datum {
    fn from(value: f64) -> Datum {
        Datum::Float8(value)
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
