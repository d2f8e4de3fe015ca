//! The bound on recovery's time.

use super::{LOG_DISTANCE, RATE, less, more, plain};
use crate::plan::{Case, Experiment, Step, Work, Workload};
use crate::record::Extent;

pub const BOUND: Experiment = Experiment {
    name: "bound",
    title: "Does max_recovery_time hold, and what does it cost?",
    question: "A server is killed after a full load of TPC-B, time and again: how long is it until \
               the first query is answered, and at which rate had it worked, with \
               max_recovery_time = 5s and without a bound?",
    notes: &[
        "For subjects that have the setting.",
        "A kill comes as soon as a load has ended. The next server starts over what the last one \
         left, with what the page cache holds of it, and gets the next load.",
        "The bound goes by the speed of the recoveries before; for the first kill, by one that is \
         assumed.",
        "Each load is five seconds longer than the one before, so that not all kills come at the \
         same point between two checkpoints.",
        "--quick: scale 10, one kill after 5 seconds; --full: scale 100, ten kills, the first \
         after 60 seconds.",
    ],
    seed: None,
    figures: &[
        less("ready_s", "start to first answer", "s"),
        more("tps_before", "rate before", "tps"),
        plain("redo_s", "redo", "s"),
        plain("after_redo_s", "redo end to first answer", "s"),
        plain("log_mib", "log since the redo point", "MiB"),
        plain("cpu_s", "CPU", "s"),
    ],
    plots: &[RATE, LOG_DISTANCE],
    headlines: &[],
    reasons: &[],
    work: Work::Servers {
        rounds: |_| 1,
        cases,
    },
};

fn cases(extent: Extent) -> Vec<Case> {
    let (scale, kills, seconds) = match extent {
        Extent::Quick => (10, 1, 5),
        Extent::Full => (100, 10, 60),
    };
    let bounds = [("max_recovery_time = 5s", "5s"), ("no bound", "0")];
    let case = |(name, bound)| {
        let settings = [
            ("shared_buffers", "1GB"),
            ("max_wal_size", "10GB"),
            ("checkpoint_timeout", "60min"),
            ("max_recovery_time", bound),
        ];
        let mut steps = vec![Step::Load(scale), Step::Sql("CHECKPOINT".to_owned())];
        for kill in 0..kills {
            let label = format!("load {}", kill + 1);
            let load = Workload::new(&label, "-M prepared -c 8 -j 2", seconds + 5 * kill);
            steps.push(Step::Pgbench(load));
            steps.push(Step::Crash);
            steps.push(Step::Restart(format!("kill {}", kill + 1)));
        }
        Case::new(name, &settings, steps)
            .about(&["max_recovery_time"], false)
            .filling(2_000 + 100 * u64::from(scale))
    };
    bounds.map(case).into()
}
