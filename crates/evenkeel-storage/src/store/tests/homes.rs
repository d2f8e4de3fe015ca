//! Redo leaves alone what is home, and a page that changes often begins from an image.

use super::redo::{crashed, large};
use super::*;
use crate::config::TornPageProtection;

/// Every page changed, written home, and that durable and known, while the redo point stays.
fn crashed_with_all_home(config: StorageConfig) -> (SimDisk, u64) {
    let disk = SimDisk::new(51);
    let (store, _) = open_with(&disk, config).expect("opens");
    set_up(&store).expect("set up");
    let held = store.log().insert_lsn();
    let hold = store.hold_redo_here();
    run(&store, &disk, 1, 200, 0).expect("steps");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    assert!(store.control().redo <= held);
    let fork = counters(&store);
    step(&store, &fork, 201).expect("step");
    store.log().flush_all().expect("flush");
    drop(hold);
    (disk.crash(51), 201)
}

#[test]
fn pages_that_a_checkpoint_wrote_home_are_not_redone() {
    let (disk, steps) = crashed_with_all_home(large());
    let (store, _) = open_with(&disk, large()).expect("opens");
    store.wait_for_redo();
    let stats = store.recovery_stats();
    // A step changes three pages.
    assert_eq!(
        (stats.pages, stats.home),
        (3, u64::from(PAGES) - 3),
        "{stats:?}"
    );
    assert_steps(&store, steps, "home");
}

#[test]
fn pages_that_the_log_protects_are_redone_though_they_went_home() {
    let config = StorageConfig {
        torn_page_protection: TornPageProtection::FullPageWrites,
        ..large()
    };
    let (disk, steps) = crashed_with_all_home(config.clone());
    // Also when the area is to protect them from now on.
    for config in [config, large()] {
        let disk = disk.process_crash();
        let (store, _) = open_with(&disk, config).expect("opens");
        store.wait_for_redo();
        let stats = store.recovery_stats();
        assert_eq!(
            (stats.pages, stats.home),
            (u64::from(PAGES), 0),
            "{stats:?}"
        );
        assert_steps(&store, steps, "protected by images");
    }
}

#[test]
fn a_crash_within_a_cycle_redoes_no_page_that_is_home() {
    let disk = crashed(52, 300);
    let config = StorageConfig {
        homes_after: 8,
        checkpoint_timeout: std::time::Duration::from_secs(3600),
        max_wal_size: 1 << 30,
        ..large()
    };
    let (store, _) = open_with(&disk, config.clone()).expect("opens");
    store.recovery_finished().expect("finished");
    store.wait_for_redo();
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    run(&store, &disk, 301, 500, 0).expect("steps");
    let before = store.control();
    let target = store.log().insert_lsn();
    store
        .writer()
        .write_dirty_before(target, &mut |_, _| {})
        .expect("written");
    let begun = std::time::Instant::now();
    while store.control().manifest == before.manifest {
        assert!(begun.elapsed().as_secs() < 60, "recovery is never told");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(store.control().redo, before.redo, "no checkpoint was taken");
    let image = disk.crash(3);
    drop(store);
    let (store, _) = open_with(&image, config).expect("opens");
    store.wait_for_redo();
    let stats = store.recovery_stats();
    assert_eq!(
        (stats.pages, stats.home),
        (0, u64::from(PAGES)),
        "{stats:?}"
    );
    assert_steps(&store, 500, "home");
}

#[test]
fn a_page_that_changes_often_is_redone_from_an_image() {
    const CHANGES: u64 = 20_000;
    let disk = SimDisk::new(53);
    let config = StorageConfig {
        max_wal_size: 1 << 30,
        ..large()
    };
    let (store, _) = open_with(&disk, config.clone()).expect("opens");
    set_up(&store).expect("set up");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    let fork = counters(&store);
    let before = store.log().insert_lsn();
    let images = crate::wal::LogUsage::of_this_thread().images;
    for _ in 0..CHANGES {
        store.admit().expect("admitted");
        let mut page = fork.write(BlockNumber(1)).expect("page");
        let mut change = store.change(0);
        change.part(&mut page, ADD, PartFlags::NONE, &add_data(1, 1));
        change.commit();
    }
    let log = store.log().insert_lsn().distance_from(before);
    let images = crate::wal::LogUsage::of_this_thread().images - images;
    // A part of 38 bytes each.
    assert_eq!(images, CHANGES * 38 / (128 << 10), "in {log} bytes of log");
    store.log().flush_all().expect("flush");
    let image = disk.crash(53);
    drop((fork, store));
    let (store, _) = open_with(&image, config).expect("opens");
    store.wait_for_redo();
    let stats = store.recovery_stats();
    assert!(stats.applied <= (128 << 10) / 38 + 1, "{stats:?}");
    let fork = counters(&store);
    let page = fork.read(BlockNumber(1)).expect("page");
    assert_eq!(page.u64_at(PAGE_HEADER_SIZE + 8), CHANGES);
}
