//! The rows: every value tells whose it is and which commit wrote it.

use crate::subject::{Key, Row, VALUE_BYTES};

/// Spreads numbers over all 64 bits, one to one (the finaliser of SplitMix64, Steele et al.,
/// "Fast splittable pseudorandom number generators", 2014).
pub fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// Key of row `n`: in no order, so that neighbours in time are none in the tree.
pub fn key(n: u64) -> Key {
    let mut key = Key::default();
    key[..8].copy_from_slice(&mix(n).to_be_bytes());
    key[8..].copy_from_slice(&n.to_be_bytes());
    key
}

/// Row `n` as written by `commit`; its bytes do not compress.
pub fn row(n: u64, commit: u64) -> Row {
    let mut value = [0; VALUE_BYTES];
    for (at, chunk) in (0..).zip(value.chunks_mut(8)) {
        let word = match at {
            0 => n,
            1 => commit,
            _ => mix(n ^ commit.rotate_left(32) ^ (at << 56)),
        };
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
    Row { key: key(n), value }
}

/// Whether `value` belongs to row `n`, whoever wrote it.
pub fn is_of(n: u64, value: &[u8]) -> bool {
    value.len() == VALUE_BYTES && value[..8] == n.to_le_bytes()
}

/// Numbers at random, repeatable.
pub struct Random(u64);

impl Random {
    /// A sequence of its own for every seed.
    pub fn new(seed: u64) -> Random {
        Random(mix(seed))
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(self.0) % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_says_whose_it_is() {
        let row = row(7, 3);
        assert!(is_of(7, &row.value));
        assert!(!is_of(8, &row.value));
        assert!(!is_of(7, &row.value[..50]));
    }
}
