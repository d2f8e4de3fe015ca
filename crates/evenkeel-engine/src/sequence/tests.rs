use std::path::Path;
use std::sync::Arc;

use evenkeel_io::SimDisk;
use evenkeel_storage::StorageConfig;
use evenkeel_storage::page::PageBuf;
use proptest::prelude::*;

use super::*;
use crate::config::Config;
use crate::types::Durability;
use crate::{Database, Isolation, Transaction, block_on};

fn rule(increment: i64, min: i64, max: i64, cache: i64, cycle: bool) -> Rule {
    Rule {
        increment,
        min,
        max,
        cache,
        cycle,
    }
}

fn next(position: &mut Position, rule: &Rule) -> Result<(i64, i64, bool), NoNumber> {
    let counted = count(*position, rule)?;
    *position = Position {
        last_value: counted.last,
        log_cnt: counted.log_cnt,
        is_called: true,
    };
    Ok((counted.first, counted.last, counted.logged.is_some()))
}

/// The loop as PostgreSQL has it, for small numbers.
fn counted_one_by_one(position: Position, rule: &Rule) -> Option<(i64, i64, i64, Option<i64>)> {
    let (mut next, mut log) = (position.last_value, position.log_cnt);
    let (mut first, mut last, mut taken, mut fetch) = (next, next, 0, rule.cache);
    if !position.is_called {
        taken = 1;
        fetch -= 1;
    }
    let logs = log < fetch || !position.is_called;
    if logs {
        fetch += LOGGED_AHEAD;
        log = fetch;
    }
    while fetch > 0 {
        let beyond = next + rule.increment > rule.max || next + rule.increment < rule.min;
        if beyond && taken > 0 {
            break;
        }
        next = match (beyond, rule.cycle, rule.increment > 0) {
            (false, ..) => next + rule.increment,
            (true, false, _) => return None,
            (true, true, true) => rule.min,
            (true, true, false) => rule.max,
        };
        fetch -= 1;
        if taken < rule.cache {
            log -= 1;
            taken += 1;
            last = next;
            if taken == 1 {
                first = next;
            }
        }
    }
    Some((first, last, log - fetch, logs.then_some(next)))
}

proptest! {
    #[test]
    fn numbers_are_counted_as_postgres_counts_them(
        value in -20i64..20, log_cnt in 0i64..40, is_called: bool,
        increment in prop_oneof![-7i64..0, 1i64..8], cache in 1i64..50, cycle: bool,
    ) {
        let rule = rule(increment, -20, 20, cache, cycle);
        let position = Position { last_value: value, log_cnt, is_called };
        let counted = count(position, &rule).ok();
        let counted = counted.map(|c| (c.first, c.last, c.log_cnt, c.logged));
        prop_assert_eq!(counted, counted_one_by_one(position, &rule));
    }
}

#[test]
fn a_call_in_thirty_three_writes_the_log() {
    let rule = rule(1, 1, i64::MAX, 1, false);
    let mut position = Position {
        last_value: 1,
        log_cnt: 0,
        is_called: false,
    };
    let numbers: Vec<_> = (0..70)
        .map(|_| next(&mut position, &rule).unwrap())
        .collect();
    assert!(numbers.iter().zip(1..).all(|(taken, n)| taken.0 == n));
    let logged = (0..70).filter(|at| numbers[*at].2);
    assert_eq!(logged.collect::<Vec<_>>(), [0, 33, 66]);
}

#[test]
fn a_sequence_ends_at_its_bounds_and_its_cycle_begins_again() {
    let mut position = Position {
        last_value: i64::MAX - 1,
        log_cnt: 0,
        is_called: true,
    };
    let ends = rule(1, 1, i64::MAX, i64::MAX, false);
    assert_eq!(next(&mut position, &ends).map(|n| n.0), Ok(i64::MAX));
    assert_eq!(next(&mut position, &ends), Err(NoNumber::AtMax));
    let down = rule(-3, i64::MIN, -1, 1, true);
    position.last_value = i64::MIN + 2;
    assert_eq!(next(&mut position, &down).map(|n| n.0), Ok(-1));
}

#[test]
fn a_part_that_makes_no_sense_is_refused() {
    let mut page = PageBuf::zeroed();
    for data in [&[0u8; 8][..], &[0; 10], &[2; 9]] {
        assert!(apply(OP_SET, &mut page.page_mut(), data).is_err());
    }
    assert!(apply(OP_SET + 1, &mut page.page_mut(), &[0; 9]).is_err());
    assert!(apply(OP_SET, &mut page.page_mut(), &[1; 9]).is_ok());
}

