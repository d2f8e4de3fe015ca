//! How much of what could be tried a durability test tries.

/// Whether tests try everything instead of a sample: with `EVENKEEL_LONG` set.
#[must_use]
pub fn takes_all() -> bool {
    std::env::var_os("EVENKEEL_LONG").is_some()
}

/// The step of a test that tries every `step`-th crash or failure, or each of them in a long run.
#[must_use]
pub fn sample(step: u64) -> u64 {
    if takes_all() { 1 } else { step }
}
