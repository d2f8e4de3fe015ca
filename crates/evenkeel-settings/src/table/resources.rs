//! Settings of memory, disk space, reads and writes.

use super::{Setting, session, start};
use crate::kind::{Form, Kind};
use crate::units::Unit;

const MOST: i64 = i32::MAX as i64;

pub(super) const SETTINGS: &[(&str, &[Setting])] = &[
    (
        "Resource Usage / Memory",
        &[
            start(
                "max_server_memory",
                Kind::Integer(0, MOST, Unit::Megabytes),
                "0",
                "memory of all sessions, besides shared_buffers, 0: half of what the machine has then",
            ),
            start(
                "max_session_memory",
                Kind::Integer(0, MOST, Unit::Megabytes),
                "0",
                "memory of one session, 0: a quarter of max_server_memory",
            ),
            start(
                "shared_buffers",
                Kind::Integer(16, 1_073_741_823, Unit::Pages),
                "128MB",
                "memory for pages",
            ),
            session(
                "maintenance_work_mem",
                Kind::Integer(64, MOST, Unit::Kilobytes),
                "64MB",
                "memory in which VACUUM remembers dead rows",
            ),
            session(
                "vacuum_buffer_usage_limit",
                Kind::Integer(0, 16_777_216, Unit::Kilobytes),
                "2MB",
                "share of the pool that VACUUM and ANALYZE use, 0: all of it",
            ),
            session(
                "work_mem",
                Kind::Integer(64, MOST, Unit::Kilobytes),
                "64MB",
                "memory of one operation, such as a sort, before it spills to files",
            ),
        ],
    ),
    (
        "Resource Usage / Disk",
        &[
            start(
                "max_notify_queue_pages",
                Kind::Integer(64, MOST, Unit::None),
                "8192",
                "memory of NOTIFY's queue, in pages of 8 kB",
            ),
            session(
                "temp_file_limit",
                Kind::Integer(-1, MOST, Unit::Kilobytes),
                "-1",
                "space that a session's spill files may take, -1: no limit",
            ),
        ],
    ),
    (
        "Resource Usage / I/O",
        &[
            start(
                "effective_io_concurrency",
                Kind::Integer(0, 1_000, Unit::None),
                "16",
                "reads ahead of use in flight at once, 0: none",
            ),
            start(
                "maintenance_io_concurrency",
                Kind::Integer(0, 1_000, Unit::None),
                "16",
                "the same for recovery, 0: none",
            ),
            start(
                "io_combine_limit",
                Kind::Integer(1, 128, Unit::Pages),
                "256kB",
                "most bytes of adjacent pages in one read, at most 1MB",
            ),
            start(
                "io_slow_threshold",
                Kind::Integer(0, MOST, Unit::Seconds),
                "5s",
                "operations on files that take longer are reported, 0: never",
            ),
            start(
                "io_method",
                Kind::Choice(&["worker", "io_uring", "sync"]),
                "worker",
                "issues page writes and reads ahead of use: a pool of threads, the kernel's rings (where it has none, the pool), or their owner's thread",
            ),
            start(
                "io_max_workers",
                Kind::Integer(0, 1_000, Unit::None),
                "0",
                "most threads of io_method = worker, and for what rings do not do; they end when idle, 0: what io_concurrency asks for",
            ),
            start(
                "io_direct",
                Kind::Text(Form::DirectIo),
                "",
                "bypass the page cache for: data, wal",
            ),
        ],
    ),
    (
        "Resource Usage / Background Writer",
        &[start(
            "bgwriter_flush_after",
            Kind::Integer(0, 131_072, Unit::Pages),
            "512kB",
            "bytes written by the cleaner after which write-back begins, 0: left to the system",
        )],
    ),
];
