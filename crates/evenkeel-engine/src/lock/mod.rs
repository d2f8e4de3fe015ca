//! Locks of transactions, waits for other transactions, and deadlock detection.

mod deadlock;
mod graph;
mod manager;
mod table;
#[cfg(test)]
mod tests;
mod timer;
mod wait;
mod xids;

use std::fmt;

use evenkeel_storage::FileId;

use crate::types::{Tid, Xid};

pub(crate) use manager::{HeldLocks, LockManager, LockMark, RowObject, WaitOptions};
pub use table::LockInfo;
pub use wait::{WaitInfo, WaitOn};

/// A transaction's number in the lock manager; every transaction has one, also without an xid.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct TxnNumber(pub(crate) u64);

/// The action to take if a lock is not free.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WaitPolicy {
    /// Wait in the queue.
    #[default]
    Block,
    /// Report that it is not free.
    SkipLocked,
    /// Fail with 55P03.
    NoWait,
}

/// Row locks, weakest first, with PostgreSQL's meaning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum RowLockMode {
    /// The row's key may not change.
    KeyShare = 0,
    /// The row may not change.
    Share = 1,
    /// About to change columns that no foreign key refers to.
    NoKeyUpdate = 2,
    /// About to delete the row or to change its key.
    Update = 3,
}

/// Table locks, with PostgreSQL's names and conflicts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum TableLockMode {
    /// SELECT.
    AccessShare = 0,
    /// SELECT FOR UPDATE and the like.
    RowShare = 1,
    /// INSERT, UPDATE, DELETE.
    RowExclusive = 2,
    /// VACUUM, ANALYZE.
    ShareUpdateExclusive = 3,
    /// CREATE INDEX.
    Share = 4,
    /// CREATE TRIGGER.
    ShareRowExclusive = 5,
    /// REFRESH MATERIALIZED VIEW CONCURRENTLY.
    Exclusive = 6,
    /// DROP, TRUNCATE, most of ALTER TABLE.
    AccessExclusive = 7,
}

/// The object that a lock protects.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LockKey {
    /// A table, by its id.
    Table(u64),
    /// A row of a heap, by the place and the inserter of the version that was locked first: no
    /// other version ever has both.
    Row(FileId, Tid, Xid),
    /// The turn of those who wait for a version that is being changed. It names that version only,
    /// and is given up when the row is had.
    Turn(FileId, Tid, Xid),
    /// A number of the application's choice, or two of 32 bits, in one of the databases; modes as
    /// for tables.
    Advisory(u32, u64, bool),
}

impl fmt::Display for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockKey::Table(id) => write!(f, "relation {id}"),
            LockKey::Row(file, tid, _) | LockKey::Turn(file, tid, _) => {
                write!(f, "tuple {tid} of file {file:?}")
            }
            LockKey::Advisory(_, key, _) => write!(f, "advisory lock {key}"),
        }
    }
}

/// A mode of whatever kind the key has, as a number below 8.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Mode(u8);

/// A set of modes, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ModeSet(u8);

/// Bit `b` of row `a`: mode `a` conflicts with mode `b`.
const ROW_CONFLICTS: [u8; 4] = [0b1000, 0b1100, 0b1110, 0b1111];
const TABLE_CONFLICTS: [u8; 8] = [
    0b1000_0000,
    0b1100_0000,
    0b1111_0000,
    0b1111_1000,
    0b1110_1100,
    0b1111_1100,
    0b1111_1110,
    0b1111_1111,
];

impl From<RowLockMode> for Mode {
    fn from(mode: RowLockMode) -> Mode {
        Mode(mode as u8)
    }
}

impl From<TableLockMode> for Mode {
    fn from(mode: TableLockMode) -> Mode {
        Mode(mode as u8)
    }
}

impl Mode {
    /// The modes of `key`'s kind that this one conflicts with.
    fn conflicts(self, key: &LockKey) -> ModeSet {
        match key {
            LockKey::Row(..) | LockKey::Turn(..) => ModeSet(ROW_CONFLICTS[usize::from(self.0 & 3)]),
            LockKey::Table(_) | LockKey::Advisory(..) => {
                ModeSet(TABLE_CONFLICTS[usize::from(self.0 & 7)])
            }
        }
    }

