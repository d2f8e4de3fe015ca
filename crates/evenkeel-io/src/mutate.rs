//! Damaged inputs: what a fuzzer does, by seed and on stable, for tests of whatever reads bytes
//! that it cannot trust.

use crate::sim::Rng;

/// Most changes that one input suffers.
const CHANGES: u64 = 6;

/// Calls `target` `rounds` times, each time with a damaged copy of one of `inputs`. When it
/// panics, seed and round are printed; [`damaged`] gives the input of a round again.
pub fn on_damaged(seed: u64, rounds: u64, inputs: &[Vec<u8>], mut target: impl FnMut(&[u8])) {
    for round in 0..rounds {
        let input = damaged(seed, round, inputs);
        let report = Report { seed, round };
        target(&input);
        std::mem::forget(report);
    }
}

/// The damaged input of a round.
#[must_use]
pub fn damaged(seed: u64, round: u64, inputs: &[Vec<u8>]) -> Vec<u8> {
    let mut rng = Rng::new(seed ^ round.rotate_left(32));
    let mut bytes = pick(&mut rng, inputs).to_vec();
    for _ in 0..=rng.below(CHANGES) {
        change(&mut rng, &mut bytes, inputs);
    }
    bytes
}

struct Report {
    seed: u64,
    round: u64,
}

impl Drop for Report {
    fn drop(&mut self) {
        eprintln!("damaged input of seed {}, round {}", self.seed, self.round);
    }
}

fn pick<'a>(rng: &mut Rng, inputs: &'a [Vec<u8>]) -> &'a [u8] {
    inputs
        .get(rng.index(inputs.len()))
        .map_or(&[], Vec::as_slice)
}

/// A range of at most `most` bytes within `len`.
fn range(rng: &mut Rng, len: usize, most: usize) -> std::ops::Range<usize> {
    let start = rng.index(len);
    let end = start + rng.index(most.min(len - start) + 1);
    start..end
}

/// Numbers at which ranges end, and others.
fn number(rng: &mut Rng) -> u64 {
    match rng.below(5) {
        0 => rng.below(16),
        1 => (1 << rng.below(64)) - 1,
        2 => 1 << rng.below(64),
        3 => u64::MAX - rng.below(16),
        _ => rng.next_u64(),
    }
}

fn change(rng: &mut Rng, bytes: &mut Vec<u8>, inputs: &[Vec<u8>]) {
    if bytes.is_empty() {
        bytes.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    let at = rng.index(bytes.len());
    match rng.below(10) {
        0 | 1 => bytes[at] ^= 1 << rng.below(8),
        2 => bytes[at] = number(rng) as u8,
        // A field: little endian, of 2, 4 or 8 bytes, aligned to its size or not.
        3..=5 => {
            let width = 2 << rng.below(3);
            let at = if rng.chance(4) { at & !(width - 1) } else { at };
            let value = number(rng).to_le_bytes();
            let end = bytes.len().min(at + width);
            bytes[at..end].copy_from_slice(&value[..end - at]);
        }
        6 => {
            let range = range(rng, bytes.len(), 600);
            let value = if rng.chance(4) { 0 } else { number(rng) as u8 };
            bytes[range].fill(value);
        }
        7 => bytes.truncate(at),
        8 => {
            let from = range(rng, bytes.len(), 600);
            let to = rng.index(bytes.len() - from.len() + 1);
            bytes.copy_within(from, to);
        }
        _ => {
            let other = pick(rng, inputs);
            if !other.is_empty() {
                let piece = other[range(rng, other.len(), 600)].to_vec();
                let end = at + if rng.chance(4) { piece.len() } else { 0 };
                let end = end.min(bytes.len());
                bytes.splice(at..end, piece);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_determined_by_its_seed_and_nearly_always_some() {
        let inputs = [vec![7; 100], (0..200).collect(), Vec::new()];
        let mut same = 0;
        for round in 0..2000 {
            let bytes = damaged(3, round, &inputs);
            assert_eq!(bytes, damaged(3, round, &inputs));
            same += u32::from(inputs.contains(&bytes));
        }
        assert!(same < 400, "{same} of 2000 were not damaged");
        let mut calls = 0;
        on_damaged(3, 10, &inputs, |_| calls += 1);
        assert_eq!(calls, 10);
        assert_eq!(damaged(1, 1, &[]), damaged(1, 1, &[]));
    }
}
