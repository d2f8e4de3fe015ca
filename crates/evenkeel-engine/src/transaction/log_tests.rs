//! Transactions as the log tells of them (TXN-13).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_io::SimDisk;
use evenkeel_storage::record::Incarnation;
use evenkeel_storage::wal::SegmentLayout;
use evenkeel_storage::wal::dump::{self, Describe, Names};
use evenkeel_storage::wal::reader::LogReader;
use evenkeel_storage::{Lsn, RecordKind, StorageConfig};

use super::Transaction;
use crate::describe::{operation_name, payload_text, record_name};
use crate::txn::Running;
use crate::txn::record::{ABORT, COMMIT, Ending, LOCKS, RUNNING, decode_locks};
use crate::{
    Config, Database, Durability, Isolation, TableLockMode, WaitPolicy, Xid, XidStatus, block_on,
};

const DIR: &str = "/db";

fn config() -> Config {
    Config {
        storage: StorageConfig::small(),
        ..Config::default()
    }
}

fn open(disk: &SimDisk, config: Config) -> Database {
    Database::open(Arc::new(disk.clone()), Path::new(DIR), config).unwrap()
}

fn begin(db: &Database) -> Transaction {
    db.begin(Isolation::ReadCommitted).unwrap()
}

fn commit(txn: Transaction) {
    block_on(txn.commit(Durability::Sync)).unwrap();
}

fn lock(txn: &Transaction, table: u64, mode: TableLockMode) {
    assert!(block_on(txn.lock_table(table, mode, WaitPolicy::NoWait)).unwrap());
}

/// A record, as far as it is about transactions.
#[derive(Debug)]
struct Logged {
    lsn: Lsn,
    kind: RecordKind,
    xid: Xid,
    payload: Vec<u8>,
    text: String,
}

impl Logged {
    fn ending(&self) -> Ending {
        Ending::decode(self.xid, &self.payload).unwrap()
    }

    fn running(&self) -> Running {
        Running::decode(&self.payload).unwrap()
    }
}

/// A reader of the log from the redo point on.
fn reader(disk: &SimDisk) -> LogReader {
    let (_, reader) = dump::open(Arc::new(disk.clone()), Path::new(DIR)).unwrap();
    reader
}

/// The records from the redo point on.
fn log(db: &Database, disk: &SimDisk) -> Vec<Logged> {
    read(db, reader(disk))
}

/// The records that `reader` has before it.
fn read(db: &Database, mut reader: LogReader) -> Vec<Logged> {
    db.store().log().flush_all().unwrap();
    let mut all = Vec::new();
    let names = Names {
        record: record_name,
        operation: operation_name,
        payload: payload_text,
    };
    while let Some(record) = reader.next_record().unwrap() {
        all.push(Logged {
            lsn: record.lsn(),
            kind: record.kind(),
            xid: Xid::new(record.xid()),
            payload: record.payload().to_vec(),
            text: Describe(&record, names).to_string(),
        });
    }
    all
}

fn of_kind(log: &[Logged], kind: RecordKind) -> Vec<&Logged> {
    log.iter().filter(|record| record.kind == kind).collect()
}

