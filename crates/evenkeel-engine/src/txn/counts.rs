//! Changes of rows that a transaction has made, kept for the tables' counters until it ends.

use std::sync::Arc;

use super::transaction::Transaction;
use crate::stats::{RowChanges, TableCounters};

/// Changes of one table's rows, made at one depth of subtransactions.
pub(super) struct Counted {
    table: Arc<TableCounters>,
    depth: usize,
    changes: RowChanges,
}

impl Transaction {
    /// Notes changes of a table's rows.
    pub(crate) fn count(&mut self, table: &Arc<TableCounters>, changes: &RowChanges) {
        let depth = self.depth();
        let same =
            |counted: &&mut Counted| counted.depth == depth && Arc::ptr_eq(&counted.table, table);
        match self.counts.iter_mut().rev().find(same) {
            Some(counted) => counted.changes.add(changes),
            None => self.counts.push(Counted {
                table: Arc::clone(table),
                depth,
                changes: *changes,
            }),
        }
    }

    /// Rows of a table that this transaction has inserted, updated and deleted so far: its
    /// counters get them when it ends.
    pub fn rows_changed(&self, table: u64) -> (u64, u64, u64) {
        let counters = self.db().table_counters(table);
        let mine = self.counts.iter();
        let mine = mine.filter(|counted| Arc::ptr_eq(&counted.table, &counters));
        let mut sum = RowChanges::default();
        mine.for_each(|counted| sum.add(&counted.changes));
        (sum.inserted, sum.updated, sum.deleted)
    }

    /// Subtransactions from depth `depth` on were rolled back.
    pub(super) fn counts_rolled_back(&mut self, depth: usize) {
        self.counts.retain(|counted| {
            let lost = counted.depth > depth;
            if lost {
                counted.table.ended(&counted.changes, false);
            }
            !lost
        });
    }

    /// Subtransactions from depth `depth` on were merged into the one below.
    pub(super) fn counts_merged(&mut self, depth: usize) {
        for counted in &mut self.counts {
            counted.depth = counted.depth.min(depth);
        }
    }

    /// The transaction has ended.
    pub(super) fn counts_ended(&mut self, committed: bool) {
        for counted in self.counts.drain(..) {
            counted.table.ended(&counted.changes, committed);
        }
    }
}
