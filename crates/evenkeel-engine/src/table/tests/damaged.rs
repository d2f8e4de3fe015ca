//! Tables with a page that is damaged: the error of who needs it, and of nobody else.

use evenkeel_io::{Disk, OpenOptions};
use evenkeel_storage::{BlockNumber, CheckpointMode, Fork, PageId, TornPageProtection};

use super::*;
use crate::EngineError;

const PAGE: u64 = evenkeel_storage::page::PAGE_SIZE as u64;

fn open_plain(disk: &SimDisk) -> Database {
    let mut storage = StorageConfig::small();
    storage.shared_buffers = 1024 * PAGE;
    // Nothing to restore a damaged page from.
    storage.torn_page_protection = TornPageProtection::Off;
    let config = Config {
        storage,
        ..Config::default()
    };
    Database::open(Arc::new(disk.clone()), Path::new(DIR), config).unwrap()
}

/// The table in the database on `disk`, which may be the one that `f` has locked.
fn reopen(f: Fixture, disk: SimDisk) -> Fixture {
    let (def, files) = (f.table.def().clone(), f.files.clone());
    drop(f);
    let db = open_plain(&disk);
    Fixture {
        table: Table::open(&db, def).unwrap(),
        disk,
        db,
        files,
    }
}

/// A table whose heap, of more than one page, was damaged in a crash in block `block` of `fork`,
/// to which the log owes changes.
fn damaged(block: u32, fork: Fork) -> (Fixture, PageId) {
    let disk = SimDisk::new(7);
    let f = Fixture::on(&disk, open_plain(&disk), 1, 50);
    for n in 0..400 {
        f.put(&format!("{n:04}:{}", "x".repeat(40)));
    }
    let _ = f.vacuum(&VacuumOptions::default());
    // With every outcome on its status page the redo point passes what made the pages.
    f.db.store().log().flush_all().unwrap();
    while f.db.system().core.publisher.redo_floor().is_some() {
        f.db.system().work().unwrap();
    }
    f.db.store().checkpoint(CheckpointMode::Fast).unwrap();
    for n in 0..400 {
        f.commit(|txn| f.set(txn, &format!("{n:04}:{}", "y".repeat(40))));
    }
    let crashed = disk.crash(3);
    let number = f.files[0].number();
    let suffix = if fork == Fork::Vm { "_vm" } else { "" };
    let path = Path::new(DIR).join(format!("base/{number}{suffix}"));
    let file = crashed.open(&path, OpenOptions::read_write()).unwrap();
    file.write_all_at(&[0xaa; 64], u64::from(block) * PAGE + 4096)
        .unwrap();
    let page = PageId {
        file: f.files[0],
        fork,
        block: BlockNumber(block),
    };
    (reopen(f, crashed), page)
}

fn assert_names(error: &EngineError, page: PageId) {
    assert_eq!(error.sqlstate(), "XX001");
    let text = error.to_string();
    assert!(text.contains(&page.to_string()), "{text}");
    assert!(text.contains("damaged/base-"), "{text}");
}

/// Looks each row up; says how many could be had. The others' error names the page.
fn look_up_all(f: &Fixture, page: PageId) -> usize {
    let mut found = 0;
    let mut txn = f.begin();
    txn.begin_statement().unwrap();
    let snapshot = txn.snapshot().unwrap();
    for n in 0..400 {
        let mut batch = RowBatch::new();
        let key = key(&format!("{n:04}"));
        match f.table.index_lookup(&snapshot, BY_KEY, &key, &mut batch) {
            Ok(_) => {
                let rows: Vec<String> = batch.iter().map(|(_, row)| text(row)).collect();
                assert_eq!(rows, [format!("{n:04}:{}", "y".repeat(40))]);
                found += 1;
            }
            Err(error) => assert_names(&error, page),
        }
    }
    found
}

