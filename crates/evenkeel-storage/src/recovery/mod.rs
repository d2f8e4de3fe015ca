//! Recovery: reading the log, and redo of each page. See README.md for the rules.

mod analysis;
mod apply;
mod drain;
mod lists;
mod owed;
mod progress;
mod records;
mod redo;
mod settle;
mod stats;

pub(crate) use analysis::{Analysis, AnalysisMemory, LogScan, analyse};
pub(crate) use redo::{Opening, Recovery};
pub use stats::{PrefetchStats, RecoveryStats};
