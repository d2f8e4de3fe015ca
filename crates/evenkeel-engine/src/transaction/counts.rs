//! Changes of rows that a transaction has made, kept for the tables' counters until it ends.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::stats::{RowChanges, TableCounters};

/// Changes of one table's rows, made at one depth of subtransactions.
struct Counted {
    table: Arc<TableCounters>,
    depth: usize,
    changes: RowChanges,
}

/// The changes of one transaction.
#[derive(Default)]
pub(super) struct RowCounts(SmallVec<[Counted; 2]>);

impl RowCounts {
    /// Notes changes of a table's rows, made at `depth`.
    pub(super) fn add(&mut self, table: &Arc<TableCounters>, depth: usize, changes: &RowChanges) {
        let same =
            |counted: &&mut Counted| counted.depth == depth && Arc::ptr_eq(&counted.table, table);
        match self.0.iter_mut().rev().find(same) {
            Some(counted) => counted.changes.add(changes),
            None => self.0.push(Counted {
                table: Arc::clone(table),
                depth,
                changes: *changes,
            }),
        }
    }

    /// The changes of a table's rows at all depths.
    pub(super) fn of(&self, table: &Arc<TableCounters>) -> RowChanges {
        let mine = self.0.iter();
        let mine = mine.filter(|counted| Arc::ptr_eq(&counted.table, table));
        let mut sum = RowChanges::default();
        mine.for_each(|counted| sum.add(&counted.changes));
        sum
    }

    /// Subtransactions from depth `depth` on were rolled back.
    pub(super) fn rolled_back(&mut self, depth: usize) {
        self.0.retain(|counted| {
            let lost = counted.depth > depth;
            if lost {
                counted.table.ended(&counted.changes, false);
            }
            !lost
        });
    }

    /// Subtransactions from depth `depth` on were merged into the one below.
    pub(super) fn merged(&mut self, depth: usize) {
        for counted in &mut self.0 {
            counted.depth = counted.depth.min(depth);
        }
    }

    /// The transaction has ended.
    pub(super) fn ended(&mut self, committed: bool) {
        for counted in self.0.drain(..) {
            counted.table.ended(&counted.changes, committed);
        }
    }
}
