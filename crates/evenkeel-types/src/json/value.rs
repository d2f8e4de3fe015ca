//! The form of a `jsonb`, in memory as on disk, read without being decoded.
//!
//! ```text
//! node:   payload, tag (1 byte)
//! number: the stored form of a `numeric`; string: its UTF-8
//! array:  elements (nodes), the end of each, their number
//! object: names and values, for each field its start, the start and the end of its value, their
//!         number; fields are listed by the length of their names, then by their bytes
//! ```
//! Places and counts are two bytes (four in a wide node), little endian, from the node's start: a
//! node can be copied to another place as it is. A node is read from its end, so that one that is
//! made needs no room left for counts. Bytes that are no such node read as `null`.

use std::cmp::Ordering;

use crate::numeric::{self, Numeric};

pub(super) const NULL: u8 = 0;
pub(super) const FALSE: u8 = 1;
pub(super) const TRUE: u8 = 2;
pub(super) const NUMBER: u8 = 3;
pub(super) const STRING: u8 = 4;
pub(super) const ARRAY: u8 = 5;
pub(super) const WIDE_ARRAY: u8 = 6;
pub(super) const OBJECT: u8 = 7;
pub(super) const WIDE_OBJECT: u8 = 8;

/// A `jsonb`.
#[derive(Debug, Clone, PartialEq)]
pub struct Jsonb(Box<[u8]>);

impl Jsonb {
    /// The value of these stored bytes.
    pub fn from_bytes(bytes: Box<[u8]>) -> Jsonb {
        Jsonb(bytes)
    }

    /// The stored bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The value, to be looked at.
    pub fn root(&self) -> JsonbRef<'_> {
        JsonbRef(&self.0)
    }
}

/// A value within a `jsonb`.
#[derive(Debug, Clone, Copy)]
pub struct JsonbRef<'a>(&'a [u8]);

/// The kind of a value, in the order of `jsonb`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum JsonbKind {
    /// `null`
    Null,
    /// A string.
    String,
    /// A number.
    Number,
    /// A boolean.
    Bool,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// A value, taken apart.
#[derive(Debug, Clone)]
pub enum JsonbItem<'a> {
    /// `null`
    Null,
    /// A string.
    String(&'a str),
    /// A number.
    Number(Numeric),
    /// A boolean.
    Bool(bool),
    /// An array.
    Array(JsonbArray<'a>),
    /// An object.
    Object(JsonbObject<'a>),
}

/// The parts of an array or object.
#[derive(Debug, Clone, Copy)]
struct Parts<'a> {
    data: &'a [u8],
    table: &'a [u8],
    count: usize,
    wide: bool,
}

impl<'a> Parts<'a> {
    fn of(payload: &'a [u8], wide: bool, columns: usize) -> Option<Parts<'a>> {
        let width = if wide { 4 } else { 2 };
        let (rest, count) = payload.split_at_checked(payload.len().checked_sub(width)?)?;
        let count = place(count, 0, wide);
        let table = count.checked_mul(columns * width)?;
        let (data, table) = rest.split_at_checked(rest.len().checked_sub(table)?)?;
        Some(Parts {
            data,
            table,
            count,
            wide,
        })
    }

    const EMPTY: Parts<'static> = Parts {
        data: &[],
        table: &[],
        count: 0,
        wide: false,
    };

    fn slice(&self, start: usize, end: usize) -> &'a [u8] {
        self.data.get(start..end).unwrap_or_default()
    }
}

/// The number at a place of a table.
fn place(table: &[u8], index: usize, wide: bool) -> usize {
    let at = |byte: usize| table.get(byte).copied().unwrap_or(0);
    match wide {
        true => {
            let byte = index * 4;
            u32::from_le_bytes([at(byte), at(byte + 1), at(byte + 2), at(byte + 3)]) as usize
        }
        false => usize::from(u16::from_le_bytes([at(index * 2), at(index * 2 + 1)])),
    }
}

