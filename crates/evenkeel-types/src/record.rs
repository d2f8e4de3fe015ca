//! Rows as values: each field with its type.

use bytes::BufMut;

use crate::array::put_value;
use crate::context::TypeContext;
use crate::datum::RecordValue;

/// Appends the text form: `(1,"a b",)`.
pub fn write<B: BufMut>(record: &RecordValue, cx: &TypeContext, out: &mut B) {
    let mut text = Vec::new();
    out.put_u8(b'(');
    for (at, (value, ty)) in record.fields().iter().zip(record.types()).enumerate() {
        if at > 0 {
            out.put_u8(b',');
        }
        if value.is_null() {
            continue;
        }
        text.clear();
        value.write_text(*ty, cx, &mut text);
        let special = |byte: &u8| b"\"\\(),\x0b".contains(byte) || byte.is_ascii_whitespace();
        if !text.is_empty() && !text.iter().any(special) {
            out.put_slice(&text);
            continue;
        }
        out.put_u8(b'"');
        for byte in &text {
            if matches!(byte, b'"' | b'\\') {
                out.put_u8(*byte);
            }
            out.put_u8(*byte);
        }
        out.put_u8(b'"');
    }
    out.put_u8(b')');
}

/// Appends the binary form: the number of fields, each with its type and length.
pub fn write_binary<B: BufMut>(record: &RecordValue, out: &mut B) {
    let mut bytes = Vec::new();
    out.put_i32(i32::try_from(record.fields().len()).unwrap_or(i32::MAX));
    for (value, ty) in record.fields().iter().zip(record.types()) {
        out.put_u32(ty.oid());
        put_value(value, *ty, &mut bytes, out);
    }
}
