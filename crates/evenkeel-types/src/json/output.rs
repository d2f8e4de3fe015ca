//! The text of a `jsonb`.

use bytes::BufMut;

use super::value::{JsonbArray, JsonbItem, JsonbObject, JsonbRef};
use crate::wire::hex_digit;

/// Appends a string of JSON, in quotes.
pub fn escape_json<B: BufMut>(text: &str, out: &mut B) {
    out.put_u8(b'"');
    let mut rest = text.as_bytes();
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=31);
    while let Some(at) = rest.iter().position(special) {
        out.put_slice(&rest[..at]);
        match rest[at] {
            byte @ (b'"' | b'\\') => out.put_slice(&[b'\\', byte]),
            8 => out.put_slice(b"\\b"),
            9 => out.put_slice(b"\\t"),
            10 => out.put_slice(b"\\n"),
            12 => out.put_slice(b"\\f"),
            13 => out.put_slice(b"\\r"),
            byte => {
                out.put_slice(b"\\u00");
                out.put_slice(&[hex_digit(byte >> 4), hex_digit(byte)]);
            }
        }
        rest = &rest[at + 1..];
    }
    out.put_slice(rest);
    out.put_u8(b'"');
}

/// An array or object of which some is written.
enum Open<'a> {
    Array(JsonbArray<'a>, usize),
    Object(JsonbObject<'a>, usize),
}

/// Appends the text form.
pub fn write_jsonb<B: BufMut>(value: JsonbRef<'_>, out: &mut B) {
    write(value, false, out);
}

/// Appends the form of `jsonb_pretty`.
pub fn pretty<B: BufMut>(value: JsonbRef<'_>, out: &mut B) {
    write(value, true, out);
}

fn new_line<B: BufMut>(depth: usize, out: &mut B) {
    out.put_u8(b'\n');
    out.put_bytes(b' ', depth * 4);
}

fn write<B: BufMut>(value: JsonbRef<'_>, indented: bool, out: &mut B) {
    let mut open = Vec::new();
    begin(value, &mut open, out);
    loop {
        let depth = open.len();
        let Some(last) = open.last_mut() else {
            return;
        };
        let (at, end) = match last {
            Open::Array(_, at) => (at, b']'),
            Open::Object(_, at) => (at, b'}'),
        };
        let index = *at;
        *at += 1;
        let (key, value) = match last {
            Open::Array(array, _) => (None, array.get(index)),
            Open::Object(object, _) => object
                .get(index)
                .map_or((None, None), |(key, value)| (Some(key), Some(value))),
        };
        let Some(value) = value else {
            if indented {
                new_line(depth - 1, out);
            }
            out.put_u8(end);
            open.pop();
            continue;
        };
        if index > 0 {
            out.put_slice(if indented { b"," } else { b", " });
        }
        if indented {
            new_line(depth, out);
        }
        if let Some(key) = key {
            escape_json(key, out);
            out.put_slice(b": ");
        }
        begin(value, &mut open, out);
    }
}

fn begin<'a, B: BufMut>(value: JsonbRef<'a>, open: &mut Vec<Open<'a>>, out: &mut B) {
    match value.item() {
        JsonbItem::Null => out.put_slice(b"null"),
        JsonbItem::Bool(true) => out.put_slice(b"true"),
        JsonbItem::Bool(false) => out.put_slice(b"false"),
        JsonbItem::Number(number) => out.put_slice(number.to_string().as_bytes()),
        JsonbItem::String(text) => escape_json(text, out),
        JsonbItem::Array(array) => {
            out.put_u8(b'[');
            open.push(Open::Array(array, 0));
        }
        JsonbItem::Object(object) => {
            out.put_u8(b'{');
            open.push(Open::Object(object, 0));
        }
    }
}
