//! Hint bits, checksums and scans (Freund, 2024).

use super::{DIRTY_PAGES, LOG_DISTANCE, less, plain};
use crate::plan::{Case, Experiment, Reason, Seed, Set, Step, Work};
use crate::record::Extent;

pub const HINTS: Experiment = Experiment {
    name: "hints",
    title: "What does the first reader of a table pay?",
    question: "The first scan of a table after it was written sets hint bits under checksums: \
               how much longer than the second is it? The same after half the rows were updated, \
               for an ordered index scan, and a checkpoint with every page dirty.",
    notes: &[
        "Scans end in OFFSET beyond the last row, so that nothing is sent to the client.",
        "The index scans have the condition id > 0, true of every row: evenkeel goes through an \
         index for a condition, and takes its order from there; without one it would sort.",
        "Checksums are on everywhere. The direct case bypasses the page cache for data.",
    ],
    seed: Some(&SEED),
    figures: &[
        less("ms", "time", "ms"),
        plain("log_mib", "log written", "MiB"),
        plain("cpu_s", "CPU", "s"),
        plain("written_mib", "written", "MiB"),
        plain("synced_mib", "sent to disk", "MiB"),
    ],
    plots: &[LOG_DISTANCE, DIRTY_PAGES],
    headlines: &[],
    reasons: &[
        Reason {
            case: "",
            label: "checkpoint, every page dirty",
            figures: &["ms"],
            why: "Every page is written twice, into the double-write area and home; PostgreSQL writes the first copy into the log, at the page's next change.",
        },
        scans("first scan"),
        scans("second scan"),
    ],
    work: Work::Servers {
        rounds: |extent| match extent {
            Extent::Quick => 1,
            Extent::Full => 5,
        },
        cases,
    },
};

const fn scans(label: &'static str) -> Reason {
    Reason {
        case: "",
        label,
        figures: &["ms"],
        why: "A scan copies the visible rows out of each page and decodes the copies; a row costs more than in PostgreSQL's executor, which reads it in place.",
    }
}

static SEED: Seed = Seed {
    source: "A. Freund, “AIO writes vs hint bits vs checksums”, pgsql-hackers, 2024: PostgreSQL \
             with the right to set hint bits taken per page, against the version before it",
    head: &["scan of a table never read before", "difference"],
    rows: &[
        &[
            "sequential, right taken per row, first version",
            "30.8 % slower",
        ],
        &[
            "sequential, right taken per row, second version",
            "1.9 % slower",
        ],
        &["sequential, right taken per page", "7.5 % faster"],
        &["index-only", "0.65 % slower"],
        &["index, all rows fetched", "5.0 % slower"],
    ],
};

fn cases(extent: Extent) -> Vec<Case> {
    let rows = match extent {
        Extent::Quick => 200_000,
        Extent::Full => 5_000_000,
    };
    let space = if extent == Extent::Full { 6_000 } else { 2_000 };
    let settings = [
        ("shared_buffers", "1GB"),
        ("max_wal_size", "8GB"),
        ("checkpoint_timeout", "60min"),
        ("autovacuum", "off"),
        ("max_parallel_workers_per_gather", "0"),
    ];
    let mut direct = settings.to_vec();
    direct.extend([("debug_io_direct", "data"), ("io_direct", "data")]);
    vec![
        Case::new("buffered", &settings, steps(rows)).filling(space),
        Case::new("direct", &direct, steps(rows))
            .about(&["debug_io_direct", "io_direct"], false)
            .filling(space),
    ]
}

fn steps(rows: u64) -> Vec<Step> {
    let sql = |text: &str| Step::Sql(text.to_owned());
    let timed = |label: &str, text: &str| Step::Statement {
        label: label.to_owned(),
        set: Vec::new(),
        sql: text.to_owned(),
    };
    let by_index = |label: &str| Step::Statement {
        label: label.to_owned(),
        set: ["enable_seqscan", "enable_sort"]
            .map(|name| Set {
                name,
                value: "off",
                required: false,
            })
            .into(),
        sql: "SELECT * FROM k WHERE id > 0 ORDER BY id OFFSET 1000000000".to_owned(),
    };
    let scan = "SELECT * FROM h OFFSET 1000000000";
    let fill =
        |table: &str| format!("INSERT INTO {table} SELECT g, 0 FROM generate_series(1, {rows}) g");
    vec![
        sql("CREATE TABLE h (id integer NOT NULL, v integer NOT NULL)"),
        Step::Sql(fill("h")),
        sql("CHECKPOINT"),
        timed("first scan", scan),
        timed("second scan", scan),
        timed("checkpoint after the scans", "CHECKPOINT"),
        sql("UPDATE h SET v = v + 1 WHERE id % 2 = 0"),
        sql("CHECKPOINT"),
        timed("first scan, half updated", scan),
        timed("second scan, half updated", scan),
        sql("CREATE TABLE k (id integer PRIMARY KEY, v integer NOT NULL)"),
        Step::Sql(fill("k")),
        sql("CHECKPOINT"),
        by_index("first index scan"),
        by_index("second index scan"),
        sql("UPDATE k SET v = v + 1"),
        timed("checkpoint, every page dirty", "CHECKPOINT"),
    ]
}
