//! Transactions, heap, B-tree, vacuum and the embedded API of evenkeel.
//!
//! Entry points: [`Database::open`], [`Database::begin`], [`Transaction`]. The engine runs on
//! plain threads and knows nothing of SQL or of an async runtime: what may wait for another
//! transaction is an `async fn` over [`WaitTicket`], and [`block_on`] drives it for callers
//! without a runtime.

#![warn(missing_docs)]

pub mod advisory;
pub mod btree;
mod check;
pub mod config;
pub mod cost;
pub mod database;
pub mod describe;
pub mod error;
pub mod fsm;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod heap;
pub mod lock;
pub mod memory;
pub mod mutant;
mod rmgr;
pub mod sequence;
mod sort;
pub mod stats;
mod status;
pub mod table;
pub mod temp;
pub mod ticket;
pub mod transaction;
pub mod txn;
pub mod types;
pub mod vacuum;
pub mod vm;

pub use evenkeel_storage::stats::BackendType;
pub use evenkeel_storage::{BlockNumber, FileId};

pub use check::PageStep;
pub use config::Config;
pub use database::Database;
pub use error::{EngineError, EngineResult};
pub use lock::{LockInfo, LockKey, RowLockMode, TableLockMode, WaitInfo, WaitOn, WaitPolicy};
pub use table::Table;
pub use ticket::{CancelFlag, WaitTicket, block_on};
pub use transaction::{Doubt, Subtransaction, Transaction};
pub use txn::{Hint, Horizon, OwnXids, Snapshot, TxnStatistics, Visibility, XidAtHorizon};
pub use types::{CommandId, Durability, Isolation, Tid, Xid, XidStatus};