#[test]
fn a_commit_record_says_all_that_ends_with_the_transaction() {
    let disk = SimDisk::new(1);
    let db = open(&disk, config());
    let mut idle = begin(&db);
    let floor = idle.xid().unwrap();
    let mut txn = begin(&db);
    let top = txn.xid().unwrap();
    txn.savepoint("kept");
    let kept = txn.xid().unwrap();
    txn.savepoint("lost");
    let lost = txn.xid().unwrap();
    txn.invalidate(77).unwrap();
    lock(&txn, 78, TableLockMode::AccessExclusive);
    txn.rollback_to("lost").unwrap();
    txn.release("lost").unwrap();
    txn.invalidate(79).unwrap();
    txn.invalidate(79).unwrap();
    lock(&txn, 80, TableLockMode::AccessExclusive);
    lock(&txn, 80, TableLockMode::AccessExclusive);
    lock(&txn, 81, TableLockMode::Exclusive);
    let file = txn.create_file().unwrap();
    txn.drop_file(file).unwrap();
    commit(txn);
    let mut undone = begin(&db);
    let undone_xid = undone.xid().unwrap();
    undone.savepoint("lost");
    let undone_sub = undone.xid().unwrap();
    undone.rollback_to("lost").unwrap();
    undone.rollback();
    let mut alone = begin(&db);
    alone.xid().unwrap();
    commit(alone);

    let log = log(&db, &disk);
    let commits = of_kind(&log, COMMIT);
    let ending = commits[0].ending();
    assert_eq!(commits[0].xid, top);
    let expected = Ending {
        time_micros: ending.time_micros,
        floor,
        dropped: vec![file],
        subxids: vec![kept],
        aborted: vec![lost],
        invalidations: vec![79],
        // Also the one that the rollback to the savepoint has released.
        locks: vec![78, 80],
    };
    assert_eq!(ending, expected);
    let text = &commits[0].text;
    for part in [
        format!("floor: {floor}, subxids: {kept}, aborted: {lost}, drops: {file}"),
        ", invalidates: 79, unlocks: 78, 80".to_owned(),
    ] {
        assert!(text.contains(&part), "{text}");
    }
    let locks = of_kind(&log, LOCKS);
    let locked = locks.iter().map(|record| {
        assert!(record.xid == top && record.lsn < commits[0].lsn);
        decode_locks(&record.payload).unwrap()
    });
    assert_eq!(locked.collect::<Vec<_>>(), [[78], [80]]);
    let abort = of_kind(&log, ABORT)[0];
    let ending = abort.ending();
    assert_eq!((abort.xid, ending.floor), (undone_xid, floor));
    assert_eq!(ending.aborted, [undone_sub]);
    // Nothing is paid for what is not there.
    assert!(commits[1].payload.len() <= 11, "{:?}", commits[1]);
    drop(idle);
}

#[test]
fn many_rolled_back_subtransactions_get_records_of_their_own() {
    let disk = SimDisk::new(2);
    let db = open(&disk, config());
    let mut txn = begin(&db);
    let top = txn.xid().unwrap();
    let mut lost = Vec::new();
    for _ in 0..2500 {
        txn.savepoint("s");
        lost.push(txn.xid().unwrap());
        txn.rollback_to("s").unwrap();
        txn.release("s").unwrap();
    }
    commit(txn);
    let log = log(&db, &disk);
    let mut named = Vec::new();
    for record in of_kind(&log, ABORT) {
        named.push(record.xid);
        named.extend(record.ending().subxids);
    }
    let ending = of_kind(&log, COMMIT)[0].ending();
    assert!(
        named.len() == 2048 && ending.subxids.is_empty(),
        "{}",
        named.len()
    );
    named.extend(ending.aborted);
    assert_eq!(named, lost);
    let image = disk.crash(1);
    for db in [db, open(&image, config())] {
        assert_eq!(db.xid_status(top).unwrap(), XidStatus::Committed);
        for xid in &lost {
            assert_eq!(db.xid_status(*xid).unwrap(), XidStatus::Aborted);
        }
    }
}

#[test]
fn a_redo_point_is_followed_by_the_state_of_all_transactions() {
    let disk = SimDisk::new(3);
    let db = open(&disk, config());
    let mut first = begin(&db);
    let open_xid = first.xid().unwrap();
    first.savepoint("s");
    let sub = first.xid().unwrap();
    lock(&first, 5, TableLockMode::AccessExclusive);
    let mut ended = begin(&db);
    ended.xid().unwrap();
    lock(&ended, 6, TableLockMode::AccessExclusive);
    commit(ended);
    let file = first.create_file().unwrap();
    db.checkpoint().unwrap();
    let log = log(&db, &disk);
    let announced = of_kind(&log, RecordKind::REDO_POINT)[0].lsn;
    let states = of_kind(&log, RUNNING);
    let state = states.iter().find(|record| record.lsn > announced).unwrap();
    let running = state.running();
    let core = &db.system().core;
    let expected = Running {
        more: false,
        time_micros: running.time_micros,
        next_file: file.0 + 1,
        next: db.next_xid(),
        newest_commit: core.publisher.newest_commit(),
        floor: open_xid,
        oldest_status: db.oldest_status(),
        open: vec![open_xid, sub],
        locks: vec![(open_xid, 5)],
        files: vec![(file, open_xid)],
    };
    assert_eq!(running, expected);
    let text = &state.text;
    let part =
        format!(", open: {open_xid}, {sub}, locks: 5 by {open_xid}, files: {file} of {open_xid}");
    assert!(text.contains(&part), "{text}");
    drop(first);
}

