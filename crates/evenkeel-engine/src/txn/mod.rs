//! The state of all transactions: ids, snapshots, commit order, visibility, recovery.
//!
//! Principal entry points: [`Snapshot::visibility`], [`Horizon`]. A session's own transaction is a
//! [`crate::Transaction`]. The rules are in the README beside this file.

pub(crate) mod core;
mod drops;
mod own_xids;
mod publisher;
pub(crate) mod recent_xids;
pub mod record;
pub(crate) mod recovery;
mod running;
pub(crate) mod shared;
mod snapshot;
mod snapshot_registry;
mod spans;
mod spill;
pub(crate) mod system;
mod varint;
pub(crate) mod xid_state;

pub use own_xids::OwnXids;
pub use running::Running;
pub use shared::EndHook;
pub use snapshot::{Snapshot, Visibility};
pub use system::{Horizon, XidAtHorizon};
pub use xid_state::Hint;

/// Counts since the database was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TxnStatistics {
    /// Transactions committed, those that changed nothing included.
    pub commits: u64,
    /// Transactions rolled back.
    pub rollbacks: u64,
    /// Deadlocks found.
    pub deadlocks: u64,
    /// Chunks of the id window that are in the spill file now.
    pub spilled_chunks: usize,
    /// Transactions that wait for a lock or another transaction now.
    pub waiting: usize,
    /// Commits not yet applied to the status pages.
    pub status_backlog: usize,
}
