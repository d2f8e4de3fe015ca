//! The buffer pool. See this directory's README for its rules.

#[cfg(not(all(test, loom)))]
mod arena;
mod entry;
#[cfg(not(all(test, loom)))]
mod fork;
#[cfg(not(all(test, loom)))]
mod frame;
mod latch;
#[cfg(not(all(test, loom)))]
mod pin;
#[cfg(not(all(test, loom)))]
mod pool;
#[cfg(not(all(test, loom)))]
mod pool_core;
#[cfg(not(all(test, loom)))]
mod prefetch;
#[cfg(not(all(test, loom)))]
mod stats;
mod sync;
mod waiters;
mod word;

#[cfg(not(all(test, loom)))]
pub use self::{
    fork::ForkHandle,
    pin::{HintGuard, Pin, ReadGuard, WriteGuard},
    pool::BufferPool,
    pool_core::FrameReservation,
    stats::PoolStats,
};
#[cfg(not(all(test, loom)))]
pub(crate) use self::{
    pool::Copied,
    pool_core::{Candidate, PoolCore},
    word::MAX_USAGE,
};
