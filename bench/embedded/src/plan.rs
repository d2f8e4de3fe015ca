//! How much of everything a run does.

use std::time::Duration;

/// Sizes and times of one run; the same for every subject.
#[derive(Clone, Debug)]
pub struct Plan {
    /// `quick` or `full`.
    pub mode: &'static str,
    /// How often every workload is run on every subject.
    pub rounds: u32,
    /// Rows loaded.
    pub rows: u64,
    /// Rows of a commit of `load` and `batch`.
    pub batch_rows: u64,
    /// Memory of every engine for pages, in bytes.
    pub cache: u64,
    /// Length of `commit` and `batch`, each.
    pub commit: Duration,
    /// Length of `read`, each.
    pub read: Duration,
    /// Least length of `mixed`.
    pub mixed: Duration,
    /// Commits that the process to be killed has acknowledged when it is.
    pub kill_after: u64,
    /// Rows of each of those commits.
    pub kill_rows: u64,
}

impl Plan {
    /// About a minute for five subjects.
    pub fn quick() -> Plan {
        Plan {
            mode: "quick",
            rounds: 3,
            rows: 30_000,
            batch_rows: 1000,
            cache: 64 << 20,
            commit: Duration::from_millis(400),
            read: Duration::from_millis(200),
            mixed: Duration::from_millis(800),
            kill_after: 100,
            kill_rows: 100,
        }
    }

    /// Figures to publish.
    pub fn full() -> Plan {
        Plan {
            mode: "full",
            rounds: 5,
            rows: 1_000_000,
            batch_rows: 1000,
            cache: 512 << 20,
            commit: Duration::from_secs(4),
            read: Duration::from_secs(2),
            mixed: Duration::from_secs(10),
            kill_after: 2000,
            kill_rows: 100,
        }
    }

    /// Its numbers by name, for the report.
    pub fn settings(&self) -> Vec<(&'static str, serde_json::Value)> {
        vec![
            ("rows", self.rows.into()),
            ("key_bytes", crate::subject::KEY_BYTES.into()),
            ("value_bytes", crate::subject::VALUE_BYTES.into()),
            ("batch_rows", self.batch_rows.into()),
            ("cache_bytes", self.cache.into()),
            ("commit_seconds", self.commit.as_secs_f64().into()),
            ("read_seconds", self.read.as_secs_f64().into()),
            ("mixed_seconds", self.mixed.as_secs_f64().into()),
            ("kill_after_commits", self.kill_after.into()),
            ("kill_commit_rows", self.kill_rows.into()),
        ]
    }
}
