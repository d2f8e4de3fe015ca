//! Continuous flushing by the checkpointer (Coelho, 2015).

use super::{DIRTY_PAGES, LATENCY, LOG_DISTANCE, RATE, less, more, plain};
use crate::plan::{Case, Experiment, Seed, Step, Work, Workload};
use crate::record::Extent;

pub const FLUSH: Experiment = Experiment {
    name: "flush",
    title: "Does a checkpoint stall transactions on a slow disk?",
    question: "Moderate and full load while checkpoints run, on a disk that writes slowly: how \
               many transactions are late, how deep is the worst second, how even is the rate?",
    notes: &[
        "The slow disk is a control group that may write 400 times a second, from the end of the \
         load phase on.",
        "A subject without a setting to switch its flushing has one case only.",
        "--quick: scale 10 and -R 100 as in the seed, but 16 seconds a run with one checkpoint \
         asked for after 4; --full: 100 seconds a run, checkpoints every 30 s by time.",
    ],
    seed: Some(&SEED),
    figures: &[
        less("late_pct", "late or skipped", "%"),
        more("tps", "rate", "tps"),
        less("tps_stddev", "σ of 1 s rates", "tps"),
        more("worst_second_tps", "worst second", "tps"),
        less("empty_seconds", "seconds at zero", ""),
        less("p99_ms", "p99", "ms"),
        less("max_ms", "longest", "ms"),
        plain("failed", "failed", ""),
        plain("synced_mib", "sent to disk", "MiB"),
    ],
    plots: &[RATE, LATENCY, LOG_DISTANCE, DIRTY_PAGES],
    headlines: &[("flushing on, -R 100", "-R 100")],
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
    source: "F. Coelho, “checkpointer continuous flushing”, pgsql-hackers, 2015-06-01: scale 10, \
             8 cores, ext4 on a hardware RAID of spinning disks, shared_buffers = 1GB, \
             checkpoint_timeout = 30s, completion target 0.8",
    head: &["run", "flushing off", "flushing on"],
    rows: &[
        &["-N -R 100 -L 100: late or skipped", "6.5 %", "0.4 %"],
        &["-N -R 150 -L 100: late or skipped", "8.0 %", "0.4 %"],
        &[
            "-N, 1 client: rate ± σ of 1 s rates",
            "691 ± 236 tps",
            "657 ± 130 tps",
        ],
        &[
            "-N, 4 clients: rate ± σ of 1 s rates",
            "1970 ± 783 tps",
            "1594 ± 618 tps",
        ],
    ],
};

const WRITES_A_SECOND: u32 = 400;

fn cases(extent: Extent) -> Vec<Case> {
    let flushing = [
        ("flushing off", "0", "0"),
        ("flushing on", "256kB", "512kB"),
    ];
    let mut cases = Vec::new();
    for (name, checkpoint, background) in flushing {
        for run in runs(extent) {
            let settings = [
                ("shared_buffers", "1GB"),
                ("checkpoint_timeout", "30s"),
                ("checkpoint_completion_target", "0.8"),
                ("checkpoint_flush_after", checkpoint),
                ("bgwriter_flush_after", background),
            ];
            let name = format!("{name}, {}", run.label);
            let steps = vec![
                Step::Load(10),
                Step::Sql("CHECKPOINT".to_owned()),
                Step::SlowDisk(WRITES_A_SECOND),
                Step::Pgbench(run),
            ];
            let case = Case::new(&name, &settings, steps);
            cases.push(case.about(&["checkpoint_flush_after"], checkpoint != "0"));
        }
    }
    cases
}

fn runs(extent: Extent) -> Vec<Workload> {
    let late = |run: Workload| Workload {
        limit_ms: Some(100),
        ..run
    };
    match extent {
        Extent::Quick => {
            let run = Workload::new("-R 100", "-M prepared -N -c 1 -R 100 -L 100", 16);
            vec![Workload {
                checkpoint_at: Some(4),
                ..late(run)
            }]
        }
        Extent::Full => vec![
            late(Workload::new(
                "-R 100",
                "-M prepared -N -c 1 -R 100 -L 100",
                100,
            )),
            late(Workload::new(
                "-R 150",
                "-M prepared -N -c 1 -R 150 -L 100",
                100,
            )),
            Workload::new("1 client", "-M prepared -N -c 1", 100),
            Workload::new("4 clients", "-M prepared -N -j 2 -c 4", 100),
        ],
    }
}
