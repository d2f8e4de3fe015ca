mod invariants;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use evenkeel_io::{Disk, Fault, FaultKind, OpKind, OpenOptions, Outcome, SimDisk, sample};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::doublewrite::{area_path, read_header};
use super::{Piece, WritePace};
use crate::config::TornPageProtection::{self, DoubleWrite, Off};
use crate::error::{StorageError, StorageResult};
use crate::ids::{BlockNumber, FileId, Fork, Lsn, PageId};
use crate::mutant::Mutant;
use crate::page::{PAGE_SIZE, PageRead};
use crate::testing::{
    DIR, FILE, REDO_TAG, TEST_SEGMENT, TestLog, TestStore, apply, open_pool, options, page_id,
};
use crate::wal::LogFlush;

fn block(number: u32) -> BlockNumber {
    BlockNumber(number)
}

fn value_of(store: &TestStore, number: u32) -> u64 {
    let fork = store.pool.fork(FILE, Fork::Main).expect("opens");
    fork.read(block(number)).expect("whole").u64_at(24)
}

fn change(store: &TestStore, log: &TestLog, number: u32, value: u64) -> Lsn {
    let fork = store.pool.fork(FILE, Fork::Main).expect("opens");
    let mut page = fork.write(block(number)).expect("whole");
    log.change(&mut page, value)
}

/// A store with `blocks` empty blocks on a new disk.
fn fresh(disk: &SimDisk, frames: usize, blocks: u32, area: u32) -> (TestStore, Arc<TestLog>) {
    let log = TestLog::new(Some(disk.clone()));
    let store = TestStore::open(disk, frames, &log, &options(DoubleWrite, area)).expect("opens");
    store
        .pool
        .fork(FILE, Fork::Main)
        .and_then(|fork| fork.extend(blocks))
        .expect("space");
    (store, log)
}

#[test]
fn what_was_written_and_synced_is_there_after_a_power_failure() {
    let disk = SimDisk::new(1);
    let (store, log) = fresh(&disk, 64, 50, 64);
    for number in 0..50 {
        change(&store, &log, number, 70 + u64::from(number));
    }
    let stats = store
        .writer
        .write_dirty_before(log.insert_lsn(), &mut |_, _| {})
        .expect("sound");
    assert_eq!((stats.due, stats.written), (50, 50));
    assert_eq!(store.pool.min_first_dirtied(), None);
    store.writer.sync_all().expect("sound");
    let disk = disk.crash_with(Outcome::Nothing, 5);
    let store = TestStore::open(&disk, 64, &log, &options(DoubleWrite, 64)).expect("opens");
    for number in 0..50 {
        assert_eq!(value_of(&store, number), 70 + u64::from(number));
    }
}

#[test]
fn adjacent_pages_go_home_together() {
    let disk = SimDisk::new(2);
    let (store, log) = fresh(&disk, 256, TEST_SEGMENT * 2, 64);
    for number in (0..TEST_SEGMENT * 2).rev() {
        change(&store, &log, number, 1);
    }
    store.checkpoint(&log).expect("sound");
    let stats = store.writer.stats();
    assert_eq!(stats.pages, u64::from(TEST_SEGMENT) * 2);
    // Batches of 15 (the area has 64 slots), cut at the segments' border.
    assert!(stats.home_writes <= 5, "{stats:?}");
    // The first batch has the newest page, so its flush of the log did for all.
    assert_eq!(stats.log_flushes, 1);
}

#[test]
fn the_redo_point_keeps_to_changes_made_during_the_write_out() {
    let disk = SimDisk::new(3);
    let (store, log) = fresh(&disk, 64, 4, 64);
    change(&store, &log, 0, 1);
    let target = log.insert_lsn();
    let mut later = Lsn::ZERO;
    store
        .writer
        .write_dirty_before(target, &mut |_, _| later = change(&store, &log, 0, 2))
        .expect("sound");
    assert_eq!(store.pool.min_first_dirtied(), Some(later));
    assert_eq!(store.pool.census().dirty, 1);
}

#[test]
fn a_locked_page_is_waited_for_and_then_written() {
    let disk = SimDisk::new(4);
    let (store, log) = fresh(&disk, 64, 4, 64);
    let fork = store.pool.fork(FILE, Fork::Main).expect("opens");
    change(&store, &log, 1, 1);
    let mut page = fork.write(block(2)).expect("extended");
    log.change(&mut page, 9);
    let target = log.insert_lsn();
    std::thread::scope(|scope| {
        let written = scope.spawn(|| store.writer.write_dirty_before(target, &mut |_, _| {}));
        while store.writer.stats().pages == 0 {
            std::thread::yield_now();
        }
        assert!(!written.is_finished());
        log.change(&mut page, 10);
        drop(page);
        assert_eq!(written.join().expect("no panic").expect("sound").written, 2);
    });
    assert_eq!(store.pool.min_first_dirtied(), None);
}

