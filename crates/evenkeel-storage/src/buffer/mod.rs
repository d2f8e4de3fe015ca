//! The buffer pool. See this directory's README for its rules.

mod arena;
mod entry;
mod fork;
mod frame;
mod latch;
mod load;
mod offers;
mod pin;
mod pool;
mod pool_core;
mod prefetch;
mod ring;
mod stats;
mod sync;
mod waiters;
mod word;

pub use self::{
    fork::ForkHandle,
    pin::{HintGuard, Pin, ReadGuard, WriteGuard},
    pool::BufferPool,
    pool_core::FrameReservation,
    prefetch::{ReadAhead, ReadAheadOptions},
    ring::{Ring, Strategy},
    stats::{ForkStats, PoolStats},
};
pub(crate) use self::{
    pool::Copied,
    pool_core::{Candidate, PoolCore},
    prefetch::Prefetcher,
    word::MAX_USAGE,
};

#[cfg(test)]
mod tests;
