//! The files of relation forks: segments, their growth and their syncs.

mod descriptors;
mod fork_files;
mod manifest;
mod segment;
mod space;
mod sync_table;

pub(crate) use fork_files::ForkFiles;
pub use manifest::ManifestPosition;
pub(crate) use manifest::Removed;
pub(crate) use segment::{OpenSegment, Segment};
pub use space::{DataAccess, FileSpace, SEGMENT_BLOCKS};
pub use sync_table::{SYNC_TIME_BOUNDS, SyncPass, SyncStats, SyncTable};

#[cfg(test)]
mod tests;
