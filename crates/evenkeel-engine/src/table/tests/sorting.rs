//! Sorts of index entries: the order, their bounds, their temporary files.

use std::sync::Arc;

use evenkeel_io::{Disk, SimDisk};
use evenkeel_storage::BlockNumber;

use super::{DIR, open_db};
use crate::Database;
use crate::btree::BTree;
use crate::error::{EngineError, EngineResult};
use crate::memory::ServerMemory;
use crate::sort::{KeySorter, remove_leftovers};
use crate::temp::WorkLimits;
use crate::ticket::CancelFlag;
use crate::types::{Isolation, Tid};

fn sorter(db: &Database, limits: &WorkLimits) -> KeySorter {
    KeySorter::new(db.store(), limits.clone(), &CancelFlag::new())
}

fn fill(sorter: &mut KeySorter, entries: u32) -> EngineResult<Vec<(Vec<u8>, Tid, u8)>> {
    let mut added = Vec::new();
    for n in 0..entries {
        let hash = n.wrapping_mul(2_654_435_761);
        let key = hash.to_be_bytes()[..1 + (n % 4) as usize].repeat(1 + n as usize % 5);
        let (tid, tag) = (Tid::new(BlockNumber(n), 1), (n % 3) as u8);
        sorter.add(&key, tid, tag)?;
        added.push((key, tid, tag));
    }
    Ok(added)
}

fn temporary(disk: &SimDisk) -> usize {
    let names = disk.list(DIR.as_ref()).unwrap();
    let runs = names.iter().filter(|name| name.starts_with("sort.tmp."));
    runs.count()
}

#[test]
fn runs_on_disk_give_the_order_of_a_sort_in_memory() {
    let disk = SimDisk::new(1);
    let db = open_db(&disk, None);
    for (bytes, entries) in [
        (1 << 20, 2000),
        (3000, 2000),
        (500, 20_000),
        (64 << 20, 150_000),
    ] {
        let limits = WorkLimits::unlimited(bytes);
        let mut sorter = sorter(&db, &limits);
        let mut expected = fill(&mut sorter, entries).unwrap();
        expected.sort();
        // More than 31 of a level have become one.
        assert!(temporary(&disk) <= 100, "{} runs", temporary(&disk));
        let mut found = Vec::new();
        let each = &mut |key: &[u8], tid, tag| {
            found.push((key.to_vec(), tid, tag));
            Ok(())
        };
        sorter.finish(each).unwrap();
        assert!(found == expected, "{bytes} bytes");
        assert_eq!((temporary(&disk), limits.files.used()), (0, 0));
    }
    for name in ["sort.tmp.0001", "other"] {
        let path = std::path::Path::new(DIR).join(name);
        drop(
            disk.open(&path, evenkeel_io::OpenOptions::create())
                .unwrap(),
        );
    }
    remove_leftovers(&disk, DIR.as_ref()).unwrap();
    assert_eq!(temporary(&disk), 0);
    assert!(
        disk.exists(&std::path::Path::new(DIR).join("other"))
            .unwrap()
    );
}

#[test]
fn a_sort_stays_within_the_sessions_memory_and_its_temporary_files() {
    let disk = SimDisk::new(1);
    let db = open_db(&disk, None);
    let memory = ServerMemory::unlimited().session(64 << 10);
    let limits = WorkLimits {
        memory: Arc::clone(&memory),
        ..WorkLimits::unlimited(1 << 30)
    };
    let mut little = sorter(&db, &limits);
    fill(&mut little, 50_000).expect("the others are on disk");
    assert!(temporary(&disk) > 0 && memory.used() <= 64 << 10);
    drop(little);
    assert_eq!((memory.used(), temporary(&disk)), (0, 0));

    limits.files.set_limit(Some(100 << 10));
    let error = fill(&mut sorter(&db, &limits), 50_000).unwrap_err();
    assert!(
        matches!(error, EngineError::TempFileLimit { .. }),
        "{error}"
    );
    assert_eq!(error.sqlstate(), "53400");
    assert_eq!((limits.files.used(), temporary(&disk)), (0, 0));
}

#[test]
fn a_cancelled_sort_ends_while_it_sorts_and_while_it_merges() {
    let disk = SimDisk::new(1);
    let db = open_db(&disk, None);
    for bytes in [64 << 20, 100 << 10] {
        let cancel = CancelFlag::new();
        let mut sorter = KeySorter::new(db.store(), WorkLimits::unlimited(bytes), &cancel);
        fill(&mut sorter, 100_000).unwrap();
        let mut handed = 0u32;
        let error = sorter.finish(&mut |_, _, _| {
            handed += 1;
            if handed == 100 {
                cancel.cancel();
            }
            Ok(())
        });
        assert_eq!(error.unwrap_err().sqlstate(), "57014");
        assert!(handed < 10_000, "{handed} entries");
    }
    let cancel = CancelFlag::new();
    let mut sorter = KeySorter::new(db.store(), WorkLimits::unlimited(100 << 10), &cancel);
    cancel.cancel();
    assert_eq!(
        fill(&mut sorter, 1_000_000).unwrap_err().sqlstate(),
        "57014"
    );
}

#[test]
fn a_sort_gets_descriptors_from_idle_relation_files() {
    let disk = SimDisk::new(1);
    let db = open_db(&disk, None);
    let limits = WorkLimits::unlimited(3000);
    // More files than the sort has runs.
    let mut txn = db.begin(Isolation::ReadCommitted).unwrap();
    for _ in 0..40 {
        let file = txn.create_file().unwrap();
        let _ = BTree::create(db.store(), txn.xid().unwrap(), file).unwrap();
    }
    disk.set_max_open_files(Some(disk.open_files()));
    let mut full = sorter(&db, &limits);
    match fill(&mut full, 200) {
        Ok(_) => {}
        Err(error) => panic!("{error}"),
    }
    drop(full);
    disk.set_max_open_files(Some(0));
    let error = fill(&mut sorter(&db, &limits), 2000).unwrap_err();
    assert_eq!(error.sqlstate(), "53000", "{error}");
}
