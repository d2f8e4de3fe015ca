//! Writing pages home: the one writer behind both the cleaner and checkpoints, and the
//! double-write area. See this directory's README for the rules.

mod batch;
mod cleaner;
mod doublewrite;
mod format;
mod restore;
mod spacing;
mod staging;
mod writer;

#[cfg(any(test, feature = "fuzz"))]
pub(crate) use format::read_area_page;
#[cfg(test)]
pub(crate) use format::sample_area_pages;
pub use restore::RestoreStats;
pub(crate) use restore::images_of;
pub use spacing::{Piece, WritePace};
pub use writer::{WriteOutStats, Writer, WriterOptions, WriterStats};

#[cfg(test)]
mod tests;