impl<'a> JsonbRef<'a> {
    /// `null`
    pub fn null() -> JsonbRef<'static> {
        JsonbRef(&[NULL])
    }

    /// Its bytes.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// A value of its own.
    pub fn to_owned(self) -> Jsonb {
        Jsonb(self.0.into())
    }

    /// Its kind.
    pub fn kind(self) -> JsonbKind {
        match self.0.last() {
            Some(&(FALSE | TRUE)) => JsonbKind::Bool,
            Some(&NUMBER) => JsonbKind::Number,
            Some(&STRING) => JsonbKind::String,
            Some(&(ARRAY | WIDE_ARRAY)) => JsonbKind::Array,
            Some(&(OBJECT | WIDE_OBJECT)) => JsonbKind::Object,
            _ => JsonbKind::Null,
        }
    }

    /// Whether it is no array and no object.
    pub fn is_scalar(self) -> bool {
        self.kind() < JsonbKind::Array
    }

    /// The value, taken apart.
    pub fn item(self) -> JsonbItem<'a> {
        let Some((tag, payload)) = self.0.split_last() else {
            return JsonbItem::Null;
        };
        match *tag {
            FALSE => JsonbItem::Bool(false),
            TRUE => JsonbItem::Bool(true),
            NUMBER => numeric::decode(payload).map_or(JsonbItem::Null, JsonbItem::Number),
            STRING => JsonbItem::String(std::str::from_utf8(payload).unwrap_or_default()),
            ARRAY | WIDE_ARRAY => {
                let parts = Parts::of(payload, *tag == WIDE_ARRAY, 1);
                JsonbItem::Array(JsonbArray(parts.unwrap_or(Parts::EMPTY)))
            }
            OBJECT | WIDE_OBJECT => {
                let parts = Parts::of(payload, *tag == WIDE_OBJECT, 3);
                JsonbItem::Object(JsonbObject(parts.unwrap_or(Parts::EMPTY)))
            }
            _ => JsonbItem::Null,
        }
    }

    /// The array that it is.
    pub fn as_array(self) -> Option<JsonbArray<'a>> {
        match self.item() {
            JsonbItem::Array(array) => Some(array),
            _ => None,
        }
    }

    /// The object that it is.
    pub fn as_object(self) -> Option<JsonbObject<'a>> {
        match self.item() {
            JsonbItem::Object(object) => Some(object),
            _ => None,
        }
    }
}

/// An array.
#[derive(Debug, Clone, Copy)]
pub struct JsonbArray<'a>(Parts<'a>);

impl<'a> JsonbArray<'a> {
    /// The number of elements.
    pub fn len(self) -> usize {
        self.0.count
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0.count == 0
    }

    /// The element at this place, from 0.
    pub fn get(self, at: usize) -> Option<JsonbRef<'a>> {
        if at >= self.0.count {
            return None;
        }
        let start = match at {
            0 => 0,
            _ => place(self.0.table, at - 1, self.0.wide),
        };
        let end = place(self.0.table, at, self.0.wide);
        Some(JsonbRef(self.0.slice(start, end)))
    }

    /// The element at this place; negative ones count from the end.
    pub fn at(self, at: i64) -> Option<JsonbRef<'a>> {
        let length = i64::try_from(self.len()).ok()?;
        let at = if at < 0 { at.checked_add(length)? } else { at };
        self.get(usize::try_from(at).ok()?)
    }

    /// The elements.
    pub fn iter(self) -> impl Iterator<Item = JsonbRef<'a>> {
        (0..self.len()).filter_map(move |at| self.get(at))
    }
}

/// An object.
#[derive(Debug, Clone, Copy)]
pub struct JsonbObject<'a>(Parts<'a>);

/// The order of names.
pub(super) fn compare_keys(a: &[u8], b: &[u8]) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

impl<'a> JsonbObject<'a> {
    /// The number of fields.
    pub fn len(self) -> usize {
        self.0.count
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0.count == 0
    }

    fn key_bytes(self, at: usize) -> &'a [u8] {
        let start = place(self.0.table, at * 3, self.0.wide);
        let end = place(self.0.table, at * 3 + 1, self.0.wide);
        self.0.slice(start, end)
    }

    fn value_at(self, at: usize) -> JsonbRef<'a> {
        let start = place(self.0.table, at * 3 + 1, self.0.wide);
        let end = place(self.0.table, at * 3 + 2, self.0.wide);
        JsonbRef(self.0.slice(start, end))
    }

    /// The field at this place in the order of names.
    pub fn get(self, at: usize) -> Option<(&'a str, JsonbRef<'a>)> {
        if at >= self.0.count {
            return None;
        }
        let key = std::str::from_utf8(self.key_bytes(at)).unwrap_or_default();
        Some((key, self.value_at(at)))
    }

    /// The value of a name.
    pub fn find(self, key: &str) -> Option<JsonbRef<'a>> {
        let (mut low, mut high) = (0, self.0.count);
        while low < high {
            let middle = low + (high - low) / 2;
            match compare_keys(self.key_bytes(middle), key.as_bytes()) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Some(self.value_at(middle)),
            }
        }
        None
    }

    /// The fields, in the order of names.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, JsonbRef<'a>)> {
        (0..self.len()).filter_map(move |at| self.get(at))
    }
}
