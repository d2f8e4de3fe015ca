//! Vacuum: removes what no snapshot can see, from heap and indexes, freezes, and maintains the
//! visibility map.
//!
//! Entry points: [`crate::Table::vacuum`], [`crate::Table::truncate_tail`],
//! [`crate::Database::truncate_status`]. The rules are in the README beside this file.

mod dead;
mod run;
mod truncate;

use std::sync::Arc;
use std::time::Duration;

use evenkeel_storage::wal::LogUsage;

use crate::ticket::CancelFlag;
use crate::txn::Horizon;
use crate::types::Xid;

pub use crate::cost::{CostBalance, CostLimits};
pub use crate::stats::{VacuumPhase, VacuumProgress};

/// Whether index entries of dead rows are removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexCleanup {
    /// Unless so few pages have dead rows that a pass over the indexes does not pay.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never: dead rows keep their line pointers.
    Off,
}

/// Options of a vacuum.
#[derive(Clone, Debug)]
pub struct VacuumOptions {
    /// Freeze everything that every snapshot sees, and visit all pages that are not all-frozen.
    pub freeze: bool,
    /// Without `freeze`: ids this much older than the oldest needed one are frozen, in ids.
    pub freeze_min_age: u64,
    /// Visit all pages that are not all-frozen, so that the oldest id left is known.
    pub aggressive: bool,
    /// Visit pages whatever the map says of them.
    pub every_page: bool,
    /// Whether index entries are removed.
    pub index_cleanup: IndexCleanup,
    /// Cut empty pages off the end. The caller holds the table exclusively.
    pub truncate: bool,
    /// Bytes for remembering dead rows between the passes; when full, the indexes are cleaned
    /// once more.
    pub memory: usize,
    /// Bytes of the pool that it may use; 0: all of it; none: `vacuum_buffer_usage_limit`.
    pub buffer_usage_limit: Option<u64>,
    /// The session's number, for who looks at the progress.
    pub pid: i32,
    /// Paces the vacuum; none lets it go at full speed.
    pub cost: Option<Arc<CostBalance>>,
    /// Ends the vacuum early; what it has done stays.
    pub cancel: Option<CancelFlag>,
}

impl Default for VacuumOptions {
    fn default() -> VacuumOptions {
        VacuumOptions {
            freeze: false,
            freeze_min_age: 50_000_000,
            aggressive: false,
            every_page: false,
            index_cleanup: IndexCleanup::Auto,
            truncate: false,
            memory: 64 << 20,
            buffer_usage_limit: None,
            pid: 0,
            cost: None,
            cancel: None,
        }
    }
}

/// Results of a vacuum for one index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexVacuumStats {
    /// Its number in the table's definition.
    pub index: usize,
    /// Blocks of its file.
    pub pages: u32,
    /// Pages that became empty and were unlinked.
    pub pages_deleted: u64,
    /// Pages that can be used again.
    pub pages_free: u64,
    /// Entries removed.
    pub entries_removed: u64,
    /// Entries left.
    pub entries: u64,
}

/// Results of a vacuum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// Pages on which something was frozen.
    pub pages_frozen: u32,
    /// Pages with dead line pointers.
    pub dead_pages: u32,
    /// Line pointers made free after their index entries were removed.
    pub dead_items_removed: u64,
    /// Line pointers of dead rows left as they are.
    pub dead_items_left: u64,
    /// Index entries removed, over all indexes.
    pub index_entries_removed: u64,
    /// The indexes that were cleaned.
    pub indexes: Vec<IndexVacuumStats>,
    /// Rounds of index cleaning.
    pub index_rounds: u32,
    /// Pages newly marked all-visible.
    pub pages_set_visible: u32,
    /// Pages newly marked all-frozen.
    pub pages_set_frozen: u32,
    /// Pages of the heap that are all-visible in the end.
    pub pages_all_visible: u32,
    /// Pages of the heap that are all-frozen in the end.
    pub pages_all_frozen: u32,
    /// Every id left unfrozen in the table is at or above this. None when pages were skipped
    /// that may have older ones: what was known before stays true.
    pub oldest_xid: Option<Xid>,
    /// Ids from here on could not be removed or frozen: the horizon when the vacuum began.
    pub removal_cutoff: Xid,
    /// Ids below were frozen.
    pub freeze_limit: Xid,
    /// Blocks at the end without a row in them, as far as was looked.
    pub empty_tail: u32,
    /// Pages found in memory, pages read, and changes of pages; of the heap and its indexes.
    pub buffers: (u64, u64, u64),
    /// Time spent sleeping because of the cost limit.
    pub delayed: Duration,
    /// Log made, of the heap and its indexes.
    pub log: LogUsage,
}

impl VacuumStats {
    /// Adds the costs of vacuuming the table's large values, and takes their ids into account.
    fn include(&mut self, large: &VacuumStats) {
        let oldest = self.oldest_xid.zip(large.oldest_xid);
        self.oldest_xid = oldest.map(|(own, other)| own.min(other));
        self.empty_tail = self.empty_tail.saturating_add(large.empty_tail);
        self.buffers.0 += large.buffers.0;
        self.buffers.1 += large.buffers.1;
        self.buffers.2 += large.buffers.2;
        self.delayed += large.delayed;
        self.log.records += large.log.records;
        self.log.images += large.log.images;
        self.log.bytes += large.log.bytes;
    }
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
