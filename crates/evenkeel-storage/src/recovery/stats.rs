//! Counters of recovery.

use std::time::Duration;

use crate::ids::Lsn;

/// Counts of pages by how redo came by them (`pg_stat_recovery_prefetch`).
#[derive(Clone, Copy, Debug, Default)]
pub struct PrefetchStats {
    /// Read ahead of use.
    pub prefetch: u64,
    /// In the pool already: somebody needed them before redo came to them.
    pub hit: u64,
    /// Initialised by a change, so not read.
    pub skip_init: u64,
    /// Replaced by an image in the log, so not read.
    pub skip_fpw: u64,
    /// Behind the end of their file.
    pub skip_new: u64,
    /// Changes of a page behind its first one, which no further read is needed for.
    pub skip_rep: u64,
}

/// Positions, counts and times of a recovery.
#[derive(Clone, Debug, Default)]
pub struct RecoveryStats {
    /// Where redo started.
    pub redo_start: Lsn,
    /// Where the valid log ended.
    pub redo_end: Lsn,
    /// Records read.
    pub records: u64,
    /// Parts applied to their pages.
    pub applied: u64,
    /// Parts that their pages already had.
    pub skipped: u64,
    /// Pages compared with what the log says they were (`wal_consistency_checking`).
    pub compared: u64,
    /// Pages set aside as damaged, without those that earlier starts set aside.
    pub set_aside: u64,
    /// Parts kept for pages that are set aside.
    pub kept: u64,
    /// Parts of pages that a later record removes.
    pub doomed: u64,
    /// Pages that the log had changes for.
    pub pages: u64,
    /// Those of them that are up to date, or set aside.
    pub pages_done: u64,
    /// Pages beside them that were durable with all that the log has for them.
    pub home: u64,
    /// Whether nothing is owed to any page any more.
    pub is_done: bool,
    /// Time for reading the log.
    pub scan_time: Duration,
    /// Time for redo, so far.
    pub redo_time: Duration,
    /// Time from the beginning of the reading of the log to the opening of the database.
    pub open_time: Duration,
    /// Counts of pages by how redo came by them.
    pub prefetch: PrefetchStats,
    /// Whether the database had been shut down in order.
    pub clean: bool,
}
