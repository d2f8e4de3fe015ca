//! Rings, and the log flushes of VACUUM FREEZE (Itagaki, 2006).

use super::{DIRTY_PAGES, LOG_DISTANCE, less, plain};
use crate::plan::{Case, Experiment, Seed, Set, Step, Work};
use crate::record::Extent;

pub const FREEZE: Experiment = Experiment {
    name: "freeze",
    title: "Does VACUUM wait for the log?",
    question: "A vacuum that reuses few buffers must flush the log each time it comes round: how \
               does VACUUM FREEZE's time depend on the ring's size, and how much of it goes to \
               flushing?",
    notes: &[
        "The seed's script: 0.5 % of the rows updated, a checkpoint, VACUUM FREEZE, once per ring \
         size. Rings are given by vacuum_buffer_usage_limit (128 kB is PostgreSQL's smallest; 0 \
         is none).",
        "The session's share is what it spent writing and syncing the log itself, as the seed \
         measured, or waiting for a page of its ring that in turn waited for the log; the \
         server's is that of all log writes and syncs in that time, whoever made them. Where the \
         views tell.",
    ],
    seed: Some(&SEED),
    figures: &[
        less("ms", "time", "ms"),
        less("log_flushes", "log syncs", ""),
        less("own_flush_pct", "flushing, session", "%"),
        plain("flush_pct", "flushing, server", "%"),
        plain("log_mib", "log written", "MiB"),
        plain("cpu_s", "CPU", "s"),
        plain("written_mib", "written", "MiB"),
    ],
    plots: &[LOG_DISTANCE, DIRTY_PAGES],
    headlines: &[("VACUUM FREEZE", "as shipped")],
    reasons: &[],
    work: Work::Servers {
        rounds: |extent| match extent {
            Extent::Quick => 1,
            Extent::Full => 5,
        },
        cases,
    },
};

static SEED: Seed = Seed {
    source: "T. Itagaki, “Dirty pages in freelist cause WAL stuck”, pgsql-hackers, 2006-12-18: \
             pgbench scale 40",
    head: &["buffers in the free list", "time", "in XLogWrite/XLogFlush"],
    rows: &[
        &["1", "68.2 s", "25.6 %"],
        &["8", "57.4 s", "10.8 %"],
        &["32", "54.0 s", "3.4 %"],
    ],
};

/// Settings that a subject may refuse come last: a refused vacuum leaves its work to the next.
const RINGS: [(&str, Option<&str>); 6] = [
    ("none", Some("0")),
    ("as shipped", None),
    ("32 pages", Some("256kB")),
    ("16 pages", Some("128kB")),
    ("8 pages", Some("64kB")),
    ("1 page", Some("8kB")),
];

fn cases(extent: Extent) -> Vec<Case> {
    let (scale, space) = match extent {
        Extent::Quick => (4, 1_000),
        Extent::Full => (40, 4_000),
    };
    let mut steps = vec![
        Step::Load(scale),
        Step::Sql("VACUUM FREEZE pgbench_accounts".to_owned()),
    ];
    for (label, ring) in RINGS {
        let update = "UPDATE pgbench_accounts SET aid = aid WHERE random() < 0.005";
        steps.push(Step::Sql(update.to_owned()));
        steps.push(Step::Sql("CHECKPOINT".to_owned()));
        let set = ring.map(|value| Set {
            name: "vacuum_buffer_usage_limit",
            value,
            required: true,
        });
        steps.push(Step::Statement {
            label: label.to_owned(),
            set: set.into_iter().collect(),
            sql: "VACUUM FREEZE pgbench_accounts".to_owned(),
        });
    }
    let pool = ("shared_buffers", "128MB");
    let settings = [
        pool,
        ("max_wal_size", "4GB"),
        ("checkpoint_timeout", "60min"),
        ("autovacuum", "off"),
        ("track_wal_io_timing", "on"),
    ];
    vec![Case::new("VACUUM FREEZE", &settings, steps).filling(space)]
}
