//! The simulated disk: in memory, deterministic by seed, and only as kind as the README's rules.

mod blocks;
mod disk;
mod fault;
mod file;
mod image;
mod inode;
mod journal;
mod latency;
mod queue;
mod rng;
mod sample;
mod series;
mod shared;
mod state;

pub use disk::SimDisk;
pub use fault::{Fault, FaultKind};
pub use image::Outcome;
pub use journal::JournalOp;
pub use latency::{LatencyMode, LatencyModel};
pub(crate) use rng::Rng;
pub use sample::{sample, skip, takes_all};
pub use series::{CrashImage, ImageSeries};

#[cfg(test)]
mod tests;
