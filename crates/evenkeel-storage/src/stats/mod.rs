//! Counts and times of operations on pages and files, by backend type: the counters behind
//! `pg_stat_io`, `pg_stat_bgwriter` and the histograms of latency. See this directory's README for
//! the rules.

mod backend;
mod flights;
mod io;
mod latency;
mod object;
mod usage;
mod watch;

pub use self::backend::{BackendScope, BackendType, ContextScope, IoContext};
pub(crate) use self::backend::{SLOTS, backend_of_slot, slot};
pub use self::flights::IoUnderWay;
pub use self::io::{IoStats, IoStatsRow};
pub use self::latency::{LATENCY_BUCKETS, LatencySnapshot, TimedOperation};
pub use self::object::IoObject;
pub(crate) use self::usage::Usage;
pub(crate) use self::watch::Watchdog;
