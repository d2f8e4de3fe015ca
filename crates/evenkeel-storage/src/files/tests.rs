use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_io::{
    Disk, Fault, FaultKind, LatencyMode, LatencyModel, OpKind, OpenOptions, Outcome, SimDisk,
};

use super::SYNC_TIME_BOUNDS;
use crate::error::StorageError;
use crate::ids::{BlockNumber, FileId, Fork};
use crate::mutant::Mutant;
use crate::page::{PAGE_SIZE, PageRead};
use crate::testing::{DIR, FILE, TEST_SEGMENT, open_pool, open_pool_with};

/// Writes a block and counts it, as the writer does.
fn write(pool: &crate::buffer::BufferPool, block: u32) {
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    let (segment, offset) = fork.files().segment(BlockNumber(block)).expect("extended");
    segment
        .file()
        .write_all_at(&[1; PAGE_SIZE], offset)
        .expect("written");
    segment.count_write();
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

/// FILE-4: the disk may take unsynced removals back in any order, and redo repeats the drop.
#[test]
fn a_drop_of_several_segments_leaves_nothing_whatever_a_crash_takes_back() {
    let disk = SimDisk::new(16);
    let (pool, _) = open_pool(&disk, 16);
    let forks = [(Fork::Main, "7"), (Fork::Vm, "7_vm")];
    for (fork, _) in forks {
        pool.fork(FILE, fork)
            .and_then(|fork| fork.extend(TEST_SEGMENT * 3))
            .expect("space");
    }
    pool.files().sync_table().sync_all().expect("sound");
    drop(pool);
    for back in 0..8 {
        for is_open in [false, true] {
            let disk = disk.process_crash();
            for (_, name) in forks {
                for (number, suffix) in ["", ".1", ".2"].into_iter().enumerate() {
                    if back & (1 << number) == 0 {
                        let path = format!("{DIR}/base/{name}{suffix}");
                        disk.remove(path.as_ref()).expect("there");
                    }
                }
            }
            let (pool, _) = open_pool(&disk, 16);
            if is_open {
                for (fork, _) in forks {
                    pool.fork(FILE, fork).expect("opens");
                }
            }
            pool.drop_file(FILE).expect("sound");
            let base = format!("{DIR}/base");
            let after = disk.crash_with(Outcome::Nothing, 1);
            let left = after.list(base.as_ref()).expect("lists");
            assert!(left.is_empty(), "{back:03b} open {is_open}: {left:?}");
        }
    }
}

/// The same of a fork that is cut to its first segment.
#[test]
fn a_cut_by_several_segments_leaves_nothing_whatever_a_crash_takes_back() {
    let disk = SimDisk::new(17);
    let (pool, _) = open_pool(&disk, 16);
    pool.fork(FILE, Fork::Main)
        .and_then(|fork| fork.extend(TEST_SEGMENT * 4))
        .expect("space");
    pool.files().sync_table().sync_all().expect("sound");
    drop(pool);
    for back in 0..8 {
        for is_cut in [false, true] {
            let disk = disk.process_crash();
            let path = |suffix: &str| std::path::PathBuf::from(format!("{DIR}/base/7{suffix}"));
            for (number, suffix) in [".1", ".2", ".3"].into_iter().enumerate() {
                if back & (1 << number) == 0 {
                    disk.remove(&path(suffix)).expect("there");
                }
            }
            if is_cut {
                let first = disk.open(&path(""), OpenOptions::read_write());
                let first = first.expect("there");
                first.set_len(5 * PAGE_SIZE as u64).expect("cut");
            }
            let (pool, _) = open_pool(&disk, 16);
            pool.truncate(FILE, Fork::Main, 5).expect("sound");
            pool.files().sync_table().sync_all().expect("sound");
            let after = disk.crash_with(Outcome::Nothing, 1);
            let left = after.list(format!("{DIR}/base").as_ref()).expect("lists");
            assert_eq!(left, ["7"], "{back:03b} cut {is_cut}");
            let (pool, _) = open_pool(&after, 16);
            assert_eq!(pool.fork(FILE, Fork::Main).expect("opens").len(), 5);
        }
    }
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

/// Opens the fork's segment without keeping the fork, as a pool that has closed it would.
fn write_and_close(pool: &crate::buffer::BufferPool, name: &str) {
    let space = pool.files();
    let path = format!("{DIR}/base/{name}");
    let path = path.as_ref();
    let open = || space.disk().open(path, OpenOptions::create());
    let segment = space
        .sync_table()
        .register(path, false, open)
        .expect("opens");
    segment
        .file()
        .write_all_at(&[1; PAGE_SIZE], 0)
        .expect("written");
    segment.count_write();
}

#[test]
fn a_file_stays_open_until_it_is_synced_though_nobody_else_has_it() {
    let disk = SimDisk::new(7);
    let (pool, poison) = open_pool(&disk, 16);
    let table = pool.files().sync_table();
    write_and_close(&pool, "8");
    assert_eq!(table.open_files(), 1);
    table.sync_all().expect("sound");
    assert_eq!((table.open_files(), table.stats().pending), (0, 0));
    // An error that strikes while nobody else has the file open is still ours to see.
    write_and_close(&pool, "8");
    assert_eq!(disk.fail_write_back("base/8"), 1);
    let error = table.sync_all().expect_err("the content is lost");
    assert!(error.to_string().contains("base/8"), "{error}");
    assert!(poison.is_set());
    assert_eq!(table.open_files(), 1);
}

#[test]
fn a_file_that_comes_back_is_synced_as_a_new_one() {
    let disk = SimDisk::new(8);
    let (pool, _) = open_pool(&disk, 16);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    fork.extend(TEST_SEGMENT + 1).expect("space");
    write(&pool, TEST_SEGMENT);
    let (old, _) = fork
        .files()
        .segment(BlockNumber(TEST_SEGMENT))
        .expect("there");
    pool.truncate(FILE, Fork::Main, 1).expect("cut");
    fork.extend(TEST_SEGMENT).expect("space");
    write(&pool, TEST_SEGMENT);
    let (new, _) = fork
        .files()
        .segment(BlockNumber(TEST_SEGMENT))
        .expect("there");
    assert!(!old.needs_sync() && new.needs_sync());
    pool.files().sync_table().sync_all().expect("sound");
    assert!(!new.needs_sync());
    let after = disk.crash_with(Outcome::Nothing, 1);
    let (pool, _) = open_pool(&after, 16);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    assert_eq!(fork.len(), TEST_SEGMENT + 1);
}

#[test]
fn cutting_a_file_needs_a_sync() {
    let disk = SimDisk::new(9);
    let (pool, _) = open_pool(&disk, 16);
    let table = pool.files().sync_table();
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    fork.extend(10).expect("space");
    write(&pool, 9);
    table.sync_all().expect("sound");
    pool.truncate(FILE, Fork::Main, 3).expect("cut");
    assert_eq!(table.stats().pending, 1);
    table.sync_all().expect("sound");
    let after = disk.crash_with(Outcome::Nothing, 1);
    let (pool, _) = open_pool(&after, 16);
    assert_eq!(pool.fork(FILE, Fork::Main).expect("opens").len(), 3);
}

#[test]
fn a_failed_pass_leaves_everything_unsynced_that_it_did_not_sync() {
    let disk = SimDisk::new(10);
    let (pool, poison) = open_pool(&disk, 16);
    let table = pool.files().sync_table();
    for id in [7, 8, 9] {
        let fork = pool.fork(FileId(id), Fork::Main).expect("opens");
        fork.extend(1).expect("space");
        let (segment, offset) = fork.files().segment(BlockNumber(0)).expect("extended");
        segment
            .file()
            .write_all_at(&[1; PAGE_SIZE], offset)
            .expect("written");
        segment.count_write();
    }
    disk.inject(
        Fault::nth(1, FaultKind::Eio)
            .on(OpKind::SyncData)
            .path("base/8")
            .sticky(),
    );
    let error = table.sync_all().expect_err("the fault");
    assert!(error.to_string().contains("base/8"), "{error}");
    assert!(poison.is_set());
    disk.clear_faults();
    // A sync that succeeds after one that failed proves nothing, so there is no second try.
    assert!(table.sync_all().is_err());
    assert!(table.stats().pending >= 1);
    assert_eq!(table.stats().syncs + table.stats().pending, 3);
}

/// A disk whose syncs take a while: what is written during one is the next pass's.
#[test]
fn arrivals_during_a_pass_wait_for_the_next_and_the_pass_ends() {
    let disk = SimDisk::new(11);
    let (pool, _) = open_pool(&disk, 16);
    pool.fork(FILE, Fork::Main)
        .and_then(|fork| fork.extend(4))
        .expect("space");
    let model = LatencyModel {
        access: 0,
        per_mib: 0,
        flush: 20_000,
        parallel: 8,
    };
    disk.set_latency(Some((model, LatencyMode::Sleep)));
    let table = pool.files().sync_table();
    write(&pool, 0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut writes = 0;
            while !done.load(Ordering::SeqCst) {
                write(&pool, 1);
                writes += 1;
            }
            writes
        });
        for _ in 0..3 {
            table.sync_all().expect("sound");
        }
        done.store(true, Ordering::SeqCst);
        assert!(writer.join().expect("no panic") > 0);
    });
    // The last write began after the last pass, or was counted after it had looked.
    write(&pool, 2);
    assert_eq!(table.stats().pending, 1);
    table.sync_all().expect("sound");
    assert_eq!(table.stats().pending, 0);
    assert!(disk.unsynced().iter().all(|path| !path.starts_with(DIR)));
}

