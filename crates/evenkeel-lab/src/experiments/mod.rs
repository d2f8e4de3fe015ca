//! The table of experiments.

mod beside;
mod bound;
mod embedded;
mod even;
mod flush;
mod freeze;
mod hints;
mod oltp;
mod prefetch;
mod redo;

use crate::plan::{Better, Experiment, Figure, Plot};

/// Every experiment, in the order in which they run.
pub const ALL: [&Experiment; 10] = [
    &flush::FLUSH,
    &even::EVEN,
    &beside::BESIDE,
    &redo::REDO,
    &bound::BOUND,
    &prefetch::PREFETCH,
    &hints::HINTS,
    &freeze::FREEZE,
    &oltp::OLTP,
    &embedded::EMBEDDED,
];

/// The experiment of that name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Experiment> {
    ALL.into_iter().find(|experiment| experiment.name == name)
}

const fn more(key: &'static str, label: &'static str, unit: &'static str) -> Figure {
    Figure {
        key,
        label,
        unit,
        better: Better::More,
    }
}

/// Note for experiments whose subjects are to take no checkpoint by themselves.
const NO_RECOVERY_BOUND: &str = "evenkeel's max_recovery_time is 0: it would make checkpoints \
                                 that max_wal_size does not ask for.";

/// The rate over time.
const RATE: Plot = Plot {
    key: "tps",
    label: "rate",
    unit: "transactions/s",
};

/// The latency over time.
const LATENCY: Plot = Plot {
    key: "p99_ms",
    label: "p99 latency",
    unit: "ms",
};

/// How much log recovery would read.
const LOG_DISTANCE: Plot = Plot {
    key: "log_distance_mib",
    label: "log since the redo point",
    unit: "MiB",
};

/// How many pages of the pool are yet to be written.
const DIRTY_PAGES: Plot = Plot {
    key: "dirty_pages",
    label: "dirty pages",
    unit: "pages",
};

/// Processor time that the hypervisor gave to others.
const STOLEN: Plot = Plot {
    key: "stolen_pct",
    label: "stolen processor time",
    unit: "%",
};

const fn less(key: &'static str, label: &'static str, unit: &'static str) -> Figure {
    Figure {
        better: Better::Less,
        ..more(key, label, unit)
    }
}

const fn plain(key: &'static str, label: &'static str, unit: &'static str) -> Figure {
    Figure {
        better: Better::Neither,
        ..more(key, label, unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Step, Work};
    use crate::record::Extent;
    use std::collections::BTreeSet;

    #[test]
    fn names_tell_experiments_cases_and_rows_apart() {
        let names: BTreeSet<&str> = ALL.iter().map(|e| e.name).collect();
        assert_eq!(names.len(), ALL.len());
        for experiment in ALL {
            assert!(named(experiment.name).is_some());
            let Work::Servers { rounds, cases } = &experiment.work else {
                continue;
            };
            for extent in [Extent::Quick, Extent::Full] {
                assert!(rounds(extent) > 0);
                let mut names = BTreeSet::new();
                for case in cases(extent) {
                    let labels: Vec<&str> = case.steps.iter().filter_map(label).collect();
                    let distinct: BTreeSet<&&str> = labels.iter().collect();
                    assert_eq!(distinct.len(), labels.len(), "{labels:?}");
                    assert!(names.insert(case.name.clone()), "{}", case.name);
                }
            }
        }
    }

    fn label(step: &Step) -> Option<&str> {
        match step {
            Step::Pgbench(run) => Some(&run.label),
            Step::Statement { label, .. } | Step::Restart(label) => Some(label),
            Step::Recover(recovery) => Some(&recovery.label),
            _ => None,
        }
    }

    #[test]
    fn no_step_needs_a_server_that_has_crashed() {
        for experiment in ALL {
            let Work::Servers { cases, .. } = &experiment.work else {
                continue;
            };
            for case in [Extent::Quick, Extent::Full].into_iter().flat_map(cases) {
                let mut runs = true;
                for step in &case.steps {
                    runs = match step {
                        Step::Crash => false,
                        Step::Restart(_) => true,
                        Step::Recover(_) => runs,
                        _ => {
                            assert!(runs, "{}, {}", experiment.name, case.name);
                            true
                        }
                    };
                }
            }
        }
    }

    #[test]
    fn a_reason_stands_only_where_it_explains() {
        let reason = |experiment: &str, case, label, figure| {
            named(experiment)
                .unwrap()
                .reason(case, label, figure)
                .is_some()
        };
        assert!(reason("hints", "direct", "first scan", "ms"));
        assert!(reason(
            "hints",
            "buffered",
            "second scan, half updated",
            "ms"
        ));
        assert!(!reason("hints", "buffered", "second index scan", "ms"));
        assert!(reason(
            "hints",
            "buffered",
            "checkpoint, every page dirty",
            "ms"
        ));
        assert!(!reason(
            "hints",
            "buffered",
            "checkpoint after the scans",
            "ms"
        ));
        assert!(reason("prefetch", "no page images", "depth 10", "ready_s"));
        assert!(!reason("prefetch", "page images", "as shipped", "ready_s"));
        assert!(!reason("oltp", "other protocols", "-S, simple", "max_ms"));
    }

    #[test]
    fn a_seed_is_a_full_table() {
        for seed in ALL.iter().filter_map(|e| e.seed) {
            assert!(seed.rows.iter().all(|row| row.len() == seed.head.len()));
        }
    }
}
