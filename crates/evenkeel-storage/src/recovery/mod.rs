//! Recovery: finding the log's end, and redo. See README.md for the rules.

mod prefetch;
mod redo;
mod scan;

use std::time::Duration;

use crate::ids::Lsn;

pub use prefetch::PrefetchStats;
pub(crate) use redo::redo;
pub(crate) use scan::{LogScan, scan};

/// What recovery did.
#[derive(Clone, Debug, Default)]
pub struct RecoveryStats {
    /// Where redo started.
    pub redo_start: Lsn,
    /// Where the valid log ended.
    pub redo_end: Lsn,
    /// Records replayed.
    pub records: u64,
    /// Parts applied to their pages.
    pub applied: u64,
    /// Parts that their pages already had.
    pub skipped: u64,
    /// Pages compared with what the log says they were (`wal_consistency_checking`).
    pub compared: u64,
    /// Parts of pages that a later record removes.
    pub doomed: u64,
    /// Time for finding the log's end.
    pub scan_time: Duration,
    /// Time for redo.
    pub redo_time: Duration,
    /// What looking ahead of redo found.
    pub prefetch: PrefetchStats,
    /// Whether the database had been shut down in order.
    pub clean: bool,
}
