//! Power failures and failing calls at every point of a workload.

use evenkeel_io::{Fault, FaultKind, OpKind, OpenOptions, Outcome, sample};

use super::*;

const SEED: u64 = 42;

/// Every acknowledged step is there, no step is there by half, and the store goes on.
pub(super) fn check_recovered(disk: &SimDisk, acknowledged: u64, what: &str) {
    let (store, toy) = open_with(disk, config()).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(store.damaged_pages().is_empty(), "{what}");
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
fn crash_images_recover_what_was_acknowledged() {
    let disk = SimDisk::new(SEED);
    let (store, _) = open(&disk);
    set_up(&store).expect("set up");
    let begin = disk.op_count();
    run(&store, &disk, 1, 400, 60).expect("steps");
    let end = disk.op_count();
    drop(store);
    let mut series = disk.images(SEED).step(sample(((end - begin) / 120).max(1)));
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
        let series = crashed.images(SEED + round).step(sample((end / 25).max(1)));
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

/// A failing call is an error or poisons; what was acknowledged survives the restart, with
/// the page cache (which may lie) and without.
#[test]
fn after_failing_calls_nothing_acknowledged_is_lost() {
    for (kind, first) in [
        (FaultKind::Eio, 1),
        (FaultKind::Enospc, 2),
        (FaultKind::Short, 3),
    ] {
        for nth in (first..400).step_by(sample(13) as usize) {
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

/// CKPT-4: after a failed sync the newest copy of the control block may be in the page
/// cache only. The next process makes it durable before it overwrites the other copy.
#[test]
fn a_control_copy_that_only_the_page_cache_knows_is_made_durable() {
    let disk = SimDisk::new(81);
    let (store, _) = open(&disk);
    set_up(&store).expect("set up");
    run(&store, &disk, 1, 400, 400).expect("steps");
    let before_last = segment_of(&store.control());
    run(&store, &disk, 401, 1200, 800).expect("steps");
    // The log that the copy before the last one needs is gone.
    let begun = std::time::Instant::now();
    while disk.exists(&before_last).expect("list") {
        assert!(begun.elapsed().as_secs() < 60, "never recycled");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    disk.inject(
        Fault::nth(1, FaultKind::Eio)
            .on(OpKind::SyncData)
            .path("/db/control"),
    );
    let failed = store.checkpoint(CheckpointMode::Fast);
    failed.expect_err("the control file's sync fails");
    assert!(store.poison().is_set());
    disk.clear_faults();
    let killed = disk.process_crash();
    drop(store);
    let begin = killed.op_count();
    drop(open(&killed));
    let written: Vec<_> = (begin + 1..=killed.op_count())
        .filter_map(|index| killed.operation(index))
        .filter(|op| op.op == OpKind::Write && op.path.ends_with("control"))
        .collect();
    assert!(!written.is_empty());
    let mut series = killed.images(1);
    for op in written {
        // The power fails during this write and tears it; nothing unsynced has reached the disk.
        series.seek(op.index);
        let image = series.image(Outcome::Nothing, 1);
        let control = dir().join(crate::control::CONTROL_FILE);
        let file = image.open(&control, OpenOptions::read_write());
        let torn = file.expect("control").write_all_at(&[0xA5; 512], op.offset);
        torn.expect("write");
        let what = format!("operation {} at {}", op.index, op.offset);
        check_recovered(&image, 1200, &what);
    }
}

/// STO-12: the kernel's run is in the control file.
#[test]
fn the_page_cache_held_nothing_after_a_crash_of_the_machine_and_only_then() {
    let held_nothing = |disk: &SimDisk| {
        let (store, _) = open(disk);
        let answer = store.page_cache_held_nothing();
        drop(store);
        answer
    };
    let disk = SimDisk::new(82);
    assert!(!held_nothing(&disk), "a new database");
    let (store, _) = open(&disk);
    set_up(&store).expect("set up");
    run(&store, &disk, 1, 200, 100).expect("steps");
    store.log().flush_all().expect("flush");
    let (killed, crashed) = (disk.process_crash(), disk.crash(1));
    store.shutdown().expect("shutdown");
    drop(store);
    assert!(!held_nothing(&disk), "shut down");
    assert!(!held_nothing(&killed), "killed");
    assert!(held_nothing(&crashed));
    assert!(!held_nothing(&crashed), "opened before in this run");
    assert!(!held_nothing(&crashed.process_crash()), "killed after that");
    assert!(held_nothing(&crashed.crash(2)));
    // A run of the kernel that is unknown may be any.
    let unknown = crashed.crash(3);
    unknown.forget_boot_id();
    assert!(!held_nothing(&unknown));
    let known = unknown.process_crash();
    assert!(!held_nothing(&known));
    assert!(held_nothing(&known.crash(4)));
}

/// STO-12: no start that failed has written anything if the next one is told that the page cache
/// held nothing, whatever the cache has forgotten meanwhile.
#[test]
fn a_start_that_failed_counts_as_a_run() {
    let disk = SimDisk::new(83);
    let (store, _) = open(&disk);
    set_up(&store).expect("set up");
    run(&store, &disk, 1, 200, 100).expect("steps");
    store.log().flush_all().expect("flush");
    let mut trusted = 0;
    for nth in 1.. {
        let crashed = disk.crash(nth);
        crashed.fail_nth(nth, FaultKind::Eio);
        drop(open_with(&crashed, config()));
        if crashed.faults_fired() == 0 {
            break;
        }
        crashed.clear_faults();
        let written = (1..=crashed.op_count())
            .filter_map(|index| crashed.operation(index))
            .filter(|op| !op.path.ends_with("control") && !op.path.ends_with("evenkeel.pid"))
            .filter(|op| matches!(op.op, OpKind::Write | OpKind::SetLen | OpKind::Allocate))
            .count();
        crashed.drop_caches();
        let (store, _) = open(&crashed.process_crash());
        if store.page_cache_held_nothing() {
            trusted += 1;
            assert_eq!(written, 0, "call {nth} failed");
        }
    }
    assert!(trusted > 0, "calls fail before anything is written, too");
}

fn segment_of(control: &crate::control::Control) -> PathBuf {
    let layout = crate::wal::SegmentLayout {
        dir: dir().join("wal"),
        size: control.segment_size,
        timeline: control.timeline,
    };
    layout.path(layout.segment_of(control.redo))
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
        store.recovery_finished().expect("finished");
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
    store
        .truncate(COUNTERS, Fork::Main, 0, NOTHING)
        .expect("truncate");
    let killed = disk.process_crash();
    drop(store);
    let (store, _) = open(&killed);
    assert_eq!(counters(&store).len(), 0);
    store.recovery_finished().expect("finished");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    let lost = killed.crash_with(Outcome::Nothing, 1);
    drop(store);
    let (store, _) = open(&lost);
    assert_eq!(counters(&store).len(), 0, "what was deleted has come back");
}

/// A database on a full disk that is killed comes back: recovery needs no space but the log's next
/// segment, which is made ahead of use.
#[test]
fn a_crash_on_a_full_disk_is_recovered_from() {
    let disk = SimDisk::new(80);
    let (store, _) = open(&disk);
    set_up(&store).expect("set up");
    run(&store, &disk, 1, 30, 10).expect("steps");
    store.log().flush_all().expect("flush");
    let segments = store.core.log.segments();
    while segments.ready_from(store.log().insert_lsn()) < segments.layout().size {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
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
    // Log that was already admitted still has its space.
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

/// With nothing but the space that was kept: a database stops clean, starts, and recovers though
/// redo has to make a file anew.
#[test]
fn a_full_disk_has_room_for_stopping_and_starting() {
    let disk = SimDisk::new(90);
    let (store, _) = open(&disk);
    set_up(&store).expect("set up");
    run(&store, &disk, 1, 30, 10).expect("steps");
    let used = || {
        disk.set_capacity(Some(u64::MAX));
        let left = disk.free_space(&dir()).expect("answers").expect("known");
        u64::MAX - left
    };
    disk.set_capacity(Some(used()));
    // Stopping, with a file that grows meanwhile, as those of transaction status do.
    store.prepare_shutdown();
    counters(&store).extend(8).expect("the space that was kept");
    store.shutdown().expect("a clean end");
    drop(store);
    for _ in 0..2 {
        let (store, _) = open(&disk);
        assert!(store.recovery_stats().clean);
        assert_steps(&store, 30, "a clean start on a full disk");
        // Statements do not get it.
        let error = counters(&store).extend(64).expect_err("the disk is full");
        assert!(matches!(error, StorageError::DiskFull(_)), "{error}");
        store.shutdown().expect("a clean end");
    }
    disk.set_capacity(None);
    let (store, _) = open(&disk);
    store.checkpoint(CheckpointMode::Fast).expect("sound");
    let held = store.create_file_as(FileId(5), 0).expect("made");
    let fork = store.pool().fork(FileId(5), Fork::Main).expect("opens");
    fork.extend(4).expect("space");
    let last = init_pages(&store, &fork, 0..4).expect("pages");
    store.log().flush(last).expect("durable");
    // The file's entry and its space were not durable.
    for outcome in [Outcome::Nothing, Outcome::Everything] {
        let image = disk.crash_with(outcome, 90);
        image.set_capacity(Some(u64::MAX));
        let left = image.free_space(&dir()).expect("answers").expect("known");
        image.set_capacity(Some(u64::MAX - left));
        let (store, _) = open(&image);
        let fork = store.pool().fork(FileId(5), Fork::Main).expect("opens");
        assert_eq!(fork.len(), 4, "{outcome:?}");
        assert_steps(&store, 30, "recovered on a full disk");
        assert!(!store.poison().is_set());
    }
    drop(held);
}

/// A process that has no descriptor left: statements fail, the log and the checkpoints go on.
#[test]
fn a_store_without_descriptors_fails_statements_and_poisons_nothing() {
    let disk = SimDisk::new(91);
    let config = StorageConfig {
        max_data_files: Some(0),
        ..config()
    };
    let (store, _) = open_with(&disk, config.clone()).expect("opens");
    set_up(&store).expect("set up");
    let mut holds = Vec::new();
    for id in 100..160 {
        let (file, hold) = store.create_file(id).expect("made");
        store
            .pool()
            .fork(file, Fork::Main)
            .and_then(|fork| fork.extend(2))
            .expect("space");
        holds.push(hold);
    }
    let sync = store.pool().files().sync_table();
    assert!(sync.open_files() <= 20, "{}", sync.open_files());
    disk.set_max_open_files(Some(disk.open_files()));
    run(&store, &disk, 1, 20, 5).expect("files are closed for others");
    store.checkpoint(CheckpointMode::Fast).expect("sound");
    let in_use = counters(&store).files().segment(BlockNumber(0));
    disk.set_max_open_files(Some(0));
    let error = store.create_file(200).map(|_| ());
    let error = error.expect_err("no descriptor");
    assert!(matches!(error, StorageError::TooManyFiles(_)), "{error}");
    // The log needs its next segments, and gets them when there are descriptors again.
    let step = |n| loop {
        match run(&store, &disk, n, n, 0) {
            Ok(()) => break,
            Err(StorageError::TooManyFiles(_)) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    };
    std::thread::scope(|scope| {
        let steps = scope.spawn(|| (21..=1500).for_each(step));
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert!(!steps.is_finished());
        disk.set_max_open_files(None);
    });
    drop(in_use.expect("opens"));
    assert!(!store.poison().is_set());
    store.shutdown().expect("a clean end");
    drop(store);
    let (store, _) = open_with(&disk, config).expect("opens");
    assert_steps(&store, 1500, "after the limit was met");
}
