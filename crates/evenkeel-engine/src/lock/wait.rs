//! The lock or transaction that a transaction waits for.

use super::{LockKey, Mode};
use crate::types::Xid;

/// The lock or transaction that a transaction waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WaitFor {
    Lock(LockKey, Mode),
    Xid(Xid),
}

/// The lock or transaction that a transaction waits for, as `pg_stat_activity` shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitOn {
    /// A lock.
    Lock(LockKey),
    /// The end of a transaction.
    Transaction(Xid),
}

/// A transaction that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitInfo {
    /// Its number.
    pub transaction: u64,
    /// The lock or transaction it waits for.
    pub on: WaitOn,
}
