//! Transactions on a database of their own, without tables.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use evenkeel_io::{Disk, Fault, FaultKind, OpKind, OpenOptions, SimDisk, sample};
use evenkeel_storage::{
    CheckpointMode, InsertedRecord, Lsn, RecordKind, StorageConfig, TornPageProtection,
};
use parking_lot::Mutex;

use super::Transaction;
use crate::txn::recent_xids::RecentXidsState;
use crate::txn::xid_state::XidState;
use crate::txn::{EndHook, Hint, Snapshot, XidAtHorizon};
use crate::{
    CommandId, Config, Database, Durability, EngineError, Isolation, LockKey, RowLockMode,
    TableLockMode, Tid, WaitInfo, WaitOn, WaitPolicy, Xid, XidStatus, block_on,
};

const DIR: &str = "/db";

fn open(disk: &SimDisk) -> Database {
    open_with(disk, 1 << 20)
}

fn open_with(disk: &SimDisk, xid_window: usize) -> Database {
    let storage = StorageConfig::small();
    let config = Config {
        storage,
        xid_window,
        ..Config::default()
    };
    Database::open(Arc::new(disk.clone()), Path::new(DIR), config).unwrap()
}

fn begin(db: &Database) -> Transaction {
    db.begin(Isolation::ReadCommitted).unwrap()
}

fn commit(txn: Transaction) {
    block_on(txn.commit(Durability::Sync)).unwrap();
}

/// Commits a transaction that has an id and nothing else.
fn commit_one(db: &Database, durability: Durability) -> Xid {
    let mut txn = begin(db);
    let xid = txn.xid().unwrap();
    block_on(txn.commit(durability)).unwrap();
    xid
}

fn sees(snapshot: &Snapshot, xid: Xid) -> bool {
    snapshot.visibility(xid, Hint::None).unwrap().visible
}

/// Waits until the background thread has nothing left to apply.
fn settle(db: &Database) {
    db.store().log().flush_all().unwrap();
    db.system().work().unwrap();
    while db.system().core.publisher.redo_floor().is_some() {
        db.system().work().unwrap();
        std::thread::yield_now();
    }
}

/// Waits for what other threads do on their own: apply a batch, hear of a flush.
fn eventually(mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::yield_now();
    }
}

#[test]
fn a_snapshot_sees_what_committed_before_it() {
    let db = open(&SimDisk::new(1));
    let before = begin(&db).snapshot().unwrap();
    let mut running = begin(&db);
    let in_progress = running.xid().unwrap();
    let committed = commit_one(&db, Durability::Sync);
    let after = begin(&db).snapshot().unwrap();
    assert!(!sees(&before, committed) && sees(&after, committed));
    assert!(!sees(&after, in_progress));
    assert_eq!(db.xid_status(in_progress).unwrap(), XidStatus::InProgress);
    assert!(running.owns(in_progress));
    let visibility = running
        .snapshot()
        .unwrap()
        .visibility(in_progress, Hint::None)
        .unwrap();
    assert!(visibility.own && !visibility.visible);
    commit(running);
    assert!(!sees(&after, in_progress));
    assert_eq!(db.xid_status(in_progress).unwrap(), XidStatus::Committed);
    assert!(sees(&begin(&db).snapshot().unwrap(), Xid::FROZEN));
}

#[test]
fn isolation_levels_choose_when_snapshots_are_taken() {
    let db = open(&SimDisk::new(1));
    let mut each = begin(&db);
    let mut one = db.begin(Isolation::RepeatableRead).unwrap();
    each.begin_statement().unwrap();
    one.begin_statement().unwrap();
    let xid = commit_one(&db, Durability::Sync);
    each.begin_statement().unwrap();
    one.begin_statement().unwrap();
    assert!(sees(&each.snapshot().unwrap(), xid));
    assert!(!sees(&one.snapshot().unwrap(), xid));
    let refused = db.begin(Isolation::Serializable).unwrap_err();
    assert_eq!(refused.sqlstate(), "0A000");
}

#[test]
fn a_statement_does_not_see_its_own_changes_and_the_next_one_does() {
    let db = open(&SimDisk::new(1));
    let mut txn = begin(&db);
    txn.begin_statement().unwrap();
    let written_at = txn.command();
    assert_eq!(txn.snapshot().unwrap().command(), written_at);
    txn.begin_statement().unwrap();
    assert!(written_at < txn.snapshot().unwrap().command());
    // A statement that wrote nothing uses no command id.
    let before = txn.snapshot().unwrap().command();
    txn.begin_statement().unwrap();
    assert_eq!(txn.snapshot().unwrap().command(), before);
    let combo = txn.combo(CommandId(1), CommandId(5));
    assert_eq!(txn.combo(CommandId(1), CommandId(5)), combo);
    assert_ne!(txn.combo(CommandId(2), CommandId(5)), combo);
    let snapshot = txn.snapshot().unwrap();
    assert_eq!(snapshot.combo(combo).unwrap(), (CommandId(1), CommandId(5)));
    assert!(snapshot.combo(CommandId(99)).is_err());
}

