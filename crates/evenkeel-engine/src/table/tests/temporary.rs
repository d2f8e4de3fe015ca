//! Tables in files that are gone with the process.

use std::time::Duration;

use evenkeel_io::Disk;

use super::*;
use crate::types::XidStatus;

fn temporary(disk: &SimDisk, db: Database) -> Fixture {
    let file = |txn: &mut Transaction| txn.create_temporary_file().unwrap();
    Fixture::made(disk, db, (2, 100), file)
}

/// A pool of sixteen frames, so that pages come back from their files all the time.
#[test]
fn a_temporary_table_is_a_table() {
    let disk = SimDisk::new(1);
    let f = temporary(&disk, open_db(&disk, Some(16)));
    let log = f.db.store().log().insert_lsn();
    let mut most = log;
    let mut expected = Vec::new();
    f.commit(|txn| {
        for n in 0..1500 {
            f.insert(txn, &format!("{n:04}:first")).unwrap();
        }
    });
    f.commit(|txn| {
        for n in 0..1500 {
            let key = format!("{n:04}");
            txn.begin_statement().unwrap();
            let (tid, _) = f.find(txn, key.as_bytes()).unwrap();
            match n % 3 {
                0 => drop(f.delete(txn, tid).unwrap()),
                1 => {
                    let row = format!("{key}:{}", "x".repeat(100));
                    f.update(txn, tid, &row).unwrap();
                    expected.push(row);
                }
                _ => expected.push(format!("{key}:first")),
            }
        }
    });
    let mut undone = f.begin();
    for n in 2000..2100 {
        f.insert(&mut undone, &format!("{n}:undone")).unwrap();
    }
    undone.rollback();
    assert_eq!(f.committed(), expected);
    let stats = f.vacuum(&VacuumOptions::default());
    assert!(stats.dead_items_removed >= 500, "{stats:?}");
    assert_eq!(f.committed(), expected);
    f.assert_sound();
    // Only that transactions ended is in the log.
    most.0 += 4096;
    let now = f.db.store().log().insert_lsn();
    assert!(now < most, "{} bytes of log", now.0 - log.0);
}

#[test]
fn a_commit_of_temporary_rows_alone_waits_for_no_flush() {
    let disk = SimDisk::new(2);
    let mut storage = StorageConfig::small();
    storage.wal_writer_delay = Duration::from_secs(3600);
    let config = Config {
        storage,
        ..Config::default()
    };
    let db = Database::open(Arc::new(disk.clone()), Path::new(DIR), config).unwrap();
    let lasting = Fixture::on(&disk, db.clone(), 1, 100);
    let f = temporary(&disk, db.clone());
    let log = db.store().log();
    log.flush_all().unwrap();
    let mut txn = f.begin();
    f.insert(&mut txn, "a:1").unwrap();
    let xid = txn.xid().unwrap();
    end(txn);
    assert_eq!(f.committed(), ["a:1"]);
    assert!(log.durable_lsn() < log.insert_lsn(), "it was flushed");
    assert_eq!(db.xid_status(xid).unwrap(), XidStatus::Committed);
    // With a row that lasts it is waited for.
    let mut txn = f.begin();
    f.insert(&mut txn, "b:1").unwrap();
    lasting.insert(&mut txn, "b:1").unwrap();
    end(txn);
    assert_eq!(log.durable_lsn(), log.insert_lsn());
    let mut txn = f.begin();
    f.insert(&mut txn, "c:1").unwrap();
    txn.must_last().unwrap();
    end(txn);
    assert_eq!(log.durable_lsn(), log.insert_lsn());
}

/// Files that a transaction or a subtransaction made and did not keep are removed.
#[test]
fn temporary_files_go_with_a_rollback_and_with_a_drop() {
    let disk = SimDisk::new(3);
    let db = open_db(&disk, None);
    let files = || disk.list(Path::new("/db/temp")).unwrap().len();
    let mut undone = db.begin(Isolation::ReadCommitted).unwrap();
    undone.create_temporary_file().unwrap();
    undone.rollback();
    let mut txn = db.begin(Isolation::ReadCommitted).unwrap();
    let kept = txn.create_temporary_file().unwrap();
    txn.savepoint("s");
    txn.create_temporary_file().unwrap();
    txn.rollback_to("s").unwrap();
    end(txn);
    let until = |count: usize| {
        let begun = std::time::Instant::now();
        while files() != count {
            assert!(begun.elapsed().as_secs() < 20, "{} files", files());
            std::thread::yield_now();
        }
    };
    until(1);
    let mut txn = db.begin(Isolation::ReadCommitted).unwrap();
    txn.drop_file(kept).unwrap();
    end(txn);
    until(0);
}
