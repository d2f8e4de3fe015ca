//! The parts of the log that are modelled, under the names that they have in the crate.

#[path = "../../src/wal/ring.rs"]
pub mod ring;
#[path = "../../src/wal/words.rs"]
pub mod words;
