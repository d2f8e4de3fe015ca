//! Deliberate bugs, and that tests catch them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::*;

/// The oracle finds the bug, with one of some seeds.
fn assert_caught(mutant: Mutant) {
    if !cfg!(debug_assertions) {
        println!("{mutant:?} is not in this build");
        return;
    }
    let found = (0..40).find_map(|seed| super::interleavings::run(seed, 400, Some(mutant)).err());
    println!("{mutant:?}: {}", found.expect("the bug is caught"));
}

#[test]
fn a_snapshot_that_sees_later_commits_is_caught() {
    assert_caught(Mutant::SeeLaterCommits);
}

#[test]
fn a_statement_that_sees_its_own_changes_is_caught() {
    assert_caught(Mutant::SeeOwnCommand);
}

#[test]
fn overwriting_the_change_of_a_running_transaction_is_caught() {
    assert_caught(Mutant::OverwriteRunning);
}

#[test]
fn a_unique_check_that_does_not_wait_is_caught() {
    assert_caught(Mutant::IgnoreRunningInserter);
}

#[test]
fn a_unique_check_that_does_not_walk_the_chain_is_caught() {
    assert_caught(Mutant::CheckFirstVersionOnly);
}

#[test]
fn a_change_that_ignores_row_locks_is_caught() {
    assert_caught(Mutant::IgnoreRowLocks);
}

#[test]
fn freezing_what_a_snapshot_does_not_see_is_caught() {
    assert_caught(Mutant::FreezeRecent);
}

#[test]
fn a_removal_horizon_that_forgets_snapshots_is_caught() {
    assert_caught(Mutant::IgnoreSnapshots);
}

/// Two threads lock the same two pages so many times, named in opposite order. Answers whether
/// they stood still for as long as `patience`; then they are left behind.
fn stands_still(mutant: Option<Mutant>, each: u64, patience: Duration) -> bool {
    let disk = SimDisk::new(1);
    let f = Fixture::on(&disk, open_with_bug(&disk, None, mutant), 0, 100);
    let pad = "0".repeat(5000);
    let (a, b) = (f.put(&format!("a:{pad}")), f.put(&format!("b:{pad}")));
    assert_ne!(a.block, b.block);
    let rounds = Arc::new(AtomicU64::new(0));
    for (first, second) in [(a.block, b.block), (b.block, a.block)] {
        let (table, rounds) = (Arc::clone(&f.table), Arc::clone(&rounds));
        std::thread::spawn(move || {
            for _ in 0..each {
                drop(table.lock_two(first, second).unwrap());
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let mut last = 0;
    loop {
        std::thread::sleep(patience);
        let now = rounds.load(Ordering::Relaxed);
        if now == 2 * each {
            return false;
        }
        if now == last {
            // The database would wait for its frames for ever.
            std::mem::forget(f);
            return true;
        }
        last = now;
    }
}

#[test]
fn pages_locked_in_any_order_are_caught() {
    assert!(!stands_still(None, 20_000, Duration::from_secs(2)));
    if cfg!(debug_assertions) {
        let mutant = Some(Mutant::LockPagesAsNamed);
        assert!(stands_still(
            mutant,
            u64::MAX / 2,
            Duration::from_millis(300)
        ));
    }
}
