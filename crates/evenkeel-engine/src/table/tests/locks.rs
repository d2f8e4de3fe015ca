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
            .update(txn, tid, new.as_bytes(), KeyHint::Compare)
            .await?
        {
            Modified::Done(_) => return Ok(true),
            Modified::Changed { newest } => {
                tid = newest;
                row = text(&f.table.fetch_locked(txn, newest)?.unwrap().bytes);
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
        block_on(
            f.table
                .lock_row(&mut fixed, tid, RowLockMode::Update, WaitPolicy::Block),
        )
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
    let row = f.table.fetch_locked(&late, newest).unwrap().unwrap();
    assert!(text(&row.bytes).starts_with("a:4"));
    assert!(matches!(
        f.update(&mut late, newest, "a:9").unwrap(),
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
            block_on(f.table.lock_row(txn, tid, mode, WaitPolicy::SkipLocked)).unwrap()
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
    block_on(f.table.lock_row(&mut first, tid, Update, WaitPolicy::Block)).unwrap();
    let error = block_on(
        f.table
            .lock_row(&mut second, tid, Update, WaitPolicy::NoWait),
    )
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
        match block_on(f.table.lock_row(&mut skipping, tid, mode, policy)) {
            Ok(outcome) => assert_eq!(outcome, Modified::Skipped),
            Err(error) => assert!(matches!(error, EngineError::LockNotAvailable { .. })),
        }
        assert!(f.db.locks().is_empty(), "{mode:?} {policy:?}");
        changing.rollback();
        let mut third = f.begin();
        third.begin_statement().unwrap();
        let update = RowLockMode::Update;
        let locked = f
            .table
            .lock_row(&mut third, tid, update, WaitPolicy::NoWait);
        assert_eq!(block_on(locked).unwrap(), Modified::Done(tid));
    }
}

#[test]
fn a_change_waits_for_the_lock_of_another() {
    let f = Fixture::new(1);
    let tid = f.put("a:0");
    let mut holder = f.begin();
    holder.begin_statement().unwrap();
    block_on(
        f.table
            .lock_row(&mut holder, tid, RowLockMode::Share, WaitPolicy::Block),
    )
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
        block_on(f.table.lock_row(txn, tid, mode, WaitPolicy::SkipLocked)).unwrap()
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
        let done = g.table.delete(&mut deleting, tid).await;
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
        tid,
        row,
        KeyHint::Compare,
    )));
    drop(assert_send(f.table.delete(&mut txn, tid)));
    let mode = RowLockMode::Update;
    drop(assert_send(f.table.lock_row(
        &mut txn,
        tid,
        mode,
        WaitPolicy::Block,
    )));
    assert_send(f.table.scan(&txn.snapshot().unwrap()));
}
