//! One session: visibility, HOT, pruning, unique keys, bulk loads, scans, index builds.

use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel_storage::BlockNumber;

use super::*;
use crate::CancelFlag;
use crate::error::EngineError;
use crate::heap::layout::{HeapRead, MAX_ROW};
use crate::table::{Arbiter, Direction, InsertOptions, Inserted, KeyRange};
use crate::vm::{ALL_FROZEN, ALL_VISIBLE};

#[test]
fn rows_are_seen_after_commit_and_not_after_rollback() {
    let f = Fixture::new(2);
    f.put("a:1");
    let mut txn = f.begin();
    f.insert(&mut txn, "b:2").unwrap();
    assert_eq!(f.rows(&mut txn), ["a:1", "b:2"]);
    assert_eq!(f.committed(), ["a:1"]);
    txn.rollback();
    assert_eq!(f.committed(), ["a:1"]);
    f.assert_sound();
}

#[test]
fn a_statement_never_sees_its_own_changes() {
    let f = Fixture::new(1);
    let mut txn = f.begin();
    txn.begin_statement().unwrap();
    let snapshot = txn.snapshot().unwrap();
    let tid = block_on(f.table.insert(&mut txn, b"a:1")).unwrap();
    assert!(f.rows_at(&snapshot).is_empty());
    assert_eq!(f.rows(&mut txn), ["a:1"]);
    // A statement that updates a row sees the old version to its end, and does not meet the new.
    txn.begin_statement().unwrap();
    let snapshot = txn.snapshot().unwrap();
    let done = f.update(&mut txn, tid, "a:2").unwrap();
    assert!(matches!(done, Modified::Done(_)));
    assert_eq!(f.rows_at(&snapshot), ["a:1"]);
    assert_eq!(
        f.update(&mut txn, tid, "a:3").unwrap(),
        Modified::SelfModified
    );
    assert_eq!(f.delete(&mut txn, tid).unwrap(), Modified::SelfModified);
    assert_eq!(f.rows(&mut txn), ["a:2"]);
}

#[test]
fn a_row_can_be_updated_again_and_again_in_one_transaction() {
    let f = Fixture::new(2);
    let mut txn = f.begin();
    f.insert(&mut txn, "a:0").unwrap();
    for n in 1..50 {
        f.set(&mut txn, &format!("a:{n}"));
        assert_eq!(f.rows(&mut txn), [format!("a:{n}")]);
    }
    end(txn);
    assert_eq!(f.committed(), ["a:49"]);
    f.assert_sound();
}

#[test]
fn a_savepoint_rollback_brings_the_former_version_back() {
    let f = Fixture::new(2);
    f.put("a:0");
    let mut txn = f.begin();
    f.set(&mut txn, "a:1");
    f.insert(&mut txn, "b:1").unwrap();
    txn.savepoint("s");
    f.set(&mut txn, "a:2");
    f.set(&mut txn, "b:2");
    let (tid, _) = {
        txn.begin_statement().unwrap();
        f.find(&mut txn, b"b").unwrap()
    };
    assert!(matches!(
        f.delete(&mut txn, tid).unwrap(),
        Modified::Done(_)
    ));
    assert_eq!(f.rows(&mut txn), ["a:2"]);
    txn.rollback_to("s").unwrap();
    assert_eq!(f.rows(&mut txn), ["a:1", "b:1"]);
    f.set(&mut txn, "a:3");
    f.set(&mut txn, "b:3");
    assert_eq!(f.rows(&mut txn), ["a:3", "b:3"]);
    end(txn);
    assert_eq!(f.committed(), ["a:3", "b:3"]);
    f.assert_sound();
}

