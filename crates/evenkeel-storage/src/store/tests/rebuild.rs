//! Damaged pages are rebuilt from what else there is of them.

use super::quarantine::{add, content, damage, files_in, overwrite, page, plain, set_aside, value};
use super::*;
use crate::config::TornPageProtection;

/// Pages go home through the double-write area.
fn protected() -> StorageConfig {
    StorageConfig {
        torn_page_protection: TornPageProtection::DoubleWrite,
        ..plain()
    }
}

/// As long as nobody asks for a page, redo owes it its changes and the log of them stays.
fn waiting() -> StorageConfig {
    StorageConfig {
        redo_waits: true,
        ..plain()
    }
}

fn reason(store: &Store, page: PageId) -> String {
    match store.rebuild_damaged_page(page) {
        Err(error @ StorageError::CannotRebuild { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

/// The page has this value, and has it still after a crash and after a clean end.
fn check_rebuilt(disk: &SimDisk, store: Arc<Store>, page: PageId, expected: u64) {
    let value = |store: &Store| value(store, page.file, page.block.0).expect("whole");
    assert_eq!(value(&store), expected);
    assert!(store.damaged_pages().is_empty());
    assert!(store.rebuild_damaged_page(page).is_err(), "not damaged");
    let image = disk.crash(7);
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    store.shutdown().expect("shut down");
    drop(store);
    for disk in [&image, disk] {
        let (store, _) = open_with(disk, protected()).expect("opens");
        assert_eq!(value(&store), expected);
        assert!(set_aside(&store).is_empty());
    }
}

#[test]
fn a_torn_page_is_rebuilt_from_an_image_and_the_log() {
    let disk = SimDisk::new(61);
    let (store, _) = open_with(&disk, protected()).expect("opens");
    let victim = page(files_in(&store, 1)[0], 2);
    store.shutdown().expect("shut down");
    drop(store);
    let (store, _) = open_with(&disk, protected()).expect("opens");
    add(&store, victim.file, 2, 8);
    store.log().flush_all().expect("flush");
    let disk = disk.crash(61);
    drop(store);
    damage(&disk, victim);
    let (store, _) = open_with(&disk, protected()).expect("opens");
    assert_eq!(set_aside(&store), [victim]);
    store.rebuild_damaged_page(victim).expect("rebuilt");
    check_rebuilt(&disk, store, victim, 15);
}

#[test]
fn a_page_is_rebuilt_from_the_log_alone() {
    let disk = SimDisk::new(62);
    let (store, _) = open_with(&disk, plain()).expect("opens");
    let hold = store.hold_redo_here();
    let victim = page(files_in(&store, 1)[0], 3);
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    drop(hold);
    add(&store, victim.file, 0, 8);
    store.log().flush_all().expect("flush");
    let disk = disk.crash(62);
    drop(store);
    damage(&disk, victim);
    let (store, _) = open_with(&disk, waiting()).expect("opens");
    // It is home with all its changes, so redo does not look at it.
    assert_eq!(store.recovery_stats().pages, 1);
    assert!(value(&store, victim.file, 3).is_err());
    store.rebuild_damaged_page(victim).expect("rebuilt");
    check_rebuilt(&disk, store, victim, 7);
}

#[test]
fn a_page_that_lost_a_write_is_rebuilt_from_the_log() {
    let disk = SimDisk::new(63);
    let (store, _) = open_with(&disk, plain()).expect("opens");
    let victim = page(files_in(&store, 1)[0], 4);
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    let old = content(&disk, victim);
    let hold = store.hold_redo_here();
    add(&store, victim.file, 0, 8);
    add(&store, victim.file, 4, 8);
    add(&store, victim.file, 4, 16);
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    drop(hold);
    add(&store, victim.file, 0, 8);
    store.log().flush_all().expect("flush");
    let disk = disk.crash(63);
    drop(store);
    overwrite(&disk, victim, &old);
    let (store, _) = open_with(&disk, waiting()).expect("opens");
    let error = value(&store, victim.file, 4).expect_err("older than it was");
    assert!(error.to_string().contains("last written"), "{error}");
    store.rebuild_damaged_page(victim).expect("rebuilt");
    check_rebuilt(&disk, store, victim, 31);
}

#[test]
fn a_page_is_not_rebuilt_older_than_it_was() {
    let disk = SimDisk::new(64);
    let (store, _) = open_with(&disk, plain()).expect("opens");
    let file = files_in(&store, 1)[0];
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    let (stale, torn, sound) = (page(file, 1), page(file, 2), page(file, 3));
    let old = content(&disk, stale);
    add(&store, file, 1, 8);
    add(&store, file, 2, 8);
    // The redo point passes the changes.
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    add(&store, file, 1, 16);
    store.log().flush_all().expect("flush");
    let disk = disk.crash(64);
    drop(store);
    overwrite(&disk, stale, &old);
    damage(&disk, torn);
    let (store, _) = open_with(&disk, plain()).expect("opens");
    assert_eq!(set_aside(&store), [stale]);
    // Its checksum is right, but the log lacks a change.
    let why = reason(&store, stale);
    assert!(why.contains("the disk: lost write"), "{why}");
    let why = reason(&store, torn);
    assert!(why.contains("the disk: its checksum is wrong"), "{why}");
    assert!(store.rebuild_damaged_page(sound).is_err());
    // Nothing was done.
    assert_eq!(set_aside(&store), [stale]);
    assert!(value(&store, file, 2).is_err());
    store.zero_damaged_page(torn).expect("zeroed");
    store.discard_damage(stale).expect("discarded");
    assert_eq!(value(&store, file, 1).expect("as it was"), 7);
}
