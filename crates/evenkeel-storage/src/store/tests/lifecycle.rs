//! Creating, closing, opening, files.

use super::*;

#[test]
fn what_was_committed_is_there_after_shutdown_and_after_a_crash() {
    let disk = SimDisk::new(1);
    let (store, toy) = open(&disk);
    set_up(&store).expect("set up");
    run(&store, &disk, 1, 500, 0).expect("steps");
    store.log().flush_all().expect("flush");
    assert_eq!(toy.notes.lock().len(), 500);
    assert!(toy.notes.lock().is_sorted_by_key(|note| note.lsn));
    assert_eq!(
        toy.durable.load(Ordering::SeqCst),
        store.log().insert_lsn().0
    );
    let crashed = disk.crash(7);
    store.shutdown().expect("shutdown");
    drop(store);

    for (disk, clean) in [(disk, true), (crashed, false)] {
        let (store, toy) = open(&disk);
        assert_eq!(store.recovery_stats().clean, clean);
        assert_eq!(toy.replayed.lock().len(), if clean { 0 } else { 500 });
        assert_steps(&store, 500, "reopened");
        run(&store, &disk, 501, 600, 30).expect("goes on");
        assert_steps(&store, 600, "went on");
    }
}

/// A transaction that outlives the closing rolls back when it is dropped.
#[test]
fn records_behind_the_end_are_lost_in_silence() {
    let disk = SimDisk::new(6);
    let (store, _) = open(&disk);
    set_up(&store).expect("set up");
    store.shutdown().expect("shuts down");
    let mut late = store.change(7);
    late.payload(COMMIT, &7_u64.to_le_bytes());
    let lsn = late.commit();
    assert!(store.log().flush(lsn).is_err(), "nobody is told of it");
    store.log().stop().expect("stopped before");
    drop(store);
    let (store, toy) = open(&disk);
    assert!(store.recovery_stats().clean && toy.replayed.lock().is_empty());
}

#[test]
fn a_second_opener_is_refused_until_the_first_is_gone() {
    let disk = SimDisk::new(2);
    let (store, _) = open(&disk);
    let error = open_with(&disk, config()).map(|_| ()).expect_err("locked");
    assert!(matches!(error, StorageError::Locked { .. }), "{error}");
    drop(store);
    open(&disk);
}

#[test]
fn foreign_directories_are_named_and_not_touched() {
    let disk = SimDisk::new(3);
    disk.create_dir_all(&dir()).expect("dir");
    disk.open(
        &dir().join("photos.tar"),
        evenkeel_io::OpenOptions::create(),
    )
    .expect("file");
    let before = disk.op_count();
    let error = open_with(&disk, config()).map(|_| ()).expect_err("foreign");
    assert!(
        matches!(error, StorageError::NotADatabase { .. }),
        "{error}"
    );
    assert_eq!(disk.op_count(), before, "nothing was changed");
}

#[test]
fn a_lost_control_file_does_not_make_a_new_database() {
    let disk = SimDisk::new(4);
    drop(open(&disk));
    disk.remove(&dir().join("control")).expect("remove");
    let error = open_with(&disk, config())
        .map(|_| ())
        .expect_err("no control file");
    assert!(
        matches!(error, StorageError::NotADatabase { .. }),
        "{error}"
    );
}

#[test]
fn creation_interrupted_anywhere_is_begun_again() {
    let disk = SimDisk::new(5);
    let (store, _) = open(&disk);
    drop(store);
    for image in disk.images(11) {
        let (store, _) = open(&image.disk);
        set_up(&store).unwrap_or_else(|error| panic!("{}: {error}", image_name(&image)));
    }
}