#[test]
fn a_failed_sync_poisons_and_says_which_file() {
    let disk = SimDisk::new(5);
    let (store, log) = fresh(&disk, 64, 4, 64);
    change(&store, &log, 0, 1);
    store
        .writer
        .write_dirty_before(log.insert_lsn(), &mut |_, _| {})
        .expect("sound");
    disk.inject(
        Fault::nth(1, FaultKind::Eio)
            .on(OpKind::SyncData)
            .path("base/7"),
    );
    let error = store.writer.sync_all().expect_err("the fault");
    assert!(error.to_string().contains("base/7"), "{error}");
    assert!(store.poison.is_set());
    change(&store, &log, 0, 2);
    let refused = store
        .writer
        .write_dirty_before(log.insert_lsn(), &mut |_, _| {});
    assert!(matches!(refused, Err(StorageError::Poisoned { .. })));
    assert!(store.writer.sync_all().is_err());
}

#[test]
fn a_failed_write_poisons() {
    for path in ["base/7", "doublewrite.0"] {
        let disk = SimDisk::new(6);
        let (store, log) = fresh(&disk, 64, 4, 64);
        change(&store, &log, 0, 1);
        disk.inject(Fault::nth(1, FaultKind::Eio).on(OpKind::Write).path(path));
        let error = store
            .writer
            .write_dirty_before(log.insert_lsn(), &mut |_, _| {});
        assert!(error.expect_err("the fault").to_string().contains(path));
        assert!(store.poison.is_set());
    }
}

#[test]
fn the_cleaner_makes_room_and_nobody_else_writes() {
    let disk = SimDisk::new(7);
    let (store, log) = fresh(&disk, 16, 100, 64);
    for round in 1..4 {
        for number in 0..100 {
            change(&store, &log, number, round * 1000 + u64::from(number));
        }
    }
    for number in 0..100 {
        assert_eq!(value_of(&store, number), 3000 + u64::from(number));
    }
    let stats = store.writer.stats();
    assert!(stats.cleaner_pages >= 280, "{stats:?}");
    assert_eq!(stats.cleaner_pages, stats.pages);
}

#[test]
fn a_dropped_file_does_not_come_back_and_does_not_hold_up_the_writer() {
    let disk = SimDisk::new(8);
    let (store, log) = fresh(&disk, 32, 40, 64);
    std::thread::scope(|scope| {
        let churn = scope.spawn(|| {
            for round in 0..30 {
                for number in 0..40 {
                    change(&store, &log, number, round);
                }
            }
        });
        for id in 100..140 {
            let file = FileId(id);
            let fork = store.pool.create_file(file).expect("space");
            fork.extend(6).expect("space");
            for number in 0..6 {
                let mut page = fork.write(block(number)).expect("extended");
                log.change(&mut page, id);
            }
            drop(fork);
            store.pool.drop_file(file).expect("sound");
        }
        churn.join().expect("no panic");
    });
    store.checkpoint(&log).expect("sound");
    assert_eq!(store.pool.files().list().expect("lists"), [FILE]);
    let disk = disk.crash(1);
    let store = TestStore::open(&disk, 32, &log, &options(DoubleWrite, 64)).expect("opens");
    assert_eq!(store.pool.files().list().expect("lists"), [FILE]);
}

/// The area files whose headers say that their images count.
fn active(disk: &SimDisk) -> Vec<usize> {
    let header = |number: &usize| {
        let path = area_path(Path::new(DIR), *number);
        let file = disk.open(&path, OpenOptions::read_only()).ok()?;
        read_header(&*file)
            .ok()
            .flatten()
            .filter(|header| header.active)
    };
    (0..2).filter(|number| header(number).is_some()).collect()
}