const UP: Rule = Rule {
    increment: 1,
    min: 1,
    max: i64::MAX,
    cache: 1,
    cycle: false,
};

fn open(disk: &SimDisk) -> Database {
    let config = Config {
        storage: StorageConfig::small(),
        ..Config::default()
    };
    Database::open(Arc::new(disk.clone()), Path::new("/db"), config).unwrap()
}

fn begin(db: &Database) -> Transaction {
    db.begin(Isolation::ReadCommitted).unwrap()
}

fn commit(mut txn: Transaction) {
    txn.xid().unwrap();
    block_on(txn.commit(Durability::Sync)).unwrap();
}

fn take(db: &Database, file: FileId) -> Taken {
    let open = db.sequence(file).unwrap().unwrap();
    open.next(&UP).unwrap().unwrap()
}

#[test]
fn a_crash_gives_no_acknowledged_number_again() {
    let disk = SimDisk::new(1);
    let db = open(&disk);
    let mut txn = begin(&db);
    let file = txn.create_file().unwrap();
    txn.create_sequence(file, 1).unwrap();
    commit(txn);
    let mut last = 0;
    for round in 0..100 {
        let txn = begin(&db);
        let taken = take(&db, file);
        assert!(taken.first > last);
        last = taken.first;
        if taken.logged {
            commit(txn);
        } else {
            txn.rollback();
        }
        if round % 30 == 20 {
            db.checkpoint().unwrap();
        }
        for seed in 0..3 {
            let after = open(&disk.crash(seed + round));
            let next = take(&after, file).first;
            assert!(next > last, "{next} was given out before {last}");
            assert!(
                next <= last + LOGGED_AHEAD + 1,
                "{next} skips too many after {last}"
            );
        }
    }
}

#[test]
fn a_clean_stop_skips_no_number() {
    let disk = SimDisk::new(2);
    let mut expected = 1;
    let mut file = None;
    for _ in 0..3 {
        let db = open(&disk);
        let file = *file.get_or_insert_with(|| {
            let mut txn = begin(&db);
            let file = txn.create_file().unwrap();
            txn.create_sequence(file, 1).unwrap();
            commit(txn);
            file
        });
        for _ in 0..5 {
            assert_eq!(take(&db, file).first, expected);
            expected += 1;
        }
        db.close().unwrap();
    }
}

#[test]
fn a_sequence_that_is_dropped_gives_no_numbers_until_that_is_taken_back() {
    let db = open(&SimDisk::new(3));
    let mut txn = begin(&db);
    let file = txn.create_file().unwrap();
    txn.create_sequence(file, 7).unwrap();
    commit(txn);
    let sequence = db.sequence(file).unwrap().unwrap();
    let mut txn = begin(&db);
    txn.drop_sequence(file).unwrap();
    let closing = NoNumber::Closing(txn.xid().unwrap());
    assert_eq!(sequence.next(&UP).unwrap(), Err(closing));
    assert_eq!(sequence.set(9, true).unwrap(), Err(closing));
    txn.rollback();
    assert_eq!(take(&db, file).first, 7);
    let mut txn = begin(&db);
    txn.drop_sequence(file).unwrap();
    let closing = NoNumber::Closing(txn.xid().unwrap());
    commit(txn);
    assert!(db.sequence(file).unwrap().is_none());
    assert_eq!(sequence.next(&UP).unwrap(), Err(closing));
}

#[test]
fn a_sequence_that_is_rolled_back_is_gone() {
    let db = open(&SimDisk::new(4));
    let mut txn = begin(&db);
    let file = txn.create_file().unwrap();
    txn.create_sequence(file, 1).unwrap();
    assert_eq!(take(&db, file).first, 1);
    txn.rollback();
    assert!(db.sequence(file).unwrap().is_none());
}

#[test]
fn a_page_that_is_no_sequences_is_named() {
    let db = open(&SimDisk::new(5));
    let mut txn = begin(&db);
    let file = txn.create_file().unwrap();
    let heap = db.pool().fork(file, Fork::Main).unwrap();
    heap.ensure_len(1).unwrap();
    assert!(db.sequence(file).is_err());
    txn.rollback();
}
