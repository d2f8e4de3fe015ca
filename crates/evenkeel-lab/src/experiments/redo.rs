//! Recovery of a crashed server (Munro and Wartak, 2020).

use super::{DIRTY_PAGES, LOG_DISTANCE, NO_RECOVERY_BOUND, less, plain};
use crate::plan::{Case, Experiment, Recovery, Seed, Step, Work, Workload, own};
use crate::record::Extent;

pub const REDO: Experiment = Experiment {
    name: "redo",
    title: "How long is recovery after a crash?",
    question: "A server is killed after a million transactions without a checkpoint. How long is \
               redo, and how long is it until the first query is answered?",
    notes: &[
        "The crashed directory is kept, and each recovery runs on a copy of it, which is synced \
         first; warm: the copy is read into the page cache; cold: the page cache is emptied.",
        NO_RECOVERY_BOUND,
        "The seed's uuid_generate_v4() is gen_random_uuid() here: the wheel has no uuid-ossp.",
        "--quick: 20,000 transactions at scale 2.",
    ],
    seed: Some(&SEED),
    figures: &[
        less("ready_s", "start to first answer", "s"),
        less("redo_s", "redo", "s"),
        less("after_redo_s", "redo end to first answer", "s"),
        plain("log_mib", "log since the redo point", "MiB"),
        plain("cpu_s", "CPU", "s"),
    ],
    plots: &[LOG_DISTANCE, DIRTY_PAGES],
    headlines: &[("TPC-B", "128MB, cold")],
    reasons: &[],
    work: Work::Servers {
        rounds: |extent| match extent {
            Extent::Quick => 1,
            Extent::Full => 3,
        },
        cases,
    },
};

static SEED: Seed = Seed {
    source: "T. Munro and J. Wartak, “Handing off SLRU fsyncs to the checkpointer”, \
             pgsql-hackers, 2020: Munro on a disk with 2.5 ms per sync, Wartak on 16 processors \
             and a volume of 157 MB/s (redo; redo end to open)",
    head: &["run", "before", "after that work"],
    rows: &[
        &[
            "1,000,000 TPC-B, commit timestamps (Munro)",
            "16.83 s",
            "4.00 s",
        ],
        &["8,000,000 TPC-B, all cached (Munro)", "48.9 s", "39.1 s"],
        &[
            "TPC-B, 8 clients (Wartak)",
            "73.0 s; 0.9 s",
            "58.9 s; 0.3 s (NVMe, both patches)",
        ],
        &[
            "UUID inserts, three indexes (Wartak)",
            "120.7 s; 5.3 s",
            "99.1 s; 7.1 s",
        ],
        &[
            "UUID inserts, 24 GB of buffers (Wartak)",
            "39.0 s; 15.6 s",
            "40.0 s; 0 s (no end-of-recovery checkpoint)",
        ],
    ],
};

const INSERTS: &str = "BEGIN; INSERT INTO t (c1,c2,c3,c4) values ( gen_random_uuid(), \
                       gen_random_uuid(),round(5000*random()), 500); END;\n";

const SETTINGS: [(&str, &str); 6] = [
    ("shared_buffers", "1GB"),
    ("synchronous_commit", "off"),
    ("track_commit_timestamp", "on"),
    ("max_wal_size", "10GB"),
    ("checkpoint_timeout", "60min"),
    ("max_recovery_time", "0"),
];

fn cases(extent: Extent) -> Vec<Case> {
    let (scale, transactions, inserts) = match extent {
        Extent::Quick => (2, 20_000, 20_000),
        Extent::Full => (10, 1_000_000, 1_000_000),
    };
    let mut tpcb = vec![
        Step::Load(scale),
        Step::Sql("CHECKPOINT".to_owned()),
        Step::Pgbench(Workload::counted(
            "load",
            &format!("-M prepared -c 1 -t {transactions}"),
        )),
        Step::Crash,
    ];
    tpcb.extend(recoveries(extent));
    let tables = [
        "CREATE TABLE t (c1 uuid NOT NULL, c2 uuid NOT NULL, c3 integer NOT NULL, c4 integer NOT NULL)",
        "CREATE INDEX i1 ON t USING btree (c1)",
        "CREATE INDEX i2 ON t USING btree (c2)",
        "CREATE INDEX i3 ON t USING btree (c3)",
        "CHECKPOINT",
    ];
    let mut uuid: Vec<Step> = tables.map(|sql| Step::Sql(sql.to_owned())).into();
    uuid.push(Step::Pgbench(Workload {
        script: Some(INSERTS),
        ..Workload::counted("load", &format!("-c 8 -j 2 -t {}", inserts / 8))
    }));
    uuid.push(Step::Crash);
    uuid.extend(recoveries(extent));
    let space = if extent == Extent::Full {
        12_000
    } else {
        2_000
    };
    vec![
        Case::new("TPC-B", &SETTINGS, tpcb).filling(space),
        Case::new("UUID inserts", &SETTINGS, uuid).filling(space),
    ]
}

fn recoveries(extent: Extent) -> Vec<Step> {
    let pools: &[&str] = match extent {
        Extent::Quick => &["128MB"],
        Extent::Full => &["128MB", "1GB"],
    };
    let mut steps = Vec::new();
    for pool in pools {
        for (word, cold) in [("warm", false), ("cold", true)] {
            steps.push(Step::Recover(Recovery {
                label: format!("{pool}, {word}"),
                settings: own(&[("shared_buffers", pool)]),
                needs: None,
                cold,
            }));
        }
    }
    steps
}