#[test]
fn syncs_of_many_files_go_out_together_and_are_timed() {
    const FILES: u64 = 16;
    let disk = SimDisk::new(12);
    let (pool, _) = open_pool(&disk, 16);
    for id in 0..FILES {
        let fork = pool.fork(FileId(100 + id), Fork::Main).expect("opens");
        fork.extend(1).expect("space");
        let (segment, _) = fork.files().segment(BlockNumber(0)).expect("extended");
        segment.count_write();
    }
    let model = LatencyModel {
        access: 0,
        per_mib: 0,
        flush: 30_000,
        parallel: 8,
    };
    disk.set_latency(Some((model, LatencyMode::Sleep)));
    let table = pool.files().sync_table();
    let start = std::time::Instant::now();
    let pass = table.sync_all().expect("sound");
    let elapsed = start.elapsed();
    assert_eq!(pass.files, FILES);
    assert!(elapsed < pass.total / 2, "{elapsed:?} for {pass:?}");
    assert!(pass.average() <= pass.longest && pass.longest <= elapsed);
    let stats = table.stats();
    assert_eq!(stats.histogram.iter().sum::<u64>(), FILES);
    // None was quicker than the device.
    let quick = SYNC_TIME_BOUNDS.partition_point(|bound| *bound <= 10_000);
    assert_eq!(stats.histogram[..quick].iter().sum::<u64>(), 0);
    assert_eq!(stats.longest_micros, pass.longest.as_micros() as u64);
    table.reset_stats();
    assert_eq!(table.stats().syncs, 0);
}

