//! The numbers and small enums that cross the engine's functions.

use std::fmt;

use evenkeel_storage::BlockNumber;

/// A transaction or subtransaction id: 48 bits, given out in order, never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Xid(u64);

impl Xid {
    /// No transaction.
    pub const NONE: Xid = Xid(0);
    /// The id of everything that is older than any snapshot: committed, visible to all.
    pub const FROZEN: Xid = Xid(2);
    /// The first id a transaction can have.
    pub const FIRST: Xid = Xid(3);
    /// The last id that fits a tuple header.
    pub const MAX: Xid = Xid((1 << 48) - 1);

    /// The id with this number; bits above the 48th are cut off.
    pub const fn new(raw: u64) -> Xid {
        Xid(raw & Xid::MAX.0)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whether this names a transaction (frozen included).
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }

    /// Whether this is an id that was given to a transaction: neither none nor frozen.
    pub const fn is_normal(self) -> bool {
        self.0 >= Xid::FIRST.0
    }
}

impl fmt::Debug for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "xid {}", self.0)
    }
}

impl fmt::Display for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a statement within its transaction: a statement sees its own transaction's
/// changes of lower numbers only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CommandId(pub u32);

impl CommandId {
    /// The first statement.
    pub const FIRST: CommandId = CommandId(0);
}

/// The place of a tuple: block and line pointer, counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tid {
    /// The heap block.
    pub block: BlockNumber,
    /// The line pointer, from 1.
    pub slot: u16,
}

impl Tid {
    /// The place `(block, slot)`.
    pub const fn new(block: BlockNumber, slot: u16) -> Tid {
        Tid { block, slot }
    }
}

impl fmt::Debug for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({},{})", self.block.0, self.slot)
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({},{})", self.block.0, self.slot)
    }
}

/// Isolation levels.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Isolation {
    /// Each statement has its own snapshot.
    #[default]
    ReadCommitted,
    /// One snapshot for the whole transaction; a conflicting update fails with 40001.
    RepeatableRead,
    /// Refused with 0A000.
    Serializable,
}

/// The event that a commit waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// The commit record is on stable storage when commit returns.
    #[default]
    Sync,
    /// The commit is visible when commit returns, and durable soon after.
    Async,
}

/// The status of a transaction id as of now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XidStatus {
    /// Running, or its commit is not published yet.
    InProgress,
    /// Committed and published.
    Committed,
    /// Rolled back, or lost in a crash.
    Aborted,
}