#[test]
fn an_update_that_changes_no_key_is_hot() {
    let f = Fixture::new(1);
    let tid = f.put("a:1");
    let new = f.commit(|txn| f.set(txn, "a:2"));
    assert_eq!(new.block, tid.block);
    let report = f.table.check().unwrap();
    assert_eq!((report.tuples, report.index_entries), (2, 1));
    f.commit(|txn| {
        txn.begin_statement().unwrap();
        assert_eq!(
            f.update(txn, new, "b:2").unwrap(),
            Modified::Done(Tid::new(new.block, 3))
        );
    });
    assert_eq!(f.table.check().unwrap().index_entries, 2);
    assert_eq!(f.committed(), ["b:2"]);
    f.assert_sound();
}

#[test]
fn pruning_makes_room_on_the_page_for_update_after_update() {
    let f = Fixture::new(1);
    f.put("a:0");
    let row = |n: usize| format!("a:{n}{}", "x".repeat(500));
    for n in 0..400 {
        f.commit(|txn| f.set(txn, &row(n)));
    }
    assert!(f.table.blocks() <= 3, "{} blocks", f.table.blocks());
    assert_eq!(
        f.table.check().unwrap().index_entries,
        u64::from(f.table.blocks())
    );
    assert_eq!(f.committed(), [row(399)]);
    f.assert_sound();
}

#[test]
fn a_page_that_an_old_snapshot_needs_is_not_pruned() {
    let f = Fixture::new(1);
    f.put("a:old");
    let mut old = f.begin_rr();
    let row = |n: usize| format!("a:{n}{}", "x".repeat(500));
    for n in 0..100 {
        f.commit(|txn| f.set(txn, &row(n)));
        assert_eq!(f.rows(&mut old), ["a:old"]);
    }
    f.vacuum(&VacuumOptions::default());
    assert_eq!(f.rows(&mut old), ["a:old"]);
    end(old);
    f.vacuum(&VacuumOptions::default());
    assert_eq!(f.table.check().unwrap().tuples, 1);
    f.assert_sound();
}

#[test]
fn a_second_live_row_with_the_same_key_is_refused() {
    let f = Fixture::new(2);
    f.put("a:1");
    let mut txn = f.begin();
    let error = f.insert(&mut txn, "a:2").unwrap_err();
    assert!(matches!(error, EngineError::UniqueViolation { ref index, .. } if index == "by_key"));
    txn.rollback();
    // A key whose row is deleted is free, in the same transaction and in others.
    f.commit(|txn| {
        txn.begin_statement().unwrap();
        let (tid, _) = f.find(txn, b"a").unwrap();
        f.delete(txn, tid).unwrap();
        f.insert(txn, "a:3").unwrap();
    });
    // NULL keys never conflict.
    f.put(":n");
    f.put(":n");
    assert_eq!(f.committed(), [":n", ":n", "a:3"]);
    f.assert_sound();
}

#[test]
fn an_insert_that_yields_leaves_nothing_behind() {
    let f = Fixture::new(2);
    let there = f.put("a:1");
    let mut txn = f.begin();
    txn.begin_statement().unwrap();
    let snapshot = txn.snapshot().unwrap();
    let mut put = |row: &[u8]| {
        let done = f
            .table
            .insert_or_conflict(&mut txn, &snapshot, row, Arbiter::Any);
        block_on(done).unwrap()
    };
    let row = RowHandle::unguarded(there);
    assert_eq!(put(b"a:2"), Inserted::Conflict { index: BY_KEY, row });
    let outcome = put(b"b:2");
    assert!(matches!(outcome, Inserted::Done(_)));
    assert_eq!(f.rows(&mut txn), ["a:1", "b:2"]);
    end(txn);
    f.assert_sound();
}

