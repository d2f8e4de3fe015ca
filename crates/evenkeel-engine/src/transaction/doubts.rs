//! Entries of deferrable unique indexes whose keys other rows may have.

use super::Transaction;
use crate::types::Tid;

/// An entry of a deferrable unique index whose key another row may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// Position of the index in [`TableDef::indexes`](crate::table::TableDef::indexes).
    pub index: usize,
    /// Where the entry leads.
    pub tid: Tid,
}

impl Transaction {
    /// The doubts of the rows stored since the last call, in the order of rows and indexes. A
    /// rollback to a savepoint forgets them with the rows.
    pub fn take_doubts(&mut self) -> Vec<Doubt> {
        std::mem::take(&mut self.doubts)
    }

    pub(crate) fn note_doubt(&mut self, doubt: Doubt) {
        self.doubts.push(doubt);
    }

    /// How many doubts there are.
    pub(crate) fn doubts(&self) -> usize {
        self.doubts.len()
    }

    /// Forgets those behind the first `length`: their row was taken back.
    pub(crate) fn forget_doubts(&mut self, length: usize) {
        self.doubts.truncate(length);
    }
}
