//! Recovery's lists: the time of a change by the number of pages that the log changes. Beyond the
//! processor's caches each costs some misses.
//! `cargo bench -p evenkeel-storage --features bench --bench lists`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use evenkeel_storage::recovery::bench::list;

/// Changes of a run, enough that the lists' thread is not noticed.
const PARTS: u64 = 2_000_000;

fn lists(c: &mut Criterion) {
    let mut group = c.benchmark_group("recovery: lists of changes");
    group
        .sample_size(10)
        .throughput(Throughput::Elements(PARTS));
    for pages in [10_000, 1_000_000, 10_000_000] {
        group.bench_function(format!("{pages} pages"), |b| {
            b.iter_custom(|runs| (0..runs).map(|_| list(pages, PARTS)).sum());
        });
    }
    group.finish();
}

criterion_group!(benches, lists);
criterion_main!(benches);
