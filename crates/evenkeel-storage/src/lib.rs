//! Storage of evenkeel: pages and their buffer pool, the write-ahead log, checkpoints,
//! protection against torn pages, and redo.
//!
//! It knows pages and records, not what they mean: the engine above hands in a
//! [`StorageClient`] whose `apply` is both the way forward and redo. Start at [`Store`].

pub mod buffer;
pub mod checkpoint;
pub mod config;
pub mod control;
pub mod error;
pub mod files;
pub mod ids;
pub mod invariant;
pub mod mutant;
pub mod page;
mod parallel;
pub mod poison;
pub mod recovery;
pub mod stats;
pub mod store;
#[cfg(test)]
pub(crate) mod testing;
pub mod wal;
pub mod writeout;

pub use config::{StorageConfig, TornPageProtection};
pub use error::{ApplyError, StorageError, StorageResult};
pub use ids::{BlockNumber, FileId, Fork, FrameId, Lsn, PageId};
pub use poison::Poison;
pub use store::{ApplyContext, Change, CheckpointMode, CommitNote, RedoHold, StorageClient, Store};
pub use wal::record::{PartFlags, RecordKind, RecordView};