#[test]
fn a_clean_end_leaves_nothing_to_restore_and_an_unclean_one_changes_the_file() {
    let disk = SimDisk::new(9);
    let (store, log) = fresh(&disk, 64, 4, 64);
    assert_eq!(active(&disk), [0]);
    change(&store, &log, 0, 5);
    store.checkpoint(&log).expect("sound");
    store.writer.shutdown().expect("sound");
    assert!(active(&disk).is_empty());
    drop(store);

    let store = TestStore::open(&disk, 64, &log, &options(DoubleWrite, 64)).expect("opens");
    assert_eq!(store.writer.restored().checked, 0);
    assert_eq!(active(&disk), [0]);
    change(&store, &log, 1, 6);
    store.checkpoint(&log).expect("sound");

    let disk = disk.crash(3);
    let store = TestStore::open(&disk, 64, &log, &options(DoubleWrite, 64)).expect("opens");
    assert_eq!(store.writer.restored().checked, 1);
    assert_eq!(active(&disk), [1]);
    drop(store);
    // The shutdown syncs home writes that are not synced yet.
    let store = TestStore::open(&disk, 64, &log, &options(DoubleWrite, 64)).expect("opens");
    assert_eq!(active(&disk), [0]);
    change(&store, &log, 1, 7);
    store.writer.write_everything().expect("sound");
    store.writer.shutdown().expect("sound");
    assert!(active(&disk).is_empty());
    drop(store);
    let store = TestStore::open(&disk, 64, &log, &options(DoubleWrite, 64)).expect("opens");
    assert_eq!(store.writer.restored().checked, 0);
    change(&store, &log, 1, 8);
    store.checkpoint(&log).expect("sound");
    let disk = disk.crash(4);
    // Without the area, what it held last is restored and then forgotten.
    let store = TestStore::open(&disk, 64, &log, &options(Off, 64)).expect("opens");
    assert_eq!(store.writer.restored().checked, 1);
    assert!(active(&disk).is_empty());
}

fn spoil_home(disk: &SimDisk, number: u32) {
    let path = format!("{DIR}/base/7");
    let file = disk
        .open(path.as_ref(), OpenOptions::read_write())
        .expect("there");
    file.write_all_at(&[0xAB; 512], u64::from(number) * PAGE_SIZE as u64 + 512)
        .expect("written");
    file.sync_data().expect("synced");
}

#[test]
fn a_torn_page_gets_the_newest_image_and_a_whole_one_keeps_its_content() {
    let disk = SimDisk::new(10);
    let (store, log) = fresh(&disk, 64, 4, 64);
    for value in 1..5 {
        change(&store, &log, 0, value);
        change(&store, &log, 1, value);
        store.checkpoint(&log).expect("sound");
    }
    let disk = disk.crash(1);
    spoil_home(&disk, 1);
    let store = TestStore::open(&disk, 64, &log, &options(DoubleWrite, 64)).expect("opens");
    let restored = store.writer.restored();
    assert_eq!(
        (restored.checked, restored.restored, restored.damaged),
        (2, 1, 0)
    );
    assert_eq!((value_of(&store, 0), value_of(&store, 1)), (4, 4));
}

/// A batch that does not fit behind the ring's head skips the last slots, which keep what they
/// hold for laps: by then the page has a later image elsewhere, and has lost that one, too.
#[test]
fn an_image_older_than_what_is_home_is_never_taken() {
    let disk = SimDisk::new(15);
    let (store, log) = fresh(&disk, 64, 12, 16);
    let batches: [&[u32]; 10] = [
        &[0, 1, 2],
        &[3, 4, 5],
        &[6, 7, 8],
        &[9],
        &[10], // the last two of 16 slots
        &[10], // the first two
        &[0, 1, 2],
        &[3, 4, 5],
        &[6, 7, 8],
        &[0, 1, 2], // skips two slots and takes the first four
    ];
    for (value, pages) in (1..).zip(batches) {
        for number in pages {
            change(&store, &log, *number, value);
        }
        store
            .writer
            .write_dirty_before(log.insert_lsn(), &mut |_, _| {})
            .expect("sound");
    }
    drop(store);
    spoil_home(&disk, 10);
    let store = TestStore::open(&disk, 64, &log, &options(DoubleWrite, 16)).expect("opens");
    let restored = store.writer.restored();
    assert_eq!((restored.checked, restored.restored), (3, 0));
    let fork = store.pool.fork(FILE, Fork::Main).expect("opens");
    assert!(matches!(
        fork.pin(block(10)),
        Err(StorageError::PageDamaged { .. })
    ));
}

#[test]
fn images_of_an_earlier_use_are_never_taken() {
    let disk = SimDisk::new(11);
    let (store, log) = fresh(&disk, 64, 4, 64);
    change(&store, &log, 0, 1);
    store.checkpoint(&log).expect("sound");
    store.writer.shutdown().expect("sound");
    drop(store);
    let store = TestStore::open(&disk, 64, &log, &options(DoubleWrite, 64)).expect("opens");
    // The same file is in use again, but its only image of block 0 is of the use before.
    spoil_home(&disk, 0);
    drop(store);
    let store = TestStore::open(&disk, 64, &log, &options(DoubleWrite, 64)).expect("opens");
    assert_eq!(store.writer.restored().checked, 0);
    let fork = store.pool.fork(FILE, Fork::Main).expect("opens");
    assert!(matches!(
        fork.pin(block(0)),
        Err(StorageError::PageDamaged { .. })
    ));
}