#[test]
fn savepoints_nest_and_roll_back() {
    let db = open(&SimDisk::new(1));
    let mut txn = begin(&db);
    let top = txn.xid().unwrap();
    txn.savepoint("a");
    let in_a = txn.xid().unwrap();
    txn.savepoint("b");
    let in_b = txn.xid().unwrap();
    assert!(top < in_a && in_a < in_b);
    txn.release("b").unwrap();
    assert_eq!(txn.xid().unwrap(), in_a);
    txn.savepoint("a");
    let inner = txn.xid().unwrap();
    txn.rollback_to("a").unwrap();
    assert_eq!(db.xid_status(inner).unwrap(), XidStatus::Aborted);
    assert!(txn.owns(in_b) && !txn.owns(inner));
    txn.release("a").unwrap();
    // The outer one of the same name is back in view.
    txn.rollback_to("a").unwrap();
    assert!(!txn.owns(in_a) && !txn.owns(in_b) && txn.owns(top));
    assert!(
        txn.rollback_to("b")
            .is_err_and(|error| error.sqlstate() == "3B001")
    );
    let again = txn.xid().unwrap();
    assert!(again > inner);
    commit(txn);
    let expected = [
        (top, true),
        (in_a, false),
        (in_b, false),
        (inner, false),
        (again, true),
    ];
    let snapshot = begin(&db).snapshot().unwrap();
    for (xid, visible) in expected {
        assert_eq!(sees(&snapshot, xid), visible, "{xid:?}");
    }
}

#[test]
fn a_subtransactions_locks_and_hooks_go_with_it() {
    let db = open(&SimDisk::new(1));
    let log = Arc::new(Mutex::new(Vec::new()));
    let note = |text: &'static str| -> EndHook {
        let log = Arc::clone(&log);
        Box::new(move || log.lock().push(text))
    };
    let mut txn = begin(&db);
    txn.xid().unwrap();
    txn.on_commit(note("commit"));
    txn.on_abort(note("abort"));
    let sub = txn.begin_sub();
    txn.on_commit(note("sub commit"));
    txn.on_abort(note("sub abort"));
    block_on(txn.lock_table(1, TableLockMode::Exclusive, WaitPolicy::Block)).unwrap();
    assert_eq!(db.locks().len(), 1);
    txn.abort_sub(sub);
    assert!(db.locks().is_empty());
    let kept = txn.begin_sub();
    txn.on_commit(note("kept commit"));
    txn.commit_sub(kept);
    commit(txn);
    assert_eq!(*log.lock(), ["sub abort", "commit", "kept commit"]);
}

#[test]
fn a_subtransaction_undone_may_leave_its_locks_to_the_level_below() {
    let db = open(&SimDisk::new(1));
    let mut txn = begin(&db);
    txn.savepoint("outer");
    let sub = txn.begin_sub();
    let undone = txn.xid().unwrap();
    block_on(txn.lock_table(1, TableLockMode::Exclusive, WaitPolicy::Block)).unwrap();
    txn.abort_sub_keeping_locks(sub);
    assert!(!txn.owns(undone));
    assert_eq!(db.locks().len(), 1);
    txn.rollback_to("outer").unwrap();
    assert!(db.locks().is_empty());
}

#[test]
fn the_isolation_level_changes_in_place() {
    let db = open(&SimDisk::new(1));
    let mut txn = begin(&db);
    block_on(txn.lock_table(1, TableLockMode::Exclusive, WaitPolicy::Block)).unwrap();
    assert!(txn.set_isolation(Isolation::Serializable).is_err());
    assert_eq!(txn.isolation(), Isolation::ReadCommitted);
    txn.set_isolation(Isolation::RepeatableRead).unwrap();
    assert_eq!(db.locks().len(), 1, "its locks stay");
    let first = txn.snapshot().unwrap().lsn();
    let xid = commit_one(&db, Durability::Sync);
    txn.begin_statement().unwrap();
    let snapshot = txn.snapshot().unwrap();
    assert!(snapshot.lsn() == first && !sees(&snapshot, xid));
}

#[test]
fn dropping_a_transaction_rolls_it_back() {
    let db = open(&SimDisk::new(1));
    let xid = {
        let mut txn = begin(&db);
        block_on(txn.lock_table(1, TableLockMode::Exclusive, WaitPolicy::Block)).unwrap();
        txn.xid().unwrap()
    };
    assert_eq!(db.xid_status(xid).unwrap(), XidStatus::Aborted);
    assert!(db.locks().is_empty());
    let statistics = db.txn_statistics();
    assert_eq!((statistics.commits, statistics.rollbacks), (0, 1));
}

#[test]
fn a_reading_transaction_writes_no_log() {
    let db = open(&SimDisk::new(1));
    let before = db.store().log().insert_lsn();
    let mut txn = begin(&db);
    txn.snapshot().unwrap();
    block_on(txn.lock_table(1, TableLockMode::AccessShare, WaitPolicy::Block)).unwrap();
    commit(txn);
    begin(&db).rollback();
    assert_eq!(db.store().log().insert_lsn(), before);
    assert_eq!(db.next_xid(), Xid::FIRST);
}

