//! The write-ahead log. See README.md for the rules.

mod backpressure;
mod buffers;
pub mod dump;
mod flusher;
mod latency;
mod layout;
mod log;
mod log_flush;
mod open;
pub mod reader;
mod segments;
mod unused;
pub(crate) mod usage;
mod words;
mod writer;

pub use crate::record;
pub use crate::wal::backpressure::Backpressure;
pub use crate::wal::latency::FlushLatency;
pub use crate::wal::layout::SegmentLayout;
pub use crate::wal::log::{Log, LogStats};
pub use crate::wal::log_flush::LogFlush;
pub(crate) use crate::wal::open::LogStart;
pub use crate::wal::usage::LogUsage;