/// The page cache may remember what a failed write-back lost: a start after a mere process crash
/// writes every page of the area home again.
#[test]
fn the_page_cache_is_not_trusted_after_an_unclean_end() {
    let disk = SimDisk::new(12);
    let (store, log) = fresh(&disk, 64, 2, 64);
    change(&store, &log, 0, 1);
    store.checkpoint(&log).expect("sound");
    change(&store, &log, 0, 2);
    store
        .writer
        .write_dirty_before(log.insert_lsn(), &mut |_, _| {})
        .expect("sound");
    assert_ne!(disk.fail_write_back("base/7"), 0);
    let disk = disk.process_crash();
    let store = TestStore::open(&disk, 64, &log, &options(DoubleWrite, 64)).expect("opens");
    assert_eq!(store.writer.restored().checked, 1);
    drop(store);
    let disk = disk.crash_with(Outcome::Nothing, 1);
    let store = TestStore::open(&disk, 64, &log, &options(DoubleWrite, 64)).expect("opens");
    assert_eq!(value_of(&store, 0), 2);
}

#[test]
fn a_full_area_syncs_home_files_and_goes_on() {
    let disk = SimDisk::new(13);
    let (store, log) = fresh(&disk, 64, 60, 8);
    for round in 0..5 {
        for number in 0..60 {
            change(&store, &log, number, round);
        }
        store
            .writer
            .write_dirty_before(log.insert_lsn(), &mut |_, _| {})
            .expect("sound");
    }
    let stats = store.writer.stats();
    assert!(stats.area_full >= 30, "{stats:?}");
}

/// Increments of counters on random pages by many threads, in a pool far too small, with
/// checkpoints beside them: none is lost.
#[test]
fn no_change_is_lost_between_threads_cleaner_and_checkpoints() {
    const BLOCKS: u32 = 60;
    let disk = SimDisk::new(14);
    let (store, log) = fresh(&disk, 16, BLOCKS, 32);
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let done = AtomicBool::new(false);
    let total = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4_u64)
            .map(|thread| {
                let (store, log, total) = (&store, &log, &total);
                scope.spawn(move || {
                    let mut rng = StdRng::seed_from_u64(seed ^ thread);
                    let fork = store.pool.fork(FILE, Fork::Main).expect("opens");
                    for _ in 0..1500 {
                        let number = block(rng.random_range(0..BLOCKS));
                        if rng.random_bool(0.3) {
                            let page = fork.read(number).expect("whole");
                            let first = page.u64_at(24);
                            assert_eq!(page.u64_at(PAGE_SIZE - 8), first, "seed {seed}");
                        } else {
                            let mut page = fork.write(number).expect("whole");
                            let value = page.u64_at(24) + 1;
                            log.change(&mut page, value);
                            total.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                })
            })
            .collect();
        let checkpoints = scope.spawn(|| {
            let mut redo = Lsn::ZERO;
            while !done.load(Ordering::Relaxed) {
                let next = store.checkpoint(&log).expect("sound");
                assert!(next >= redo);
                redo = next;
            }
        });
        for worker in workers {
            worker.join().expect("no panic");
        }
        done.store(true, Ordering::Relaxed);
        checkpoints.join().expect("no panic");
    });
    store.writer.write_everything().expect("sound");
    assert_eq!(store.pool.min_first_dirtied(), None);
    store.writer.sync_all().expect("sound");
    let disk = disk.crash_with(Outcome::Nothing, seed);
    let store = TestStore::open(&disk, 16, &log, &options(DoubleWrite, 32)).expect("opens");
    let sum: u64 = (0..BLOCKS).map(|number| value_of(&store, number)).sum();
    assert_eq!(sum, total.load(Ordering::Relaxed));
}

/// Runs a workload with checkpoints, so that its disk's journal has crash images to check.
fn crash_workload(seed: u64, protection: TornPageProtection) -> (SimDisk, Arc<TestLog>) {
    mutated_workload(seed, protection, None)
}

