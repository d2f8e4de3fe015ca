//! Storage of evenkeel: pages and their buffer pool, the write-ahead log, checkpoints,
//! protection against torn pages, and redo.
//!
//! It knows pages and records, not what they mean: the engine above hands in a
//! [`ResourceManager`] whose `apply` is both the way forward and redo. Start at [`Store`].

#![warn(missing_docs)]

pub mod buffer;
pub mod checkpoint;
pub mod config;
pub mod control;
mod core;
pub mod error;
pub mod files;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod gaps;
pub mod ids;
pub mod invariant;
pub mod mutant;
pub mod page;
mod parallel;
pub mod poison;
pub mod quarantine;
pub mod record;
pub mod recovery;
pub mod resource_manager;
mod retry;
pub mod stats;
pub mod store;
mod sync;
#[cfg(test)]
pub(crate) mod testing;
pub mod wal;
pub mod writeout;

pub use config::{RecoveryOpen, StorageConfig, TornPageProtection, Tuning};
pub use error::{ApplyError, StorageError, StorageResult};
pub use ids::{BlockNumber, FileId, Fork, FrameId, Lsn, PageId};
pub use poison::Poison;
pub use record::{PartFlags, RecordKind, RecordView, RemovalLsn};
pub use resource_manager::{ApplyContext, InsertedRecord, ResourceManager, StoreState};
pub use store::{CheckpointMode, MiniTransaction, RedoHold, Store};
