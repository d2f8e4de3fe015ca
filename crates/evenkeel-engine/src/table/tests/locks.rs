//! Two sessions and one row: who waits, and what they find afterwards.

use super::*;
use crate::error::EngineError;
use crate::{RowLockMode, WaitPolicy};

/// Updates by key with the READ COMMITTED protocol: when the row has changed, the newest version
/// is looked at again. Adds one to the value.
async fn add_one(f: &Fixture, txn: &mut Transaction, wanted: &str) -> EngineResult<bool> {
    txn.begin_statement()?;
    let Some((mut tid, mut row)) = f.find(txn, wanted.as_bytes()) else {
        return Ok(false);
    };
    loop {
        let value: u64 = row.split(':').nth(1).unwrap().parse().unwrap();
        let new = format!("{wanted}:{}", value + 1);
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
            Modified::Done(_) => return Ok(true),
            Modified::Changed { newest } => {
                tid = newest.tid();
                row = text(&f.table.fetch_locked(newest)?.unwrap().bytes);
            }
            _ => return Ok(false),
        }
    }
}

#[test]
fn an_update_waits_and_goes_on_with_the_newest_version() {
    let f = Fixture::new(1);
    f.put("a:0");
    let mut first = f.begin();
    assert!(block_on(add_one(&f, &mut first, "a")).unwrap());
    let (g, mut second) = (f.clone(), f.begin());
    let waiting = spawn(async move {
        let done = add_one(&g, &mut second, "a").await;
        second.commit(Durability::Sync).await.unwrap();
        done
    });
    until_waiting(&f.db, 1);
    end(first);
    assert!(waiting.join().unwrap().unwrap());
    assert_eq!(f.committed(), ["a:2"]);
    f.assert_sound();
}

#[test]
fn an_update_goes_on_with_its_version_when_the_other_rolls_back() {
    let f = Fixture::new(1);
    f.put("a:0");
    let mut first = f.begin();
    assert!(block_on(add_one(&f, &mut first, "a")).unwrap());
    let (g, mut second) = (f.clone(), f.begin());
    let waiting = spawn(async move {
        let done = add_one(&g, &mut second, "a").await;
        second.commit(Durability::Sync).await.unwrap();
        done
    });
    until_waiting(&f.db, 1);
    first.rollback();
    assert!(waiting.join().unwrap().unwrap());
    assert_eq!(f.committed(), ["a:1"]);
    f.assert_sound();
}

#[test]
fn a_row_deleted_meanwhile_is_gone() {
    let f = Fixture::new(1);
    let tid = f.put("a:0");
    let mut late = f.begin();
    late.begin_statement().unwrap();
    f.commit(|txn| f.delete(txn, tid).unwrap());
    assert_eq!(f.update(&mut late, tid, "a:1").unwrap(), Modified::Gone);
    assert_eq!(f.delete(&mut late, tid).unwrap(), Modified::Gone);
}

#[test]
fn repeatable_read_fails_where_read_committed_goes_on() {
    let f = Fixture::new(1);
    let tid = f.put("a:0");
    let mut fixed = f.begin_rr();
    f.commit(|txn| f.set(txn, "a:1"));
    for error in [
        f.update(&mut fixed, tid, "a:2").unwrap_err(),
        f.delete(&mut fixed, tid).unwrap_err(),
        block_on(f.table.lock_row(
            &mut fixed,
            RowHandle::unguarded(tid),
            RowLockMode::Update,
            WaitPolicy::Block,
        ))
        .unwrap_err(),
    ] {
        assert!(matches!(
            error,
            EngineError::SerializationFailure { what: "update" }
        ));
    }
}

#[test]
fn an_update_across_pages_is_followed() {
    let f = Fixture::new(1);
    let tid = f.put("a:0");
    let mut late = f.begin();
    late.begin_statement().unwrap();
    for n in 1..5 {
        f.commit(|txn| f.set(txn, &format!("a:{n}{}", "x".repeat(7000))));
    }
    let Modified::Changed { newest } = f.update(&mut late, tid, "a:9").unwrap() else {
        panic!()
    };
    let row = f.table.fetch_locked(newest).unwrap().unwrap();
    assert!(text(&row.bytes).starts_with("a:4"));
    assert!(matches!(
        f.update(&mut late, newest.tid(), "a:9").unwrap(),
        Modified::Done(_)
    ));
    end(late);
    assert_eq!(f.committed(), ["a:9"]);
}