    /// The modes of `key`'s kind that are implied by this one: they conflict with no more.
    fn implied(self, key: &LockKey) -> ModeSet {
        let own = self.conflicts(key).0;
        let count = if matches!(key, LockKey::Row(..) | LockKey::Turn(..)) {
            4
        } else {
            8
        };
        let implied = (0..count)
            .map(Mode)
            .filter(|mode| mode.conflicts(key).0 & !own == 0);
        ModeSet(implied.fold(0, |set, mode| set | 1 << mode.0))
    }

    /// PostgreSQL's name of the mode.
    fn name(self, key: &LockKey) -> &'static str {
        const ROW: [&str; 4] = [
            "ForKeyShareLock",
            "ForShareLock",
            "ForNoKeyUpdateLock",
            "ForUpdateLock",
        ];
        const TABLE: [&str; 8] = [
            "AccessShareLock",
            "RowShareLock",
            "RowExclusiveLock",
            "ShareUpdateExclusiveLock",
            "ShareLock",
            "ShareRowExclusiveLock",
            "ExclusiveLock",
            "AccessExclusiveLock",
        ];
        match key {
            LockKey::Row(..) | LockKey::Turn(..) => ROW[usize::from(self.0 & 3)],
            LockKey::Table(_) | LockKey::Advisory(..) => TABLE[usize::from(self.0 & 7)],
        }
    }
}

impl ModeSet {
    /// Every mode of `key`'s kind.
    fn all(key: &LockKey) -> ModeSet {
        match key {
            LockKey::Row(..) | LockKey::Turn(..) => ModeSet(0b1111),
            LockKey::Table(_) | LockKey::Advisory(..) => ModeSet(0b1111_1111),
        }
    }

    fn insert(&mut self, mode: Mode) {
        self.0 |= 1 << mode.0;
    }

    fn remove(&mut self, mode: Mode) {
        self.0 &= !(1 << mode.0);
    }

    fn contains(self, mode: Mode) -> bool {
        self.0 & 1 << mode.0 != 0
    }

    fn intersects(self, other: ModeSet) -> bool {
        self.0 & other.0 != 0
    }

    fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn modes(self) -> impl Iterator<Item = Mode> {
        (0..8).map(Mode).filter(move |mode| self.contains(*mode))
    }
}

#[cfg(test)]
mod conflict_tests {
    use super::*;

    #[test]
    fn conflicts_are_symmetric() {
        let row = LockKey::Row(
            FileId(1),
            Tid::new(evenkeel_storage::BlockNumber(0), 1),
            Xid::new(1),
        );
        for (key, count) in [(LockKey::Table(1), 8), (row, 4)] {
            for a in (0..count).map(Mode) {
                for b in (0..count).map(Mode) {
                    let forth = a.conflicts(&key).contains(b);
                    assert_eq!(forth, b.conflicts(&key).contains(a), "{key:?} {a:?} {b:?}");
                }
            }
        }
    }

    #[test]
    fn table_conflicts_are_postgresqls() {
        use TableLockMode::*;
        let conflicts = |a: TableLockMode, b: TableLockMode| {
            Mode::from(a)
                .conflicts(&LockKey::Table(1))
                .contains(Mode::from(b))
        };
        assert!(!conflicts(AccessShare, Exclusive) && conflicts(AccessShare, AccessExclusive));
        assert!(!conflicts(RowExclusive, RowExclusive) && conflicts(RowExclusive, Share));
        assert!(!conflicts(Share, Share) && conflicts(ShareRowExclusive, ShareRowExclusive));
        assert!(conflicts(ShareUpdateExclusive, ShareUpdateExclusive));
        assert!(!conflicts(ShareUpdateExclusive, RowExclusive));
        assert!(conflicts(Exclusive, RowShare));
    }

    #[test]
    fn a_stronger_row_lock_implies_the_weaker_ones() {
        let row = LockKey::Row(
            FileId(1),
            Tid::new(evenkeel_storage::BlockNumber(0), 1),
            Xid::new(1),
        );
        assert_eq!(
            Mode::from(RowLockMode::Update).implied(&row),
            ModeSet(0b1111)
        );
        assert_eq!(
            Mode::from(RowLockMode::KeyShare).implied(&row),
            ModeSet(0b0001)
        );
    }
}
