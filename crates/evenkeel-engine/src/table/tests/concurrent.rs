//! Many sessions at once, against what each knows it did.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::error::EngineError;

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

/// Adds `by` to the row with this key, with the READ COMMITTED protocol.
async fn add(f: &Fixture, txn: &mut Transaction, key: &str, by: i64) -> EngineResult<()> {
    txn.begin_statement()?;
    let (mut tid, mut row) = f.find(txn, key.as_bytes()).expect("an account");
    loop {
        let value: i64 = row.split(':').nth(1).unwrap().trim_end().parse().unwrap();
        // Some versions do not fit where the last one was.
        let width = if value % 5 == 0 { 900 } else { 20 };
        let new = format!("{key}:{:<width$}", value + by);
        match f
            .table
            .update(
                txn,
                RowHandle::unguarded(tid),
                new.as_bytes(),
                KeyHint::Compare,
            )
            .await?
        {
            Modified::Done(_) => return Ok(()),
            Modified::Changed { newest } => {
                tid = newest.tid();
                row = text(&f.table.fetch_locked(newest)?.unwrap().bytes);
            }
            other => panic!("{key}: {other:?}"),
        }
    }
}

fn sum(rows: &[String]) -> i64 {
    rows.iter()
        .map(|row| {
            row.split(':')
                .nth(1)
                .unwrap()
                .trim_end()
                .parse::<i64>()
                .unwrap()
        })
        .sum()
}

/// Moves amounts between accounts; answers how many transactions committed.
fn transfers(f: &Fixture, seed: u64, rounds: usize) -> usize {
    let mut random = StdRng::seed_from_u64(seed);
    let mut commits = 0;
    for _ in 0..rounds {
        let (from, to) = (random.random_range(0..12), random.random_range(0..12));
        let mut txn = f.begin();
        let lost = random.random_bool(0.2);
        let result = block_on(async {
            add(f, &mut txn, &format!("{from:02}"), -1).await?;
            if lost {
                txn.savepoint("lost");
                add(f, &mut txn, &format!("{to:02}"), 1000).await?;
                txn.rollback_to("lost")?;
            }
            add(f, &mut txn, &format!("{to:02}"), 1).await
        });
        match result {
            Ok(()) if random.random_bool(0.9) => {
                block_on(txn.commit(Durability::Async)).unwrap();
                commits += 1;
            }
            Ok(()) | Err(EngineError::Deadlock { .. }) => txn.rollback(),
            Err(error) => panic!("{error}"),
        }
    }
    commits
}

#[test]
fn transfers_between_rows_keep_the_sum_in_every_snapshot() {
    let f = Fixture::new(2);
    for n in 0..12 {
        f.put(&format!("{n:02}:100"));
    }
    let workers: Vec<_> = (0..4)
        .map(|seed| {
            let f = f.clone();
            std::thread::spawn(move || transfers(&f, seed, 60))
        })
        .collect();
    while !workers.iter().all(|worker| worker.is_finished()) {
        let mut txn = f.begin_rr();
        for _ in 0..3 {
            let rows = f.rows(&mut txn);
            assert_eq!((rows.len(), sum(&rows)), (12, 1200));
        }
        end(txn);
        f.vacuum(&VacuumOptions::default());
    }
    let commits: usize = workers
        .into_iter()
        .map(|worker| worker.join().unwrap())
        .sum();
    assert!(commits > 0);
    assert_eq!(sum(&f.committed()), 1200);
    f.assert_sound();
}
