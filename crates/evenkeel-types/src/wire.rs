//! Pieces of output that the forms share.

use bytes::{BufMut, BytesMut};

use crate::identity::SqlType;

/// Appends what `write` appends, with its length in front.
pub fn put_with_length(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_i32(0);
    write(out);
    let length = i32::try_from(out.len() - start - 4).unwrap_or(i32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends a string, whose form depends on the type for a `"char"` alone.
pub fn write_string<B: BufMut>(text: &str, ty: SqlType, out: &mut B) {
    if ty == SqlType::InternalChar
        && let Some(byte @ 0x80..=0xff) = text.chars().next().map(u32::from)
    {
        // A byte that is no character by itself.
        let octal = |shift: u32| b'0' + (byte >> shift & 7) as u8;
        return out.put_slice(&[b'\\', octal(6), octal(3), octal(0)]);
    }
    out.put_slice(text.as_bytes());
}

/// Appends a decimal integer without allocating.
pub fn put_integer<B: BufMut>(value: i64, out: &mut B) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    out.put_slice(&digits[at..]);
}

/// The lower-case digit of four bits.
pub fn hex_digit(nibble: u8) -> u8 {
    b"0123456789abcdef"[usize::from(nibble & 15)]
}

/// 36 characters, lower case.
pub fn uuid_text(value: &[u8; 16]) -> [u8; 36] {
    let mut text = [b'-'; 36];
    let mut at = 0;
    for (index, byte) in value.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            at += 1;
        }
        text[at] = hex_digit(byte >> 4);
        text[at + 1] = hex_digit(byte & 15);
        at += 2;
    }
    text
}
