//! VACUUM, ANALYZE and autovacuum: what they do to one table, and when.
//!
//! Entry points: [`vacuum::vacuum`], [`analyze::analyze`], [`Autovacuum::start`]. Everything here
//! is synchronous and runs on threads that may wait. The rules are in the README beside this
//! file.

pub mod analyze;
mod autovacuum;
mod compute;
pub mod report;
pub mod vacuum;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use evenkeel_engine::CancelFlag;

pub use autovacuum::{Autovacuum, AutovacuumConfig};

/// How a vacuum or an analyze came about.
#[derive(Clone, Debug)]
pub struct Request {
    /// By itself.
    pub automatic: bool,
    /// Leave tables alone that are locked.
    pub skip_locked: bool,
    /// The session's number.
    pub pid: i32,
    /// Ends it early.
    pub cancel: CancelFlag,
    /// How long it waits for a table's lock; `None` waits for ever.
    pub lock_timeout: Option<Duration>,
}

/// Microseconds since the Unix epoch.
fn now_micros() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}
