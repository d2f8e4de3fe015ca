//! Power failures and failing calls at every point of a workload.

use evenkeel_io::{Fault, FaultKind, OpKind};

use super::*;

const SEED: u64 = 42;

/// Whatever was acknowledged is there, nothing is there by half, and the store goes on.
fn check_recovered(disk: &SimDisk, acknowledged: u64, what: &str) {
    let (store, toy) = open_with(disk, config()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let steps = steps_done(&store).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(
        steps >= acknowledged,
        "{what}: {acknowledged} steps acknowledged, {steps} there"
    );
    let replayed = toy.replayed.lock().last().copied();
    assert!(
        replayed.is_none_or(|last| last == steps),
        "{what}: replayed to {replayed:?}"
    );
    assert_steps(&store, steps, what);
    drop(store);
}

fn acknowledged(disk: &SimDisk, index: u64) -> u64 {
    disk.acknowledged_by(index).last().copied().unwrap_or(0)
}

/// storage's promise, at every operation of a workload with checkpoints, recycled segments and
/// evictions.
#[test]
fn every_crash_image_recovers_what_was_acknowledged() {
    let disk = SimDisk::new(SEED);
    let (store, _) = open(&disk);
    set_up(&store).expect("set up");
    let begin = disk.op_count();
    run(&store, &disk, 1, 400, 60).expect("steps");
    let end = disk.op_count();
    drop(store);
    let mut series = disk.images(SEED).step(((end - begin) / 120).max(1));
    series.seek(begin);
    for image in series {
        check_recovered(
            &image.disk,
            acknowledged(&disk, image.index),
            &image_name(&image),
        );
    }
}

/// Recovery itself may be interrupted anywhere, again and again.
#[test]
fn a_crash_during_recovery_is_recovered_from() {
    let disk = SimDisk::new(SEED + 1);
    let (store, _) = open(&disk);
    set_up(&store).expect("set up");
    run(&store, &disk, 1, 300, 110).expect("steps");
    let known = acknowledged(&disk, disk.op_count());
    let mut crashed = disk.crash(5);
    drop(store);
    for round in 0..3 {
        let (store, _) = open(&crashed);
        let steps = steps_done(&store).expect("steps");
        let fork = counters(&store);
        for n in steps + 1..steps + 4 {
            step(&store, &fork, n).expect("step");
        }
        drop(store);
        let end = crashed.op_count();
        let series = crashed.images(SEED + round).step((end / 25).max(1));
        let mut last = None;
        for image in series {
            check_recovered(
                &image.disk,
                known,
                &format!("round {round}: {}", image_name(&image)),
            );
            if image.index < end / 2 {
                last = Some(image.disk);
            }
        }
        crashed = last.unwrap_or(crashed);
    }
}

/// D8: a failing call is an error or poisons; what was acknowledged survives the restart, with
/// the page cache (which may lie) and without.
#[test]
fn after_any_failing_call_nothing_acknowledged_is_lost() {
    for (kind, first) in [
        (FaultKind::Eio, 1),
        (FaultKind::Enospc, 2),
        (FaultKind::Short, 3),
    ] {
        for nth in (first..400).step_by(13) {
            let disk = SimDisk::new(nth);
            let (store, _) = open(&disk);
            set_up(&store).expect("set up");
            let what = format!("{kind:?} of call {nth}");
            disk.fail_nth(nth, kind);
            let result = run(&store, &disk, 1, 120, 25);
            if result.is_err() && store.poison().is_set() {
                let fork = counters(&store);
                assert!(
                    step(&store, &fork, 1000).is_err(),
                    "{what}: poisoned stays poisoned"
                );
                assert!(
                    store.log().flush_all().is_err(),
                    "{what}: poisoned stays poisoned"
                );
            }
            disk.clear_faults();
            let known = acknowledged(&disk, disk.op_count());
            let images = [disk.process_crash(), disk.crash(nth)];
            drop(store);
            for image in images {
                check_recovered(&image, known, &what);
            }
        }
    }
}

/// A failed sync leaves the log's tail in the page cache only. Recovery finds it there, and makes
/// it durable before it builds on it.
#[test]
fn a_log_tail_that_only_the_page_cache_knows_is_made_durable() {
    let disk = SimDisk::new(77);
    let (store, _) = open(&disk);
    set_up(&store).expect("set up");
    run(&store, &disk, 1, 30, 0).expect("steps");
    disk.inject(
        Fault::nth(1, FaultKind::Eio)
            .on(OpKind::SyncData)
            .path("/wal/"),
    );
    let fork = counters(&store);
    let lsn = step(&store, &fork, 31).expect("step");
    let error = store.log().flush(lsn).expect_err("the sync fails");
    let text = error.to_string();
    assert!(text.contains("/db/wal/"), "the file is named: {text}");
    disk.clear_faults();
    let restarted = disk.process_crash();
    drop(store);
    let (store, _) = open(&restarted);
    let steps = steps_done(&store).expect("steps");
    assert!(steps >= 30);
    restarted.drop_caches();
    check_recovered(
        &restarted.crash(1),
        steps,
        "after restart and power failure",
    );
}

/// A file whose directory entry a killed process had not synced is found by the next one, which
/// must not take the entry for durable.
#[test]
fn a_directory_entry_that_only_the_page_cache_knows_is_made_durable() {
    for seed in 0..8 {
        let disk = SimDisk::new(SEED + seed);
        let (store, _) = open(&disk);
        set_up(&store).expect("set up");
        run(&store, &disk, 1, 30, 0).expect("steps");
        store.log().flush_all().expect("flush");
        let restarted = disk.process_crash();
        drop(store);
        let (store, _) = open(&restarted);
        store.recovery_finished();
        store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
        let crashed = restarted.crash(seed);
        drop(store);
        check_recovered(&crashed, 30, "a power failure after a restart");
    }
}

/// The page cache shows a killed process's cut of a file; the disk has not seen it, and the redo
/// point passes the record of it.
#[test]
fn a_replayed_cut_is_durable_before_the_redo_point_passes_it() {
    let disk = SimDisk::new(79);
    let (store, _) = open(&disk);
    set_up(&store).expect("set up");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    store.truncate(COUNTERS, Fork::Main, 0).expect("truncate");
    let killed = disk.process_crash();
    drop(store);
    let (store, _) = open(&killed);
    assert_eq!(counters(&store).len(), 0);
    store.recovery_finished();
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    let lost = killed.crash_with(evenkeel_io::Outcome::Nothing, 1);
    drop(store);
    let (store, _) = open(&lost);
    assert_eq!(counters(&store).len(), 0, "what was deleted has come back");
}

/// A database on a full disk that is killed comes back: recovery needs no space.
#[test]
fn a_crash_on_a_full_disk_is_recovered_from() {
    let disk = SimDisk::new(80);
    let (store, _) = open(&disk);
    set_up(&store).expect("set up");
    run(&store, &disk, 1, 30, 10).expect("steps");
    store.log().flush_all().expect("flush");
    for mut image in [disk.process_crash(), disk.crash(1)] {
        // Twice: each start after a crash takes the other double-write file.
        for _ in 0..2 {
            let full = Fault::nth(1, FaultKind::Enospc).on(OpKind::Allocate);
            image.inject(full.sticky());
            let (store, _) = open(&image);
            assert_steps(&store, 30, "recovered on a full disk");
            let next = image.process_crash();
            drop(store);
            image = next;
        }
    }
}

/// Full disk: an error of the statement, not of the instance.
#[test]
fn a_full_disk_stops_new_work_and_not_the_instance() {
    let disk = SimDisk::new(78);
    let (store, _) = open(&disk);
    set_up(&store).expect("set up");
    disk.inject(
        Fault::nth(1, FaultKind::Enospc)
            .on(OpKind::Allocate)
            .path("/wal/new")
            .sticky(),
    );
    let mut n = 0;
    let error = loop {
        n += 1;
        match run(&store, &disk, n, n, 0) {
            Ok(()) if n < 10_000 => {}
            Ok(()) => panic!("the log never ran out of segments"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StorageError::DiskFull(_)), "{error}");
    assert!(!store.poison().is_set());
    // What was already admitted still has its space.
    assert!(store.log().flush_all().is_ok());
    disk.clear_faults();
    let start = std::time::Instant::now();
    while store.admit().is_err() {
        assert!(
            start.elapsed().as_secs() < 20,
            "space came back, admission did not"
        );
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    run(&store, &disk, n, n + 100, 0).expect("goes on");
    assert_steps(&store, n + 100, "after space came back");
}