/// Without the snapshot the slot would go to the row that is inserted last.
#[test]
fn a_row_in_the_way_keeps_its_place_while_the_snapshot_is_held() {
    let f = Fixture::new(1);
    let there = f.put("a:1");
    let mut txn = f.begin();
    txn.begin_statement().unwrap();
    let snapshot = txn.snapshot().unwrap();
    let tried = f
        .table
        .insert_or_conflict(&mut txn, &snapshot, b"a:2", Arbiter::Any);
    let Inserted::Conflict { row, .. } = block_on(tried).unwrap() else {
        panic!("no conflict");
    };
    f.commit(|other| f.delete(other, there).unwrap());
    f.vacuum(&VacuumOptions::default());
    assert_ne!(f.put("b:1"), there);
    let updated = f.table.update(&mut txn, row, b"a:2", KeyHint::Compare);
    assert_eq!(block_on(updated).unwrap(), Modified::Gone);
    drop(snapshot);
    end(txn);
    f.vacuum(&VacuumOptions::default());
    assert_eq!(f.put("c:1"), there);
    assert_eq!(f.committed(), ["b:1", "c:1"]);
}

/// The slot of a row goes with the subtransaction that made it, whoever has seen it.
#[test]
fn a_row_of_a_subtransaction_that_was_rolled_back_is_not_taken_for_another() {
    let f = Fixture::new(1);
    let mut txn = f.begin();
    let sub = txn.begin_sub();
    let tid = f.insert(&mut txn, "a:1").unwrap();
    txn.begin_statement().unwrap();
    let mut found = RowBatch::new();
    let snapshot = txn.snapshot().unwrap();
    assert!(f.table.fetch_into(&snapshot, tid, &mut found).unwrap());
    txn.abort_sub(sub);
    f.vacuum(&VacuumOptions::default());
    assert_eq!(f.put("b:1"), tid);
    let row = found.handle(0).unwrap();
    let updated = f.table.update(&mut txn, row, b"a:2", KeyHint::Compare);
    assert!(matches!(
        block_on(updated),
        Err(EngineError::StaleRow { .. })
    ));
    assert_eq!(f.committed(), ["b:1"]);
}

#[test]
fn rows_up_to_the_page_limit_are_stored_and_larger_ones_refused() {
    let f = Fixture::new(1);
    let row = format!("a:{}", "x".repeat(MAX_ROW - 2));
    f.put(&row);
    f.put(&row.replace("a:", "b:"));
    let mut txn = f.begin();
    let error = f.insert(&mut txn, &format!("c{row}")).unwrap_err();
    assert!(matches!(
        error,
        EngineError::RowTooLarge { max: MAX_ROW, .. }
    ));
    txn.rollback();
    assert_eq!(f.committed().len(), 2);
    f.commit(|txn| f.set(txn, "a:short"));
    assert_eq!(f.committed()[0], "a:short");
    f.assert_sound();
}

#[test]
fn an_update_moves_to_another_page_when_its_own_is_full() {
    let f = Fixture::new(2);
    f.commit(|txn| {
        for n in 0..60 {
            f.insert(txn, &format!("{n:02}:{}", "x".repeat(100)))
                .unwrap();
        }
    });
    f.commit(|txn| {
        for n in 0..60 {
            f.set(txn, &format!("{n:02}:{}", "y".repeat(1000)));
        }
    });
    assert_eq!(f.committed().len(), 60);
    assert!(f.committed().iter().all(|row| row.ends_with("yyy")));
    f.assert_sound();
}

#[test]
fn fillfactor_leaves_room_for_updates() {
    let full = Fixture::with(0, 100, None);
    let half = Fixture::with(0, 50, None);
    for f in [&full, &half] {
        f.commit(|txn| {
            for n in 0..200 {
                f.insert(txn, &format!("{n}:{}", "x".repeat(100))).unwrap();
            }
        });
    }
    let guard = half.table.heap().read(BlockNumber(0)).unwrap();
    assert!(guard.gap() >= 4000, "{}", guard.gap());
    let guard = full.table.heap().read(BlockNumber(0)).unwrap();
    assert!(guard.gap() < 200, "{}", guard.gap());
}

fn many(rows: usize) -> RowBatch {
    let mut batch = RowBatch::new();
    let nowhere = Tid::new(BlockNumber(0), 0);
    for n in 0..rows {
        batch.push(nowhere, format!("{n:06}:value {}", n % 7).as_bytes());
    }
    batch
}

