//! Many threads on one tree.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

/// Keys whose tid is even stay for ever; those with an odd tid come and go.
fn key_of(number: u64) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
    key
}

struct Shared {
    tree: BTree,
    clock: Clock,
    stop: AtomicBool,
    /// Numbers below this that are even are in the tree.
    inserted: Vec<AtomicU64>,
}

fn insert_all(shared: &Shared, thread: u64, threads: u64, count: u64) {
    for at in 0..count {
        let number = at * threads + thread;
        // Ascending for one thread, scattered for the others.
        let key = if thread == 0 {
            ascending(number)
        } else {
            key_of(number)
        };
        insert(&shared.tree, &key, tid(number));
        shared.inserted[thread as usize].store(at + 1, Ordering::SeqCst);
    }
}

fn ascending(number: u64) -> [u8; 12] {
    let mut key = [0xff; 12];
    key[4..].copy_from_slice(&number.to_be_bytes());
    key
}

fn scan_for_order(shared: &Shared, rng: &mut StdRng) {
    let threads = shared.inserted.len() as u64;
    let before: Vec<u64> = shared
        .inserted
        .iter()
        .map(|count| count.load(Ordering::SeqCst))
        .collect();
    let direction = if rng.random() {
        Direction::Forward
    } else {
        Direction::Backward
    };
    let mut found = scan(&shared.tree, Bound::Unbounded, Bound::Unbounded, direction);
    if direction == Direction::Backward {
        found.reverse();
    }
    assert!(
        found.is_sorted_by(|a, b| a < b),
        "scan out of order, {direction:?}"
    );
    let tids: BTreeSet<Tid> = found.iter().map(|(_, tid)| *tid).collect();
    for (thread, count) in before.iter().enumerate() {
        for number in (0..*count)
            .map(|at| at * threads + thread as u64)
            .filter(|n| n % 4 < 2)
        {
            assert!(
                tids.contains(&tid(number)),
                "{number} missing in a {direction:?} scan"
            );
        }
    }
}

fn run(threads: u64, count: u64, frames: u64, unfinished_every: u32) {
    let fixture = Fixture::new(frames);
    let shared = Shared {
        tree: fixture.tree.clone(),
        clock: Clock::default(),
        stop: AtomicBool::new(false),
        inserted: (0..threads).map(|_| AtomicU64::new(0)).collect(),
    };
    shared
        .tree
        .shared
        .unfinished_every
        .store(unfinished_every, Ordering::Relaxed);
    let seed = seed(31);
    std::thread::scope(|scope| {
        let shared = &shared;
        let others: Vec<_> = (0..2)
            .map(|reader| {
                scope.spawn(move || {
                    let mut rng = StdRng::seed_from_u64(seed + reader);
                    while !shared.stop.load(Ordering::SeqCst) {
                        scan_for_order(shared, &mut rng);
                    }
                })
            })
            .chain(std::iter::once(scope.spawn(move || {
                while !shared.stop.load(Ordering::SeqCst) {
                    let mut dead = |tid: Tid| number_of(tid) % 4 >= 2;
                    shared
                        .tree
                        .bulk_delete(&mut dead, &shared.clock, &mut |_| Ok(()))
                        .expect("bulk delete");
                }
            })))
            .collect();
        let writers: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || insert_all(shared, thread, threads, count)))
            .collect();
        let results: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        shared.stop.store(true, Ordering::SeqCst);
        assert!(results.into_iter().all(|result| result.is_ok()));
        assert!(others.into_iter().all(|other| other.join().is_ok()));
    });
    let mut dead = |tid: Tid| number_of(tid) % 4 >= 2;
    shared
        .tree
        .bulk_delete(&mut dead, &shared.clock, &mut |_| Ok(()))
        .expect("bulk delete");
    let kept = (0..threads * count).filter(|number| number % 4 < 2).count() as u64;
    let stats = fixture.check();
    assert_eq!(stats.entries, kept);
    assert_eq!(stats.incomplete_splits, 0);
}

fn number_of(tid: Tid) -> u64 {
    u64::from(tid.block.0) * 100 + u64::from(tid.slot) - 1
}

#[test]
fn readers_and_vacuum_among_writers() {
    run(3, 6_000, 2_048, 0);
}

#[test]
fn readers_and_vacuum_among_writers_that_leave_splits_unfinished() {
    run(3, 6_000, 2_048, 2);
}

#[test]
fn many_threads_in_a_small_pool() {
    run(3, 1_500, 32, 4);
}