/// Counting is all that happens where a page write has just completed, with the table locked by
/// somebody else too.
#[test]
fn a_write_is_counted_while_the_table_is_busy() {
    let disk = SimDisk::new(13);
    let (pool, _) = open_pool(&disk, 16);
    pool.fork(FILE, Fork::Main)
        .and_then(|fork| fork.extend(1))
        .expect("space");
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    let (segment, _) = fork.files().segment(BlockNumber(0)).expect("extended");
    let number = pool
        .files()
        .sync_table()
        .while_locked(|| segment.count_write());
    assert!(!segment.is_synced(number));
    pool.files().sync_table().sync_all().expect("sound");
    assert!(segment.is_synced(number));
}

/// The reason for the rule about open files: a write-back error between closing a file and opening
/// it again is reported to no handle.
#[test]
fn a_file_closed_before_its_sync_is_caught() {
    let lost = |mutant: Option<Mutant>| {
        let disk = SimDisk::new(14);
        let (pool, poison) = open_pool_with(&disk, 16, 0);
        if let Some(mutant) = mutant {
            poison.mutate(mutant);
        }
        pool.fork(FILE, Fork::Main)
            .and_then(|fork| fork.extend(1))
            .expect("space");
        pool.files().sync_table().sync_all().expect("sound");
        write(&pool, 0);
        // Others take its descriptor if it can be had.
        for id in 100..150 {
            let fork = pool.create_file(FileId(id)).expect("made");
            fork.files().truncated_before(u32::MAX).expect("open");
        }
        assert_eq!(
            disk.fail_write_back("base/7"),
            usize::from(mutant.is_some())
        );
        let reported = pool.files().sync_table().sync_all().is_err();
        let after = disk.crash_with(Outcome::Nothing, 1);
        let (pool, _) = open_pool(&after, 16);
        let fork = pool.fork(FILE, Fork::Main).expect("opens");
        let there = !fork.is_empty() && !fork.read(BlockNumber(0)).is_ok_and(|page| page.is_new());
        !reported && !there
    };
    assert!(!lost(None));
    assert!(lost(Some(Mutant::ClosedUnsynced)));
}

