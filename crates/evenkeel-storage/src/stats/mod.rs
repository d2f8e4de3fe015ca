//! Who does what to pages and files, how often and how long: the counters behind `pg_stat_io`,
//! `pg_stat_bgwriter` and the histograms of latency. See this directory's README for the rules.

mod backend;
mod io;
mod latency;
mod watch;

pub use self::backend::{BackendScope, BackendType, ContextScope, IoContext};
pub(crate) use self::backend::{SLOTS, backend_of_slot, slot};
pub use self::io::{IoObject, IoStats, IoStatsRow};
pub use self::latency::{LATENCY_BUCKETS, LatencySnapshot, TimedOperation};
pub(crate) use self::watch::Watchdog;
