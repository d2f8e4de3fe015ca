//! Vacuum: removes what no snapshot can see, from heap and indexes, freezes, and maintains the
//! visibility map.
//!
//! Entry point: [`crate::Table::vacuum`]. The rules are in the README beside this file.

mod dead;
mod run;

use crate::ticket::CancelFlag;
use crate::txn::Horizon;
use crate::types::Xid;

pub(crate) use run::run;

/// What a vacuum is asked to do.
#[derive(Clone, Debug)]
pub struct VacuumOptions {
    /// Freeze everything that every snapshot sees, and visit all pages that are not all-frozen.
    pub freeze: bool,
    /// Without `freeze`: ids this much older than the oldest needed one are frozen, in ids.
    pub freeze_min_age: u64,
    /// Cut empty pages off the end. The caller holds the table exclusively.
    pub truncate: bool,
    /// Bytes for remembering dead rows between the passes; when full, the indexes are cleaned
    /// once more.
    pub memory: usize,
    /// Ends the vacuum early; what it has done stays.
    pub cancel: Option<CancelFlag>,
}

impl Default for VacuumOptions {
    fn default() -> VacuumOptions {
        VacuumOptions {
            freeze: false,
            freeze_min_age: 50_000_000,
            truncate: false,
            memory: 64 << 20,
            cancel: None,
        }
    }
}

/// Which part of its work a vacuum is at, with the names of `pg_stat_progress_vacuum`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VacuumPhase {
    /// Pruning and freezing pages, collecting dead rows.
    #[default]
    ScanningHeap,
    /// Removing index entries of dead rows.
    VacuumingIndexes,
    /// Making the line pointers of dead rows free for use.
    VacuumingHeap,
    /// Cutting off empty pages.
    TruncatingHeap,
}

/// How far a vacuum is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VacuumProgress {
    /// What it is doing.
    pub phase: VacuumPhase,
    /// Blocks of the heap when it began.
    pub heap_blks_total: u32,
    /// Blocks that were scanned or skipped.
    pub heap_blks_scanned: u32,
    /// Blocks whose dead line pointers were freed.
    pub heap_blks_vacuumed: u32,
    /// Rounds of index cleaning done.
    pub index_vacuum_count: u32,
    /// Dead rows collected since the last round.
    pub num_dead_item_ids: u64,
}

/// What a vacuum did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VacuumStats {
    /// Blocks of the heap when it ended.
    pub pages: u32,
    /// Pages it looked at.
    pub pages_scanned: u32,
    /// Pages cut off the end.
    pub pages_removed: u32,
    /// Row versions whose space was freed.
    pub tuples_removed: u64,
    /// Row versions that stay, on the pages it looked at.
    pub tuples_kept: u64,
    /// Of those, versions that are deleted but that some snapshot may see.
    pub tuples_recently_dead: u64,
    /// Row versions frozen.
    pub tuples_frozen: u64,
    /// Line pointers made free after their index entries were removed.
    pub dead_items_removed: u64,
    /// Index entries removed, over all indexes.
    pub index_entries_removed: u64,
    /// Pages newly marked all-visible.
    pub pages_set_visible: u32,
    /// Every id left unfrozen in the table is at or above this. None when pages were skipped
    /// that may have older ones: what was known before stays true.
    pub oldest_xid: Option<Xid>,
}

/// The id below which a vacuum freezes.
fn freeze_limit(options: &VacuumOptions, horizon: &Horizon) -> Xid {
    let age = if options.freeze {
        0
    } else {
        options.freeze_min_age
    };
    Xid::new(horizon.floor().get().saturating_sub(age))
}
