//! Every redo function on damaged parts and damaged pages.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_io::mutate::on_damaged;
use evenkeel_storage::wal::dump;
use evenkeel_storage::{BlockNumber, PageId, PartFlags};

use super::*;
use crate::describe::operation_name;
use crate::fuzz;
use crate::status;
use crate::table::InsertOptions;

const SEED: u64 = 0x0DD_BA11;

/// A log in which every operation on pages occurs that is logged when it is done.
fn workload() -> SimDisk {
    let disk = SimDisk::new(7);
    let mut storage = StorageConfig::small();
    storage.shared_buffers = 4096 * 8192;
    // Without a checkpoint, which would take the beginning of pages out of the log.
    storage.max_wal_size = 256 << 20;
    let config = Config {
        storage,
        track_commit_timestamp: true,
        ..Config::default()
    };
    let db = Database::open(Arc::new(disk.clone()), Path::new(DIR), config).unwrap();
    let f = Fixture::on(&disk, db, 2, 100);
    let mut rows = RowBatch::new();
    for n in 0..3000 {
        let key = format!("{:05}", n * 7919 % 10_000);
        let row = format!("{key}{}:{n}", "k".repeat(90));
        rows.push(Tid::new(BlockNumber(0), 0), row.as_bytes());
    }
    f.commit(|txn| {
        block_on(f.table.insert_many(txn, &rows, &InsertOptions::default())).unwrap();
    });
    for n in 0..200 {
        f.put(&format!("{n}:one by one"));
    }
    let all = f.commit(|txn| f.scan(&txn.snapshot().unwrap()));
    for rows in all.chunks(500) {
        f.commit(|txn| {
            txn.begin_statement().unwrap();
            for (tid, row) in rows {
                if row.as_str() > "08" {
                    // Shares both keys with the version before, so that chains form.
                    f.update(txn, *tid, row).unwrap();
                } else {
                    // All of a range of keys, so that pages of the tree become empty.
                    f.delete(txn, *tid).unwrap();
                }
            }
        });
    }
    for freeze in [false, true, true] {
        f.vacuum(&VacuumOptions {
            freeze,
            ..VacuumOptions::default()
        });
    }
    let mut undone = f.begin();
    f.insert(&mut undone, "undone:row").unwrap();
    drop(undone);
    f.db.store().log().flush_all().unwrap();
    disk
}

/// The parts of each page in the log, as steps for [`fuzz::redo`], and the operations that occur.
fn lives(disk: &SimDisk) -> (Vec<Vec<Vec<u8>>>, BTreeSet<u16>) {
    let (_, mut reader) = dump::open(Arc::new(disk.clone()), Path::new(DIR)).unwrap();
    let mut pages: BTreeMap<PageId, Vec<Vec<u8>>> = BTreeMap::new();
    let mut ops = BTreeSet::new();
    while let Some(record) = reader.next_record().unwrap() {
        for part in record.parts() {
            assert_eq!(part.flags.0 & !PartFlags::INIT.0, 0, "no images");
            ops.insert(part.op);
            let mut step = Vec::new();
            fuzz::push_step(&mut step, part.op, part.flags, part.data);
            pages.entry(part.page).or_default().push(step);
        }
    }
    (pages.into_values().collect(), ops)
}

#[test]
fn redo_of_damaged_parts_and_pages_is_refused_and_never_panics() {
    let (mut lives, mut found) = lives(&workload());
    for (op, data) in status_parts() {
        found.insert(op);
        let mut step = Vec::new();
        fuzz::push_step(&mut step, op, PartFlags::NONE, &data);
        lives.push(vec![step.clone(), step]);
    }
    let known: BTreeSet<u16> = (0x0100..0x0500)
        .filter(|op| !operation_name(*op).starts_with("operation"))
        .collect();
    let missing: Vec<_> = known
        .difference(&found)
        .map(|op| operation_name(*op))
        .collect();
    assert!(missing.is_empty(), "not in the workload: {missing:?}");
    assert_eq!(known, found);
    let mut whole = 0;
    for life in &lives {
        let (applied, refused) = fuzz::redo(&life.concat());
        assert_eq!(refused, 0, "undamaged");
        whole += applied;
    }
    assert!(whole > 1000, "{whole} parts");
    let inputs: Vec<Vec<u8>> = lives.iter().flat_map(|life| pieces(life)).collect();
    let (mut applied, mut refused) = (0, 0);
    on_damaged(SEED, 40_000, &inputs, |input| {
        let (done, not) = fuzz::redo(input);
        applied += done;
        refused += not;
    });
    assert!(applied > 10_000 && refused > 10_000, "{applied}, {refused}");
}

/// The parts by which pages of transaction status change, which are in the log by their images.
fn status_parts() -> [(u16, Vec<u8>); 3] {
    let set = (0..40_u32).flat_map(|place| (place << 4 | 1).to_le_bytes());
    let mut merged = vec![0; status::PAGE_BYTES];
    merged[..100].fill(0x55);
    let stamp = |place: u8| [place, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    [
        (status::OP_SET, set.collect()),
        (status::OP_MERGE, merged),
        (status::stamps::OP_STAMP, (0..40).flat_map(stamp).collect()),
    ]
}

/// The beginning of a page's life, short enough that damage meets its variety; and its end, on a
/// page whose header is damaged.
fn pieces(life: &[Vec<u8>]) -> [Vec<u8>; 3] {
    let mut damaged = life.to_vec();
    let mut step = Vec::new();
    fuzz::push_step(&mut step, fuzz::DAMAGE, PartFlags::NONE, &[16, 0, 90, 0]);
    damaged.insert(life.len().saturating_sub(4), step);
    [
        life[..life.len().min(6)].concat(),
        life.concat(),
        damaged.concat(),
    ]
}
