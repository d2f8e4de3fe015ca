//! Passes over large heaps: rings, synchronisation.

use evenkeel_storage::BlockNumber;
use evenkeel_storage::stats::IoContext;

use super::*;
use crate::table::InsertOptions;

const ROWS: usize = 2400;

/// A table of some 160 pages in a pool of 256 frames.
fn large() -> Fixture {
    let f = Fixture::with(0, 100, Some(256));
    let mut batch = RowBatch::new();
    for n in 0..ROWS {
        let row = format!("{n:05}:{}", "x".repeat(480));
        batch.push(Tid::new(BlockNumber(0), 1), row.as_bytes());
    }
    let options = InsertOptions {
        freeze: false,
        ring: Some(f.table.load_ring()),
    };
    f.commit(|txn| block_on(f.table.insert_many(txn, &batch, &options)).unwrap());
    assert!(
        (100..256).contains(&f.table.blocks()),
        "{}",
        f.table.blocks()
    );
    f
}

#[test]
fn a_large_table_is_loaded_and_read_through_rings() {
    let f = large();
    assert_eq!(f.committed().len(), ROWS);
    let row = |context| {
        let rows = f.db.pool().io_rows();
        let mut rows = rows.into_iter().filter(|row| row.context == context);
        let first = rows.next().expect("every combination has a row");
        rows.fold(first, |mut sum, row| {
            sum.hits += row.hits;
            sum.reads += row.reads;
            sum.reuses += row.reuses;
            sum
        })
    };
    let (load, scan) = (row(IoContext::BulkWrite), row(IoContext::BulkRead));
    assert!(load.reuses > 60, "{load:?}");
    assert!(scan.reuses > 60 && scan.reads > 0, "{scan:?}");
    let free = f.db.pool().stats();
    assert!(free.allocations < 256, "{free:?}");
}

#[test]
fn a_scan_begins_where_another_is_and_sees_every_row_once() {
    let f = large();
    let mut txn = f.begin();
    let snapshot = txn.snapshot().unwrap();
    let all = f.scan(&snapshot);
    assert_eq!(
        all[0].0.block,
        BlockNumber(0),
        "alone it begins at the start"
    );
    let mut batch = RowBatch::new();
    let mut first = f.table.scan(&snapshot);
    for _ in 0..80 {
        assert!(first.next_page(&mut batch).unwrap());
    }
    let mut met = f.scan(&snapshot);
    let began = met[0].0.block.0;
    assert!((48..=80).contains(&began), "began at {began}");
    met.sort();
    assert_eq!(met, all);
    // Parts of a table are read as they were asked for.
    let mut part = f.table.scan_blocks(&snapshot, 3..5);
    assert!(part.next_page(&mut batch).unwrap());
    assert_eq!(batch.tid(0).block, BlockNumber(3));
    drop(first);
    assert_eq!(f.scan(&snapshot)[0].0.block, BlockNumber(0));
}