/// [`crash_workload`] with a deliberate bug in the first store it opens.
fn mutated_workload(
    seed: u64,
    protection: TornPageProtection,
    mutant: Option<Mutant>,
) -> (SimDisk, Arc<TestLog>) {
    let disk = SimDisk::new(seed);
    let log = TestLog::new(Some(disk.clone()));
    let options = options(protection, 12);
    let mut store = TestStore::open(&disk, 16, &log, &options).expect("opens");
    if let Some(mutant) = mutant {
        store.poison.mutate(mutant);
    }
    let mut rng = StdRng::seed_from_u64(seed);
    store
        .pool
        .fork(FILE, Fork::Main)
        .and_then(|fork| fork.extend(10))
        .expect("space");
    for _ in 0..12 {
        for _ in 0..rng.random_range(1..25) {
            let fork = store.pool.fork(FILE, Fork::Main).expect("opens");
            if rng.random_bool(0.1) && fork.len() < 40 {
                fork.extend(rng.random_range(1..4)).expect("space");
            }
            change(&store, &log, rng.random_range(0..fork.len()), rng.random());
        }
        let redo = store.checkpoint(&log).expect("sound");
        disk.acknowledge(REDO_TAG | redo.0);
        if rng.random_bool(0.15) {
            // A clean end and a start: the area's file is taken into use anew.
            let redo = {
                store.writer.write_everything().expect("sound");
                // The cleaner may have a page on its way home.
                let least = store.pool.min_first_dirtied();
                store.writer.sync_all().expect("sound");
                least.unwrap_or(Lsn::MAX).min(log.insert_lsn())
            };
            disk.acknowledge(REDO_TAG | redo.0);
            store.writer.shutdown().expect("sound");
            drop(store);
            store = TestStore::open(&disk, 16, &log, &options).expect("opens");
        }
    }
    (disk, log)
}

/// Opens one crash image, redoes what the durable log has from the redo point on, and compares
/// every page with what the log says. An error is a page that fails its checksum.
fn recover_and_compare(
    disk: &SimDisk,
    log: &TestLog,
    acknowledged: &[u64],
    protection: TornPageProtection,
) -> StorageResult<()> {
    let highest = |redo: bool| {
        let tags = acknowledged
            .iter()
            .filter(|tag| (*tag & REDO_TAG != 0) == redo);
        tags.map(|tag| tag & !REDO_TAG).max().unwrap_or(0)
    };
    let (redo, durable) = (Lsn(highest(true)), Lsn(highest(false)));
    let mut expected: HashMap<PageId, (Lsn, u64)> = HashMap::new();
    let records = log.records();
    let records: Vec<_> = records
        .into_iter()
        .filter(|(lsn, ..)| *lsn < durable)
        .collect();
    for (lsn, page, value) in &records {
        expected.insert(*page, (*lsn, *value));
    }
    // A page that is ahead of this log is damaged.
    let log = TestLog::ended(durable);
    let store = TestStore::open(disk, 16, &log, &options(protection, 12))?;
    let fork = store.pool.fork(FILE, Fork::Main)?;
    for number in 0..fork.len() {
        fork.read(block(number))?;
    }
    for (lsn, page, value) in &records {
        if *lsn >= redo {
            fork.ensure_len(page.block.0 + 1)?;
            let mut guard = fork.write(page.block)?;
            if guard.lsn() < *lsn {
                guard.mark_dirty(*lsn);
                apply(&mut guard, *lsn, *value);
            }
        }
    }
    for (page, (lsn, value)) in expected {
        let found = fork.read(page.block)?;
        assert_eq!(
            (found.lsn(), found.u64_at(24)),
            (lsn, value),
            "{page}, redo from {redo}"
        );
    }
    Ok(())
}

fn crash_images(seed: u64, protection: TornPageProtection, step: u64) -> usize {
    check_images(seed, &crash_workload(seed, protection), protection, step)
}

