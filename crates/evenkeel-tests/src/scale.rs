//! How much a randomised test does, and with which seed.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// The number that an environment variable gives, or `default`, which keeps the suite short.
#[must_use]
pub fn scale(variable: &str, default: usize) -> usize {
    let given = std::env::var(variable).ok();
    given.and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// The seed that `EVENKEEL_SEED` gives, or any; it is printed.
#[must_use]
pub fn seeded() -> SmallRng {
    let given = std::env::var("EVENKEEL_SEED").ok();
    let seed: u64 = given
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(|| rand::rng().random());
    println!("seed {seed}");
    SmallRng::seed_from_u64(seed)
}
