//! Prefetching the pages that redo will need (Vondra, 2018).

use super::{DIRTY_PAGES, LOG_DISTANCE, NO_RECOVERY_BOUND, less, plain};
use crate::plan::{Case, Experiment, Reason, Recovery, Seed, Step, Work, Workload, own};
use crate::record::Extent;

pub const PREFETCH: Experiment = Experiment {
    name: "prefetch",
    title: "Does redo wait for reads?",
    question: "Random updates over data larger than the pool are replayed with an empty page \
               cache: how long with prefetching off, and on by depth?",
    notes: &[
        "The seed measured a standby's lag; here the same log is replayed by crash recovery.",
        "full_page_writes = off, so that redo has to read the pages it changes; one case shows \
         PostgreSQL with its default, where page images spare the reads and cost log, for all \
         subjects uncompressed.",
        NO_RECOVERY_BOUND,
    ],
    seed: Some(&SEED),
    figures: &[
        less("ready_s", "start to first answer", "s"),
        less("redo_s", "redo", "s"),
        plain("log_mib", "log since the redo point", "MiB"),
        plain("fetched_mib", "read from the disk", "MiB"),
        plain("cpu_s", "CPU", "s"),
    ],
    plots: &[LOG_DISTANCE, DIRTY_PAGES],
    headlines: &[],
    reasons: &[Reason {
        case: "no page images",
        label: "",
        figures: &[],
        why: "Redo reads every page that the log names and writes it home again, whatever its \
              LSN, since the page cache is not trusted after a crash; and it writes through the \
              double-write area, where PostgreSQL without page images has no protection against \
              torn pages.",
    }],
    work: Work::Servers {
        rounds: |extent| match extent {
            Extent::Quick => 1,
            Extent::Full => 3,
        },
        cases,
    },
};

static SEED: Seed = Seed {
    source: "T. Vondra, “Re: WAL prefetch”, pgsql-hackers, 2018-07-07: pgbench scale 1000 with 32 \
             clients for an hour (90 GB of log), standby with 4 cores, 8 GB, 512 MB of buffers",
    head: &["standby", "prefetch off", "prefetch on"],
    rows: &[
        &["lag after the hour", "about 70 GB", "about 30 GB"],
        &["replayed per hour", "20 GB", "60 GB"],
        &["CPU of the replaying process", "20 %", "60 %"],
        &["reads a second", "about 2,000", "about 6,500"],
    ],
};

fn cases(extent: Extent) -> Vec<Case> {
    let (scale, pool, transactions) = match extent {
        Extent::Quick => (5, "32MB", 4_000),
        Extent::Full => (100, "128MB", 100_000),
    };
    let steps = |recoveries: Vec<Step>| {
        let mut steps = crashed(scale, transactions);
        steps.extend(recoveries);
        steps
    };
    let settings = |images: &'static str, protection: &'static str| {
        [
            ("shared_buffers", pool),
            ("synchronous_commit", "off"),
            ("max_wal_size", "10GB"),
            ("checkpoint_timeout", "60min"),
            ("max_recovery_time", "0"),
            ("wal_compression", "off"),
            ("full_page_writes", images),
            ("torn_page_protection", protection),
        ]
    };
    let recovery = |label: &str, settings: &[(&'static str, &str)], needs| {
        Step::Recover(Recovery {
            label: label.to_owned(),
            settings: own(settings),
            needs,
            cold: true,
        })
    };
    let depth = |io: &'static str| {
        [
            ("recovery_prefetch", "on"),
            ("maintenance_io_concurrency", io),
        ]
    };
    let needs = Some("recovery_prefetch");
    let space = if extent == Extent::Full {
        12_000
    } else {
        2_000
    };
    vec![
        Case::new(
            "no page images",
            &settings("off", "double_write"),
            steps(vec![
                recovery("as shipped", &[], None),
                recovery("prefetch off", &[("recovery_prefetch", "off")], needs),
                recovery("depth 10", &depth("10"), needs),
                recovery("depth 100", &depth("100"), needs),
            ]),
        )
        .filling(space),
        Case::new(
            "page images",
            &settings("on", "full_page_writes"),
            steps(vec![recovery("as shipped", &[], None)]),
        )
        .about(&["full_page_writes", "torn_page_protection"], false)
        .filling(space),
    ]
}

/// A checkpoint, random updates of one row each, a crash.
fn crashed(scale: u32, transactions: u32) -> Vec<Step> {
    let updates = "\\set aid random(1, 100000 * :scale)\n\
                   UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;\n";
    let each = transactions / 8;
    let arguments = format!("-M prepared -D scale={scale} -c 8 -j 2 -t {each}");
    vec![
        Step::Load(scale),
        Step::Sql("CHECKPOINT".to_owned()),
        Step::Pgbench(Workload {
            script: Some(updates),
            ..Workload::counted("load", &arguments)
        }),
        Step::Crash,
    ]
}
