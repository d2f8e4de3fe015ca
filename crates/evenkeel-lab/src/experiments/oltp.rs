//! `pgbench` as everyone knows it.

use super::{DIRTY_PAGES, LATENCY, LOG_DISTANCE, RATE, less, more, plain};
use crate::plan::{Case, Experiment, Reason, Step, Work, Workload};
use crate::record::Extent;

pub const OLTP: Experiment = Experiment {
    name: "oltp",
    title: "How fast are ordinary transactions?",
    question: "pgbench's three built-in workloads by number of clients and by protocol; the time \
               to load, the size on disk, and the log that a transaction makes.",
    notes: &["Every commit is durable unless the case says otherwise; checksums are on."],
    seed: None,
    figures: &[
        more("tps", "rate", "tps"),
        less("load_s", "load", "s"),
        less("p50_ms", "median", "ms"),
        less("p99_ms", "p99", "ms"),
        less("max_ms", "longest", "ms"),
        less("log_bytes_per_tx", "log per transaction", "bytes"),
        less("size_mib", "size on disk", "MiB"),
        plain("failed", "failed", ""),
        plain("cpu_s", "CPU", "s"),
        plain("synced_mib", "sent to disk", "MiB"),
    ],
    plots: &[RATE, LATENCY, LOG_DISTANCE, DIRTY_PAGES],
    headlines: &[
        ("prepared statements", "-S, 8 clients"),
        ("prepared statements", "-N, 8 clients"),
        ("prepared statements", "TPC-B, 8 clients"),
        ("prepared statements", "-N, 1 client"),
        ("prepared statements", "load (pgbench -i)"),
    ],
    reasons: &[Reason {
        case: "",
        label: "-S",
        figures: &["tps", "p50_ms"],
        why: "A point read takes some 17 µs of processor time on the server, half of it in the kernel's sockets; the rest is spread over framing, wake-ups of the runtime's threads and execution, and no part of it stands out.",
    }],
    work: Work::Servers {
        rounds: |extent| match extent {
            Extent::Quick => 1,
            Extent::Full => 3,
        },
        cases,
    },
};

const SETTINGS: [(&str, &str); 2] = [("shared_buffers", "1GB"), ("max_wal_size", "4GB")];

fn cases(extent: Extent) -> Vec<Case> {
    let (scale, seconds) = match extent {
        Extent::Quick => (10, 4),
        Extent::Full => (100, 30),
    };
    let case = |name: &str, settings: &[(&'static str, &str)], runs: &[(&str, &str)]| {
        let mut steps = vec![
            Step::Load(scale),
            Step::Size,
            Step::Sql("CHECKPOINT".to_owned()),
        ];
        let run = |(label, args): &(&str, &str)| Step::Pgbench(Workload::new(label, args, seconds));
        steps.extend(runs.iter().map(run));
        Case::new(name, settings, steps).filling(100 + 60 * u64::from(scale))
    };
    let prepared = [
        ("-S, 8 clients", "-M prepared -S -c 8 -j 2"),
        ("-N, 8 clients", "-M prepared -N -c 8 -j 2"),
        ("TPC-B, 8 clients", "-M prepared -c 8 -j 2"),
        ("-N, 1 client", "-M prepared -N -c 1"),
    ];
    let mut cases = vec![case("prepared statements", &SETTINGS, &prepared)];
    if extent == Extent::Quick {
        return cases;
    }
    let clients = [
        ("-S, 1 client", "-M prepared -S -c 1"),
        ("-S, 64 clients", "-M prepared -S -c 64 -j 2"),
        ("-N, 64 clients", "-M prepared -N -c 64 -j 2"),
        ("TPC-B, 1 client", "-M prepared -c 1"),
        ("TPC-B, 64 clients", "-M prepared -c 64 -j 2"),
    ];
    let protocols = [
        ("-S, simple", "-M simple -S -c 8 -j 2"),
        ("-S, extended", "-M extended -S -c 8 -j 2"),
        ("-N, simple", "-M simple -N -c 8 -j 2"),
        ("-N, extended", "-M extended -N -c 8 -j 2"),
    ];
    let with = |name, value| {
        let mut settings = SETTINGS.to_vec();
        settings.retain(|(known, _)| *known != name);
        settings.push((name, value));
        settings
    };
    let few = &prepared[..3];
    cases.push(case("more and fewer clients", &SETTINGS, &clients));
    cases.push(case("other protocols", &SETTINGS, &protocols));
    cases.push(
        case(
            "commits not durable at once",
            &with("synchronous_commit", "off"),
            few,
        )
        .about(&["synchronous_commit"], false),
    );
    cases.push(case(
        "pool far smaller than the data",
        &with("shared_buffers", "64MB"),
        few,
    ));
    cases
}