#[test]
fn an_abandoned_commit_still_gives_up_its_locks() {
    let db = open(&SimDisk::new(1));
    let mut txn = begin(&db);
    let xid = txn.xid().unwrap();
    block_on(txn.lock_table(1, TableLockMode::Exclusive, WaitPolicy::Block)).unwrap();
    drop(txn.commit(Durability::Sync));
    let other = begin(&db);
    assert!(block_on(other.lock_table(1, TableLockMode::Share, WaitPolicy::Block)).unwrap());
    assert_eq!(db.xid_status(xid).unwrap(), XidStatus::Committed);
}

#[test]
fn whoever_waits_for_an_id_sees_its_end() {
    let db = open(&SimDisk::new(1));
    let mut holder = begin(&db);
    let xid = holder.xid().unwrap();
    let skipped = block_on(begin(&db).wait_for_xid(xid, WaitPolicy::SkipLocked));
    assert!(!skipped.unwrap());
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let txn = begin(&db);
                    assert!(block_on(txn.wait_for_xid(xid, WaitPolicy::Block)).unwrap());
                    db.xid_status(xid).unwrap()
                })
            })
            .collect();
        commit(holder);
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), XidStatus::Committed);
        }
    });
}

#[test]
fn a_cycle_of_id_and_row_waits_ends_with_40p01() {
    let db = open(&SimDisk::new(1));
    let file = evenkeel_storage::FileId(99);
    let version = super::RowVersion {
        tid: Tid::new(evenkeel_storage::BlockNumber(0), 1),
        xmin: Xid::new(7),
    };
    let (mut a, mut b) = (begin(&db), begin(&db));
    a.set_deadlock_timeout(Duration::from_millis(5));
    b.set_deadlock_timeout(Duration::from_secs(3600));
    let xid = a.xid().unwrap();
    let row = |txn: &Transaction| {
        block_on(txn.lock_row(file, version, RowLockMode::Update, WaitPolicy::Block))
    };
    assert!(row(&b).unwrap());
    assert!(a.row_conflict(file, version, RowLockMode::KeyShare));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| block_on(b.wait_for_xid(xid, WaitPolicy::Block)).is_err());
        while db.system().core.locks.waits() == 0 {
            std::thread::yield_now();
        }
        let wait = WaitInfo {
            transaction: b.number(),
            on: WaitOn::Transaction(xid),
        };
        assert_eq!(db.waits(), [wait]);
        assert_eq!(a.ids().top(), Some(xid));
        let failed = row(&a);
        assert!(matches!(failed, Err(EngineError::Deadlock { .. })));
        a.rollback();
        assert!(!waits.join().unwrap());
    });
    assert_eq!(db.txn_statistics().deadlocks, 1);
}

#[test]
fn commits_are_published_in_log_order() {
    let db = open(&SimDisk::new(1));
    let published = Arc::new(Mutex::new(Vec::new()));
    let in_order = Arc::new(Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (db, published, in_order) = (&db, &published, &in_order);
            scope.spawn(move || {
                for turn in 0..200 {
                    let mut txn = begin(db);
                    let xid = txn.xid().unwrap();
                    let seen = Arc::clone(published);
                    txn.on_commit(Box::new(move || seen.lock().push(xid)));
                    let seen = Arc::clone(in_order);
                    txn.on_publish(Box::new(move || seen.lock().push(xid)));
                    let durability = match (thread + turn) % 3 {
                        0 => Durability::Async,
                        _ => Durability::Sync,
                    };
                    block_on(txn.commit(durability)).unwrap();
                    // A commit that has returned is visible to every later snapshot.
                    assert!(sees(&begin(db).snapshot().unwrap(), xid));
                }
            });
        }
    });
    let lsn = |xid: &Xid| match db.system().core.window.get(*xid).unwrap() {
        RecentXidsState::Committed(lsn) => lsn,
        other => panic!("{xid:?} is {other:?}"),
    };
    let xids = published.lock().clone();
    assert_eq!(xids.len(), 800);
    // The hooks of a batch run after it is published, so neighbours may run on two threads;
    // what the snapshots saw is checked above and below. Those of publication keep the order.
    let in_order = in_order.lock().clone();
    assert_eq!(in_order.len(), 800);
    assert!(in_order.iter().map(lsn).is_sorted());
    let last = xids.iter().map(lsn).max().unwrap();
    assert_eq!(db.system().core.publisher.published(), last);
}

#[test]
fn snapshots_see_whole_transactions() {
    let db = open(&SimDisk::new(1));
    let pairs = Mutex::new(Vec::<(Xid, Xid)>::new());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|thread| {
                let (db, pairs) = (&db, &pairs);
                scope.spawn(move || {
                    for turn in 0..150 {
                        let mut txn = begin(db);
                        let top = txn.xid().unwrap();
                        let sub = txn.begin_sub();
                        let child = txn.xid().unwrap();
                        txn.commit_sub(sub);
                        pairs.lock().push((top, child));
                        if turn % 7 == 3 {
                            txn.rollback();
                        } else if (turn + thread) % 2 == 0 {
                            block_on(txn.commit(Durability::Async)).unwrap();
                        } else {
                            commit(txn);
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            // A later snapshot sees whatever an earlier one saw, and transactions whole.
            let mut reader = begin(&db);
            let mut seen: Vec<(Xid, Xid)> = Vec::new();
            while !done.load(Ordering::SeqCst) {
                reader.begin_statement().unwrap();
                let snapshot = reader.snapshot().unwrap();
                assert!(seen.iter().all(|(top, _)| sees(&snapshot, *top)));
                let known = pairs.lock().clone();
                for (top, child) in &known[known.len().saturating_sub(40)..] {
                    assert_eq!(sees(&snapshot, *top), sees(&snapshot, *child));
                    if sees(&snapshot, *top) && seen.len() < 500 {
                        seen.push((*top, *child));
                    }
                }
            }
        });
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::SeqCst);
    });
    assert_eq!(db.system().core.publisher.view().floor, db.next_xid());
}

