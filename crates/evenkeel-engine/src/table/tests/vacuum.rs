//! Vacuum: the tuples that it removes and keeps, the bits that it sets, and its reports.

use super::*;
use crate::error::EngineError;
use crate::heap::read::read_page;
use crate::heap::rows::RowBatch;
use crate::ticket::CancelFlag;
use crate::types::Xid;
use crate::vacuum::{IndexCleanup, VacuumPhase};
use crate::vm::{ALL_FROZEN, ALL_VISIBLE};
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
    // A page that is all-visible but not frozen may hold older ids. One such page in a short
    // run is looked at all the same, one in a long run is not.
    unfreeze(&f, BlockNumber(0));
    let stats = f.vacuum(&VacuumOptions::default());
    assert!(stats.oldest_xid.is_some() && stats.pages_scanned == 1);
    f.commit(|txn| {
        for n in 0..4_200 {
            f.insert(txn, &format!("more {n}:{}", "x".repeat(40)))
                .unwrap();
        }
    });
    f.vacuum(&freeze());
    assert!(f.table.blocks() >= 40, "{} blocks", f.table.blocks());
    unfreeze(&f, BlockNumber(20));
    assert_eq!(f.vacuum(&VacuumOptions::default()).oldest_xid, None);
    let aggressive = VacuumOptions {
        aggressive: true,
        ..VacuumOptions::default()
    };
    assert!(f.vacuum(&aggressive).oldest_xid.is_some());
    assert!(f.vacuum(&freeze()).oldest_xid.is_some());
    let every = VacuumOptions {
        every_page: true,
        ..VacuumOptions::default()
    };
    assert_eq!(f.vacuum(&every).pages_scanned, f.table.blocks());
}

/// Makes the map say of an all-frozen page that it is only all-visible.
fn unfreeze(f: &Fixture, block: BlockNumber) {
    let mut map = f.table.vm().pin(block).unwrap().write();
    let mut change = f.db.store().change(0);
    crate::table::pages::map_part(&mut change, &mut map, block, 0, ALL_FROZEN);
    change.commit();
}

#[test]
fn a_map_that_says_more_than_the_page_is_corrected() {
    let f = Fixture::new(1);
    let tid = f.put("a:1");
    let mut map = f.table.vm().pin(tid.block).unwrap().write();
    let mut change = f.db.store().change(0);
    let both = ALL_VISIBLE | ALL_FROZEN;
    crate::table::pages::map_part(&mut change, &mut map, tid.block, both, 0);
    change.commit();
    drop(map);
    let says = |bits: u8| assert_eq!(f.table.vm().bits(tid.block).unwrap(), bits);
    says(both);
    assert_eq!(f.table.check().unwrap().problems.len(), 2);
    // Some snapshot does not see the row yet, so the page cannot be made what the map says.
    let old = f.begin_rr().snapshot().unwrap();
    f.commit(|txn| f.set(txn, "a:2"));
    let every = VacuumOptions {
        every_page: true,
        ..VacuumOptions::default()
    };
    f.vacuum(&every);
    says(0);
    drop(old);
    f.assert_sound();
    f.vacuum(&every);
    says(both);
    f.assert_sound();
}

#[test]
fn few_dead_rows_are_not_worth_a_pass_over_the_indexes() {
    let f = Fixture::new(2);
    f.commit(|txn| {
        for n in 0..6_000 {
            f.insert(txn, &format!("{n:04}:{}", "x".repeat(40)))
                .unwrap();
        }
    });
    f.commit(|txn| {
        let (tid, _) = f.find(txn, b"0007").unwrap();
        f.delete(txn, tid).unwrap();
    });
    let left = f.vacuum(&VacuumOptions::default());
    assert_eq!(
        (left.index_rounds, left.dead_items_left),
        (0, 1),
        "{left:?}"
    );
    let never = VacuumOptions {
        index_cleanup: IndexCleanup::Off,
        ..freeze()
    };
    assert_eq!(f.vacuum(&never).dead_items_left, 1);
    f.assert_sound();
    let always = VacuumOptions {
        index_cleanup: IndexCleanup::On,
        ..VacuumOptions::default()
    };
    let stats = f.vacuum(&always);
    assert_eq!((stats.index_rounds, stats.dead_items_removed), (1, 1));
    assert_eq!(stats.indexes.len(), 2);
    assert_eq!(stats.pages_all_visible, left.pages_all_visible + 1);
    f.assert_sound();
}

