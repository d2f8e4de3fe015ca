//! The buffer pool. See this directory's README for its rules.

mod access;
mod arena;
mod damaged;
mod dirtiness;
mod entry;
mod fork;
mod fork_pages;
mod frame;
mod latch;
mod load;
mod offers;
mod owed;
mod pin;
mod pool;
mod pool_core;
mod prefetch;
mod read_ahead;
mod ring;
mod stats;
mod touch;
mod waiters;
mod word;

pub(crate) use self::{
    damaged::{Damage, DamagedPages},
    load::Flight,
    owed::{PageRedo, Start},
    pool::Copied,
    pool_core::{Candidate, PoolCore},
    touch::TouchAhead,
    word::MAX_USAGE,
};
pub use self::{
    fork::ForkHandle,
    pin::{HintGuard, Pin, ReadGuard, WriteGuard},
    pool::BufferPool,
    pool_core::FrameReservation,
    prefetch::ReadAheadOptions,
    read_ahead::ReadAhead,
    ring::{Ring, Strategy},
    stats::{ForkStats, PoolStats},
};

#[cfg(test)]
mod tests;
