//! Sessions that fight over the same keys, in a pool that holds next to nothing.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::error::EngineError;
use crate::table::Arbiter;

const KEYS: u32 = 60;
const TIME: Duration = Duration::from_secs(3);

fn amount(row: &str) -> i64 {
    row.split(':').nth(1).unwrap().trim_end().parse().unwrap()
}

fn sum(rows: &[String]) -> i64 {
    rows.iter().map(|row| amount(row)).sum()
}

/// One session. The amounts of all rows add up to nothing at any time.
struct Session<'a> {
    f: &'a Fixture,
    random: StdRng,
}

impl Session<'_> {
    fn any_key(&mut self) -> String {
        format!("{:02}", self.random.random_range(0..KEYS))
    }

    fn row(&mut self, key: &str, amount: i64) -> String {
        let most = if self.random.random_bool(0.1) {
            1500
        } else {
            60
        };
        let width = self.random.random_range(1..most);
        format!("{key}:{amount:<width$}")
    }

    /// Adds to a row and gives it a new key, or deletes it (no `by`), by the READ COMMITTED
    /// protocol. Answers what it held; none if it is not there.
    async fn change(
        &mut self,
        txn: &mut Transaction,
        (key, new_key): (&str, &str),
        by: Option<i64>,
    ) -> EngineResult<Option<i64>> {
        txn.begin_statement()?;
        let Some((mut tid, mut row)) = self.f.find(txn, key.as_bytes()) else {
            return Ok(None);
        };
        loop {
            let old = amount(&row);
            let table = &self.f.table;
            let outcome = match by {
                Some(by) => {
                    let new = self.row(new_key, old + by);
                    let hint = KeyHint::Compare;
                    table
                        .update(txn, RowHandle::unguarded(tid), new.as_bytes(), hint)
                        .await?
                }
                None => table.delete(txn, RowHandle::unguarded(tid)).await?,
            };
            match outcome {
                Modified::Done(_) => return Ok(Some(old)),
                Modified::Changed { newest } => {
                    tid = newest.tid();
                    row = text(&table.fetch_locked(newest)?.unwrap().bytes);
                    if key_of(row.as_bytes()) != key.as_bytes() {
                        return Ok(None);
                    }
                }
                Modified::Gone => return Ok(None),
                other => panic!("{key}: {other:?}"),
            }
        }
    }

    /// Says whether what it did leaves the sum as it was.
    async fn statement(&mut self, txn: &mut Transaction) -> EngineResult<bool> {
        let (a, b) = (self.any_key(), self.any_key());
        match self.random.random_range(0..8) {
            0..3 => Ok(self.change(txn, (&a, &a), Some(-3)).await?.is_some()
                && self.change(txn, (&b, &b), Some(3)).await?.is_some()),
            3 | 4 => match self.change(txn, (&a, &a), None).await? {
                Some(0) => Ok(true),
                Some(held) if a != b => Ok(self.change(txn, (&b, &b), Some(held)).await?.is_some()),
                _ => Ok(false),
            },
            5 => Ok(self.change(txn, (&a, &b), Some(0)).await?.is_some()),
            6 => {
                let row = self.row(&a, 0);
                txn.begin_statement()?;
                let table = &self.f.table;
                let snapshot = txn.snapshot()?;
                table
                    .insert_or_conflict(txn, &snapshot, row.as_bytes(), Arbiter::Index(BY_KEY))
                    .await?;
                Ok(true)
            }
            _ => {
                let row = self.row(&a, 0);
                txn.begin_statement()?;
                self.f.table.insert(txn, row.as_bytes()).await?;
                Ok(true)
            }
        }
    }

    async fn statements(&mut self, txn: &mut Transaction) -> EngineResult<()> {
        for _ in 0..self.random.random_range(1..5) {
            let sub = txn.begin_sub();
            match self.statement(txn).await {
                Ok(true) if self.random.random_bool(0.85) => txn.commit_sub(sub),
                Ok(_) | Err(EngineError::UniqueViolation { .. }) => txn.abort_sub(sub),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn run(&mut self, done: &AtomicBool) {
        while !done.load(Ordering::Relaxed) {
            let mut txn = self.f.begin();
            match block_on(self.statements(&mut txn)) {
                Ok(()) if self.random.random_bool(0.9) => {
                    block_on(txn.commit(Durability::Async)).unwrap();
                }
                Ok(()) | Err(EngineError::Deadlock { .. }) => txn.rollback(),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// A snapshot has each key once, keeps the sum and does not change.
fn check_snapshot(f: &Fixture) {
    let mut txn = f.begin_rr();
    let rows = f.rows(&mut txn);
    assert_eq!(sum(&rows), 0);
    let keys: BTreeSet<_> = rows.iter().map(|row| key_of(row.as_bytes())).collect();
    assert_eq!(keys.len(), rows.len());
    assert_eq!(f.rows(&mut txn), rows);
    end(txn);
}

#[test]
fn sessions_on_the_same_keys_keep_the_sum_with_sixteen_frames() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let f = Fixture::with(2, 90, Some(16));
    for n in 0..KEYS / 2 {
        f.put(&format!("{n:02}:0"));
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (f, done) = (&f, &done);
        let until_done = move |work: &mut dyn FnMut()| {
            while !done.load(Ordering::Relaxed) {
                work();
            }
        };
        let mut threads: Vec<_> = (0..4)
            .map(|number| {
                let random = StdRng::seed_from_u64(seed ^ number);
                scope.spawn(move || Session { f, random }.run(done))
            })
            .collect();
        threads.push(scope.spawn(move || {
            until_done(&mut || {
                let _ = f.vacuum(&VacuumOptions::default());
            });
        }));
        threads.push(scope.spawn(move || {
            until_done(&mut || {
                f.db.checkpoint().unwrap();
                std::thread::sleep(Duration::from_millis(30));
            });
        }));
        threads.push(scope.spawn(move || until_done(&mut || check_snapshot(f))));
        let start = Instant::now();
        while start.elapsed() < TIME && !threads.iter().any(|thread| thread.is_finished()) {
            std::thread::sleep(Duration::from_millis(20));
        }
        done.store(true, Ordering::Relaxed);
    });
    let rows = f.committed();
    assert_eq!(sum(&rows), 0);
    f.assert_sound();
    f.db.store().log().flush_all().unwrap();
    for disk in [f.disk.process_crash(), f.disk.crash(seed)] {
        let reopened = f.reopened(disk);
        assert_eq!(reopened.committed(), rows);
        reopened.assert_sound();
    }
}