#[test]
fn many_threads_commit_and_everything_is_replayed_in_order() {
    const EACH: u64 = 300;
    let disk = SimDisk::new(6);
    let (store, toy) = open(&disk);
    set_up(&store).expect("set up");
    let next = Arc::new(Mutex::new(0u64));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (store, next) = (Arc::clone(&store), Arc::clone(&next));
            std::thread::spawn(move || {
                let fork = counters(&store);
                for _ in 0..EACH {
                    // Page 0 is in every step, so its lock orders them as the numbers do.
                    let mut number = next.lock();
                    *number += 1;
                    let lsn = step(&store, &fork, *number).expect("step");
                    drop(number);
                    store.log().flush(lsn).expect("flush");
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().expect("thread"));
    let notes: Vec<u64> = toy.notes.lock().iter().map(|note| note.xid).collect();
    assert_eq!(notes, (1..=4 * EACH).collect::<Vec<_>>());
    let (reopened, toy) = open(&disk.crash(1));
    assert_steps(&reopened, 4 * EACH, "after crash");
    let replayed = toy.replayed.lock();
    assert!(replayed.is_sorted() && replayed.last() == Some(&(4 * EACH)));
}

#[test]
fn files_are_created_dropped_and_cut_across_crashes() {
    let disk = SimDisk::new(8);
    let (store, _) = open(&disk);
    let (kept, hold) = store.create_file(5).expect("create");
    let (gone, _gone_hold) = store.create_file(5).expect("create");
    for file in [kept, gone] {
        let fork = store.pool().fork(file, Fork::Main).expect("fork");
        fork.extend(8).expect("extend");
        for block in 0..8 {
            let mut page = fork.pin_new(BlockNumber(block)).expect("pin").write();
            let mut change = store.change(0);
            change.part(&mut page, INIT, PartFlags::INIT, &[]);
            change.commit();
            let mut change = store.change(0);
            change.part(
                &mut page,
                ADD,
                PartFlags::NONE,
                &add_data(0, u64::from(block)),
            );
            change.commit();
        }
    }
    store
        .truncate(kept, Fork::Main, 5, NOTHING)
        .expect("truncate");
    store.drop_file(gone, NOTHING).expect("drop");
    let fork = store.pool().fork(kept, Fork::Main).expect("fork");
    assert_eq!(fork.extend(1).expect("extend"), BlockNumber(5));
    let mut page = fork.pin_new(BlockNumber(5)).expect("pin").write();
    let mut change = store.change(0);
    change.part(&mut page, INIT, PartFlags::INIT, &[]);
    let lsn = change.commit();
    drop(page);
    store.log().flush(lsn).expect("flush");
    for (image, what) in [(disk.crash(3), "power"), (disk.process_crash(), "process")] {
        let (store, toy) = open(&image);
        assert_eq!(*toy.created.lock(), [kept, gone], "{what}");
        assert_eq!(*toy.dropped.lock(), [gone], "{what}");
        assert_eq!(store.pool().files().list().expect("list"), [kept], "{what}");
        let fork = store.pool().fork(kept, Fork::Main).expect("fork");
        assert_eq!(fork.len(), 6, "{what}");
        for block in 0..6u32 {
            let page = fork.read(BlockNumber(block)).expect("page");
            let expected = if block == 5 { 0 } else { u64::from(block) };
            assert_eq!(
                page.u64_at(PAGE_HEADER_SIZE),
                expected,
                "{what}: block {block}"
            );
        }
        store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
        let hold = store.control().redo;
        store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
        assert_eq!(
            store.control().redo,
            hold,
            "{what}: not before the manager has looked"
        );
        store.recovery_finished().expect("finished");
        store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
        assert!(store.control().redo > hold, "{what}");
        let (next, _) = store.create_file(6).expect("create");
        assert!(next > gone, "ids are not reused");
    }
    drop(hold);
}

#[test]
fn an_open_creation_holds_the_redo_point_for_one_cycle() {
    // No page is on its way home by the cleaner, which would hold the redo point, too.
    let large = || StorageConfig {
        shared_buffers: 32 << 20,
        ..config()
    };
    let open = |disk: &SimDisk| open_with(disk, large()).expect("opens");
    let disk = SimDisk::new(10);
    let (store, _) = open(&disk);
    set_up(&store).expect("set up");
    let (open_file, hold) = store.create_file(5).expect("create");
    let (ended_file, ended) = store.create_file(6).expect("create");
    let mut redo = hold.lsn();
    for round in 0..4 {
        run(&store, &disk, 10 * round + 1, 10 * round + 10, 0).expect("steps");
        store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
        assert!(store.control().redo > redo, "round {round}");
        redo = store.control().redo;
        assert!(hold.lsn() >= redo, "recorded where recovery finds it");
        for (image, what) in [
            (disk.crash(round), "power"),
            (disk.process_crash(), "process"),
        ] {
            let (store, toy) = open(&image);
            let found: Vec<FileId> = toy.created.lock().clone();
            assert_eq!(found, [open_file, ended_file], "{what} in round {round}");
            let files = store.pool().files().list().expect("list");
            assert_eq!(files, [COUNTERS, open_file, ended_file], "{what}");
            store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
            drop(store);
            let (_store, toy) = open(&image);
            let found: Vec<FileId> = toy.created.lock().clone();
            assert_eq!(
                found,
                [open_file, ended_file],
                "until the manager has looked"
            );
        }
    }
    // The transaction of one begins to end: its record may lie before the next target.
    let lsn = ended.lsn();
    ended.settle();
    run(&store, &disk, 41, 50, 0).expect("steps");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    assert!(store.control().redo <= lsn);
    drop(ended);
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    assert!(store.control().redo > lsn);
    let (_store, toy) = open(&disk.crash(9));
    assert_eq!(*toy.created.lock(), [open_file]);
}

#[test]
fn the_redo_point_stays_below_holds_and_the_clients_floor() {
    let disk = SimDisk::new(9);
    let (store, toy) = open(&disk);
    set_up(&store).expect("set up");
    run(&store, &disk, 1, 30, 0).expect("steps");
    let hold = store.hold_redo_here();
    run(&store, &disk, 31, 60, 0).expect("steps");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    assert_eq!(store.control().redo, hold.lsn());
    *toy.floor.lock() = Some(Lsn(hold.lsn().0 + 8));
    *toy.payload.lock() = b"state".to_vec();
    let floor = Lsn(hold.lsn().0 + 8);
    drop(hold);
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    assert_eq!(store.control().redo, floor);
    *toy.floor.lock() = None;
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    let redo = store.control().redo;
    assert!(redo > floor);
    assert_eq!(store.control_payload(), b"state");
    let (store, toy) = open(&disk.crash(4));
    assert_eq!(toy.restored.lock().as_deref(), Some(&b"state"[..]));
    assert_eq!(store.recovery_stats().redo_start, redo);
    assert_steps(&store, 60, "from the checkpoint");
}

#[test]
fn log_volume_starts_checkpoints_and_old_segments_go() {
    let disk = SimDisk::new(10);
    let small = StorageConfig {
        max_wal_size: 256 << 10,
        ..config()
    };
    let (store, _) = open_with(&disk, small).expect("opens");
    set_up(&store).expect("set up");
    run(&store, &disk, 1, 6_000, 0).expect("steps");
    // A checkpoint that volume began is paced by volume: log goes on until it is done.
    let start = std::time::Instant::now();
    let mut last = 6_000;
    while store.checkpoint_stats().num_done == 0 {
        assert!(start.elapsed().as_secs() < 30, "no checkpoint came");
        run(&store, &disk, last + 1, last + 100, 0).expect("steps");
        last += 100;
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    // They go in the background.
    loop {
        let segments = disk.list(&dir().join("wal")).expect("list");
        if segments.len() <= 8 {
            break;
        }
        assert!(start.elapsed().as_secs() < 60, "{segments:?}");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    store.shutdown().expect("shutdown");
    drop(store);
    let (store, _) = open(&disk);
    assert_steps(&store, last, "reopened");
}

/// Nobody waits for ever for a thread that is gone.
#[test]
fn a_checkpointer_that_panics_poisons_and_strands_nobody() {
    let disk = SimDisk::new(17);
    let (store, toy) = open(&disk);
    set_up(&store).expect("set up");
    *toy.payload.lock() = PANIC.to_vec();
    let error = store.checkpoint(CheckpointMode::Fast).expect_err("gone");
    assert!(error.to_string().contains("checkpointer"), "{error}");
    assert!(store.admit().is_err());
    store.shutdown().expect_err("no last checkpoint");
    drop(store);
    let (store, _) = open(&disk);
    assert!(!store.recovery_stats().clean);
    assert_steps(&store, 0, "recovered");
}

/// Although the cleaner is at work until the end: the pool is smaller than what is filled.
#[test]
fn a_clean_end_leaves_nothing_to_redo_or_to_restore() {
    for seed in 0..50 {
        let disk = SimDisk::new(seed);
        let (store, _) = open(&disk);
        set_up(&store).expect("set up");
        store.shutdown().expect("shutdown");
        drop(store);
        let (store, _) = open(&disk);
        let recovery = store.recovery_stats();
        assert!(recovery.clean && recovery.applied == 0, "{recovery:?}");
        assert_eq!(store.writer().restored().checked, 0, "seed {seed}");
    }
}

/// More pages than are written at once.
const LARGE: u32 = 1000;

#[test]
fn a_request_hurries_the_spread_checkpoint_under_way() {
    let disk = SimDisk::new(13);
    let small = StorageConfig {
        max_wal_size: 256 << 10,
        // So that the cleaner leaves the checkpoint something to write.
        shared_buffers: 16 << 20,
        ..config()
    };
    let (store, _) = open_with(&disk, small).expect("opens");
    set_up(&store).expect("set up");
    let fork = counters(&store);
    fork.extend(LARGE).expect("extend");
    let start = std::time::Instant::now();
    let mut last = 0;
    // Until one is under way: it is spread over log that does not come any more. (If this thread
    // went on for long before it saw that one had begun, there was log enough to end it.)
    let done = loop {
        init_pages(&store, &fork, PAGES..PAGES + LARGE).expect("dirty");
        let requested = store.checkpoint_stats().num_requested;
        while store.checkpoint_stats().num_requested == requested {
            assert!(start.elapsed().as_secs() < 30, "no checkpoint came");
            run(&store, &disk, last + 1, last + 10, 0).expect("steps");
            last += 10;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        let stats = store.checkpoint_stats();
        if stats.num_done < stats.num_requested {
            break stats.num_done;
        }
    };
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    let stats = store.checkpoint_stats();
    assert_eq!((stats.num_done, stats.num_requested), (done + 2, done + 2));
    assert!(stats.buffers_written > 0 && stats.files_synced > 0);
    assert_eq!(stats.sync_histogram.iter().sum::<u64>(), stats.syncs);
    assert_eq!(stats.unsynced_files, 0);
    store.reset_checkpoint_stats();
    let reset = store.checkpoint_stats();
    assert!(reset.num_done <= stats.num_done && reset.stats_reset > stats.stats_reset);
}

#[test]
fn checkpoint_timeout_is_from_beginning_to_beginning() {
    let disk = SimDisk::new(15);
    let timeout = std::time::Duration::from_secs(1);
    let timed = StorageConfig {
        checkpoint_timeout: timeout,
        ..config()
    };
    let (store, _) = open_with(&disk, timed).expect("opens");
    set_up(&store).expect("set up");
    let mut last = 0;
    let mut await_timed = |count| {
        let start = std::time::Instant::now();
        while store.checkpoint_stats().num_timed < count {
            assert!(start.elapsed().as_secs() < 60, "no checkpoint came");
            run(&store, &disk, last + 1, last + 1, 0).expect("steps");
            last += 1;
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        std::time::Instant::now()
    };
    let mut before = await_timed(1);
    let mut pause = || {
        let now = await_timed(store.checkpoint_stats().num_timed + 1);
        now - std::mem::replace(&mut before, now)
    };
    // One that is spread over nine tenths of the time ends shortly before: from its end it would
    // always be nearly twice the time. A busy machine may be late once or twice.
    let pauses: Vec<_> = (0..4).map(|_| pause()).collect();
    let in_time = pauses.iter().any(|pause| *pause < timeout.mul_f64(1.7));
    assert!(in_time, "{pauses:?}");
}

#[test]
fn little_space_for_log_makes_checkpoints_come_early() {
    let disk = SimDisk::new(14);
    let large = StorageConfig {
        max_wal_size: 1 << 30,
        ..config()
    };
    // Segments are 64 KiB: beside the four that are spare, there is room for 24 more.
    disk.set_free_space(Some((24 + 4) * (64 << 10)));
    let (store, _) = open_with(&disk, large).expect("opens");
    set_up(&store).expect("set up");
    let start = std::time::Instant::now();
    let mut last = 0;
    while store.checkpoint_stats().num_done == 0 {
        assert!(start.elapsed().as_secs() < 60, "no checkpoint came");
        run(&store, &disk, last + 1, last + 100, 0).expect("steps");
        last += 100;
    }
    assert!(store.checkpoint_stats().num_requested > 0);
    assert_steps(&store, last, "after the checkpoint");
}
