//! Index scans that give keys: which rows of the heap they look at, and that no dead one is among
//! them.

use super::*;
use crate::btree::LeafBatch;
use crate::heap::rows::RowBatch;
use crate::table::{Direction, KeyRange};

const ROWS: usize = 200;

fn fixture(mutant: Option<Mutant>) -> Fixture {
    let disk = SimDisk::new(1);
    let db = open_with_bug(&disk, None, mutant);
    let f = Fixture::on(&disk, db, 1, 100);
    f.commit(|txn| {
        for number in 0..ROWS {
            let row = format!("{number:03}:{number}");
            let _ = block_on(f.table.insert(txn, row.as_bytes())).unwrap();
        }
    });
    f
}

/// The number of keys, and of heap rows that were looked at.
fn scanned(f: &Fixture) -> (usize, u64) {
    let snapshot = f.begin().snapshot().unwrap();
    let scan = f
        .table
        .index_scan(&snapshot, 0, &KeyRange::all(), Direction::Forward);
    let mut scan = scan.unwrap().keys_only();
    let (mut batch, mut keys) = (RowBatch::new(), 0);
    while scan.next_page(&mut batch).unwrap() {
        keys += batch.len();
    }
    (keys, scan.take_heap_rows())
}

fn delete_every(f: &Fixture, nth: usize) -> usize {
    let mut deleted = 0;
    f.commit(|txn| {
        let snapshot = txn.snapshot().unwrap();
        let mut scan = f.table.scan(&snapshot);
        let mut batch = RowBatch::new();
        while scan.next_page(&mut batch).unwrap() {
            for at in (0..batch.len()).step_by(nth) {
                let done = block_on(f.table.delete(txn, batch.handle(at).unwrap()));
                assert!(matches!(done.unwrap(), Modified::Done(_)));
                deleted += 1;
            }
        }
    });
    deleted
}

#[test]
fn a_read_of_keys_looks_at_the_rows_of_pages_that_are_not_all_visible_and_at_no_others() {
    let f = fixture(None);
    assert_eq!(scanned(&f), (ROWS, ROWS as u64));
    f.vacuum(&VacuumOptions::default());
    assert_eq!(scanned(&f), (ROWS, 0));
    let deleted = delete_every(&f, ROWS);
    let (keys, rows) = scanned(&f);
    assert_eq!(keys, ROWS - deleted);
    assert!(rows > 0);
    f.vacuum(&VacuumOptions::default());
    assert_eq!(scanned(&f), (ROWS - deleted, 0));
}

/// Vacuum removes rows and marks their pages between the copy of a leaf's entries and the look at
/// the map; how many keys are given, of how many live rows.
fn vacuum_in_between(mutant: Option<Mutant>) -> (usize, usize) {
    let f = fixture(mutant);
    let deleted = delete_every(&f, 3);
    let snapshot = f.begin().snapshot().unwrap();
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let tree = &f.table.indexes[0];
    let mut scan = tree.scan((&snapshot).into(), all, crate::btree::Direction::Forward);
    let (mut entries, mut keys) = (LeafBatch::with_keys(), RowBatch::new());
    assert!(scan.next_page(&mut entries).unwrap());
    assert_eq!(entries.len(), ROWS, "one leaf has all");
    f.vacuum(&VacuumOptions::default());
    let _ = f
        .table
        .keys_of_entries((0, &snapshot), &entries, &mut keys)
        .unwrap();
    (keys.len(), ROWS - deleted)
}

#[test]
fn no_dead_row_is_among_the_keys_when_vacuum_comes_between_leaf_and_map() {
    let (keys, live) = vacuum_in_between(None);
    assert_eq!(keys, live);
}

#[test]
fn trusting_entries_that_may_be_stale_is_caught() {
    if !cfg!(debug_assertions) {
        println!("no mutants in this build");
        return;
    }
    let (keys, live) = vacuum_in_between(Some(Mutant::TrustStaleEntries));
    assert!(keys > live, "{keys} keys of {live} rows");
}
