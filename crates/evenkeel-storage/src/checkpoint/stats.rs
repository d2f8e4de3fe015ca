//! Counters of the checkpointer.

use crate::files::{SYNC_TIME_BOUNDS, SyncStats};

/// Counters of `pg_stat_checkpointer`, and more. Times are in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointStats {
    /// Begun because `checkpoint_timeout` had passed.
    pub num_timed: u64,
    /// Begun because of log volume, on request, or after recovery.
    pub num_requested: u64,
    /// Completed.
    pub num_done: u64,
    /// Failed; the redo point stayed where it was.
    pub num_failed: u64,
    /// Time spent writing pages, rests between them included.
    pub write_time: u64,
    /// Time spent syncing files.
    pub sync_time: u64,
    /// Pages written, those of transaction status included.
    pub buffers_written: u64,
    /// Pages of transaction status among them (`slru_written`).
    pub slru_written: u64,
    /// Device writes in which they went home.
    pub home_writes: u64,
    /// Clean pages written along with them, to close gaps where writes are what is short.
    pub gap_pages: u64,
    /// Files synced by checkpoints.
    pub files_synced: u64,
    /// Times that the double-write area was full, so that files were synced for it.
    pub area_full: u64,
    /// Data files with writes that are not synced yet, now.
    pub unsynced_files: u64,
    /// Syncs of data files, by whomever.
    pub syncs: u64,
    /// The longest of them.
    pub longest_sync: u64,
    /// All of them by how long they took: up to each of [`SYNC_TIME_BOUNDS`], and longer.
    pub sync_histogram: [u64; SYNC_TIME_BOUNDS.len() + 1],
    /// Log since the redo point, in bytes, now.
    pub redo_distance: u64,
    /// Redo speed last measured, or assumed, in bytes per second.
    pub redo_speed: u64,
    /// Mean time of a flush of the log without page writes beside it.
    pub flush_time: u64,
    /// The same with page writes beside it.
    pub flush_time_busy: u64,
    /// How often a session was delayed since the start so that a bound holds, ...
    pub session_delays: u64,
    /// ... and for how long in all.
    pub session_delay_time: u64,
    /// When counting began, in microseconds since 1970.
    pub stats_reset: u64,
}

impl CheckpointStats {
    pub(super) fn take_over(&mut self, sync: &SyncStats) {
        self.unsynced_files = sync.pending;
        self.syncs = sync.syncs;
        self.longest_sync = sync.longest_micros;
        self.sync_histogram = sync.histogram;
    }

    /// Estimated time that recovery would take now.
    #[must_use]
    pub fn recovery_time(&self) -> std::time::Duration {
        let seconds = self.redo_distance as f64 / self.redo_speed.max(1) as f64;
        std::time::Duration::from_secs_f64(seconds)
    }
}
