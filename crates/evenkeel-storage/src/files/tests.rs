use evenkeel_io::{Disk, Fault, FaultKind, OpKind, OpenOptions, Outcome, SimDisk};

use crate::ids::{BlockNumber, FileId, Fork};
use crate::page::{PAGE_SIZE, PageRead};
use crate::testing::{DIR, FILE, TEST_SEGMENT, open_pool};

/// Writes a block and counts it, as the writer does.
fn write(pool: &crate::buffer::BufferPool, block: u32) {
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    let (segment, offset) = fork.files().segment(BlockNumber(block)).expect("extended");
    segment
        .file()
        .write_all_at(&[1; PAGE_SIZE], offset)
        .expect("written");
    pool.files().sync_table().note_write(&segment);
}

#[test]
fn syncs_of_one_file_collapse() {
    let disk = SimDisk::new(1);
    let (pool, _) = open_pool(&disk, 16);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    fork.extend(TEST_SEGMENT * 3).expect("space");
    let table = pool.files().sync_table();
    for block in (0..TEST_SEGMENT * 3).chain(0..TEST_SEGMENT) {
        write(&pool, block);
    }
    assert_eq!(table.stats().pending, 3);
    table.sync_all().expect("sound");
    assert_eq!((table.stats().pending, table.stats().syncs), (0, 3));
    table.sync_all().expect("sound");
    assert_eq!(table.stats().syncs, 3);
    assert!(
        disk.unsynced().iter().all(|path| !path.starts_with(DIR)),
        "{:?}",
        disk.unsynced()
    );
}

#[test]
fn a_lost_write_back_is_reported_by_the_next_sync() {
    let disk = SimDisk::new(2);
    let (pool, poison) = open_pool(&disk, 16);
    pool.fork(FILE, Fork::Main)
        .and_then(|fork| fork.extend(2))
        .expect("space");
    write(&pool, 1);
    assert_eq!(disk.fail_write_back("base/7"), 1);
    let error = pool
        .files()
        .sync_table()
        .sync_all()
        .expect_err("the content is lost");
    assert!(error.to_string().contains("base/7"), "{error}");
    assert!(poison.is_set());
}

#[test]
fn a_failed_directory_sync_poisons() {
    let disk = SimDisk::new(3);
    let (pool, poison) = open_pool(&disk, 16);
    pool.create_file(FILE).expect("made");
    disk.inject(Fault::nth(1, FaultKind::Eio).on(OpKind::SyncDir));
    assert!(pool.files().sync_table().sync_all().is_err());
    assert!(poison.is_set());
}

#[test]
fn a_dropped_file_needs_no_sync() {
    let disk = SimDisk::new(4);
    let (pool, poison) = open_pool(&disk, 16);
    pool.fork(FILE, Fork::Main)
        .and_then(|fork| fork.extend(TEST_SEGMENT + 1))
        .expect("space");
    write(&pool, 0);
    write(&pool, TEST_SEGMENT);
    pool.drop_file(FILE).expect("sound");
    disk.inject(Fault::nth(1, FaultKind::Eio).on(OpKind::SyncData).sticky());
    pool.files()
        .sync_table()
        .sync_all()
        .expect("nothing to sync");
    assert_eq!(pool.files().sync_table().stats().pending, 0);
    assert!(!poison.is_set());
}

#[test]
fn new_files_survive_once_synced_and_dropped_ones_do_not() {
    let disk = SimDisk::new(5);
    let (pool, _) = open_pool(&disk, 16);
    pool.create_file(FILE).expect("made");
    pool.fork(FileId::status(3), Fork::Main)
        .and_then(|fork| fork.extend(1))
        .expect("space");
    pool.fork(FILE, Fork::Vm)
        .and_then(|fork| fork.extend(TEST_SEGMENT * 2))
        .expect("space");
    pool.files().sync_table().sync_all().expect("sound");
    let after = disk.crash_with(Outcome::Nothing, 1);
    let names = |disk: &SimDisk, dir: &str| {
        disk.list(format!("{DIR}/{dir}").as_ref())
            .expect("the directory is durable")
    };
    assert_eq!(names(&after, "base"), ["7", "7_vm", "7_vm.1"]);
    assert_eq!(names(&after, "status"), ["3"]);
    pool.drop_file(FILE).expect("sound");
    let after = disk.crash_with(Outcome::Nothing, 1);
    assert!(names(&after, "base").is_empty());
    assert_eq!(pool.files().list().expect("lists"), [FileId::status(3)]);
    assert!(!pool.files().exists(FILE, Fork::Main).expect("answers"));
}

#[test]
fn growth_that_a_crash_took_back_is_repaired_when_the_fork_is_opened() {
    let disk = SimDisk::new(6);
    let (pool, _) = open_pool(&disk, 16);
    pool.fork(FILE, Fork::Main)
        .and_then(|fork| fork.extend(TEST_SEGMENT + 3))
        .expect("space");
    write(&pool, TEST_SEGMENT + 1);
    drop(pool);
    let open = |name: &str| {
        disk.open(format!("{DIR}/base/{name}").as_ref(), OpenOptions::create())
            .expect("opens")
    };
    open("7").set_len(5 * PAGE_SIZE as u64 + 100).expect("cut");
    open("7.1")
        .set_len(2 * PAGE_SIZE as u64 + 100)
        .expect("cut");
    // Left behind by a fork that was once longer.
    open("7.3")
        .write_all_at(&[9; PAGE_SIZE], 0)
        .expect("written");
    let (pool, _) = open_pool(&disk, 16);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    assert_eq!(fork.len(), TEST_SEGMENT + 2);
    for block in [5, TEST_SEGMENT - 1] {
        assert!(fork.read(BlockNumber(block)).expect("zeroes").is_new());
    }
    fork.ensure_len(TEST_SEGMENT * 3 + 1).expect("space");
    for block in TEST_SEGMENT + 2..TEST_SEGMENT * 3 + 1 {
        assert!(fork.read(BlockNumber(block)).expect("zeroes").is_new());
    }
}
