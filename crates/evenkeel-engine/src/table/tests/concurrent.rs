//! Many sessions at once, against what each knows it did.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

/// One session changes rows of its own at random and keeps a model of them.
fn session(f: &Fixture, number: u64, rounds: usize) -> BTreeMap<String, String> {
    let mut random = StdRng::seed_from_u64(number);
    let mut model: BTreeMap<String, String> = BTreeMap::new();
    for _ in 0..rounds {
        let mut txn = f.begin();
        let mut next = model.clone();
        for _ in 0..random.random_range(1..6) {
            let key = format!("{number}-{:02}", random.random_range(0..30));
            let value = "v".repeat(random.random_range(0..300));
            let row = format!("{key}:{value}");
            txn.begin_statement().unwrap();
            match f.find(&mut txn, key.as_bytes()) {
                None => {
                    assert!(!next.contains_key(&key), "{key} is lost");
                    f.insert(&mut txn, &row).unwrap();
                    next.insert(key, row);
                }
                Some((tid, found)) => {
                    assert_eq!(next.get(&key), Some(&found));
                    let outcome = if random.random_bool(0.2) {
                        next.remove(&key);
                        f.delete(&mut txn, tid)
                    } else {
                        next.insert(key, row.clone());
                        f.update(&mut txn, tid, &row)
                    };
                    assert!(matches!(outcome.unwrap(), Modified::Done(_)));
                }
            }
        }
        if random.random_bool(0.15) {
            txn.rollback();
        } else {
            block_on(txn.commit(Durability::Async)).unwrap();
            model = next;
        }
    }
    model
}

fn sessions_beside_vacuum(f: &Fixture, sessions: u64, rounds: usize) {
    let done = Arc::new(AtomicBool::new(false));
    let vacuum = {
        let (f, done) = (f.clone(), Arc::clone(&done));
        std::thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                let freeze = f.table.blocks() % 2 == 0;
                f.vacuum(&VacuumOptions {
                    freeze,
                    ..VacuumOptions::default()
                });
                let mut txn = f.begin_rr();
                let before = f.rows(&mut txn);
                assert_eq!(f.rows(&mut txn), before);
            }
        })
    };
    let workers: Vec<_> = (0..sessions)
        .map(|number| {
            let f = f.clone();
            std::thread::spawn(move || session(&f, number, rounds))
        })
        .collect();
    let mut expected: Vec<String> = workers
        .into_iter()
        .flat_map(|worker| worker.join().unwrap().into_values())
        .collect();
    done.store(true, Ordering::Relaxed);
    vacuum.join().unwrap();
    expected.sort();
    assert_eq!(f.committed(), expected);
    f.assert_sound();
    f.vacuum(&VacuumOptions {
        freeze: true,
        truncate: true,
        ..VacuumOptions::default()
    });
    assert_eq!(f.committed(), expected);
    f.assert_sound();
}

#[test]
fn sessions_find_what_they_wrote_beside_vacuum() {
    sessions_beside_vacuum(&Fixture::new(2), 4, 60);
}

#[test]
fn sessions_find_what_they_wrote_with_few_frames() {
    sessions_beside_vacuum(&Fixture::with(2, 90, Some(64)), 3, 30);
}

#[test]
fn inserters_do_not_lose_rows_to_each_other() {
    let f = Fixture::new(0);
    let workers: Vec<_> = (0..6)
        .map(|number| {
            let f = f.clone();
            std::thread::spawn(move || {
                for n in 0..150 {
                    f.commit(|txn| f.insert(txn, &format!("{number}-{n}:x")).unwrap());
                }
            })
        })
        .collect();
    workers
        .into_iter()
        .for_each(|worker| worker.join().unwrap());
    assert_eq!(f.committed().len(), 900);
    f.assert_sound();
}