#[test]
fn activity_is_followed_by_the_state_of_all_transactions_and_idleness_is_not() {
    let disk = SimDisk::new(4);
    let db = open(
        &disk,
        Config {
            running_interval: Duration::ZERO,
            ..config()
        },
    );
    let states = |disk: &SimDisk| of_kind(&log(&db, disk), RUNNING).len();
    let begun = states(&disk);
    let start = std::time::Instant::now();
    while states(&disk) < begun + 3 {
        assert!(start.elapsed().as_secs() < 60, "nothing is announced");
        let mut txn = begin(&db);
        txn.xid().unwrap();
        commit(txn);
    }
    let mut before = states(&disk);
    let mut quiet = 0;
    while quiet < 5 {
        assert!(start.elapsed().as_secs() < 60, "an idle database announces");
        std::thread::sleep(Duration::from_millis(100));
        let now = states(&disk);
        quiet = if now == before { quiet + 1 } else { 0 };
        before = now;
    }
}

/// TXN-8: a start announces that those who ran at the log's end have aborted, in the record of its
/// incarnation as far as the log has heard of them, and with the state of all transactions.
#[test]
fn a_start_announces_below_which_id_nothing_runs_on() {
    let disk = SimDisk::new(5);
    let db = open(&disk, config());
    db.checkpoint().unwrap();
    let mut running = begin(&db);
    let lost = running.xid().unwrap();
    running.create_file().unwrap();
    let mut ended = begin(&db);
    let last = ended.xid().unwrap();
    commit(ended);
    let mut unused = begin(&db);
    let unlogged = unused.xid().unwrap();
    db.store().log_state().unwrap();
    db.store().log().flush_all().unwrap();
    let image = disk.crash(1);
    let (control, before) = dump::open(Arc::new(image.clone()), Path::new(DIR)).unwrap();
    let again = open(&image, config());
    // The checkpoint of the start may have removed the log before the gap.
    let layout = SegmentLayout {
        dir: Path::new(DIR).join("wal"),
        size: control.segment_size,
        timeline: control.timeline,
    };
    let now = again.store().control();
    let gap = now.gaps.last().expect("recorded");
    let start = (gap.end, before.incarnation());
    let started = LogReader::new(Arc::new(image.clone()), layout, start, &now.gaps);
    let log = read(&again, started);
    let incarnation = of_kind(&log, RecordKind::INCARNATION);
    let incarnation = incarnation.last().expect("announced");
    let announced = Incarnation::decode(&incarnation.payload).unwrap();
    // The last state in the log had announced that id.
    assert_eq!(announced.floor, unlogged.get() + 1);
    assert!(last < unlogged);
    assert_eq!((announced.old_end, incarnation.lsn), (gap.start, gap.end));
    let mut states = log.iter().filter(|record| record.kind == RUNNING);
    let state = states.find(|record| record.lsn > incarnation.lsn).unwrap();
    let state = state.running();
    // An id that was announced is not given out again, though no record has it.
    assert_eq!(state.next.get(), unlogged.get() + 1);
    assert_eq!((state.floor, again.next_xid()), (state.next, state.next));
    assert!(state.open.is_empty() && state.files.is_empty());
    for xid in [lost, unlogged] {
        assert_eq!(again.xid_status(xid).unwrap(), XidStatus::Aborted);
    }
}

/// The times of more commits than are written at once.
#[test]
fn commit_times_are_recovered_in_batches() {
    let disk = SimDisk::new(6);
    let config = || Config {
        track_commit_timestamp: true,
        ..config()
    };
    let db = open(&disk, config());
    let mut times = Vec::new();
    for round in 0..60 {
        let mut txn = begin(&db);
        let mut xids = vec![txn.xid().unwrap()];
        for _ in 0..round % 3 {
            txn.savepoint("s");
            xids.push(txn.xid().unwrap());
        }
        commit(txn);
        for xid in xids {
            times.push((xid, db.commit_timestamp(xid).unwrap()));
        }
    }
    let image = disk.crash(1);
    let db = open(&image, config());
    for (xid, time) in times {
        assert!(time.is_some());
        assert_eq!(db.commit_timestamp(xid).unwrap(), time);
    }
}
