//! Bytes whose order is that of numbers.

use super::{Numeric, NumericSign};

/// Class, then (for a number that is not zero) weight and digits, inverted when negative. A
/// digit is stored plus one, so that zero ends the number and a longer one sorts after it.
pub(crate) fn encode_key(value: &Numeric, out: &mut Vec<u8>) {
    let class = match value.sign() {
        NumericSign::NegativeInfinity => 1,
        NumericSign::Negative => 2,
        NumericSign::Positive if value.digits().is_empty() => 3,
        NumericSign::Positive => 4,
        NumericSign::PositiveInfinity => 5,
        NumericSign::NaN => 6,
    };
    out.push(class);
    if class != 2 && class != 4 {
        return;
    }
    let start = out.len();
    out.extend_from_slice(&(value.weight().cast_unsigned() ^ 1 << 15).to_be_bytes());
    for digit in value.digits() {
        out.extend_from_slice(&(digit + 1).to_be_bytes());
    }
    out.extend_from_slice(&[0, 0]);
    if class == 2 {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}