#[test]
fn a_hint_waits_for_durability() {
    let db = open(&SimDisk::new(1));
    let system = db.system();
    let durable = system.core.publisher.durable_upto();
    assert_eq!(system.hint(XidState::Committed(durable)), None);
    let xid = commit_one(&db, Durability::Async);
    db.store().log().flush_all().unwrap();
    let snapshot = begin(&db).snapshot().unwrap();
    // The publisher hears of the flush a little later.
    eventually(|| snapshot.visibility(xid, Hint::None).unwrap().set == Some(Hint::Committed));
    assert_eq!(snapshot.visibility(xid, Hint::Committed).unwrap().set, None);
    // From the floor on a hint does not replace the look-up.
    let mut old = begin(&db);
    let held = old.xid().unwrap();
    let early = begin(&db).snapshot().unwrap();
    let late = commit_one(&db, Durability::Sync);
    assert!(early.floor() <= held);
    assert!(!early.visibility(late, Hint::Committed).unwrap().visible);
}

#[test]
fn old_snapshots_keep_the_window() {
    let db = open_with(&SimDisk::new(1), 8192);
    let mut old = db.begin(Isolation::RepeatableRead).unwrap();
    let early = old.snapshot().unwrap();
    let mut last = Xid::NONE;
    for _ in 0..3 {
        let mut txn = begin(&db);
        for _ in 0..5000 {
            let sub = txn.begin_sub();
            txn.xid().unwrap();
            txn.commit_sub(sub);
        }
        last = txn.xid_if_any().unwrap();
        commit(txn);
    }
    settle(&db);
    assert!(db.txn_statistics().spilled_chunks > 0);
    eventually(|| db.system().core.window.tail() == early.floor());
    for xid in [
        Xid::FIRST,
        last,
        Xid::new(last.get() - 3000),
        Xid::new(last.get() + 4999),
    ] {
        assert!(!sees(&early, xid), "{xid:?}");
        assert!(sees(&begin(&db).snapshot().unwrap(), xid), "{xid:?}");
        let removal = db.removal(&db.horizon(), xid, Hint::None).unwrap().0;
        assert_eq!(removal, XidAtHorizon::CommittedLately);
    }
    drop(early);
    commit(old);
    commit_one(&db, Durability::Sync);
    settle(&db);
    eventually(|| db.txn_statistics().spilled_chunks == 0);
    assert_eq!(
        db.removal(&db.horizon(), last, Hint::None).unwrap().0,
        XidAtHorizon::CommittedForAll
    );
    assert!(sees(&begin(&db).snapshot().unwrap(), last));
}

#[test]
fn the_horizon_tells_who_is_dead_to_all() {
    let db = open(&SimDisk::new(1));
    let early = commit_one(&db, Durability::Sync);
    let reader = begin(&db).snapshot().unwrap();
    let late = commit_one(&db, Durability::Sync);
    let mut running = begin(&db);
    let in_progress = running.xid().unwrap();
    let mut aborting = begin(&db);
    let aborted = aborting.xid().unwrap();
    aborting.rollback();
    let horizon = db.horizon();
    let removal = |xid| db.removal(&horizon, xid, Hint::None).unwrap().0;
    assert_eq!(removal(early), XidAtHorizon::CommittedForAll);
    assert_eq!(removal(late), XidAtHorizon::CommittedLately);
    assert_eq!(removal(in_progress), XidAtHorizon::InProgress);
    assert_eq!(removal(aborted), XidAtHorizon::Aborted);
    drop(reader);
    let horizon = db.horizon();
    assert_eq!(
        db.removal(&horizon, late, Hint::None).unwrap().0,
        XidAtHorizon::CommittedForAll
    );
    assert_eq!(db.recent_horizon(), horizon);
}

/// The redo point is behind damage that was given up before anybody can commit: another crash
/// needs the setting no more, and gives up nothing.
#[test]
fn commits_made_after_damage_was_given_up_survive_the_next_crash() {
    let disk = SimDisk::new(37);
    let db = open(&disk);
    let kept = commit_one(&db, Durability::Sync);
    let damaged = db.store().log().insert_lsn();
    for _ in 0..200 {
        commit_one(&db, Durability::Sync);
    }
    let size = db.store().config().wal_segment_size;
    let image = disk.crash(1);
    drop(db);
    let path = format!("{DIR}/wal/00000001-{:016x}", damaged.0 / size);
    let segment = image.open(path.as_ref(), OpenOptions::read_write());
    let segment = segment.unwrap();
    segment.write_all_at(&[0xff; 8], damaged.0 % size).unwrap();
    segment.sync_all().unwrap();
    let config = |ignore_log_damage| Config {
        storage: StorageConfig {
            ignore_log_damage,
            ..StorageConfig::small()
        },
        ..Config::default()
    };
    let open = |disk: &SimDisk, forced| {
        Database::open(Arc::new(disk.clone()), Path::new(DIR), config(forced))
    };
    assert!(open(&image, false).is_err());
    let db = open(&image, true).unwrap();
    assert_eq!(db.xid_status(kept).unwrap(), XidStatus::Committed);
    let later = commit_one(&db, Durability::Sync);
    let image = image.crash(2);
    drop(db);
    let db = open(&image, false).unwrap();
    for xid in [kept, later] {
        assert_eq!(db.xid_status(xid).unwrap(), XidStatus::Committed);
    }
}

