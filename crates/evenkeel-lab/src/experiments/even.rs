//! The rate of a full load while checkpoints run.

use super::{DIRTY_PAGES, LATENCY, LOG_DISTANCE, RATE, STOLEN, less, more, plain};
use crate::plan::{Case, Experiment, Step, Work, Workload};
use crate::record::Extent;

pub const EVEN: Experiment = Experiment {
    name: "even",
    title: "Does a checkpoint show in a full load?",
    question: "TPC-B at full speed on the disk as it is, while checkpoints run: how deep is the \
               worst second beside the one in the middle, and how much longer than the median do \
               the slowest transactions take?",
    notes: &[
        "The aim: no second below 80 % of the median second, and p99.9 at most three times the \
         median latency.",
        "A virtual machine's seconds are not all alike: a second is calm when the hypervisor took \
         at most 3 % of the processor time from it. The worst calm second is in percent of the \
         median calm second.",
        "--quick: scale 10, 20 seconds with one checkpoint asked for after 5; --full: scale 100, \
         600 seconds, checkpoints every 60 s by time.",
    ],
    seed: None,
    figures: &[
        more("worst_second_pct", "worst second of median", "%"),
        less("p999_times", "p99.9 over median", "×"),
        more("worst_calm_pct", "worst calm second", "%"),
        more("tps", "rate", "tps"),
        less("p50_ms", "median", "ms"),
        less("p99_ms", "p99", "ms"),
        less("p999_ms", "p99.9", "ms"),
        less("max_ms", "longest", "ms"),
        plain("failed", "failed", ""),
        plain("stolen_pct", "processor time stolen", "%"),
        plain("calm_seconds", "calm seconds", ""),
    ],
    plots: &[RATE, LATENCY, LOG_DISTANCE, DIRTY_PAGES, STOLEN],
    headlines: &[("TPC-B", "8 clients")],
    reasons: &[],
    work: Work::Servers {
        rounds: |_| 1,
        cases,
    },
};

fn cases(extent: Extent) -> Vec<Case> {
    let (scale, seconds, checkpoint_at) = match extent {
        Extent::Quick => (10, 20, Some(5)),
        Extent::Full => (100, 600, None),
    };
    let settings = [
        ("shared_buffers", "1GB"),
        ("max_wal_size", "4GB"),
        ("checkpoint_timeout", "60s"),
    ];
    let run = Workload {
        checkpoint_at,
        ..Workload::new("8 clients", "-M prepared -c 8 -j 2", seconds)
    };
    let steps = vec![
        Step::Load(scale),
        Step::Sql("CHECKPOINT".to_owned()),
        Step::Pgbench(run),
    ];
    vec![Case::new("TPC-B", &settings, steps).filling(1_000 + 60 * u64::from(scale))]
}
