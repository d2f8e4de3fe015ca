//! The newest commit that a record removes from the snapshots of a standby.

use std::fmt;

use crate::ids::Lsn;

/// The newest commit whose effects a record takes from snapshots that do not see it: rows that it
/// deleted go, rows that it made are frozen or become visible to all, a page is used again. A
/// standby applies the record when no snapshot is left that is older.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RemovalLsn {
    /// The commit at this LSN, or an earlier one. [`Lsn::ZERO`]: none, and nothing is encoded.
    Commit(Lsn),
    /// The commit, yet to come, of the transaction that made the record: its rows are frozen from
    /// the beginning, in a file that nobody else sees before.
    Own,
}

impl RemovalLsn {
    pub(super) fn encode(self) -> Option<u64> {
        match self {
            RemovalLsn::Commit(Lsn::ZERO) => None,
            RemovalLsn::Commit(lsn) => Some(lsn.0),
            RemovalLsn::Own => Some(u64::MAX),
        }
    }

    pub(super) fn decode(word: u64) -> RemovalLsn {
        match word {
            u64::MAX => RemovalLsn::Own,
            lsn => RemovalLsn::Commit(Lsn(lsn)),
        }
    }
}

impl fmt::Display for RemovalLsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RemovalLsn::Commit(lsn) => write!(f, "{lsn}"),
            RemovalLsn::Own => f.write_str("own commit"),
        }
    }
}
