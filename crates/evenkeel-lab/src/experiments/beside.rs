//! A load beside bulk work.

use super::{DIRTY_PAGES, LATENCY, NO_RECOVERY_BOUND, RATE, STOLEN, less, more, plain};
use crate::plan::{Beside, Case, Experiment, Step, Work, Workload};
use crate::record::Extent;

pub const BESIDE: Experiment = Experiment {
    name: "beside",
    title: "How much of the load is left beside bulk work?",
    question: "Eight clients read or write rows of a table far larger than the pool, and one more \
               session begins a VACUUM of that table, a COPY of twice the pool into another, or \
               a CREATE INDEX: what is left of the load's rate meanwhile, and does it come back?",
    notes: &[
        "The share is that of the rate before. Work that takes its time leaves more to the others: \
         the share means little without the time that the work took.",
        "A CREATE INDEX locks out whoever writes to the table, so that TPC-B waits for it.",
        "VACUUM finds a fifth of the rows updated; COPY reads a file that `psql` sends.",
        "Pool hits are those of sessions, without what goes through rings, where `pg_stat_io` \
         tells; else those of `pg_stat_database`, where the work itself counts too. PostgreSQL's \
         sessions report what they counted once a second.",
        NO_RECOVERY_BOUND,
        "--quick: scale 10 and a pool of 64 MB, 8 seconds a run, the work begins after 2; --full: \
         scale 100, 128 MB, 120 seconds, after 30.",
    ],
    seed: None,
    figures: &[
        more("during_pct", "left of the rate", "%"),
        less("took_s", "the work took", "s"),
        more("tps_before", "rate before", "tps"),
        more("tps_during", "rate during", "tps"),
        more("tps_after", "rate after", "tps"),
        plain("hit_before_pct", "pool hits before", "%"),
        plain("hit_during_pct", "pool hits during", "%"),
        plain("hit_after_pct", "pool hits after", "%"),
        plain("failed", "failed", ""),
        plain("stolen_pct", "processor time stolen", "%"),
    ],
    plots: &[RATE, LATENCY, DIRTY_PAGES, STOLEN],
    headlines: &[],
    reasons: &[],
    work: Work::Servers {
        rounds: |extent| match extent {
            Extent::Quick => 1,
            Extent::Full => 3,
        },
        cases,
    },
};

/// How much is run.
struct Size {
    scale: u32,
    pool_mb: u64,
    /// When the work begins, and when the run ends.
    at: u32,
    seconds: u32,
}

fn cases(extent: Extent) -> Vec<Case> {
    let size = match extent {
        Extent::Quick => Size {
            scale: 10,
            pool_mb: 64,
            at: 2,
            seconds: 8,
        },
        Extent::Full => Size {
            scale: 100,
            pool_mb: 128,
            at: 30,
            seconds: 120,
        },
    };
    let loads = [
        ("8 clients, -S", "-M prepared -S -c 8 -j 2"),
        ("8 clients, TPC-B", "-M prepared -c 8 -j 2"),
    ];
    loads.map(|(name, load)| case(name, load, &size)).into()
}

fn case(name: &str, load: &str, size: &Size) -> Case {
    let pool = format!("{}MB", size.pool_mb);
    let settings = [
        ("shared_buffers", pool.as_str()),
        ("max_wal_size", "10GB"),
        ("checkpoint_timeout", "60min"),
        ("max_recovery_time", "0"),
        ("autovacuum", "off"),
    ];
    let sql = |text: &str| Step::Sql(text.to_owned());
    let run = |label: &str, statement: &str, file_mb| {
        let beside = Beside {
            at: size.at,
            sql: statement.to_owned(),
            file_mb,
        };
        Step::Pgbench(Workload {
            beside: Some(beside),
            ..Workload::new(label, load, size.seconds)
        })
    };
    let steps = vec![
        Step::Load(size.scale),
        sql("UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid % 5 = 0"),
        sql("CHECKPOINT"),
        run("VACUUM", "VACUUM pgbench_accounts", None),
        sql("CREATE TABLE bulk (id integer, filler text)"),
        sql("CHECKPOINT"),
        run("COPY", "\\copy bulk from copy.txt", Some(2 * size.pool_mb)),
        sql("CHECKPOINT"),
        run(
            "CREATE INDEX",
            "CREATE INDEX by_balance ON pgbench_accounts (abalance)",
            None,
        ),
    ];
    Case::new(name, &settings, steps).filling(2_000 + 100 * u64::from(size.scale))
}