#[test]
fn bulk_inserts_fill_pages() {
    let f = Fixture::new(2);
    f.commit(|txn| {
        let options = InsertOptions::default();
        block_on(f.table.insert_many(txn, &many(3000), &options)).unwrap();
    });
    assert_eq!(f.committed().len(), 3000);
    // 48 bytes a tuple and 4 a line pointer.
    assert!(
        f.table.blocks() <= 3000 / 150 + 3,
        "{} blocks",
        f.table.blocks()
    );
    f.assert_sound();
}

#[test]
fn a_frozen_load_needs_no_vacuum() {
    let f = Fixture::new(0);
    let f = f.commit(|txn| {
        let f = with_new_files(&f, txn);
        load_frozen(&f, txn, 1000).unwrap();
        f
    });
    for block in 0..f.table.blocks() {
        let bits = f.table.vm().bits(BlockNumber(block)).unwrap();
        assert_eq!(bits, ALL_VISIBLE | ALL_FROZEN);
    }
    let stats = f.vacuum(&VacuumOptions {
        freeze: true,
        ..VacuumOptions::default()
    });
    assert_eq!(stats.pages_scanned, 0);
    // An update ends the page's state in page and map.
    f.commit(|txn| f.set(txn, "000003:changed"));
    assert_eq!(f.table.vm().bits(BlockNumber(0)).unwrap(), 0);
    assert_eq!(f.committed().len(), 1000);
    f.assert_sound();
}

/// The same database with a new table, which has an index on keys.
fn with_new_files(f: &Fixture, txn: &mut Transaction) -> Fixture {
    let files = vec![txn.create_file().unwrap(), txn.create_file().unwrap()];
    let xid = txn.xid().unwrap();
    let _ = BTree::create(f.db.store(), xid, files[1]).unwrap();
    Fixture {
        table: Table::open(&f.db, def(&files, 100)).unwrap(),
        files,
        ..f.clone()
    }
}

fn load_frozen(f: &Fixture, txn: &mut Transaction, rows: usize) -> EngineResult<()> {
    let options = InsertOptions {
        freeze: true,
        ring: Some(f.table.load_ring()),
    };
    block_on(f.table.insert_many(txn, &many(rows), &options)).map(drop)
}

#[test]
fn frozen_rows_need_a_file_of_their_own_subtransaction() {
    let f = Fixture::new(1);
    let refused = |done| matches!(done, Err(EngineError::Unsupported { .. }));
    f.commit(|txn| assert!(refused(load_frozen(&f, txn, 1))));
    let made = f.commit(|txn| {
        let outer = txn.begin_sub();
        let made = with_new_files(&f, txn);
        // The next load can be rolled back while the file stays.
        let inner = txn.begin_sub();
        assert!(refused(load_frozen(&made, txn, 1)));
        txn.abort_sub(inner);
        txn.commit_sub(outer);
        load_frozen(&made, txn, 3).unwrap();
        made
    });
    assert_eq!(made.committed().len(), 3);
}

#[test]
fn index_scans_have_the_order_and_bounds_asked_for() {
    let f = Fixture::new(2);
    f.commit(|txn| {
        block_on(
            f.table
                .insert_many(txn, &many(500), &InsertOptions::default()),
        )
        .unwrap();
    });
    let mut txn = f.begin();
    let snapshot = txn.snapshot().unwrap();
    let range = KeyRange {
        low: Some((key("000100"), false)),
        high: Some((key("000105"), true)),
    };
    let keys = |direction| {
        let mut scan = f
            .table
            .index_scan(&snapshot, BY_KEY, &range, direction)
            .unwrap();
        let mut batch = RowBatch::new();
        let mut keys = Vec::new();
        while scan.next_page(&mut batch).unwrap() {
            keys.extend(batch.iter().map(|(_, row)| text(key_of(row))));
        }
        keys
    };
    let expected = ["000101", "000102", "000103", "000104", "000105"];
    assert_eq!(keys(Direction::Forward), expected);
    let mut backward = keys(Direction::Backward);
    backward.reverse();
    assert_eq!(backward, expected);
    let mut batch = RowBatch::new();
    f.table
        .index_lookup(&snapshot, BY_VALUE, b"value 3", &mut batch)
        .unwrap();
    assert_eq!(batch.len(), 500 / 7);
    assert!(
        f.table
            .index_scan(&snapshot, 2, &range, Direction::Forward)
            .is_err()
    );
}