fn check_images(
    seed: u64,
    (disk, log): &(SimDisk, Arc<TestLog>),
    protection: TornPageProtection,
    step: u64,
) -> usize {
    let mut damaged = 0;
    for image in disk.images(seed).step(sample(step)) {
        let acknowledged = disk.acknowledged_by(image.index);
        println!("seed {seed} image {} {:?}", image.index, image.outcome);
        match recover_and_compare(&image.disk, log, &acknowledged, protection) {
            Ok(()) => {}
            Err(error @ StorageError::PageDamaged { .. }) => {
                println!("{error}");
                damaged += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    damaged
}

#[test]
fn no_crash_leaves_a_torn_page_or_loses_a_change() {
    let seed: u64 = rand::random();
    assert_eq!(crash_images(seed, DoubleWrite, 7), 0, "seed {seed}");
}

/// Shows that the test above can fail: without the area the same crashes leave torn pages.
#[test]
fn without_the_area_crashes_do_tear_pages() {
    let damaged: usize = (0..4).map(|seed| crash_images(seed, Off, 5)).sum();
    assert!(damaged > 0);
}

/// A start that is itself cut short by a crash is repeated without harm.
#[test]
fn a_crash_during_the_restore_is_survived() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let (disk, log) = crash_workload(seed, DoubleWrite);
    let mut rng = StdRng::seed_from_u64(seed);
    for _ in 0..12 {
        let index = rng.random_range(1..=disk.op_count());
        let acknowledged = disk.acknowledged_by(index);
        let first = disk.image_at(index, rng.random());
        drop(TestStore::open(
            &first,
            16,
            &TestLog::new(None),
            &options(DoubleWrite, 12),
        ));
        let image = first.images(rng.random()).step(3);
        for image in image {
            let result = recover_and_compare(&image.disk, &log, &acknowledged, DoubleWrite);
            assert!(
                result.is_ok(),
                "seed {seed} crash at {index}, then {}: {result:?}",
                image.index
            );
        }
    }
}

#[test]
fn every_block_of_a_segment_border_is_written_where_it_belongs() {
    let disk = SimDisk::new(15);
    let (store, log) = fresh(&disk, 128, TEST_SEGMENT * 3, 64);
    for number in 0..TEST_SEGMENT * 3 {
        change(&store, &log, number, u64::from(number) + 1);
    }
    store.checkpoint(&log).expect("sound");
    drop(store);
    let (pool, _) = open_pool(&disk, 16);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    assert_eq!(fork.len(), TEST_SEGMENT * 3);
    for number in 0..TEST_SEGMENT * 3 {
        assert_eq!(
            fork.read(block(number)).expect("whole").u64_at(24),
            u64::from(number) + 1
        );
    }
    assert_eq!(page_id(3).block, block(3));
}

/// Whether a deliberate bug shows in the crash images that the honest store passes.
fn is_caught(mutant: Mutant) -> bool {
    (0..12).any(|seed| {
        // The bug is to show in what a crash leaves, not in the workload.
        let run = mutated_workload(seed, DoubleWrite, Some(mutant));
        let check = std::panic::AssertUnwindSafe(|| check_images(seed, &run, DoubleWrite, 3));
        let found = std::panic::catch_unwind(check);
        found.is_err() || found.is_ok_and(|damaged| damaged > 0)
    })
}

/// Between clean and counted a whole checkpoint may pass, which then syncs nothing.
#[test]
fn a_frame_made_clean_before_its_write_is_counted_is_caught() {
    let lost = |mutant: Option<Mutant>| {
        let disk = SimDisk::new(19);
        let (store, log) = fresh(&disk, 64, 4, 64);
        // Of the growth; what is not counted later must not be covered by it.
        store.writer.sync_all().expect("sound");
        if let Some(mutant) = mutant {
            store.poison.mutate(mutant);
        }
        change(&store, &log, 2, 7);
        let target = log.insert_lsn();
        std::thread::scope(|scope| {
            let write = scope.spawn(|| store.writer.write_dirty_before(target, &mut |_, _| {}));
            while store.pool.min_first_dirtied().is_some() {
                std::thread::yield_now();
            }
            store.writer.sync_all().expect("sound");
            let after = disk.crash_with(Outcome::Nothing, 1);
            write.join().expect("no panic").expect("sound");
            let (pool, _) = open_pool(&after, 16);
            let fork = pool.fork(FILE, Fork::Main).expect("opens");
            fork.len() < 3 || fork.read(block(2)).expect("whole").u64_at(24) != 7
        })
    };
    assert!(!lost(None));
    assert!(lost(Some(Mutant::CleanBeforeCount)));
}

#[test]
fn a_write_that_is_not_counted_is_caught() {
    assert!(is_caught(Mutant::CountLost));
}

#[test]
fn gaps_are_closed_with_pages_in_memory_and_nothing_else() {
    struct Closing;
    impl WritePace for Closing {
        fn gap(&mut self) -> usize {
            2
        }
        fn wrote(&mut self, _: Piece) {}
    }
    for protection in [DoubleWrite, Off] {
        let disk = SimDisk::new(16);
        let log = TestLog::new(Some(disk.clone()));
        let options = options(protection, 64);
        let store = TestStore::open(&disk, 64, &log, &options).expect("opens");
        let fork = store.pool.fork(FILE, Fork::Main).expect("opens");
        fork.extend(TEST_SEGMENT).expect("space");
        for number in 0..TEST_SEGMENT {
            change(&store, &log, number, 1);
        }
        store.checkpoint(&log).expect("sound");
        let before = store.writer.stats();
        // Gaps of two, of three, and of two again.
        for number in [0, 3, 7, 10] {
            change(&store, &log, number, 2);
        }
        let target = log.insert_lsn();
        let stats = store
            .writer
            .write_paced(target, &mut Closing)
            .expect("sound");
        assert_eq!((stats.due, stats.written, stats.fillers), (4, 4, 4));
        let after = store.writer.stats();
        assert_eq!(after.home_writes - before.home_writes, 2);
        assert_eq!(store.pool.min_first_dirtied(), None);
        store.writer.sync_all().expect("sound");
        let disk = disk.crash_with(Outcome::Nothing, 1);
        let store = TestStore::open(&disk, 64, &log, &options).expect("opens");
        for number in 0..TEST_SEGMENT {
            let expected = if [0, 3, 7, 10].contains(&number) {
                2
            } else {
                1
            };
            assert_eq!(value_of(&store, number), expected);
        }
    }
}

#[test]
fn a_page_cleaned_and_changed_again_is_left_to_the_next_cycle() {
    let disk = SimDisk::new(17);
    let (store, log) = fresh(&disk, 64, 40, 64);
    for number in 0..40 {
        change(&store, &log, number, 1);
    }
    let target = log.insert_lsn();
    // With the first batch (of 15) the others are cleaned and changed again, by others.
    let mut first = true;
    let stats = store
        .writer
        .write_dirty_before(target, &mut |done, _| {
            if std::mem::take(&mut first) {
                assert!(done < 20);
                for number in 20..40 {
                    let fork = store.pool.fork(FILE, Fork::Main).expect("opens");
                    let page = page_id(number);
                    let id = fork.resident_frame(block(number)).expect("in the pool");
                    let mut image = [0; PAGE_SIZE];
                    let copied = store.pool.begin_write(page, id, &mut image, false, &*log);
                    assert!(copied.is_some());
                    store.pool.end_write([id].into_iter()).expect("begun");
                    change(&store, &log, number, 2);
                }
            }
        })
        .expect("sound");
    assert_eq!((stats.due, stats.written), (40, 20));
    assert_eq!(store.pool.census().dirty, 20);
}

#[test]
fn who_drops_a_file_hurries_the_write_out() {
    struct Slow<'a>(&'a TestStore, u64);
    impl WritePace for Slow<'_> {
        fn piece(&mut self) -> Option<usize> {
            Some(1)
        }
        fn wrote(&mut self, _: Piece) {
            self.1 += 1;
            let start = std::time::Instant::now();
            while self.1 == 1 && !self.0.writer.is_awaited() {
                assert!(start.elapsed().as_secs() < 20, "nobody hurries");
                std::thread::yield_now();
            }
        }
    }
    let disk = SimDisk::new(18);
    let (store, log) = fresh(&disk, 64, 1, 64);
    let file = FileId(200);
    let fork = store.pool.create_file(file).expect("space");
    fork.extend(12).expect("space");
    for number in (0..12).step_by(2) {
        log.change(&mut fork.write(block(number)).expect("extended"), 1);
    }
    drop(fork);
    let target = log.insert_lsn();
    std::thread::scope(|scope| {
        let write = scope.spawn(|| store.writer.write_paced(target, &mut Slow(&store, 0)));
        while store.writer.stats().pages == 0 {
            std::thread::yield_now();
        }
        store.pool.drop_file(file).expect("sound");
        write.join().expect("no panic").expect("sound");
    });
    assert!(!store.writer.is_awaited());
}

