//! Counters of the layers below, and where they stood at their last reset. The layers count from
//! their start and know of no reset.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_engine::Database;
use evenkeel_engine::stats::TableStatistics;
use evenkeel_storage::stats::IoStatsRow;

/// A group of counters that is reset together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `pg_stat_checkpointer`: timed, requested, done, write and sync time in microseconds,
    /// buffers written, those of transaction status among them.
    Checkpointer,
    /// `pg_stat_bgwriter`: buffers the cleaner wrote, frames taken.
    Cleaner,
    /// `pg_stat_wal`: bytes, waits for buffers.
    Log,
    /// `pg_stat_io`, whose rows are counted apart; see `io`.
    Io,
    /// `pg_stat_recovery_prefetch`: asked for, in the pool, and the four ways of being left out.
    RecoveryPrefetch,
    /// `pg_stat_database`: commits, rollbacks, deadlocks, hits, reads.
    Database,
}

impl Kind {
    /// The kinds that `pg_stat_reset_shared(name)` resets; `None` for an unknown name.
    pub fn shared(name: &str) -> Option<&'static [Kind]> {
        Some(match name {
            "checkpointer" => &[Kind::Checkpointer],
            "bgwriter" => &[Kind::Cleaner],
            "wal" => &[Kind::Log],
            "io" => &[Kind::Io],
            "recovery_prefetch" => &[Kind::RecoveryPrefetch],
            // Counted nowhere yet, so they are zero already.
            "archiver" | "slru" => &[],
            _ => return None,
        })
    }

    /// All that `pg_stat_reset_shared(NULL)` resets.
    pub const ALL_SHARED: &'static [Kind] = &[
        Kind::Checkpointer,
        Kind::Cleaner,
        Kind::Log,
        Kind::Io,
        Kind::RecoveryPrefetch,
    ];
}

/// The most counters that a kind has.
const WIDTH: usize = 8;

/// Counters of one kind, in the order in which the kind names them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// The values; zero behind the kind's last.
    pub values: [u64; WIDTH],
    /// When they were last reset: microseconds since 1970 UTC.
    pub reset: Option<i64>,
}

/// Where counters stood when they were reset.
#[derive(Debug, Default)]
pub struct Resets(HashMap<Kind, Counted>);

impl Resets {
    /// Counts since the last reset.
    pub fn since(&self, kind: Kind, now: [u64; WIDTH]) -> Counted {
        let base = self.0.get(&kind).copied().unwrap_or_default();
        let mut values = now;
        for (value, base) in values.iter_mut().zip(base.values) {
            *value = value.saturating_sub(base);
        }
        Counted {
            values,
            reset: base.reset,
        }
    }

    /// Counts from here on.
    pub fn reset(&mut self, kind: Kind, now: [u64; WIDTH], time: i64) {
        let base = Counted {
            values: now,
            reset: Some(time),
        };
        self.0.insert(kind, base);
    }
}

/// The counters as the layers have them.
pub fn read(db: &Database, kind: Kind) -> [u64; WIDTH] {
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    match kind {
        Kind::Checkpointer => {
            let stats = db.store().checkpoint_stats();
            padded([
                stats.num_timed,
                stats.num_requested,
                stats.num_done,
                stats.write_time,
                stats.sync_time,
                stats.buffers_written,
                stats.slru_written,
            ])
        }
        Kind::Cleaner => padded([
            db.store().writer().stats().cleaner_pages,
            db.pool().stats().allocations,
        ]),
        Kind::Log => {
            let stats = db.store().log().stats();
            padded([load(&stats.bytes_written), load(&stats.buffers_full)])
        }
        Kind::RecoveryPrefetch => {
            let stats = db.store().recovery_stats().prefetch;
            padded([
                stats.prefetch,
                stats.hit,
                stats.skip_init,
                stats.skip_new,
                stats.skip_fpw,
                stats.skip_rep,
            ])
        }
        Kind::Io => padded([]),
        Kind::Database => {
            let (txn, pool) = (db.txn_statistics(), db.pool().stats());
            padded([
                txn.commits,
                txn.rollbacks,
                txn.deadlocks,
                pool.hits,
                pool.reads + pool.prefetched,
            ])
        }
    }
}

/// The rows of `pg_stat_io` since `base`, where the counters stood at their reset.
pub fn io(db: &Database, base: &[IoStatsRow]) -> Vec<IoStatsRow> {
    let mut rows = db.pool().io_rows();
    for row in &mut rows {
        let same = |other: &&IoStatsRow| {
            (other.backend_type, other.object, other.context)
                == (row.backend_type, row.object, row.context)
        };
        if let Some(base) = base.iter().find(same) {
            subtract(row, base);
        }
    }
    rows
}

fn subtract(row: &mut IoStatsRow, base: &IoStatsRow) {
    let counts = [
        (&mut row.reads, base.reads),
        (&mut row.read_bytes, base.read_bytes),
        (&mut row.writes, base.writes),
        (&mut row.write_bytes, base.write_bytes),
        (&mut row.writebacks, base.writebacks),
        (&mut row.extends, base.extends),
        (&mut row.extend_bytes, base.extend_bytes),
        (&mut row.hits, base.hits),
        (&mut row.evictions, base.evictions),
        (&mut row.reuses, base.reuses),
        (&mut row.fsyncs, base.fsyncs),
    ];
    for (count, base) in counts {
        // A fork that was closed takes its hits with it.
        *count = count.saturating_sub(base);
    }
    let times = [
        (&mut row.read_time, base.read_time),
        (&mut row.write_time, base.write_time),
        (&mut row.writeback_time, base.writeback_time),
        (&mut row.extend_time, base.extend_time),
        (&mut row.fsync_time, base.fsync_time),
    ];
    for (time, base) in times {
        *time = time.saturating_sub(base);
    }
}

/// Reduces a table's counts to those since `base`. Rows, which are not events, stay as they are.
pub fn since(table: &mut TableStatistics, base: &TableStatistics) {
    let counts = [
        (&mut table.seq_scan, base.seq_scan),
        (&mut table.seq_tup_read, base.seq_tup_read),
        (&mut table.idx_scan, base.idx_scan),
        (&mut table.idx_tup_fetch, base.idx_tup_fetch),
        (&mut table.n_tup_ins, base.n_tup_ins),
        (&mut table.n_tup_upd, base.n_tup_upd),
        (&mut table.n_tup_del, base.n_tup_del),
        (&mut table.n_tup_hot_upd, base.n_tup_hot_upd),
        (&mut table.n_tup_newpage_upd, base.n_tup_newpage_upd),
        (&mut table.vacuum_count, base.vacuum_count),
        (&mut table.autovacuum_count, base.autovacuum_count),
        (&mut table.analyze_count, base.analyze_count),
        (&mut table.autoanalyze_count, base.autoanalyze_count),
    ];
    for (count, base) in counts {
        *count = count.saturating_sub(base);
    }
}

fn padded<const N: usize>(values: [u64; N]) -> [u64; WIDTH] {
    let mut all = [0; WIDTH];
    all[..N].copy_from_slice(&values);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_begin_at_zero_after_a_reset() {
        let mut resets = Resets::default();
        let at = |n: u64| padded([n, 2 * n]);
        assert_eq!(resets.since(Kind::Log, at(5)).values, at(5));
        resets.reset(Kind::Log, at(5), 77);
        let counted = resets.since(Kind::Log, at(8));
        assert_eq!((counted.values, counted.reset), (at(3), Some(77)));
        assert_eq!(resets.since(Kind::Cleaner, at(8)).reset, None);
    }
}
