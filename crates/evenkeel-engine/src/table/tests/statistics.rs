//! Counts follow the fate of transactions.

use std::time::Duration;

use super::*;
use crate::stats::Maintained;
use crate::table::SampleOptions;

fn numbers(f: &Fixture) -> [u64; 6] {
    let now = f.db.table_statistics(f.table.def().id);
    [
        now.n_tup_ins,
        now.n_tup_upd,
        now.n_tup_del,
        now.n_live_tup,
        now.n_dead_tup,
        now.n_mod_since_analyze,
    ]
}

#[test]
fn live_and_dead_rows_follow_the_fate_of_transactions() {
    let f = Fixture::new(1);
    f.put("a:1");
    f.put("b:1");
    assert_eq!(numbers(&f), [2, 0, 0, 2, 0, 2]);
    let mut open = f.begin();
    f.set(&mut open, "a:2");
    // Nothing counts before the end.
    assert_eq!(numbers(&f), [2, 0, 0, 2, 0, 2]);
    open.rollback();
    assert_eq!(numbers(&f), [2, 1, 0, 2, 1, 2]);
    let mut open = f.begin();
    open.savepoint("s");
    f.insert(&mut open, "c:1").unwrap();
    open.rollback_to("s").unwrap();
    f.insert(&mut open, "d:1").unwrap();
    open.release("s").unwrap();
    end(open);
    assert_eq!(numbers(&f), [4, 1, 0, 3, 2, 3]);
    f.commit(|txn| {
        let (tid, _) = f.find(txn, b"d").unwrap();
        f.delete(txn, tid).unwrap();
    });
    assert_eq!(numbers(&f), [4, 1, 1, 2, 3, 4]);
    let counters = f.db.table_counters(f.table.def().id);
    let done = Maintained {
        live: Some(2),
        dead: 0,
        automatic: true,
        at: 7,
        took: Duration::from_secs(1),
    };
    counters.vacuumed(&done);
    counters.analyzed(&done, true);
    let now = counters.get();
    assert_eq!(
        (now.n_live_tup, now.n_dead_tup, now.n_mod_since_analyze),
        (2, 0, 0)
    );
    assert_eq!((now.last_autovacuum, now.last_vacuum), (Some(7), None));
    assert_eq!((now.autoanalyze_count, now.n_ins_since_vacuum), (1, 0));
}

#[test]
fn reads_are_counted() {
    let f = Fixture::new(1);
    for n in 0..3 {
        f.put(&format!("{n}:row"));
    }
    let id = f.table.def().id;
    let before = f.db.table_statistics(id);
    assert_eq!(f.committed().len(), 3);
    let after = f.db.table_statistics(id);
    assert_eq!(after.seq_scan, before.seq_scan + 1);
    assert_eq!(after.seq_tup_read, before.seq_tup_read + 3);
    f.commit(|txn| assert!(f.find(txn, b"1").is_some()));
    let last = f.db.table_statistics(id);
    assert_eq!(last.idx_scan, after.idx_scan + 1);
    assert_eq!(last.idx_tup_fetch, after.idx_tup_fetch + 1);
}

#[test]
fn a_sample_has_live_rows_only_and_counts_the_others() {
    let f = Fixture::new(1);
    f.commit(|txn| {
        for n in 0..2_000 {
            f.insert(txn, &format!("{n:04}:{}", "x".repeat(40)))
                .unwrap();
        }
    });
    f.commit(|txn| {
        for n in 0..500 {
            let (tid, _) = f.find(txn, format!("{n:04}").as_bytes()).unwrap();
            f.delete(txn, tid).unwrap();
        }
    });
    let mut open = f.begin();
    f.insert(&mut open, "open:1").unwrap();
    let options = SampleOptions {
        rows: 100_000,
        seed: 3,
        ..SampleOptions::default()
    };
    let task = f.db.begin_analyze(1, 42);
    let reader = f.begin();
    let all = f.table.sample(&reader, &options, &task).unwrap();
    assert_eq!(
        (all.rows.len(), all.live(), all.dead()),
        (1_500, 1_500, 500)
    );
    assert!(all.rows.is_sorted_by_key(|(tid, _)| (tid.block, tid.slot)));
    assert_eq!(
        f.db.analyzes_in_progress()[0].progress.sample_blks_scanned,
        all.blocks
    );
    let few = SampleOptions { rows: 5, ..options };
    let few = f.table.sample(&reader, &few, &task).unwrap();
    assert_eq!((few.rows.len(), few.blocks_sampled), (5, 5));
    assert!((800..2_500).contains(&few.live()), "{}", few.live());
    // A transaction's own changes count for it.
    let (tid, _) = f.find(&mut open, b"0777").unwrap();
    f.delete(&mut open, tid).unwrap();
    let options = SampleOptions {
        rows: 100_000,
        ..SampleOptions::default()
    };
    let own = f.table.sample(&open, &options, &task).unwrap();
    assert_eq!((own.live(), own.dead()), (1_500, 501));
    assert_eq!(open.rows_changed(1), (1, 0, 1));
    drop(task);
    assert!(f.db.analyzes_in_progress().is_empty());
}
