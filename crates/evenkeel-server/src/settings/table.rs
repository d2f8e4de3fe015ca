//! The table of the server's settings.

use std::time::Duration;

use super::{KIB, Kind, MIB};

/// One setting.
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// Type of its values.
    pub kind: Kind,
    /// Its default, as shown.
    pub default: &'static str,
    /// Its description.
    pub effect: &'static str,
}

const fn setting(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    effect: &'static str,
) -> Setting {
    Setting {
        name,
        kind,
        default,
        effect,
    }
}

/// The unit of `ms`.
pub const MILLISECOND: Duration = Duration::from_millis(1);
/// The unit of `s`.
pub const SECOND: Duration = Duration::from_secs(1);

/// Every setting of the server, in the order in which `--help` lists them.
pub const SETTINGS: &[Setting] = &[
    setting("port", Kind::Number, "5432", "TCP port on 127.0.0.1"),
    setting(
        "unix_socket_directories",
        Kind::Text,
        "/tmp",
        "directory of the Unix socket, or ''",
    ),
    setting("max_connections", Kind::Number, "1000", "sessions at once"),
    setting(
        "authentication_timeout",
        Kind::Time(SECOND),
        "1min",
        "time to complete start-up",
    ),
    setting(
        "max_server_memory",
        Kind::Bytes(MIB),
        "0",
        "memory of all sessions, besides shared_buffers, 0: half of what the machine has then",
    ),
    setting(
        "max_session_memory",
        Kind::Bytes(MIB),
        "0",
        "memory of one session, 0: a quarter of max_server_memory",
    ),
    setting(
        "shared_buffers",
        Kind::Bytes(8 * KIB),
        "128MB",
        "memory for pages",
    ),
    setting(
        "wal_buffers",
        Kind::Bytes(8 * KIB),
        "16MB",
        "memory for the log, a power of two",
    ),
    setting(
        "max_wal_size",
        Kind::Bytes(MIB),
        "1GB",
        "log volume that forces a checkpoint",
    ),
    setting(
        "min_wal_size",
        Kind::Bytes(MIB),
        "80MB",
        "log kept as recycled segments",
    ),
    setting(
        "checkpoint_timeout",
        Kind::Time(SECOND),
        "5min",
        "longest time between checkpoints",
    ),
    setting(
        "checkpoint_completion_target",
        Kind::Fraction,
        "0.9",
        "share of the interval over which a checkpoint is spread",
    ),
    setting(
        "checkpoint_flush_after",
        Kind::Bytes(8 * KIB),
        "256kB",
        "bytes written after which write-back is begun, 0: left to the system",
    ),
    setting(
        "checkpoint_warning",
        Kind::Time(SECOND),
        "30s",
        "warn when log volume starts checkpoints more often, 0: never",
    ),
    setting(
        "max_recovery_time",
        Kind::Time(SECOND),
        "1min",
        "how long recovery may take, by its speed so far, 0: no bound",
    ),
    setting(
        "wal_writer_delay",
        Kind::Time(MILLISECOND),
        "10ms",
        "delay of asynchronous commits",
    ),
    setting(
        "bgwriter_flush_after",
        Kind::Bytes(8 * KIB),
        "512kB",
        "bytes written by the cleaner after which write-back begins, 0: left to the system",
    ),
    setting(
        "vacuum_buffer_usage_limit",
        Kind::Bytes(KIB),
        "2MB",
        "pool memory that a vacuum uses, 0: all of it",
    ),
    setting(
        "synchronize_seqscans",
        Kind::Bool,
        "on",
        "scans of a large table begin where another one is",
    ),
    setting(
        "effective_io_concurrency",
        Kind::Number,
        "16",
        "reads ahead of use in flight at once, 0: none",
    ),
    setting(
        "maintenance_io_concurrency",
        Kind::Number,
        "16",
        "the same for recovery, 0: none",
    ),
    setting(
        "recovery_open",
        Kind::Choice(&["immediate", "after_redo"]),
        "immediate",
        "after a crash: when the log has been read, or when every page is redone",
    ),
    setting(
        "recovery_workers",
        Kind::Number,
        "0",
        "threads of redo, 0: one for each processor, up to 8",
    ),
    setting(
        "recovery_prefetch",
        Kind::Choice(&["try", "on", "off"]),
        "try",
        "recovery reads the pages it will need ahead",
    ),
    setting(
        "io_combine_limit",
        Kind::Bytes(8 * KIB),
        "256kB",
        "most bytes of adjacent pages in one read, at most 1MB",
    ),
    setting(
        "io_slow_threshold",
        Kind::Time(SECOND),
        "5s",
        "operations on files that take longer are reported, 0: never",
    ),
    setting(
        "fsync",
        Kind::Bool,
        "on",
        "off: a crash of the machine loses the database",
    ),
    setting(
        "torn_page_protection",
        Kind::Choice(&["double_write", "full_page_writes", "off"]),
        "double_write",
        "how a page survives a write torn by a crash",
    ),
    setting(
        "wal_compression",
        Kind::Choice(&["lz4", "on", "off"]),
        "lz4",
        "compression of page images in the log (full_page_writes)",
    ),
    setting(
        "wal_consistency_checking",
        Kind::Bool,
        "off",
        "log what each change makes of its pages; recovery compares",
    ),
    setting(
        "io_method",
        Kind::Choice(&["worker", "sync"]),
        "worker",
        "issues page writes and reads ahead of use: a pool of threads, or their owner's thread",
    ),
    setting(
        "io_max_workers",
        Kind::Number,
        "0",
        "most threads of io_method = worker, which end when idle, 0: what io_concurrency asks for",
    ),
    setting(
        "io_direct",
        Kind::Text,
        "''",
        "bypass the page cache for: data, wal",
    ),
    setting(
        "track_commit_timestamp",
        Kind::Bool,
        "off",
        "keep the time of every commit, for pg_xact_commit_timestamp",
    ),
    setting(
        "autovacuum",
        Kind::Bool,
        "on",
        "vacuum and analyze tables by themselves",
    ),
    setting(
        "autovacuum_naptime",
        Kind::Time(SECOND),
        "1min",
        "time between two looks at the tables",
    ),
    setting(
        "autovacuum_max_workers",
        Kind::Number,
        "3",
        "tables vacuumed by themselves at once",
    ),
    setting(
        "autovacuum_vacuum_threshold",
        Kind::Number,
        "50",
        "dead rows that make a vacuum due, besides the scale factor",
    ),
    setting(
        "autovacuum_vacuum_max_threshold",
        Kind::Count,
        "100000000",
        "dead rows that make a vacuum due in any table, -1: no number does",
    ),
    setting(
        "autovacuum_vacuum_scale_factor",
        Kind::Fraction,
        "0.2",
        "dead rows as a share of all, added to the threshold",
    ),
    setting(
        "autovacuum_vacuum_insert_threshold",
        Kind::Count,
        "1000",
        "rows inserted that make a vacuum due, -1: inserts do not",
    ),
    setting(
        "autovacuum_vacuum_insert_scale_factor",
        Kind::Fraction,
        "0.2",
        "rows inserted as a share of those not frozen, added to the threshold",
    ),
    setting(
        "autovacuum_analyze_threshold",
        Kind::Number,
        "50",
        "rows changed that make an analyze due, besides the scale factor",
    ),
    setting(
        "autovacuum_analyze_scale_factor",
        Kind::Fraction,
        "0.1",
        "rows changed as a share of all, added to the threshold",
    ),
    setting(
        "autovacuum_freeze_max_age",
        Kind::Number,
        "200000000",
        "age of the oldest id, in ids, at which a table is frozen",
    ),
    setting(
        "autovacuum_vacuum_cost_delay",
        Kind::Delay,
        "2ms",
        "sleep of an automatic vacuum at its cost limit, 0: none",
    ),
    setting(
        "autovacuum_vacuum_cost_limit",
        Kind::Count,
        "-1",
        "cost that all automatic vacuums together may run up between sleeps, -1: 200",
    ),
    setting(
        "ignore_log_damage",
        Kind::Bool,
        "off",
        "open a database whose log is damaged, losing what follows the damage",
    ),
];
