//! Recovery that looks ahead.

use super::*;
use crate::config::TornPageProtection;
use crate::recovery::PrefetchStats;

/// Steps whose pages are not in the log as images, and a crash; recovered as `change` says.
fn recovered(change: impl Fn(&mut StorageConfig)) -> PrefetchStats {
    let disk = SimDisk::new(21);
    // No page is written but by the checkpoint, whose target is the redo point then.
    let large = StorageConfig {
        shared_buffers: 4 << 20,
        ..config()
    };
    let (store, _) = open_with(&disk, large).expect("opens");
    set_up(&store).expect("set up");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    run(&store, &disk, 1, 900, 0).expect("steps");
    store.log().flush_all().expect("flush");
    let crashed = disk.crash(3);
    let mut config = config();
    change(&mut config);
    let (store, toy) = open_with(&crashed, config).expect("opens");
    store.wait_for_redo();
    assert_eq!(toy.replayed.lock().len(), 900);
    assert_steps(&store, 900, "recovered");
    store.recovery_stats().prefetch
}

#[test]
fn recovery_reads_the_pages_it_will_need_ahead() {
    let depths = [1, 3, 16, 1000];
    for depth in depths {
        let stats = recovered(|config| config.maintenance_io_concurrency = depth);
        // Those for which no frame is free at the time are read one by one.
        assert!(
            stats.prefetch >= u64::from(PAGES) / 2,
            "depth {depth}: {stats:?}"
        );
        assert!(
            stats.hit + stats.skip_rep >= 850,
            "depth {depth}: {stats:?}"
        );
    }
}

#[test]
fn recovery_without_looking_ahead_gives_the_same() {
    let off = recovered(|config| config.recovery_prefetch = false);
    let none = recovered(|config| config.maintenance_io_concurrency = 0);
    for stats in [off, none] {
        assert_eq!(stats.prefetch + stats.hit + stats.skip_rep, 0, "{stats:?}");
    }
}

#[test]
fn pages_that_the_log_has_whole_are_not_read_ahead() {
    let disk = SimDisk::new(22);
    let (store, _) = open(&disk);
    set_up(&store).expect("set up");
    run(&store, &disk, 1, 60, 0).expect("steps");
    store.log().flush_all().expect("flush");
    let (store, _) = open_with(&disk.crash(4), config()).expect("opens");
    store.wait_for_redo();
    assert_steps(&store, 60, "recovered");
    let stats = store.recovery_stats().prefetch;
    assert!(
        stats.skip_init + stats.skip_new >= u64::from(PAGES),
        "{stats:?}"
    );
    assert_eq!(stats.skip_fpw, 0);
}

#[test]
fn a_damaged_page_read_ahead_is_an_error_that_names_it() {
    let disk = SimDisk::new(23);
    // Without images that it could be restored from, and large enough that no page is written
    // but by the checkpoint.
    let config = || StorageConfig {
        torn_page_protection: TornPageProtection::Off,
        shared_buffers: 32 << 20,
        ..config()
    };
    let (store, _) = open_with(&disk, config()).expect("opens");
    set_up(&store).expect("set up");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    run(&store, &disk, 1, 300, 0).expect("steps");
    store.log().flush_all().expect("flush");
    let crashed = disk.crash(5);
    let path = dir().join("base").join("1");
    let file = crashed
        .open(&path, evenkeel_io::OpenOptions::read_write())
        .expect("the counters' file");
    file.write_all_at(&[0xff; 16], 50 * 8192 + 4096)
        .expect("damage");
    let (store, _) = open_with(&crashed, config()).expect("opens");
    let error = counters(&store).read(BlockNumber(50)).map(drop);
    let error = error.expect_err("damage");
    assert!(error.to_string().contains("block 50"), "{error}");
}
