//! Recovery: reading the log, and redo of each page. See README.md for the rules.

mod analysis;
mod apply;
#[cfg(feature = "bench")]
pub mod bench;
mod drain;
mod list_builder;
mod lists;
mod owed;
mod parts;
mod progress;
mod records;
mod redo;
mod settle;
mod stats;

pub(crate) use analysis::{Analysis, LogScan, analyse, memory_of};
pub(crate) use apply::Applier;
pub(crate) use redo::{Opening, Recovery};
pub use stats::{PrefetchStats, RecoveryStats};
