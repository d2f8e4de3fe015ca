//! Keys as the tree orders them: key bytes by `memcmp`, then the heap tid.

use std::cmp::Ordering;

use evenkeel_storage::BlockNumber;

use crate::types::Tid;

/// The longest key, in bytes. With it a page can always be split so that both halves and the
/// new high key fit (BT-6).
pub const MAX_KEY_LEN: usize = 2_696;

/// A tid as the number that orders it: block, then slot. Zero sorts before every tid, which is
/// what a pivot without a tid means.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct TidOrder(pub u64);

impl TidOrder {
    /// Before every tid.
    pub const LEAST: TidOrder = TidOrder(0);
    /// After every tid.
    pub const GREATEST: TidOrder = TidOrder(u64::MAX);

    /// The number of `tid`.
    pub const fn of(tid: Tid) -> TidOrder {
        TidOrder((tid.block.0 as u64) << 16 | tid.slot as u64)
    }

    /// The tid with this number.
    pub const fn tid(self) -> Tid {
        Tid::new(BlockNumber((self.0 >> 16) as u32), self.0 as u16)
    }
}

/// A position in the order of a tree's entries, with the key's first bytes at hand: most
/// comparisons of a binary search are decided by one integer comparison.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Where among the entries with this key.
    pub tid: TidOrder,
    head: u64,
    side: Side,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    At,
    Before,
    End,
}

impl<'a> Position<'a> {
    /// The place of `(key, tid)`.
    pub fn new(key: &'a [u8], tid: TidOrder) -> Position<'a> {
        Position {
            key,
            tid,
            head: head(key),
            side: Side::At,
        }
    }

    /// Before every entry.
    pub fn start() -> Position<'static> {
        Position::new(&[], TidOrder::LEAST)
    }

    /// After every entry.
    pub fn end() -> Position<'static> {
        Position {
            side: Side::End,
            ..Position::start()
        }
    }

    /// Before this position and after everything less: where the page whose high key this is
    /// ends.
    pub fn just_before(self) -> Position<'a> {
        Position {
            side: Side::Before,
            ..self
        }
    }

    /// Whether it is behind everything.
    pub fn is_end(&self) -> bool {
        self.side == Side::End
    }

    /// The key's first bytes as a number.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// How this position compares to that of `(key, tid)`.
    #[inline]
    pub fn compare(&self, key: &[u8], tid: TidOrder) -> Ordering {
        if self.side == Side::End {
            return Ordering::Greater;
        }
        let other = head(key);
        if self.head != other {
            return self.head.cmp(&other);
        }
        match self.key.cmp(key).then(self.tid.cmp(&tid)) {
            Ordering::Equal if self.side == Side::Before => Ordering::Less,
            ordering => ordering,
        }
    }
}

/// The first eight bytes as a number that orders like them; a shorter key is padded with zeros,
/// which can make unequal keys equal here but never turns their order around.
#[inline]
pub(super) fn head(key: &[u8]) -> u64 {
    if let Some(bytes) = key.first_chunk::<8>() {
        return u64::from_be_bytes(*bytes);
    }
    if let (Some(first), Some(last)) = (key.first_chunk::<4>(), key.last_chunk::<4>()) {
        let high = u64::from(u32::from_be_bytes(*first)) << 32;
        return high | u64::from(u32::from_be_bytes(*last)) << (8 * (8 - key.len()));
    }
    if let (Some(first), Some(last)) = (key.first_chunk::<2>(), key.last_chunk::<2>()) {
        let high = u64::from(u16::from_be_bytes(*first)) << 48;
        return high | u64::from(u16::from_be_bytes(*last)) << (8 * (8 - key.len()));
    }
    u64::from(key.first().copied().unwrap_or(0)) << 56
}

/// The shortest key that separates two neighbours: greater than `left` and at most `right`.
/// `None` when the keys are equal, so that only the right tid separates them.
pub(super) fn separator<'a>(left: &[u8], right: &'a [u8]) -> Option<&'a [u8]> {
    let common = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    right.get(..common + 1)
}

/// Appends to `out` the least key that is greater than every key that starts with `prefix`;
/// false (and nothing appended) when there is none.
pub fn prefix_successor(prefix: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(last) = prefix.iter().rposition(|&byte| byte != u8::MAX) else {
        return false;
    };
    out.extend_from_slice(&prefix[..last]);
    out.push(prefix[last] + 1);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng, rngs::StdRng};

    fn random_key(rng: &mut StdRng) -> Vec<u8> {
        let len = rng.random_range(0..12);
        (0..len)
            .map(|_| *[0u8, 1, 2, 255].get(rng.random_range(0..4)).unwrap_or(&0))
            .collect()
    }

    #[test]
    fn positions_order_like_key_then_tid() {
        let seed = 0x5eed_0001;
        let mut rng = StdRng::seed_from_u64(seed);
        for _ in 0..100_000 {
            let (a, b) = (random_key(&mut rng), random_key(&mut rng));
            let (s, t) = (
                TidOrder(rng.random_range(0..3)),
                TidOrder(rng.random_range(0..3)),
            );
            let expected = (&a, s).cmp(&(&b, t));
            assert_eq!(
                Position::new(&a, s).compare(&b, t),
                expected,
                "{a:?} {b:?} seed {seed}"
            );
        }
    }

    #[test]
    fn separator_lies_between_its_neighbours() {
        let seed = 0x5eed_0002;
        let mut rng = StdRng::seed_from_u64(seed);
        for _ in 0..100_000 {
            let (a, b) = (random_key(&mut rng), random_key(&mut rng));
            let (low, high) = if a <= b { (a, b) } else { (b, a) };
            match separator(&low, &high) {
                Some(key) => {
                    assert!(
                        key > low.as_slice() && key <= high.as_slice(),
                        "seed {seed}"
                    );
                    assert!(
                        key.len() == 1 || key[..key.len() - 1] <= low[..],
                        "seed {seed}"
                    );
                }
                None => assert_eq!(low, high, "seed {seed}"),
            }
        }
    }

    #[test]
    fn prefix_successor_bounds_the_prefix() {
        let mut out = Vec::new();
        assert!(prefix_successor(&[1, 2, 255], &mut out));
        assert_eq!(out, [1, 3]);
        out.clear();
        assert!(!prefix_successor(&[255, 255], &mut out));
        assert!(out.is_empty());
    }
}
