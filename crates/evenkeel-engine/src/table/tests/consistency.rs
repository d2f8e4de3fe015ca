//! With `wal_consistency_checking` the log has what every change made of its page: redo is
//! compared with all of it, and a redo function that does something else is caught.

use std::collections::BTreeMap;

use evenkeel_storage::mutant::Mutant;
use evenkeel_storage::wal::dump;
use evenkeel_storage::{PartFlags, RecoveryOpen};

use super::*;

fn config(mutant: Option<Mutant>) -> Config {
    let mut storage = StorageConfig::small();
    storage.shared_buffers = 2048 * 8192;
    storage.max_wal_size = 1 << 30;
    storage.wal_consistency_checking = true;
    storage.recovery_open = RecoveryOpen::AfterRedo;
    storage.mutant = mutant;
    Config {
        storage,
        ..Config::default()
    }
}

/// Rows that come, change, move, and go, and what cleaning up after them does to pages of all
/// kinds; no checkpoint, so that redo begins with the first of them.
fn work(f: &Fixture) {
    for round in 0..12 {
        f.commit(|txn| {
            for n in 0..120 {
                let key = format!("{:03}", (round * 41 + n * 7) % 400);
                let row = format!("{key}:{}", "r".repeat(20 + (round * 53 + n) % 300));
                match f.find(txn, key.as_bytes()) {
                    None => {
                        f.insert(txn, &row).unwrap();
                    }
                    Some((tid, _)) if (round + n) % 5 == 0 => {
                        f.delete(txn, tid).unwrap();
                    }
                    Some((tid, _)) => {
                        f.update(txn, tid, &row).unwrap();
                    }
                }
            }
        });
        if round % 4 == 2 {
            f.vacuum(&VacuumOptions {
                freeze: round % 8 == 2,
                ..VacuumOptions::default()
            });
        }
    }
    f.commit(|txn| {
        for n in 0..400 {
            let key = format!("{n:03}");
            if let Some((tid, _)) = f.find(txn, key.as_bytes()) {
                f.delete(txn, tid).unwrap();
            }
        }
    });
    // Of pages of the index as well, and then of what was deleted.
    for _ in 0..3 {
        f.vacuum(&VacuumOptions::default());
        f.put("zzz:last");
        f.commit(|txn| {
            let (tid, _) = f.find(txn, b"zzz").unwrap();
            f.delete(txn, tid).unwrap();
        });
    }
}

/// How many parts of each operation the log has, and how many results.
fn logged(f: &Fixture) -> (BTreeMap<u16, u64>, u64) {
    f.db.store().log().flush_all().unwrap();
    let (_, mut reader) = dump::open(Arc::new(f.disk.clone()), Path::new(DIR)).unwrap();
    let (mut operations, mut results) = (BTreeMap::new(), 0);
    while let Some(record) = reader.next_record().unwrap() {
        for part in record.parts() {
            if part.flags.contains(PartFlags::COMPARE) {
                results += 1;
            } else if !part.flags.contains(PartFlags::IMAGE) {
                *operations.entry(part.op).or_default() += 1;
            }
        }
    }
    (operations, results)
}

#[test]
fn every_change_is_compared_and_every_broken_redo_function_is_caught() {
    let disk = SimDisk::new(1);
    let db = Database::open(Arc::new(disk.clone()), Path::new(DIR), config(None)).unwrap();
    let f = Fixture::on(&disk, db, 2, 90);
    work(&f);
    let (operations, results) = logged(&f);
    let expected = f.committed();
    let crashed = f.disk.crash(1);
    let open = |mutant| {
        let disk = Arc::new(crashed.process_crash());
        Database::open(disk, Path::new(DIR), config(mutant))
    };
    let again = open(None).unwrap();
    let stats = again.store().recovery_stats();
    assert_eq!(stats.compared, results, "{stats:?}");
    drop(again);
    let g = f.reopened(crashed.process_crash());
    assert_eq!(g.committed(), expected);
    g.assert_sound();
    // Of heap, visibility map, index and status.
    assert!(operations.len() >= 12, "{operations:x?}");
    for (op, count) in operations {
        let Err(error) = open(Some(Mutant::BreakRedo(op))) else {
            panic!("{count} broken changes of operation {op:#x} were not noticed");
        };
        assert!(
            error.to_string().contains("inconsistent page"),
            "{op:#x}: {error}"
        );
    }
}