/// The record of a commit has no room: the transaction ends as if it had rolled back, and no other
/// one suffers.
#[test]
fn a_commit_without_room_for_its_record_rolls_back() {
    let disk = SimDisk::new(38);
    let db = open(&disk);
    let mut refused = begin(&db);
    let xid = refused.xid().unwrap();
    let key = 7;
    let mode = TableLockMode::Exclusive;
    block_on(refused.lock_advisory(key, mode, WaitPolicy::Block)).unwrap();
    let full = Fault::nth(1, FaultKind::Enospc).on(OpKind::Allocate);
    disk.inject(full.path("/wal/new").sticky());
    let last = loop {
        let mut txn = begin(&db);
        let done = txn.xid().map(drop);
        let done = done.and_then(|()| block_on(txn.commit(Durability::Async)).map(drop));
        if let Err(error) = done {
            break error;
        }
    };
    let is_full = |error: &EngineError| error.to_string().contains("full");
    assert!(is_full(&last), "{last}");
    let error = block_on(refused.commit(Durability::Sync)).unwrap_err();
    assert!(is_full(&error), "{error}");
    assert_eq!(db.xid_status(xid).unwrap(), XidStatus::Aborted);
    // Its locks are free.
    let other = begin(&db);
    block_on(other.lock_advisory(key, mode, WaitPolicy::NoWait)).unwrap();
    drop(other);
    disk.clear_faults();
    eventually(|| db.store().admit().is_ok());
    let later = commit_one(&db, Durability::Sync);
    let image = disk.crash(1);
    drop(db);
    let db = open(&image);
    assert_eq!(db.xid_status(xid).unwrap(), XidStatus::Aborted);
    assert_eq!(db.xid_status(later).unwrap(), XidStatus::Committed);
}

#[test]
fn statuses_survive_a_crash() {
    let disk = SimDisk::new(1);
    let mut expected = Vec::new();
    {
        let db = open(&disk);
        for turn in 0..300 {
            let mut txn = begin(&db);
            let top = txn.xid().unwrap();
            txn.savepoint("kept");
            let kept = txn.xid().unwrap();
            txn.savepoint("lost");
            let lost = txn.xid().unwrap();
            txn.rollback_to("lost").unwrap();
            let committed = turn % 3 != 0;
            if committed {
                commit(txn);
            } else {
                txn.rollback();
            }
            expected.extend([(top, committed), (kept, committed), (lost, false)]);
            if turn == 150 {
                db.store().checkpoint(CheckpointMode::Fast).unwrap();
            }
        }
        let mut undecided = begin(&db);
        expected.push((undecided.xid().unwrap(), false));
        // An id beyond the last one in the log would be given out again.
        expected.push((commit_one(&db, Durability::Sync), true));
        let image = disk.crash(7);
        check_statuses(&image, &expected);
        let image = disk.process_crash();
        check_statuses(&image, &expected);
        undecided.rollback();
        db.close().unwrap();
    }
    check_statuses(&disk, &expected);
}

fn check_statuses(disk: &SimDisk, expected: &[(Xid, bool)]) {
    for _ in 0..2 {
        let db = open(disk);
        let snapshot = begin(&db).snapshot().unwrap();
        for (xid, committed) in expected {
            let visibility = snapshot.visibility(*xid, Hint::None).unwrap();
            assert_eq!(visibility.visible, *committed, "{xid:?}");
            assert!(visibility.set.is_some());
        }
        let next = commit_one(&db, Durability::Sync);
        assert!(
            expected
                .iter()
                .all(|(xid, committed)| !committed || *xid < next)
        );
        db.close().unwrap();
    }
}

#[test]
fn crashes_keep_acknowledged_commits() {
    let disk = SimDisk::new(3);
    let acknowledged = Arc::new(Mutex::new(Vec::<(u64, Xid)>::new()));
    {
        let db = open(&disk);
        for turn in 0..40 {
            let xid = commit_one(&db, Durability::Sync);
            acknowledged.lock().push((disk.op_count(), xid));
            if turn % 15 == 14 {
                db.store().checkpoint(CheckpointMode::Fast).unwrap();
            }
        }
    }
    let acknowledged = acknowledged.lock().clone();
    let first = acknowledged[0].0;
    let mut tried = 0;
    for index in (first..disk.op_count()).step_by(sample(7) as usize) {
        let seed = 1000 + index;
        let db = open(&disk.image_at(index, seed));
        for (at, xid) in acknowledged.iter().filter(|(at, _)| *at <= index) {
            let status = db.xid_status(*xid).unwrap();
            assert_eq!(
                status,
                XidStatus::Committed,
                "{xid:?} at {at}, crash {index} seed {seed}"
            );
        }
        tried += 1;
    }
    assert!(tried > 10);
}