/// With far more files than may be open, all are read and written, and what is written is synced
/// by a handle that was open when it was.
#[test]
fn files_are_closed_for_others_and_opened_again_when_they_are_used() {
    const FILES: u64 = 120;
    let disk = SimDisk::new(15);
    disk.set_max_open_files(Some(40));
    let (pool, poison) = open_pool_with(&disk, 16, 20);
    let table = pool.files().sync_table();
    let fork = |id: u64| pool.fork(FileId(100 + id), Fork::Main).expect("opens");
    for round in 0..3 {
        for id in 0..FILES {
            let fork = fork(id);
            if round == 0 {
                fork.extend(TEST_SEGMENT + 1).expect("space");
            }
            let block = BlockNumber(if id % 2 == 0 { 0 } else { TEST_SEGMENT });
            let (segment, offset) = fork.files().segment(block).expect("opens");
            let page = [id as u8 + round; PAGE_SIZE];
            segment.file().write_all_at(&page, offset).expect("written");
            segment.count_write();
            drop(segment);
            assert!(table.open_files() <= 20, "{}", table.open_files());
        }
    }
    table.sync_all().expect("sound");
    let after = disk.crash_with(Outcome::Nothing, 1);
    for id in 0..FILES {
        let name = format!(
            "{DIR}/base/{}{}",
            100 + id,
            if id % 2 == 0 { "" } else { ".1" }
        );
        let file = after
            .open(name.as_ref(), OpenOptions::read_only())
            .expect("there");
        let mut found = [0; PAGE_SIZE];
        file.read_exact_at(&mut found, 0).expect("reads");
        assert_eq!(found, [id as u8 + 2; PAGE_SIZE], "{name}");
    }
    assert!(!poison.is_set());
}

/// Somebody else has the process's descriptors: whoever needs one gets an error, and nothing is
/// poisoned.
#[test]
fn a_process_without_descriptors_fails_statements_and_not_the_instance() {
    let disk = SimDisk::new(16);
    let (pool, poison) = open_pool(&disk, 16);
    let table = pool.files().sync_table();
    for id in 100..104 {
        let fork = pool.fork(FileId(id), Fork::Main).expect("opens");
        fork.extend(1).expect("space");
    }
    disk.set_max_open_files(Some(disk.open_files()));
    // Their own files are closed for new ones, synced before.
    for id in 200..204 {
        pool.create_file(FileId(id)).expect("another is closed");
    }
    table.sync_all().expect("directories are open");
    let (in_use, _) = pool
        .fork(FileId(203), Fork::Main)
        .and_then(|fork| {
            fork.extend(1)?;
            fork.files().segment(BlockNumber(0))
        })
        .expect("opens");
    disk.set_max_open_files(Some(0));
    let error = pool
        .fork(FileId(100), Fork::Main)
        .and_then(|fork| fork.read(BlockNumber(0)).map(|_| ()))
        .expect_err("no descriptor");
    assert!(matches!(error, StorageError::TooManyFiles(_)), "{error}");
    in_use.count_write();
    table.sync_all().expect("what is written is open");
    pool.drop_files(&[FileId(203)])
        .expect("unlinking needs none, nor does the sync");
    assert!(!poison.is_set());
}
