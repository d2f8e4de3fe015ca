//! Tables that open plans of one session read or change.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::catalog::Oid;

/// How many open plans of a session use each table.
#[derive(Debug, Default)]
pub struct InUse(Mutex<HashMap<Oid, usize>>);

/// One plan's use of its tables, which ends with it.
#[derive(Debug)]
pub struct Using {
    of: Arc<InUse>,
    tables: Box<[Oid]>,
}

impl InUse {
    /// A plan begins that uses these tables.
    pub fn begin(self: &Arc<InUse>, tables: impl Iterator<Item = Oid>) -> Using {
        let tables: Box<[Oid]> = tables.collect();
        let mut counts = self.0.lock();
        for table in &tables {
            *counts.entry(*table).or_default() += 1;
        }
        drop(counts);
        Using {
            of: Arc::clone(self),
            tables,
        }
    }

    /// Whether an open plan uses the table.
    pub fn is_used(&self, table: Oid) -> bool {
        self.0.lock().contains_key(&table)
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        let mut counts = self.of.0.lock();
        for table in &self.tables {
            if let Some(count) = counts.get_mut(table) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(table);
                }
            }
        }
    }
}