#[test]
fn files_follow_their_transaction() {
    let disk = SimDisk::new(1);
    let (kept, dropped, lost);
    {
        let db = open(&disk);
        let mut txn = begin(&db);
        kept = txn.create_file().unwrap();
        dropped = txn.create_file().unwrap();
        let sub = txn.begin_sub();
        let inner = txn.create_file().unwrap();
        txn.abort_sub(sub);
        commit(txn);
        gone(&disk, inner);
        assert!(exists(&disk, kept) && exists(&disk, dropped));
        let mut aborting = begin(&db);
        let aborted = aborting.create_file().unwrap();
        aborting.drop_file(kept).unwrap();
        aborting.rollback();
        gone(&disk, aborted);
        assert!(exists(&disk, kept));
        let mut txn = begin(&db);
        txn.drop_file(dropped).unwrap();
        commit(txn);
        let mut open_end = begin(&db);
        lost = open_end.create_file().unwrap();
        db.store().checkpoint(CheckpointMode::Fast).unwrap();
        let image = disk.process_crash();
        let db = open(&image);
        assert!(exists(&image, kept) && !exists(&image, dropped) && !exists(&image, lost));
        drop(db);
    }
}

/// Those who make and drop files are not ahead of the thread that removes them: what is open and
/// on disk stays within bounds, with a low limit of open files too.
#[test]
fn files_are_removed_as_fast_as_they_are_dropped() {
    const THREADS: usize = 4;
    const CYCLES: usize = 500;
    let scratch = tempfile::tempdir().unwrap();
    let storage = StorageConfig {
        fsync: false,
        max_data_files: Some(200),
        shared_buffers: 8 << 20,
        ..StorageConfig::default()
    };
    let config = Config {
        storage,
        ..Config::default()
    };
    let disk = evenkeel_io::FileDisk::new(evenkeel_io::IoMethod::Sync);
    let db = Database::open(Arc::new(disk), scratch.path(), config).unwrap();
    let base = scratch.path().join("base");
    let before = std::fs::read_dir(&base).unwrap().count();
    let most_open = || db.store().pool().files().sync_table().open_files();
    let cycle = |db: &Database| {
        let mut txn = begin(db);
        let file = txn.create_file().unwrap();
        let fork = db.pool().fork(file, evenkeel_storage::Fork::Main).unwrap();
        fork.extend(1).unwrap();
        block_on(txn.commit(Durability::Async)).unwrap();
        let mut txn = begin(db);
        txn.drop_file(file).unwrap();
        block_on(txn.commit(Durability::Async)).unwrap();
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for round in 1..=CYCLES {
                    cycle(&db);
                    if round.is_multiple_of(50) {
                        let there = std::fs::read_dir(&base).unwrap().count() - before;
                        assert!(there <= 600, "{there} files are there");
                        assert!(most_open() <= 210, "{} are open", most_open());
                    }
                }
            });
        }
    });
    eventually(|| std::fs::read_dir(&base).unwrap().count() == before);
    db.close().unwrap();
}

#[test]
fn files_follow_their_transaction_though_checkpoints_pass_their_creation() {
    let disk = SimDisk::new(1);
    let db = open(&disk);
    let mut committing = begin(&db);
    let kept = committing.create_file().unwrap();
    let sub = committing.begin_sub();
    let rolled_back = committing.create_file().unwrap();
    committing.abort_sub(sub);
    let mut running = begin(&db);
    let lost = running.create_file().unwrap();
    let mut redo = db.store().control().redo;
    for _ in 0..3 {
        commit_one(&db, Durability::Sync);
        settle(&db);
        db.store().checkpoint(CheckpointMode::Fast).unwrap();
        assert!(
            db.store().control().redo > redo,
            "an open creation holds it"
        );
        redo = db.store().control().redo;
    }
    let none = disk.crash(1);
    commit(committing);
    let one = disk.crash(2);
    db.store().checkpoint(CheckpointMode::Fast).unwrap();
    let later = disk.process_crash();
    for (image, committed) in [(none, false), (one, true), (later, true)] {
        for _ in 0..2 {
            drop(open(&image));
            assert_eq!(exists(&image, kept), committed);
            assert!(!exists(&image, lost) && !exists(&image, rolled_back));
        }
    }
}

#[test]
fn an_idle_transaction_that_created_a_file_does_not_keep_the_log() {
    let disk = SimDisk::new(1);
    let db = open(&disk);
    let most = db.store().config().max_wal_size;
    let mut idle = begin(&db);
    let lost = idle.create_file().unwrap();
    let start = db.store().log().insert_lsn();
    // Commit records of many subtransactions make log without pages.
    while db.store().log().insert_lsn().distance_from(start) < 12 * most {
        let mut txn = begin(&db);
        for _ in 0..5_000 {
            let sub = txn.begin_sub();
            txn.xid().unwrap();
            txn.commit_sub(sub);
        }
        commit(txn);
        let kept = db.store().checkpoint_stats().redo_distance;
        assert!(
            kept < 6 * most,
            "{kept} bytes of log for max_wal_size {most}"
        );
    }
    let image = disk.crash(1);
    drop(open(&image));
    assert!(!exists(&image, lost));
    idle.rollback();
}

