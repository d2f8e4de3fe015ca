//! How far vacuums are, under the names of `pg_stat_progress_vacuum`.

use std::time::Duration;

/// Which part of its work a vacuum is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VacuumPhase {
    /// About to begin.
    #[default]
    Initializing,
    /// Pruning and freezing pages, collecting dead rows.
    ScanningHeap,
    /// Removing index entries of dead rows.
    VacuumingIndexes,
    /// Making the line pointers of dead rows free for use.
    VacuumingHeap,
    /// Cutting off empty pages.
    TruncatingHeap,
    /// Bringing the maps and statistics up to date.
    PerformingFinalCleanup,
}

impl VacuumPhase {
    /// PostgreSQL's name of the phase.
    pub fn name(self) -> &'static str {
        match self {
            VacuumPhase::Initializing => "initializing",
            VacuumPhase::ScanningHeap => "scanning heap",
            VacuumPhase::VacuumingIndexes => "vacuuming indexes",
            VacuumPhase::VacuumingHeap => "vacuuming heap",
            VacuumPhase::TruncatingHeap => "truncating heap",
            VacuumPhase::PerformingFinalCleanup => "performing final cleanup",
        }
    }
}

/// How far a vacuum is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VacuumProgress {
    /// Its current phase.
    pub phase: VacuumPhase,
    /// Blocks of the heap when it began.
    pub heap_blks_total: u32,
    /// Blocks that were scanned or skipped.
    pub heap_blks_scanned: u32,
    /// Blocks whose dead line pointers were freed.
    pub heap_blks_vacuumed: u32,
    /// Rounds of index cleaning done.
    pub index_vacuum_count: u32,
    /// Bytes that dead rows may take in memory before the indexes are cleaned.
    pub max_dead_tuple_bytes: u64,
    /// Bytes they take.
    pub dead_tuple_bytes: u64,
    /// Dead rows collected since the last round.
    pub num_dead_item_ids: u64,
    /// Indexes that a round of cleaning goes through.
    pub indexes_total: u32,
    /// Of those, indexes cleaned in this round.
    pub indexes_processed: u32,
    /// Time spent sleeping because of the cost limit.
    pub delay_time: Duration,
}
