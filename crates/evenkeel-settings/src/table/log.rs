//! Settings of the write-ahead log, checkpoints and recovery.

use super::{Setting, reload, session, start};
use crate::kind::Kind;
use crate::units::Unit;

const MOST: i64 = i32::MAX as i64;

pub(super) const SETTINGS: &[(&str, &[Setting])] = &[
    (
        "Write-Ahead Log / Settings",
        &[
            start(
                "wal_buffers",
                Kind::Integer(8, 262_143, Unit::Pages),
                "16MB",
                "memory for the log, a power of two",
            ),
            reload(
                "wal_writer_delay",
                Kind::Integer(1, 10_000, Unit::Milliseconds),
                "10ms",
                "delay of asynchronous commits",
            ),
            start(
                "fsync",
                Kind::Bool,
                "on",
                "off: a crash of the machine loses the database",
            ),
            start(
                "torn_page_protection",
                Kind::Choice(&["double_write", "full_page_writes", "off"]),
                "double_write",
                "how a page survives a write torn by a crash",
            ),
            start(
                "wal_compression",
                Kind::Choice(&["lz4", "on", "off"]),
                "lz4",
                "compression of page images in the log (full_page_writes)",
            ),
            session(
                "synchronous_commit",
                Kind::Choice(&["on", "off", "local", "remote_write", "remote_apply"]),
                "on",
                "whether COMMIT waits until it is durable",
            ),
        ],
    ),
    (
        "Write-Ahead Log / Checkpoints",
        &[
            reload(
                "max_wal_size",
                Kind::Integer(2, MOST, Unit::Megabytes),
                "1GB",
                "log volume that forces a checkpoint",
            ),
            reload(
                "min_wal_size",
                Kind::Integer(2, MOST, Unit::Megabytes),
                "80MB",
                "log kept as recycled segments",
            ),
            reload(
                "checkpoint_timeout",
                Kind::Integer(1, 86_400, Unit::Seconds),
                "5min",
                "longest time between checkpoints",
            ),
            reload(
                "checkpoint_completion_target",
                Kind::Real(0.0, 1.0, Unit::None),
                "0.9",
                "share of the interval over which a checkpoint is spread",
            ),
            start(
                "checkpoint_flush_after",
                Kind::Integer(0, 131_072, Unit::Pages),
                "256kB",
                "bytes written after which write-back is begun, 0: left to the system",
            ),
            reload(
                "checkpoint_warning",
                Kind::Integer(0, MOST, Unit::Seconds),
                "30s",
                "warn when log volume starts checkpoints more often, 0: never",
            ),
        ],
    ),
    (
        "Write-Ahead Log / Recovery",
        &[
            reload(
                "max_recovery_time",
                Kind::Integer(0, MOST, Unit::Seconds),
                "1min",
                "how long recovery may take, by its speed so far, 0: no bound",
            ),
            start(
                "recovery_open",
                Kind::Choice(&["immediate", "after_redo"]),
                "immediate",
                "after a crash: when the log has been read, or when every page is redone",
            ),
            start(
                "recovery_workers",
                Kind::Integer(0, 64, Unit::None),
                "0",
                "threads of redo, 0: one for each processor, up to 8",
            ),
            start(
                "recovery_prefetch",
                Kind::Choice(&["try", "on", "off"]),
                "try",
                "recovery reads the pages it will need ahead",
            ),
        ],
    ),
    (
        "Replication / Sending Servers",
        &[start(
            "track_commit_timestamp",
            Kind::Bool,
            "off",
            "keep the time of every commit, for pg_xact_commit_timestamp",
        )],
    ),
];
