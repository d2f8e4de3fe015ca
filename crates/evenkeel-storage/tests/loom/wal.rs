//! The parts of the log that are modelled, under the names that they have in the crate.

#[path = "../../src/wal/buffers.rs"]
pub mod buffers;
#[path = "../../src/wal/words.rs"]
pub mod words;
