//! The buffer pool. See this directory's README for its rules.

mod access;
mod arena;
mod clean_queue;
mod damaged;
mod dirtiness;
mod entry;
mod fork;
mod fork_pages;
mod frame;
mod frame_state;
mod latch;
mod load;
mod owed;
mod pin;
mod pool;
mod pool_core;
mod prefetch;
mod read_ahead;
mod stats;
mod strategy;
mod touch;
mod waiters;

pub(crate) use self::{
    damaged::{Damage, DamagedPages},
    frame_state::MAX_USAGE,
    load::Flight,
    owed::{PageRedo, Start},
    pool::Copied,
    pool_core::{Candidate, PoolCore},
    touch::TouchAhead,
};
pub use self::{
    fork::ForkHandle,
    pin::{HintGuard, Pin, ReadGuard, WriteGuard},
    pool::BufferPool,
    pool_core::FrameReservation,
    prefetch::ReadAheadOptions,
    read_ahead::ReadAhead,
    stats::{ForkStats, PoolStats},
    strategy::{BufferAccessStrategy, Strategy},
};

#[cfg(test)]
mod tests;
