//! Random choices from a seed, and sections of cases.

use std::fmt::Write as _;

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    /// One of several.
    pub fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }

    /// One to `most` digits, often nines or zeros.
    pub fn digits(&mut self, most: u64) -> String {
        let length = 1 + self.below(most);
        let kind = self.below(4);
        (0..length)
            .map(|_| match kind {
                0 => '9',
                1 => self
                    .pick(&["0", "0", "0", "1", "5"])
                    .chars()
                    .next()
                    .unwrap_or('0'),
                _ => char::from(b'0' + self.below(10) as u8),
            })
            .collect()
    }
}

/// Appends a section without answers.
pub fn section(out: &mut String, name: &str, sql: &str, cases: impl IntoIterator<Item = String>) {
    let _ = writeln!(out, "# {name}: {sql}");
    for case in cases {
        let _ = writeln!(out, "{case}");
    }
}
