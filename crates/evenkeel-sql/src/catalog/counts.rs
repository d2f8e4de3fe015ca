//! The counters of tables, kept over a clean restart as rows of a catalog table.

use std::time::Duration;

use evenkeel_engine::stats::TableStatistics;
use evenkeel_engine::{Durability, Isolation, block_on};

use super::system::{COUNTS_KEPT as KEPT, SystemTable};
use super::{Catalog, oid_of};
use crate::error::SqlResult;
use crate::types::Datum;

/// The numbers in the order in which they are stored. A time that is not known is zero.
fn numbers(of: &TableStatistics) -> [u64; KEPT] {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    [
        of.seq_scan,
        of.seq_tup_read,
        of.idx_scan,
        of.idx_tup_fetch,
        of.n_tup_ins,
        of.n_tup_upd,
        of.n_tup_del,
        of.n_tup_hot_upd,
        of.n_tup_newpage_upd,
        of.n_live_tup,
        of.n_dead_tup,
        of.n_mod_since_analyze,
        of.n_ins_since_vacuum,
        of.last_vacuum.unwrap_or(0),
        of.last_autovacuum.unwrap_or(0),
        of.last_analyze.unwrap_or(0),
        of.last_autoanalyze.unwrap_or(0),
        of.vacuum_count,
        of.autovacuum_count,
        of.analyze_count,
        of.autoanalyze_count,
        micros(of.total_vacuum_time),
        micros(of.total_autovacuum_time),
        micros(of.total_analyze_time),
        micros(of.total_autoanalyze_time),
    ]
}

fn restored(numbers: [u64; KEPT]) -> TableStatistics {
    let time = |at: usize| (numbers[at] != 0).then_some(numbers[at]);
    TableStatistics {
        seq_scan: numbers[0],
        seq_tup_read: numbers[1],
        idx_scan: numbers[2],
        idx_tup_fetch: numbers[3],
        n_tup_ins: numbers[4],
        n_tup_upd: numbers[5],
        n_tup_del: numbers[6],
        n_tup_hot_upd: numbers[7],
        n_tup_newpage_upd: numbers[8],
        n_live_tup: numbers[9],
        n_dead_tup: numbers[10],
        n_mod_since_analyze: numbers[11],
        n_ins_since_vacuum: numbers[12],
        last_vacuum: time(13),
        last_autovacuum: time(14),
        last_analyze: time(15),
        last_autoanalyze: time(16),
        vacuum_count: numbers[17],
        autovacuum_count: numbers[18],
        analyze_count: numbers[19],
        autoanalyze_count: numbers[20],
        total_vacuum_time: Duration::from_micros(numbers[21]),
        total_autovacuum_time: Duration::from_micros(numbers[22]),
        total_analyze_time: Duration::from_micros(numbers[23]),
        total_autoanalyze_time: Duration::from_micros(numbers[24]),
    }
}

impl Catalog {
    fn counts(&self) -> &SystemTable {
        &self.tables.counts
    }

    /// Takes the counts up that the last clean stop left, and removes them: after a crash there
    /// are none.
    pub(super) fn restore_counts(&self) -> SqlResult<()> {
        let mut txn = self.db.begin(Isolation::ReadCommitted)?;
        let rows = self.counts().read(&mut txn)?;
        if rows.is_empty() {
            return Ok(());
        }
        for (place, values) in rows {
            let mut kept = [0; KEPT];
            for (to, from) in kept.iter_mut().zip(&values[1..]) {
                if let Datum::Int8(number) = from {
                    *to = number.cast_unsigned();
                }
            }
            if let Some(Datum::Oid(table)) = values.first() {
                let counters = self.db.table_counters(self.table_id(*table));
                counters.restore(&restored(kept));
            }
            block_on(self.counts().delete(&mut txn, place))?;
        }
        Ok(block_on(txn.commit(Durability::Sync))?)
    }

    /// Keeps the counts for the next start. The last thing before a clean stop.
    ///
    /// # Errors
    /// The engine's.
    pub fn keep_counts(&self) -> SqlResult<()> {
        let state = self.current();
        let users = state.tables().map(|table| table.lock_id());
        let own = self.system_tables().map(|(_, table)| table.def().id);
        let mut txn = self.db.begin(Isolation::ReadCommitted)?;
        for id in users.chain(own) {
            let counted = self.db.table_statistics(id);
            if counted == TableStatistics::default() {
                continue;
            }
            let mut row = vec![Datum::Oid(oid_of(id))];
            row.extend(numbers(&counted).map(|number| Datum::Int8(number.cast_signed())));
            block_on(self.counts().insert(&mut txn, &row))?;
        }
        Ok(block_on(txn.commit(Durability::Sync))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_back_to_its_place() {
        let kept: [u64; KEPT] = std::array::from_fn(|at| at as u64 + 1);
        assert_eq!(numbers(&restored(kept)), kept);
        let nothing = TableStatistics::default();
        assert_eq!(restored(numbers(&nothing)), nothing);
    }
}
