//! Unique checks.

use std::collections::HashMap;
use std::sync::Barrier;

use super::*;

fn insert_unique(
    tree: &BTree,
    key: &[u8],
    tid: Tid,
    resolve: &mut dyn FnMut(Tid) -> EngineResult<Liveness>,
) -> InsertOutcome {
    tree.insert(Xid::FIRST, key, tid, UniqueCheck::Check(resolve))
        .expect("insert")
}

#[test]
fn a_live_equal_key_is_a_duplicate() {
    let fixture = Fixture::new(256);
    fixture.insert(b"k", tid(1));
    let outcome = insert_unique(&fixture.tree, b"k", tid(2), &mut |_| Ok(Liveness::Live));
    assert_eq!(outcome, InsertOutcome::Duplicate(tid(1)));
    let waits = Liveness::InProgress(Xid::new(77));
    let outcome = insert_unique(&fixture.tree, b"k", tid(2), &mut |_| Ok(waits));
    assert_eq!(outcome, InsertOutcome::MustWait(Xid::new(77)));
    let outcome = insert_unique(&fixture.tree, b"k", tid(2), &mut |_| Ok(Liveness::Dead));
    assert_eq!(outcome, InsertOutcome::Inserted);
    assert_eq!(lookup(&fixture.tree, b"k"), [tid(1), tid(2)]);
    let outcome = insert_unique(&fixture.tree, b"l", tid(3), &mut |_| unreachable!());
    assert_eq!(outcome, InsertOutcome::Inserted);
}

#[test]
fn equal_keys_on_several_leaves_are_all_asked_about() {
    let fixture = Fixture::new(256);
    fixture.insert(b"a", tid(0));
    fixture.insert(b"z", tid(1));
    for number in 2..3_000 {
        fixture.insert(b"key", tid(number));
    }
    assert!(fixture.check().leaves > 3);
    for live in [2, 1_500, 2_999] {
        let mut asked = 0;
        let outcome = insert_unique(&fixture.tree, b"key", tid(5_000), &mut |found| {
            asked += 1;
            Ok(if found == tid(live) {
                Liveness::Live
            } else {
                Liveness::Dead
            })
        });
        assert_eq!(outcome, InsertOutcome::Duplicate(tid(live)));
        assert!(asked >= live - 1);
    }
}

#[test]
fn equal_keys_beyond_a_leaf_that_lost_its_own_are_found() {
    let fixture = Fixture::new(256);
    fixture.insert(b"a", tid(0));
    for number in 2..3_000 {
        fixture.insert(b"key", tid(number));
    }
    let mut dead = |found: Tid| found > tid(0) && found < tid(2_990);
    let stats = fixture
        .tree
        .bulk_delete(&mut dead, &Clock::default(), &mut |_| Ok(()))
        .expect("bulk delete");
    assert_eq!(stats.entries, 11);
    let outcome = insert_unique(&fixture.tree, b"key", tid(5_000), &mut |_| {
        Ok(Liveness::Live)
    });
    assert_eq!(outcome, InsertOutcome::Duplicate(tid(2_990)));
}

/// Each thread tries to insert every key, beside a dead version; its row counts as live from the
/// moment its index entry is in, so exactly one may win.
#[test]
fn one_of_many_threads_wins_a_key() {
    const THREADS: u64 = 4;
    const KEYS: u64 = 1_000;
    const FIRST: u64 = 1_000_000;
    let fixture = Fixture::new(1_024);
    for number in 0..KEYS {
        fixture.insert(&number.to_be_bytes(), tid(number));
    }
    let barrier = Barrier::new(THREADS as usize);
    let wins = Mutex::new(HashMap::<u64, u64>::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (tree, barrier, wins) = (fixture.tree.clone(), &barrier, &wins);
            scope.spawn(move || {
                let mut resolve = |found: Tid| {
                    std::thread::yield_now();
                    Ok(if found < tid(FIRST) {
                        Liveness::Dead
                    } else {
                        Liveness::Live
                    })
                };
                for number in 0..KEYS {
                    barrier.wait();
                    let row = tid(FIRST + number * THREADS + thread);
                    let key = number.to_be_bytes();
                    if insert_unique(&tree, &key, row, &mut resolve) == InsertOutcome::Inserted {
                        *wins.lock().entry(number).or_default() += 1;
                    }
                }
            });
        }
    });
    let wins = wins.lock();
    assert_eq!(wins.len() as u64, KEYS);
    assert!(wins.values().all(|wins| *wins == 1));
    assert_eq!(fixture.check().entries, 2 * KEYS);
}

#[test]
fn dead_hints_make_room_before_a_page_is_split() {
    let fixture = Fixture::new(256);
    for number in 0..100_000u64 {
        fixture.insert(b"key", tid(number));
        // Every version but the newest is dead to all.
        fixture
            .tree
            .lookup(TreeReader::alone(), b"key", &mut |found| {
                Ok(if found == tid(number) {
                    Visit::Next
                } else {
                    Visit::Dead(evenkeel_storage::Lsn::ZERO)
                })
            })
            .expect("lookup");
        if number % 1_000 == 0 {
            assert_eq!(lookup(&fixture.tree, b"key"), [tid(number)]);
        }
    }
    let stats = fixture.check();
    assert_eq!((stats.levels, stats.leaves), (1, 1));
}
