//! Search within a page, made for memory that is slow to answer.
//!
//! Tuples lie on a page in the order they came, so that every step of a binary search waits for
//! a cache line of its own. Here a step looks at several keys at once, none of which depends on
//! another: the processor fetches them together, and a page takes three such waits where a
//! binary search takes eight.

use std::cmp::Ordering;
use std::ops::Range;

use super::key::{Position, head};

/// Keys looked at in one step.
const PROBES: u16 = 7;
/// Shorter ranges than this take no more waits by halves.
const WORTHWHILE: u16 = 4;

/// A part of `range` outside of which it is known how slots compare to `position`: those before
/// it hold less, those behind it more. `key_of` gives the key in a slot; the slots of `range` are
/// in order. Where keys tell nothing apart the whole range comes back.
///
/// # Errors
/// Those of `key_of`.
pub(super) fn narrow<'p, E>(
    position: &Position<'_>,
    range: Range<u16>,
    key_of: impl Fn(u16) -> Result<&'p [u8], E>,
) -> Result<Range<u16>, E> {
    let Range { mut start, mut end } = range;
    if end.saturating_sub(start) < WORTHWHILE || position.is_end() {
        return Ok(start..end);
    }
    // The prefix that the first and the last key share is also that of all keys between them.
    let (first, last) = (key_of(start)?, key_of(end - 1)?);
    let shared = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    let rest = match split(position.key, &first[..shared]) {
        Ok(rest) => rest,
        Err(Ordering::Greater) => return Ok(end..end),
        Err(_) => return Ok(start..start),
    };
    let target = head(rest);
    while end - start >= WORTHWHILE {
        let (from, slots) = (start, end - start);
        let probes = slots.min(PROBES);
        let slot = |probe: u16| match slots {
            0..=PROBES => from + probe,
            _ => from + (u32::from(slots) * u32::from(probe + 1) / u32::from(PROBES + 1)) as u16,
        };
        let (mut less, mut not_greater) = (0, 0);
        for probe in 0..probes {
            let key = key_of(slot(probe))?;
            let head = head(key.get(shared..).unwrap_or_default());
            less += u16::from(head < target);
            not_greater += u16::from(head <= target);
        }
        if less > 0 {
            start = slot(less - 1) + 1;
        }
        if not_greater < probes {
            end = slot(not_greater).max(start);
        }
        if not_greater > less && probes == slots || end - start == slots {
            break;
        }
    }
    Ok(start..end)
}

/// The rest of `key` after `prefix`; or how `key` compares to everything that begins with
/// `prefix`.
fn split<'k>(key: &'k [u8], prefix: &[u8]) -> Result<&'k [u8], Ordering> {
    match key.split_at_checked(prefix.len()) {
        Some((begin, rest)) => match begin.cmp(prefix) {
            Ordering::Equal => Ok(rest),
            other => Err(other),
        },
        // A key that ends within the prefix is less than what has all of it.
        None => match key.cmp(&prefix[..key.len()]) {
            Ordering::Equal => Err(Ordering::Less),
            other => Err(other),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;
    use crate::btree::key::TidOrder;

    /// Keys that share beginnings and are often equal, or equal but for zeros at the end.
    fn keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let key = (
            prop::sample::select(vec![&b""[..], b"\0", b"a", b"abcdefgh", b"abcdefgi"]),
            prop::collection::vec(prop::sample::select(vec![0u8, 1, 2, 255]), 0..11),
        )
            .prop_map(|(prefix, rest)| [prefix, &rest].concat());
        prop::collection::vec(key, 0..120)
    }

    proptest! {
        #[test]
        fn narrowing_keeps_every_slot_that_is_undecided(
            mut keys in keys(),
            other in keys(),
            pick in any::<prop::sample::Index>(),
        ) {
            keys.sort();
            let wanted = [&keys[..], &other[..], &[Vec::new()]].concat();
            let wanted = &wanted[pick.index(wanted.len())];
            let position = Position::new(wanted, TidOrder::LEAST);
            let whole = 0..keys.len() as u16;
            let key_of = |slot: u16| Ok::<_, Infallible>(&*keys[usize::from(slot)]);
            let found = narrow(&position, whole, key_of).unwrap();
            prop_assert!(found.start <= found.end);
            prop_assert!(keys[..found.start.into()].iter().all(|key| key < wanted));
            prop_assert!(keys[found.end.into()..].iter().all(|key| key > wanted));
        }
    }

    #[test]
    fn a_page_of_distinct_keys_is_narrowed_to_one() {
        let keys: Vec<[u8; 9]> = (0..300u64)
            .map(|n| {
                let mut key = [1; 9];
                key[1..].copy_from_slice(&n.to_be_bytes());
                key
            })
            .collect();
        for wanted in &keys {
            let position = Position::new(wanted, TidOrder::LEAST);
            let key_of = |slot: u16| Ok::<_, Infallible>(&keys[usize::from(slot)][..]);
            let found = narrow(&position, 0..300, key_of).unwrap();
            assert!(found.end - found.start < WORTHWHILE);
        }
    }

    #[test]
    fn unsorted_keys_of_a_damaged_page_do_no_harm() {
        for seed in 0..200u8 {
            let key = |n: u8| [n.wrapping_mul(seed), n ^ seed];
            let keys: Vec<[u8; 2]> = (0..100).map(key).collect();
            let wanted = [seed, 7];
            let position = Position::new(&wanted, TidOrder::LEAST);
            let key_of = |slot: u16| Ok::<_, Infallible>(&keys[usize::from(slot)][..]);
            let found = narrow(&position, 0..100, key_of).unwrap();
            assert!(found.start <= found.end && found.end <= 100);
        }
    }
}