#[test]
fn row_locks_conflict_as_in_postgresql() {
    use RowLockMode::{KeyShare, NoKeyUpdate, Share, Update};
    let f = Fixture::new(1);
    let tid = f.put("a:0");
    let conflicts = [
        (KeyShare, KeyShare, false),
        (KeyShare, NoKeyUpdate, false),
        (KeyShare, Update, true),
        (Share, Share, false),
        (Share, NoKeyUpdate, true),
        (NoKeyUpdate, NoKeyUpdate, true),
        (Update, KeyShare, true),
    ];
    for (held, wanted, conflict) in conflicts {
        let (mut first, mut second) = (f.begin(), f.begin());
        let lock = |txn: &mut Transaction, mode| {
            txn.begin_statement().unwrap();
            block_on(
                f.table
                    .lock_row(txn, RowHandle::unguarded(tid), mode, WaitPolicy::SkipLocked),
            )
            .unwrap()
        };
        assert_eq!(lock(&mut first, held), Modified::Done(tid));
        let expected = if conflict {
            Modified::Skipped
        } else {
            Modified::Done(tid)
        };
        assert_eq!(lock(&mut second, wanted), expected, "{held:?} {wanted:?}");
    }
    let (mut first, mut second) = (f.begin(), f.begin());
    block_on(f.table.lock_row(
        &mut first,
        RowHandle::unguarded(tid),
        Update,
        WaitPolicy::Block,
    ))
    .unwrap();
    let error = block_on(f.table.lock_row(
        &mut second,
        RowHandle::unguarded(tid),
        Update,
        WaitPolicy::NoWait,
    ))
    .unwrap_err();
    assert!(matches!(error, EngineError::LockNotAvailable { .. }));
}

#[test]
fn a_row_that_is_skipped_or_refused_is_not_locked() {
    let f = Fixture::new(1);
    let tid = f.put("a:0");
    for (mode, policy) in [
        (RowLockMode::Update, WaitPolicy::SkipLocked),
        (RowLockMode::Update, WaitPolicy::NoWait),
        (RowLockMode::KeyShare, WaitPolicy::SkipLocked),
    ] {
        let mut changing = f.begin();
        f.set(&mut changing, "a:1");
        // A key-share lock passes the update and stops at the delete of the new version.
        let (newest, _) = {
            changing.begin_statement().unwrap();
            f.find(&mut changing, b"a").unwrap()
        };
        assert!(matches!(
            f.delete(&mut changing, newest).unwrap(),
            Modified::Done(_)
        ));
        let mut skipping = f.begin();
        skipping.begin_statement().unwrap();
        match block_on(
            f.table
                .lock_row(&mut skipping, RowHandle::unguarded(tid), mode, policy),
        ) {
            Ok(outcome) => assert_eq!(outcome, Modified::Skipped),
            Err(error) => assert!(matches!(error, EngineError::LockNotAvailable { .. })),
        }
        assert!(f.db.locks().is_empty(), "{mode:?} {policy:?}");
        changing.rollback();
        let mut third = f.begin();
        third.begin_statement().unwrap();
        let update = RowLockMode::Update;
        let locked = f.table.lock_row(
            &mut third,
            RowHandle::unguarded(tid),
            update,
            WaitPolicy::NoWait,
        );
        assert_eq!(block_on(locked).unwrap(), Modified::Done(tid));
    }
}

#[test]
fn a_change_waits_for_the_lock_of_another() {
    let f = Fixture::new(1);
    let tid = f.put("a:0");
    let mut holder = f.begin();
    holder.begin_statement().unwrap();
    block_on(f.table.lock_row(
        &mut holder,
        RowHandle::unguarded(tid),
        RowLockMode::Share,
        WaitPolicy::Block,
    ))
    .unwrap();
    let (g, mut other) = (f.clone(), f.begin());
    let waiting = spawn(async move {
        let done = add_one(&g, &mut other, "a").await;
        other.commit(Durability::Sync).await.unwrap();
        done
    });
    until_waiting(&f.db, 1);
    assert_eq!(f.committed(), ["a:0"]);
    end(holder);
    assert!(waiting.join().unwrap().unwrap());
    assert_eq!(f.committed(), ["a:1"]);
}