/// A table whose second index is built after its rows have changed.
fn with_late_index(f: &Fixture) -> Fixture {
    let mut txn = f.begin();
    let mut files = f.files.clone();
    files.push(txn.create_file().unwrap());
    let mut def = def(&files, 100);
    let index = def.indexes.last_mut().unwrap();
    let built = f.table.build_index(&mut txn, index).unwrap();
    index.usable_after = built.broken_chains.then_some(txn.xid().unwrap());
    end(txn);
    let table = Table::open(&f.db, def).unwrap();
    Fixture {
        table,
        files,
        ..f.clone()
    }
}

fn rows_under(f: &Fixture, snapshot: &Snapshot, value: &str) -> usize {
    let mut batch = RowBatch::new();
    f.table
        .index_lookup(snapshot, BY_VALUE, &key(value), &mut batch)
        .unwrap();
    batch.len()
}

#[test]
fn a_late_index_is_right_for_every_snapshot() {
    // With room on every page, so that the updates are HOT: the index on values is not there yet.
    let f = Fixture::with(1, 40, None);
    for n in 0..200 {
        f.put(&format!("{n:03}:first"));
    }
    let mut old = f.begin_rr();
    let hot = || f.table.counters().get().n_tup_hot_upd;
    let before = hot();
    f.commit(|txn| {
        for n in 0..100 {
            f.set(txn, &format!("{n:03}:second"));
        }
    });
    assert_eq!(hot() - before, 100);
    // The chains are broken for the new index: their versions have different keys.
    let late = with_late_index(&f);
    late.assert_sound();
    let snapshot = old.snapshot().unwrap();
    assert!(
        late.rows_at(&snapshot)
            .iter()
            .all(|row| row.ends_with("first"))
    );
    assert!(late.table.can_read_by(&snapshot, BY_KEY).unwrap());
    assert!(!late.table.can_read_by(&snapshot, BY_VALUE).unwrap());
    assert_eq!(rows_under(&late, &snapshot, "first"), 200);
    assert_eq!(rows_under(&late, &snapshot, "second"), 0);
    drop(snapshot);
    let now = late.committed();
    let snapshot = late.begin().snapshot().unwrap();
    assert!(late.table.can_read_by(&snapshot, BY_VALUE).unwrap());
    for value in ["first", "second"] {
        assert_eq!(rows_under(&late, &snapshot, value), 100);
    }
    drop(snapshot);
    end(old);
    late.vacuum(&VacuumOptions::default());
    assert_eq!(late.committed(), now);
    late.assert_sound();
}

#[test]
fn a_late_index_over_whole_chains_is_for_every_snapshot() {
    let f = Fixture::with(0, 40, None);
    let tid = f.put("a:first");
    f.put("b:first");
    let mut old = f.begin_rr();
    f.commit(|txn| f.update(txn, tid, "a:second").unwrap());
    let mut txn = f.begin();
    let file = txn.create_file().unwrap();
    let def = def(&[f.files[0], file], 100);
    let built = f.table.build_index(&mut txn, &def.indexes[BY_KEY]).unwrap();
    end(txn);
    assert!(!built.broken_chains);
    let late = Fixture {
        table: Table::open(&f.db, def).unwrap(),
        ..f.clone()
    };
    let snapshot = old.snapshot().unwrap();
    assert_eq!(late.rows_at(&snapshot), ["a:first", "b:first"]);
}