/// Waits for the background thread to drop a file.
fn gone(disk: &SimDisk, file: evenkeel_storage::FileId) {
    while exists(disk, file) {
        std::thread::yield_now();
    }
}

fn exists(disk: &SimDisk, file: evenkeel_storage::FileId) -> bool {
    use evenkeel_io::Disk;
    let names = disk.list(&Path::new(DIR).join("base")).unwrap();
    names
        .iter()
        .any(|name| name.split(['.', '_']).next() == Some(&file.number().to_string()))
}

#[test]
fn a_failed_log_ends_commits_and_waits_with_an_error() {
    let disk = SimDisk::new(1);
    let db = open(&disk);
    let mut holder = begin(&db);
    let held = holder.xid().unwrap();
    commit_one(&db, Durability::Sync);
    let fault = evenkeel_io::Fault::nth(1, evenkeel_io::FaultKind::Eio);
    disk.inject(fault.path("wal").sticky());
    let failed = block_on(holder.commit(Durability::Sync));
    assert_eq!(failed.unwrap_err().sqlstate(), "57P02");
    let waiting = begin(&db);
    assert!(block_on(waiting.wait_for_xid(held, WaitPolicy::Block)).is_err());
    assert!(db.store().poison().is_set());
}

#[test]
fn truncated_status_is_refused_not_guessed() {
    let disk = SimDisk::new(1);
    let db = open(&disk);
    let old = commit_one(&db, Durability::Sync);
    commit_one(&db, Durability::Sync);
    settle(&db);
    let limit = Xid::new(old.get() + 1);
    db.truncate_status(limit).unwrap();
    db.close().unwrap();
    drop(db);
    let db = open(&disk);
    let error = db.xid_status(old).unwrap_err();
    assert_eq!(error.sqlstate(), "XX001");
}

#[test]
fn commit_timestamps_are_kept_through_crashes_and_go_with_the_status() {
    let disk = SimDisk::new(1);
    let config = || Config {
        storage: StorageConfig::small(),
        track_commit_timestamp: true,
        ..Config::default()
    };
    let open =
        |disk: &SimDisk| Database::open(Arc::new(disk.clone()), Path::new(DIR), config()).unwrap();
    let db = open(&disk);
    let before = db.store().disk().now_micros();
    let mut txn = begin(&db);
    let top = txn.xid().unwrap();
    txn.savepoint("s");
    let sub = txn.xid().unwrap();
    commit(txn);
    let mut aborted = begin(&db);
    let lost = aborted.xid().unwrap();
    aborted.rollback();
    let stamp = db.commit_timestamp(top).unwrap().expect("a time");
    assert!(stamp >= before && stamp <= db.store().disk().now_micros());
    assert_eq!(db.commit_timestamp(sub).unwrap(), Some(stamp));
    assert_eq!(db.commit_timestamp(lost).unwrap(), None);
    assert_eq!(db.commit_timestamp(db.next_xid()).unwrap(), None);
    for seed in 0..3 {
        let image = disk.crash(seed);
        let db = open(&image);
        assert_eq!(db.commit_timestamp(top).unwrap(), Some(stamp));
        assert_eq!(db.commit_timestamp(sub).unwrap(), Some(stamp));
        assert_eq!(db.commit_timestamp(lost).unwrap(), None);
        commit_one(&db, Durability::Sync);
        settle(&db);
        db.truncate_status(Xid::new(lost.get() + 1)).unwrap();
        assert_eq!(db.commit_timestamp(top).unwrap(), None);
        db.close().unwrap();
    }
    db.close().unwrap();
    drop(db);
    let without = super::tests::open(&disk);
    assert_eq!(
        without.commit_timestamp(top).unwrap_err().sqlstate(),
        "0A000"
    );
}

#[test]
fn what_is_cached_is_opened_once() {
    let db = open(&SimDisk::new(1));
    let opened = AtomicU64::new(0);
    let open = || {
        db.cached(5, || Ok(Arc::new(opened.fetch_add(1, Ordering::Relaxed))))
            .unwrap()
    };
    let first = open();
    assert_eq!((*first, *open()), (0, 0));
    db.forget(5);
    assert_eq!(*open(), 1);
    assert_eq!(LockKey::Table(5).to_string(), "relation 5");
}

/// A database whose first status page is damaged on disk, while the log has outcomes for it that
/// the page lacks; with the ids that committed before and after the redo point.
fn with_damaged_status() -> (SimDisk, Xid, Xid) {
    let disk = SimDisk::new(61);
    let db = open_plain(&disk);
    let before = commit_one(&db, Durability::Sync);
    settle(&db);
    db.store().checkpoint(CheckpointMode::Fast).unwrap();
    let after = commit_one(&db, Durability::Sync);
    let crashed = disk.crash(1);
    damage_status(&crashed);
    (crashed, before, after)
}

fn damage_status(disk: &SimDisk) {
    let path = Path::new(DIR).join("status/0");
    let file = disk.open(&path, OpenOptions::read_write()).unwrap();
    file.write_all_at(&[0x33; 16], 5000).unwrap();
}