#[test]
fn rows_on_other_pages_are_read_inserted_and_updated_beside_a_damaged_one() {
    for block in [0, 3] {
        let (f, page) = damaged(block, Fork::Main);
        let found = look_up_all(&f, page);
        assert!((200..400).contains(&found), "{found}");
        let mut txn = f.begin();
        for n in 0..300 {
            f.insert(&mut txn, &format!("new{n:04}:1")).unwrap();
        }
        end(txn);
        for n in 0..300 {
            f.commit(|txn| f.set(txn, &format!("new{n:04}:{}", "z".repeat(200))));
        }
        let mut scan_txn = f.begin();
        let snapshot = scan_txn.snapshot().unwrap();
        let mut scan = f.table.scan(&snapshot);
        let mut batch = RowBatch::new();
        let error = loop {
            match scan.next_page(&mut batch) {
                Ok(true) => {}
                Ok(false) => panic!("a scan without the page's rows"),
                Err(error) => break error,
            }
        };
        assert_names(&error, page);
        drop((scan, snapshot));
        end(scan_txn);
        let report = f.table.check().unwrap();
        assert!(report.problem_count > 0);
        assert!(report.problems[0].contains(&page.to_string()));
        // Vacuum says so as well, and harms nothing.
        let options = VacuumOptions::default();
        let error = f.table.vacuum(&options, &mut |_| {}).unwrap_err();
        assert_names(&error, page);
        assert!(!f.db.store().poison().is_set());
        f.db.checkpoint().unwrap();
        f.db.close().unwrap();
        let disk = f.disk.clone();
        let f = reopen(f, disk);
        assert_eq!(look_up_all(&f, page), found);
        f.db.store().zero_damaged_page(page).unwrap();
        let mut txn = f.begin();
        txn.begin_statement().unwrap();
        let snapshot = txn.snapshot().unwrap();
        assert_eq!(f.scan(&snapshot).len(), 300 + found);
        end(txn);
        f.db.close().unwrap();
    }
}

#[test]
fn a_damaged_visibility_map_can_be_zeroed_without_loss() {
    let (f, page) = damaged(0, Fork::Vm);
    f.db.store().wait_for_redo();
    let set_aside = f.db.store().damaged_pages();
    assert_eq!(set_aside.len(), 1);
    assert_eq!(set_aside[0].page, page);
    f.db.store().zero_damaged_page(page).unwrap();
    assert_eq!(look_up_all(&f, page), 400);
    let _ = f.vacuum(&VacuumOptions::default());
    f.assert_sound();
}

/// REC-11: the table opens, and its rows are there by every way but that index.
#[test]
fn a_damaged_first_page_of_an_index_is_the_error_of_its_users() {
    let disk = SimDisk::new(8);
    let f = Fixture::on(&disk, open_plain(&disk), 2, 100);
    for n in 0..50 {
        f.put(&format!("{n:04}:{n}"));
    }
    f.db.close().unwrap();
    let image = disk.process_crash();
    let path = Path::new(DIR).join(format!("base/{}", f.files[2].number()));
    let file = image.open(&path, OpenOptions::read_write()).unwrap();
    file.write_all_at(&[0xaa; 64], 4096).unwrap();
    let f = reopen(f, image);
    let mut txn = f.begin();
    txn.begin_statement().unwrap();
    let snapshot = txn.snapshot().unwrap();
    let (mut batch, mut rows) = (RowBatch::new(), 0);
    let mut scan = f.table.scan(&snapshot);
    while scan.next_page(&mut batch).unwrap() {
        rows += batch.iter().count();
    }
    assert_eq!(rows, 50);
    let found = f
        .table
        .index_lookup(&snapshot, BY_KEY, &key("0007"), &mut batch);
    found.unwrap();
    assert_eq!(batch.iter().count(), 1);
    let found = f
        .table
        .index_lookup(&snapshot, BY_VALUE, &key("7"), &mut batch);
    let text = found.unwrap_err().to_string();
    let page = format!("file {} fork main block 0", f.files[2]);
    assert!(text.contains(&page), "{text}");
}
