//! Counters of each table: rows changed and read, live and dead rows, vacuums.
//!
//! Entry points: [`crate::Database::table_statistics`], [`crate::Database::table_counters`],
//! [`crate::Database::vacuums_in_progress`]. Fields have the names of PostgreSQL's
//! `pg_stat_all_tables` and `pg_stat_progress_*`. Changes of rows are counted in their
//! transaction, and reach the table when it ends: what is live and what is dead depends on how.
//! The numbers are estimates: a crash forgets them, and nothing but pacing rests on them.

mod progress;
mod vacuum_progress;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

pub use progress::{
    AnalyzeInProgress, AnalyzePhase, AnalyzeProgress, AnalyzeTask, VacuumInProgress,
};
pub(crate) use progress::{Progress, Running};
pub use vacuum_progress::{VacuumPhase, VacuumProgress};

/// Copies of the counters that reading threads use, so that they do not meet.
const SHARDS: usize = 8;

/// Counters of a table's use, at one moment. Times are microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of pg_stat_all_tables")]
pub struct TableStatistics {
    pub seq_scan: u64,
    pub seq_tup_read: u64,
    pub idx_scan: u64,
    pub idx_tup_fetch: u64,
    pub n_tup_ins: u64,
    pub n_tup_upd: u64,
    pub n_tup_del: u64,
    pub n_tup_hot_upd: u64,
    pub n_tup_newpage_upd: u64,
    pub n_live_tup: u64,
    pub n_dead_tup: u64,
    pub n_mod_since_analyze: u64,
    pub n_ins_since_vacuum: u64,
    pub last_vacuum: Option<u64>,
    pub last_autovacuum: Option<u64>,
    pub last_analyze: Option<u64>,
    pub last_autoanalyze: Option<u64>,
    pub vacuum_count: u64,
    pub autovacuum_count: u64,
    pub analyze_count: u64,
    pub autoanalyze_count: u64,
    pub total_vacuum_time: Duration,
    pub total_autovacuum_time: Duration,
    pub total_analyze_time: Duration,
    pub total_autoanalyze_time: Duration,
}

/// Changes of rows of one table, made by one transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowChanges {
    pub inserted: u64,
    pub updated: u64,
    /// Of those updated: without index entries of their own.
    pub hot: u64,
    /// Of those updated: to another page.
    pub moved: u64,
    pub deleted: u64,
}

impl RowChanges {
    pub(crate) fn add(&mut self, other: &RowChanges) {
        self.inserted += other.inserted;
        self.updated += other.updated;
        self.hot += other.hot;
        self.moved += other.moved;
        self.deleted += other.deleted;
    }
}

/// Reads, counted apart for some threads.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Reads {
    seq_scan: AtomicU64,
    seq_tup_read: AtomicU64,
    idx_scan: AtomicU64,
    idx_tup_fetch: AtomicU64,
}

/// The counters of one table.
#[derive(Debug, Default)]
pub struct TableCounters {
    /// Everything but the reads.
    counted: Mutex<TableStatistics>,
    reads: [Reads; SHARDS],
}

/// The end of a vacuum or an analyze.
#[derive(Clone, Copy, Debug)]
pub struct Maintained {
    /// Rows that are live, if that is known.
    pub live: Option<u64>,
    /// Rows that are dead and still there.
    pub dead: u64,
    /// Whether it ran by itself.
    pub automatic: bool,
    /// When it ended, in microseconds since the Unix epoch.
    pub at: u64,
    /// How long it took.
    pub took: Duration,
}

fn my_shard() -> usize {
    use std::cell::Cell;
    use std::sync::atomic::AtomicUsize;
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static MINE: Cell<usize> = const { Cell::new(usize::MAX) });
    MINE.with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
        }
        mine.get()
    })
}

impl TableCounters {
    /// The numbers as they are.
    pub fn get(&self) -> TableStatistics {
        let mut now = *self.counted.lock();
        for reads in &self.reads {
            now.seq_scan += reads.seq_scan.load(Ordering::Relaxed);
            now.seq_tup_read += reads.seq_tup_read.load(Ordering::Relaxed);
            now.idx_scan += reads.idx_scan.load(Ordering::Relaxed);
            now.idx_tup_fetch += reads.idx_tup_fetch.load(Ordering::Relaxed);
        }
        now
    }

