//! Transactions: ids, snapshots, commit order, visibility, savepoints.
//!
//! Principal entry points: [`Transaction`], [`Snapshot::sight`], [`Horizon`]. The rules are in
//! the README beside this file.

pub(crate) mod core;
mod counts;
mod end;
mod own;
mod publisher;
pub mod record;
pub(crate) mod recovery;
pub(crate) mod shared;
mod slots;
mod snapshot;
mod subs;
pub(crate) mod system;
#[cfg(test)]
mod tests;
mod transaction;
mod window;

pub use own::OwnXids;
pub use shared::EndHook;
pub use snapshot::{Hint, Sight, Snapshot};
pub use subs::Subtransaction;
pub use system::{Horizon, Removal};
pub use transaction::Transaction;

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
