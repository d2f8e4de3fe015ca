//! Settings of the engine.

use std::time::Duration;

use evenkeel_storage::StorageConfig;

use crate::mutant::Mutant;

/// Settings of a [`crate::Database`].
#[derive(Clone, Debug)]
pub struct Config {
    /// Settings of the storage layer.
    pub storage: StorageConfig,
    /// Transaction ids whose commit positions are kept in memory, rounded to whole chunks of
    /// 4096; what old snapshots need beyond it spills to a temporary file.
    pub xid_window: usize,
    /// How long a lock wait may last; `None` waits for ever. Sessions can override it.
    pub lock_timeout: Option<Duration>,
    /// How long a wait for a lock lasts before it is looked at for a deadlock. Sessions can
    /// override it.
    pub deadlock_timeout: Duration,
    /// Whether the time of every commit is kept, for [`crate::Database::commit_timestamp`].
    pub track_commit_timestamp: bool,
    /// The longest activity without a record of the state of all transactions, for those who read
    /// the log from somewhere in its middle.
    pub running_interval: Duration,
    /// A deliberate bug for a test to catch; only in builds with debug assertions.
    pub mutant: Option<Mutant>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            storage: StorageConfig::default(),
            xid_window: 1 << 20,
            lock_timeout: None,
            deadlock_timeout: Duration::from_secs(1),
            track_commit_timestamp: false,
            running_interval: Duration::from_secs(15),
            mutant: None,
        }
    }
}