    /// Starts from numbers that were kept.
    pub fn restore(&self, kept: &TableStatistics) {
        *self.counted.lock() = *kept;
    }

    /// Rows were read by going through the heap.
    pub(crate) fn sequential_read(&self, scans: u64, rows: u64) {
        let reads = &self.reads[my_shard()];
        reads.seq_scan.fetch_add(scans, Ordering::Relaxed);
        reads.seq_tup_read.fetch_add(rows, Ordering::Relaxed);
    }

    /// Rows were read by way of an index.
    #[inline]
    pub(crate) fn index_read(&self, scans: u64, rows: u64) {
        let reads = &self.reads[my_shard()];
        reads.idx_scan.fetch_add(scans, Ordering::Relaxed);
        reads.idx_tup_fetch.fetch_add(rows, Ordering::Relaxed);
    }

    /// A transaction that changed rows has ended.
    pub(crate) fn ended(&self, changes: &RowChanges, committed: bool) {
        let RowChanges {
            inserted,
            updated,
            hot,
            moved,
            deleted,
        } = *changes;
        let mut now = self.counted.lock();
        now.n_tup_ins += inserted;
        now.n_tup_upd += updated;
        now.n_tup_hot_upd += hot;
        now.n_tup_newpage_upd += moved;
        now.n_tup_del += deleted;
        now.n_ins_since_vacuum += inserted;
        if committed {
            now.n_live_tup = (now.n_live_tup + inserted).saturating_sub(deleted);
            now.n_dead_tup += updated + deleted;
            now.n_mod_since_analyze += inserted + updated + deleted;
        } else {
            now.n_dead_tup += inserted + updated;
        }
    }

    /// The table has been emptied.
    pub fn emptied(&self) {
        let mut now = self.counted.lock();
        now.n_live_tup = 0;
        now.n_dead_tup = 0;
        now.n_ins_since_vacuum = 0;
    }

    /// A vacuum has ended.
    pub fn vacuumed(&self, done: &Maintained) {
        let mut now = self.counted.lock();
        now.n_live_tup = done.live.unwrap_or(now.n_live_tup);
        now.n_dead_tup = done.dead;
        now.n_ins_since_vacuum = 0;
        if done.automatic {
            now.last_autovacuum = Some(done.at);
            now.autovacuum_count += 1;
            now.total_autovacuum_time += done.took;
        } else {
            now.last_vacuum = Some(done.at);
            now.vacuum_count += 1;
            now.total_vacuum_time += done.took;
        }
    }

    /// An analyze has ended; `all`: of all columns.
    pub fn analyzed(&self, done: &Maintained, all: bool) {
        let mut now = self.counted.lock();
        now.n_live_tup = done.live.unwrap_or(now.n_live_tup);
        now.n_dead_tup = done.dead;
        if all {
            now.n_mod_since_analyze = 0;
        }
        if done.automatic {
            now.last_autoanalyze = Some(done.at);
            now.autoanalyze_count += 1;
            now.total_autoanalyze_time += done.took;
        } else {
            now.last_analyze = Some(done.at);
            now.analyze_count += 1;
            now.total_analyze_time += done.took;
        }
    }
}

/// The counters of all tables of a database.
#[derive(Debug, Default)]
pub(crate) struct Statistics {
    tables: RwLock<HashMap<u64, Arc<TableCounters>>>,
    pub(crate) progress: Arc<Progress>,
}

impl Statistics {
    pub(crate) fn table(&self, id: u64) -> Arc<TableCounters> {
        if let Some(found) = self.tables.read().get(&id) {
            return Arc::clone(found);
        }
        Arc::clone(self.tables.write().entry(id).or_default())
    }

    pub(crate) fn known(&self, id: u64) -> Option<Arc<TableCounters>> {
        self.tables.read().get(&id).cloned()
    }

    pub(crate) fn forget(&self, id: u64) {
        self.tables.write().remove(&id);
    }
}
