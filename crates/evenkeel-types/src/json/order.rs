//! The order of `jsonb`, and bytes that have it.

use std::cmp::Ordering;

use super::value::{JsonbArray, JsonbItem, JsonbKind, JsonbObject, JsonbRef};
use crate::numeric;

/// Two arrays or objects of one size, of which the first parts are equal.
enum Pair<'a> {
    Arrays(JsonbArray<'a>, JsonbArray<'a>, usize),
    Objects(JsonbObject<'a>, JsonbObject<'a>, usize),
}

/// Where an array has a place of its own: an empty one at the top is before all other values, as
/// PostgreSQL has it for the sake of indexes that exist.
fn is_empty_array(value: JsonbRef<'_>) -> bool {
    value.as_array().is_some_and(JsonbArray::is_empty)
}

impl JsonbRef<'_> {
    /// The order of `jsonb`.
    pub fn compare(self, other: JsonbRef<'_>) -> Ordering {
        match (is_empty_array(self), is_empty_array(other)) {
            (true, true) => return Ordering::Equal,
            (true, false) if other.kind() != JsonbKind::Object => return Ordering::Less,
            (false, true) if self.kind() != JsonbKind::Object => return Ordering::Greater,
            _ => {}
        }
        let mut open = Vec::new();
        let mut order = compare_heads(self, other, &mut open);
        while order.is_eq() {
            let Some(pair) = open.last_mut() else {
                return Ordering::Equal;
            };
            let (left, right) = match pair {
                Pair::Arrays(a, b, at) => {
                    let parts = (a.get(*at), b.get(*at));
                    *at += 1;
                    parts
                }
                Pair::Objects(a, b, at) => {
                    let (left, right) = (a.get(*at), b.get(*at));
                    *at += 1;
                    if let (Some((left, _)), Some((right, _))) = (left, right) {
                        order = left.as_bytes().cmp(right.as_bytes());
                    }
                    (left.map(|(_, value)| value), right.map(|(_, value)| value))
                }
            };
            match (left, right) {
                (Some(left), Some(right)) if order.is_eq() => {
                    order = compare_heads(left, right, &mut open);
                }
                (Some(_), Some(_)) => {}
                _ => {
                    open.pop();
                }
            }
        }
        order
    }
}

/// The order as far as it does not depend on elements, which are left to be compared.
fn compare_heads<'a>(a: JsonbRef<'a>, b: JsonbRef<'a>, open: &mut Vec<Pair<'a>>) -> Ordering {
    match (a.item(), b.item()) {
        (JsonbItem::String(a), JsonbItem::String(b)) => a.as_bytes().cmp(b.as_bytes()),
        (JsonbItem::Number(a), JsonbItem::Number(b)) => a.cmp(&b),
        (JsonbItem::Bool(a), JsonbItem::Bool(b)) => a.cmp(&b),
        (JsonbItem::Array(a), JsonbItem::Array(b)) => {
            let order = a.len().cmp(&b.len());
            if order.is_eq() {
                open.push(Pair::Arrays(a, b, 0));
            }
            order
        }
        (JsonbItem::Object(a), JsonbItem::Object(b)) => {
            let order = a.len().cmp(&b.len());
            if order.is_eq() {
                open.push(Pair::Objects(a, b, 0));
            }
            order
        }
        _ => a.kind().cmp(&b.kind()),
    }
}

/// An array or object of which some is encoded.
enum Open<'a> {
    Array(JsonbArray<'a>, usize),
    Object(JsonbObject<'a>, usize),
}

/// Appends bytes whose order is that of the values; those of equal values are the same, and none
/// are the beginning of another's.
pub fn encode_key(value: JsonbRef<'_>, out: &mut Vec<u8>) {
    if is_empty_array(value) {
        return out.push(1);
    }
    let mut open = Vec::new();
    encode_head(value, &mut open, out);
    while let Some(last) = open.last_mut() {
        let value = match last {
            Open::Array(array, at) => {
                *at += 1;
                array.get(*at - 1)
            }
            Open::Object(object, at) => {
                *at += 1;
                object.get(*at - 1).map(|(key, value)| {
                    encode_string(key, out);
                    value
                })
            }
        };
        match value {
            Some(value) => encode_head(value, &mut open, out),
            None => {
                open.pop();
            }
        }
    }
}

/// No string of a `jsonb` has a zero byte.
fn encode_string(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

fn encode_head<'a>(value: JsonbRef<'a>, open: &mut Vec<Open<'a>>, out: &mut Vec<u8>) {
    let length = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    match value.item() {
        JsonbItem::Null => out.push(2),
        JsonbItem::String(text) => {
            out.push(3);
            encode_string(text, out);
        }
        JsonbItem::Number(number) => {
            out.push(4);
            numeric::encode_key(&number, out);
        }
        JsonbItem::Bool(false) => out.push(5),
        JsonbItem::Bool(true) => out.push(6),
        JsonbItem::Array(array) => {
            out.push(7);
            out.extend_from_slice(&length(array.len()));
            open.push(Open::Array(array, 0));
        }
        JsonbItem::Object(object) => {
            out.push(8);
            out.extend_from_slice(&length(object.len()));
            open.push(Open::Object(object, 0));
        }
    }
}