fn page_bytes(number: u32) -> std::ops::Range<u64> {
    let start = u64::from(number) * PAGE_SIZE as u64;
    start..start + PAGE_SIZE as u64
}

/// Six pages with an image each in the area, and none of them anywhere but at home.
fn six_pages(seed: u64) -> (SimDisk, Arc<TestLog>) {
    let disk = SimDisk::new(seed);
    let (store, log) = fresh(&disk, 64, 6, 64);
    for value in 1..4 {
        for number in 0..6 {
            change(&store, &log, number, value);
        }
        store.checkpoint(&log).expect("sound");
    }
    (disk.crash(1), log)
}

/// OUT-5: a home page that cannot be read is as good as torn, and its neighbours in
/// the same read are whole.
#[test]
fn a_home_page_that_cannot_be_read_is_restored() {
    let (disk, log) = six_pages(20);
    let home = format!("{DIR}/base/7");
    disk.make_unreadable(home.as_ref(), page_bytes(2))
        .expect("there");
    spoil_home(&disk, 4);
    let store = TestStore::open(&disk, 64, &log, &options(DoubleWrite, 64)).expect("opens");
    let restored = store.writer.restored();
    assert_eq!(
        (restored.checked, restored.restored, restored.damaged),
        (6, 2, 0)
    );
    for number in 0..6 {
        assert_eq!(value_of(&store, number), 3, "block {number}");
    }
}

