//! Findings of a check.

use evenkeel_io::{Disk, OpenOptions};

use super::*;
use crate::btree::{InsertOutcome, UniqueCheck};
use crate::heap::layout::{HeapRead, LpState};
use crate::table::CheckStep;

fn problems(f: &Fixture) -> Vec<String> {
    f.table.check().unwrap().problems
}

#[test]
fn a_check_finds_entries_and_rows_that_do_not_have_each_other() {
    let f = Fixture::new(2);
    let a = f.put("a:1");
    let entry = |index: usize, key: &[u8], tid| {
        let mut txn = f.begin();
        let xid = txn.xid().unwrap();
        let inserted = f.table.indexes[index].insert(xid, key, tid, UniqueCheck::None);
        assert_eq!(inserted.unwrap(), InsertOutcome::Inserted);
        end(txn);
    };
    f.assert_sound();
    let nowhere = Tid::new(a.block, 77);
    let far = Tid::new(evenkeel_storage::BlockNumber(1_000), 1);
    entry(BY_VALUE, &key("0"), far);
    entry(BY_VALUE, &key("0"), nowhere);
    entry(BY_VALUE, &key("2"), a);
    assert_eq!(
        problems(&f),
        [
            format!("index \"by_value\": entry for {a}, the row there has another key"),
            format!("index \"by_value\": entry for {nowhere}, no row there"),
            format!("index \"by_value\": entry for {far}, no row there"),
        ]
    );
    // An index that has lost its entries.
    let f = Fixture::new(1);
    f.put("a:1");
    let mut lost = f.table.def().clone();
    lost.indexes.clear();
    let without = Table::open(&f.db, lost).unwrap();
    let mut txn = f.begin();
    txn.begin_statement().unwrap();
    let tid = block_on(without.insert(&mut txn, b"c:1")).unwrap();
    end(txn);
    assert_eq!(
        problems(&f),
        [format!("index \"by_key\": no entry for the row at {tid}")]
    );
}

#[test]
fn a_key_that_a_live_version_shares_with_a_dead_one_must_be_in_the_index() {
    let f = Fixture::new(1);
    let mut without = f.table.def().clone();
    without.indexes.clear();
    let table = Table::open(&f.db, without).unwrap();
    let mut txn = f.begin();
    txn.begin_statement().unwrap();
    let tid = block_on(table.insert(&mut txn, b"a:1")).unwrap();
    end(txn);
    let mut txn = f.begin();
    txn.begin_statement().unwrap();
    block_on(table.update(
        &mut txn,
        RowHandle::unguarded(tid),
        b"a:2",
        KeyHint::Unchanged,
    ))
    .unwrap();
    end(txn);
    assert_eq!(problems(&f).len(), 1, "{:?}", problems(&f));
}

#[test]
fn an_entry_whose_version_was_rolled_back_and_pruned_is_no_fault() {
    let f = Fixture::new(1);
    let mut dropped = f.table.def().clone();
    dropped.indexes.clear();
    let without = Table::open(&f.db, dropped).unwrap();
    let mut txn = f.begin();
    txn.begin_statement().unwrap();
    let tid = block_on(f.table.insert(&mut txn, b"a:1")).unwrap();
    txn.begin_statement().unwrap();
    // The index is dropped, so a change of its column is heap-only.
    let row = RowHandle::unguarded(tid);
    let updated = block_on(without.update(&mut txn, row, b"b:1", KeyHint::Compare)).unwrap();
    let Modified::Done(second) = updated else {
        panic!("{updated:?}");
    };
    txn.rollback();
    let horizon = f.db.horizon();
    let mut page = f.table.heap().write(tid.block).unwrap();
    assert!(f.table.prune_locked(&mut page, &horizon).unwrap());
    let redirect = page.line_pointer(tid.slot);
    assert_eq!(
        (redirect.state, redirect.offset),
        (LpState::Redirect, second.slot)
    );
    drop(page);
    f.assert_sound();
}

#[test]
fn a_check_finds_a_heap_that_was_cut() {
    let f = Fixture::new(1);
    f.commit(|txn| {
        for n in 0..200 {
            f.insert(txn, &format!("{n:04}:{}", "x".repeat(1000)))
                .unwrap();
        }
    });
    f.vacuum(&VacuumOptions::default());
    f.assert_sound();
    let blocks = f.table.blocks();
    f.db.close().unwrap();
    let path = format!("{DIR}/{}", f.files[0]);
    let disk = f.disk.process_crash();
    let heap = disk.open(path.as_ref(), OpenOptions::read_write()).unwrap();
    let kept = blocks / 2;
    // Without the manifest the heap is taken to be as long as it is.
    for number in 0..2 {
        let name = format!("{DIR}/manifest.{number}");
        disk.remove(name.as_ref()).unwrap();
    }
    heap.set_len(u64::from(kept) * 8192).unwrap();
    let cut = f.reopened(disk);
    assert_eq!(cut.table.blocks(), kept);
    let pages = cut.db.check_pages(&mut |_| {}).unwrap();
    assert!(pages.problems[0].contains("/manifest."), "{pages:?}");
    let found = problems(&cut);
    let heap = format!("file {} has {kept} blocks, but had block ", f.files[0]);
    assert!(found[0].starts_with(&heap), "{}", found[0]);
    let entries = found.iter().filter(|text| text.contains("no row there"));
    assert_eq!(entries.count(), found.len() - 1);
    assert!(found.len() > 7);
    // Rows that take the places of those that are gone hide nothing.
    cut.commit(|txn| {
        for n in 0..20 {
            cut.insert(txn, &format!("new {n}:{}", "x".repeat(1000)))
                .unwrap();
        }
    });
    let found = problems(&cut);
    let others = found.iter().filter(|text| text.contains("has another key"));
    assert!(others.count() > 7, "{found:?}");
}

#[test]
fn a_check_says_how_far_it_has_come() {
    let f = Fixture::new(2);
    f.commit(|txn| {
        for n in 0..100 {
            f.insert(txn, &format!("{n:04}:{}", "x".repeat(1000)))
                .unwrap();
        }
    });
    let mut steps: Vec<(Option<String>, u32, u32)> = Vec::new();
    let mut told = |step: CheckStep<'_>| {
        steps.push((step.index.map(str::to_owned), step.blocks_done, step.blocks));
    };
    f.table.check_telling(&mut told).unwrap();
    for part in [None, Some("by_key"), Some("by_value")] {
        let steps: Vec<_> = steps
            .iter()
            .filter(|step| step.0.as_deref() == part)
            .collect();
        assert!(!steps.is_empty(), "{part:?}");
        assert!(steps.iter().all(|step| step.1 <= step.2 && step.2 > 0));
        assert!(steps.is_sorted_by_key(|step| step.1));
    }
}