#[test]
fn a_key_share_lock_does_not_wait_for_a_change_of_other_columns() {
    let f = Fixture::new(1);
    let tid = f.put("a:0");
    let mut changing = f.begin();
    f.set(&mut changing, "a:1");
    let mut sharing = f.begin();
    sharing.begin_statement().unwrap();
    let lock = |txn: &mut Transaction, mode| {
        block_on(
            f.table
                .lock_row(txn, RowHandle::unguarded(tid), mode, WaitPolicy::SkipLocked),
        )
        .unwrap()
    };
    assert_eq!(lock(&mut sharing, RowLockMode::Share), Modified::Skipped);
    assert_eq!(
        lock(&mut sharing, RowLockMode::KeyShare),
        Modified::Done(tid)
    );
    end(changing);
    // The lock is on the new version too: it cannot be deleted.
    let (g, mut deleting) = (f.clone(), f.begin());
    let waiting = spawn(async move {
        deleting.begin_statement().unwrap();
        let (tid, _) = g.find(&mut deleting, b"a").unwrap();
        let done = g
            .table
            .delete(&mut deleting, RowHandle::unguarded(tid))
            .await;
        deleting.commit(Durability::Sync).await.unwrap();
        done
    });
    until_waiting(&f.db, 1);
    end(sharing);
    assert!(matches!(
        waiting.join().unwrap().unwrap(),
        Modified::Done(_)
    ));
    assert!(f.committed().is_empty());
}

#[test]
fn two_updates_in_opposite_order_end_in_a_deadlock_error() {
    let f = Fixture::new(1);
    f.put("a:0");
    f.put("b:0");
    let (mut first, mut second) = (f.begin(), f.begin());
    assert!(block_on(add_one(&f, &mut first, "a")).unwrap());
    assert!(block_on(add_one(&f, &mut second, "b")).unwrap());
    let g = f.clone();
    let waiting = spawn(async move {
        let result = add_one(&g, &mut first, "b").await;
        match &result {
            Ok(_) => first.commit(Durability::Sync).await.unwrap(),
            Err(_) => first.rollback(),
        }
        result
    });
    until_waiting(&f.db, 1);
    let mine = block_on(add_one(&f, &mut second, "a"));
    match &mine {
        Ok(_) => end(second),
        Err(_) => second.rollback(),
    }
    let theirs = waiting.join().unwrap();
    let deadlocks = [mine, theirs]
        .iter()
        .filter(|result| matches!(result, Err(EngineError::Deadlock { .. })))
        .count();
    assert_eq!(deadlocks, 1);
    assert_eq!(f.committed(), ["a:1", "b:1"]);
}

#[test]
fn an_insert_waits_for_the_other_inserter_of_its_key() {
    for commits in [true, false] {
        let f = Fixture::new(1);
        let mut first = f.begin();
        f.insert(&mut first, "a:1").unwrap();
        let (g, mut second) = (f.clone(), f.begin());
        let waiting = spawn(async move {
            let result = g.table.insert(&mut second, b"a:2").await;
            match &result {
                Ok(_) => second.commit(Durability::Sync).await.unwrap(),
                Err(_) => second.rollback(),
            }
            result
        });
        until_waiting(&f.db, 1);
        if commits {
            end(first);
        } else {
            first.rollback();
        }
        let result = waiting.join().unwrap();
        assert_eq!(
            matches!(result, Err(EngineError::UniqueViolation { .. })),
            commits
        );
        assert_eq!(f.committed(), [if commits { "a:1" } else { "a:2" }]);
        f.assert_sound();
    }
}

#[test]
fn many_sessions_add_to_one_row_and_none_is_lost() {
    let f = Fixture::new(1);
    f.put("a:0");
    let sessions: Vec<_> = (0..8)
        .map(|_| {
            let g = f.clone();
            std::thread::spawn(move || {
                for _ in 0..25 {
                    let mut txn = g.begin();
                    assert!(block_on(add_one(&g, &mut txn, "a")).unwrap());
                    block_on(txn.commit(Durability::Async)).unwrap();
                }
            })
        })
        .collect();
    for session in sessions {
        session.join().unwrap();
    }
    assert_eq!(f.committed(), ["a:200"]);
    f.assert_sound();
}

#[test]
fn futures_can_move_between_threads() {
    fn assert_send<T: Send>(value: T) -> T {
        value
    }
    let f = Fixture::new(1);
    let tid = f.put("a:0");
    let mut txn = f.begin();
    let row = b"a:1";
    drop(assert_send(f.table.insert(&mut txn, row)));
    drop(assert_send(f.table.update(
        &mut txn,
        RowHandle::unguarded(tid),
        row,
        KeyHint::Compare,
    )));
    drop(assert_send(
        f.table.delete(&mut txn, RowHandle::unguarded(tid)),
    ));
    let mode = RowLockMode::Update;
    drop(assert_send(f.table.lock_row(
        &mut txn,
        RowHandle::unguarded(tid),
        mode,
        WaitPolicy::Block,
    )));
    assert_send(f.table.scan(&txn.snapshot().unwrap()));
}

