//! The engine's own API beside other embedded stores.

use super::{less, more};
use crate::plan::{Experiment, Work};

pub const EMBEDDED: Experiment = Experiment {
    name: "embedded",
    title: "How fast is the engine as a library?",
    question: "Durable single commits, batches, point reads by thread count, a mixed load with \
               the worst commit during a checkpoint or compaction, and the time to reopen after a \
               kill, beside redb, RocksDB, SQLite and fjall.",
    notes: &[
        "A program of its own, bench/embedded, which the workspace's build does not compile: \
         --full builds it, which takes minutes the first time; --quick uses it if it is built.",
    ],
    seed: None,
    figures: &[
        more("per_s", "rate", "1/s"),
        less("seconds", "time", "s"),
        less("p50_us", "median", "µs"),
        less("p99_us", "p99", "µs"),
        less("max_us", "longest", "µs"),
        less("size_mb", "size on disk", "MB"),
        less("lost", "lost commits", ""),
    ],
    plots: &[],
    headlines: &[],
    reasons: &[],
    work: Work::Embedded,
};