/// A chain has one entry, under the key of its newest version: none, if that has no key.
#[test]
fn a_chain_whose_newest_version_has_no_key_has_no_entry() {
    struct First;
    impl KeyExtractor for First {
        fn key(&self, row: &[u8], out: &mut Vec<u8>) -> EngineResult<KeyKind> {
            out.extend_from_slice(row);
            if row.ends_with(b"first") {
                Ok(KeyKind::Unique)
            } else {
                Ok(KeyKind::Absent)
            }
        }
    }
    let f = Fixture::new(1);
    f.put("a:first");
    let mut txn = f.begin();
    f.set(&mut txn, "a:second");
    let file = txn.create_file().unwrap();
    let mut def = f.table.def().clone();
    def.indexes.push(IndexDef {
        file,
        unique: false,
        name: "partial".into(),
        key: Arc::new(First),
        usable_after: None,
        deferrable: false,
    });
    let built = f.table.build_index(&mut txn, &def.indexes[1]).unwrap();
    assert_eq!((built.entries, built.broken_chains), (0, true));
    end(txn);
    f.vacuum(&VacuumOptions::default());
    let report = Table::open(&f.db, def).unwrap().check().unwrap();
    assert!(report.is_ok(), "{:?}", report.problems);
}

#[test]
fn a_late_unique_index_refuses_duplicates() {
    let f = Fixture::new(0);
    f.put("a:1");
    let gone = f.put("a:2");
    let mut txn = f.begin();
    let file = txn.create_file().unwrap();
    let index = def(&[f.files[0], file], 100).indexes[0].clone();
    let error = f.table.build_index(&mut txn, &index).unwrap_err();
    let EngineError::DuplicateRows { row, .. } = &error else {
        panic!("{error}");
    };
    assert!(row.starts_with(b"a:"));
    txn.rollback();
    f.commit(|txn| f.delete(txn, gone).unwrap());
    let late = with_late_index(&f);
    assert_eq!(late.committed(), ["a:1"]);
    late.assert_sound();
}

#[test]
fn a_cancelled_scan_ends() {
    let f = Fixture::new(1);
    f.put("a:1");
    let mut txn = f.begin();
    let snapshot = txn.snapshot().unwrap();
    txn.cancel_flag().cancel();
    let mut scan = f.table.scan(&snapshot).cancelled_by(txn.cancel_flag());
    assert!(matches!(
        scan.next_page(&mut RowBatch::new()),
        Err(EngineError::Cancelled)
    ));
}

#[test]
fn an_index_build_is_cancelled_after_its_heap_was_read() {
    const ROWS: usize = 5000;
    /// Cancels once it has seen the last row, behind the last look while the heap is read.
    struct Cancelling {
        flag: CancelFlag,
        seen: AtomicUsize,
    }
    impl KeyExtractor for Cancelling {
        fn key(&self, row: &[u8], out: &mut Vec<u8>) -> EngineResult<KeyKind> {
            out.extend_from_slice(row);
            if self.seen.fetch_add(1, Ordering::Relaxed) + 1 == ROWS {
                self.flag.cancel();
            }
            Ok(KeyKind::Unique)
        }
    }
    let f = Fixture::new(0);
    f.commit(|txn| {
        for n in 0..ROWS {
            f.insert(txn, &format!("{n}:")).unwrap();
        }
    });
    let mut txn = f.begin();
    let index = IndexDef {
        file: txn.create_file().unwrap(),
        unique: false,
        name: "late".into(),
        key: Arc::new(Cancelling {
            flag: txn.cancel_flag().clone(),
            seen: AtomicUsize::new(0),
        }),
        usable_after: None,
        deferrable: false,
    };
    let built = f.table.build_index(&mut txn, &index);
    assert!(matches!(built, Err(EngineError::Cancelled)), "{built:?}");
}