/// The versions that a transaction has locked.
fn locked_rows(f: &Fixture, number: u64) -> Vec<Tid> {
    let locks = f.db.locks().into_iter();
    let mine = locks.filter(|lock| lock.transaction == number && lock.granted);
    let rows = mine.filter_map(|lock| match lock.key {
        crate::lock::LockKey::Row(_, tid, _) | crate::lock::LockKey::Turn(_, tid, _) => Some(tid),
        _ => None,
    });
    rows.collect()
}

#[test]
fn a_waiter_gives_its_lock_on_an_old_version_back() {
    for deletes in [false, true] {
        for by_lock in [false, true] {
            let f = Fixture::new(1);
            let tid = f.put("a:0");
            let mut first = f.begin();
            if deletes {
                f.delete(&mut first, tid).unwrap();
            } else {
                f.set(&mut first, "a:1");
            }
            let (g, mut second) = (f.clone(), f.begin());
            let waiting = spawn(async move {
                second.begin_statement().unwrap();
                let outcome = if by_lock {
                    let (mode, policy) = (RowLockMode::Update, WaitPolicy::Block);
                    g.table
                        .lock_row(&mut second, RowHandle::unguarded(tid), mode, policy)
                        .await
                } else {
                    g.table
                        .update(
                            &mut second,
                            RowHandle::unguarded(tid),
                            b"a:2",
                            KeyHint::Compare,
                        )
                        .await
                };
                (second, outcome.unwrap())
            });
            until_waiting(&f.db, 1);
            end(first);
            let (second, outcome) = waiting.join().unwrap();
            match outcome {
                Modified::Gone => {
                    assert!(deletes);
                    assert_eq!(locked_rows(&f, second.number()), []);
                }
                Modified::Changed { newest } => {
                    let newest = newest.tid();
                    assert!(!deletes && newest != tid);
                    assert_eq!(locked_rows(&f, second.number()), [newest]);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_row_in_the_slot_of_an_old_version_is_not_locked() {
    let f = Fixture::new(0);
    f.put("a:0");
    let mut first = f.begin();
    let old = f.set(&mut first, "a:1");
    end(first);
    // A heap-only version: its slot is free as soon as it is pruned.
    let mut changing = f.begin();
    f.set(&mut changing, "a:2");
    let (g, mut second) = (f.clone(), f.begin());
    let waiting = spawn(async move {
        let (mode, policy) = (RowLockMode::Update, WaitPolicy::Block);
        second.begin_statement().unwrap();
        let outcome = g
            .table
            .lock_row(&mut second, RowHandle::unguarded(old), mode, policy)
            .await;
        second.end_statement();
        (second, outcome.unwrap())
    });
    until_waiting(&f.db, 1);
    end(changing);
    let (second, outcome) = waiting.join().unwrap();
    assert!(matches!(outcome, Modified::Changed { .. }));
    let mut reused = None;
    for number in 0..200 {
        let tid = f.put(&format!("b{number}:0"));
        f.vacuum(&VacuumOptions::default());
        if tid == old {
            reused = Some(tid);
            break;
        }
    }
    let tid = reused.expect("the slot is used again");
    let mut third = f.begin();
    third.begin_statement().unwrap();
    let (mode, policy) = (RowLockMode::Update, WaitPolicy::NoWait);
    let locked = block_on(
        f.table
            .lock_row(&mut third, RowHandle::unguarded(tid), mode, policy),
    );
    assert_eq!(locked.unwrap(), Modified::Done(tid));
    drop(second);
}

#[test]
fn what_a_fixed_snapshot_cannot_lock_is_refused_without_a_wait() {
    let f = Fixture::new(1);
    let tid = f.put("a:0");
    let mut fixed = f.begin_rr();
    f.commit(|txn| f.set(txn, "a:1"));
    let mut busy = f.begin();
    f.set(&mut busy, "a:2");
    fixed.set_lock_timeout(Some(std::time::Duration::from_secs(5)));
    let (mode, policy) = (RowLockMode::Update, WaitPolicy::Block);
    let refused = block_on(
        f.table
            .lock_row(&mut fixed, RowHandle::unguarded(tid), mode, policy),
    );
    assert_eq!(refused.unwrap_err().sqlstate(), "40001");
}

#[test]
fn lock_timeout_ends_every_kind_of_wait() {
    let f = Fixture::new(1);
    let tid = f.put("a:0");
    let mut first = f.begin();
    f.update(&mut first, tid, "a:1").unwrap();
    f.insert(&mut first, "b:0").unwrap();
    let exclusive = crate::TableLockMode::Exclusive;
    for lock in [
        block_on(first.lock_table(1, exclusive, WaitPolicy::Block)),
        block_on(first.lock_advisory(1, exclusive, WaitPolicy::Block)),
    ] {
        assert!(lock.unwrap());
    }
    let second = || {
        let mut txn = f.begin();
        txn.begin_statement().unwrap();
        txn.set_lock_timeout(Some(std::time::Duration::from_millis(5)));
        txn
    };
    let (mode, policy) = (RowLockMode::Share, WaitPolicy::Block);
    let (mut a, mut b, mut c, d, e) = (second(), second(), second(), second(), second());
    for refused in [
        f.update(&mut a, tid, "a:2").map(drop),
        block_on(
            f.table
                .lock_row(&mut b, RowHandle::unguarded(tid), mode, policy),
        )
        .map(drop),
        block_on(f.table.insert(&mut c, b"b:1")).map(drop),
        block_on(d.lock_table(1, exclusive, WaitPolicy::Block)).map(drop),
        block_on(e.lock_advisory(1, exclusive, WaitPolicy::Block)).map(drop),
    ] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, EngineError::LockTimeout), "{refused}");
        assert_eq!(refused.sqlstate(), "55P03");
    }
}

#[test]
fn a_key_share_lock_follows_its_row_and_ends_with_its_level() {
    let f = Fixture::new(1);
    let tid = f.put("a:0");
    let mut sharing = f.begin();
    sharing.begin_statement().unwrap();
    let skip = WaitPolicy::SkipLocked;
    let lock = |txn: &mut Transaction, tid, mode| {
        block_on(f.table.lock_row(txn, RowHandle::unguarded(tid), mode, skip)).unwrap()
    };
    sharing.savepoint("s");
    let share = RowLockMode::KeyShare;
    assert_eq!(lock(&mut sharing, tid, share), Modified::Done(tid));
    // Changes of other columns pass it, moves to other pages among them.
    for n in 1..4 {
        f.commit(|txn| f.set(txn, &format!("a:{n}{}", "x".repeat(7000))));
    }
    // And one that is rolled back in part.
    let mut changing = f.begin();
    f.set(&mut changing, "a:5");
    changing.savepoint("t");
    f.set(&mut changing, "a:6");
    changing.rollback_to("t").unwrap();
    end(changing);
    let refused = |what: &str| {
        let mut deleting = f.begin();
        deleting.begin_statement().unwrap();
        deleting.set_lock_timeout(Some(std::time::Duration::from_millis(5)));
        let (newest, _) = f.find(&mut deleting, b"a").unwrap();
        let deleted = f.delete(&mut deleting, newest);
        assert!(matches!(deleted, Err(EngineError::LockTimeout)), "{what}");
        newest
    };
    let newest = refused("of the lock");
    // A key-share lock of another finds the row by its oldest version, and is its own.
    let mut late = f.begin_rr();
    assert_eq!(lock(&mut late, newest, share), Modified::Done(newest));
    sharing.rollback_to("s").unwrap();
    assert_eq!(locked_rows(&f, sharing.number()), []);
    refused("of the other lock");
    late.rollback();
    f.commit(|txn| {
        let (newest, _) = f.find(txn, b"a").unwrap();
        f.delete(txn, newest).unwrap()
    });
    end(sharing);
    assert!(f.db.locks().is_empty());
    assert!(f.committed().is_empty());
    f.assert_sound();
}

#[test]
fn a_key_share_lock_passes_a_committed_change_under_a_fixed_snapshot() {
    let f = Fixture::new(1);
    let tid = f.put("a:0");
    let mut fixed = f.begin_rr();
    f.commit(|txn| f.set(txn, "a:1"));
    let policy = WaitPolicy::Block;
    let mode = RowLockMode::KeyShare;
    let locked = block_on(
        f.table
            .lock_row(&mut fixed, RowHandle::unguarded(tid), mode, policy),
    );
    assert_eq!(locked.unwrap(), Modified::Done(tid));
    f.commit(|txn| f.set(txn, "a:2"));
    fixed.rollback();
    let mut fixed = f.begin_rr();
    let (newest, _) = f.find(&mut fixed, b"a").unwrap();
    f.commit(|txn| {
        let (tid, _) = f.find(txn, b"a").unwrap();
        f.update(txn, tid, "b:2").unwrap()
    });
    let locked = block_on(
        f.table
            .lock_row(&mut fixed, RowHandle::unguarded(newest), mode, policy),
    );
    assert_eq!(locked.unwrap_err().sqlstate(), "40001");
}