fn open_plain(disk: &SimDisk) -> Database {
    let mut storage = StorageConfig::small();
    // Nothing to restore a damaged page from.
    storage.torn_page_protection = TornPageProtection::Off;
    let config = Config {
        storage,
        ..Config::default()
    };
    Database::open(Arc::new(disk.clone()), Path::new(DIR), config).unwrap()
}

fn assert_unknown(db: &Database, xid: Xid) {
    let error = db.xid_status(xid).unwrap_err();
    assert_eq!(error.sqlstate(), "XX001");
    let text = error.to_string();
    assert!(text.contains("file status/0 fork main block 0"), "{text}");
    assert!(text.contains("damaged/status-0-main-0"), "{text}");
}

#[test]
fn a_damaged_status_page_is_an_error_of_who_asks_and_loses_no_later_commit() {
    let (disk, before, after) = with_damaged_status();
    let db = open_plain(&disk);
    assert_unknown(&db, before);
    assert_unknown(&db, after);
    // Ids on the same page go on being given out and decided.
    let later = commit_one(&db, Durability::Sync);
    assert_eq!(db.xid_status(later).unwrap(), XidStatus::Committed);
    settle(&db);
    db.checkpoint().unwrap();
    let redo = db.store().control().redo;
    assert!(redo > db.store().recovery_stats().redo_end);
    let killed = disk.crash(2);
    db.close().unwrap();
    drop(db);
    for disk in [killed, disk] {
        let db = open_plain(&disk);
        for xid in [before, after, later] {
            assert_unknown(&db, xid);
        }
        db.store().wait_for_redo();
        let [page] = db.store().damaged_pages().try_into().unwrap();
        db.store().zero_damaged_page(page.page).unwrap();
        // The command discards the statuses that were on the page, not those it lacked.
        assert_eq!(db.xid_status(before).unwrap(), XidStatus::Aborted);
        assert_eq!(db.xid_status(after).unwrap(), XidStatus::Committed);
        assert_eq!(db.xid_status(later).unwrap(), XidStatus::Committed);
        let last = commit_one(&db, Durability::Sync);
        settle(&db);
        let crashed = disk.crash(3);
        drop(db);
        let db = open_plain(&crashed);
        assert_eq!(db.xid_status(last).unwrap(), XidStatus::Committed);
        assert_eq!(db.xid_status(later).unwrap(), XidStatus::Committed);
        assert!(db.store().damaged_pages().is_empty());
        db.close().unwrap();
    }
}

#[test]
fn a_status_page_that_fails_to_be_read_once_is_not_set_aside() {
    let disk = SimDisk::new(63);
    let db = open_plain(&disk);
    let before = commit_one(&db, Durability::Sync);
    settle(&db);
    db.close().unwrap();
    drop(db);
    let db = open_plain(&disk);
    let fault = Fault::nth(1, FaultKind::Eio)
        .path("status")
        .on(OpKind::Read);
    disk.inject(fault);
    let after = commit_one(&db, Durability::Sync);
    settle(&db);
    assert_eq!(disk.faults_fired(), 1);
    assert!(db.store().damaged_pages().is_empty());
    for xid in [before, after] {
        assert_eq!(db.xid_status(xid).unwrap(), XidStatus::Committed);
    }
}

#[test]
fn a_status_page_found_damaged_while_running_holds_nothing_up() {
    let disk = SimDisk::new(62);
    let db = open_plain(&disk);
    let before = commit_one(&db, Durability::Sync);
    settle(&db);
    db.close().unwrap();
    drop(db);
    damage_status(&disk);
    let db = open_plain(&disk);
    let first = commit_one(&db, Durability::Sync);
    settle(&db);
    let second = commit_one(&db, Durability::Sync);
    settle(&db);
    assert_unknown(&db, before);
    assert_eq!(db.xid_status(first).unwrap(), XidStatus::Committed);
    db.checkpoint().unwrap();
    db.close().unwrap();
    drop(db);
    let db = open_plain(&disk.crash(1));
    assert_unknown(&db, first);
    db.store().wait_for_redo();
    let [page] = db.store().damaged_pages().try_into().unwrap();
    db.store().zero_damaged_page(page.page).unwrap();
    for xid in [first, second] {
        assert_eq!(db.xid_status(xid).unwrap(), XidStatus::Committed);
    }
}

#[test]
fn a_record_noted_out_of_order_stops_the_instance_and_no_commit_is_acknowledged() {
    let db = open(&SimDisk::new(77));
    commit_one(&db, Durability::Sync);
    let published = db.system().core.publisher.published();
    let note = InsertedRecord {
        lsn: Lsn(published.0 - 8),
        end: published,
        xid: 3,
        kind: RecordKind(0),
        flags: 0,
    };
    db.system().core.completed(&[note]);
    let reason = db.store().poison().reason();
    assert!(
        reason
            .as_ref()
            .is_some_and(|text| text.contains("was noted after")),
        "{reason:?}"
    );
    assert_eq!(db.system().core.publisher.published(), published);
    let mut txn = begin(&db);
    let ended = txn
        .xid()
        .and_then(|_| block_on(txn.commit(Durability::Sync)));
    assert!(ended.is_err());
}
