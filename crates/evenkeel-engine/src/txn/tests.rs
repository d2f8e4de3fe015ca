//! Transactions on a database of their own, without tables.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use evenkeel_io::SimDisk;
use evenkeel_storage::{CheckpointMode, StorageConfig};
use parking_lot::Mutex;

use super::system::Known;
use super::*;
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
    snapshot.sight(xid, Hint::None).unwrap().visible
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
    let sight = running
        .snapshot()
        .unwrap()
        .sight(in_progress, Hint::None)
        .unwrap();
    assert!(sight.own && !sight.visible);
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
    let tid = Tid::new(evenkeel_storage::BlockNumber(0), 1);
    let (mut a, b) = (begin(&db), begin(&db));
    let xid = a.xid().unwrap();
    let row = |txn: &Transaction| {
        block_on(txn.lock_row(file, tid, RowLockMode::Update, WaitPolicy::Block))
    };
    assert!(row(&b).unwrap());
    assert!(a.row_conflict(file, tid, RowLockMode::KeyShare));
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
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (db, published) = (&db, &published);
            scope.spawn(move || {
                for turn in 0..200 {
                    let mut txn = begin(db);
                    let xid = txn.xid().unwrap();
                    let seen = Arc::clone(published);
                    txn.on_commit(Box::new(move || seen.lock().push(xid)));
                    let durability = match (thread + turn) % 3 {
                        0 => Durability::Async,
                        _ => Durability::Sync,
                    };
                    block_on(txn.commit(durability)).unwrap();
                    // Whatever was returned from is visible to whoever looks.
                    assert!(sees(&begin(db).snapshot().unwrap(), xid));
                }
            });
        }
    });
    let lsn = |xid: &Xid| match db.system().core.window.get(*xid).unwrap() {
        super::window::WindowState::Committed(lsn) => lsn,
        other => panic!("{xid:?} is {other:?}"),
    };
    let xids = published.lock().clone();
    assert_eq!(xids.len(), 800);
    // The hooks of a batch run after it is published, so neighbours may run on two threads;
    // what the snapshots saw is checked above and below.
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
    assert_eq!(system.hint(Known::Committed(durable)), None);
    let xid = commit_one(&db, Durability::Async);
    db.store().log().flush_all().unwrap();
    let snapshot = begin(&db).snapshot().unwrap();
    // The publisher hears of the flush a little later.
    eventually(|| snapshot.sight(xid, Hint::None).unwrap().set == Some(Hint::Committed));
    assert_eq!(snapshot.sight(xid, Hint::Committed).unwrap().set, None);
    // From the floor on a hint does not replace the look-up.
    let mut old = begin(&db);
    let held = old.xid().unwrap();
    let early = begin(&db).snapshot().unwrap();
    let late = commit_one(&db, Durability::Sync);
    assert!(early.floor() <= held);
    assert!(!early.sight(late, Hint::Committed).unwrap().visible);
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
        assert_eq!(removal, Removal::RecentlyDead);
    }
    drop(early);
    commit(old);
    commit_one(&db, Durability::Sync);
    settle(&db);
    eventually(|| db.txn_statistics().spilled_chunks == 0);
    assert_eq!(
        db.removal(&db.horizon(), last, Hint::None).unwrap().0,
        Removal::Dead
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
    assert_eq!(removal(early), Removal::Dead);
    assert_eq!(removal(late), Removal::RecentlyDead);
    assert_eq!(removal(in_progress), Removal::InProgress);
    assert_eq!(removal(aborted), Removal::Aborted);
    drop(reader);
    let horizon = db.horizon();
    assert_eq!(
        db.removal(&horizon, late, Hint::None).unwrap().0,
        Removal::Dead
    );
    assert_eq!(db.recent_horizon(), horizon);
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
            let sight = snapshot.sight(*xid, Hint::None).unwrap();
            assert_eq!(sight.visible, *committed, "{xid:?}");
            assert!(sight.set.is_some());
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
fn every_crash_keeps_every_acknowledged_commit() {
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
    for index in (first..disk.op_count()).step_by(7) {
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