/// OUT-5: what the area cannot give back stays an error of whoever reads it.
#[test]
fn an_unreadable_page_without_a_readable_image_stays_unreadable() {
    let (disk, log) = six_pages(21);
    let home = format!("{DIR}/base/7");
    disk.make_unreadable(home.as_ref(), page_bytes(2))
        .expect("there");
    let path = area_path(Path::new(DIR), 0);
    let file = disk.open(&path, OpenOptions::read_only()).expect("there");
    let is_header = |slot: &u32| {
        let mut magic = [0; 8];
        file.read_exact_at(&mut magic, page_bytes(*slot).start)
            .expect("read");
        magic == *b"evkl-dwb"
    };
    let last = (1..64).filter(is_header).max().expect("a batch");
    // Of block 2, after the header and the images of blocks 0 and 1.
    disk.make_unreadable(&path, page_bytes(last + 3))
        .expect("there");
    let store = TestStore::open(&disk, 64, &log, &options(DoubleWrite, 64)).expect("opens");
    let restored = store.writer.restored();
    assert_eq!(
        (restored.checked, restored.restored, restored.damaged),
        (6, 0, 1)
    );
    let fork = store.pool.fork(FILE, Fork::Main).expect("opens");
    assert!(fork.pin(block(2)).is_err(), "not a page of zeroes");
    for number in [0, 1, 3, 4, 5] {
        assert_eq!(value_of(&store, number), 3, "block {number}");
    }
}

/// OUT-5: an area that cannot be read gives no images, is given up, and its images
/// never come back.
#[test]
fn an_unreadable_area_does_not_keep_the_store_shut() {
    let (disk, log) = six_pages(22);
    let path = area_path(Path::new(DIR), 0);
    disk.make_unreadable(&path, page_bytes(0)).expect("there");
    let store = TestStore::open(&disk, 64, &log, &options(DoubleWrite, 64)).expect("opens");
    assert_eq!(store.writer.restored().checked, 0);
    for number in 0..6 {
        assert_eq!(value_of(&store, number), 3, "block {number}");
    }
    // It is the file taken into use.
    assert_eq!(active(&disk), [0]);
    assert_images_count(&disk, &store, &log);

    let (disk, log) = six_pages(22);
    let store = TestStore::open(&disk, 64, &log, &options(DoubleWrite, 64)).expect("opens");
    assert_eq!(active(&disk), [1]);
    store.writer.shutdown().expect("sound");
    drop(store);
    disk.make_unreadable(&path, page_bytes(0)).expect("there");
    let store = TestStore::open(&disk, 64, &log, &options(DoubleWrite, 64)).expect("opens");
    // The other file is used, and the images of this one do not come back.
    assert_eq!(active(&disk), [1]);
    let file = disk.open(&path, OpenOptions::read_only()).expect("there");
    let header = read_header(&*file).expect("readable again");
    assert!(header.is_some_and(|header| !header.active));
    assert_images_count(&disk, &store, &log);
}

/// OUT-5: a crash between taking one file into use and retiring the other leaves both active. The
/// next start takes one of them into use, and retires the other alone.
#[test]
fn a_crash_that_leaves_both_area_files_active_is_survived() {
    let (disk, log) = six_pages(23);
    let begin = disk.op_count();
    drop(TestStore::open(&disk, 64, &log, &options(DoubleWrite, 64)).expect("opens"));
    let image = |index: u64| disk.image_with(index, Outcome::Everything, 1);
    let both = (begin..=disk.op_count()).find(|index| active(&image(*index)) == [0, 1]);
    let disk = image(both.expect("one file is retired after the other is in use"));
    spoil_home(&disk, 4);
    let store = TestStore::open(&disk, 64, &log, &options(DoubleWrite, 64)).expect("opens");
    let restored = store.writer.restored();
    assert_eq!((restored.checked, restored.restored), (6, 1));
    assert_eq!(value_of(&store, 4), 3);
    assert_eq!(active(&disk).len(), 1);
    assert_images_count(&disk, &store, &log);
}

/// A page that is torn by a crash now is restored from the area by the next start.
fn assert_images_count(disk: &SimDisk, store: &TestStore, log: &Arc<TestLog>) {
    change(store, log, 5, 99);
    store.checkpoint(log).expect("sound");
    let disk = disk.crash(2);
    spoil_home(&disk, 5);
    let store = TestStore::open(&disk, 64, log, &options(DoubleWrite, 64)).expect("opens");
    let restored = store.writer.restored();
    assert_eq!(
        (restored.checked, restored.restored, restored.damaged),
        (1, 1, 0)
    );
    assert_eq!(value_of(&store, 5), 99);
}
