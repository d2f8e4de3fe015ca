//! What vacuum removes, keeps, marks and reports.

use super::*;
use crate::error::EngineError;
use crate::ticket::CancelFlag;
use crate::vacuum::VacuumPhase;
use crate::vm::ALL_FROZEN;
use evenkeel_storage::BlockNumber;

fn freeze() -> VacuumOptions {
    VacuumOptions {
        freeze: true,
        ..VacuumOptions::default()
    }
}

/// `rows` rows of which every third was deleted and every fifth updated.
fn churned(f: &Fixture, rows: usize) {
    f.commit(|txn| {
        for n in 0..rows {
            f.insert(txn, &format!("{n:04}:{}", "x".repeat(40)))
                .unwrap();
        }
    });
    f.commit(|txn| {
        for n in 0..rows {
            let key = format!("{n:04}");
            txn.begin_statement().unwrap();
            let (tid, _) = f.find(txn, key.as_bytes()).unwrap();
            if n % 3 == 0 {
                f.delete(txn, tid).unwrap();
            } else if n % 5 == 0 {
                f.update(txn, tid, &format!("{key}:new")).unwrap();
            }
        }
    });
}

#[test]
fn dead_rows_leave_heap_and_indexes() {
    let f = Fixture::new(2);
    churned(&f, 600);
    let expected = f.committed();
    let stats = f.vacuum(&VacuumOptions::default());
    assert!(stats.dead_items_removed >= 200, "{stats:?}");
    assert!(stats.index_entries_removed >= 400, "{stats:?}");
    let report = f.table.check().unwrap();
    assert_eq!(report.tuples, 400);
    assert_eq!(f.committed(), expected);
    f.assert_sound();
    // The space is used again.
    let blocks = f.table.blocks();
    f.commit(|txn| {
        for n in 0..150 {
            f.insert(txn, &format!("again {n}:{}", "x".repeat(30)))
                .unwrap();
        }
    });
    assert!(
        f.table.blocks() <= blocks + 1,
        "{} and {blocks} blocks",
        f.table.blocks()
    );
    f.assert_sound();
}

#[test]
fn a_second_vacuum_has_nothing_to_do() {
    let f = Fixture::new(2);
    churned(&f, 300);
    let first = f.vacuum(&VacuumOptions::default());
    assert_eq!(first.pages_scanned, f.table.blocks());
    let log = f.db.store().log().insert_lsn();
    let second = f.vacuum(&freeze());
    assert_eq!(f.db.store().log().insert_lsn(), log);
    assert_eq!((second.tuples_removed, second.tuples_frozen), (0, 0));
    for block in 0..f.table.blocks() {
        assert_ne!(
            f.table.vm().bits(BlockNumber(block)).unwrap() & ALL_FROZEN,
            0
        );
    }
    f.assert_sound();
}

#[test]
fn with_little_memory_the_indexes_are_cleaned_in_several_rounds() {
    let f = Fixture::new(2);
    churned(&f, 900);
    let expected = f.committed();
    let mut rounds = 0;
    let mut phases = Vec::new();
    let options = VacuumOptions {
        memory: 200,
        ..VacuumOptions::default()
    };
    f.table
        .vacuum(&options, &mut |progress| {
            rounds = rounds.max(progress.index_vacuum_count);
            if phases.last() != Some(&progress.phase) {
                phases.push(progress.phase);
            }
        })
        .unwrap();
    assert!(rounds > 1);
    assert!(phases.contains(&VacuumPhase::VacuumingIndexes));
    assert_eq!(f.committed(), expected);
    assert_eq!(f.table.check().unwrap().tuples, 600);
    f.assert_sound();
}

#[test]
fn vacuum_reports_the_oldest_id_only_if_it_looked_everywhere() {
    let f = Fixture::new(1);
    churned(&f, 100);
    let mut holder = f.begin();
    let held = holder.xid().unwrap();
    let stats = f.vacuum(&freeze());
    assert_eq!(stats.oldest_xid, Some(held));
    end(holder);
    let stats = f.vacuum(&freeze());
    assert_eq!(stats.oldest_xid, Some(f.db.horizon().floor()));
    // A page that is all-visible but not frozen is skipped, and may hold older ids.
    let block = BlockNumber(0);
    let mut map = f.table.vm().pin(block).unwrap().write();
    let mut change = f.db.store().change(0);
    crate::table::pages::map_part(&mut change, &mut map, block, 0, ALL_FROZEN);
    change.commit();
    drop(map);
    assert_eq!(f.vacuum(&VacuumOptions::default()).oldest_xid, None);
    assert!(f.vacuum(&freeze()).oldest_xid.is_some());
}

#[test]
fn what_a_running_transaction_does_is_kept() {
    let f = Fixture::new(2);
    f.put("a:1");
    f.put("b:1");
    let mut running = f.begin();
    f.set(&mut running, "a:2");
    f.insert(&mut running, "c:2").unwrap();
    let stats = f.vacuum(&freeze());
    assert_eq!(stats.tuples_removed, 0);
    assert_eq!(f.rows(&mut running), ["a:2", "b:1", "c:2"]);
    assert_eq!(f.committed(), ["a:1", "b:1"]);
    running.rollback();
    let stats = f.vacuum(&freeze());
    assert_eq!(stats.tuples_removed, 2);
    assert_eq!(f.committed(), ["a:1", "b:1"]);
    f.assert_sound();
}

#[test]
fn blocks_that_were_cut_off_can_be_used_again() {
    let f = Fixture::new(1);
    churned(&f, 600);
    f.commit(|txn| {
        for (tid, row) in f.scan(&txn.snapshot().unwrap()) {
            if row.as_str() > "0003" {
                f.delete(txn, tid).unwrap();
            }
        }
    });
    let before = f.table.blocks();
    let stats = f.vacuum(&VacuumOptions {
        truncate: true,
        ..freeze()
    });
    assert!(stats.pages_removed > 0 && stats.pages < before, "{stats:?}");
    let kept = f.committed();
    f.commit(|txn| {
        for n in 1000..1400 {
            f.insert(txn, &format!("{n:04}:{}", "x".repeat(40)))
                .unwrap();
        }
    });
    assert_eq!(f.committed().len(), kept.len() + 400);
    f.assert_sound();
    f.db.store().log().flush_all().unwrap();
    let g = f.reopened(f.disk.crash(5));
    assert_eq!(g.committed().len(), kept.len() + 400);
    g.assert_sound();
}

#[test]
fn a_table_without_indexes_needs_no_second_visit() {
    let f = Fixture::new(0);
    churned(&f, 200);
    let stats = f.vacuum(&VacuumOptions::default());
    assert_eq!(stats.dead_items_removed, 0);
    assert!(stats.tuples_removed > 0);
    assert_eq!(f.table.check().unwrap().tuples, stats.tuples_kept);
    f.assert_sound();
}

#[test]
fn a_cancelled_vacuum_leaves_a_sound_table() {
    let f = Fixture::new(2);
    churned(&f, 300);
    let expected = f.committed();
    let flag = CancelFlag::new();
    let options = VacuumOptions {
        cancel: Some(flag.clone()),
        ..VacuumOptions::default()
    };
    let result = f.table.vacuum(&options, &mut |progress| {
        if progress.phase == VacuumPhase::VacuumingIndexes {
            flag.cancel();
        }
    });
    assert!(matches!(result, Err(EngineError::Cancelled)));
    assert_eq!(f.committed(), expected);
    f.assert_sound();
    f.vacuum(&VacuumOptions::default());
    assert_eq!(f.table.check().unwrap().tuples, 200);
    f.assert_sound();
}
