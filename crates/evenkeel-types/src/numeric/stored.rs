//! Stored form of `numeric`: sign (1 byte), display scale (2), weight (2), digits (2 each).

use smallvec::SmallVec;

use super::{Numeric, NumericSign};

const HEADER: usize = 5;

/// Appends the stored form.
pub(crate) fn encode(value: &Numeric, out: &mut Vec<u8>) {
    out.push(match value.sign() {
        NumericSign::Positive => 0,
        NumericSign::Negative => 1,
        NumericSign::NaN => 2,
        NumericSign::PositiveInfinity => 3,
        NumericSign::NegativeInfinity => 4,
    });
    out.extend_from_slice(&value.dscale().to_le_bytes());
    out.extend_from_slice(&value.weight().to_le_bytes());
    for digit in value.digits() {
        out.extend_from_slice(&digit.to_le_bytes());
    }
}

/// Reads the stored form; `None` when it is not one.
pub(crate) fn decode(bytes: &[u8]) -> Option<Numeric> {
    let (header, digits) = bytes.split_at_checked(HEADER)?;
    let sign = match header[0] {
        0 => NumericSign::Positive,
        1 => NumericSign::Negative,
        2 => NumericSign::NaN,
        3 => NumericSign::PositiveInfinity,
        4 => NumericSign::NegativeInfinity,
        _ => return None,
    };
    let dscale = u16::from_le_bytes([header[1], header[2]]);
    let weight = i16::from_le_bytes([header[3], header[4]]);
    let pairs = digits.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    let mut digits: SmallVec<[u16; 8]> = SmallVec::from_elem(0, pairs.len());
    for (digit, pair) in digits.iter_mut().zip(pairs) {
        *digit = u16::from_le_bytes([pair[0], pair[1]]);
    }
    Numeric::from_parts(sign, weight, dscale, digits)
}
