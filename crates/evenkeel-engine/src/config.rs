//! Settings of the engine.

use std::time::Duration;

use evenkeel_storage::StorageConfig;

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
    /// Whether the time of every commit is kept, for [`crate::Database::commit_timestamp`].
    pub track_commit_timestamp: bool,
    /// Whether a scan of a large table begins where another scan of it is.
    pub synchronize_seqscans: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            storage: StorageConfig::default(),
            xid_window: 1 << 20,
            lock_timeout: None,
            track_commit_timestamp: false,
            synchronize_seqscans: true,
        }
    }
}
