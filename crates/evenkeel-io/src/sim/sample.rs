//! How much of what could be tried a test tries, and what a machine does not allow it to try.

use std::io::Write;

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

/// Says that a test does not run here, and why. `cargo xtask test` counts those that said so and
/// names them in its last lines.
///
/// # Panics
/// When the list of skipped tests cannot be written.
pub fn skip(test: &str, reason: &str) {
    eprintln!("SKIPPED {test}: {reason}");
    if let Some(list) = std::env::var_os("EVENKEEL_SKIPPED") {
        let mut options = std::fs::File::options();
        let opened = options.create(true).append(true).open(list);
        // One write, so that tests of several processes do not mix their lines.
        let line = format!("{test}: {reason}\n");
        let written = opened.expect("the list").write_all(line.as_bytes());
        written.expect("the list of skipped tests");
    }
}