/// Files of statuses go whole, once nothing refers to them: not while a snapshot needs them, not
/// for ids that are not frozen; and rows are the same afterwards, also after a crash.
#[test]
fn status_files_go_when_all_is_frozen() {
    use crate::status::{LAYOUT, place_of};
    use evenkeel_storage::Fork;
    let f = Fixture::new(1);
    let file = |xid: u64| LAYOUT.file(LAYOUT.file_number(place_of(Xid::new(xid)).0));
    let second = LAYOUT.file_xids();
    let exists = |f: &Fixture, xid| f.db.pool().files().exists(file(xid), Fork::Main).unwrap();
    f.put("old:1");
    f.db.skip_ids(Xid::new(second - 3)).unwrap();
    for n in 0..8 {
        f.put(&format!("{n}:row"));
    }
    settled(&f);
    // The backlog is empty as soon as the last of it is taken up.
    let begun = std::time::Instant::now();
    while !exists(&f, second) {
        assert!(begun.elapsed() < std::time::Duration::from_secs(60));
        std::thread::yield_now();
    }
    assert!(exists(&f, second - 1));
    let expected = f.committed();
    let mut reader = f.begin();
    let snapshot = reader.snapshot().unwrap();
    f.put("late:1");
    let stats = f.vacuum(&freeze());
    let oldest = stats.oldest_xid.unwrap();
    assert_eq!(oldest, snapshot.floor());
    // Nobody may ask for more than the caller's word allows.
    f.db.truncate_status(Xid::new(second - 1)).unwrap();
    assert!(exists(&f, second - 1));
    f.db.truncate_status(oldest).unwrap();
    assert!(!exists(&f, second - 1) && exists(&f, second));
    assert_eq!(f.scan(&snapshot).len(), expected.len());
    drop(snapshot);
    end(reader);
    for seed in 0..4 {
        let g = f.reopened(f.disk.crash(seed));
        assert_eq!(g.committed().len(), expected.len() + 1);
        g.assert_sound();
        // Recovery may have made a file again that was gone; the next round drops it.
        let oldest = g.vacuum(&freeze()).oldest_xid.unwrap();
        g.db.truncate_status(oldest).unwrap();
        assert!(!exists(&g, second - 1), "seed {seed}");
        assert!(g.db.oldest_status() >= Xid::new(second));
    }
}

/// Waits until what has committed is on the status pages.
fn settled(f: &Fixture) {
    f.db.store().log().flush_all().unwrap();
    while f.db.txn_statistics().status_backlog > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn status_pages_are_not_read_under_page_locks() {
    let f = Fixture::new(1);
    churned(&f, 100);
    settled(&f);
    f.db.close().unwrap();
    let g = f.reopened(f.disk.process_crash());
    // Nothing is known of old transactions, and pruning does not go and read.
    let missing = g.db.system().known_in_memory(Xid::FIRST);
    assert!(
        matches!(missing, Err(EngineError::StatusNotInMemory { .. })),
        "{missing:?}"
    );
    let horizon = g.db.horizon();
    let mut page = g.table.heap().write(BlockNumber(0)).unwrap();
    assert!(!g.table.prune_locked(&mut page, &horizon).unwrap());
    drop(page);
    let mut reader = g.begin();
    let snapshot = reader.snapshot().unwrap();
    let mut checker = crate::heap::visibility::VisibilityChecker::new(&snapshot);
    let mut seen = RowBatch::new();
    let mut guard = g.table.heap().read(BlockNumber(0)).unwrap();
    let mut whole = |row: &[u8]| Some(row.len());
    let missed = read_page(
        &mut guard,
        BlockNumber(0),
        &mut checker,
        &mut whole,
        &mut seen,
    );
    assert!(matches!(missed, Err(EngineError::StatusNotInMemory { .. })));
    drop((guard, snapshot));
    // Each way in lets go of the page, reads, and tries again.
    assert!(g.find(&mut reader, b"0001").is_some());
    end(reader);
    assert!(g.vacuum(&freeze()).tuples_removed > 0);
    assert_eq!(g.committed().len(), 66);
    g.assert_sound();
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
